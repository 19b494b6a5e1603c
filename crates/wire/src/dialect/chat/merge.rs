//! How deltas add up: the rules by which pieces of JSON become one.
//!
//! Strings that tell who or what keep their first value, other strings are joined, list items with
//! an `index` meet their like, other items are appended, and of anything else the last word counts.
//! `null` never takes anything back.

use crate::dialect::accumulate::Log;
use crate::dialect::cursor::token;
use crate::dialect::raw::array;
use crate::json::{Kind, Value, quote};
use crate::sse::Frame;

/// A value on its way.
#[derive(Debug)]
pub(super) enum Tree {
    /// Spelled as it came.
    Raw(String),
    /// The raw inside of a growing string.
    Text(String),
    /// Items, with the index they go by where they have one.
    List(Vec<(Option<u64>, Tree)>),
    /// Members in the order they were first seen.
    Map(Vec<(String, Tree)>),
}

/// Strings that are said once, even where a provider repeats them in every delta.
const ONCE: &[&str] = &["role", "id", "type", "name", "format", "call_id"];

/// Deeper than anything that grows; beyond it the last word counts.
const MAX_DEPTH: usize = 8;

/// Where a delta stands.
pub(super) struct Place<'a> {
    pub(super) frame: &'a Frame,
    /// The pointer in the message.
    pub(super) pointer: String,
    /// The member's name.
    pub(super) name: String,
    pub(super) depth: usize,
}

impl Place<'_> {
    fn member(&self, name: &str) -> Place<'_> {
        let pointer = format!("{}/{}", self.pointer, token(name));
        Place { frame: self.frame, pointer, name: name.to_owned(), depth: self.depth + 1 }
    }

    fn item(&self, index: usize) -> Place<'_> {
        let pointer = format!("{}/{index}", self.pointer);
        Place { frame: self.frame, pointer, name: String::new(), depth: self.depth + 1 }
    }
}

impl Tree {
    pub(super) fn null() -> Self {
        Self::Raw("null".to_owned())
    }

    /// Adds a delta.
    pub(super) fn add(&mut self, delta: Value<'_, '_>, place: &Place<'_>, log: &mut Log) {
        let fresh = matches!(self, Self::Raw(raw) if raw == "null");
        match delta.kind() {
            Kind::Null => {}
            _ if place.depth > MAX_DEPTH => *self = Self::Raw(delta.raw().to_owned()),
            Kind::String if ONCE.contains(&place.name.as_str()) => {
                if fresh || matches!(self, Self::Raw(raw) if raw == "\"\"") {
                    *self = Self::Raw(delta.raw().to_owned());
                }
            }
            Kind::String => self.add_text(delta, place, log),
            Kind::Array => self.add_items(delta, place, log),
            Kind::Object => self.add_members(delta, place, log),
            Kind::Bool | Kind::Number => *self = Self::Raw(delta.raw().to_owned()),
        }
    }

    fn add_text(&mut self, delta: Value<'_, '_>, place: &Place<'_>, log: &mut Log) {
        if !matches!(self, Self::Text(_)) {
            *self = Self::Text(String::new());
        }
        let Self::Text(text) = self else { return };
        log.join(place.frame, delta, place.pointer.clone(), text);
    }

    fn add_items(&mut self, delta: Value<'_, '_>, place: &Place<'_>, log: &mut Log) {
        if !matches!(self, Self::List(_)) {
            *self = Self::List(Vec::new());
        }
        let Self::List(list) = self else { return };
        for item in delta.items() {
            let index = item.get("index").and_then(|index| index.as_u64());
            let known = index.and_then(|_| list.iter().position(|(at, _)| *at == index));
            let at = known.unwrap_or_else(|| {
                list.push((index, Self::null()));
                list.len() - 1
            });
            match index {
                Some(_) => list[at].1.add(item, &place.item(at), log),
                None => list[at].1 = Self::Raw(item.raw().to_owned()),
            }
        }
    }

    fn add_members(&mut self, delta: Value<'_, '_>, place: &Place<'_>, log: &mut Log) {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(Vec::new());
        }
        let Self::Map(map) = self else { return };
        for member in delta.members() {
            let name = member.name();
            let known = map.iter().position(|(known, _)| *known == name);
            let at = known.unwrap_or_else(|| {
                map.push((name.clone().into_owned(), Self::null()));
                map.len() - 1
            });
            map[at].1.add(member.value, &place.member(&name), log);
        }
    }

    /// Takes a member away from every item: the number that only a stream needs.
    pub(super) fn without(&mut self, name: &str) {
        let Self::List(list) = self else { return };
        for (_, item) in list {
            if let Self::Map(map) = item {
                map.retain(|(member, _)| member != name);
            }
        }
    }

    pub(super) fn json(&self) -> String {
        match self {
            Self::Raw(raw) => raw.clone(),
            Self::Text(inner) => format!("\"{inner}\""),
            Self::List(list) => array(list.iter().map(|(_, item)| item.json())),
            Self::Map(map) => {
                let members: Vec<_> =
                    map.iter().map(|(name, tree)| format!("{}:{}", quote(name), tree.json())).collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }
}
