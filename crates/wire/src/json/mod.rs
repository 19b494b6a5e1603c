//! JSON that remembers its bytes.
//!
//! A [`Document`] is a view over the original text: every [`Value`] knows its byte range, object
//! members keep their order and their duplicates, and numbers keep their spelling. To change
//! something, make [`Edits`] and apply them to the original bytes; there is no serializer here that
//! could rewrite what was not touched.

mod edit;
mod parse;
mod peek;
mod text;
mod truncated;

use std::borrow::Cow;
use std::ops::Range;

pub use edit::{Edit, Edits, Overlap};
pub use parse::{JsonError, MAX_DEPTH};
pub use peek::peek_string;
pub use text::{StringPiece, escape_into, quote, string_pieces, unescape};
pub use truncated::close_truncated;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number, in whatever spelling.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// One value in the flat list, in document order; an object's members alternate key, value.
#[derive(Clone, Copy, Debug)]
struct Node {
    kind: ValueKind,
    start: u32,
    end: u32,
    /// Index of the first node behind this value and everything in it.
    next: u32,
}

/// A parsed JSON text and the bytes it was parsed from.
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

impl<'a> Document<'a> {
    /// Parses exactly one JSON value with white space around it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, JsonError> {
        parse::parse(bytes)
    }

    /// The outermost value.
    pub fn root(&self) -> Value<'a, '_> {
        Value { doc: self, index: 0 }
    }

    /// The text that was parsed.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The JSON pointer of the deepest value whose bytes hold `offset`.
    ///
    /// A member's key belongs to the member; the space between values to what encloses it.
    pub fn pointer_at(&self, offset: usize) -> String {
        let mut pointer = String::new();
        let mut here = self.root();
        'deeper: loop {
            for member in here.members() {
                if member.key.span().start <= offset && offset < member.value.span().end {
                    push_token(&mut pointer, &member.name());
                    here = member.value;
                    continue 'deeper;
                }
            }
            for (position, item) in here.items().enumerate() {
                if item.span().contains(&offset) {
                    push_token(&mut pointer, &position.to_string());
                    here = item;
                    continue 'deeper;
                }
            }
            return pointer;
        }
    }
}

fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
}

/// One value of a [`Document`].
#[derive(Clone, Copy)]
pub struct Value<'a, 'd> {
    doc: &'d Document<'a>,
    index: u32,
}

impl std::fmt::Debug for Value<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.span(), self.raw())
    }
}

impl<'a, 'd> Value<'a, 'd> {
    fn node(&self) -> &'d Node {
        &self.doc.nodes[self.index as usize]
    }

    /// What it is.
    pub fn kind(&self) -> ValueKind {
        self.node().kind
    }

    /// Its byte range in the document, quotes and brackets included.
    pub fn span(&self) -> Range<usize> {
        let node = self.node();
        node.start as usize..node.end as usize
    }

    /// Its exact text.
    pub fn raw(&self) -> &'a str {
        &self.doc.text[self.span()]
    }

    /// A string's byte range without its quotes.
    pub fn inner_span(&self) -> Option<Range<usize>> {
        let span = self.span();
        (self.kind() == ValueKind::String).then(|| span.start + 1..span.end - 1)
    }

    /// A string's value.
    pub fn as_str(&self) -> Option<Cow<'a, str>> {
        self.inner_span().map(|span| unescape(&self.doc.text[span]))
    }

    /// A number that is a whole number without sign, fraction or exponent.
    pub fn as_u64(&self) -> Option<u64> {
        (self.kind() == ValueKind::Number).then(|| self.raw().parse().ok()).flatten()
    }

    /// Any number.
    pub fn as_f64(&self) -> Option<f64> {
        (self.kind() == ValueKind::Number).then(|| self.raw().parse().ok()).flatten()
    }

    /// `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        (self.kind() == ValueKind::Bool).then(|| self.raw() == "true")
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.kind() == ValueKind::Null
    }

    /// An object's members in order, duplicates included; nothing for other kinds.
    pub fn members(&self) -> impl Iterator<Item = Member<'a, 'd>> + use<'a, 'd> {
        let doc = self.doc;
        let end = if self.kind() == ValueKind::Object { self.node().next } else { 0 };
        let mut at = self.index + 1;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let key = Value { doc, index: at };
                let value = Value { doc, index: at + 1 };
                at = value.node().next;
                Member { key, value }
            })
        })
    }

    /// An array's items in order; nothing for other kinds.
    pub fn items(&self) -> impl Iterator<Item = Value<'a, 'd>> + use<'a, 'd> {
        let doc = self.doc;
        let end = if self.kind() == ValueKind::Array { self.node().next } else { 0 };
        let mut at = self.index + 1;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let item = Value { doc, index: at };
                at = item.node().next;
                item
            })
        })
    }

    /// Every value in this one, itself first, in document order; keys are not values.
    pub fn walk(&self) -> Vec<Value<'a, 'd>> {
        let mut out = Vec::new();
        let mut ahead = vec![*self];
        while let Some(here) = ahead.pop() {
            out.push(here);
            let first = ahead.len();
            ahead.extend(here.members().map(|member| member.value).chain(here.items()));
            ahead[first..].reverse();
        }
        out
    }

    /// The member of that name; the last one where it is given twice, as every common parser has it.
    pub fn get(&self, name: &str) -> Option<Value<'a, 'd>> {
        self.members().filter(|m| m.is(name)).last().map(|m| m.value)
    }

    /// The value at a JSON pointer (`""` is this value).
    pub fn pointer(&self, pointer: &str) -> Option<Value<'a, 'd>> {
        let mut here = *self;
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            here = match here.kind() {
                ValueKind::Object => here.get(&token)?,
                ValueKind::Array => here.items().nth(token.parse().ok()?)?,
                _ => return None,
            };
        }
        Some(here)
    }

    /// A member's string value, in one step.
    pub fn str_at(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.as_str()
    }
}

/// One member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a, 'd> {
    /// The key, a string value.
    pub key: Value<'a, 'd>,
    /// What it names.
    pub value: Value<'a, 'd>,
}

impl<'a> Member<'a, '_> {
    /// The key's text.
    pub fn name(&self) -> Cow<'a, str> {
        self.key.as_str().expect("the parser takes only strings as keys")
    }

    fn is(&self, name: &str) -> bool {
        let raw = self.key.raw();
        raw[1..raw.len() - 1] == *name || (raw.contains('\\') && self.name() == name)
    }
}

#[cfg(test)]
mod tests;
