//! Forks: runs that begin with the exact bytes that another run sent last, so that its prompt cache serves them.
//!
//! Nothing is rendered again. What a fork needs is one value, the [`ForkPoint`], which the journal has after every turn:
//! the head of the last request (tools, system prompt, settings, model), its messages, and the reply. Behind them stand
//! the results of the reply's calls, one constant sentence for each that has none, and what the fork itself is told.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use session::{Block, CallId, Message, Role, RunId, Usage};
use store::{
    Digest, ForkEnd, Head, NewFork, NewMessage, NewRun, Origin, RunKind, RunStatus, RunThread, Seq, Store,
    StoredToolCall,
};
use wire::dialect::Dialect;
use wire::json::{Document, Edits};

use crate::conversation::placeholder;
use crate::crash;
use crate::error::RunError;
use crate::event::{EventKind, EventSink, RunEvent};
use crate::kernel::{Kernel, ResumeOverrides, RunOutcome};
use crate::permission::{Asker, Judgement, List};
use crate::preview;
use crate::process;
use crate::run::Run;
use crate::settings::RunSettings;
use crate::spawn;
use crate::stop::StopHandle;
use crate::tool::{self, ToolContext};
use crate::tools::{MAIN_ONLY, SPAWNING};
use crate::tree::Member;
use crate::words;

/// What a fork begins with.
#[derive(Clone, Debug)]
pub struct ForkPoint {
    run: RunId,
    /// Tools, system prompt, settings and model, as they were sent.
    head: Digest,
    /// The first message that was sent.
    from: Seq,
    /// The reply.
    reply: Seq,
    /// What the reply asks for, with the results that there were.
    calls: Vec<StoredToolCall>,
}

/// A fork to start.
#[derive(Clone)]
pub struct ForkRequest {
    /// The fork's prompt.
    pub prompt: String,
    /// Messages placed before the prompt, as if they had been exchanged.
    pub messages: Vec<Message>,
    /// Name shown to people.
    pub label: String,
    /// Name of the feature that starts the fork.
    pub source: String,
    /// Maximum number of turns before the last one. `None` takes the parent's limit.
    pub max_turns: Option<u32>,
    /// Text appended to every message to the fork.
    pub reminder: Option<String>,
    /// Maximum number of output tokens of a reply.
    pub max_output_tokens: Option<u64>,
    /// Accepts an output limit that changes the thinking budget and so loses the prompt cache.
    pub allow_cache_loss: bool,
    /// Marks the fork's own messages for the prompt cache. Not needed for a fork that is never resumed.
    pub write_cache: bool,
    /// Keeps the fork's messages in the journal. Otherwise only its usage is kept.
    pub keep_transcript: bool,
    /// Gives the fork the files that its parent knows.
    pub share_known_files: bool,
    /// The fork's permissions.
    pub permissions: ForkPermissions,
    /// Receives every message of the fork itself.
    pub on_message: Option<Arc<MessageListener>>,
}

/// Permissions of a fork, in addition to its parent's.
#[derive(Clone, Default)]
pub struct ForkPermissions {
    /// Rules for calls that need no question.
    pub allow: Vec<String>,
    /// Rules for calls that are forbidden.
    pub deny: Vec<String>,
    /// Asks about every call, even if a rule allows it.
    pub always_ask: bool,
    /// Answers the questions. `None` takes the parent's.
    pub asker: Option<Arc<dyn Asker>>,
}

/// A callback for messages.
pub type MessageListener = dyn Fn(&Message) + Send + Sync;

impl ForkRequest {
    /// Creates a request for a fork that differs from its parent only in its prompt.
    pub fn new(prompt: impl Into<String>, label: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            messages: Vec::new(),
            label: label.into(),
            source: source.into(),
            max_turns: None,
            reminder: None,
            max_output_tokens: None,
            allow_cache_loss: false,
            write_cache: true,
            keep_transcript: true,
            share_known_files: true,
            permissions: ForkPermissions::default(),
            on_message: None,
        }
    }
}

/// What came of a fork.
#[derive(Clone, Debug)]
pub struct ForkOutcome {
    /// How it ended.
    pub ended: RunOutcome,
    /// What was said in it, from what it was told on.
    pub messages: Vec<Message>,
    /// What all its calls used.
    pub usage: Usage,
}

