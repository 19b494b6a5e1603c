//! The parser: one pass, without recursion, strict about grammar.

use thiserror::Error;

use super::text::clean_strides;
use super::{Document, Node, ValueKind};

/// Maximum depth of nested values. Hostile input then costs no more than its length.
pub const MAX_DEPTH: usize = 512;

/// Error: a text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} at byte {offset}")]
pub struct JsonError {
    /// The offset at which the parser stopped.
    pub offset: usize,
    /// A description of the mistake.
    pub what: &'static str,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Document<'_>, JsonError> {
    let text =
        std::str::from_utf8(bytes).map_err(|e| JsonError { offset: e.valid_up_to(), what: "not UTF-8" })?;
    if u32::try_from(text.len()).is_err() {
        return Err(JsonError { offset: 0, what: "longer than 4 GiB" });
    }
    let mut parser =
        Parser { bytes, at: 0, nodes: Vec::with_capacity(bytes.len() / 24 + 1), open: Vec::new() };
    parser.run()?;
    Ok(Document { text, nodes: parser.nodes })
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    /// Indices of the open arrays and objects.
    open: Vec<u32>,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        loop {
            let opened = self.read_value()?;
            if opened && !self.close_if_empty() {
                self.read_key_if_object()?;
                continue;
            }
            if !self.after_value()? {
                break;
            }
        }
        self.skip_space();
        if self.at < self.bytes.len() {
            return Err(self.error("unexpected text after the value"));
        }
        Ok(())
    }

    /// Reads a scalar, or the opening bracket of a container (then returns true).
    fn read_value(&mut self) -> Result<bool, JsonError> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'"') => {
                self.read_string()?;
                ValueKind::String
            }
            Some(b'{' | b'[') => {
                if self.open.len() == MAX_DEPTH {
                    return Err(self.error("nested too deep"));
                }
                let kind = if self.peek() == Some(b'{') { ValueKind::Object } else { ValueKind::Array };
                self.at += 1;
                self.open.push(self.nodes.len() as u32);
                self.push(kind, start);
                self.skip_space();
                return Ok(true);
            }
            Some(b't') => self.read_word(b"true", ValueKind::Bool)?,
            Some(b'f') => self.read_word(b"false", ValueKind::Bool)?,
            Some(b'n') => self.read_word(b"null", ValueKind::Null)?,
            Some(b'-' | b'0'..=b'9') => {
                self.read_number()?;
                ValueKind::Number
            }
            Some(_) => return Err(self.error("expected a value")),
            None => return Err(self.error("unexpected end of text, expected a value")),
        };
        self.push(kind, start);
        Ok(false)
    }

    /// Closes the containers that end after a value. Returns true at the next value.
    fn after_value(&mut self) -> Result<bool, JsonError> {
        loop {
            self.skip_space();
            let Some(&container) = self.open.last() else { return Ok(false) };
            let closing = if self.nodes[container as usize].kind == ValueKind::Object { b'}' } else { b']' };
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.skip_space();
                    self.read_key_if_object()?;
                    return Ok(true);
                }
                Some(byte) if byte == closing => self.close(),
                Some(_) => return Err(self.error("expected a comma or a closing bracket")),
                None => return Err(self.error("unexpected end of text inside an array or object")),
            }
        }
    }

    fn close_if_empty(&mut self) -> bool {
        let empty = matches!(self.peek(), Some(b'}' | b']'))
            && (self.peek() == Some(b'}')) == (self.innermost() == Some(ValueKind::Object));
        if empty {
            self.close();
        }
        empty
    }

    fn close(&mut self) {
        self.at += 1;
        let container = self.open.pop().expect("called only inside a container") as usize;
        self.nodes[container].end = self.at as u32;
        self.nodes[container].next = self.nodes.len() as u32;
    }

    fn read_key_if_object(&mut self) -> Result<(), JsonError> {
        if self.innermost() != Some(ValueKind::Object) {
            return Ok(());
        }
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a key"));
        }
        self.read_string()?;
        self.push(ValueKind::String, start);
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.error("expected a colon after the key"));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    fn innermost(&self) -> Option<ValueKind> {
        self.open.last().map(|&index| self.nodes[index as usize].kind)
    }

    fn push(&mut self, kind: ValueKind, start: usize) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { kind, start: start as u32, end: self.at as u32, next });
    }

    fn read_string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        loop {
            self.at += clean_strides(&self.bytes[self.at..]);
            let rest = &self.bytes[self.at..];
            let plain = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20);
            self.at += plain.unwrap_or(rest.len());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.read_escape()?,
                Some(_) => return Err(self.error("control character in a string")),
                None => return Err(self.error("unexpected end of text inside a string")),
            }
        }
    }

    fn read_escape(&mut self) -> Result<(), JsonError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..self.at + 6);
                if !digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.error("unknown escape"));
                }
                self.at += 6;
            }
            _ => return Err(self.error("unknown escape")),
        }
        Ok(())
    }

    fn read_number(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.read_digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.read_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.read_digits()?;
        }
        Ok(())
    }

    fn read_digits(&mut self) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.error("invalid number"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn read_word(&mut self, word: &'static [u8], kind: ValueKind) -> Result<ValueKind, JsonError> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.error("expected a value"));
        }
        self.at += word.len();
        Ok(kind)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn error(&self, what: &'static str) -> JsonError {
        JsonError { offset: self.at, what }
    }
}
