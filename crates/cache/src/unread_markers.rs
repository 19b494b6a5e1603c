//! Markers that are written turn after turn, and never read.

use std::collections::{BTreeMap, HashSet};

use crate::explanation::{Explanation, ObservedRequest};
use crate::prompt::{CacheMarker, CachePrompt, Section};
use crate::reason::Reason;
use crate::simulator::{SimulatedRequest, effective, written};
use crate::tokens::TokenScale;

/// In how many turns a marker must have been for nothing: once is a break, and no habit.
const TURNS: u64 = 2;

/// A marker whose prefix nobody ever finds again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadMarker {
    /// The lane.
    pub lane: String,
    /// Where it stands the first time.
    pub pointer: String,
    /// In how many turns it was written for nothing; the last one's may yet be read.
    pub turns: u64,
    /// Why the next turn did not read it, the last time.
    pub reason: Option<Reason>,
}

/// Which marker of a lane it is: markers of tools and instructions stay where they are, those of messages move.
#[derive(PartialEq, Eq, Hash)]
enum Slot<'p> {
    At(&'p str),
    /// Counted from the last one.
    Message(usize),
}

/// The markers that nobody read, though the next turn of their lane came neither too early nor too late: the first of each
/// lane and reason.
pub(crate) fn unread(
    asks: &[ObservedRequest],
    scales: &[TokenScale],
    asked: &[Option<SimulatedRequest>],
    requests: &[Explanation],
) -> Vec<UnreadMarker> {
    let mut read: HashSet<u64> = HashSet::new();
    let mut lanes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (n, (ask, asked)) in asks.iter().zip(asked).enumerate() {
        let Some(asked) = asked else { continue };
        let blocks = asked.read.map_or(0, |last| last + 1);
        read.extend(ask.prompt.blocks[..blocks].iter().map(|block| block.chain));
        lanes.entry(&ask.lane).or_default().push(n);
    }
    let mut found: Vec<UnreadMarker> = Vec::new();
    for (lane, turns) in lanes {
        let mut slots: Vec<(Slot<'_>, UnreadMarker)> = Vec::new();
        let mut useful: HashSet<Slot<'_>> = HashSet::new();
        for pair in turns.windows(2) {
            let (prompt, next) = (&asks[pair[0]].prompt, &requests[pair[1]]);
            let reason = next.reason;
            let in_time =
                !next.is_disproved && !matches!(reason, Some(Reason::Expired | Reason::NotYetReadable));
            for (slot, mark, pointer) in slots_of(prompt, &scales[pair[0]]) {
                if read.contains(&prompt.blocks[mark.block].chain) {
                    useful.insert(slot);
                } else if let Some((_, known)) = slots.iter_mut().find(|(known, _)| *known == slot) {
                    known.turns += u64::from(in_time);
                    known.reason = reason;
                } else {
                    let (lane, pointer) = (lane.to_owned(), pointer.to_owned());
                    slots.push((slot, UnreadMarker { lane, pointer, turns: in_time.into(), reason }));
                }
            }
        }
        for (slot, unread) in slots {
            // Where one is never read for a reason, those behind it are not either.
            let is_told = found.iter().any(|it| it.lane == unread.lane && it.reason == unread.reason);
            if unread.turns >= TURNS && !useful.contains(&slot) && !is_told {
                found.push(unread);
            }
        }
    }
    found
}

/// The markers that a request writes at, with where they stand.
fn slots_of<'p>(prompt: &'p CachePrompt, scale: &TokenScale) -> Vec<(Slot<'p>, &'p CacheMarker, &'p str)> {
    let marks = written(prompt, &effective(prompt, scale));
    let own = marks.iter().rev().filter_map(|mark| Some((*mark, mark.pointer.as_deref()?)));
    let mut slots: Vec<_> = own
        .enumerate()
        .map(|(back, (mark, pointer))| match prompt.blocks[mark.block].section {
            Section::Messages => (Slot::Message(back), mark, pointer),
            _ => (Slot::At(pointer), mark, pointer),
        })
        .collect();
    slots.reverse();
    slots
}
