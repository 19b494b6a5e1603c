//! Surface `tools`: definitions of tools.

use std::collections::{BTreeMap, BTreeSet};

use super::{SurfaceDefinition, ValueChange};
use crate::surface::Surface;
use crate::verdict::Level;
use crate::verify::changes::{Changes, listed};
use crate::verify::project::UnitKind;
use crate::verify::structure::ChangeKind;

pub(super) const DEFINITION: SurfaceDefinition = SurfaceDefinition {
    has_unit: |kind, _| kind == UnitKind::Tool,
    value_level,
    unpaired_level: |_| Level::E0,
    unit_name: |_, key| format!("the tool `{key}`"),
    summary,
    has_prose: false,
    has_versions: true,
    compare_lane: None,
    compare_turn: None,
};

/// The descriptions of a tool and its arguments are no part of its schema.
fn value_level(change: &ValueChange<'_>) -> Level {
    let is_argument = change.inside.ends_with("/properties/description");
    match change.inside.ends_with("/description") && !is_argument {
        true => Level::E2,
        false => Level::E1,
    }
}

fn summary(changes: &Changes) -> Vec<String> {
    let renamed = renamed_tools(changes);
    let is_elsewhere = |name: &str| changes.schemas.iter().all(|schemas| schemas.contains_key(name));
    let is_renamed = |name: &str| renamed.iter().any(|(from, to)| from == name || to == name);
    let of = |change: ChangeKind| changes.of(Surface::Tools, UnitKind::Tool, change);
    let mut lines: Vec<String> = changes.others(Surface::Tools).collect();
    lines.extend(renamed.iter().map(|(from, to)| format!("{from} is now {to}")));
    for (change, word) in [(ChangeKind::Gone, "gone"), (ChangeKind::New, "new")] {
        let plain = of(change).into_iter().filter(|(name, _)| !is_renamed(name) && !is_elsewhere(name));
        // A tool that both sides have in some lanes is gone from the others only.
        let (partly, wholly): (Vec<_>, Vec<_>) =
            plain.partition(|(name, _)| changes.common_tools.contains(*name));
        lines.extend(listed(&format!("{word}:"), &wholly));
        let mut by_agents: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
        for (name, count) in partly {
            let agents = changes.tool_owners.get(&(change, name.to_owned()));
            let agents: Vec<&str> = agents.into_iter().flatten().copied().collect();
            by_agents.entry(agents.join(", ")).or_default().push((name, count));
        }
        let listed_by = |(agents, names): (&String, &Vec<_>)| listed(&format!("{word} in {agents}:"), names);
        lines.extend(by_agents.iter().filter_map(listed_by));
    }
    let changed = of(ChangeKind::Changed);
    let is_changed = |name: &str| changed.iter().any(|(other, _)| *other == name);
    let reworded: Vec<_> =
        of(ChangeKind::Reworded).into_iter().filter(|(name, _)| !is_changed(name)).collect();
    lines.extend(listed("other schemas:", &changed));
    lines.extend(listed("reworded:", &reworded));
    lines
}

/// Pairs tools that are gone with new tools that take most of their arguments.
fn renamed_tools(changes: &Changes) -> Vec<(String, String)> {
    let [gone, new] = &changes.schemas;
    let mut renamed: Vec<(String, String)> = Vec::new();
    for (from, mine) in gone.iter().filter(|(name, _)| !new.contains_key(*name)) {
        let similarity = |theirs: &BTreeSet<String>| {
            let shared = mine.intersection(theirs).count();
            let all = mine.union(theirs).count();
            (shared >= 2 && shared * 2 >= all).then_some(shared)
        };
        let free = new
            .iter()
            .filter(|(to, _)| !gone.contains_key(*to) && !renamed.iter().any(|(_, taken)| taken == *to));
        // The same name in another case is surely the same tool.
        let is_same = |to: &str| to.eq_ignore_ascii_case(from);
        let same = new.keys().find(|to| is_same(to) && !gone.contains_key(*to)).map(|to| (usize::MAX, to));
        let free =
            free.filter(|(to, _)| !gone.keys().any(|other| other != from && other.eq_ignore_ascii_case(to)));
        let best = same.or_else(|| free.filter_map(|(to, theirs)| Some((similarity(theirs)?, to))).max());
        renamed.extend(best.map(|(_, to)| (from.clone(), to.clone())));
    }
    renamed
}
