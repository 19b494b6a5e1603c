//! The journal of our own runs: what was asked, answered, called and finished, durable before anyone is told.
//!
//! Start at [`Store`]. Every write is one whole transaction, named for what happens, and returns when it is on
//! the disk; only what [`Store::for_fork`] gives goes on in memory where the disk cannot be written. There are three ways to read: [`Store::main`] sees what the user and the main agent see and
//! cannot see anything else; [`Store::run`] sees one run, whichever it is, and all of it; [`Store::runs`]
//! lists all runs and what they used, without a word they said.
//!
//! Nothing here reads a clock, invents an id or decides what to do next. Nothing outside knows SQL.

pub mod bench;
mod copy;
mod error;
mod ids;
mod index;
mod migrate;
mod new;
mod open;
mod pool;
mod read;
mod rows;
mod spare;
mod store;
mod words;
mod write;
mod writer;

pub use error::StoreError;
pub use ids::{CallKey, Cursor, Digest, Head, InboxId, Lease, Millis, ModelCallId, Seq};
pub use new::{
    Answered, Ending, FinishedCall, ForkEnd, Left, Limit, NewAttempt, NewFork, NewInbox, NewMessage,
    NewModelCall, NewRun, NewTask, NewThread, NewToolCall, RunThread, SeenFile, TaskChange, Whom,
};
pub use open::Options;
pub use read::{Filter, MainReads, RunReads};
pub use rows::{
    Attempt, Child, Fork, Hit, Inbox, Job, Journal, MainMessage, Memory, Message, ModelCall, Run, RunSummary,
    SessionInfo, Task, TaskAttempt, Thread, ToolCall, Totals,
};
pub use store::{Health, Store};
pub use words::{
    CallStatus, InboxKind, ModelCallStatus, Origin, Policy, Purpose, RunKind, RunStatus, TaskStatus,
};

#[cfg(test)]
mod tests;
