//! Compares units that are aligned in order: instructions and messages.

use std::collections::HashSet;

use super::carried::{are_given, differ_in_reply_only, is_given_unpaired};
use super::unit::{compare_markers, compare_units, unpaired_unit};
use super::values::ValueContext;
use super::{Comparer, LaneComparison, RequestComparison};
use crate::verdict::Surface;
use crate::verify::align::{align_units, moved_calls};
use crate::verify::finding::{
    Difference, Finding, Subject, TurnPlace, UnitPair, ValueAgreement, ValueDifference,
};
use crate::verify::project::{RequestUnits, Unit, UnitKind};
use crate::verify::structure::Structure;
use crate::verify::surfaces::surface_of;
use crate::verify::text::short;

/// Compares instructions and messages.
pub(super) fn compare_ordered(
    cx: &mut Comparer<'_>,
    lane: &mut LaneComparison,
    place: TurnPlace,
    golden: &RequestUnits,
    candidate: &RequestUnits,
    out: &mut RequestComparison,
) {
    lane.history.add_calls(golden);
    let rows = align_units(&mut lane.history, &lane.jobs, golden, candidate);
    let is_new = lane.history.add_rows(&rows, golden, candidate);
    let moved = moved_calls(&rows, golden);
    let unpaired = [
        rows.iter().filter(|row| row.1.is_none()).filter_map(|row| row.0).collect::<HashSet<_>>(),
        rows.iter().filter(|row| row.0.is_none()).filter_map(|row| row.1).collect::<HashSet<_>>(),
    ];
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut new_pairs: Vec<(usize, usize)> = Vec::new();
    let mut has_all_results = true;
    for (row, is_new) in rows.into_iter().zip(is_new) {
        let units =
            [row.0.map(|at| golden.ordered[at].as_ref()), row.1.map(|at| candidate.ordered[at].as_ref())];
        let (Some(at), Some(other_at), [Some(unit), Some(other)]) = (row.0, row.1, units) else {
            (out.is_incomplete, out.is_misaligned) = (true, true);
            has_all_results &= units.iter().flatten().all(|unit| unit.kind != UnitKind::Result);
            if is_new {
                compare_unpaired(cx, lane, place, units, out);
            }
            continue;
        };
        if unit.kind != UnitKind::Result {
            let region = marker_region(unit, golden.ordered.len() - at);
            compare_markers(cx, lane, place, &region, [unit, other], out);
        }
        pairs.push((at, other_at));
        out.is_unequal |= unit.hash != other.hash || unit.message.is_first != other.message.is_first;
        out.is_misaligned |= unit.message.is_first != other.message.is_first;
        if !is_new {
            continue;
        }
        compare_message_members(cx, place, [unit, other], out);
        if unit.kind == UnitKind::Reply && unit.json != other.json {
            out.is_incomplete = true;
            if differ_in_reply_only([unit, other]) && are_given(cx, lane, [unit, other]) {
                out.findings.push(echoed(place, [Some(unit), Some(other)]));
                continue;
            }
        }
        new_pairs.push((at, other_at));
        let is_displaced = moved.contains(&at)
            || follows_unpaired(&unpaired[0], at, golden)
            || follows_unpaired(&unpaired[1], other_at, candidate);
        out.findings.list.extend(compare_message_shape(lane, place, is_displaced, [unit, other]));
        out.findings.list.extend(compare_attachment(lane, place, &pairs, [golden, candidate], [unit, other]));
        compare_units(cx, lane, place, [unit, other], out);
    }
    compare_result_markers(cx, lane, place, golden, candidate, out);
    compare_order(cx, lane, place, &pairs, [golden, candidate], out);
    compare_call_order(lane, place, &pairs, [golden, candidate], out);
    // A missing result changes the division into messages, too.
    if has_all_results {
        out.findings.list.extend(compare_result_messages(place, &new_pairs, [golden, candidate]));
    }
}

fn compare_unpaired(
    cx: &mut Comparer<'_>,
    lane: &LaneComparison,
    place: TurnPlace,
    units: UnitPair<'_>,
    out: &mut RequestComparison,
) {
    let side = usize::from(units[0].is_none());
    let Some(unit) = units[side] else { return };
    // The other model may never have said it, so that there was nothing to carry back.
    let is_given = unit.kind == UnitKind::Reply && is_given_unpaired(cx, lane, side, unit);
    out.findings.push(match is_given {
        true => echoed(place, units),
        false => unpaired_unit(cx, lane, place, side, unit),
    });
}

