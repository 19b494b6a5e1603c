//! The changes by name, from which the surfaces make the summary of a verdict.

use std::collections::{BTreeMap, BTreeSet};

use super::project::UnitKind;
use super::structure::ChangeKind;
use crate::verdict::Surface;

/// All changes, counted by name.
#[derive(Debug, Default)]
pub(super) struct Changes {
    units: BTreeMap<(Surface, u8, ChangeKind), BTreeMap<String, usize>>,
    /// Arguments of tools that only one side has, by tool: the golden's, the candidate's.
    pub(super) schemas: [BTreeMap<String, BTreeSet<String>>; 2],
    /// Tools that both sides have in some lane.
    pub(super) common_tools: BTreeSet<String>,
    /// Agents whose tools are gone or new, by tool.
    pub(super) tool_owners: BTreeMap<(ChangeKind, String), BTreeSet<&'static str>>,
    /// Number of cache markers.
    pub(super) markers: BTreeMap<ChangeKind, usize>,
    /// Different events of one job: the golden's, the candidate's.
    pub(super) job_events: BTreeSet<(String, String)>,
    /// Calls with another name.
    pub(super) renamed: BTreeSet<(String, String)>,
    others: BTreeMap<(Surface, String), usize>,
}

impl Changes {
    /// Counts a changed unit.
    pub(super) fn add(&mut self, surface: Surface, kind: UnitKind, change: ChangeKind, name: &str) {
        let names = self.units.entry((surface, kind as u8, change)).or_default();
        *names.entry(name.to_owned()).or_default() += 1;
    }

    /// Counts any other change, described in words.
    pub(super) fn add_other(&mut self, surface: Surface, words: impl Into<String>) {
        *self.others.entry((surface, words.into())).or_default() += 1;
    }

    /// Returns the changes that are described in words.
    pub(super) fn others(&self, surface: Surface) -> impl Iterator<Item = String> {
        let of = self.others.iter().filter(move |((of, _), _)| *of == surface);
        of.map(|((_, words), count)| match count {
            1 => words.clone(),
            count => format!("{words} ({count} times)"),
        })
    }

    /// Returns the names of changed units with their counts.
    pub(super) fn of(&self, surface: Surface, kind: UnitKind, change: ChangeKind) -> Vec<(&str, usize)> {
        let names = self.units.get(&(surface, kind as u8, change)).into_iter().flatten();
        names.map(|(name, count)| (name.as_str(), *count)).collect()
    }

    /// Returns the number of changed units.
    pub(super) fn count(&self, surface: Surface, kind: UnitKind, change: ChangeKind) -> usize {
        self.of(surface, kind, change).into_iter().map(|(_, count)| count).sum()
    }
}

/// Returns `WORD a, b, c and 3 more`, unless there are no names.
pub(super) fn listed(word: &str, names: &[(&str, usize)]) -> Option<String> {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(|(name, _)| *name).collect();
    match names.len() {
        0 => None,
        n if n > SHOWN => Some(format!("{word} {} and {} more", shown.join(", "), n - SHOWN)),
        _ => Some(format!("{word} {}", shown.join(", "))),
    }
}

/// Returns a count with its noun, unless it is 0.
pub(super) fn counted(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {many}")),
    }
}
