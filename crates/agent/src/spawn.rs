//! Starting a sub-agent: what it is, what it knows and what it may do, all of it in the journal before it begins.

use std::sync::Arc;

use serde_json::Value;
use session::model;
use session::{CallId, Message, Role, RunId};
use store::{CallKey, NewMessage, NewRun, Origin, RunKind, RunThread, StoreError, Task};

use crate::budget::affordable;
use crate::crash;
use crate::definition::{self, ChooseError};
use crate::error::RunError;
use crate::jobs;
use crate::process;
use crate::run::Run;
use crate::schema;
use crate::settings::{RunLimits, RunSettings};
use crate::stop::StopRequest;
use crate::tasks;
use crate::tool::{self, ToolContext};
use crate::tools::{MAIN_ONLY, SPAWNING};
use crate::tree::Member;
use crate::words;

/// A sub-agent that is wanted.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) prompt: String,
    pub(crate) task: Option<String>,
    pub(crate) in_background: bool,
    pub(crate) output_schema: Option<Value>,
}

/// The run that a call starts. It is called after the call, so that making the call again finds it.
pub(crate) fn id(call: &CallKey) -> RunId {
    let CallKey { run, message, position } = call;
    RunId::new(format!("{run}-{message}-{position}"))
}

/// The message and the position in it of the call that started a run.
pub(crate) fn place(parent: &RunId, child: &RunId) -> Option<(u64, u64)> {
    let (message, position) =
        child.as_str().strip_prefix(parent.as_str())?.strip_prefix('-')?.split_once('-')?;
    Some((message.parse().ok()?, position.parse().ok()?))
}

/// Starts a sub-agent, or goes on with the one that this call has started before; why not, in words for the model.
///
/// `None` where it has come to its end already.
pub(crate) async fn start(
    above: &Arc<Run>,
    context: &ToolContext,
    wanted: Wanted,
) -> Result<Option<Member>, String> {
    let in_background = wanted.in_background;
    if let Some(known) = known(above, context, in_background).await? {
        return Ok(known);
    }
    let run = described(above, &id(&context.call), &context.call_id, wanted)?;
    launch(above, context, run, in_background).await.map(Some)
}

