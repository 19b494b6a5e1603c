//! How deep agents nest.

use std::collections::{HashMap, HashSet};

/// Agents are told under the call that started them for so many levels.
const LEVELS: usize = 16;

/// The lanes that are told by themselves although a call started them: each begins a new tree of so many levels.
///
/// No harness nests like that, but a folder may say so, and whatever walks down a tree walks down the stack.
pub fn too_deep<'l>(lanes: impl Iterator<Item = (&'l str, Option<&'l str>)>) -> HashSet<&'l str> {
    let parents: HashMap<&str, Option<&str>> = lanes.collect();
    let mut levels: HashMap<&str, usize> = HashMap::new();
    for &lane in parents.keys() {
        let mut way = Vec::new();
        let mut here = Some(lane);
        // Up to one whose level is known, or to the root. A lane above itself would never end.
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
        // Whatever the order.
        let lanes = (0..60).rev().map(|n| (names[n].as_str(), parent(n)));
        let mut found: Vec<&str> = too_deep(lanes).into_iter().collect();
        found.sort();
        assert_eq!(found, ["l16", "l32", "l48"]);
        assert!(
            too_deep([("main", None), ("sub-1", Some("main")), ("sub-2", Some("gone"))].into_iter())
                .is_empty()
        );
        too_deep([("a", Some("b")), ("b", Some("a"))].into_iter()); // ends
    }
}
