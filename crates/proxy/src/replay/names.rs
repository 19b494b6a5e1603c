//! Names that a harness invents in each run, such as ids and folders: the recorded ones, and the live ones for them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use session::{Block, Reply};
use wire::dialect::Prompt;
use wire::json::Document;
use wire::rename::{Renames, id_numbers};

use super::align::align;
use super::digest::digest;
use super::parts::{PartKey, new_parts};
use super::segments::words_beside_names;
use super::tokens::{is_generated, labelled_ids, possible_names, tokens};

/// Number of requests in which the live name is looked up.
const MAX_SIGHTINGS: usize = 3;

/// Finds the names in a recording: words of a reply that occurred in an earlier request. A word that anyone may use counts
/// only if a tool result contained it and the model passed it alone as an argument.
#[derive(Debug, Default)]
pub(super) struct NameFinder {
    /// The parts of requests in which each possible name occurred, by its digest.
    sightings: HashMap<u64, Vec<(usize, PartKey)>>,
    /// Digests of the texts that were searched.
    searched: HashSet<u64>,
    /// Names that the model used before any request did: the model invented them.
    by_model: HashSet<u64>,
    names: Vec<String>,
    known: HashSet<u64>,
}

/// The names of a recording, with the parts of requests that contain them.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedNames {
    /// By exchange number.
    parts: HashMap<usize, Vec<NamedPart>>,
}

/// A part of a recorded request and the names in it.
#[derive(Clone, Debug)]
struct NamedPart {
    key: PartKey,
    text: String,
    names: Vec<String>,
}

/// The live name for each recorded name.
#[derive(Clone, Debug, Default)]
pub(super) struct NameMap {
    live: HashMap<String, String>,
    recorded: HashMap<String, String>,
    conflicts: Vec<NameConflict>,
    renames: Renames,
}

/// A pair of names that contradicts an earlier pair. The earlier pair stays.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NameConflict {
    /// The recorded name.
    pub recorded: String,
    /// Its live name, or the recorded name that has `also` as live name.
    pub is: String,
    /// The other live name.
    pub also: String,
}

impl NameFinder {
    /// Searches the new parts of a request.
    pub(super) fn add_request(&mut self, n: usize, prompt: &Prompt) {
        for (key, text) in new_parts(prompt) {
            if !self.searched.insert(digest(text.as_bytes())) {
                continue;
            }
            let is_result = matches!(key, PartKey::Result(_));
            let labelled = if is_result { labelled_ids(&text) } else { Vec::new() };
            let names = possible_names(&text).into_iter().filter(|name| is_result || is_generated(name));
            for name in names.chain(labelled) {
                let seen = self.sightings.entry(digest(name.as_bytes())).or_default();
                if seen.len() < MAX_SIGHTINGS && seen.last().is_none_or(|last| *last != (n, key.clone())) {
                    seen.push((n, key.clone()));
                }
            }
        }
    }

    /// Searches a reply.
    pub(super) fn add_reply(&mut self, reply: &Reply) {
        for block in &reply.blocks {
            let is_call = matches!(block, Block::ToolCall(_));
            let texts = texts(block);
            // An argument of one word names something, whatever the word is.
            let alone = texts.iter().map(String::as_str).filter(|text| is_call && tokens(text).len() == 1);
            let named = texts
                .iter()
                .flat_map(|text| possible_names(text))
                .filter(|name| is_generated(name) || (is_call && texts.iter().any(|text| text == name)));
            for name in named.chain(alone) {
                let key = digest(name.as_bytes());
                match self.sightings.contains_key(&key) && !self.by_model.contains(&key) {
                    true if self.known.insert(key) => self.names.push(name.to_owned()),
                    true => {}
                    false => {
                        self.by_model.insert(key);
                    }
                }
            }
        }
    }

    /// Returns the names with the parts that contain them. `load` decodes the request of an exchange.
    pub(super) fn finish(self, mut load: impl FnMut(usize) -> Option<Prompt>) -> RecordedNames {
        let mut wanted: HashMap<usize, Vec<(PartKey, String)>> = HashMap::new();
        for name in self.names {
            for (n, key) in self.sightings.get(&digest(name.as_bytes())).into_iter().flatten() {
                wanted.entry(*n).or_default().push((key.clone(), name.clone()));
            }
        }
        let mut parts = HashMap::new();
        for (n, wanted) in wanted {
            let Some(prompt) = load(n) else { continue };
            let named = new_parts(&prompt).into_iter().filter_map(|(key, text)| {
                let here = wanted.iter().filter(|(wanted, _)| *wanted == key);
                let names: Vec<String> = here.map(|(_, name)| name.clone()).collect();
                (!names.is_empty()).then_some(NamedPart { key, text, names })
            });
            parts.insert(n, named.collect());
        }
        RecordedNames { parts }
    }
}

