//! Memory of a lane pair: everything that its earlier turns have compared.
//!
//! A request repeats the history of its lane. Units that were compared once are remembered by their digests, so each
//! turn is judged by what is new in it. A history that one side rewrites shows as a new pair, once.

use std::collections::{HashMap, HashSet};

use super::project::{RequestUnits, Unit, UnitKind};
use super::row::Row;

/// The units, markers and orders of the turns so far.
#[derive(Default)]
pub(super) struct LaneHistory {
    /// Highest number of times that a pair of units occurred in one request, by their digests.
    pairs: HashMap<(u64, u64), usize>,
    /// The same for units without a counterpart, by side.
    unpaired: [HashMap<u64, usize>; 2],
    /// Alignment of the turn before by digests, without results.
    pub(super) rows: Vec<(Option<u64>, Option<u64>)>,
    named: HashSet<(UnitKind, String, u64, u64)>,
    markers: HashSet<(String, Option<String>, Option<String>)>,
    orders: HashSet<Vec<String>>,
    /// Names of tools by the ids of their calls.
    tools: HashMap<String, String>,
}

/// Occurrences within one request.
#[derive(Default)]
struct RequestCounts {
    pairs: HashMap<(u64, u64), usize>,
    unpaired: [HashMap<u64, usize>; 2],
}

impl LaneHistory {
    /// Returns for each row whether it is new since the turns before, and remembers it.
    pub(super) fn add_rows(
        &mut self,
        rows: &[Row],
        golden: &RequestUnits,
        candidate: &RequestUnits,
    ) -> Vec<bool> {
        let mut counts = RequestCounts::default();
        let is_new = |(g, c): &Row| match (g, c) {
            (Some(g), Some(c)) => {
                let key = (golden.ordered[*g].hash, candidate.ordered[*c].hash);
                is_first(key, &mut counts.pairs, &mut self.pairs)
            }
            (Some(g), None) => {
                let hash = golden.ordered[*g].hash;
                is_first(hash, &mut counts.unpaired[0], &mut self.unpaired[0])
            }
            (None, Some(c)) => {
                let hash = candidate.ordered[*c].hash;
                is_first(hash, &mut counts.unpaired[1], &mut self.unpaired[1])
            }
            (None, None) => false,
        };
        rows.iter().map(is_new).collect()
    }

    /// Returns the units of a request without counterpart that are new since the turns before, and remembers them.
    pub(super) fn add_unpaired<'u>(&mut self, side: usize, units: &'u RequestUnits) -> Vec<&'u Unit> {
        let mut counts = HashMap::new();
        let units = units.ordered.iter().filter(|unit| unit.kind != UnitKind::Reply);
        let new = units.filter(|unit| is_first(unit.hash, &mut counts, &mut self.unpaired[side]));
        let new: Vec<&Unit> = new.map(AsRef::as_ref).collect();
        new.into_iter().filter(|unit| !self.was_paired(side, unit.hash)).collect()
    }

    /// Returns whether two units with these digests have been compared.
    pub(super) fn has_pair(&self, golden: u64, candidate: u64) -> bool {
        self.pairs.contains_key(&(golden, candidate))
    }

    fn was_paired(&self, side: usize, hash: u64) -> bool {
        self.pairs.keys().any(|(golden, candidate)| [*golden, *candidate][side] == hash)
    }

    /// Adds a pair of named units. Returns whether it is new.
    pub(super) fn add_named(&mut self, kind: UnitKind, key: &str, digests: [u64; 2]) -> bool {
        self.named.insert((kind, key.to_owned(), digests[0], digests[1]))
    }

    /// Adds the cache markers of two units. Returns whether they are new at this place.
    pub(super) fn add_markers(&mut self, place: &str, markers: [Option<&str>; 2]) -> bool {
        let [golden, candidate] = markers.map(|marker| marker.map(str::to_owned));
        self.markers.insert((place.to_owned(), golden, candidate))
    }

    /// Adds a change of order. Returns whether it is new.
    pub(super) fn add_order(&mut self, items: Vec<String>) -> bool {
        self.orders.insert(items)
    }

    /// Remembers which tools the calls of a request use.
    pub(super) fn add_calls(&mut self, units: &RequestUnits) {
        for unit in units.ordered.iter().filter(|unit| unit.kind == UnitKind::Call) {
            let call = unit.call.clone().unwrap_or_default();
            self.tools.entry(call).or_insert_with(|| unit.key.clone());
        }
    }

    /// Returns whether the lines of a unit may come in any order, as those of a search result.
    pub(super) fn is_unordered(&self, unit: &Unit) -> bool {
        let tool = unit.call.as_ref().and_then(|call| self.tools.get(call));
        unit.kind == UnitKind::Result && tool.is_some_and(|tool| is_search(tool))
    }
}

/// Counts one more occurrence. Returns whether no earlier request had as many.
fn is_first<K: std::hash::Hash + Eq + Copy>(
    key: K,
    here: &mut HashMap<K, usize>,
    most: &mut HashMap<K, usize>,
) -> bool {
    let here = here.entry(key).or_default();
    *here += 1;
    let most = most.entry(key).or_default();
    let is_first = *here > *most;
    *most = (*most).max(*here);
    is_first
}

/// Returns whether a tool's name contains a word for searching, as in `WebSearch` or `list_files`.
fn is_search(tool: &str) -> bool {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in tool.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_small) {
            words.push(String::new());
        }
        was_small = letter.is_lowercase();
        let word = words.last_mut().expect("there is one from the start");
        word.extend(letter.to_lowercase().filter(|letter| letter.is_alphanumeric()));
    }
    words.iter().any(|word| ["grep", "glob", "list", "search", "ls"].contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_known_by_a_whole_word_of_its_name() {
        for tool in ["Grep", "glob", "ls", "LS", "list_files", "WebSearch", "mcp__notes__search", "file-list"]
        {
            assert!(is_search(tool), "{tool}");
        }
        for tool in ["details", "skills", "models", "checklist", "Read", "LSP", "todolist", "research"] {
            assert!(!is_search(tool), "{tool}");
        }
    }
}
