//! The run that makes a call, as its tools see it. Tools start, await and cancel other runs only through this interface.

use std::time::Duration;

use serde_json::Value;
use session::RunId;
use store::{RunKind, Store};

use super::ToolContext;
use crate::fork_request::ForkRequest;
use crate::future::BoxFuture;
use crate::outcome::RunOutcome;

/// Resolves when a child has ended or is paused. A paused child continues as a job. Errors are text for the model.
pub(crate) type ChildEnd = BoxFuture<'static, Result<RunOutcome, String>>;

/// A request for a sub-agent.
#[derive(Debug)]
pub(crate) struct SubAgentRequest {
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) prompt: String,
    pub(crate) task: Option<String>,
    pub(crate) in_background: bool,
    pub(crate) output_schema: Option<Value>,
}

/// The run that makes a call. The children of a call are named after it, so that a repeated call finds its child.
pub(crate) trait CallingRun: Send + Sync {
    /// Returns its id.
    fn id(&self) -> &RunId;

    /// Returns its kind.
    fn kind(&self) -> RunKind;

    /// Returns its journal.
    fn store(&self) -> &Store;

    /// Returns whether it may start other runs.
    fn may_spawn(&self) -> bool;

    /// Starts a sub-agent, or resumes the one that this call started before. Errors are text for the model.
    fn spawn<'a>(
        &'a self,
        context: &'a ToolContext,
        request: SubAgentRequest,
    ) -> BoxFuture<'a, Result<ChildEnd, String>>;

    /// Starts a fork, or resumes the one that this call started before. Errors are text for the model.
    fn fork<'a>(
        &'a self,
        context: &'a ToolContext,
        request: ForkRequest,
        in_background: bool,
    ) -> BoxFuture<'a, Result<ChildEnd, String>>;

    /// Continues a sub-agent that has ended, or resumes the one that this call continued before. Errors are text for the
    /// model.
    fn continue_child<'a>(
        &'a self,
        context: &'a ToolContext,
        child: &'a RunId,
        prompt: &'a str,
        in_background: bool,
    ) -> BoxFuture<'a, Result<ChildEnd, String>>;

    /// Sends a message to a child that has not ended. Errors are text for the model.
    fn send<'a>(
        &'a self,
        context: &'a ToolContext,
        child: &'a RunId,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Waits until a child has ended, the time is over, or this run is asked to stop.
    fn wait_for<'a>(&'a self, child: &'a RunId, most: Duration) -> BoxFuture<'a, ()>;

    /// Cancels a child and all runs below it, and waits for its end at most this long.
    fn cancel<'a>(&'a self, child: &'a RunId, most: Duration) -> BoxFuture<'a, Result<(), String>>;
}