impl RecordedNames {
    /// Learns live names from the request that was matched with the recorded exchange `n`.
    pub(super) fn learn(&self, n: usize, prompt: &Prompt, map: &mut NameMap) {
        let Some(parts) = self.parts.get(&n) else { return };
        let live: Vec<(PartKey, String)> = new_parts(prompt);
        for part @ NamedPart { text, names, .. } in parts {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let Some(live) = counterpart(part, &names, &live) else { continue };
            for (recorded, live) in align(text, live, &names) {
                map.insert(recorded, &live);
            }
        }
    }
}

/// Returns the live text for a recorded part: the result of the same call, or the only text that says the same apart from
/// its names, or the text at the same place.
fn counterpart<'l>(part: &NamedPart, names: &[&str], live: &'l [(PartKey, String)]) -> Option<&'l str> {
    let at_same_place = || live.iter().find(|(key, _)| *key == part.key).map(|(_, text)| text.as_str());
    if !matches!(part.key, PartKey::Text(_)) {
        return at_same_place();
    }
    let said = words_beside_names(&part.text, names);
    let says_same = |(key, text): &&(PartKey, String)| {
        matches!(key, PartKey::Text(_)) && words_beside_names(text, names) == said
    };
    let mut same = live.iter().filter(says_same);
    match (same.next(), same.next()) {
        (Some((_, text)), None) => Some(text),
        _ => at_same_place(),
    }
}

impl NameMap {
    /// Adds a pair of names. An earlier pair stays, and two recorded names never get the same live name.
    fn insert(&mut self, recorded: &str, live: &str) {
        match (self.live.get(recorded), self.recorded.get(live)) {
            (Some(known), _) if known == live => {}
            (Some(known), _) => self.add_conflict(recorded, known.clone(), live),
            (None, Some(known)) => self.add_conflict(recorded, known.clone(), live),
            (None, None) => {
                self.live.insert(recorded.to_owned(), live.to_owned());
                self.recorded.insert(live.to_owned(), recorded.to_owned());
                if recorded != live {
                    self.renames = Renames::new(self.changed().into_iter().chain(self.exchanged()));
                }
            }
        }
    }

    fn add_conflict(&mut self, recorded: &str, is: String, also: &str) {
        let conflict = NameConflict { recorded: recorded.to_owned(), is, also: also.to_owned() };
        if !self.conflicts.contains(&conflict) {
            self.conflicts.push(conflict);
        }
    }

    /// Returns the pairs that close a circle: a recorded name without a live one, whose own spelling is now the live name of
    /// another, has the one that this leaves free. Otherwise a reply would name the other's thing.
    fn exchanged(&self) -> Vec<(String, String)> {
        let is_open = |name: &&String| !self.live.contains_key(*name);
        let free = |name: &String| {
            let mut at = name;
            while let Some(before) = self.recorded.get(at) {
                at = before;
            }
            at.clone()
        };
        self.recorded.keys().filter(is_open).map(|name| (name.clone(), free(name))).collect()
    }

    /// Returns the replacements for replies.
    pub(super) fn renames(&self) -> Renames {
        self.renames.clone()
    }

    /// Returns the pairs of different names, sorted.
    pub(super) fn changed(&self) -> Vec<(String, String)> {
        let changed = self.live.iter().filter(|(recorded, live)| recorded != live);
        let mut pairs: Vec<(String, String)> = changed.map(|(a, b)| (a.clone(), b.clone())).collect();
        pairs.sort();
        pairs
    }

    pub(super) fn conflicts(&self) -> &[NameConflict] {
        &self.conflicts
    }
}

/// Returns the text of a block, or the arguments of a call.
fn texts(block: &Block) -> Vec<String> {
    match block {
        Block::Text { text } => vec![text.clone()],
        Block::ToolCall(call) => arguments(&call.input),
        _ => Vec::new(),
    }
}

/// Returns the decoded texts among the arguments of a call, and the numbers that are called ids.
fn arguments(input: &str) -> Vec<String> {
    let Ok(document) = Document::parse(input.as_bytes()) else { return vec![input.to_owned()] };
    let values = document.root().walk();
    let texts = values.iter().filter_map(|value| value.as_str().map(Cow::into_owned));
    texts.chain(id_numbers(document.root()).into_iter().map(|number| input[number].to_owned())).collect()
}
