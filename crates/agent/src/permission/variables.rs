//! Variables of a command line: assignments that make other programs run something, and places where the shell
//! evaluates a value.

use std::borrow::Cow;

use super::line::{Content, EXPANSION, Needs, Word, base};
use super::token::{Scan, Token, is_in, is_name};

/// Variables whose value some program runs as a command.
const COMMANDS: &str = "EDITOR VISUAL PAGER MANPAGER LESSOPEN LESSCLOSE BROWSER SHELL CC CXX LD AR RUSTC RUSTDOC \
    GIT_SSH GIT_EXTERNAL_DIFF RSYNC_RSH CVS_RSH NPM_CONFIG_GIT NPM_CONFIG_VIEWER NPM_CONFIG_BROWSER";

/// Endings of names whose value some program runs as a command.
const COMMAND_ENDINGS: &[&str] = &[
    "_WRAPPER",
    "_LINKER",
    "_RUNNER",
    "_COMMAND",
    "_CMD",
    "_EDITOR",
    "_PAGER",
    "_SHELL",
    "_LAUNCHER",
    "_COMPILER",
    "_RUSTC",
    "_RUSTDOC",
    "_ASKPASS",
    "_HELPER",
];

/// Endings of names whose value some program takes for its options.
const OPTION_ENDINGS: &[&str] = &["FLAGS", "OPTS", "OPTIONS", "OPT", "_ARGS"];

/// Parts of options with which a program runs a text or loads a file.
const RUNNING_OPTIONS: &[&str] =
    &["eval", "require", "import", "loader", "OnError", "OnOutOfMemory", "command", "checkpoint-action"];

/// Variables that change what the shell, the loader or an interpreter runs.
const FORBIDDEN: &str = "ENV PS0 PS1 PS2 PS3 PS4 HOME PWD OLDPWD CDPATH FPATH SHELLOPTS PROMPT_COMMAND GLOBIGNORE EXECIGNORE \
    ZDOTDIR NODE_PATH MAKEFILES GCONV_PATH OPENSSL_CONF XDG_CONFIG_HOME PYTEST_PLUGINS PHPRC PHP_INI_SCAN_DIR \
    DOTNET_STARTUP_HOOKS NPM_CONFIG_USERCONFIG NPM_CONFIG_GLOBALCONFIG";

/// Beginnings of such names.
const FORBIDDEN_BEGINNINGS: &[&str] =
    &["BASH", "LD_", "PERL5", "PYTHON", "RUBY", "GIT_CONFIG", "GIT_EXEC", "GIT_TEMPLATE", "LUA_INIT"];

/// Variables that people set all the time and that no program runs, whatever their value.
const HARMLESS: &str = "PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONPATH PATH IFS LANG LANGUAGE TZ TERM \
    COLUMNS LINES TMPDIR RUST_LOG RUST_BACKTRACE CARGO_TARGET_DIR SOURCE_DATE_EPOCH PGPASSWORD GH_TOKEN GITHUB_TOKEN";

/// Beginnings of such names.
const HARMLESS_BEGINNINGS: &[&str] = &["LC_", "GIT_AUTHOR_", "GIT_COMMITTER_"];

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
    if names_options(bare) {
        options(scan, bare, value);
    }
    let is_appended = token.text[name.len().min(token.text.len())..].starts_with("+=");
    scan.facts.values.push((bare.to_owned(), value_needs(scan, bare, value, token, is_appended)));
    let content = match token.content(value) {
        content if name == bare && (!is_appended || content == Content::Number) => content,
        _ => Content::Unknown,
    };
    set(scan, bare, content);
}

/// Handles an assignment that programs see: before a program, or of an exported variable.
pub(super) fn export(scan: &mut Scan, name: &str, value: &str, token: &Token, depth: usize) {
    assign(scan, name, value, token, depth);
    is_exported(scan, name);
}

/// Notes that programs see a variable.
pub(super) fn is_exported(scan: &mut Scan, name: &str) {
    if !is_harmless(name) {
        scan.facts.exported.insert(name.to_owned());
    }
}

/// Returns what the variables in a value must hold so that they hide nothing. Returns `None` if other parts may.
fn value_needs(scan: &Scan, name: &str, value: &str, token: &Token, is_appended: bool) -> Needs {
    if is_appended || token.other || joins_letters(&token.text) || is_expanded_later(value) {
        return None;
    }
    let content = if token.variable_value() { Content::Names } else { Content::Number };
    // `X="$X …"` adds to what the environment has.
    let is_own = |variable: &&String| *variable == name && !scan.facts.variables.contains_key(name);
    let variables = token.variables.iter().filter(|variable| !is_own(variable));
    Some(variables.map(|variable| (variable.clone(), content)).collect())
}

/// Characters between the words and commands of a line.
const SEPARATORS: &[char] = &[' ', '\t', '\n', ';', '|', '&'];

/// Returns whether a program that expands its variables, such as `make` or a shell, makes another text of the value.
fn is_expanded_later(value: &str) -> bool {
    let begins =
        |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "_({@*<^+?%$!'".contains(c));
    let is_line = value.starts_with(['/', '~', '.']) || value.contains(SEPARATORS);
    let is_pattern = |part: &str| part.contains(['*', '?', '[', '{']) && !part.contains("://");
    value.contains('`')
        || value.split('$').skip(1).any(begins)
        || (is_line && value.split(SEPARATORS).any(is_pattern))
}

/// Returns whether an expansion has letters on both sides. An empty one would make one name of them.
fn joins_letters(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let mut parts = text.split(EXPANSION).filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        if part.ends_with(is_letter) && parts.peek().is_some_and(|next| next.starts_with(is_letter)) {
            return true;
        }
    }
    false
}

/// Handles a value that a program takes for its options.
fn options(scan: &mut Scan, name: &str, value: &str) {
    is_exported(scan, name);
    let words: Vec<&str> = value.split_whitespace().collect();
    let runs = |word: &&str| *word == "-r" || RUNNING_OPTIONS.iter().any(|part| word.contains(part));
    if words.iter().any(runs) {
        scan.line.set_unresolved(format!("an option in `{name}` may run a program"));
    }
    let files = words.iter().filter(|word| word.contains('/')).map(|word| base(word).to_owned());
    scan.facts.run.extend(files);
}

/// Returns the name as programs see it: npm reads its settings in small letters, too.
fn upper(name: &str) -> Cow<'_, str> {
    match name.starts_with("npm_config_") {
        true => name.to_ascii_uppercase().into(),
        false => name.into(),
    }
}

fn names_command(name: &str) -> bool {
    let name = upper(name);
    is_in(COMMANDS, &name) || COMMAND_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn names_options(name: &str) -> bool {
    let name = upper(name);
    // A variable with a general name, such as `FLAGS`, is one of the line itself.
    OPTION_ENDINGS.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending))
        && !FORBIDDEN_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

fn is_harmless(name: &str) -> bool {
    is_in(HARMLESS, name) || HARMLESS_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Notes that a variable is set to something.
pub(super) fn set(scan: &mut Scan, name: &str, content: Content) {
    let is_forbidden = is_in(FORBIDDEN, &upper(name))
        || (FORBIDDEN_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) && !is_harmless(name));
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
        Some(name) if is_name(name) => {
            scan.facts.values.push((name.to_owned(), None));
            if names_options(name) {
                is_exported(scan, name);
            }
            set(scan, name, Content::Unknown);
        }
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
