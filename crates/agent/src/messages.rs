//! Messages to runs that are at work, and sub-agents that are continued after their end.

use std::sync::Arc;

use session::RunId;
use store::{InboxKind, Millis, NewInboxEntry, RunKind, StoreError};

use crate::crash;
use crate::fence;
use crate::jobs;
use crate::open_calls;
use crate::outcome::is_unfinished;
use crate::process;
use crate::run::Run;
use crate::settings::RunSettings;
use crate::stop::StopRequest;
use crate::tool::ToolContext;
use crate::tree::Member;

/// Returns a message of the user for the inbox of a run.
pub fn user_message(run: &RunId, text: &str, at: Millis) -> NewInboxEntry {
    let body = body("user", text);
    NewInboxEntry { run: run.clone(), kind: InboxKind::Message, sent_by: None, body, at }
}

fn body(from: &str, text: &str) -> Vec<u8> {
    // A message cannot end its tag and begin another one of ours.
    let inert = fence::without_control_tags(text);
    let text = inert.as_deref().unwrap_or(text);
    format!("<incoming_message from=\"{from}\">\n{text}\n</incoming_message>").into_bytes()
}

/// Returns the message of a call. The call is stored with it, so that a repeated call sends nothing twice.
fn message_of(parent: &Run, context: &ToolContext, child: &RunId, text: &str) -> NewInboxEntry {
    NewInboxEntry {
        run: child.clone(),
        kind: InboxKind::Message,
        sent_by: Some(context.call.clone()),
        body: body("parent", text),
        at: parent.kernel.clock.millis(),
    }
}

/// Sends a message to a sub-agent that has not ended. Errors are text for the model.
pub(crate) async fn send(
    parent: &Run,
    context: &ToolContext,
    child: &RunId,
    text: &str,
) -> Result<(), String> {
    crash::point("send.before");
    let sent = parent.kernel.store.send(message_of(parent, context, child, text)).await;
    crash::point("send.after");
    sent.map_err(|error| match error {
        StoreError::Over { status, .. } => format!(
            "`{child}` has ended ({}): to go on with it, call `spawn_sub_agent` with `continue`",
            status.words()
        ),
        error => error.to_string(),
    })?;
    parent.tree.wake_waiting();
    Ok(())
}

/// Continues a sub-agent that has ended, or resumes one that this call continued before. Returns `None` if that has ended
/// again. Errors are text for the model.
pub(crate) async fn continue_child(
    parent: &Arc<Run>,
    context: &ToolContext,
    child: &RunId,
    prompt: &str,
    in_background: bool,
) -> Result<Option<Member>, String> {
    if let Some(slot) = &context.start_slot {
        slot.wait().await;
    }
    let continued = write(parent, context, child, prompt, in_background).await;
    if let Some(slot) = &context.start_slot {
        slot.release();
    }
    let is_new = continued?;
    let kernel = &parent.kernel;
    let row = kernel.store.run(child).row().map_err(|error| error.to_string())?;
    if !is_unfinished(row.status) {
        return Ok(None);
    }
    if !is_new {
        let member = jobs::resume_child(parent, child, in_background).await;
        return member.map(Some).map_err(|error| error.to_string());
    }
    let settings = RunSettings::of(&row).map_err(|error| error.to_string())?;
    let kernel = Arc::new(kernel.for_run(&row));
    Ok(Some(Run::below(parent, kernel, row, settings, in_background).launch()))
}

/// Writes the prompt to the journal. Returns false if this call did so before.
async fn write(
    parent: &Run,
    context: &ToolContext,
    child: &RunId,
    prompt: &str,
    in_background: bool,
) -> Result<bool, String> {
    let store = &parent.kernel.store;
    let known = open_calls::addressee(store, &context.call).map_err(|error| error.to_string())?;
    if known.is_some() {
        return Ok(false);
    }
    let row = store.run(child).row().map_err(|error| error.to_string())?;
    if row.kind != RunKind::Sub {
        return Err(format!("`{child}` is a fork, which cannot be continued: start another"));
    }
    if !is_unfinished(row.status) {
        parent.tree.wait_until_gone(child).await; // its end is stored before it leaves the tree
    }
    crash::point("continue.before");
    let entry = message_of(parent, context, child, prompt);
    let written = store.continue_run(entry, process::lease(), in_background).await;
    crash::point("continue.after");
    match written {
        Ok(()) => Ok(true),
        Err(StoreError::AtWork { .. }) => {
            Err(format!("`{child}` has not ended: send it a message with `send_message`"))
        }
        Err(StoreError::Over { .. }) => {
            Err(format!("`{child}` was cancelled and cannot be continued: start another"))
        }
        Err(StoreError::CancelRequested(_)) => {
            parent.stop_handle.request(StopRequest::Cancel);
            Err("the run is being cancelled".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}
