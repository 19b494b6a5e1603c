//! Merges the deltas of a message.
//!
//! Identifying strings keep their first value, and other strings are joined. List items with an `index` are merged
//! with the item of that index, and other items are appended. Of any other value the last one counts, except
//! `null`, which changes nothing. A call with a name and another id than the call of its index is a new call. A
//! call without index, id and name continues the last one. A text in a list of parts becomes a part.

use crate::dialect::builder::Log;
use crate::dialect::cursor::escape_token;
use crate::dialect::raw::array;
use crate::json::{Value, ValueKind, quote};
use crate::sse::Frame;

/// A value that deltas extend.
#[derive(Debug)]
pub(super) enum Tree {
    /// A value as it was received.
    Raw(String),
    /// The raw content of a string that deltas extend.
    Text(String),
    /// List items with their `index`, if they have one.
    List(Vec<(Option<u64>, Tree)>),
    /// Members in the order of their first appearance.
    Map(Vec<(String, Tree)>),
}

/// Strings that keep their first value, because some providers repeat them in every delta.
const ONCE: &[&str] = &["role", "id", "type", "name", "format", "call_id"];

/// Maximum depth of merging. Below it the last value counts.
const MAX_DEPTH: usize = 8;

/// The position of a delta.
pub(super) struct DeltaContext<'a> {
    pub(super) frame: &'a Frame,
    /// The pointer in the message.
    pub(super) pointer: String,
    /// The name of the member.
    pub(super) name: String,
    pub(super) depth: usize,
}

impl DeltaContext<'_> {
    fn member(&self, name: &str) -> DeltaContext<'_> {
        let pointer = format!("{}/{}", self.pointer, escape_token(name));
        DeltaContext { frame: self.frame, pointer, name: name.to_owned(), depth: self.depth + 1 }
    }

    fn item(&self, index: usize) -> DeltaContext<'_> {
        let pointer = format!("{}/{index}", self.pointer);
        DeltaContext { frame: self.frame, pointer, name: String::new(), depth: self.depth + 1 }
    }
}

impl Tree {
    pub(super) fn null() -> Self {
        Self::Raw("null".to_owned())
    }

    /// Merges a delta into this value.
    pub(super) fn add(&mut self, delta: Value<'_, '_>, place: &DeltaContext<'_>, log: &mut Log) {
        let fresh = matches!(self, Self::Raw(raw) if raw == "null");
        match delta.kind() {
            ValueKind::Null => {}
            _ if place.depth > MAX_DEPTH => *self = Self::Raw(delta.raw().to_owned()),
            ValueKind::String if ONCE.contains(&place.name.as_str()) => {
                if fresh || matches!(self, Self::Raw(raw) if raw == "\"\"") {
                    *self = Self::Raw(delta.raw().to_owned());
                }
            }
            ValueKind::String => self.add_text(delta, place, log),
            ValueKind::Array => self.add_items(delta, place, log),
            ValueKind::Object => self.add_members(delta, place, log),
            ValueKind::Bool | ValueKind::Number => *self = Self::Raw(delta.raw().to_owned()),
        }
    }

    fn add_text(&mut self, delta: Value<'_, '_>, place: &DeltaContext<'_>, log: &mut Log) {
        if let Self::List(parts) = self {
            let at = text_part(parts);
            let place = place.item(at);
            return parts[at].1.member("text").add_text(delta, &place.member("text"), log);
        }
        if !matches!(self, Self::Text(_)) {
            *self = Self::Text(String::new());
        }
        let Self::Text(text) = self else { return };
        log.join(place.frame, delta, place.pointer.clone(), text);
    }

