//! A JSON value with its pointer, for decoders.

use std::borrow::Cow;
use std::ops::Range;

use crate::json::{Document, JsonError, Value, ValueKind};

use super::DecodeError;

/// The position of a value in the decoded body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonLocation {
    /// The JSON pointer.
    pub pointer: String,
    /// The byte range, with quotes and brackets.
    pub span: Range<usize>,
}

/// A value and its pointer.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a, 'd> {
    pub(crate) value: Value<'a, 'd>,
    pub(crate) pointer: String,
}

impl<'a, 'd> Cursor<'a, 'd> {
    /// Returns the root of a body, which must be an object.
    pub(crate) fn root(document: &'d Document<'a>) -> Result<Self, DecodeError> {
        let value = document.root();
        if value.kind() != ValueKind::Object {
            return Err(DecodeError::NotAnObject);
        }
        Ok(Self { value, pointer: String::new() })
    }

    /// Returns a member, unless it is `null`.
    pub(crate) fn get(&self, name: &str) -> Option<Self> {
        self.member(name).filter(|member| !member.value.is_null())
    }

    /// Returns a member, whatever its value.
    pub(crate) fn member(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name)?;
        Some(Self { value, pointer: child_pointer(&self.pointer, &escape_token(name)) })
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'a, 'd, '_> {
        let numbered = self.value.items().enumerate();
        numbered
            .map(|(index, value)| Self { value, pointer: child_pointer(&self.pointer, &index.to_string()) })
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.value.str_at(name).map(|text| text.into_owned())
    }

    /// Returns a string member, or the empty string.
    pub(crate) fn text_or_empty(&self, name: &str) -> String {
        self.text(name).unwrap_or_default()
    }

    /// Returns the member `type`, or the empty string.
    pub(crate) fn kind(&self) -> String {
        self.text_or_empty("type")
    }

    /// Returns a whole number, or 0.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.value.get(name).and_then(|value| value.as_u64()).unwrap_or(0)
    }

    /// Returns a number of tokens. Some providers write `1.5e3` or `"1500"`.
    pub(crate) fn tokens(&self, name: &str) -> u64 {
        let Some(value) = self.value.get(name) else { return 0 };
        let count = value.as_str().and_then(|text| text.trim().parse().ok());
        let count = count.or_else(|| value.as_u64());
        // Fractions are cut off, and negative numbers become 0.
        count.or_else(|| value.as_f64().map(|number| number as u64)).unwrap_or(0)
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

/// Appends a token to a pointer, in one allocation because a long history has thousands of pointers.
fn child_pointer(pointer: &str, token: &str) -> String {
    [pointer, "/", token].concat()
}

/// Escapes a member's name for a pointer.
pub(crate) fn escape_token(name: &str) -> Cow<'_, str> {
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
