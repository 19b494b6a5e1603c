//! Step 2, align: finds for each lane, turn and unit of the golden its counterpart in the candidate.

mod lanes;
mod sequence;
mod similarity;
mod units;

pub(super) use lanes::{PairedRecordings, spawn_place};
pub(super) use units::{align_units, moved_calls};
