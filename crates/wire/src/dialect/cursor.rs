//! A JSON value together with the pointer that leads to it: decoders carry both.

use std::borrow::Cow;
use std::ops::Range;

use crate::json::{Document, JsonError, Value, ValueKind};

use super::DecodeError;

/// Where a value stands in the body it was decoded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonLocation {
    /// Its JSON pointer.
    pub pointer: String,
    /// Its bytes, quotes and brackets included.
    pub span: Range<usize>,
}

/// A value and its pointer.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a, 'd> {
    pub(crate) value: Value<'a, 'd>,
    pub(crate) pointer: String,
}

impl<'a, 'd> Cursor<'a, 'd> {
    /// The body itself, which is an object in all dialects.
    pub(crate) fn root(document: &'d Document<'a>) -> Result<Self, DecodeError> {
        let value = document.root();
        if value.kind() != ValueKind::Object {
            return Err(DecodeError::NotAnObject);
        }
        Ok(Self { value, pointer: String::new() })
    }

    /// The member of that name, unless it is `null`.
    pub(crate) fn get(&self, name: &str) -> Option<Self> {
        self.member(name).filter(|member| !member.value.is_null())
    }

    /// The member of that name, whatever it is.
    pub(crate) fn member(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name)?;
        Some(Self { value, pointer: below(&self.pointer, &token(name)) })
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'a, 'd, '_> {
        let numbered = self.value.items().enumerate();
        numbered.map(|(index, value)| Self { value, pointer: below(&self.pointer, &index.to_string()) })
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.value.str_at(name).map(|text| text.into_owned())
    }

    /// A string member; the empty string where it is missing.
    pub(crate) fn text_or_empty(&self, name: &str) -> String {
        self.text(name).unwrap_or_default()
    }

    /// Its `type`; the empty string where it has none.
    pub(crate) fn kind(&self) -> String {
        self.text_or_empty("type")
    }

    /// A whole number, 0 where it is missing.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.value.get(name).and_then(|value| value.as_u64()).unwrap_or(0)
    }

    /// A count of tokens. Some write `1.5e3` or `"1500"`, and mean it.
    pub(crate) fn tokens(&self, name: &str) -> u64 {
        let Some(value) = self.value.get(name) else { return 0 };
        let told = value.as_str().and_then(|text| text.trim().parse().ok());
        let told = told.or_else(|| value.as_u64());
        // A fraction of a token is none, and less than nothing is nothing.
        told.or_else(|| value.as_f64().map(|number| number as u64)).unwrap_or(0)
    }

    pub(crate) fn is_string(&self) -> bool {
        self.value.kind() == ValueKind::String
    }

    pub(crate) fn is_array(&self) -> bool {
        self.value.kind() == ValueKind::Array
    }

    pub(crate) fn place(&self) -> JsonLocation {
        JsonLocation { pointer: self.pointer.clone(), span: self.value.span() }
    }
}

/// A pointer with one token more. A long history has thousands of them, so it is put together in one piece.
fn below(pointer: &str, token: &str) -> String {
    [pointer, "/", token].concat()
}

/// A member's name as a pointer has it.
pub(crate) fn token(name: &str) -> Cow<'_, str> {
    match name.contains(['~', '/']) {
        true => Cow::Owned(name.replace('~', "~0").replace('/', "~1")),
        false => Cow::Borrowed(name),
    }
}

impl From<JsonError> for DecodeError {
    fn from(error: JsonError) -> Self {
        Self::NotJson(error)
    }
}
