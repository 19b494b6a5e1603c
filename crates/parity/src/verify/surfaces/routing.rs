//! Surface `routing`: lanes and their parents, addresses, ids, attempts, and whether each request was answered.

use std::cmp::Ordering;

use recording::lanes::{Lane, LaneKind, Lanes, Turn};
use session::RequestId;
use wire::Ending;

use super::SurfaceDefinition;
use crate::surface::Surface;
use crate::verdict::Level;
use crate::verify::align::{PairedRecordings, spawn_place};
use crate::verify::changes::{Changes, listed};
use crate::verify::finding::{Finding, Findings, TurnPlace, on_side};
use crate::verify::project::{ProjectedRecording, UnitKind};
use crate::verify::structure::{ChangeKind, Structure};
use crate::verify::text::SIDES;

pub(super) const DEFINITION: SurfaceDefinition = SurfaceDefinition {
    has_unit: |kind, _| matches!(kind, UnitKind::RequestLine | UnitKind::Identity),
    value_level: |change| if change.kind == UnitKind::Identity { Level::E2 } else { Level::E1 },
    unpaired_level: |_| Level::E1,
    unit_name: |kind, key| match kind {
        UnitKind::Identity => format!("the id in `{key}`"),
        _ => format!("the request's {key}"),
    },
    summary,
    has_prose: false,
    has_versions: false,
    compare_lane: Some(compare_place),
    compare_turn: Some(compare_attempts),
};

const LANE: &str = "lane:tree";

/// Compares the place of a lane in the tree.
fn compare_place(recordings: &PairedRecordings<'_>, pair: usize, findings: &mut Findings) {
    if pair == 0 {
        compare_activity(recordings, findings);
        if recordings.first_lane(pair).kind == LaneKind::Main {
            compare_exit_codes(recordings, findings);
        }
    }
    match [0, 1].map(|side| recordings.lane(side, pair)) {
        [Some(golden), Some(candidate)] => {
            compare_lane_facts(recordings, pair, [golden, candidate], findings);
            if golden.kind == LaneKind::Side {
                compare_side_calls(recordings, pair, [golden, candidate], findings);
            }
        }
        [Some(lane), None] => report_lane(recordings, pair, 0, lane, findings),
        [None, Some(lane)] => report_lane(recordings, pair, 1, lane, findings),
        [None, None] => {}
    }
}

/// Compares whether the recordings have requests, and requests of agents, which is part of E0.
fn compare_activity(recordings: &PairedRecordings<'_>, findings: &mut Findings) {
    let activities = [0, 1].map(|side| Activity::of(recordings.sides[side].lanes()));
    let side = match activities[0].cmp(&activities[1]) {
        Ordering::Equal => return,
        Ordering::Greater => 0,
        Ordering::Less => 1,
    };
    let place = TurnPlace { lane: 0, turn: 0 };
    let missing = Finding::new(place, Surface::Routing, "lane:requests");
    let words = activities.map(Activity::words);
    let structure = Structure::Activity { side, words: activities[side].words() };
    findings.push(missing.structure(structure, Some(words[0]), Some(words[1])));
}

/// Kind of the requests in a recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    Nothing,
    SideCalls,
    Agents,
}

impl Activity {
    fn of(lanes: &Lanes) -> Self {
        match lanes.lanes.iter().any(|lane| lane.kind != LaneKind::Side) {
            true => Self::Agents,
            false if lanes.lanes.is_empty() => Self::Nothing,
            false => Self::SideCalls,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "no request",
            Self::SideCalls => "side calls",
            Self::Agents => "requests of an agent",
        }
    }
}

/// Compares the exit codes, which is part of E0.
fn compare_exit_codes(recordings: &PairedRecordings<'_>, findings: &mut Findings) {
    let facts = [0, 1].map(|side| &recordings.sides[side].recording.facts);
    match facts.map(|facts| facts.ran) {
        [true, true] => {}
        [false, false] => return,
        _ => {
            return findings.note("exit codes were not compared: only one of the recordings has one");
        }
    }
    let codes = facts.map(|facts| facts.exit_code);
    let place = TurnPlace { lane: 0, turn: 0 };
    let is_equal = codes[0] == codes[1];
    let ending = Finding { is_ending: true, ..Finding::new(place, Surface::Routing, "lane:exit_code") };
    let ending = ending.compared(is_equal);
    if is_equal {
        return findings.push(ending);
    }
    let words = codes.map(|code| code.map_or("none, it was killed".to_owned(), |code| code.to_string()));
    findings.push(ending.structure(Structure::ExitCode, Some(&words[0]), Some(&words[1])));
}

