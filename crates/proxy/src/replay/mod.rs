//! Serves a recording to a harness in place of its model. Start at [`RecordedTraffic`] and [`ReplayServer`].
//!
//! A request finds its recorded answer in this order:
//! 1. [`RecordedTraffic::load`] reads the recording: each exchange, the turn of a lane that it belongs to, and indexes
//!    of the turns by the model replies in their history. [`names::NameFinder`] collects the names that the harness
//!    invented, and [`OrderPlan`](plan::OrderPlan) plans the order in which requests and replies follow each other.
//! 2. [`ReplayServer`] reads a live request and decodes it as a [`Prompt`](wire::dialect::Prompt).
//! 3. [`Responder`](responder::Responder) reduces it to an outline: what the model had said before, and what is new.
//! 4. [`TurnMatcher`](matcher::TurnMatcher) looks for recorded turns with the same model replies in their history. If
//!    there are several, the lane that served this conversation and then the new text decide. A turn that is requested
//!    again gets its next recorded attempt. If there is no such turn, the request is a miss and gets an error.
//! 5. [`RecordedNames`](names::RecordedNames) compares the live with the recorded request and learns the live names.
//! 6. [`LiveReply`](reply::LiveReply) is the recorded reply with the live names, changed by a [`Fault`] if one applies.
//! 7. [`ReplyScheduler`](scheduler::ReplyScheduler) says for each part when the plan allows to send it.
//!
//! A request that asks no model is matched by a [`SideRequest`](side_request::SideRequest) instead.
//! `docs/reference/replay.md` has the rules. Nothing here knows a harness, and nothing is forwarded.

mod align;
mod conversation;
mod digest;
mod fault;
mod idle;
mod load;
mod matcher;
mod names;
mod parts;
mod plan;
mod prompts;
mod reply;
mod report;
mod responder;
mod scheduler;
mod segments;
mod server;
mod settings;
mod side_request;
mod similarity;
mod tokens;
mod traffic;

#[cfg(test)]
mod tests;

pub use fault::{Fault, FaultAttempts, FaultKind, FaultParseError};
pub use load::ReplayLoadError;
pub use names::NameConflict;
pub use report::{FaultOutcome, ReplayMiss, ReplayReport, ReplayWait, TurnRef};
pub use server::ReplayServer;
pub use settings::{OnMiss, Order, Pace, ReplaySettings};
pub use traffic::RecordedTraffic;
