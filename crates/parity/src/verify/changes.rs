//! What changed, by name: what the summary is made of.

use std::collections::{BTreeMap, BTreeSet};

use super::unit::Kind;
use crate::verdict::Surface;

/// How a named thing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum How {
    /// Only the golden has it.
    Gone,
    /// Only the candidate has it.
    New,
    /// It is another.
    Differs,
    /// Only its words are others.
    Reworded,
}

/// All named changes, counted.
#[derive(Debug, Default)]
pub(super) struct Changes {
    by_kind: BTreeMap<(Surface, u8, How), BTreeMap<String, usize>>,
    /// The names of the arguments of tools that only one side has: the golden's, the candidate's.
    pub(super) schemas: [BTreeMap<String, BTreeSet<String>>; 2],
    /// Tools that both sides have in some lane.
    pub(super) met: BTreeSet<String>,
    /// Whose tools are gone or new, by tool.
    pub(super) whose: BTreeMap<(How, String), BTreeSet<&'static str>>,
    /// Cache markers, by how they changed.
    pub(super) markers: BTreeMap<How, usize>,
    /// What became of jobs, by what was said of it: the golden's, the candidate's.
    pub(super) stories: BTreeSet<(String, String)>,
    /// Calls under another name.
    pub(super) renamed: BTreeSet<(String, String)>,
    /// Anything else, in words.
    others: BTreeMap<(Surface, String), usize>,
}

impl Changes {
    /// One more thing of that kind and name has changed.
    pub(super) fn add(&mut self, surface: Surface, kind: Kind, how: How, name: &str) {
        let names = self.by_kind.entry((surface, kind as u8, how)).or_default();
        *names.entry(name.to_owned()).or_default() += 1;
    }

    /// One more change that is told in its own words.
    pub(super) fn tell(&mut self, surface: Surface, what: impl Into<String>) {
        *self.others.entry((surface, what.into())).or_default() += 1;
    }

    /// What is told in its own words, each with how often.
    pub(super) fn told(&self, surface: Surface) -> impl Iterator<Item = (&str, usize)> {
        let of = self.others.iter().filter(move |((of, _), _)| *of == surface);
        of.map(|((_, what), count)| (what.as_str(), *count))
    }

    /// The things of a kind that changed in that way, with how often.
    pub(super) fn of(&self, surface: Surface, kind: Kind, how: How) -> Vec<(&str, usize)> {
        let names = self.by_kind.get(&(surface, kind as u8, how)).into_iter().flatten();
        names.map(|(name, count)| (name.as_str(), *count)).collect()
    }

    /// How many things of a kind changed in that way.
    pub(super) fn count(&self, surface: Surface, kind: Kind, how: How) -> usize {
        self.of(surface, kind, how).into_iter().map(|(_, count)| count).sum()
    }
}
