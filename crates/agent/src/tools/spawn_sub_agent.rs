//! `spawn_sub_agent`: starts a sub-agent or a fork.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::RunId;
use store::RunStatus;

use super::{Refusal, input};
use crate::fork_request::ForkRequest;
use crate::outcome::{RunOutcome, is_unfinished};
use crate::tool::{CallingRun, ChildEnd, SubAgentRequest};
use crate::{
    BoxFuture, NO_FINAL_TEXT, Policy, RunSettings, Tool, ToolContext, ToolOutput, ids, prompts, schema,
};

/// Time limit of the call. The sub-agent has limits of its own, which are shorter.
pub(super) const DEADLINE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The tool `spawn_sub_agent`.
pub(super) struct SpawnSubAgentTool;

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
    #[serde(rename = "continue")]
    continues: Option<String>,
}

/// Result of a sub-agent that the call has waited for.
#[derive(Serialize)]
struct SubAgentAnswer<'a> {
    run_id: &'a RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial_text: Option<&'a str>,
}

/// Result for a sub-agent in the background.
#[derive(Serialize)]
struct StartedJob<'a> {
    job_id: &'a RunId,
    run_id: &'a RunId,
    status: &'static str,
}

impl Tool for SpawnSubAgentTool {
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
         task with a prompt that says what was missing.\n\
         One that has ended knows what it did: with `continue` and its `run_id` it goes on. One that has not ended gets \
         a message with `send_message`."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""prompt":{"type":"string","description":"The assignment, with everything that the agent needs to know."},"#,
            r#""agent":{"type":"string","description":"Name of the agent; the default is the general-purpose one."},"#,
            r#""model":{"type":"string","enum":["opus","sonnet","haiku"],"description":"Class of the model: opus for hard work, haiku for simple work. The default is your own model."},"#,
            r#""task_id":{"type":"string","description":"Id of the planned task that it works on, from `manage_tasks`."},"#,
            r#""run_in_background":{"type":"boolean","description":"Do not wait for it."},"#,
            r#""fork":{"type":"boolean","description":"Start with a copy of this conversation instead of an empty one."},"#,
            r#""output_schema":{"type":"object","description":"A JSON schema that its answer must fit."},"#,
            r#""continue":{"type":"string","description":"Run id of a sub-agent of yours that has ended: it goes on with its conversation and the prompt."}"#,
            r#"},"required":["prompt"],"additionalProperties":false}"#
        )
    }

    /// The sub-agent's id follows from the call. A repeated call continues the same sub-agent.
    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }

    fn is_waiting_call(&self) -> bool {
        true
    }

    fn starts_runs(&self) -> bool {
        true
    }

    fn needs_sub_agents(&self) -> bool {
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
    let run = calling_run(context)?;
    if let Some(id) = &args.continues {
        return continued(&args, id, run, context).await;
    }
    if args.fork {
        return forked(&args, run, context).await;
    }
    let (in_background, schema) = (args.run_in_background, args.output_schema.clone());
    let request = SubAgentRequest {
        agent: args.agent,
        model: args.model,
        prompt: args.prompt,
        task: args.task_id,
        in_background,
        output_schema: args.output_schema,
    };
    let id = ids::child_id(&context.call);
    let end = run.spawn(context, request).await.map_err(Refusal)?;
    if in_background {
        return Ok(started_job(&id));
    }
    wait_for_answer(run, &id, end, schema.as_ref()).await
}

/// Starts a fork. A fork shares its settings with its parent, so they cannot be chosen.
async fn forked(args: &Args, run: &dyn CallingRun, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let chosen = [
        ("agent", args.agent.is_some()),
        ("model", args.model.is_some()),
        ("task_id", args.task_id.is_some()),
        ("output_schema", args.output_schema.is_some()),
    ];
    if let Some((name, _)) = chosen.into_iter().find(|(_, is_set)| *is_set) {
        let why =
            format!("a fork keeps your settings, so `{name}` cannot be set: leave out `{name}` or `fork`");
        return Err(Refusal(why));
    }
    if args.prompt.trim().is_empty() {
        return Err(Refusal("`prompt` is empty: describe the work of the fork".to_owned()));
    }
    let fork = ForkRequest::new(args.prompt.clone(), "fork", "spawn_sub_agent");
    let id = ids::child_id(&context.call);
    let end = run.fork(context, fork, args.run_in_background).await.map_err(Refusal)?;
    match args.run_in_background {
        true => Ok(started_job(&id)),
        false => wait_for_answer(run, &id, end, None).await,
    }
}

