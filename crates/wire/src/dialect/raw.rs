//! Builders for compact JSON from values that are JSON already.

use std::fmt::Write as _;

use crate::json::{Value, quote};

/// An object under construction. Members keep their order and values their spelling.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    /// Key and value, both as JSON.
    members: Vec<(String, String)>,
}

impl Object {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Copies the members of `value` with their spelling.
    pub(crate) fn of(value: Value<'_, '_>) -> Self {
        let members = value.members().map(|m| (m.key.raw().to_owned(), m.value.raw().to_owned()));
        Self { members: members.collect() }
    }

    pub(crate) fn raw(mut self, name: &str, json: impl Into<String>) -> Self {
        self.members.push((quote(name), json.into()));
        self
    }

    /// Inserts a member before all others.
    pub(crate) fn first(mut self, name: &str, json: &str) -> Self {
        self.members.insert(0, (quote(name), json.to_owned()));
        self
    }

    pub(crate) fn text(self, name: &str, text: &str) -> Self {
        self.raw(name, quote(text))
    }

    pub(crate) fn number(self, name: &str, number: u64) -> Self {
        self.raw(name, number.to_string())
    }

    pub(crate) fn maybe(self, name: &str, json: Option<String>) -> Self {
        match json {
            Some(json) => self.raw(name, json),
            None => self,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let key = quote(name);
        self.members.iter().rfind(|(k, _)| *k == key).map(|(_, json)| json.as_str())
    }

    /// Replaces a value, or appends a member.
    pub(crate) fn set(&mut self, name: &str, json: impl Into<String>) {
        let key = quote(name);
        match self.members.iter_mut().rfind(|(k, _)| *k == key) {
            Some((_, old)) => *old = json.into(),
            None => self.members.push((key, json.into())),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        let key = quote(name);
        self.members.retain(|(k, _)| *k != key);
    }

    pub(crate) fn json(&self) -> String {
        let size = self.members.iter().map(|(k, v)| k.len() + v.len() + 2).sum::<usize>() + 2;
        let mut out = String::with_capacity(size);
        out.push('{');
        for (index, (key, json)) in self.members.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(out, "{comma}{key}:{json}").expect("writing to a String cannot fail");
        }
        out.push('}');
        out
    }
}

/// Formats an array: `[a,b,…]`.
pub(crate) fn array<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let mut out = String::from("[");
    for item in items {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(item.as_ref());
    }
    out.push(']');
    out
}

/// Splits `text` into chunks of `size` characters. An empty text has none.
pub(crate) fn chunks(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(size.max(1)).map_or(rest.len(), |(at, _)| at);
        let (chunk, after) = rest.split_at(end);
        rest = after;
        (!chunk.is_empty()).then_some(chunk)
    })
}
