//! `spawn_sub_agent`: another agent for a piece of the work.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::RunId;
use store::RunStatus;

use super::{Refusal, input};
use crate::fork::{self, ForkRequest};
use crate::kernel::RunOutcome;
use crate::run::Run;
use crate::spawn::{self, Wanted};
use crate::tree::Member;
use crate::{BoxFuture, NO_FINAL_TEXT, Policy, Tool, ToolContext, ToolOutput, jobs, schema, words};

/// When a run below this one is given up: it has limits of its own, which come first.
pub(super) const DEADLINE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Lets another agent work, and waits for it or not.
pub(super) struct SpawnSubAgent;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    prompt: String,
    agent: Option<String>,
    model: Option<String>,
    task_id: Option<String>,
    #[serde(default)]
    run_in_background: bool,
    #[serde(default)]
    fork: bool,
    output_schema: Option<Value>,
}

/// What came of a sub-agent that was waited for.
#[derive(Serialize)]
struct Answer<'a> {
    run_id: &'a RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_text: Option<&'a str>,
}

/// A sub-agent that nobody waits for.
#[derive(Serialize)]
struct Launched<'a> {
    job_id: &'a RunId,
    run_id: &'a RunId,
    status: &'static str,
}

impl Tool for SpawnSubAgent {
    fn name(&self) -> &'static str {
        "spawn_sub_agent"
    }

    fn description(&self) -> &'static str {
        "Hands a piece of the work to another agent, which works in the same folder with a conversation of its own. It \
         sees nothing of this conversation: the prompt must say all that it needs to know, and what it is to hand back. \
         What comes back is its last message and the id of its run; nothing else of it reaches you. Several calls in one \
         message run at the same time.\n\
         Wait for it when you need its answer to go on. Else set `run_in_background`: the call answers at once with a \
         `job_id`, you go on, and you are told when it has ended; `job_output` asks for it earlier, and `job_cancel` ends \
         it. Never poll: with nothing else to do, end your turn, and you will be woken.\n\
         For a task of the plan give its `task_id`. The answer is then kept as the task's result, and whoever works on \
         the same task next is shown what was answered before. An answer is not yet a task that is done: read it, check \
         what you rely on, and then either set the task's status yourself with `manage_tasks`, or spawn again on the same \
         task with a prompt that says what was missing."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""prompt":{"type":"string","description":"What it is to do, and all that it needs to know for that."},"#,
            r#""agent":{"type":"string","description":"Which agent; the general-purpose one where nothing is said."},"#,
            r#""model":{"type":"string","enum":["opus","sonnet","haiku"],"description":"How able a model: opus for what is hard, haiku for what is simple. Yours where nothing is said."},"#,
            r#""task_id":{"type":"string","description":"The task of the plan that it works on, as `manage_tasks` calls it."},"#,
            r#""run_in_background":{"type":"boolean","description":"Do not wait for it."},"#,
            r#""fork":{"type":"boolean","description":"Start from this conversation as it is, instead of an empty one."},"#,
            r#""output_schema":{"type":"object","description":"A JSON schema that its answer must fit."}"#,
            r#"},"required":["prompt"],"additionalProperties":false}"#
        )
    }

    /// The sub-agent is called after the call, so making it again goes on with the same one.
    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }

    fn waits(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let done = async { spawn(input::parse(self, input)?, context).await };
            done.await.unwrap_or_else(Refusal::into)
        })
    }
}

async fn spawn(args: Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let run = caller(context)?;
    if args.fork {
        return forked(&args, run, context).await;
    }
    let (in_background, schema) = (args.run_in_background, args.output_schema.clone());
    let wanted = Wanted {
        agent: args.agent,
        model: args.model,
        prompt: args.prompt,
        task: args.task_id,
        in_background,
        output_schema: args.output_schema,
    };
    let id = spawn::id(&context.call);
    let member = spawn::start(run, context, wanted).await.map_err(Refusal)?;
    if in_background {
        return Ok(launched(&id));
    }
    waited(run, &id, member, schema.as_ref()).await
}

