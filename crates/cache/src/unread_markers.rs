//! Markers that are written turn after turn and never read.

use std::collections::{BTreeMap, HashSet};

use crate::explanation::Explanation;
use crate::observed::ObservedRequest;
use crate::prompt::{CacheMarker, CachePrompt};
use crate::reason::Reason;
use crate::section::Section;
use crate::simulator::{SimulatedRequest, cacheable_markers, written_markers};
use crate::tokens::TokenScale;

/// Number of unread turns from which a marker is reported. A single one is only a break.
const TURNS: u64 = 2;

/// Marker whose prefix is never read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadMarker {
    /// Lane.
    pub lane: String,
    /// Pointer in the first such turn.
    pub pointer: String,
    /// Number of turns that wrote it in vain. The last write may still be read.
    pub turns: u64,
    /// Latest reason why the next turn did not read it.
    pub reason: Option<Reason>,
}

/// Identity of a marker within a lane. Markers of tools and instructions stay in place, those of messages move.
#[derive(PartialEq, Eq, Hash)]
enum MarkerSlot<'p> {
    At(&'p str),
    /// Marker in a message, counted from the last one.
    Message(usize),
}

/// Returns the markers that were never read although the next turn came in time: the first of each lane and
/// reason.
pub(crate) fn find_unread_markers(
    observed: &[ObservedRequest],
    scales: &[TokenScale],
    simulated: &[Option<SimulatedRequest>],
    requests: &[Explanation],
) -> Vec<UnreadMarker> {
    let mut read: HashSet<u64> = HashSet::new();
    let mut lanes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (n, (ask, simulated)) in observed.iter().zip(simulated).enumerate() {
        let Some(simulated) = simulated else { continue };
        let blocks = simulated.read.map_or(0, |last| last + 1);
        read.extend(ask.prompt.blocks[..blocks].iter().map(|block| block.chain));
        lanes.entry(&ask.lane).or_default().push(n);
    }
    let mut found: Vec<UnreadMarker> = Vec::new();
    for (lane, turns) in lanes {
        let mut slots: Vec<(MarkerSlot<'_>, UnreadMarker)> = Vec::new();
        let mut useful: HashSet<MarkerSlot<'_>> = HashSet::new();
        for pair in turns.windows(2) {
            let (prompt, next) = (&observed[pair[0]].prompt, &requests[pair[1]]);
            let reason = next.reason;
            let in_time =
                !next.is_disproved && !matches!(reason, Some(Reason::Expired | Reason::NotYetReadable));
            for (slot, mark, pointer) in marker_slots(prompt, &scales[pair[0]]) {
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
            // Markers after an unread one are unread for the same reason.
            let is_told = found.iter().any(|it| it.lane == unread.lane && it.reason == unread.reason);
            if unread.turns >= TURNS && !useful.contains(&slot) && !is_told {
                found.push(unread);
            }
        }
    }
    found
}

/// Returns the markers that a request writes, with their pointers.
fn marker_slots<'p>(
    prompt: &'p CachePrompt,
    scale: &TokenScale,
) -> Vec<(MarkerSlot<'p>, &'p CacheMarker, &'p str)> {
    let marks = written_markers(prompt, &cacheable_markers(prompt, scale));
    let own = marks.iter().rev().filter_map(|mark| Some((*mark, mark.pointer.as_deref()?)));
    let mut slots: Vec<_> = own
        .enumerate()
        .map(|(back, (mark, pointer))| match prompt.blocks[mark.block].section {
            Section::Messages => (MarkerSlot::Message(back), mark, pointer),
            _ => (MarkerSlot::At(pointer), mark, pointer),
        })
        .collect();
    slots.reverse();
    slots
}
