//! Which agent sent which request: lanes and turns, found from what is on the wire.
//!
//! Start at [`LaneTracker`]. It is online and pure: requests and answers go in as they happen,
//! positions come out. The scripted model, normalizing and replay all use this one.

mod asking;
mod depth;
mod forks;
mod heard;
mod identity;
mod jobs;
mod outline;
mod place;
mod prompts;
mod tracker;
mod tree;

#[cfg(test)]
mod tests;

pub use asking::{Carried, Said};
pub use depth::too_deep;
pub use heard::Heard;
pub use identity::Identity;
pub use jobs::{Job, Notice, Touch};
pub use outline::{Outline, Replies};
pub use tracker::{LaneTracker, Mark, Position};
pub use tree::{CallNote, Lane, LaneKind, Lanes, Turn};