/// Reports a lane that only one side has.
fn report_lane(
    recordings: &PairedRecordings<'_>,
    pair: usize,
    side: usize,
    lane: &Lane,
    findings: &mut Findings,
) {
    let place = TurnPlace { lane: pair, turn: 1 };
    let counted = Finding::new(place, Surface::Routing, LANE);
    if lane.kind == LaneKind::Side && recordings.have_agents() {
        findings.push(counted.unpaired(1, lane.turns.len() as u64));
        return findings.note(format!(
            "only the {} has the side call {}; the number of side calls does not count",
            SIDES[side],
            name_of(lane)
        ));
    }
    findings.push(counted.unpaired(side, 1));
    let parent = lane.parent.as_deref().unwrap_or("none");
    let kind = format!("{:?}", lane.kind).to_ascii_lowercase();
    let words = format!("{kind}, {}, parent {parent}", turn_count(lane));
    let [golden, candidate] = on_side(side, words.as_str());
    let finding = Finding::new(place, Surface::Routing, LANE).excludable();
    findings.push(finding.structure(Structure::Lane { side }, golden, candidate));
}

/// Reports the calls of two aligned side lanes that only one side has.
fn compare_side_calls(
    recordings: &PairedRecordings<'_>,
    pair: usize,
    lanes: [&Lane; 2],
    findings: &mut Findings,
) {
    for side in [0, 1] {
        let unpaired = |row: &(Option<usize>, Option<usize>)| match side {
            0 => row.0.filter(|_| row.1.is_none()),
            _ => row.1.filter(|_| row.0.is_none()),
        };
        let turns = recordings.pairs[pair].turns.iter().filter_map(unpaired);
        let turns: Vec<u32> = turns.map(|at| lanes[side].turns[at].turn).collect();
        let Some(first) = turns.first().copied() else { continue };
        if recordings.have_agents() {
            let place = TurnPlace { lane: pair, turn: first };
            findings.push(Finding::new(place, Surface::Routing, LANE).unpaired(1, turns.len() as u64));
            let numbers: Vec<String> = turns.iter().map(u32::to_string).collect();
            findings.note(format!(
                "only the {} has {} {} of the side calls {}; the number of side calls does not count",
                SIDES[side],
                if turns.len() == 1 { "turn" } else { "turns" },
                numbers.join(", "),
                name_of(lanes[side])
            ));
            continue;
        }
        // Without agents, the side calls are all there is to compare.
        for turn in turns {
            let place = TurnPlace { lane: pair, turn };
            findings.push(Finding::new(place, Surface::Routing, LANE).unpaired(side, 1));
            let [golden, candidate] =
                on_side(side, lanes[side].agent_type.as_deref().unwrap_or("a side call"));
            let finding = Finding::new(place, Surface::Routing, LANE).excludable();
            findings.push(finding.structure(Structure::SideCall { side }, golden, candidate));
        }
    }
}

/// Compares the parents, starts, kinds and lengths of two aligned lanes.
fn compare_lane_facts(
    recordings: &PairedRecordings<'_>,
    pair: usize,
    [golden, candidate]: [&Lane; 2],
    findings: &mut Findings,
) {
    let mut add = |structure: Structure, is_equal: bool, values: [String; 2]| {
        let place = TurnPlace { lane: pair, turn: 1 };
        let finding = Finding::new(place, Surface::Routing, LANE).excludable().compared(is_equal);
        findings.push(match is_equal {
            true => finding,
            false => finding.structure(structure, Some(&values[0]), Some(&values[1])),
        });
    };
    let is_side = golden.kind == LaneKind::Side;
    let parent = golden.parent.as_ref().map(|it| recordings.counterpart(0, it).unwrap_or_default());
    let parents = [golden, candidate].map(|lane| lane.parent.clone().unwrap_or_else(|| "none".to_owned()));
    add(Structure::Parent, parent == candidate.parent || is_side, parents);
    let starts = [(0, golden), (1, candidate)].map(|(side, lane)| spawn(&recordings.sides[side], lane));
    if let [Some(mine), Some(theirs)] = starts {
        let is_same_turn = are_aligned(recordings, golden, mine.0, theirs.0);
        let words = [mine, theirs].map(|(turn, call)| format!("turn {}, call {}", turn + 1, call + 1));
        add(Structure::SpawnCall, mine.1 == theirs.1 && is_same_turn, words);
    }
    let kinds = [golden, candidate].map(|lane| lane.agent_type.clone().unwrap_or_else(|| "-".to_owned()));
    add(Structure::AgentType, kinds[0] == kinds[1], kinds);
    if !is_side {
        let counts = [golden, candidate].map(turn_count);
        add(Structure::TurnCount, counts[0] == counts[1], counts);
    }
}

/// Returns the index of the turn and of the call that started a lane.
fn spawn(recording: &ProjectedRecording<'_>, lane: &Lane) -> Option<(usize, usize)> {
    spawn_place(recording.lanes().lane(lane.parent.as_deref()?)?, lane)
}

