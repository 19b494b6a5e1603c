//! Results for calls that will not be made any more.

use session::{RunId, ToolResult};
use store::{
    CallKey, CallStatus, FinishedCall, Millis, Policy, RunStatus, Store, StoreError, StoredToolCall,
};

use crate::conversation::placeholder;
use crate::fence;
use crate::ids;
use crate::outcome::{RunOutcome, is_unfinished};
use crate::preview;
use crate::prompts;
use crate::tool::{ToolOutput, Toolbox};
use crate::tools::{builtin, sub_agent_output, unfinished_output};

/// Returns whether a call may start a run.
pub(crate) fn starts_runs(tools: &Toolbox, call: &StoredToolCall) -> bool {
    tools.find(&call.name).is_some_and(|tool| tool.starts_runs())
}

/// Returns the run that a call has sent a message to, which continues it if it had ended.
pub(crate) fn addressee(store: &Store, call: &CallKey) -> Result<Option<RunId>, StoreError> {
    store.run(&call.run).addressee(call)
}

/// Returns the id of the run that a call starts or has continued.
pub(crate) fn started_id(store: &Store, call: &CallKey) -> Result<RunId, StoreError> {
    Ok(addressee(store, call)?.unwrap_or_else(|| ids::child_id(call)))
}

/// Returns the run that a call has started or continued.
pub(crate) fn started_run(store: &Store, call: &StoredToolCall) -> Result<Option<store::Run>, StoreError> {
    match store.run(&started_id(store, &call.key)?).row() {
        Err(StoreError::NoRun(_)) => Ok(None),
        row => row.map(Some),
    }
}

/// Returns the result of a call that has none and is not made any more.
pub(crate) fn no_result(tools: &Toolbox, call: &StoredToolCall) -> (CallStatus, ToolResult) {
    let may_have_run =
        call.status == CallStatus::Running && call.policy != Policy::Pure && !starts_runs(tools, call);
    let (status, sentence) = match may_have_run {
        true => (CallStatus::MayHaveRun, prompts::MAY_HAVE_RUN),
        false => (CallStatus::Failed, prompts::NO_RESULT),
    };
    (status, placeholder(call, sentence))
}

/// Returns an output as the result of a call.
pub(crate) fn as_result(call: &StoredToolCall, output: ToolOutput) -> (CallStatus, ToolResult) {
    let ToolOutput { blocks, is_error, .. } = output;
    let status = if is_error { CallStatus::Failed } else { CallStatus::Done };
    (status, ToolResult { call: call.call.clone(), blocks: fence::inert(blocks), is_error, server: false })
}

/// Returns the results for the open calls of a run that the user ends, together with all runs below it, while no process is
/// at work on it.
pub(crate) fn abandoned(store: &Store, run: &RunId, at: Millis) -> Result<Vec<FinishedCall>, StoreError> {
    let mut calls = store.run(run).tool_calls()?;
    calls.retain(|call| call.status.is_open());
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let tools = Toolbox::new(builtin());
    let finished = calls.into_iter().map(|call| {
        let child = if starts_runs(&tools, &call) { started_run(store, &call)? } else { None };
        let (status, result) = match child {
            None => no_result(&tools, &call),
            Some(row) if is_unfinished(row.status) => {
                let text = unfinished_output(&row.id, RunStatus::CancelledByUser, prompts::ENDED_WITH_YOU);
                as_result(&call, ToolOutput::error(text))
            }
            Some(row) => as_result(&call, sub_agent_output(&RunOutcome::of(row), None)),
        };
        let preview = preview::decide(&result);
        Ok(FinishedCall { key: call.key, status, result, preview, seen: Vec::new(), folders: Vec::new(), at })
    });
    finished.collect()
}
