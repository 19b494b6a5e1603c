//! Starts sub-agents: everything that a sub-agent is, knows and may do is in the journal before it works.

use std::sync::Arc;

use session::model;
use session::{CallId, Message, Role, RunId};
use store::{NewMessage, NewRun, Origin, RunKind, RunThread, StoreError, Task};

use crate::budget::affordable;
use crate::crash;
use crate::definition::{self, Agent, ChooseError};
use crate::error::RunError;
use crate::ids;
use crate::jobs;
use crate::outcome::is_unfinished;
use crate::process;
use crate::prompts::{self, text_block};
use crate::run::Run;
use crate::schema;
use crate::settings::{RunLimits, RunSettings};
use crate::stop::StopRequest;
use crate::tasks;
use crate::tool::{SubAgentRequest, Tool, ToolContext};
use crate::tree::Member;

/// Starts a sub-agent, or resumes the one that this call started before. Returns `None` if that one has ended. Errors are
/// text for the model.
pub(crate) async fn spawn(
    parent: &Arc<Run>,
    context: &ToolContext,
    request: SubAgentRequest,
) -> Result<Option<Member>, String> {
    let in_background = request.in_background;
    if let Some(known) = resume_started(parent, context, in_background).await? {
        return Ok(known);
    }
    let run = new_run(parent, &ids::child_id(&context.call), &context.call_id, request)?;
    launch(parent, context, run, in_background).await.map(Some)
}

