//! Compares units that are aligned by name: tools, settings, headers.

use std::collections::{HashMap, HashSet};

use super::unit::{compare_markers, compare_units, unpaired_unit};
use super::{Comparer, LaneComparison, RequestComparison};
use crate::verdict::Surface;
use crate::verify::finding::{Finding, TurnPlace};
use crate::verify::project::{RequestUnits, Unit, UnitKind};
use crate::verify::structure::Structure;

/// Compares tools, settings and headers.
pub(super) fn compare_named(
    cx: &mut Comparer<'_>,
    lane: &mut LaneComparison,
    place: TurnPlace,
    golden: &RequestUnits,
    candidate: &RequestUnits,
    out: &mut RequestComparison,
) {
    fn by_name(units: &RequestUnits) -> HashMap<(UnitKind, &str), &Unit> {
        units.named.iter().map(|unit| ((unit.kind, unit.key.as_str()), unit.as_ref())).collect()
    }
    let (mine, theirs) = (by_name(golden), by_name(candidate));
    for unit in &golden.named {
        let Some(other) = theirs.get(&(unit.kind, unit.key.as_str())) else {
            add_unpaired(cx, lane, place, 0, unit, out);
            continue;
        };
        compare_markers(cx, lane, place, &unit.key, [unit, other], out);
        out.is_unequal |= unit.hash != other.hash && unit.in_body;
        if lane.history.add_named(unit.kind, &unit.key, [unit.hash, other.hash]) {
            compare_units(cx, lane, place, [unit, other], out);
        }
    }
    for unit in candidate.named.iter().filter(|unit| !mine.contains_key(&(unit.kind, unit.key.as_str()))) {
        add_unpaired(cx, lane, place, 1, unit, out);
    }
    for kind in [UnitKind::Tool, UnitKind::Header] {
        compare_order(lane, place, kind, golden, candidate, out);
    }
}

fn add_unpaired(
    cx: &Comparer<'_>,
    lane: &mut LaneComparison,
    place: TurnPlace,
    side: usize,
    unit: &Unit,
    out: &mut RequestComparison,
) {
    let digests = if side == 0 { [unit.hash, 0] } else { [0, unit.hash] };
    if lane.history.add_named(unit.kind, &unit.key, digests) {
        out.findings.push(unpaired_unit(cx, lane, place, side, unit));
    }
    out.is_unequal = true;
    out.is_misaligned |= unit.in_body;
}

/// Compares the order of the names that both sides have.
fn compare_order(
    lane: &mut LaneComparison,
    place: TurnPlace,
    kind: UnitKind,
    golden: &RequestUnits,
    candidate: &RequestUnits,
    out: &mut RequestComparison,
) {
    fn common<'u>(kind: UnitKind, of: &'u RequestUnits, other: &RequestUnits) -> Vec<&'u Unit> {
        let there: HashSet<&String> =
            other.named.iter().filter(|unit| unit.kind == kind).map(|unit| &unit.key).collect();
        let both = of.named.iter().filter(|unit| unit.kind == kind && there.contains(&unit.key));
        both.map(AsRef::as_ref).collect()
    }
    let (mine, theirs) = (common(kind, golden, candidate), common(kind, candidate, golden));
    let Some((unit, other)) = mine.iter().zip(&theirs).find(|(unit, other)| unit.key != other.key) else {
        return;
    };
    out.is_unequal |= kind == UnitKind::Tool;
    if !lane.history.add_order(mine.iter().chain(&theirs).map(|unit| unit.key.clone()).collect()) {
        return;
    }
    let (surface, structure) = match kind {
        UnitKind::Tool => (Surface::Tools, Structure::ToolOrder),
        _ => (Surface::Settings, Structure::HeaderOrder),
    };
    let finding = Finding::new(place, surface, unit.pointer.clone()).excludable();
    out.findings.push(finding.structure(structure, Some(&unit.key), Some(&other.key)));
}
