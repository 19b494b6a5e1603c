//! JSON that keeps its bytes.
//!
//! A [`Document`] is a view of the original text. Every [`Value`] knows its byte range, objects keep the order and
//! the duplicates of their members, and numbers keep their spelling. To change something, create [`Edits`] and
//! apply them to the original bytes. There is no serializer that could rewrite other bytes.

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

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number, in any spelling.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// One value in the flat list, in document order. The members of an object alternate key and value.
#[derive(Clone, Copy, Debug)]
struct Node {
    kind: ValueKind,
    start: u32,
    end: u32,
    /// Index of the first node after this value and its descendants.
    next: u32,
}

/// A parsed JSON text and the bytes it was parsed from.
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

impl<'a> Document<'a> {
    /// Parses exactly one JSON value, with white space around it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, JsonError> {
        parse::parse(bytes)
    }

    /// Returns the outermost value.
    pub fn root(&self) -> Value<'a, '_> {
        Value { doc: self, index: 0 }
    }

    /// Returns the original text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the JSON pointer of the innermost value that contains `offset`.
    ///
    /// A key belongs to its member. The space between values belongs to the enclosing value.
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

    /// Returns the type.
    pub fn kind(&self) -> ValueKind {
        self.node().kind
    }

    /// Returns the byte range in the document, with quotes and brackets.
    pub fn span(&self) -> Range<usize> {
        let node = self.node();
        node.start as usize..node.end as usize
    }

    /// Returns the original text.
    pub fn raw(&self) -> &'a str {
        &self.doc.text[self.span()]
    }

    /// Returns the byte range of a string without its quotes.
    pub fn inner_span(&self) -> Option<Range<usize>> {
        let span = self.span();
        (self.kind() == ValueKind::String).then(|| span.start + 1..span.end - 1)
    }

    /// Returns the value of a string.
    pub fn as_str(&self) -> Option<Cow<'a, str>> {
        self.inner_span().map(|span| unescape(&self.doc.text[span]))
    }

    /// Returns a number that has no sign, fraction or exponent.
    pub fn as_u64(&self) -> Option<u64> {
        (self.kind() == ValueKind::Number).then(|| self.raw().parse().ok()).flatten()
    }

    /// Returns a number.
    pub fn as_f64(&self) -> Option<f64> {
        (self.kind() == ValueKind::Number).then(|| self.raw().parse().ok()).flatten()
    }

    /// Returns `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        (self.kind() == ValueKind::Bool).then(|| self.raw() == "true")
    }

    /// Returns true for `null`.
    pub fn is_null(&self) -> bool {
        self.kind() == ValueKind::Null
    }

    /// Iterates over the members of an object in order, with duplicates. Other types have none.
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

    /// Iterates over the items of an array in order. Other types have none.
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

    /// Returns this value and all its descendants in document order, without keys.
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

    /// Returns the member with the given name. Of duplicates the last one counts, as in every common parser.
    pub fn get(&self, name: &str) -> Option<Value<'a, 'd>> {
        self.members().filter(|m| m.is(name)).last().map(|m| m.value)
    }

    /// Returns the value at a JSON pointer (`""` is this value).
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

    /// Returns the value of a string member.
    pub fn str_at(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.as_str()
    }
}

/// One member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a, 'd> {
    /// The key, which is a string.
    pub key: Value<'a, 'd>,
    /// The value.
    pub value: Value<'a, 'd>,
}

impl<'a> Member<'a, '_> {
    /// Returns the key without quotes and escapes.
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