/// What a fork's settings say besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForkSettings {
    pub(crate) reminder: Option<String>,
    pub(crate) max_output_tokens: Option<u64>,
    #[serde(rename = "writes_cache")]
    pub(crate) write_cache: bool,
    #[serde(rename = "keeps_transcript")]
    pub(crate) keep_transcript: bool,
    pub(crate) always_ask: bool,
    pub(crate) allow: Vec<String>,
}

/// How a fork ended: told once, and kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ForkReport {
    /// What people call it.
    pub label: String,
    /// What it was started by.
    pub source: String,
    /// Where it stands.
    pub outcome: &'static str,
    /// How long it took.
    pub duration_ms: u64,
    /// How many messages of its own there were.
    pub messages: u64,
    /// Tokens that no cache knew.
    pub input: u64,
    /// Tokens that were written.
    pub output: u64,
    /// Tokens that the cache had.
    pub cache_read: u64,
    /// Tokens that went into the cache for five minutes.
    pub cache_write_5m: u64,
    /// Tokens that went into the cache for an hour.
    pub cache_write_1h: u64,
    /// How the provider served it, where it says so.
    pub service_tier: Option<String>,
    /// The part of what was sent that the cache had.
    pub hit_rate: Option<f64>,
    /// Its chain.
    pub chain: String,
    /// The chain of the run that it began with.
    pub parent_chain: Option<String>,
    /// How far it is from the root.
    pub depth: u32,
}

impl ForkReport {
    /// One line for whoever debugs.
    pub(crate) fn log(&self, run: &RunId) {
        tracing::info!(%run, event = %serde_json::to_string(self).unwrap_or_default(), "fork ended");
    }
}

/// What becomes of a call of a fork that would otherwise be judged like that. Its parent's tools are all there, since they
/// are part of what is cached; those that are its parent's to use refuse.
pub(crate) fn judge(run: &Run, tool: &str, otherwise: Judgement) -> Judgement {
    let Some(settings) = run.settings.fork.as_ref() else { return otherwise };
    match otherwise {
        _ if SPAWNING.contains(&tool) || MAIN_ONLY.contains(&tool) => {
            Judgement::Deny("a fork neither plans nor starts others: that is its parent's to do".to_owned())
        }
        Judgement::Allow if settings.always_ask => {
            Judgement::Ask("this fork is asked about everything".to_owned())
        }
        otherwise => otherwise,
    }
}

impl Kernel {
    /// What a fork of that run would begin with. Before its first turn there is nothing.
    pub fn fork_point(&self, run: &RunId) -> Result<ForkPoint, RunError> {
        let turn = self.store.run(run).last_turn()?;
        let (call, reply, calls) = turn.ok_or_else(|| RunError::NoForkPoint(run.clone()))?;
        Ok(ForkPoint::of(run.clone(), call.head, call.from, reply, calls))
    }

    /// Starts a fork that leaves the other run as it is, whoever is at work on it: its row is in the journal when this
    /// returns, and [`Kernel::run`] of the kernel that comes back runs it. That one's journal is in memory where the disk
    /// cannot be written.
    pub async fn start_fork(&self, of: &RunId, fork: &ForkRequest) -> Result<(RunId, Self), RunError> {
        let above = self.store.run(of).row()?;
        let point = self.fork_point(of)?;
        let mut settings = RunSettings::of(&above)?;
        if settings.dialect() != self.model.dialect() {
            let (began, speaks) = (settings.dialect(), self.model.dialect());
            return Err(RunError::DialectMismatch { run: of.clone(), began, speaks });
        }
        // Nobody above it is at work to be asked what is forbidden there.
        let (mut below, mut next) = (above.kind, above.parent.clone());
        while let Some(run) = next {
            let row = self.store.run(&run).row()?;
            // A fork has its parent's rules as they are.
            if below != RunKind::Fork {
                add_rules(&mut settings.rules, RunSettings::of(&row)?.rules);
            }
            (below, next) = (row.kind, row.parent);
        }
        let id = process::new_run_id(self.clock.millis());
        let new = self.described(&point, &above, settings, (id.clone(), None), fork, (true, false))?;
        let kernel = self.for_fork(&id, of);
        crash::point("fork.start.before");
        kernel.store.start_run(new, process::lease()).await?;
        crash::point("fork.start.after");
        Ok((id, kernel))
    }