/// Resumes the run that this call started before. Returns `None` if there is none, and `Some(None)` if it has ended.
///
/// Waits for the call's place in the message: from here to [`launch`] no other call may start a run.
pub(crate) async fn resume_started(
    parent: &Arc<Run>,
    context: &ToolContext,
    in_background: bool,
) -> Result<Option<Option<Member>>, String> {
    if let Some(slot) = &context.start_slot {
        slot.wait().await;
    }
    let id = ids::child_id(&context.call);
    match parent.kernel.store.run(&id).row() {
        Err(StoreError::NoRun(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
        Ok(row) if is_unfinished(row.status) => {
            release_start_slot(context);
            let member = jobs::resume_child(parent, &id, in_background).await;
            member.map(|member| Some(Some(member))).map_err(|error| error.to_string())
        }
        Ok(_) => Ok(Some(None)),
    }
}

/// Writes a run to the journal and starts it, if there may be one more.
pub(crate) async fn launch(
    parent: &Arc<Run>,
    context: &ToolContext,
    run: NewRun,
    in_background: bool,
) -> Result<Member, String> {
    if !parent.may_spawn() {
        return Err(
            "sub-agents at this depth cannot start others: do the work yourself, or report what is left"
                .into(),
        );
    }
    if let Err(count) = parent.reserve_child().map_err(|error| error.to_string())? {
        return Err(format!("the limit of {count} sub-agents is reached: do the rest yourself"));
    }
    // The next call need not wait for the disk.
    release_start_slot(context);
    let started = start(parent, run, in_background).await;
    if started.is_err() {
        parent.release_child();
    }
    started
}

/// Lets the next call of the message start its run.
fn release_start_slot(context: &ToolContext) {
    if let Some(slot) = &context.start_slot {
        slot.release();
    }
}

async fn start(parent: &Arc<Run>, run: NewRun, in_background: bool) -> Result<Member, String> {
    let id = run.id.clone();
    let kernel = match run.fork {
        Some(_) => Arc::new(parent.kernel.for_fork(&id, parent.id())),
        None => Arc::clone(&parent.kernel),
    };
    let settings = RunSettings::from_bytes(&run.settings).map_err(|error| error.to_string())?;
    crash::point("spawn.before");
    match kernel.store.start_run(run, process::lease()).await {
        Err(StoreError::CancelRequested(_)) => {
            parent.stop_handle.request(StopRequest::Cancel);
            return Err("the run is being cancelled".to_owned());
        }
        started => started.map_err(|error| error.to_string())?,
    }
    crash::point("spawn.after");
    let row = kernel.store.run(&id).row().map_err(|error| error.to_string())?;
    Ok(Run::below(parent, kernel, row, settings, in_background).launch())
}

/// Creates the row of a sub-agent.
fn new_run(parent: &Run, id: &RunId, call: &CallId, request: SubAgentRequest) -> Result<NewRun, String> {
    let kernel = &parent.kernel;
    if request.prompt.trim().is_empty() {
        return Err("`prompt` is empty: describe the work of the sub-agent".to_owned());
    }
    if let Some(schema) = &request.output_schema {
        schema::read(schema).map_err(|why| format!("`output_schema`: {why}"))?;
    }
    let agent = choose_agent(parent, id, request.agent.as_deref())?;
    let model = choose_model(parent, id, request.model.as_deref(), agent.model.as_deref())?;
    let limits = limits(parent, &agent, &model)?;
    let task = request.task.as_deref().map(|task| find_task(parent, task)).transpose()?;
    let at = kernel.clock.millis();
    let context = kernel.sub_context(parent, task.as_ref()).map_err(|error| error.to_string())?;
    let dialect = parent.settings.dialect();
    let mut settings = RunSettings::new(dialect, &limits, context.clone(), parent.settings.workspace.clone());
    settings.instructions = Some(agent.prompt.clone()).filter(|prompt| !prompt.is_empty());
    settings.rules = agent.permissions();
    let may_spawn = parent.row.depth + 1 < kernel.tree_limits.max_depth;
    let has = |tool: &&dyn Tool| {
        !tool.is_main_only() && (may_spawn || !tool.needs_sub_agents()) && agent.tools.has(tool.name())
    };
    settings.tools =
        Some(parent.bounds.tools.iter().filter(has).map(|tool| tool.name().to_owned()).collect());
    let mut blocks = vec![text_block(&context), text_block(&request.prompt)];
    blocks.extend(request.output_schema.as_ref().map(|schema| text_block(&prompts::output_schema(schema))));
    settings.output_schema = request.output_schema;
    let first = dialect.encode_message(&Message { role: Role::User, blocks });
    let first = first.map_err(|error| RunError::Encode(error).to_string())?;
    let message = NewMessage {
        role: Role::User,
        origin: Origin::Prompt,
        bytes: first.into_bytes(),
        text: Some(request.prompt),
        at,
    };
    Ok(NewRun {
        id: id.clone(),
        thread: RunThread::Existing(parent.row.thread.clone()),
        kind: RunKind::Sub,
        parent: Some(parent.id().clone()),
        task: task.map(|task| task.id),
        spawned_by: Some(call.clone()),
        background: request.in_background,
        agent: agent.name,
        model,
        provider: parent.row.provider.clone(),
        settings: settings.to_bytes(),
        chain: id.to_string(),
        depth: parent.row.depth + 1,
        fork: None,
        messages: vec![message],
        at,
    })
}

fn choose_agent(parent: &Run, id: &RunId, name: Option<&str>) -> Result<Agent, String> {
    let (agent, warning) = definition::choose(&parent.kernel.agents, name).map_err(|error| match &error {
        ChooseError::NoSuch { known, .. } => format!("{error}; available: {}", known.join(", ")),
        ChooseError::None => error.to_string(),
    })?;
    if let Some(warning) = warning {
        tracing::warn!(run = %id, warning, "agent");
    }
    Ok(agent)
}

/// Chooses the model: the requested one, else the agent's, else the parent's.
fn choose_model(
    parent: &Run,
    id: &RunId,
    requested: Option<&str>,
    described: Option<&str>,
) -> Result<String, String> {
    let model = match (requested, described) {
        (Some(requested), _) => model_id(parent, requested)?,
        // A tier in an agent's file is a preference. If the provider lacks it, the agent gets its parent's model.
        (None, Some(described)) => model_id(parent, described).or_else(|why| {
            if model::Tier::named(described).is_none() {
                return Err(why);
            }
            tracing::warn!(run = %id, why, "the tier of an agent's file");
            Ok(parent.row.model.clone())
        })?,
        (None, None) => parent.row.model.clone(),
    };
    let has_budget = parent.bounds.budgets.iter().any(|limit| limit.microusd.is_some())
        || parent.kernel.tree_limits.max_budget_microusd.is_some();
    if has_budget && model::price(&model).is_none() {
        return Err(format!(
            "no price known for model `{model}`; cannot enforce the budget: choose another model"
        ));
    }
    Ok(model)
}

/// Returns the limits of a sub-agent. Replies are short enough that several requests fit into the budgets at once.
fn limits(parent: &Run, agent: &Agent, model: &str) -> Result<RunLimits, String> {
    let tree = &parent.kernel.tree_limits;
    let defaults = RunLimits::of(model);
    let budgets = &parent.bounds.budgets;
    let microusd = budgets.iter().filter_map(|limit| limit.microusd).chain(tree.max_budget_microusd).min();
    let tokens = budgets.iter().filter_map(|limit| limit.tokens).chain(tree.max_budget_tokens).min();
    let max_tokens = longest_reply(tree.max_running, &defaults, microusd, tokens, model)?;
    Ok(RunLimits {
        max_steps: agent.max_steps.map_or(RunLimits::SUB_STEPS, |steps| steps.min(RunLimits::SUB_STEPS)),
        max_budget_microusd: tree.max_budget_microusd,
        max_budget_tokens: tree.max_budget_tokens,
        max_tokens,
        ..defaults
    })
}

/// Returns the output limit with which several requests can be open at once: each reserves its longest reply.
fn longest_reply(
    max_running: usize,
    defaults: &RunLimits,
    microusd: Option<i64>,
    tokens: Option<u64>,
    model: &str,
) -> Result<u64, String> {
    let of_share = |part: u64| {
        let share = i64::try_from(part).unwrap_or(i64::MAX);
        let limits = RunLimits {
            max_budget_microusd: microusd.map(|microusd| microusd / share),
            max_budget_tokens: tokens.map(|tokens| tokens / part),
            ..defaults.clone()
        };
        affordable(limits, model).map(|limits| limits.max_tokens).map_err(|error| error.to_string())
    };
    // With a small budget, one reply may be as long as if it were alone.
    Ok(of_share(max_running.clamp(1, MAX_SHARES) as u64)?.max(of_share(1)?.min(SHORT_REPLY)))
}

/// Maximum number of shares of a budget.
const MAX_SHARES: usize = 8;
/// Tokens of a reply that is long enough in most cases.
const SHORT_REPLY: u64 = 4096;

/// Providers that serve only their own models.
const OWN_MODELS: [&str; 2] = ["anthropic", "openai"];

/// Returns the provider's id of a model. One provider answers all agents of a tree.
fn model_id(parent: &Run, requested: &str) -> Result<String, String> {
    let provider = &parent.row.provider;
    let provider = provider.rsplit_once(':').map_or(provider.as_str(), |(_, provider)| provider);
    let name = match requested.split_once('/') {
        Some((named, rest)) if named == provider => rest,
        Some((named, _)) if OWN_MODELS.contains(&named) && OWN_MODELS.contains(&provider) => {
            return Err(format!(
                "provider `{provider}` answers all agents of this run and has no model `{requested}`: omit `model` to use \
                 your own"
            ));
        }
        // Ids of models may contain a slash.
        _ => requested,
    };
    match (parent.kernel.tiers.get(name), model::Tier::named(name)) {
        (Some(id), _) => Ok(id.clone()),
        (None, Some(tier)) => Err(format!(
            "provider `{provider}` has no model of the tier `{tier}`: omit `model` to use your own"
        )),
        (None, None) => Ok(name.to_owned()),
    }
}

/// Finds the task of a sub-agent.
fn find_task(parent: &Run, name: &str) -> Result<Task, String> {
    let all = parent.kernel.store.main().tasks(&parent.row.thread).map_err(|error| error.to_string())?;
    let available = || match all.is_empty() {
        true => "there are no tasks: create one with `manage_tasks` first, or omit `task_id`".to_owned(),
        false => format!("available: {}", all.iter().map(tasks::display_name).collect::<Vec<_>>().join(", ")),
    };
    let found = tasks::find(&all, name).cloned();
    found.ok_or_else(|| format!("this conversation has no task `{name}`; {}", available()))
}
