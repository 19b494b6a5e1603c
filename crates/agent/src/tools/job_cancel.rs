//! `job_cancel`: ends a job.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::RunId;
use store::{RunStatus, StoreError};

use super::job_output::job;
use super::spawn_sub_agent::{caller, json, stored};
use super::{Refusal, input};
use crate::crash;
use crate::stop::StopRequest;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// How long a job may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends a job, and all below it.
pub(super) struct JobCancel;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    job_id: String,
}

#[derive(Serialize)]
struct Answer<'a> {
    job_id: &'a RunId,
    run_id: &'a RunId,
    status: &'static str,
}

impl Tool for JobCancel {
    fn name(&self) -> &'static str {
        "job_cancel"
    }

    fn description(&self) -> &'static str {
        "Ends a job that `spawn_sub_agent` has started in the background, and all that works for it. What it has changed \
         stays changed. Answers where it stands then; a job that had ended before stays as it is."
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

    fn waits(&self) -> bool {
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
    let run = caller(context)?;
    let job = &job(run, &args.job_id)?;
    crash::point("cancel.before");
    let asked = run.kernel.store.request_cancel(job, RunStatus::CancelledByParent, context.at()).await;
    crash::point("cancel.after");
    match asked {
        Err(StoreError::Over { .. }) => {}
        asked => asked?,
    }
    run.tree.ask(job, StopRequest::Cancel);
    if let Some(member) = run.tree.member(job) {
        let _ = tokio::time::timeout(PATIENCE, member.end()).await;
    }
    let status = stored(run, job)?.status;
    let output = ToolOutput::text(json(&Answer { job_id: job, run_id: job, status: status.as_str() }));
    // Of an end that it brought about itself nobody has to be told, also where this call is made again; what the job
    // had answered before is still to be told.
    Ok(if status == RunStatus::CancelledByParent { output.fetching(job.clone()) } else { output })
}