/// Returns the finding for content that differs because the two models said different things.
fn echoed(place: TurnPlace, units: UnitPair<'_>) -> Finding {
    let unit = units.iter().flatten().next().expect("one side has the unit");
    let mut finding = Finding::new(place, Surface::Prompt, unit.pointer.clone());
    finding.counts.echoed += 1;
    finding.with(Difference::Value(ValueDifference {
        subject: Subject::Units { kind: unit.kind, keys: [unit.key.clone(), unit.key.clone()] },
        inside: String::new(),
        values: units.map(|unit| unit.map(|unit| unit.json.clone())),
        agreement: ValueAgreement::Echoed,
        race: None,
    }))
}

/// Compares the markers of results by their place, because results may have changed places.
fn compare_result_markers(
    cx: &Comparer<'_>,
    lane: &mut LaneComparison,
    place: TurnPlace,
    golden: &RequestUnits,
    candidate: &RequestUnits,
    out: &mut RequestComparison,
) {
    let results = |of: &RequestUnits| -> Vec<usize> {
        (0..of.ordered.len()).filter(|at| of.ordered[*at].kind == UnitKind::Result).collect()
    };
    // They are counted from the end, where the marker is, because one may be missing.
    let (mine, theirs) = (results(golden), results(candidate));
    let missing = mine.len().saturating_sub(theirs.len());
    let more = theirs.len().saturating_sub(mine.len());
    for (at, other) in mine.into_iter().skip(missing).zip(theirs.into_iter().skip(more)) {
        let region = marker_region(&golden.ordered[at], golden.ordered.len() - at);
        compare_markers(cx, lane, place, &region, [&golden.ordered[at], &candidate.ordered[other]], out);
    }
}

/// Sorts of units whose order is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OrderSort {
    Text,
    Announcement,
    Result,
    Call,
    Reply,
}

impl OrderSort {
    const ALL: [Self; 5] = [Self::Text, Self::Announcement, Self::Result, Self::Call, Self::Reply];

    fn of(lane: &LaneComparison, unit: &Unit) -> Self {
        match unit.kind {
            UnitKind::Call => Self::Call,
            UnitKind::Reply => Self::Reply,
            UnitKind::Result => Self::Result,
            _ if surface_of(unit, &lane.jobs[0]) == Surface::Jobs => Self::Announcement,
            _ => Self::Text,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Announcement => "an announcement",
            Self::Result => "a result",
            Self::Call => "a call",
            Self::Reply => "a reply",
        }
    }
}

/// Compares the order of all pairs except calls among themselves. Another order is reported once.
fn compare_order(
    cx: &Comparer<'_>,
    lane: &mut LaneComparison,
    place: TurnPlace,
    pairs: &[(usize, usize)],
    requests: [&RequestUnits; 2],
    out: &mut RequestComparison,
) {
    let mut pairs = pairs.to_vec();
    pairs.sort_unstable();
    if pairs.is_sorted_by_key(|(_, other)| *other) {
        return;
    }
    out.is_unequal = true;
    let units = &requests[0].ordered;
    // Of each sort the pair that is last in the candidate. A golden's later pair that precedes it there has moved.
    let mut last: [Option<(usize, usize)>; OrderSort::ALL.len()] = Default::default();
    let mut reported = HashSet::new();
    for pair in pairs {
        let sort = OrderSort::of(lane, &units[pair.0]);
        for other in OrderSort::ALL {
            let before = last[other as usize].filter(|before| pair.1 < before.1);
            let Some(before) = before.filter(|_| [sort, other] != [OrderSort::Call; 2]) else { continue };
            out.is_misaligned |= sort != other;
            let hash = |at: usize| units[at].hash.to_string();
            // One change of each sort is reported in a request.
            if lane.history.add_order(vec![hash(before.0), hash(pair.0)]) && reported.insert([other, sort]) {
                report_order(cx, lane, place, [other, sort], [before, pair], requests, out);
            }
        }
        let last = &mut last[sort as usize];
        *last = (*last).filter(|last| last.1 > pair.1).or(Some(pair));
    }
}

