//! `send_message`: sends a message to a sub-agent that has not ended.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::RunId;

use super::spawn_sub_agent::{calling_run, find_child, to_json};
use super::{Refusal, input};
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// The tool `send_message`.
pub(super) struct SendMessageTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    run_id: String,
    message: String,
}

#[derive(Serialize)]
struct SentMessage<'a> {
    run_id: &'a RunId,
    status: &'static str,
}

impl Tool for SendMessageTool {
    fn name(&self) -> &'static str {
        "send_message"
    }

    fn description(&self) -> &'static str {
        "Sends a message to a sub-agent of yours that has not ended, for example a correction. It gets the message with its \
         next turn, and its answer comes as before. To go on with one that has ended, call `spawn_sub_agent` with \
         `continue`."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""run_id":{"type":"string","description":"The sub-agent; its `job_id` is the same."},"#,
            r#""message":{"type":"string","description":"The message."}"#,
            r#"},"required":["run_id","message"],"additionalProperties":false}"#
        )
    }

    /// A repeated call sends nothing twice.
    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn needs_sub_agents(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let done = async { send(input::parse(self, input)?, context).await };
            done.await.unwrap_or_else(Refusal::into)
        })
    }
}

async fn send(args: Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let run = calling_run(context)?;
    if args.message.trim().is_empty() {
        return Err(Refusal("`message` is empty".to_owned()));
    }
    let child = find_child(run, &args.run_id)?;
    run.send(context, &child, &args.message).await.map_err(Refusal)?;
    Ok(ToolOutput::text(to_json(&SentMessage { run_id: &child, status: "sent" })))
}
