//! Forks: runs that start with the exact bytes of another run's last request, so that its prompt cache serves them.
//!
//! Nothing is encoded again. A fork needs one value, the [`ForkPoint`], which the journal has after every turn: the head
//! of the last request (tools, system prompt, settings, model), its messages, and the reply. After them come the results
//! of the reply's calls, with one constant sentence for each call without a result, and the fork's own prompt.

use std::sync::Arc;

use session::{Block, CallId, Message, Role, RunId, Usage};
use store::{
    Digest, ForkEnd, NewFork, NewMessage, NewRun, Origin, RunKind, RunStatus, RunThread, Seq, Store,
    StoredToolCall,
};

use crate::conversation::placeholder;
use crate::error::RunError;
use crate::event::ForkReport;
use crate::fork_request::ForkRequest;
use crate::head;
use crate::ids;
use crate::kernel::Kernel;
use crate::permission::{Decision, RuleList};
use crate::preview;
use crate::prompts::{self, text_block};
use crate::run::Run;
use crate::settings::{ForkSettings, RunSettings};
use crate::spawn;
use crate::tool::ToolContext;
use crate::tree::Member;

/// The state that a fork starts from.
#[derive(Clone, Debug)]
pub struct ForkPoint {
    run: RunId,
    /// Tools, system prompt, settings and model, as they were sent.
    head: Digest,
    /// The first message that was sent.
    from: Seq,
    /// The reply.
    reply: Seq,
    /// The calls of the reply, with their results so far.
    calls: Vec<StoredToolCall>,
}

/// Applies the rules of forks to a judgement. A fork is sent all tools of its parent, because they are part of the cached
/// prefix. It may not call those that plan or start runs.
pub(crate) fn judge(run: &Run, tool: &str, otherwise: Decision) -> Decision {
    let Some(settings) = run.settings.fork.as_ref() else { return otherwise };
    let tool = run.kernel.tools.find(tool);
    match otherwise {
        _ if tool.is_some_and(|tool| tool.needs_sub_agents() || tool.is_main_only()) => {
            Decision::Deny("a fork cannot plan or start sub-agents; only its parent can".to_owned())
        }
        Decision::Allow if settings.always_ask => {
            Decision::Ask("every call of this fork needs permission".to_owned())
        }
        otherwise => otherwise,
    }
}

impl Kernel {
    /// Returns the fork point of a run: its last turn.
    pub fn fork_point(&self, run: &RunId) -> Result<ForkPoint, RunError> {
        let turn = self.store.run(run).last_turn()?;
        let (call, reply, calls) = turn.ok_or_else(|| RunError::NoForkPoint(run.clone()))?;
        Ok(ForkPoint::of(run.clone(), call.head, call.from, reply, calls))
    }

    /// Creates the row of a fork.
    pub(crate) fn new_fork(
        &self,
        point: &ForkPoint,
        above: &store::Run,
        settings: RunSettings,
        (id, by): (RunId, Option<CallId>),
        fork: &ForkRequest,
        (alone, background): (bool, bool),
    ) -> Result<NewRun, RunError> {
        let mut settings = settings;
        let dialect = settings.dialect();
        let agent = fork.agent.as_deref().map(|name| self.find_fork_agent(name)).transpose()?;
        let fork_agent =
            agent.as_ref().map(|agent| self.apply_fork_agent(agent, above, &mut settings)).transpose()?;
        if let Some(limit) = fork.max_output_tokens {
            if limit > settings.max_tokens {
                let why =
                    format!("the output limit of {limit} tokens is above the run's, {}", settings.max_tokens);
                return Err(RunError::ForkRefused(why));
            }
            let head = self.store.run(&point.run).head(point.head)?.unwrap_or_default();
            head::with_output_limit(dialect, &head, limit, fork.allow_cache_loss)
                .map_err(RunError::CacheLost)?;
        }
        let at = self.clock.millis();
        let message = |origin, blocks, text| {
            let bytes = dialect.encode_message(&Message { role: Role::User, blocks });
            let bytes = bytes.map_err(RunError::Encode)?.into_bytes();
            Ok::<_, RunError>(NewMessage { role: Role::User, origin, bytes, text, at })
        };
        // A message of its own, because it is the same for all forks of a turn and they share its cache entry.
        let results = Some(point.results()).filter(|results| !results.is_empty());
        let mut messages =
            Vec::from_iter(results.map(|results| message(Origin::Results, results, None)).transpose()?);
        for carried in &fork.messages {
            let bytes = dialect.encode_message(carried).map_err(RunError::Encode)?.into_bytes();
            messages.push(NewMessage { role: carried.role, origin: Origin::Carried, bytes, text: None, at });
        }
        let mut own = vec![text_block(&prompts::fork(&fork.prompt))];
        own.extend(fork.reminder.as_deref().map(text_block));
        messages.push(message(Origin::Prompt, own, Some(fork.prompt.clone()))?);
        settings.max_steps = fork.max_turns.unwrap_or(settings.max_steps);
        settings.output_schema = None;
        settings.fork = Some(ForkSettings {
            reminder: fork.reminder.clone(),
            max_output_tokens: fork.max_output_tokens,
            write_cache: fork.write_cache,
            keep_transcript: fork.keep_transcript,
            always_ask: fork.permissions.always_ask,
            allow: fork.permissions.allow.clone(),
            agent: fork_agent,
        });
        settings.rules.extend(fork.permissions.rules.iter().cloned());
        settings.rules.extend(fork.permissions.deny.iter().map(|rule| (RuleList::Deny, rule.clone())));
        Ok(NewRun {
            chain: id.to_string(),
            id,
            thread: RunThread::Existing(above.thread.clone()),
            kind: RunKind::Fork,
            parent: Some(above.id.clone()),
            task: None,
            spawned_by: by,
            background,
            agent: agent.map_or_else(|| above.agent.clone(), |agent| agent.name),
            model: above.model.clone(),
            provider: above.provider.clone(),
            settings: settings.to_bytes(),
            depth: above.depth + 1,
            fork: Some(NewFork {
                of: point.run.clone(),
                head: point.head,
                from: point.from,
                to: point.reply,
                alone,
                knows_files: fork.share_known_files,
                label: fork.label.clone(),
                source: fork.source.clone(),
            }),
            messages,
            at,
        })
    }
}

