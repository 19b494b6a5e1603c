//! Compares two aligned units and their cache markers.

use super::carried::are_given;
use super::race::possible_race;
use super::values::ValueContext;
use super::{Comparer, LaneComparison, RequestComparison};
use crate::verdict::Surface;
use crate::verify::finding::{
    Difference, Finding, Subject, TurnPlace, UnpairedUnit, ValueAgreement, ValueDifference, on_side,
};
use crate::verify::project::{Unit, UnitKind};
use crate::verify::structure::{ChangeKind, Structure};
use crate::verify::surfaces::surface_of;

/// Compares the cache markers of two units at a place of the request.
pub(super) fn compare_markers(
    cx: &Comparer<'_>,
    lane: &mut LaneComparison,
    place: TurnPlace,
    region: &str,
    units: [&Unit; 2],
    out: &mut RequestComparison,
) {
    let [golden, candidate] = units.map(|unit| unit.marker.as_ref().map(|marker| marker.json.as_str()));
    let marker = units.iter().find_map(|unit| unit.marker.as_ref());
    let Some(pointer) = marker.map(|marker| marker.pointer.clone()) else { return };
    out.is_unequal |= golden != candidate;
    if !lane.history.add_markers(region, [golden, candidate]) {
        return;
    }
    let mut finding = Finding::new(place, Surface::Settings, pointer).excludable();
    finding = match golden {
        Some(_) => finding.compared(golden == candidate),
        None => finding.unpaired(1, 1),
    };
    if golden != candidate {
        let change = match (golden, candidate) {
            (Some(_), None) => ChangeKind::Gone,
            (None, Some(_)) => ChangeKind::New,
            _ => ChangeKind::Changed,
        };
        finding = finding.with(Difference::Structure {
            structure: Structure::Marker(change),
            golden: golden.map(str::to_owned),
            candidate: candidate.map(str::to_owned),
            // It is on the last part, which differs if one more announcement has come.
            race: possible_race(cx, lane, place.turn, units.map(Some)),
        });
    }
    out.findings.push(finding);
}

/// Compares two aligned units.
pub(super) fn compare_units(
    cx: &mut Comparer<'_>,
    lane: &LaneComparison,
    place: TurnPlace,
    units: [&Unit; 2],
    out: &mut RequestComparison,
) {
    let [unit, other] = units;
    // A block with more members than its text is compared as a whole.
    if unit.is_narrow() != other.is_narrow() && !unit.is_bare && !other.is_bare {
        let [wide, other] = units.map(Unit::with_block);
        return compare_units(cx, lane, place, [&wide, &other], out);
    }
    let surface = surface_of(unit, &lane.jobs[0]);
    let is_equal = unit.json == other.json;
    let at = ValueContext {
        surface,
        kind: unit.kind,
        key: &unit.key,
        turn: place,
        pointer: &unit.pointer,
        is_unordered: lane.history.is_unordered(unit),
        is_given: unit.kind == UnitKind::Call && !is_equal && are_given(cx, lane, units),
    };
    let compared = cx.values.compare(&at, &unit.json, &other.json);
    let mut counted = Finding::new(place, surface, unit.pointer.clone());
    match compared.is_excluded {
        true => counted.counts.excluded += 1,
        false => {
            counted = counted.compared(is_equal);
            counted.counts.masked += u64::from(compared.is_masked);
        }
    }
    counted.common_tool = (unit.kind == UnitKind::Tool).then(|| unit.key.clone());
    out.findings.push(counted);
    let difference = |pointer: &str, values: [Option<String>; 2], agreement: ValueAgreement| {
        let difference = ValueDifference {
            subject: Subject::Units { kind: unit.kind, keys: units.map(|unit| unit.key.clone()) },
            inside: pointer.strip_prefix(unit.pointer.as_str()).unwrap_or_default().to_owned(),
            values,
            agreement,
            race: match agreement {
                ValueAgreement::Different => possible_race(cx, lane, place.turn, units.map(Some)),
                _ => None,
            },
        };
        Finding::new(place, surface, pointer).with(Difference::Value(difference))
    };
    if !is_equal && compared.differences.is_empty() && !compared.is_excluded {
        let values = units.map(|unit| Some(unit.json.clone()));
        return out.findings.push(difference(&unit.pointer, values, ValueAgreement::SameValue));
    }
    for pair in compared.differences {
        let agreement = if pair.is_masked { ValueAgreement::Masked } else { ValueAgreement::Different };
        out.findings.push(difference(&pair.pointer, pair.values, agreement));
    }
    if compared.omitted > 0 {
        let values = match compared.omitted {
            1 => "1 more value differs".to_owned(),
            omitted => format!("{omitted} more values differ"),
        };
        let name = &cx.recordings.first_lane(lane.number).id;
        out.findings.note(format!("{values} at `{}` in turn {} of {name}", unit.pointer, place.turn));
    }
}

/// Returns the finding for a unit without counterpart.
pub(super) fn unpaired_unit(
    cx: &Comparer<'_>,
    lane: &LaneComparison,
    place: TurnPlace,
    side: usize,
    unit: &Unit,
) -> Finding {
    let surface = surface_of(unit, &lane.jobs[side]);
    let own_lane = cx.recordings.lane(side, lane.number).expect("the side with the unit has the lane");
    let difference = UnpairedUnit {
        kind: unit.kind,
        key: unit.key.clone(),
        side,
        json: unit.json.clone(),
        race: possible_race(cx, lane, place.turn, on_side(side, unit)),
        lane_kind: own_lane.kind,
    };
    let finding = Finding::new(place, surface, unit.pointer.clone()).excludable().unpaired(side, 1);
    finding.with(Difference::Unpaired(difference))
}