/// Reports two pairs that changed places.
fn report_order(
    cx: &Comparer<'_>,
    lane: &LaneComparison,
    place: TurnPlace,
    sorts: [OrderSort; 2],
    [early, late]: [(usize, usize); 2],
    [golden, candidate]: [&RequestUnits; 2],
    out: &mut RequestComparison,
) {
    let units = [&golden.ordered[early.0], &golden.ordered[late.0]];
    let surface = match units.map(|unit| surface_of(unit, &lane.jobs[0])) {
        _ if sorts.contains(&OrderSort::Call) => Surface::Calls,
        of if of.contains(&Surface::Jobs) => Surface::Jobs,
        of if of.contains(&Surface::Results) => Surface::Results,
        _ => Surface::Prompt,
    };
    // The answers to one message of the model are results and nothing else.
    let is_one_answer = golden.ordered[early.0..late.0].iter().all(|unit| unit.kind == UnitKind::Result);
    let is_promised = cx.recordings.sides.iter().any(|side| side.recording.facts.promises_order());
    let structure = match sorts {
        [OrderSort::Announcement, OrderSort::Announcement] => {
            out.findings.note("announcements were compared in any order, because jobs end in any order");
            Structure::AnnouncementOrder
        }
        [OrderSort::Result, OrderSort::Result] if is_one_answer && !is_promised => {
            out.findings
                .note("results of one message were compared in any order, because this harness sends them as they end");
            Structure::UnpromisedResultOrder
        }
        [OrderSort::Result, OrderSort::Result] => Structure::ResultOrder,
        [OrderSort::Text, OrderSort::Text] => Structure::TextOrder,
        [a, b] => Structure::Order([a.words(), b.words()]),
    };
    let name = |unit: &Unit| unit.call.clone().unwrap_or_else(|| short(&unit.json));
    let (mine, theirs) = (name(units[0]), name(&candidate.ordered[late.1]));
    let finding = Finding::new(place, surface, units[0].pointer.clone()).excludable();
    out.findings.push(finding.structure(structure, Some(&mine), Some(&theirs)));
}

/// Compares the order of the calls. Two calls that changed places are reported once.
fn compare_call_order(
    lane: &mut LaneComparison,
    place: TurnPlace,
    pairs: &[(usize, usize)],
    [golden, candidate]: [&RequestUnits; 2],
    out: &mut RequestComparison,
) {
    let is_call = |(at, _): &(usize, usize)| golden.ordered[*at].kind == UnitKind::Call;
    let mut calls: Vec<(usize, usize)> = pairs.iter().copied().filter(is_call).collect();
    calls.sort_unstable();
    let Some(two) = calls.windows(2).find(|two| two[1].1 < two[0].1) else { return };
    out.is_unequal = true;
    let (first, second) = (two[0], two[1]);
    let units = [&golden.ordered[first.0], &golden.ordered[second.0]];
    if !lane.history.add_order(units.map(|unit| unit.hash.to_string()).to_vec()) {
        return;
    }
    let mut theirs: Vec<usize> = calls.iter().map(|(_, other)| *other).collect();
    theirs.sort_unstable();
    let have_same_names = calls
        .iter()
        .zip(&theirs)
        .all(|((at, _), other)| golden.ordered[*at].key == candidate.ordered[*other].key);
    let structure = if have_same_names { Structure::CallOrder } else { Structure::CallNameOrder };
    let name = |unit: &Unit| unit.call.clone().unwrap_or_else(|| unit.key.clone());
    let (mine, theirs) = (name(units[0]), name(&candidate.ordered[second.1]));
    let finding = Finding::new(place, Surface::Calls, units[0].pointer.clone()).excludable();
    out.findings.push(finding.structure(structure, Some(&mine), Some(&theirs)));
}

/// Compares the number of messages that bring the new results.
fn compare_result_messages(
    place: TurnPlace,
    new_pairs: &[(usize, usize)],
    [golden, candidate]: [&RequestUnits; 2],
) -> Option<Finding> {
    let is_result = |(at, _): &&(usize, usize)| golden.ordered[*at].kind == UnitKind::Result;
    let results: Vec<_> = new_pairs.iter().filter(is_result).collect();
    let mine = results.iter().filter(|(at, _)| golden.ordered[*at].message.is_first).count();
    let theirs = results.iter().filter(|(_, other)| candidate.ordered[*other].message.is_first).count();
    let (first, _) = results.first().filter(|_| mine != theirs)?;
    let [mine, theirs] = [mine, theirs].map(|count| format!("in {count} messages"));
    let finding = Finding::new(place, Surface::Results, golden.ordered[*first].pointer.clone()).excludable();
    Some(finding.structure(Structure::ResultMessages, Some(&mine), Some(&theirs)))
}

