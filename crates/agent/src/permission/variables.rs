//! Variables of a command line: assignments that make other programs run something, and places where the shell
//! evaluates a value.

use super::line::{Content, Word};
use super::token::{Scan, Token, is_in, is_name};

/// Variables whose value some program runs as a command.
const COMMANDS: &str = "EDITOR VISUAL PAGER MANPAGER LESSOPEN LESSCLOSE BROWSER SHELL CC CXX LD AR RUSTC RUSTDOC \
    SUDO_ASKPASS SSH_ASKPASS GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS GIT_SSH \
    GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND RSYNC_RSH CVS_RSH TAR_OPTIONS";

/// Endings of names whose value some program runs as a command.
const COMMAND_ENDINGS: &[&str] =
    &["_WRAPPER", "_LINKER", "_RUNNER", "_COMMAND", "_CMD", "_EDITOR", "_PAGER", "_SHELL"];

/// Variables that change what the shell, the loader or an interpreter runs.
const FORBIDDEN: &str = "ENV PS0 PS1 PS2 PS3 PS4 HOME PWD OLDPWD CDPATH FPATH SHELLOPTS PROMPT_COMMAND GLOBIGNORE EXECIGNORE \
    ZDOTDIR NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS MAKEFLAGS GCONV_PATH OPENSSL_CONF XDG_CONFIG_HOME";

/// Beginnings of such names.
const FORBIDDEN_BEGINNINGS: &[&str] =
    &["BASH", "LD_", "PERL5", "PYTHON", "RUBY", "GIT_CONFIG", "GIT_EXEC", "GIT_TEMPLATE"];

/// Harmless Python settings that people set all the time.
const HARMLESS: &[&str] = &["PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONPATH"];

/// Handles `NAME=VALUE`.
pub(super) fn assign(scan: &mut Scan, name: &str, value: &str, token: &Token, depth: usize) {
    let bare = match name.split_once('[') {
        None => name,
        Some((bare, subscript)) => {
            let digits = subscript.strip_suffix(']').unwrap_or("x");
            if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
                scan.line.set_unresolved("an unusual subscript");
            }
            bare
        }
    };
    match (names_command(bare), token.is_literal()) {
        (true, true) => scan.script(value, depth + 1),
        (true, false) => scan.line.set_unresolved(format!("the value of `{bare}` is run")),
        (false, _) => {}
    }
    let content = if name == bare { token.content(value) } else { Content::Unknown };
    set(scan, bare, content);
}

fn names_command(name: &str) -> bool {
    is_in(COMMANDS, name) || COMMAND_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Notes that a variable is set to something.
pub(super) fn set(scan: &mut Scan, name: &str, content: Content) {
    let is_forbidden = is_in(FORBIDDEN, name)
        || (FORBIDDEN_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
            && !HARMLESS.contains(&name));
    if is_forbidden {
        scan.line.set_unresolved(format!("`{name}` changes what is run"));
    }
    scan.facts.changes_path |= name == "PATH";
    scan.facts.assign(name, content);
}

/// Handles a word that names a variable which a built-in sets.
pub(super) fn set_named(scan: &mut Scan, word: &Word) {
    match word.plain() {
        Some(name) if names_command(name) => {
            scan.line.set_unresolved(format!("the value of `{name}` is run"))
        }
        Some(name) if is_name(name) => set(scan, name, Content::Unknown),
        _ => scan.line.set_unresolved("a variable without a fixed name is set"),
    }
}

/// Handles arithmetic, in which the shell evaluates the values of names.
pub(super) fn arithmetic(scan: &mut Scan, text: &str, depth: usize) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " \t\n_+-*/%<>=!&|?:,();$^~".contains(c);
    let is_parameter = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !text.chars().all(is_plain) || text.split('$').skip(1).any(is_parameter) {
        scan.line.set_unresolved("unusual arithmetic");
        return scan.script(text, depth + 1);
    }
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for name in names.filter(|name| is_name(name)) {
        scan.facts.need(name, Content::Number);
        // An assignment in arithmetic makes a number of it.
        if text.contains('=') {
            set(scan, name, Content::Number);
        }
    }
}

/// Operators of conditions that compare numbers.
const NUMERIC: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Handles the words of `[[ … ]]`, or of `[` and `test`.
pub(super) fn condition(scan: &mut Scan, tokens: &[Token], is_double: bool) {
    let literal = |token: &Token| token.is_literal().then(|| token.text.clone());
    for (at, token) in tokens.iter().enumerate() {
        let operator = literal(token);
        match operator.as_deref() {
            // These take the name of a variable, whose subscript is evaluated.
            Some("-v" | "-R" | "-o") => {
                let name = tokens.get(at + 1).and_then(literal);
                let is_or = operator.as_deref() == Some("-o") && !is_double;
                if !is_or && !name.is_some_and(|name| is_name(&name)) {
                    scan.line.set_unresolved("a condition evaluates a name");
                }
            }
            Some(operator) if is_double && NUMERIC.contains(&operator) => {
                let before = at.checked_sub(1).and_then(|at| tokens.get(at));
                for side in [before, tokens.get(at + 1)] {
                    evaluated(scan, side);
                }
            }
            Some(_) => {}
            None if is_double => {}
            None => unknown_operand(scan, tokens, at),
        }
    }
}

/// Handles an operand that `[[ … ]]` evaluates as arithmetic.
fn evaluated(scan: &mut Scan, token: Option<&Token>) {
    let Some(token) = token else { return scan.line.set_unresolved("an unusual condition") };
    match &token.variable {
        Some(name) => scan.facts.need(name, Content::Number),
        None if token.is_literal() && is_name(&token.text) => scan.facts.need(&token.text, Content::Number),
        None if token.content(&token.text) == Content::Number => {}
        None => scan.line.set_unresolved("a condition evaluates a value"),
    }
}

/// Handles an operand of `[` with unknown text, which must not be taken for `-v`.
fn unknown_operand(scan: &mut Scan, tokens: &[Token], at: usize) {
    let token = &tokens[at];
    let is_operator = |other: Option<&Token>| {
        other.is_some_and(|other| {
            let text = other.text.as_str();
            other.is_literal()
                && (matches!(text, "=" | "==" | "!=" | "<" | ">")
                    || NUMERIC.contains(&text)
                    || (text.len() == 2
                        && text.starts_with('-')
                        && !matches!(text, "-v" | "-R" | "-o" | "-a"))
                    || matches!(text, "-nt" | "-ot" | "-ef"))
        })
    };
    let before = at.checked_sub(1).and_then(|at| tokens.get(at));
    let is_alone = tokens.len() == 1;
    if !(is_alone || is_operator(before) || is_operator(tokens.get(at + 1))) {
        return scan.line.set_unresolved("a condition with an unknown operator");
    }
    if token.may_be_several() {
        match &token.variable {
            Some(name) => scan.facts.need(name, Content::Simple),
            // `$#`, `$?` and arithmetic are one number.
            None if token.content(&token.text) == Content::Number => {}
            None => scan.line.set_unresolved("a condition with an unknown number of words"),
        }
    }
}
