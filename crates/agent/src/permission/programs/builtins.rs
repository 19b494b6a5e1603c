//! Built-ins of the shell that set variables or evaluate words.

use super::super::line::{Content, Word};
use super::super::token::{POSITIONAL, Scan, Token};
use super::super::variables;

/// Built-ins that set variables or evaluate words, and are not followed behind another program.
pub(super) const EVALUATING: &str = "export declare typeset readonly local read let trap set shopt test [ mapfile readarray wait unset getopts printf hash jobs";

/// Returns the number of words before the command behind `command` and `builtin`.
pub(super) fn prefix(words: &[Word]) -> usize {
    let mut at = 0;
    while let Some("command" | "builtin") = words.get(at).and_then(Word::plain) {
        at += 1;
        at += options(&words[at..]);
    }
    at
}

/// Returns the number of options of `command` and `builtin` that change nothing here.
pub(super) fn options(words: &[Word]) -> usize {
    words.iter().take_while(|word| matches!(word.plain(), Some("-p" | "--"))).count()
}

/// Handles built-ins that set variables or evaluate words. Returns whether it was one.
pub(super) fn built_in(scan: &mut Scan, name: &str, words: &[Word], tokens: &[Token], depth: usize) -> bool {
    let tokens = tokens.get(1..).unwrap_or_default();
    match name {
        "export" | "declare" | "typeset" | "readonly" | "local" => declare(scan, name, tokens, depth),
        "getopts" => variables::set_named(scan, words.get(1).unwrap_or(&Word::anything())),
        "read" | "unset" | "mapfile" | "readarray" | "wait" => named(scan, name, words),
        "printf" => match words.first().map(Word::plain) {
            Some(Some("-v")) => variables::set_named(scan, words.get(1).unwrap_or(&Word::anything())),
            Some(Some(format)) if format.starts_with("-v") => scan.line.set_unresolved("`printf -v`"),
            Some(None) if !words[0].text().starts_with(|c: char| c.is_alphanumeric()) => {
                scan.line.set_unresolved("`printf` with an unknown format")
            }
            _ => {}
        },
        "let" => {
            for word in words {
                match word.plain() {
                    Some(text) => variables::arithmetic(scan, text, depth),
                    None => scan.line.set_unresolved("`let` evaluates an unknown text"),
                }
            }
        }
        "test" | "[" => {
            let end = tokens.len() - usize::from(tokens.last().is_some_and(|last| last.text == "]"));
            variables::condition(scan, &tokens[..end], false);
        }
        "set" => set(scan, words),
        "shopt" => {
            let harmless = ["-s", "-u", "-q", "nullglob", "globstar", "dotglob", "failglob", "nocaseglob"];
            if !words.iter().all(|word| word.plain().is_some_and(|word| harmless.contains(&word))) {
                scan.line.set_unresolved("`shopt` changes how the line is read");
            }
        }
        "hash" | "jobs" => {
            if words.iter().any(|word| word.plain().is_none_or(|word| word.starts_with('-'))) {
                scan.line.set_unresolved(format!("`{name}` with options"));
            }
        }
        "trap" => match words.iter().find(|word| word.plain() != Some("--")).map(Word::plain) {
            Some(Some(line)) => scan.script(line, depth + 1),
            Some(None) => scan.line.set_unresolved("`trap` runs an unknown text"),
            None => {}
        },
        _ => return false,
    }
    true
}

/// Handles `export NAME=VALUE` and the like.
fn declare(scan: &mut Scan, built_in: &str, tokens: &[Token], depth: usize) {
    scan.line.is_more = true;
    let has_x = |token: &Token| token.text.starts_with('-') && token.text.contains('x');
    let exports = built_in == "export" || tokens.iter().any(has_x);
    for token in tokens {
        // Quotes around the name change nothing here.
        let literal = if token.is_literal() { token.text.split_once('=') } else { None };
        if let Some((name, value)) = literal.or_else(|| token.assignment()) {
            let name = name.strip_suffix('+').unwrap_or(name);
            match exports {
                true => variables::export(scan, name, value, token, depth),
                false => variables::assign(scan, name, value, token, depth),
            }
        } else if !token.is_literal() {
            scan.line.set_unresolved("a variable without a fixed name is set");
        } else if token.text.starts_with(['-', '+']) && token.text.contains(['i', 'n']) {
            scan.line.set_unresolved("an attribute that evaluates values");
        } else if exports {
            variables::is_exported(scan, &token.text);
        }
    }
}

/// Handles built-ins whose words are names of variables.
fn named(scan: &mut Scan, name: &str, words: &[Word]) {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.plain() {
            Some(option) if option.starts_with('-') && option.len() > 1 => {
                if option.contains(['C', 'c']) && matches!(name, "mapfile" | "readarray") {
                    scan.line.set_unresolved(format!("`{name}` runs a command"));
                    for text in words.clone().filter_map(Word::plain) {
                        scan.script(text, 8);
                    }
                }
                // Options of `read` with a value.
                if name == "read" && option.ends_with(['d', 'i', 'n', 'N', 'p', 't', 'u']) {
                    words.next();
                }
            }
            Some(number)
                if matches!(name, "wait") && number.starts_with(|c: char| c.is_ascii_digit() || c == '%') => {
            }
            None if name == "wait" => {}
            _ => variables::set_named(scan, word),
        }
    }
}

/// Handles `set`, some of whose options change how the line is read.
fn set(scan: &mut Scan, words: &[Word]) {
    let mut is_name = false;
    for word in words {
        match word.plain() {
            Some("--" | "-") => return scan.facts.assign(POSITIONAL, Content::Unknown),
            Some(name) if is_name => {
                let harmless = [
                    "pipefail",
                    "errexit",
                    "nounset",
                    "xtrace",
                    "noglob",
                    "noclobber",
                    "verbose",
                    "errtrace",
                ];
                if !harmless.contains(&name) {
                    scan.line.set_unresolved("`set` changes how the line is read");
                }
                is_name = false;
            }
            Some(letters) if letters.starts_with(['-', '+']) => {
                if !letters[1..].chars().all(|c| "euxvfCEo".contains(c)) {
                    scan.line.set_unresolved("`set` changes how the line is read");
                }
                is_name = letters.ends_with('o');
            }
            Some(_) => return scan.facts.assign(POSITIONAL, Content::Unknown),
            None => return scan.line.set_unresolved("`set` with unknown options"),
        }
    }
}
