//! Jobs: agents in the background, from their acknowledgement to their last words.

use std::collections::{BTreeSet, HashMap, HashSet};

use recording::lanes::{Job, Lane, LaneKind, Lanes, Touch};

use super::compare::Comparison;
use super::found::Spot;
use super::pair::LanePair;
use crate::verdict::{Level, Surface};

/// By what a lane's requests speak of the jobs that it started.
#[derive(Clone, Debug, Default)]
pub(super) struct JobWords {
    /// Calls whose results are about a job: launches, polls, cancels.
    calls: HashSet<String>,
    /// Calls that ask after a job which is still at work when they are answered.
    early: HashSet<String>,
    /// Words that name a job.
    names: HashMap<String, BTreeSet<String>>,
}

impl JobWords {
    /// Those of the jobs that a lane started.
    pub(super) fn of(lanes: &Lanes, jobs: &[Job], parent: &Lane, name: impl Fn(&str) -> String) -> Self {
        let mut words = Self::default();
        for job in jobs.iter().filter(|job| job.parent == parent.id && is_of_interest(job)) {
            if job.background {
                words.calls.insert(job.call.as_str().to_owned());
            }
            words.calls.extend(job.touches.iter().map(|touch| touch.call.as_str().to_owned()));
            let is_early = |touch: &&Touch| {
                !touch.cancels && job.delivered.is_none_or(|delivered| delivered > touch.turn + 1)
            };
            let early = job.touches.iter().filter(is_early);
            words.early.extend(early.map(|touch| touch.call.as_str().to_owned()));
            let called = name(&job.lane);
            let mut add = |word: &str| {
                words.names.entry(word.to_owned()).or_default().insert(called.clone());
            };
            add(job.call.as_str());
            let child = lanes.lane(&job.lane);
            let own = child.into_iter().flat_map(|lane| lane.agent.iter().chain(&lane.session));
            own.filter(|id| parent.session.as_ref() != Some(id)).for_each(|id| add(id));
            let results = parent.turns.iter().flat_map(|turn| &turn.results);
            let launch =
                results.filter(|result| result.call == job.call).map(|result| result.text.as_str()).next();
            let is_name = |word: &&str| word.len() >= 6 && word.bytes().any(|byte| byte.is_ascii_digit());
            split(launch.unwrap_or_default()).filter(is_name).for_each(add);
        }
        words
    }

    /// The words that name a job.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Whether a result is about a job.
    pub(super) fn answers(&self, call: Option<&str>) -> bool {
        call.is_some_and(|call| self.calls.contains(call))
    }

    /// Whether a result is about a job that was still at work.
    pub(super) fn answers_early(&self, call: Option<&str>) -> bool {
        call.is_some_and(|call| self.early.contains(call))
    }

    /// Whether a text, given as JSON, names a job.
    pub(super) fn announced(&self, json: &str) -> bool {
        !self.names.is_empty() && split(&wire::json::unescape(json)).any(|word| self.names.contains_key(word))
    }

    /// The jobs that a text, given as JSON, names by words that are theirs alone.
    pub(super) fn named(&self, json: &str) -> BTreeSet<String> {
        let text = wire::json::unescape(json);
        let named = split(&text).filter_map(|word| self.names.get(word)).filter(|jobs| jobs.len() == 1);
        named.flatten().cloned().collect()
    }
}

fn is_of_interest(job: &Job) -> bool {
    job.background || !job.touches.is_empty() || !job.notices.is_empty()
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
}

/// What happened to a job, in order, each with the parent's turn.
fn story(job: &Job) -> Vec<(u32, &'static str)> {
    let mut story = Vec::new();
    let answer = if job.background { "acknowledgement" } else { "result" };
    story.extend(job.acknowledged.map(|turn| (turn, answer)));
    story.extend(job.touches.iter().map(|touch| (touch.turn, if touch.cancels { "cancel" } else { "poll" })));
    let notice = |wakes: bool| if wakes { "wake-up" } else { "announcement" };
    story.extend(job.notices.iter().map(|told| (told.turn, notice(told.wakes))));
    if job.background {
        story.extend(job.delivered.map(|turn| (turn, "delivery")));
    }
    story.sort_by_key(|(turn, _)| *turn);
    story
}