/// Continues a sub-agent that has ended. It keeps its settings, so they cannot be chosen.
async fn continued(
    args: &Args,
    id: &str,
    run: &dyn CallingRun,
    context: &ToolContext,
) -> Result<ToolOutput, Refusal> {
    let chosen = [
        ("agent", args.agent.is_some()),
        ("model", args.model.is_some()),
        ("task_id", args.task_id.is_some()),
        ("output_schema", args.output_schema.is_some()),
        ("fork", args.fork),
    ];
    if let Some((name, _)) = chosen.into_iter().find(|(_, is_set)| *is_set) {
        let why = format!(
            "a continued sub-agent keeps its settings, so `{name}` cannot be set: leave out `{name}` or `continue`"
        );
        return Err(Refusal(why));
    }
    if args.prompt.trim().is_empty() {
        return Err(Refusal("`prompt` is empty: say what is left to do".to_owned()));
    }
    let id = find_child(run, id)?;
    let end =
        run.continue_child(context, &id, &args.prompt, args.run_in_background).await.map_err(Refusal)?;
    if args.run_in_background {
        return Ok(started_job(&id));
    }
    let settings = RunSettings::from_bytes(&run.store().run(&id).row()?.settings).ok();
    let schema = settings.and_then(|settings| settings.output_schema);
    wait_for_answer(run, &id, end, schema.as_ref()).await
}

/// Finds a sub-agent of this agent by its id.
pub(super) fn find_child(run: &dyn CallingRun, id: &str) -> Result<RunId, Refusal> {
    let wanted = RunId::new(id.trim());
    let children = run.store().run(run.id()).children()?;
    if children.iter().any(|child| child.run.id == wanted) {
        return Ok(wanted);
    }
    let known: Vec<&str> = children.iter().rev().take(20).map(|child| child.run.id.as_str()).collect();
    let known = match known.is_empty() {
        true => "you have started none".to_owned(),
        false => format!("yours are: {}", known.join(", ")),
    };
    Err(Refusal(format!("`{wanted}` is not a sub-agent of yours; {known}")))
}

/// Waits for a run and returns its answer.
pub(super) async fn wait_for_answer(
    run: &dyn CallingRun,
    id: &RunId,
    end: ChildEnd,
    schema: Option<&Value>,
) -> Result<ToolOutput, Refusal> {
    let ended = end.await.map_err(Refusal)?;
    let output = sub_agent_output(&ended, schema);
    // The run may have become a job before its parent was interrupted. The waiting call reports its end, so it
    // is not reported again.
    let owes = !is_unfinished(ended.status) && run.store().run(run.id()).job_owes_result(id)?.is_some();
    Ok(if owes { output.fetching(id.clone()) } else { output })
}

/// Returns the run that makes the call.
pub(super) fn calling_run(context: &ToolContext) -> Result<&dyn CallingRun, Refusal> {
    context
        .caller
        .as_deref()
        .ok_or_else(|| Refusal("this call has no run that could start sub-agents".to_owned()))
}

/// Reads a run's outcome from the journal.
pub(super) fn stored_outcome(run: &dyn CallingRun, id: &RunId) -> Result<RunOutcome, Refusal> {
    Ok(RunOutcome::of(run.store().run(id).row()?))
}

fn started_job(id: &RunId) -> ToolOutput {
    ToolOutput::text(to_json(&StartedJob { job_id: id, run_id: id, status: "running" }))
}

/// Returns the result of a sub-agent as its parent sees it.
pub(crate) fn sub_agent_output(ended: &RunOutcome, schema: Option<&Value>) -> ToolOutput {
    let RunOutcome { run: run_id, status, final_text, partial_text, error, .. } = ended;
    let said = final_text.as_deref();
    match status {
        RunStatus::Completed | RunStatus::StepCap if said.is_some() || *status == RunStatus::Completed => {
            let wrong = schema.and_then(|schema| schema::check(schema, said.unwrap_or_default()).err());
            let wrong = wrong.map(|why| prompts::schema_mismatch(&why));
            let final_text = Some(said.unwrap_or(NO_FINAL_TEXT));
            let status = (*status == RunStatus::StepCap).then_some("step_cap");
            let text = to_json(&SubAgentAnswer {
                run_id,
                status,
                error: wrong.as_deref(),
                final_text,
                partial_text: None,
            });
            if wrong.is_some() { ToolOutput::error(text) } else { ToolOutput::text(text) }
        }
        RunStatus::Paused => ToolOutput::error(unfinished_output(run_id, *status, prompts::CONTINUES_AS_JOB)),
        _ => {
            let error = error.as_deref().unwrap_or("it ended before it had an answer");
            let status = Some(status.as_str());
            ToolOutput::error(to_json(&SubAgentAnswer {
                run_id,
                status,
                error: Some(error),
                final_text: None,
                partial_text: partial_text.as_deref(),
            }))
        }
    }
}

/// Formats the result of a sub-agent without an answer.
pub(crate) fn unfinished_output(run_id: &RunId, status: RunStatus, error: &str) -> String {
    let status = Some(status.as_str());
    to_json(&SubAgentAnswer { run_id, status, error: Some(error), final_text: None, partial_text: None })
}

pub(super) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings are always JSON")
}
