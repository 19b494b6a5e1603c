//! `job_cancel`: ends a job.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::RunId;
use store::RunStatus;

use super::job_output::find_job;
use super::spawn_sub_agent::{calling_run, stored_outcome, to_json};
use super::{Refusal, input};
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// Maximum time for a job to end.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// The tool `job_cancel`. It also ends all runs below the job.
pub(super) struct JobCancelTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    job_id: String,
}

#[derive(Serialize)]
struct CancelReport<'a> {
    job_id: &'a RunId,
    run_id: &'a RunId,
    status: &'static str,
}

impl Tool for JobCancelTool {
    fn name(&self) -> &'static str {
        "job_cancel"
    }

    fn description(&self) -> &'static str {
        "Ends a job that `spawn_sub_agent` started in the background, and all its sub-agents. Its changes \
         remain. Returns the job's final status; a job that has already ended is not changed."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""job_id":{"type":"string","description":"The job."}"#,
            r#"},"required":["job_id"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn is_waiting_call(&self) -> bool {
        true
    }

    fn ends_runs(&self) -> bool {
        true
    }

    fn needs_sub_agents(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let done = async { cancel(input::parse(self, input)?, context).await };
            done.await.unwrap_or_else(Refusal::into)
        })
    }
}

async fn cancel(args: Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let run = calling_run(context)?;
    let job = &find_job(run, &args.job_id)?;
    run.cancel(job, END_TIMEOUT).await.map_err(Refusal)?;
    let status = stored_outcome(run, job)?.status;
    let output =
        ToolOutput::text(to_json(&CancelReport { job_id: job, run_id: job, status: status.as_str() }));
    // A cancellation by this call needs no report, also when the call is repeated. An answer from before it
    // does.
    Ok(if status == RunStatus::CancelledByParent { output.fetching(job.clone()) } else { output })
}
