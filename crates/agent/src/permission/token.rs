//! Words as they are written, and the state of the reading.

use super::line::{Content, EXPANSION, Facts, Line, UnknownWord, Word};

/// The result so far, for a line and all lines inside it.
pub(super) struct Scan {
    pub(super) line: Line,
    pub(super) facts: Facts,
}

/// Name under which `$1`, `$@` and the like are noted as a variable.
pub(super) const POSITIONAL: &str = "@";

/// A word as it is written.
#[derive(Default)]
pub(super) struct Token {
    /// Its literal text.
    pub(super) text: String,
    /// A part of it is quoted or escaped.
    pub(super) quoted: bool,
    /// It contains an expansion; it is still one word.
    pub(super) value: bool,
    /// It may be several words.
    pub(super) unclear: bool,
    /// Length of the text before the first quote or expansion.
    pub(super) literal: Option<usize>,
    /// It is a number, made of digits and arithmetic.
    pub(super) number: bool,
    /// It has an unquoted `{`.
    pub(super) brace: bool,
    /// It has an unquoted `[`.
    pub(super) bracket: bool,
    /// The variable, if the word is only that variable.
    pub(super) variable: Option<String>,
    /// All variables in it.
    pub(super) variables: Vec<String>,
    /// It has expansions other than variables, numbers and names of files.
    pub(super) other: bool,
}

impl Token {
    pub(super) fn new() -> Self {
        Self { number: true, ..Self::default() }
    }

    /// Returns a literal word.
    pub(super) fn from_text(text: &str) -> Self {
        Self { text: text.to_owned(), number: is_number(text), ..Self::default() }
    }

    pub(super) fn push(&mut self, c: char) {
        self.number &= c.is_ascii_digit() || (c == '-' && self.text.is_empty());
        self.variable = None;
        self.text.push(c);
        // What is behind the name of an assignment counts.
        self.number |= c == '=' && self.literal.is_none() && is_name(self.text.trim_end_matches(['+', '=']));
    }

    pub(super) fn quote(&mut self) {
        self.literal.get_or_insert(self.text.len());
        self.quoted = true;
    }

    /// Adds an expansion. In quotes it stays one word.
    pub(super) fn expand(&mut self, in_quotes: bool, is_number: bool) {
        self.expand_known(in_quotes, is_number);
        self.other |= !is_number;
    }

    /// Adds an expansion that is a variable, a number or the name of a file.
    pub(super) fn expand_known(&mut self, in_quotes: bool, is_number: bool) {
        self.literal.get_or_insert(self.text.len());
        self.number &= is_number;
        self.variable = None;
        self.value = true;
        self.unclear |= !in_quotes;
        self.text.push(EXPANSION);
    }

    pub(super) fn may_be_several(&self) -> bool {
        self.unclear
    }

    pub(super) fn is_literal(&self) -> bool {
        !self.value && !self.unclear
    }

    /// Returns the name and the value of an assignment.
    pub(super) fn assignment(&self) -> Option<(&str, &str)> {
        let (name, value) = self.text.split_once('=')?;
        let is_before = self.literal.is_none_or(|literal| name.len() < literal);
        let name = name.strip_suffix('+').unwrap_or(name);
        let bare = name.split_once('[').map_or(name, |(name, _)| name);
        (is_before && is_name(bare)).then_some((name, value))
    }

    /// Returns whether the word is an assignment whose value is one variable.
    pub(super) fn variable_value(&self) -> bool {
        let value = self.text.split_once('=').map(|(_, value)| value);
        self.variables.len() == 1 && value == Some(EXPANSION.to_string().as_str())
    }

    /// Returns what a variable holds after the word was assigned to it.
    pub(super) fn content(&self, value: &str) -> Content {
        let is_simple = |c: char| c.is_alphanumeric() || "_./:@%+,-".contains(c);
        match () {
            () if self.is_literal() && is_number(value) => Content::Number,
            () if self.value && self.number => Content::Number,
            () if self.is_literal() && !value.starts_with('-') && value.chars().all(is_simple) => {
                Content::Simple
            }
            // A pattern, or the output of a program that lists files.
            () if !self.other
                && self.variables.is_empty()
                && !value.starts_with(['-', '{'])
                && !self.is_literal() =>
            {
                Content::Names
            }
            () => Content::Unknown,
        }
    }

    pub(super) fn word(&self) -> Word {
        if self.is_literal() {
            return Word::Plain(self.text.clone());
        }
        Word::Unknown(UnknownWord {
            text: self.text.clone(),
            is_one: !self.unclear,
            variables: self.variables.clone(),
            is_other: self.other,
        })
    }
}

pub(super) fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() < 20 && digits.chars().all(|c| c.is_ascii_digit())
}

/// Returns whether a text is the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns whether a list of names, separated by blanks, has this name.
pub(super) fn is_in(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == name)
}