/// Compares the members of a model's message besides its content. The harness adds them, even where replies differ.
fn compare_message_members(
    cx: &mut Comparer<'_>,
    place: TurnPlace,
    units: [&Unit; 2],
    out: &mut RequestComparison,
) {
    let extra = units.map(|unit| unit.message.extra.as_ref());
    let Some(part) = extra[0].or(extra[1]) else { return };
    let [golden, candidate] = extra.map(|extra| extra.map_or("{}", |extra| &extra.json));
    let at = ValueContext {
        surface: Surface::Prompt,
        kind: UnitKind::Reply,
        key: "message",
        turn: place,
        pointer: &part.pointer,
        is_unordered: false,
        is_given: false,
    };
    for pair in cx.values.compare(&at, golden, candidate).differences {
        let difference = ValueDifference {
            subject: Subject::MessageMembers,
            inside: String::new(),
            values: pair.values,
            agreement: if pair.is_masked { ValueAgreement::Masked } else { ValueAgreement::Different },
            race: None,
        };
        let finding = Finding::new(place, Surface::Prompt, pair.pointer);
        out.findings.push(finding.with(Difference::Value(difference)));
    }
}

/// Compares the roles of two units, whether each begins a message, and whether each is a bare string.
fn compare_message_shape(
    lane: &LaneComparison,
    place: TurnPlace,
    is_displaced: bool,
    units: [&Unit; 2],
) -> Option<Finding> {
    let [unit, other] = units;
    let [mine, theirs] = units.map(|unit| &unit.message);
    let role = |unit: &Unit| {
        let known = || unit.message.role.map(|role| format!("{role:?}").to_ascii_lowercase());
        unit.message.written_role.clone().or_else(known)
    };
    let (structure, values) = if mine.role != theirs.role || mine.written_role != theirs.written_role {
        (Structure::Role, units.map(role))
    } else if mine.is_first != theirs.is_first && unit.kind != UnitKind::Result && !is_displaced {
        let start = |is_first: bool| if is_first { "first in its message" } else { "later in its message" };
        (Structure::Messages, [mine, theirs].map(|it| Some(start(it.is_first).to_owned())))
    } else if unit.is_bare != other.is_bare {
        let form = |is_bare: bool| if is_bare { "a string" } else { "a block" };
        (Structure::TextForm, units.map(|unit| Some(form(unit.is_bare).to_owned())))
    } else {
        return None;
    };
    let surface = surface_of(unit, &lane.jobs[0]);
    let finding = Finding::new(place, surface, unit.pointer.clone()).excludable();
    Some(finding.structure(structure, values[0].as_deref(), values[1].as_deref()))
}

/// Compares the results that two reminders are attached to: results of the same call, or both the last of their message.
fn compare_attachment(
    lane: &LaneComparison,
    place: TurnPlace,
    pairs: &[(usize, usize)],
    [golden, candidate]: [&RequestUnits; 2],
    [unit, other]: [&Unit; 2],
) -> Option<Finding> {
    let (mine, theirs) = (unit.attachment.as_ref()?, other.attachment.as_ref()?);
    let is_pair = |(at, other_at): &(usize, usize)| {
        let calls = [&golden.ordered[*at], &candidate.ordered[*other_at]].map(|unit| unit.call.as_ref());
        calls == [Some(&mine.call), Some(&theirs.call)]
    };
    if (mine.is_last && theirs.is_last) || pairs.iter().any(is_pair) {
        return None;
    }
    let finding = Finding::new(place, surface_of(unit, &lane.jobs[0]), unit.pointer.clone()).excludable();
    Some(finding.structure(Structure::ReminderPlace, Some(&mine.call), Some(&theirs.call)))
}

/// Returns whether all units before a unit in its message have no counterpart. Then they are the reason why the message
/// begins elsewhere, and they are reported already.
fn follows_unpaired(unpaired: &HashSet<usize>, at: usize, units: &RequestUnits) -> bool {
    let first = (0..=at).rev().find(|at| units.ordered[*at].message.is_first).unwrap_or(at);
    first < at && (first..at).all(|before| unpaired.contains(&before))
}

/// Returns the name of a marker's place. In messages it is counted from the end, because markers move with it.
fn marker_region(unit: &Unit, from_end: usize) -> String {
    match unit.kind == UnitKind::System || !unit.message.follows_reply {
        true => unit.pointer.clone(),
        false => format!("-{from_end}"),
    }
}