/// The run that this call has started before: at work again, or come to its end.
///
/// Who starts a new one has its turn from here on, until it is counted.
pub(crate) async fn known(
    above: &Arc<Run>,
    context: &ToolContext,
    in_background: bool,
) -> Result<Option<Option<Member>>, String> {
    if let Some(turn) = &context.turn {
        turn.comes().await;
    }
    let id = id(&context.call);
    match above.kernel.store.run(&id).row() {
        Err(StoreError::NoRun(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
        Ok(row) if jobs::goes_on(row.status) => {
            pass_on(context);
            let again = jobs::again(above, &id, in_background).await;
            again.map(|member| Some(Some(member))).map_err(|error| error.to_string())
        }
        Ok(_) => Ok(Some(None)),
    }
}

/// Writes a run down and lets it work, where there may be one more.
pub(crate) async fn launch(
    above: &Arc<Run>,
    context: &ToolContext,
    run: NewRun,
    in_background: bool,
) -> Result<Member, String> {
    if !may_start(above) {
        return Err(
            "an agent at this depth starts no others: do it yourself, or say what is left to do".into()
        );
    }
    if let Err(width) = above.count_child().map_err(|error| error.to_string())? {
        return Err(format!(
            "{width} sub-agents were started already, which is the limit: do the rest yourself"
        ));
    }
    // Those behind it need not wait for the disk.
    pass_on(context);
    let begun = begin(above, run, in_background).await;
    if begun.is_err() {
        above.uncount_child();
    }
    begun
}

/// Lets the next call of the message start its own.
fn pass_on(context: &ToolContext) {
    if let Some(turn) = &context.turn {
        turn.is_over();
    }
}

/// Whether there may be anybody below a run.
pub(crate) fn may_start(run: &Run) -> bool {
    run.depth < run.kernel.tree_limits.max_depth
}

async fn begin(above: &Arc<Run>, run: NewRun, in_background: bool) -> Result<Member, String> {
    let id = run.id.clone();
    let kernel = match run.fork {
        Some(_) => Arc::new(above.kernel.for_fork(&id, &above.id)),
        None => Arc::clone(&above.kernel),
    };
    let settings = RunSettings::from_bytes(&run.settings).map_err(|error| error.to_string())?;
    crash::point("spawn.before");
    match kernel.store.start_run(run, process::lease()).await {
        Err(StoreError::CancelRequested(_)) => {
            above.stop_handle.request(StopRequest::Cancel);
            return Err("the run is being stopped".to_owned());
        }
        started => started.map_err(|error| error.to_string())?,
    }
    crash::point("spawn.after");
    let row = kernel.store.run(&id).row().map_err(|error| error.to_string())?;
    Ok(above.tree.launch(Run::below(above, kernel, row, settings, in_background)))
}

/// The run that is wanted, as it is written down.
fn described(above: &Run, id: &RunId, by: &CallId, wanted: Wanted) -> Result<NewRun, String> {
    let kernel = &above.kernel;
    if wanted.prompt.trim().is_empty() {
        return Err("`prompt` is empty: say what the sub-agent is to do".to_owned());
    }
    if let Some(schema) = &wanted.output_schema {
        schema::read(schema).map_err(|why| format!("`output_schema`: {why}"))?;
    }
    let (agent, warning) =
        definition::choose(&kernel.agents, wanted.agent.as_deref()).map_err(|error| match &error {
            ChooseError::NoSuch { known, .. } => format!("{error}; there are: {}", known.join(", ")),
            ChooseError::None => error.to_string(),
        })?;
    if let Some(warning) = warning {
        tracing::warn!(run = %id, warning, "agent");
    }
    let model = match (&wanted.model, &agent.model) {
        (Some(asked), _) => model(above, Some(asked))?,
        // A tier in an agent's file is a wish. Where the provider has none of it, the agent has the model of who asks for it.
        (None, Some(described)) => model(above, Some(described)).or_else(|why| {
            if model::Tier::named(described).is_none() {
                return Err(why);
            }
            tracing::warn!(run = %id, why, "the tier of an agent's file");
            Ok(above.model.clone())
        })?,
        (None, None) => model(above, None)?,
    };
    let counted = above.within.iter().any(|limit| limit.microusd.is_some())
        || kernel.tree_limits.max_budget_microusd.is_some();
    if counted && model::price(&model).is_none() {
        return Err(format!("nobody knows what `{model}` costs, and there is a budget: take another model"));
    }
    let task = wanted.task.as_deref().map(|task| meant(above, task)).transpose()?;
    let at = kernel.clock.millis();
    let usual = RunLimits::of(&model);
    let tightest = above
        .within
        .iter()
        .filter_map(|limit| limit.microusd)
        .chain(kernel.tree_limits.max_budget_microusd)
        .min();
    let fewest = above
        .within
        .iter()
        .filter_map(|limit| limit.tokens)
        .chain(kernel.tree_limits.max_budget_tokens)
        .min();
    let max_tokens = longest_answer(kernel.tree_limits.max_running, &usual, tightest, fewest, &model)?;
    let limits = RunLimits {
        max_steps: agent.max_steps.map_or(RunLimits::SUB_STEPS, |steps| steps.min(RunLimits::SUB_STEPS)),
        max_budget_microusd: kernel.tree_limits.max_budget_microusd,
        max_budget_tokens: kernel.tree_limits.max_budget_tokens,
        max_tokens,
        ..usual
    };
    let context = kernel.sub_context(above, task.as_ref()).map_err(|error| error.to_string())?;
    let dialect = above.settings.dialect();
    let mut settings = RunSettings::new(dialect, &limits, context.clone(), above.settings.workspace.clone());
    settings.instructions = Some(agent.prompt.clone()).filter(|prompt| !prompt.is_empty());
    settings.rules = agent.permissions();
    let may_spawn = above.depth + 1 < kernel.tree_limits.max_depth;
    let stays = |name: &&str| {
        !MAIN_ONLY.contains(name) && (may_spawn || !SPAWNING.contains(name)) && agent.tools.has(name)
    };
    settings.tools = Some(above.tools.names().filter(stays).map(str::to_owned).collect());
    let mut blocks = vec![tool::text(&context), tool::text(&wanted.prompt)];
    blocks.extend(wanted.output_schema.as_ref().map(|schema| tool::text(&words::shape(schema))));
    settings.output_schema = wanted.output_schema;
    let first = dialect.encode_message(&Message { role: Role::User, blocks });
    let first = first.map_err(|error| RunError::Encode(error).to_string())?;
    let message = NewMessage {
        role: Role::User,
        origin: Origin::Prompt,
        bytes: first.into_bytes(),
        text: Some(wanted.prompt),
        at,
    };
    Ok(NewRun {
        id: id.clone(),
        thread: RunThread::Existing(above.thread.clone()),
        kind: RunKind::Sub,
        parent: Some(above.id.clone()),
        task: task.map(|task| task.id),
        spawned_by: Some(by.clone()),
        background: wanted.in_background,
        agent: agent.name,
        model,
        provider: above.provider.clone(),
        settings: settings.to_bytes(),
        chain: id.to_string(),
        depth: above.depth + 1,
        fork: None,
        messages: vec![message],
        at,
    })
}

/// How long an answer may be so that several can be asked for at once: what could be written is set aside for each.
fn longest_answer(
    at_once: usize,
    usual: &RunLimits,
    microusd: Option<i64>,
    tokens: Option<u64>,
    model: &str,
) -> Result<u64, String> {
    let of = |part: u64| {
        let share = i64::try_from(part).unwrap_or(i64::MAX);
        let limits = RunLimits {
            max_budget_microusd: microusd.map(|microusd| microusd / share),
            max_budget_tokens: tokens.map(|tokens| tokens / part),
            ..usual.clone()
        };
        affordable(limits, model).map(|limits| limits.max_tokens).map_err(|error| error.to_string())
    };
    // As long as one alone could be where that is short anyway.
    Ok(of(at_once.clamp(1, SIDE_BY_SIDE) as u64)?.max(of(1)?.min(SHORT)))
}

/// How many share a budget.
const SIDE_BY_SIDE: usize = 8;
/// Tokens of an answer that is long enough for most.
const SHORT: u64 = 4096;

/// Providers whose models are all their own.
const OWN_MODELS: [&str; 2] = ["anthropic", "openai"];

/// The model by what the provider calls it. All agents of a tree are answered by one provider.
fn model(above: &Run, wanted: Option<&str>) -> Result<String, String> {
    let Some(wanted) = wanted else { return Ok(above.model.clone()) };
    let provider = above.provider.rsplit_once(':').map_or(above.provider.as_str(), |(_, provider)| provider);
    let name = match wanted.split_once('/') {
        Some((named, rest)) if named == provider => rest,
        Some((named, _)) if OWN_MODELS.contains(&named) && OWN_MODELS.contains(&provider) => {
            return Err(format!(
                "`{wanted}` is not a model of `{provider}`, which answers all agents here: leave `model` out to use your own"
            ));
        }
        // A model's own id may have a stroke in it.
        _ => wanted,
    };
    match (above.kernel.tiers.get(name), model::Tier::named(name)) {
        (Some(id), _) => Ok(id.clone()),
        (None, Some(tier)) => {
            Err(format!("`{provider}` has no model of the tier `{tier}`: leave `model` out to use your own"))
        }
        (None, None) => Ok(name.to_owned()),
    }
}

/// The task that a sub-agent is to work on.
fn meant(above: &Run, name: &str) -> Result<Task, String> {
    let all = above.kernel.store.main().tasks(&above.thread).map_err(|error| error.to_string())?;
    let names = || match all.is_empty() {
        true => "there are none: plan it with `manage_tasks` first, or leave `task_id` out".to_owned(),
        false => format!("there are: {}", all.iter().map(tasks::display_name).collect::<Vec<_>>().join(", ")),
    };
    let Some(id) = tasks::meant(name, &above.thread) else {
        return Err(format!("the task `{name}` belongs to another conversation; {}", names()));
    };
    all.iter()
        .find(|task| task.id == id)
        .cloned()
        .ok_or_else(|| format!("there is no task `{name}`; {}", names()))
}
