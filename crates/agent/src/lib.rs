//! Runs agents: one loop over a journal, the providers it asks and the tools it calls.
//!
//! Start at [`Tool`] for what a model may call.

mod tool;
pub mod tools;
mod workspace;

pub use tool::{Doing, Output, Policy, Scene, Tool};
pub use workspace::{Workspace, WorkspaceError, Written};
