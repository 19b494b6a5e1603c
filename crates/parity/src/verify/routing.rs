//! The tree: which lanes there are, who started them, and whether everything was answered.

use recording::lanes::{Lane, LaneKind, Turn};
use session::RequestId;
use wire::Ending;

use super::compare::Comparison;
use super::found::Spot;
use super::levels;
use super::pair::{LanePair, spawn_place};
use crate::verdict::{Level, Surface};

impl Comparison<'_> {
    /// E0: both ran to the same end, and the candidate answered what the golden did.
    pub(super) fn outcome(&mut self, main: usize, name: &str) {
        let codes = [0, 1].map(|side| self.sides[side].facts.exit_code);
        let ran = [0, 1].map(|side| self.sides[side].facts.ran);
        if ran != [true, true] {
            if ran != [false, false] {
                self.note(
                    "only one of the two says how its harness ended: exit codes were not compared".into(),
                );
            }
            return;
        }
        self.tally.ending(main, codes[0] == codes[1]);
        if codes[0] != codes[1] {
            let words = codes.map(|code| code.map_or("had to be ended".to_owned(), |code| code.to_string()));
            let spot = Spot { surface: Surface::Routing, lane: name, turn: 0 };
            let what = "the harness ended with another exit code";
            let difference = spot.structural(None, "lane:exit_code", what, Some(&words[0]), Some(&words[1]));
            self.differ(main, difference);
        }
    }

    /// The place of a lane in the tree.
    pub(super) fn place(&mut self, number: usize, pair: &LanePair, name: &str) {
        let lane =
            |side: usize, at: Option<usize>| at.map(|at| self.sides[side].ordered.lanes.lanes[at].clone());
        let (golden, candidate) = (lane(0, pair.golden), lane(1, pair.candidate));
        match (golden, candidate) {
            (Some(g), Some(c)) => self.same_place(number, name, &g, &c),
            (Some(lane), None) => self.lonely_lane(number, 0, &lane),
            (None, Some(lane)) => self.lonely_lane(number, 1, &lane),
            (None, None) => {}
        }
    }

    fn lonely_lane(&mut self, number: usize, side: usize, lane: &Lane) {
        let whose = ["golden", "candidate"][side];
        if lane.kind == LaneKind::Side && self.has_agents() {
            self.tally.counts(number, Surface::Routing).absent += lane.turns.len() as u64;
            self.note(format!(
                "only the {whose} has the side call {}; the number of side calls is not judged",
                name_of(lane)
            ));
            return;
        }
        let counts = self.tally.counts(number, Surface::Routing);
        if side == 0 {
            counts.compared += 1
        } else {
            counts.absent += 1
        }
        let about = format!(
            "{:?} of {}, started by {}",
            lane.kind,
            turns(lane),
            lane.parent.as_deref().unwrap_or("nobody")
        )
        .to_ascii_lowercase();
        let sides = if side == 0 { [Some(about.as_str()), None] } else { [None, Some(about.as_str())] };
        let spot = Spot { surface: Surface::Routing, lane: &lane.id, turn: 1 };
        let what = format!("only the {whose} has this lane");
        self.changes.tell(Surface::Routing, format!("lanes that only the {whose} has"));
        let difference = spot.structural(levels::UNPAIRED, "lane:tree", what, sides[0], sides[1]);
        if !self.excluded(number, Surface::Routing, "lane:tree") {
            self.differ(number, difference);
        }
    }

    /// Calls of two side lanes that meet, which only one side has.
    pub(super) fn lonely_calls(&mut self, number: usize, pair: &LanePair, lanes: [&Lane; 2]) {
        for side in [0, 1] {
            let here = |row: &(Option<usize>, Option<usize>)| match side {
                0 => row.0.filter(|_| row.1.is_none()),
                _ => row.1.filter(|_| row.0.is_none()),
            };
            let turns: Vec<u32> =
                pair.turns.iter().filter_map(here).map(|at| lanes[side].turns[at].turn).collect();
            if turns.is_empty() {
                continue;
            }
            let whose = ["golden", "candidate"][side];
            if self.has_agents() {
                self.tally.counts(number, Surface::Routing).absent += turns.len() as u64;
                let listed: Vec<String> = turns.iter().map(u32::to_string).collect();
                let which = if turns.len() == 1 { "turn" } else { "turns" };
                self.note(format!(
                    "only the {whose} has {which} {} of the side calls {}; the number of side calls is not judged",
                    listed.join(", "),
                    name_of(lanes[side])
                ));
                continue;
            }
            for turn in turns {
                self.lonely_call(number, side, lanes[0], lanes[side].agent_type.as_deref(), turn);
            }
        }
    }

    /// A call that only one side has, where there are no others to judge by.
    fn lonely_call(&mut self, number: usize, side: usize, lane: &Lane, what: Option<&str>, turn: u32) {
        let counts = self.tally.counts(number, Surface::Routing);
        if side == 0 {
            counts.compared += 1
        } else {
            counts.absent += 1
        }
        let what = what.unwrap_or("a side call");
        let sides = if side == 0 { [Some(what), None] } else { [None, Some(what)] };
        let spot = Spot { surface: Surface::Routing, lane: &lane.id, turn };
        let words = format!("only the {} has this call", ["golden", "candidate"][side]);
        self.changes
            .tell(Surface::Routing, format!("calls that only the {} has", ["golden", "candidate"][side]));
        let difference = spot.structural(levels::UNPAIRED, "lane:tree", words, sides[0], sides[1]);
        if !self.excluded(number, Surface::Routing, "lane:tree") {
            self.differ(number, difference);
        }
    }

    /// Whether either recording has an agent. Where there is none, side calls are all there is to judge.
    fn has_agents(&self) -> bool {
        self.sides.iter().any(|side| side.ordered.lanes.lanes.iter().any(|lane| lane.kind != LaneKind::Side))
    }

    fn same_place(&mut self, number: usize, name: &str, golden: &Lane, candidate: &Lane) {
        let parent_of = |lane: &Lane| lane.parent.clone().unwrap_or_else(|| "nobody".to_owned());
        let parent = golden.parent.as_ref().map(|parent| self.counterpart(0, parent).unwrap_or_default());
        let mut facts: Vec<(&str, Level, bool, String, String)> = vec![(
            "its parent",
            Level::E0,
            parent == candidate.parent || golden.kind == LaneKind::Side,
            parent_of(golden),
            parent_of(candidate),
        )];
        if let (Some(mine), Some(theirs)) = (self.spawn(0, golden), self.spawn(1, candidate)) {
            let same = mine.1 == theirs.1 && self.turns_meet(0, golden, mine.0, theirs.0);
            let words = |(turn, call): (u32, String)| format!("turn {turn}, {call}");
            facts.push(("the call that started it", Level::E1, same, words(mine), words(theirs)));
        }
        let kinds = [golden, candidate].map(|lane| lane.agent_type.clone().unwrap_or_else(|| "-".to_owned()));
        facts.push((
            "its kind of agent",
            Level::E1,
            kinds[0] == kinds[1],
            kinds[0].clone(),
            kinds[1].clone(),
        ));
        if golden.kind != LaneKind::Side {
            let counts = [golden, candidate].map(turns);
            facts.push((
                "its number of turns",
                Level::E1,
                counts[0] == counts[1],
                counts[0].clone(),
                counts[1].clone(),
            ));
        }
        for (what, holds, same, mine, theirs) in facts {
            if self.excluded(number, Surface::Routing, "lane:tree") {
                continue;
            }
            let counts = self.tally.counts(number, Surface::Routing);
            counts.compared += 1;
            counts.equal += u64::from(same);
            if !same {
                let spot = Spot { surface: Surface::Routing, lane: name, turn: 1 };
                let what = format!("{what} differs");
                self.changes.tell(Surface::Routing, format!("{what}: {mine} / {theirs}"));
                let difference = spot.structural(Some(holds), "lane:tree", what, Some(&mine), Some(&theirs));
                self.differ(number, difference);
            }
        }
    }

    /// The turn and the place of the call that started a lane.
    fn spawn(&self, side: usize, lane: &Lane) -> Option<(u32, String)> {
        let lanes = &self.sides[side].ordered.lanes;
        let parent = lanes.lane(lane.parent.as_deref()?)?;
        let (turn, at) = spawn_place(parent, lane)?;
        Some((turn as u32 + 1, format!("call {}", at + 1)))
    }

    fn turns_meet(&self, side: usize, lane: &Lane, golden: u32, candidate: u32) -> bool {
        let lanes = &self.sides[side].ordered.lanes.lanes;
        let parent = lanes.iter().position(|other| Some(&other.id) == lane.parent.as_ref());
        let pair = self.pairs.iter().find(|pair| pair.golden == parent);
        pair.is_some_and(|pair| {
            pair.turns.contains(&(Some(golden as usize - 1), Some(candidate as usize - 1)))
        })
    }

    /// How two turns that meet were asked and answered.
    pub(super) fn attempts(&mut self, number: usize, name: &str, golden: &Turn, candidate: &Turn) {
        // How often a side call was made is not judged, and a second try looks just the same.
        let is_side = self.sides[0]
            .ordered
            .lanes
            .lanes
            .iter()
            .any(|lane| lane.id == name && lane.kind == LaneKind::Side);
        let counts = match is_side {
            true => [1, 1],
            false => [golden, candidate].map(|turn| turn.attempts.len()),
        };
        let answered = [self.was_answered(0, golden), self.was_answered(1, candidate)];
        self.statuses(number, name, golden, candidate);
        self.tally.ending(number, counts[0] == counts[1] && answered[0] == answered[1]);
        let spot = Spot { surface: Surface::Routing, lane: name, turn: golden.turn };
        if answered[0] != answered[1] {
            let words = answered.map(|whole| if whole { "answered" } else { "not answered" });
            let what = "whether it was answered differs";
            let difference = spot.structural(None, "lane:answer", what, Some(words[0]), Some(words[1]));
            self.differ(number, difference);
        }
        if counts[0] != counts[1] && !self.excluded(number, Surface::Routing, "lane:attempts") {
            let words = counts.map(|count| format!("{count} attempts"));
            let what = "it took another number of attempts";
            let difference =
                spot.structural(Some(Level::E2), "lane:attempts", what, Some(&words[0]), Some(&words[1]));
            self.differ(number, difference);
        }
    }

    /// With what status each attempt was answered, counted from the last.
    fn statuses(&mut self, number: usize, name: &str, golden: &Turn, candidate: &Turn) {
        let tries = golden.attempts.len();
        let pairs = golden.attempts.iter().rev().zip(candidate.attempts.iter().rev());
        for (back, (mine, theirs)) in pairs.enumerate() {
            let statuses = [(0, mine), (1, theirs)].map(|(side, id)| self.status(side, id));
            let pointer = "answer:status";
            if statuses[0] == statuses[1] || self.excluded(number, Surface::Routing, pointer) {
                continue;
            }
            let words = statuses
                .map(|status| status.map_or("no answer".to_owned(), |status| format!("status {status}")));
            let spot = Spot { surface: Surface::Routing, lane: name, turn: golden.turn };
            let what = format!("attempt {} of {tries} was answered with another status", tries - back);
            let difference =
                spot.structural(Some(Level::E2), pointer, what, Some(&words[0]), Some(&words[1]));
            self.differ(number, difference);
        }
    }

    fn status(&self, side: usize, id: &RequestId) -> Option<u16> {
        let exchanges = &self.sides[side].ordered.exchanges;
        exchanges.iter().find(|exchange| exchange.id == *id)?.status
    }

    /// A call that the harness itself gave up counts as answered: it wanted no more. So does one that asks no model, of
    /// which the status tells.
    fn was_answered(&self, side: usize, turn: &Turn) -> bool {
        let exchanges = &self.sides[side].ordered.exchanges;
        let last = turn.attempts.last().and_then(|id| exchanges.iter().find(|exchange| exchange.id == *id));
        let given_up = last.is_some_and(|exchange| exchange.ending == Some(Ending::CutByHarness));
        turn.whole || given_up || last.is_none_or(|exchange| exchange.dialect.is_none())
    }
}

/// As in `side-1 (POST /v1/messages/count_tokens)`.
fn name_of(lane: &Lane) -> String {
    let what = lane.agent_type.as_ref().map_or(String::new(), |what| format!(" ({what})"));
    format!("{}{what}", lane.id)
}

/// How many turns it has, as in `2 turns`.
fn turns(lane: &Lane) -> String {
    if lane.turns.len() == 1 { "1 turn".to_owned() } else { format!("{} turns", lane.turns.len()) }
}
