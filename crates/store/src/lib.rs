//! The journal of our own runs: messages, model calls, tool calls and their ends, in SQLite.
//!
//! Start at [`Store`]. Each write is one transaction, named after what happens, and returns when it is on the
//! disk.
//! The exception is the journal that [`Store::for_fork`] returns: it continues in memory when the disk cannot
//! be written.
//! There are three ways to read: [`Store::main`] returns what the user and the main agent may see, and
//! nothing else;
//! [`Store::run`] returns everything about one run; [`Store::runs`] lists all runs and their usage, without
//! any text.
//!
//! Nothing here reads a clock, creates an id or decides what to do next. No other crate contains SQL.

#[cfg(feature = "bench")]
pub mod bench;
mod copy;
mod damage;
mod database;
mod error;
mod fallback;
mod ids;
mod index;
mod migrate;
mod new;
mod open;
mod pool;
mod read;
mod rows;
mod store;
mod words;
mod write;
mod writer;

pub use error::StoreError;
pub use ids::{CallKey, Cursor, Digest, Head, InboxId, Lease, Millis, ModelCallId, Seq};
pub use new::{
    CancelScope, FinalRecord, FinishedCall, FolderText, ForkEnd, Limit, NewAttempt, NewFork, NewHookAnswer,
    NewInboxEntry, NewMessage, NewModelCall, NewReply, NewRun, NewTask, NewThread, NewToolCall, RunEnd,
    RunThread, SeenFile, TaskChange,
};
pub use open::Options;
pub use read::{Filter, MainReads, RunReads};
pub use rows::{
    Attempt, Child, FolderNote, Fork, HookAnswer, InboxEntry, Job, MainMessage, Memory, ModelCall,
    Resumption, Run, RunSnapshot, RunSummary, SaidMessage, SearchHit, SessionInfo, StoredMessage,
    StoredToolCall, Task, TaskAttempt, Thread, ThreadPage, UsageTotals,
};
pub use store::{Health, Store};
pub use words::{
    CallStatus, HookEvent, InboxKind, ModelCallStatus, Origin, Policy, Purpose, RunKind, RunStatus,
    TaskStatus,
};

#[cfg(test)]
mod tests;
