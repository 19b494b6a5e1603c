//! What changed, in a few lines: the first thing to read.

use std::collections::BTreeMap;

use super::side::Facts;
use crate::verdict::{Difference, Level, Surface, Verdict};

/// A line for each surface that changed, what weighs most first.
pub(super) fn of(verdict: &Verdict, facts: [&Facts; 2]) -> Vec<String> {
    let mut lines = Vec::new();
    if facts[0].version != facts[1].version || facts[0].harness != facts[1].harness {
        lines.push(format!("another harness: {} became {}", verdict.about[0], verdict.about[1]));
    }
    for surface in Surface::ALL {
        let of: Vec<&Difference> =
            verdict.differences.iter().filter(|difference| difference.surface == surface && difference.holds < Some(Level::E3)).collect();
        if of.is_empty() {
            continue;
        }
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        of.iter().for_each(|difference| *kinds.entry(&difference.what).or_default() += 1);
        let mut kinds: Vec<(&str, usize)> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let words: Vec<String> = kinds.iter().take(3).map(|(what, count)| match count {
            1 => (*what).to_owned(),
            n => format!("{what} ({n} times)"),
        }).collect();
        lines.push(format!("{}: {}", surface.name(), words.join("; ")));
    }
    lines
}