    /// Starts a fork and runs it to its end; what was said in it comes back, also where nothing of it is kept.
    pub async fn fork(
        &self,
        of: &RunId,
        fork: &ForkRequest,
        stop_handle: &StopHandle,
    ) -> Result<ForkOutcome, RunError> {
        let (id, mut kernel) = self.start_fork(of, fork).await?;
        let heard = Arc::new(Heard {
            on: fork.on_message.clone(),
            messages: std::sync::Mutex::default(),
            kernel: kernel.clone(),
        });
        heard.hear(&id);
        kernel.events = heard.clone();
        if let Some(asker) = &fork.permissions.asker {
            kernel.asker = Arc::clone(asker);
        }
        let ended = kernel.run(&id, &ResumeOverrides::default(), stop_handle).await;
        heard.hear(&id);
        let filter = store::Filter { below: Some(id.clone()), ..store::Filter::default() };
        let usage =
            kernel.store.runs(&filter)?.iter().find(|run| run.id == id).map(|run| run.inclusive.usage);
        let messages = heard.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let messages = messages.into_iter().map(|(_, message)| message).collect();
        Ok(ForkOutcome { ended: ended?, messages, usage: usage.unwrap_or_default() })
    }

    /// A fork as it is written down.
    fn described(
        &self,
        point: &ForkPoint,
        above: &store::Run,
        settings: RunSettings,
        (id, by): (RunId, Option<CallId>),
        fork: &ForkRequest,
        (alone, background): (bool, bool),
    ) -> Result<NewRun, RunError> {
        let dialect = settings.dialect();
        if let Some(most) = fork.max_output_tokens {
            let head = self.store.run(&point.run).head(point.head)?.unwrap_or_default();
            capped(dialect, &head, most, fork.allow_cache_loss).map_err(RunError::CacheLost)?;
        }
        let at = self.clock.millis();
        let said = |origin, blocks, text| {
            let bytes = dialect.encode_message(&Message { role: Role::User, blocks });
            let bytes = bytes.map_err(RunError::Encode)?.into_bytes();
            Ok::<_, RunError>(NewMessage { role: Role::User, origin, bytes, text, at })
        };
        // What all forks of a turn are told by itself: so it can be kept in the cache for all of them.
        let results = Some(point.results()).filter(|results| !results.is_empty());
        let mut messages =
            Vec::from_iter(results.map(|results| said(Origin::Results, results, None)).transpose()?);
        for message in &fork.messages {
            let bytes = dialect.encode_message(message).map_err(RunError::Encode)?.into_bytes();
            messages.push(NewMessage { role: message.role, origin: Origin::Carried, bytes, text: None, at });
        }
        let mut own = vec![tool::text(&words::fork(&fork.prompt))];
        own.extend(fork.reminder.as_deref().map(tool::text));
        messages.push(said(Origin::Prompt, own, Some(fork.prompt.clone()))?);
        let mut settings = settings;
        settings.max_steps = fork.max_turns.unwrap_or(settings.max_steps);
        settings.output_schema = None;
        settings.fork = Some(ForkSettings {
            reminder: fork.reminder.clone(),
            max_output_tokens: fork.max_output_tokens,
            write_cache: fork.write_cache,
            keep_transcript: fork.keep_transcript,
            always_ask: fork.permissions.always_ask,
            allow: fork.permissions.allow.clone(),
        });
        settings.rules.extend(fork.permissions.deny.iter().map(|rule| (List::Deny, rule.clone())));
        Ok(NewRun {
            chain: id.to_string(),
            id,
            thread: RunThread::Existing(above.thread.clone()),
            kind: RunKind::Fork,
            parent: Some(above.id.clone()),
            task: None,
            spawned_by: by,
            background,
            agent: above.agent.clone(),
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
    /// What a fork begins with.
    pub(crate) fn of(run: RunId, head: Digest, from: Seq, reply: Seq, calls: Vec<StoredToolCall>) -> Self {
        Self { run, head, from, reply, calls }
    }

    /// The results of the reply's calls: those that there were as they are shown, and one constant sentence for each
    /// other one, so that all forks of one turn are told the same.
    pub(crate) fn results(&self) -> Vec<Block> {
        let shown = |call: &StoredToolCall| match &call.result {
            Some(result) => preview::shown(result, call.preview.as_deref()),
            None => placeholder(call, words::NO_RESULT),
        };
        self.calls.iter().map(|call| Block::ToolResult(shown(call))).collect()
    }
}

/// Starts a fork below a run, or goes on with the one that this call has started before; why not, in words for the model.
///
/// `None` where it has come to its end already.
pub(crate) async fn spawn(
    above: &Arc<Run>,
    context: &ToolContext,
    fork: &ForkRequest,
    in_background: bool,
) -> Result<Option<Member>, String> {
    if let Some(known) = spawn::known(above, context, in_background).await? {
        return Ok(known);
    }
    let kernel = &above.kernel;
    let words = |error: RunError| error.to_string();
    let mut point = kernel.fork_point(&above.id).map_err(words)?;
    // As they stood when the calls of this message began: then all forks that it asks for see the same.
    point.calls = above.open_calls();
    let row = kernel.store.run(&above.id).row().map_err(|error| error.to_string())?;
    let at = (spawn::id(&context.call), Some(context.call_id.clone()));
    let new = kernel.described(&point, &row, above.settings.clone(), at, fork, (false, in_background));
    spawn::launch(above, context, new.map_err(words)?, in_background).await.map(Some)
}

/// Anthropic lets no model think with less.
const LEAST_THINKING: u64 = 1024;

/// A head with another output limit. One that changes how much the model thinks would change what is cached.
pub(crate) fn capped(
    dialect: Dialect,
    head: &[u8],
    most: u64,
    allow_cache_loss: bool,
) -> Result<Vec<u8>, String> {
    // A head ends where the messages begin.
    let whole = [head, b"]}"].concat();
    let document = Document::parse(&whole).map_err(|error| error.to_string())?;
    let root = document.root();
    let names = match dialect {
        Dialect::AnthropicMessages => ["max_tokens", "max_tokens"],
        Dialect::OpenAiChat => ["max_completion_tokens", "max_tokens"],
        Dialect::OpenAiResponses => ["max_output_tokens", "max_output_tokens"],
    };
    let mut edits = Edits::default();
    if let Some(budget) = root.get("thinking").and_then(|thinking| thinking.get("budget_tokens")) {
        let thinks = budget.raw().parse::<u64>().unwrap_or(u64::MAX);
        if thinks >= most && !allow_cache_loss {
            return Err(format!(
                "an output limit of {most} tokens would cut the {thinks} tokens that the model may think with, and the \
                 prompt cache would be lost; ask for more than {thinks}, or give the cache up"
            ));
        }
        let half = most / 2;
        if thinks >= most {
            edits.add(match root.get("thinking").filter(|_| half < LEAST_THINKING) {
                Some(thinking) => thinking.replaced_by(r#"{"type":"disabled"}"#.to_owned()),
                None => budget.replaced_by(half.to_string()),
            });
        }
    }
    let limit = names.iter().find_map(|name| root.get(name));
    if let Some(limit) = limit {
        edits.add(limit.replaced_by(most.to_string()));
    }
    let edited = edits.apply(&whole).map_err(|_| "two changes of one place".to_owned())?;
    let edited = &edited[..edited.len() - 2];
    Ok(match limit {
        Some(_) => edited.to_vec(),
        None => [format!(r#"{{"{}":{most},"#, names[0]).as_bytes(), &edited[1..]].concat(),
    })
}

/// Adds what is asked about and forbidden above. An exception holds for the rules that it stands among: where something is
/// asked about above, none is left.
fn add_rules(rules: &mut Vec<(List, String)>, above: Vec<(List, String)>) {
    let is_exception = |(list, _): &(List, String)| *list == List::Allow;
    if above.iter().any(|(list, _)| *list == List::Ask) {
        rules.retain(|rule| !is_exception(rule));
    }
    rules.extend(above.into_iter().filter(|rule| !is_exception(rule)));
}

/// The head of a fork's requests: the stored one, but for its output limit.
pub(crate) fn head(settings: &RunSettings, stored: Vec<u8>) -> Result<Head, RunError> {
    let most = settings.fork.as_ref().and_then(|fork| fork.max_output_tokens);
    Ok(Head::new(match most {
        None => stored,
        Some(most) => capped(settings.dialect(), &stored, most, true).map_err(RunError::CacheLost)?,
    }))
}

impl Run {
    /// What it was told as a fork, to be said again where it would be lost.
    pub(crate) fn told_as_fork(&self) -> Result<Option<Block>, RunError> {
        if self.settings.fork.is_none() {
            return Ok(None);
        }
        let said = self.kernel.store.run(&self.id).messages()?;
        let prompt = said.into_iter().find(|message| message.origin == Origin::Prompt);
        Ok(prompt.and_then(|prompt| prompt.text).map(|prompt| tool::text(&words::fork(&prompt))))
    }

    /// What is kept of its end, where it is a fork, and what is told of it.
    pub(crate) fn fork_end(&self, status: RunStatus) -> Option<(ForkEnd, ForkReport)> {
        self.settings.fork.as_ref()?;
        let row = self.kernel.store.run(&self.id).row().ok()?;
        let ms = match self.is_resumed {
            true => self.prior().ok()?.ms,
            false => u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        ended(&self.kernel.store, &row, status, ms)
    }
}

/// What is kept of the end of a run that is a fork, and what is told of it.
pub(crate) fn ended(
    store: &Store,
    row: &store::Run,
    status: RunStatus,
    duration_ms: u64,
) -> Option<(ForkEnd, ForkReport)> {
    let mut settings = RunSettings::of(row).ok()?;
    let keeps = settings.fork.as_ref()?.keep_transcript;
    let reads = store.run(&row.id);
    let fork = reads.fork().ok().flatten()?;
    let calls = reads.model_calls().unwrap_or_default();
    let tier = calls.iter().rev().find_map(|call| service_tier(call.reply.as_deref()?));
    let mut usage = Usage::default();
    calls.iter().for_each(|call| usage += call.usage);
    let above = row.parent.as_ref().and_then(|parent| store.run(parent).row().ok());
    let ended = ForkReport {
        label: fork.label,
        source: fork.source,
        outcome: status.as_str(),
        duration_ms,
        messages: reads.messages().map_or(0, |messages| own(messages).count() as u64),
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write_5m: usage.cache_write_5m,
        cache_write_1h: usage.cache_write_1h,
        service_tier: tier,
        hit_rate: usage.hit_rate(),
        chain: row.chain.clone(),
        parent_chain: above.map(|above| above.chain),
        depth: row.depth,
    };
    let event = serde_json::to_string(&ended).expect("numbers and strings are always JSON");
    if let Some(fork) = &mut settings.fork {
        fork.reminder = None;
    }
    let forget = (!keeps).then(|| settings.to_bytes());
    Some((ForkEnd { event, forget }, ended))
}

/// A fork's messages, but for those that a summary has said again. What it began with stands before any summary.
fn own(messages: Vec<store::StoredMessage>) -> impl Iterator<Item = store::StoredMessage> {
    let mut is_summed_up = false;
    messages.into_iter().filter(move |message| {
        is_summed_up |= message.origin == Origin::Summary;
        !(is_summed_up && message.origin == Origin::Carried)
    })
}

/// How a provider says that it served a reply.
fn service_tier(reply: &[u8]) -> Option<String> {
    let reply: serde_json::Value = serde_json::from_slice(reply).ok()?;
    let tier = reply.pointer("/usage/service_tier").or_else(|| reply.get("service_tier"))?;
    Some(tier.as_str()?.to_owned())
}

/// Hears the messages of a fork as they are written down, and tells everybody else.
struct Heard {
    on: Option<Arc<MessageListener>>,
    messages: std::sync::Mutex<Vec<(Seq, Message)>>,
    kernel: Kernel,
}

impl Heard {
    /// Takes what is new.
    fn hear(&self, run: &RunId) {
        let mut known = self.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let last = known.last().map_or(Seq(0), |(seq, _)| *seq);
        let said = self.kernel.store.run(run).messages().unwrap_or_default();
        for message in own(said).filter(|message| message.seq > last) {
            let decoded = decoded(self.kernel.model.dialect(), &message.bytes);
            let whole = Message { role: message.role, blocks: decoded };
            if let Some(on) = &self.on {
                on(&whole);
            }
            known.push((message.seq, whole));
        }
    }
}

impl EventSink for Heard {
    fn emit(&self, event: &RunEvent) {
        // Before its end is told, what is not to be kept is gone.
        if matches!(
            event.kind,
            EventKind::Message { .. } | EventKind::CallStarted { .. } | EventKind::Compacted { .. }
        ) {
            self.hear(&event.run);
        }
        self.kernel.events.emit(event);
    }
}

/// What a message on the wire says.
fn decoded(dialect: Dialect, bytes: &[u8]) -> Vec<Block> {
    let messages = if dialect == Dialect::OpenAiResponses { "input" } else { "messages" };
    let head = format!(r#"{{"model":"m","{messages}":["#);
    let body = wire::dialect::join_request(head.as_bytes(), [String::from_utf8_lossy(bytes).as_ref()]);
    let prompt = dialect.decode_request(&body);
    let messages = prompt.map(|prompt| prompt.messages).unwrap_or_default();
    messages.iter().flat_map(|message| message.message().blocks).collect()
}