impl Comparison<'_> {
    /// Compares what became of each job of a lane.
    pub(super) fn jobs(&mut self, number: usize, pair: &LanePair, name: &str) {
        let (Some(g), Some(c)) = (pair.golden, pair.candidate) else { return };
        let parents = [&self.sides[0].ordered.lanes.lanes[g].id, &self.sides[1].ordered.lanes.lanes[c].id];
        let of = |side: usize, jobs: &[Job]| -> Vec<Job> {
            jobs.iter().filter(|job| job.parent == *parents[side]).cloned().collect()
        };
        let (mine, theirs) = (of(0, &self.jobs[0]), of(1, &self.jobs[1]));
        for job in &mine {
            let lane = self.counterpart(0, &job.lane);
            let Some(other) = theirs.iter().find(|other| Some(&other.lane) == lane.as_ref()) else {
                continue;
            };
            if is_of_interest(job) || is_of_interest(other) {
                self.job(number, name, job, other, pair);
            }
        }
    }

    fn job(&mut self, number: usize, name: &str, golden: &Job, candidate: &Job, pair: &LanePair) {
        let (mine, theirs) = (story(golden), story(candidate));
        let kinds = |story: &[(u32, &'static str)]| story.iter().map(|(_, kind)| *kind).collect::<Vec<_>>();
        let set =
            |story: &[(u32, &'static str)]| story.iter().map(|(_, kind)| *kind).collect::<BTreeSet<_>>();
        let words = |story: &[(u32, &'static str)]| kinds(story).join(", ");
        let spot = Spot { surface: Surface::Jobs, lane: name, turn: golden.launched };
        let judged = !self.excluded(number, Surface::Jobs, "job:story");
        let counts = self.tally.counts(number, Surface::Jobs);
        counts.compared += u64::from(judged);
        counts.equal += u64::from(judged && kinds(&mine) == kinds(&theirs));
        if kinds(&mine) != kinds(&theirs) {
            if !judged {
                return;
            }
            let (holds, what) = match set(&mine) == set(&theirs) {
                true => (Level::E1, format!("what became of {} happened in another order", golden.lane)),
                false => (Level::E0, format!("other things became of {}", golden.lane)),
            };
            let (mine, theirs) = (words(&mine), words(&theirs));
            self.changes.stories.insert((mine.clone(), theirs.clone()));
            let difference = spot.structural(Some(holds), "job:story", what, Some(&mine), Some(&theirs));
            return self.differ(number, difference);
        }
        if self.excluded(number, Surface::Routing, "job:turn") {
            return;
        }
        let turns = mine.iter().zip(&theirs);
        let moved = turns
            .into_iter()
            .find(|((g, _), (c, _))| !pair.turns.contains(&(Some(*g as usize - 1), Some(*c as usize - 1))));
        let counts = self.tally.counts(number, Surface::Routing);
        counts.compared += 1;
        counts.equal += u64::from(moved.is_none());
        if let Some(((g, kind), (c, _))) = moved {
            let spot = Spot { surface: Surface::Routing, lane: name, turn: *g };
            let what = format!("the {kind} of {} comes at another turn", golden.lane);
            let (mine, theirs) = (format!("turn {g}"), format!("turn {c}"));
            self.changes.tell(Surface::Routing, format!("the {kind} comes at another turn"));
            let difference = spot.structural(Some(Level::E1), "job:turn", what, Some(&mine), Some(&theirs));
            self.differ(number, difference);
        }
    }
}

/// Agents that were started by the same turn, lane by lane of the parent.
pub(super) fn siblings(lanes: &Lanes) -> Vec<Vec<String>> {
    /// A parent and its turn.
    type Start = (Option<String>, Option<usize>);
    let mut groups: Vec<(Start, Vec<String>)> = Vec::new();
    for lane in lanes.lanes.iter().filter(|lane| lane.kind == LaneKind::Sub) {
        let parent = lane.parent.as_deref().and_then(|parent| lanes.lane(parent));
        let turn = parent.and_then(|parent| super::pair::spawn_place(parent, lane)).map(|(turn, _)| turn);
        let key = (lane.parent.clone(), turn);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, lanes)) => lanes.push(lane.id.clone()),
            None => groups.push((key, vec![lane.id.clone()])),
        }
    }
    groups.into_iter().map(|(_, lanes)| lanes).filter(|lanes| lanes.len() > 1).collect()
}
