//! Step 1, project: takes a request apart into the units that are compared.
//!
//! Each byte of a body belongs to one unit, or to the frame around the units, which is compared as a whole. A unit
//! excludes its cache marker, because a marker is a setting and moves from turn to turn.

mod body;
mod head;
mod projector;
mod recording;
mod reminder;
mod unit;

pub(super) use projector::HOLE;
pub(super) use recording::{ProjectedRecording, UnitCollector};
pub(super) use unit::{RequestUnits, Unit, UnitKind};
