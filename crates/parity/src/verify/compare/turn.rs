//! Compares the requests of two aligned turns.

use std::collections::HashMap;

use recording::lanes::Turn;
use session::RequestId;

use super::named::compare_named;
use super::ordered::compare_ordered;
use super::values::ValueContext;
use super::{Comparer, LaneComparison, RequestComparison};
use crate::verdict::Surface;
use crate::verify::finding::{
    Difference, Finding, Findings, Subject, TurnPlace, ValueAgreement, ValueDifference, on_side,
};
use crate::verify::project::{HOLE, UnitKind};
use crate::verify::structure::Structure;
use crate::verify::surfaces::surface_of;
use crate::verify::text::hashed;

/// Compares two requests.
pub(in crate::verify) fn compare_attempt(
    cx: &mut Comparer<'_>,
    lane: &mut LaneComparison,
    turn: u32,
    ids: [&RequestId; 2],
) -> RequestComparison {
    let mut out = RequestComparison::default();
    let place = lane.at(turn);
    lane.requests = ids.map(|id| Some(id.clone()));
    let units = [0, 1].map(|side| cx.recordings.sides[side].units(ids[side]));
    let [Some(golden), Some(candidate)] = &units else {
        let side = usize::from(units[0].is_some());
        let finding = Finding::new(place, Surface::Routing, "");
        out.findings.push(finding.structure(Structure::Unreadable { side }, None, None));
        return out;
    };
    compare_named(cx, lane, place, golden, candidate, &mut out);
    compare_ordered(cx, lane, place, golden, candidate, &mut out);
    if golden.frame_digest != candidate.frame_digest && !out.is_misaligned {
        compare_frames(cx, lane, place, ids, &mut out);
    }
    out.has_unexplained_bytes =
        golden.body_digest != candidate.body_digest && !out.is_incomplete && !out.is_unequal;
    out
}

/// Compares the bytes around the units.
fn compare_frames(
    cx: &mut Comparer<'_>,
    lane: &mut LaneComparison,
    place: TurnPlace,
    ids: [&RequestId; 2],
    out: &mut RequestComparison,
) {
    let frames = [0, 1].map(|side| cx.recordings.sides[side].frame(ids[side]));
    let [Some(golden), Some(candidate)] = frames else { return };
    let surface = Surface::Settings;
    let at = ValueContext {
        surface,
        kind: UnitKind::Setting,
        key: "",
        turn: place,
        pointer: "",
        is_unordered: false,
        is_given: false,
    };
    let compared = cx.values.compare(&at, &golden, &candidate);
    out.is_unequal |= compared.is_excluded || !compared.differences.is_empty();
    if compared.is_excluded {
        let mut finding = Finding::new(place, surface, "");
        finding.counts.excluded += 1;
        out.findings.push(finding);
    }
    let in_list = format!("[{HOLE}]");
    for pair in compared.differences {
        let [mine, theirs] = pair.values.each_ref().map(Option::as_deref);
        if !lane.history.add_named(UnitKind::Setting, &pair.pointer, [hashed(mine), hashed(theirs)]) {
            continue;
        }
        let is_text = |value: Option<&str>| value == Some(HOLE) || value == Some(&in_list);
        let finding = Finding::new(place, surface, pair.pointer.clone());
        out.findings.push(match is_text(mine) && is_text(theirs) {
            true => finding.structure(Structure::TextForm, None, None),
            false => finding.with(Difference::Value(ValueDifference {
                subject: Subject::Frame,
                inside: pair.pointer,
                values: pair.values,
                agreement: if pair.is_masked { ValueAgreement::Masked } else { ValueAgreement::Different },
                race: None,
            })),
        });
    }
}

/// Compares the bytes of two bodies whose values are all equal: space, order of members, escapes.
pub(in crate::verify) fn compare_spelling(
    cx: &Comparer<'_>,
    place: TurnPlace,
    ids: [&RequestId; 2],
) -> Finding {
    use wire::difference::Difference as ByteDifference;
    let [golden, candidate] = [0, 1].map(|side| cx.recordings.sides[side].body(ids[side]));
    let (pointer, structure) = match wire::difference::first_difference(&golden, &candidate) {
        Some(ByteDifference::Value { pointer, .. }) => (pointer, Structure::Frame),
        Some(ByteDifference::Spelling { pointer, .. }) => (pointer, Structure::Spelling),
        _ => (String::new(), Structure::Frame),
    };
    Finding::new(place, Surface::Settings, pointer).excludable().structure(structure, None, None)
}

/// Reports a turn that only one side has, with the number of its new units on each surface.
pub(in crate::verify) fn compare_unpaired_turn(
    cx: &Comparer<'_>,
    lane: &mut LaneComparison,
    side: usize,
    turn: &Turn,
) -> Findings {
    let mut findings = Findings::default();
    let request = turn.attempts.last().and_then(|id| cx.recordings.sides[side].units(id));
    let Some(request) = request else { return findings };
    let place = lane.at(turn.turn);
    let mut new: HashMap<Surface, (u64, String)> = HashMap::new();
    for unit in lane.history.add_unpaired(side, &request) {
        let surface = surface_of(unit, &lane.jobs[side]);
        new.entry(surface).or_insert((0, unit.pointer.clone())).0 += 1;
    }
    let mut new: Vec<_> = new.into_iter().collect();
    new.sort_unstable();
    for (surface, (count, pointer)) in new {
        let units = format!("{count} {}", if count == 1 { "unit" } else { "units" });
        let structure = Structure::Turn { side, units: units.clone() };
        let [golden, candidate] = on_side(side, units.as_str());
        findings.push(Finding::new(place, surface, "").unpaired(side, count));
        let finding = Finding::new(place, surface, pointer).excludable();
        findings.push(finding.structure(structure, golden, candidate));
    }
    findings
}
