//! Lanes and turns: finds which agent sent which request from the wire alone.
//!
//! Start at [`LaneTracker`]. It is online and pure: requests and responses go in as they happen, positions come
//! out. The scripted model, normalization and replay all use it.

mod depth;
mod forks;
mod identity;
mod jobs;
mod outline;
mod placement;
mod prompts;
mod request;
mod response;
mod state;
mod tracker;
mod tree;

#[cfg(test)]
mod conversation_tests;
#[cfg(test)]
mod tests;

pub use depth::tree_roots;
pub use identity::Identity;
pub use jobs::{JobCall, JobNotice, LaneJob, lettered_ids};
pub use outline::{Outline, Replies};
pub(crate) use request::said_by_user;
pub use request::{CarriedResult, InjectedText};
pub use response::LaneResponse;
pub use state::{LaneTracker, TurnMark};
pub use tracker::Position;
pub use tree::{CallNote, Lane, LaneKind, Lanes, Turn};
