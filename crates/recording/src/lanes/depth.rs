//! Nesting depth of agents.

use std::collections::{HashMap, HashSet};

/// Number of levels in one tree of agents.
const LEVELS: usize = 16;

/// Returns the lanes that become roots of a new tree because their depth is a multiple of the maximum.
///
/// No harness nests agents that deeply, but a folder may claim it, and functions that walk a tree are
/// recursive.
pub fn tree_roots<'l>(lanes: impl Iterator<Item = (&'l str, Option<&'l str>)>) -> HashSet<&'l str> {
    let parents: HashMap<&str, Option<&str>> = lanes.collect();
    let mut levels: HashMap<&str, usize> = HashMap::new();
    for &lane in parents.keys() {
        let mut way = Vec::new();
        let mut here = Some(lane);
        // Stops at a known level or at the root. The length check ends cycles.
        while let Some(lane) = here.filter(|lane| !levels.contains_key(lane) && way.len() <= parents.len()) {
            way.push(lane);
            here = parents.get(lane).copied().flatten();
        }
        let first = here.and_then(|known| levels.get(known)).map_or(0, |level| level + 1);
        levels.extend(way.into_iter().rev().zip(first..));
    }
    levels
        .into_iter()
        .filter(|(_, level)| *level > 0 && level.is_multiple_of(LEVELS))
        .map(|(lane, _)| lane)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_cut_into_trees() {
        let names: Vec<String> = (0..60).map(|n| format!("l{n}")).collect();
        let parent = |n: usize| n.checked_sub(1).map(|n| names[n].as_str());
        // The result does not depend on the order.
        let lanes = (0..60).rev().map(|n| (names[n].as_str(), parent(n)));
        let mut found: Vec<&str> = tree_roots(lanes).into_iter().collect();
        found.sort();
        assert_eq!(found, ["l16", "l32", "l48"]);
        assert!(
            tree_roots([("main", None), ("sub-1", Some("main")), ("sub-2", Some("gone"))].into_iter())
                .is_empty()
        );
        tree_roots([("a", Some("b")), ("b", Some("a"))].into_iter()); // terminates
    }
}
