//! Names that the harness makes up anew in every run, and what each has become in this one.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use session::{Block, Reply};
use wire::dialect::Prompt;
use wire::json::Document;
use wire::rename::{Renames, numbers};

use super::fresh::{Unit, fresh};
use super::tape::digest;
use super::tokens::{align, is_made, labelled, names, tokens};

/// In how many requests a name is looked for.
const SIGHTINGS: usize = 3;

/// Finds the names in a recording: they stand in a reply, and had stood in a request before. A word that may be anybody's
/// counts only where a result told it and a call is made with it, and nothing else.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Where each name was seen in requests.
    seen: HashMap<u64, Vec<(usize, Unit)>>,
    /// Texts that were looked through.
    read: HashSet<u64>,
    /// What the model said before any request did: its own names.
    by_model: HashSet<u64>,
    found: Vec<String>,
    known: HashSet<u64>,
}

/// The names of a recording, and what of its requests tells them.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// By exchange: the pieces that hold names, and which.
    units: HashMap<usize, Vec<(Unit, String, Vec<String>)>>,
}

/// What each name has become.
#[derive(Clone, Debug, Default)]
pub(super) struct Mapping {
    live: HashMap<String, String>,
    recorded: HashMap<String, String>,
    conflicts: Vec<NameConflict>,
    renames: Renames,
}

/// A name that would have to be two things at once; the first stays.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NameConflict {
    /// The recorded name.
    pub recorded: String,
    /// What it is.
    pub is: String,
    /// What it would have to be too, or whose it is already.
    pub also: String,
}

impl Census {
    pub(super) fn asked(&mut self, n: usize, prompt: &Prompt) {
        for (unit, text) in fresh(prompt) {
            if !self.read.insert(digest(text.as_bytes())) {
                continue;
            }
            let is_result = matches!(unit, Unit::Result(_));
            let labelled = if is_result { labelled(&text) } else { Vec::new() };
            let names = names(&text).into_iter().filter(|name| is_result || is_made(name));
            for name in names.chain(labelled) {
                let seen = self.seen.entry(digest(name.as_bytes())).or_default();
                if seen.len() < SIGHTINGS && seen.last().is_none_or(|last| *last != (n, unit.clone())) {
                    seen.push((n, unit.clone()));
                }
            }
        }
    }

    pub(super) fn answered(&mut self, reply: &Reply) {
        for block in &reply.blocks {
            let is_call = matches!(block, Block::ToolCall(_));
            let said = said(block);
            // A call that is made with this and no other word names something, whatever the word.
            let alone = said.iter().map(String::as_str).filter(|said| is_call && tokens(said).len() == 1);
            let named = said
                .iter()
                .flat_map(|said| names(said))
                .filter(|name| is_made(name) || (is_call && said.iter().any(|said| said == name)));
            for name in named.chain(alone) {
                let key = digest(name.as_bytes());
                match self.seen.contains_key(&key) && !self.by_model.contains(&key) {
                    true if self.known.insert(key) => self.found.push(name.to_owned()),
                    true => {}
                    false => {
                        self.by_model.insert(key);
                    }
                }
            }
        }
    }

    /// The names; `load` gives the request of an exchange again.
    pub(super) fn finish(self, mut load: impl FnMut(usize) -> Option<Prompt>) -> Names {
        let mut wanted: HashMap<usize, Vec<(Unit, String)>> = HashMap::new();
        for name in self.found {
            for (n, unit) in self.seen.get(&digest(name.as_bytes())).into_iter().flatten() {
                wanted.entry(*n).or_default().push((unit.clone(), name.clone()));
            }
        }
        let mut units = HashMap::new();
        for (n, wanted) in wanted {
            let Some(prompt) = load(n) else { continue };
            let holding = fresh(&prompt).into_iter().filter_map(|(unit, text)| {
                let here: Vec<String> =
                    wanted.iter().filter(|(at, _)| *at == unit).map(|(_, name)| name.clone()).collect();
                (!here.is_empty()).then_some((unit, text, here))
            });
            units.insert(n, holding.collect());
        }
        Names { units }
    }
}

impl Names {
    /// What a live request tells that stands for the recorded exchange `n`.
    pub(super) fn learn(&self, n: usize, prompt: &Prompt, mapping: &mut Mapping) {
        let Some(units) = self.units.get(&n) else { return };
        let live: HashMap<Unit, String> = fresh(prompt).into_iter().collect();
        for (unit, old, names) in units {
            let Some(new) = live.get(unit) else { continue };
            let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
            for (name, found) in align(old, new, &wanted) {
                mapping.learn(name, &found);
            }
        }
    }
}

impl Mapping {
    /// The first that is learned stays, and no two names become one.
    fn learn(&mut self, name: &str, found: &str) {
        let is = self.live.get(name);
        let of = self.recorded.get(found);
        match (is, of) {
            (Some(is), _) if is == found => {}
            (Some(is), _) => self.object(name, is.clone(), found),
            (None, Some(of)) => self.object(name, of.clone(), found),
            (None, None) => {
                self.live.insert(name.to_owned(), found.to_owned());
                self.recorded.insert(found.to_owned(), name.to_owned());
                if name != found {
                    self.renames = Renames::new(self.pairs());
                }
            }
        }
    }

    fn object(&mut self, recorded: &str, is: String, also: &str) {
        let conflict = NameConflict { recorded: recorded.to_owned(), is, also: also.to_owned() };
        if !self.conflicts.contains(&conflict) {
            self.conflicts.push(conflict);
        }
    }

    /// What goes into replies.
    pub(super) fn renames(&self) -> Renames {
        self.renames.clone()
    }

    /// Names that have changed, in order.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let mut pairs: Vec<(String, String)> =
            self.live.iter().filter(|(old, new)| old != new).map(|(a, b)| (a.clone(), b.clone())).collect();
        pairs.sort();
        pairs
    }

    pub(super) fn conflicts(&self) -> &[NameConflict] {
        &self.conflicts
    }
}

/// What a block says: its text, or all that a call is made with, a line each.
fn said(block: &Block) -> Vec<String> {
    match block {
        Block::Text { text } => vec![text.clone()],
        Block::ToolCall(call) => arguments(&call.input),
        _ => Vec::new(),
    }
}

/// The texts that a call is made with, as they are meant, and the numbers that it calls ids.
fn arguments(input: &str) -> Vec<String> {
    let Ok(document) = Document::parse(input.as_bytes()) else { return vec![input.to_owned()] };
    let values = document.root().walk();
    let texts = values.iter().filter_map(|value| value.as_str().map(Cow::into_owned));
    texts.chain(numbers(document.root()).into_iter().map(|number| input[number].to_owned())).collect()
}
