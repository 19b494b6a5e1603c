//! Ends of agents that one request of their parent tells of: the parent must have heard of all of them before it asks.
//!
//! When it asks is up to what it waits for: its own reply, an agent whose answer a call waits for, or, where it has
//! nothing left to do, the first end that wakes it. What lets it ask therefore comes last, and ends that wake it come at
//! once. Only what came at nearly the same time is moved, and nothing past the first request of an agent, which it may have
//! caused.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::score::{Ends, Step, Timed};
use super::tape::RecordedTraffic;

/// Things that came closer to each other than this may have come in either order.
const NEAR: Duration = Duration::from_millis(250);

/// Ends that wake their parent together.
pub(super) type Crowd = HashSet<usize>;

/// What one request tells of.
struct Told {
    /// The request.
    asked: usize,
    /// The one before it.
    before: usize,
    /// The last takes of agents that work in the background.
    background: Vec<usize>,
    /// Those of agents whose answers a call waits for.
    awaited: Vec<usize>,
    /// The reply before it makes calls.
    is_busy: bool,
}

/// Puts what lets a parent ask behind the ends that it tells of then; gives the ends that wake one together.
pub(super) fn arrange(tape: &RecordedTraffic, ends: &Ends, steps: &mut Vec<Timed>) -> Vec<Crowd> {
    // The end of a response that was sent in full before says nothing more.
    let mut whole = HashSet::new();
    steps.retain(|(_, step)| match step {
        Step::Send(take, upto) if *upto >= tape.takes[*take].response.parts.len() => whole.insert(*take),
        _ => true,
    });
    told(tape, ends).iter().filter_map(|told| told.arrange(tape, steps)).collect()
}

fn told(tape: &RecordedTraffic, ends: &Ends) -> Vec<Told> {
    let mut all: BTreeMap<(&str, u32), Told> = BTreeMap::new();
    for job in &ends.jobs {
        let Some(turn) = job.notices.iter().map(|notice| notice.turn).chain(job.delivered).min() else {
            continue;
        };
        let of = |turn: u32| ends.turns.get(&(job.parent.clone(), turn));
        let before = turn.checked_sub(1).and_then(of).and_then(|takes| takes.last());
        let (Some(asked), Some(before)) = (of(turn).and_then(|takes| takes.first()), before) else {
            continue;
        };
        let Some(child) = ends.last.get(&job.lane) else { continue };
        let told = all.entry((&job.parent, turn)).or_insert_with(|| Told {
            asked: *asked,
            before: *before,
            background: Vec::new(),
            awaited: Vec::new(),
            is_busy: makes_calls(tape, &job.parent, turn - 1),
        });
        let is_awaited = !job.background || job.touches.iter().any(|touch| touch.turn + 1 == turn);
        if is_awaited { &mut told.awaited } else { &mut told.background }.push(*child);
    }
    all.into_values().collect()
}

fn makes_calls(tape: &RecordedTraffic, lane: &str, turn: u32) -> bool {
    let lane = tape.lanes.lanes.iter().find(|other| other.id == lane);
    let turn = lane.and_then(|lane| lane.turns.iter().find(|other| other.turn == turn));
    turn.is_some_and(|turn| !turn.calls.is_empty())
}

impl Told {
    fn arrange(&self, tape: &RecordedTraffic, steps: &mut Vec<Timed>) -> Option<Crowd> {
        let end = |take: usize| end_of(tape, steps, take);
        let asked = arrival(steps, self.asked)?;
        let reply = end(self.before)?;
        let heard = |take: &usize| end(*take).filter(|at| *at < asked);
        let awaited = self.awaited.iter().filter_map(heard).max();
        let background: Vec<usize> = self.background.iter().filter_map(heard).collect();
        let last = background.iter().copied().max()?;
        let lets_it_ask = awaited.map_or(reply, |awaited| awaited.max(reply));
        let is_woken = awaited.is_none() && !self.is_busy && background.iter().all(|at| *at > reply);
        if is_woken {
            let crowd = self.background.iter().copied().filter(|take| heard(take).is_some()).collect();
            return gather(tape, steps, background).then_some(crowd);
        }
        if last > lets_it_ask && may_wait(tape, steps, lets_it_ask, last) {
            hold_back(steps, lets_it_ask, last);
        }
        None
    }
}

/// Moves ends to the last of them; whether there are several, and they may be moved.
fn gather(tape: &RecordedTraffic, steps: &mut Vec<Timed>, mut ends: Vec<usize>) -> bool {
    ends.sort_unstable();
    let [first, .., last] = ends[..] else { return false };
    if !may_wait(tape, steps, first, last) {
        return false;
    }
    for (moved, at) in ends[..ends.len() - 1].iter().enumerate() {
        hold_back(steps, at - moved, last - 1);
    }
    true
}

/// Where a response is sent in full.
fn end_of(tape: &RecordedTraffic, steps: &[Timed], take: usize) -> Option<usize> {
    let whole = Step::Send(take, tape.takes[take].response.parts.len());
    steps.iter().position(|(_, step)| *step == whole)
}

fn arrival(steps: &[Timed], wanted: usize) -> Option<usize> {
    steps.iter().position(|(_, step)| matches!(step, Step::Arrive(take, _) if *take == wanted))
}

/// Whether a step may wait for a later one. An agent that begins between them may have been started by it, or have waited
/// for the place of one that ended.
fn may_wait(tape: &RecordedTraffic, steps: &[Timed], at: usize, last: usize) -> bool {
    let apart = Duration::from_micros(steps[last].0.saturating_sub(steps[at].0));
    let begins = |step: &Step| matches!(step, Step::Arrive(take, _) if tape.takes[*take].turn == 1);
    apart < NEAR && !steps[at..last].iter().any(|(_, step)| begins(step))
}

/// Moves a step to a later place.
fn hold_back(steps: &mut Vec<Timed>, at: usize, to: usize) {
    let step = steps.remove(at);
    steps.insert(to, step);
}
