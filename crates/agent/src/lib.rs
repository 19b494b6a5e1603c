//! Runs agents: one loop over a journal, the providers it asks and the tools it calls.
//!
//! Start at [`Tool`] for what a model may call.

pub mod provider;
mod tool;
mod workspace;

pub use tool::{Doing, Output, Policy, Scene, Tool};
pub use workspace::Workspace;