    fn add_items(&mut self, delta: Value<'_, '_>, place: &DeltaContext<'_>, log: &mut Log) {
        match self {
            Self::List(_) => {}
            Self::Text(text) if !text.is_empty() => {
                let text = Self::Text(std::mem::take(text));
                *self = Self::List(vec![(None, Self::Map(vec![type_text(), ("text".to_owned(), text)]))]);
            }
            _ => *self = Self::List(Vec::new()),
        }
        let Self::List(list) = self else { return };
        let are_calls = place.name == "tool_calls";
        for item in delta.items() {
            let index = item.get("index").and_then(|index| index.as_u64());
            let at = find_item(list, index, item, are_calls).unwrap_or_else(|| {
                list.push((index, Self::null()));
                list.len() - 1
            });
            match index {
                None if !are_calls => list[at].1 = Self::Raw(item.raw().to_owned()),
                _ => list[at].1.add(item, &place.item(at), log),
            }
        }
    }

    fn add_members(&mut self, delta: Value<'_, '_>, place: &DeltaContext<'_>, log: &mut Log) {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(Vec::new());
        }
        for member in delta.members() {
            let name = member.name();
            self.member(&name).add(member.value, &place.member(&name), log);
        }
    }

    /// Returns a member. Makes this value a map if it is none.
    fn member(&mut self, name: &str) -> &mut Self {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(Vec::new());
        }
        let Self::Map(map) = self else { unreachable!("it was made one") };
        let known = map.iter().position(|(known, _)| known == name);
        let at = known.unwrap_or_else(|| {
            map.push((name.to_owned(), Self::null()));
            map.len() - 1
        });
        &mut map[at].1
    }

    /// Returns a string member that is not empty, as JSON.
    fn string_member(&self, name: &str) -> Option<&str> {
        let Self::Map(map) = self else { return None };
        match map.iter().find(|(known, _)| known == name)? {
            (_, Self::Raw(raw)) if raw.len() > 2 && raw.starts_with('"') => Some(raw),
            _ => None,
        }
    }

    /// Removes a member from every item. Used for the index, which only a stream needs.
    pub(super) fn remove_from_items(&mut self, name: &str) {
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

/// Finds the earlier list item that an item continues.
fn find_item(
    list: &[(Option<u64>, Tree)],
    index: Option<u64>,
    item: Value<'_, '_>,
    are_calls: bool,
) -> Option<usize> {
    let like = |at: usize| index.is_some() && list[at].0 == index;
    let said =
        |name: &str| item.get(name).map(|value| value.raw()).filter(|raw| !["\"\"", "null"].contains(raw));
    if !are_calls {
        // Some providers give their reasoning and its signature the same index.
        let kind = said("type");
        let of_kind = |at: &usize| {
            kind.is_none() || list[*at].1.string_member("type").is_none_or(|old| Some(old) == kind)
        };
        return (0..list.len()).rev().find(|at| like(*at) && of_kind(at));
    }
    let named = ["function", "custom"].iter().filter_map(|kind| item.get(kind)?.get("name"));
    let begins = named.map(|name| name.raw()).any(|name| !["\"\"", "null"].contains(&name));
    // Some servers repeat the id in every delta, some invent a new one each time, and some give all calls index 0.
    let same = said("id")
        .and_then(|id| (0..list.len()).rev().find(|at| list[*at].1.string_member("id") == Some(id)));
    let unnamed = |at: &usize| list[*at].1.string_member("id").is_none() || said("id").is_none() || !begins;
    same.or_else(|| match index {
        Some(_) => (0..list.len()).rev().find(|at| like(*at)).filter(unnamed),
        None => list.len().checked_sub(1).filter(|_| said("id").is_none() && !begins),
    })
}

/// Returns the index of the last part if deltas extend its text. Otherwise appends a part.
fn text_part(parts: &mut Vec<(Option<u64>, Tree)>) -> usize {
    let grows =
        |tree: &Tree| matches!(tree, Tree::Map(map) if matches!(map.last(), Some((_, Tree::Text(_)))));
    if !parts.last().is_some_and(|(_, last)| grows(last)) {
        parts.push((None, Tree::Map(vec![type_text()])));
    }
    parts.len() - 1
}

fn type_text() -> (String, Tree) {
    ("type".to_owned(), Tree::Raw("\"text\"".to_owned()))
}