impl ForkPoint {
    /// Creates a fork point.
    pub(crate) fn of(run: RunId, head: Digest, from: Seq, reply: Seq, calls: Vec<StoredToolCall>) -> Self {
        Self { run, head, from, reply, calls }
    }

    /// Returns the run.
    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the number of the reply.
    pub(crate) fn reply(&self) -> Seq {
        self.reply
    }

    /// Returns the results of the reply's calls as the model sees them, with one constant sentence for each call without a
    /// result. All forks of one turn get the same bytes.
    pub(crate) fn results(&self) -> Vec<Block> {
        let shown = |call: &StoredToolCall| match &call.result {
            Some(result) => preview::with_preview(result, call.preview.as_deref()),
            None => placeholder(call, prompts::NO_RESULT),
        };
        self.calls.iter().map(|call| Block::ToolResult(shown(call))).collect()
    }
}

/// Starts a fork below a run, or resumes the one that this call started before. Returns `None` if that one has ended.
/// Errors are text for the model.
pub(crate) async fn spawn(
    parent: &Arc<Run>,
    context: &ToolContext,
    fork: &ForkRequest,
    in_background: bool,
) -> Result<Option<Member>, String> {
    if let Some(known) = spawn::resume_started(parent, context, in_background).await? {
        return Ok(known);
    }
    let kernel = &parent.kernel;
    let text = |error: RunError| error.to_string();
    let mut point = kernel.fork_point(parent.id()).map_err(text)?;
    // As they were when the calls of this message started, so that all forks of the message see the same results.
    point.calls = parent.open_calls();
    let row = kernel.store.run(parent.id()).row().map_err(|error| error.to_string())?;
    let ids = (ids::child_id(&context.call), Some(context.call_id.clone()));
    let new = kernel.new_fork(&point, &row, parent.settings.clone(), ids, fork, (false, in_background));
    spawn::launch(parent, context, new.map_err(text)?, in_background).await.map(Some)
}

/// Returns the end of a fork as the journal keeps it, and its report. Returns `None` for other runs.
pub(crate) fn report(
    store: &Store,
    row: &store::Run,
    status: RunStatus,
    duration_ms: u64,
) -> Option<(ForkEnd, ForkReport)> {
    let mut settings = RunSettings::of(row).ok()?;
    let keeps = settings.fork.as_ref()?.keep_transcript;
    let differs =
        settings.fork.as_ref().and_then(|fork| fork.agent.as_ref()).map(|agent| agent.differs.clone());
    let reads = store.run(&row.id);
    let fork = reads.fork().ok().flatten()?;
    let calls = reads.model_calls().unwrap_or_default();
    let tier = calls.iter().rev().find_map(|call| service_tier(call.reply.as_deref()?));
    let mut usage = Usage::default();
    calls.iter().for_each(|call| usage += call.usage);
    let above = row.parent.as_ref().and_then(|parent| store.run(parent).row().ok());
    let report = ForkReport {
        label: fork.label,
        source: fork.source,
        outcome: status.as_str(),
        duration_ms,
        messages: reads.messages().map_or(0, |messages| own_messages(messages).count() as u64),
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write_5m.saturating_add(usage.cache_write_1h),
        cache_write_5m: usage.cache_write_5m,
        cache_write_1h: usage.cache_write_1h,
        service_tier: tier,
        hit_rate: usage.hit_rate(),
        differs: differs.unwrap_or_default(),
        chain: row.chain.clone(),
        parent_chain: above.map(|above| above.chain),
        depth: row.depth,
    };
    let event = serde_json::to_string(&report).expect("numbers and strings are always JSON");
    if let Some(fork) = &mut settings.fork {
        fork.reminder = None;
    }
    let forget = (!keeps).then(|| settings.to_bytes());
    Some((ForkEnd { event, forget }, report))
}

/// Returns a fork's own messages, without those that a summary repeats. The messages it starts with come before any summary.
pub(crate) fn own_messages(
    messages: Vec<store::StoredMessage>,
) -> impl Iterator<Item = store::StoredMessage> {
    let mut has_summary = false;
    messages.into_iter().filter(move |message| {
        has_summary |= message.origin == Origin::Summary;
        !(has_summary && message.origin == Origin::Carried)
    })
}

/// Returns the service tier that the provider reported.
fn service_tier(reply: &[u8]) -> Option<String> {
    let reply: serde_json::Value = serde_json::from_slice(reply).ok()?;
    let tier = reply.pointer("/usage/service_tier").or_else(|| reply.get("service_tier"))?;
    Some(tier.as_str()?.to_owned())
}
