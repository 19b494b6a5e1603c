//! Front matter: the YAML between two lines of `---` at the top of a file, and the text below.

use serde_json::{Map, Value};

/// An error in a definition file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct DefinitionError {
    /// The line, from 1.
    pub line: usize,
    /// The error.
    pub why: String,
}

impl DefinitionError {
    pub(super) fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

/// A file, split into front matter and text.
#[derive(Debug)]
pub(super) struct Front {
    /// The keys, in order.
    pub(super) keys: Vec<Key>,
    /// The text, without empty lines around it.
    pub(super) body: String,
    /// True if there is front matter.
    pub(super) is_there: bool,
}

/// One key of the front matter.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) value: Value,
}

impl Front {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, DefinitionError> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            DefinitionError::at(line, "the file is not UTF-8")
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines();
        if lines.next().map(str::trim_end) != Some("---") {
            return Ok(Self { keys: Vec::new(), body: text.trim().to_owned(), is_there: false });
        }
        let mut yaml = String::new();
        let mut is_closed = false;
        for line in lines.by_ref() {
            if line.trim_end() == "---" {
                is_closed = true;
                break;
            }
            yaml += line;
            yaml.push('\n');
        }
        if !is_closed {
            return Err(DefinitionError::at(1, "the front matter is not closed: a line `---` is missing"));
        }
        let map = parse(&yaml).or_else(|broken| parse(&quoted(&yaml)).map_err(|_| broken))?;
        let key = |(name, value): (String, Value)| Key { line: line_of(&yaml, &name), name, value };
        let body = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
        Ok(Self { keys: map.into_iter().map(key).collect(), body, is_there: true })
    }
}

fn parse(yaml: &str) -> Result<Map<String, Value>, DefinitionError> {
    let says_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if yaml.lines().all(says_nothing) {
        return Ok(Map::new());
    }
    // `no`, `on` and `y` are strings, as in YAML 1.2.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        let line = error.location().map_or(1, |at| usize::try_from(at.line()).unwrap_or(1));
        let mut why = error.without_snippet().to_string();
        if why.contains("from_str_multiple") {
            why = "a line `...` ends it too early".to_owned();
        }
        // The line is counted from the start of the file.
        let why = why.split(" at line ").next().unwrap_or(&why).trim_end_matches([':', ' ']);
        let why = why.split(", set DuplicateKeyPolicy").next().unwrap_or(why).to_owned();
        DefinitionError::at(line + 1, format!("the front matter is not YAML: {why}"))
    })
}

/// Quotes every value that is not YAML on its line: people write `description: Use this: like that` and
/// `argument-hint: [file] [line]`.
fn quoted(yaml: &str) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some((key, value)) if is_plain_key(key) && !is_multiline(value.trim()) && parse(line).is_err() => {
            format!("{key}: '{}'\n", value.trim().replace('\'', "''"))
        }
        _ => format!("{line}\n"),
    };
    yaml.lines().map(line).collect()
}

/// Returns whether a value may end on a later line.
fn is_multiline(value: &str) -> bool {
    let ends = |last| value.ends_with(last);
    match value.chars().next() {
        Some('[') => !ends(']'),
        Some('{') => !ends('}'),
        first => first.is_some_and(|first| "\"'|>&*!".contains(first)),
    }
}

fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// Returns the line of a key in the file, whose first line is the `---`.
fn line_of(yaml: &str, key: &str) -> usize {
    let is_it = |line: &str| {
        let line = line.trim_start_matches(['"', '\'']);
        line.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    };
    yaml.lines().position(is_it).map_or(1, |at| at + 2)
}