/// Starts a fork: what it shares with its parent cannot be chosen.
async fn forked(args: &Args, run: &Arc<Run>, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let chosen = [
        ("agent", args.agent.is_some()),
        ("model", args.model.is_some()),
        ("task_id", args.task_id.is_some()),
        ("output_schema", args.output_schema.is_some()),
    ];
    if let Some((name, _)) = chosen.into_iter().find(|(_, is_set)| *is_set) {
        let why = format!(
            "a fork is you as you are, and `{name}` would make it somebody else: leave it out, or `fork`"
        );
        return Err(Refusal(why));
    }
    if args.prompt.trim().is_empty() {
        return Err(Refusal("`prompt` is empty: say what the fork is to do".to_owned()));
    }
    let fork = ForkRequest::new(args.prompt.clone(), "fork", "spawn_sub_agent");
    let id = spawn::id(&context.call);
    let member = fork::spawn(run, context, &fork, args.run_in_background).await;
    let member = member.map_err(Refusal)?;
    match args.run_in_background {
        true => Ok(launched(&id)),
        false => waited(run, &id, member, None).await,
    }
}

/// What comes back from a run that is waited for.
pub(super) async fn waited(
    run: &Run,
    id: &RunId,
    member: Option<Member>,
    schema: Option<&Value>,
) -> Result<ToolOutput, Refusal> {
    let ended = end(run, id, member).await?;
    let output = answered(&ended, schema);
    // It may have become a job before its parent was broken off; whoever has waited for it is not told again.
    let owes = !jobs::goes_on(ended.status) && run.kernel.store.run(&run.id).is_owed(id)?.is_some();
    Ok(if owes { output.fetching(id.clone()) } else { output })
}

/// Waits for a run to end; one that has ended before, or whose task is gone, ended as the journal says.
async fn end(run: &Run, id: &RunId, member: Option<Member>) -> Result<RunOutcome, Refusal> {
    let ended = match member {
        Some(member) => member.end().await,
        None => None,
    };
    let ended = ended.map_or_else(|| stored(run, id), Ok)?;
    if ended.status == RunStatus::Paused {
        // Nobody waits for it from now on: it owes its answer.
        jobs::make(run, id).await?;
    }
    Ok(ended)
}

/// The run that calls.
pub(super) fn caller(context: &ToolContext) -> Result<&Arc<Run>, Refusal> {
    context.run.as_ref().ok_or_else(|| Refusal("there is no run that could have sub-agents".to_owned()))
}

/// How a run ended, as the journal has it.
pub(super) fn stored(run: &Run, id: &RunId) -> Result<RunOutcome, Refusal> {
    Ok(ended(run.kernel.store.run(id).row()?))
}

/// How the run of that row ended.
pub(crate) fn ended(row: store::Run) -> RunOutcome {
    let store::Run { id, status, final_text, error, .. } = row;
    RunOutcome { run: id, status, final_text, error, failure: None }
}

fn launched(id: &RunId) -> ToolOutput {
    ToolOutput::text(json(&Launched { job_id: id, run_id: id, status: "running" }))
}

pub(crate) fn answered(ended: &RunOutcome, schema: Option<&Value>) -> ToolOutput {
    let RunOutcome { run: run_id, status, final_text, error, .. } = ended;
    let said = final_text.as_deref();
    match status {
        RunStatus::Completed | RunStatus::StepCap if said.is_some() || *status == RunStatus::Completed => {
            let wrong = schema.and_then(|schema| schema::check(schema, said.unwrap_or_default()).err());
            let wrong = wrong.map(|why| words::not_as_asked(&why));
            let final_text = Some(said.unwrap_or(NO_FINAL_TEXT));
            let status = (*status == RunStatus::StepCap).then_some("step_cap");
            let text = json(&Answer { run_id, status, error: wrong.as_deref(), final_text });
            if wrong.is_some() { ToolOutput::error(text) } else { ToolOutput::text(text) }
        }
        RunStatus::Paused => ToolOutput::error(spawned(run_id, *status, words::GOES_ON)),
        _ => {
            let error = error.as_deref().unwrap_or("it was ended before it had an answer");
            let status = Some(status.as_str());
            ToolOutput::error(json(&Answer { run_id, status, error: Some(error), final_text: said }))
        }
    }
}

/// What is said of a sub-agent that has no answer.
pub(crate) fn spawned(run_id: &RunId, status: RunStatus, error: &str) -> String {
    json(&Answer { run_id, status: Some(status.as_str()), error: Some(error), final_text: None })
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings are always JSON")
}