/// Returns whether two turns of the parent are aligned.
fn are_aligned(recordings: &PairedRecordings<'_>, lane: &Lane, golden: usize, candidate: usize) -> bool {
    let lanes = &recordings.sides[0].lanes().lanes;
    let parent = lanes.iter().position(|other| Some(&other.id) == lane.parent.as_ref());
    let pair = recordings.pairs.iter().find(|pair| pair.lanes[0] == parent);
    pair.is_some_and(|pair| pair.turns.contains(&(Some(golden), Some(candidate))))
}

/// Compares the attempts of two aligned turns and their answers.
fn compare_attempts(
    recordings: &PairedRecordings<'_>,
    place: TurnPlace,
    turns: [&Turn; 2],
    findings: &mut Findings,
) {
    // The number of side calls is not judged, and a second attempt looks like a second call.
    let is_side = recordings.first_lane(place.lane).kind == LaneKind::Side;
    let counts = match is_side {
        true => [1, 1],
        false => turns.map(|turn| turn.attempts.len()),
    };
    let answered = [0, 1].map(|side| was_answered(&recordings.sides[side], turns[side]));
    compare_statuses(recordings, place, turns, findings);
    let (same_count, same_answer) = (counts[0] == counts[1], answered[0] == answered[1]);
    let ending = Finding { is_ending: true, ..Finding::new(place, Surface::Routing, "lane:answer") };
    let ending = ending.compared(same_count && same_answer);
    findings.push(match same_answer {
        true => ending,
        false => {
            let words = answered.map(|whole| if whole { "answered" } else { "not answered" });
            ending.structure(Structure::Answered, Some(words[0]), Some(words[1]))
        }
    });
    if !same_count {
        let words =
            counts.map(|count| format!("{count} {}", if count == 1 { "attempt" } else { "attempts" }));
        let finding = Finding::new(place, Surface::Routing, "lane:attempts").excludable();
        findings.push(finding.structure(Structure::Attempts, Some(&words[0]), Some(&words[1])));
    }
}

/// Compares the statuses of the attempts, counted from the last.
fn compare_statuses(
    recordings: &PairedRecordings<'_>,
    place: TurnPlace,
    turns: [&Turn; 2],
    findings: &mut Findings,
) {
    let attempts = turns[0].attempts.len();
    let pairs = turns[0].attempts.iter().rev().zip(turns[1].attempts.iter().rev());
    for (back, (mine, theirs)) in pairs.enumerate() {
        let statuses = [(0, mine), (1, theirs)].map(|(side, id)| status(&recordings.sides[side], id));
        if statuses[0] == statuses[1] {
            continue;
        }
        let words =
            statuses.map(|status| status.map_or("no answer".to_owned(), |status| format!("status {status}")));
        let structure = Structure::Status { attempt: attempts - back, attempts };
        let finding = Finding::new(place, Surface::Routing, "answer:status").excludable();
        findings.push(finding.structure(structure, Some(&words[0]), Some(&words[1])));
    }
}

fn status(recording: &ProjectedRecording<'_>, id: &RequestId) -> Option<u16> {
    let exchanges = &recording.recording.ordered.exchanges;
    exchanges.iter().find(|exchange| exchange.id == *id)?.status
}

/// Returns whether a turn was answered. A request that the harness cut counts as answered, because it wanted no more.
/// So does one that asks no model, because its status is compared.
fn was_answered(recording: &ProjectedRecording<'_>, turn: &Turn) -> bool {
    let exchanges = &recording.recording.ordered.exchanges;
    let last = turn.attempts.last().and_then(|id| exchanges.iter().find(|exchange| exchange.id == *id));
    let was_cut = last.is_some_and(|exchange| exchange.ending == Some(Ending::CutByHarness));
    turn.whole || was_cut || last.is_none_or(|exchange| exchange.dialect.is_none())
}

/// Returns a lane's name, such as `side-1 (POST /v1/messages/count_tokens)`.
fn name_of(lane: &Lane) -> String {
    let agent_type = lane.agent_type.as_ref().map_or(String::new(), |it| format!(" ({it})"));
    format!("{}{agent_type}", lane.id)
}

fn turn_count(lane: &Lane) -> String {
    if lane.turns.len() == 1 { "1 turn".to_owned() } else { format!("{} turns", lane.turns.len()) }
}

fn summary(changes: &Changes) -> Vec<String> {
    let of = |kind: UnitKind, change: ChangeKind| changes.of(Surface::Routing, kind, change);
    use ChangeKind::{Changed, Gone, New};
    use UnitKind::{Identity, RequestLine};
    let lines = [
        listed("ids gone:", &of(Identity, Gone)),
        listed("ids new:", &of(Identity, New)),
        listed("ids changed:", &of(Identity, Changed)),
        listed("changed:", &of(RequestLine, Changed)),
    ];
    changes.others(Surface::Routing).chain(lines.into_iter().flatten()).collect()
}
