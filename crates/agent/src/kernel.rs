//! The loop: the same for every agent, and small enough to be read at once.

use std::sync::Arc;
use std::time::Duration;

use session::model::{self, Seat};
use session::{Message, Reply, Role, RunId, ThreadId, Usage};
use store::{
    CallStatus, Ending, Filter, Head, NewMessage, NewRun, NewThread, Origin, RunKind, RunStatus, RunThread,
    Store, ToolCall, Totals,
};
use wire::dialect::{Dialect, Draft, Element, Mark, MarkOn, ToolSpec};

use crate::ask::{self, Asked};
use crate::calls;
use crate::clock::Clock;
use crate::compact::compact;
use crate::conversation::{Conversation, Next};
use crate::crash;
use crate::error::RunError;
use crate::event::{Event, Watch, What};
use crate::model::Model;
use crate::process;
use crate::provider::{self, Attempt, Failure, Retries, Retry};
use crate::settings::{Limits, Settings};
use crate::stop::{Brake, Stop, Wish};
use crate::tool::{self, Toolbox};
use crate::words;
use crate::workspace::Workspace;

/// How often a run looks whether another process asks it to stop.
const LOOK: Duration = Duration::from_millis(200);

/// Everything that a run needs and that is not its own.
pub struct Kernel {
    /// The journal.
    pub store: Store,
    /// Who is asked.
    pub model: Arc<dyn Model>,
    /// How often.
    pub retries: Arc<Retries>,
    /// What may be called.
    pub tools: Arc<Toolbox>,
    /// The files.
    pub workspace: Arc<Workspace>,
    /// The time.
    pub clock: Clock,
    /// Who is told.
    pub watch: Arc<dyn Watch>,
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct Start {
    /// What the user says.
    pub prompt: String,
    /// The agent's name.
    pub agent: String,
    /// The provider's name.
    pub provider: String,
    /// The model, as the provider calls it.
    pub model: String,
    /// How far it may go.
    pub limits: Limits,
}

/// How far a resumed run may go, where that is not what it was started with.
#[derive(Clone, Debug, Default)]
pub struct More {
    /// How many replies before the last one, those counted that there were.
    pub max_steps: Option<u32>,
    /// What it may cost, what it has cost included.
    pub max_budget_microusd: Option<i64>,
}

/// How a loop ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// Its last words.
    pub final_text: Option<String>,
    /// Why it could not go on.
    pub error: Option<String>,
    /// The failure behind it, where a provider's was.
    pub failure: Option<Failure>,
}

/// One run in this process.
pub(crate) struct Run<'k> {
    pub(crate) kernel: &'k Kernel,
    pub(crate) id: RunId,
    pub(crate) parent: Option<RunId>,
    pub(crate) model: String,
    pub(crate) provider: String,
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
}

impl Kernel {
    /// Starts a run: its row is in the journal when this returns.
    pub async fn start(&self, start: Start) -> Result<RunId, RunError> {
        let now = self.clock.now();
        let at = self.clock.millis();
        let id = process::new_run_id(&now);
        let dialect = self.model.dialect();
        let context = words::context(&now);
        let workspace = self.workspace.path().display().to_string();
        let settings = Settings::new(dialect, &start.limits, context.clone(), workspace.clone());
        if start.limits.max_budget_microusd.is_some() && model::price(&start.model).is_none() {
            return Err(RunError::NoPrice(start.model));
        }
        let first =
            Message { role: Role::User, blocks: vec![tool::text(&context), tool::text(&start.prompt)] };
        let message = NewMessage {
            role: Role::User,
            origin: Origin::Prompt,
            bytes: dialect.encode_message(&first).map_err(RunError::Encode)?.into_bytes(),
            text: Some(start.prompt.clone()),
            at,
        };
        let thread =
            NewThread { id: ThreadId::new(format!("t{id}")), title: title(&start.prompt), workspace };
        let run = NewRun {
            id: id.clone(),
            thread: RunThread::New(thread),
            kind: RunKind::Main,
            parent: None,
            task: None,
            spawned_by: None,
            background: false,
            agent: start.agent,
            model: start.model,
            provider: start.provider,
            settings: settings.to_bytes(),
            chain: id.to_string(),
            depth: 0,
            messages: vec![message],
            at,
        };
        crash::point("run.start.before");
        self.store.start_run(run, process::lease()).await?;
        crash::point("run.start.after");
        Ok(id)
    }

    /// Takes a run up again, so that [`Kernel::run`] goes on with it. A run that had come to its end needs a `prompt`.
    pub async fn resume(&self, id: &RunId, prompt: Option<&str>) -> Result<(), RunError> {
        let row = self.store.run(id).row()?;
        if row.kind != RunKind::Main {
            return Err(RunError::NotMain(row.id));
        }
        let ended = row.status == RunStatus::Completed && prompt.is_none();
        if ended || matches!(row.status, RunStatus::CancelledByUser | RunStatus::CancelledByParent) {
            return Err(RunError::Over { run: row.id, status: row.status });
        }
        let settings = read_settings(&row)?;
        let (began, speaks) = (settings.dialect(), self.model.dialect());
        if began != speaks {
            return Err(RunError::OtherDialect { run: row.id, began, speaks });
        }
        let (lease, at) = (process::lease(), self.clock.millis());
        let Some(prompt) = prompt else {
            self.store.take_lease(id, lease, at, process::is_alive).await?;
            return Ok(());
        };
        self.store.reopen(id, lease, at, process::is_alive).await?;
        let run = Run {
            kernel: self,
            id: row.id,
            parent: row.parent,
            model: row.model,
            provider: row.provider,
            settings,
            stop: Brake::new().stop(),
        };
        let results = self.settle(&run).await?;
        let said = Message { role: Role::User, blocks: vec![tool::text(prompt)] };
        let prompt = NewMessage {
            role: Role::User,
            origin: Origin::Prompt,
            bytes: began.encode_message(&said).map_err(RunError::Encode)?.into_bytes(),
            text: Some(prompt.to_owned()),
            at: self.clock.millis(),
        };
        self.store.append(id, results.into_iter().chain([prompt]).collect()).await?;
        Ok(())
    }

    /// Runs the loop of a run that was started or resumed here, until it ends or is told to stop.
    pub async fn run(&self, run: &RunId, more: &More, brake: &Brake) -> Result<Ended, RunError> {
        let row = self.store.run(run).row()?;
        let mut settings = read_settings(&row)?;
        settings.max_steps = more.max_steps.unwrap_or(settings.max_steps);
        settings.max_budget_microusd = more.max_budget_microusd.or(settings.max_budget_microusd);
        let resumed = row.started_at != row.created_at;
        let run = Run {
            kernel: self,
            id: row.id.clone(),
            parent: row.parent,
            model: row.model.clone(),
            provider: row.provider,
            settings,
            stop: brake.stop(),
        };
        run.tell(What::Started { kind: row.kind, agent: row.agent, model: row.model, resumed });
        tokio::select! {
            ended = agent_loop(&run) => ended,
            never = self.look_for_cancels(&row.id, brake) => match never {},
        }
    }

    /// Gives every call of the last reply a result, so that something else can be said: those that exist stay, the
    /// others get one constant sentence each. Returns the message that carries them.
    async fn settle(&self, run: &Run<'_>) -> Result<Option<NewMessage>, RunError> {
        let mut talk = run.read()?;
        for call in talk.calls().to_vec() {
            if call.status.is_open() {
                talk.finished(calls::give_up(run, call).await?);
            }
        }
        let blocks = talk.results();
        if blocks.is_empty() {
            return Ok(None);
        }
        let bytes = talk.encode(blocks).map_err(RunError::Encode)?.into_bytes();
        let at = self.clock.millis();
        Ok(Some(NewMessage { role: Role::User, origin: Origin::Results, bytes, text: None, at }))
    }

    /// What the requests of a run begin with: everything that stays the same.
    fn head(&self, model: &str, settings: &Settings) -> Result<Head, RunError> {
        let dialect = settings.dialect();
        let tools: Vec<Element<ToolSpec>> = self.tools.specs().into_iter().map(Element::Made).collect();
        let system = [words::MAIN.to_owned(), words::surroundings(&settings.workspace)];
        let mark = |on| Mark { on, ttl: None };
        let mut draft = Draft {
            model: model.to_owned(),
            stream: true,
            marks: vec![
                mark(MarkOn::Tool(tools.len().saturating_sub(1))),
                mark(MarkOn::System(system.len() - 1)),
            ],
            tools,
            system: system.iter().map(|text| Element::Made(tool::text(text))).collect(),
            ..Draft::default()
        };
        provider::settle(&mut draft, dialect, Seat::Main);
        match dialect {
            Dialect::AnthropicMessages => {}
            Dialect::OpenAiChat => draft.marks.clear(),
            Dialect::OpenAiResponses => {
                draft.marks.clear();
                // We keep the conversation ourselves, so its reasoning must come back with it.
                draft.extra.push(("store".to_owned(), "false".to_owned()));
                draft.extra.push(("include".to_owned(), r#"["reasoning.encrypted_content"]"#.to_owned()));
            }
        }
        Ok(Head::new(dialect.encode_head(&draft).map_err(RunError::Encode)?))
    }

    /// Another process may have asked the run to stop.
    async fn look_for_cancels(&self, run: &RunId, brake: &Brake) -> std::convert::Infallible {
        loop {
            if self.store.run(run).cancel_requested().unwrap_or(false) {
                brake.ask(Wish::Cancel);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Runs an agent until the model stops asking for tools.
///
/// The journal is written before anything is done, so that whoever reads it afterwards can go on from here.
async fn agent_loop(run: &Run<'_>) -> Result<Ended, RunError> {
    let mut talk = run.read()?;
    loop {
        match run.stop.wish() {
            Wish::Pause => return run.end(&talk, RunStatus::Paused, None).await,
            Wish::Cancel => return run.end(&talk, RunStatus::CancelledByUser, None).await,
            Wish::GoOn => {}
        }
        let asked = match talk.next(&run.settings) {
            Next::End(status) => return run.end(&talk, status, None).await,
            Next::Call => {
                calls::all(run, &mut talk).await?;
                continue;
            }
            Next::Compact(blocks) => compact(run, &mut talk, blocks).await?,
            Next::Ask(blocks) => ask::turn(run, &mut talk, blocks).await?,
        };
        match asked {
            Asked::Answered | Asked::Stopped => {}
            Asked::NoBudget => return run.end(&talk, RunStatus::Budget, None).await,
            Asked::GaveUp(failure) => return run.end(&talk, given_up(&failure), Some(failure)).await,
        }
    }
}

impl Run<'_> {
    /// The conversation as the journal has it.
    fn read(&self) -> Result<Conversation, RunError> {
        let reads = self.kernel.store.run(&self.id);
        let journal = reads.journal()?;
        // What was sent stays as it was sent, whatever this version would say instead.
        let sent = journal.last_call.as_ref().map(|call| reads.head(call.head)).transpose()?.flatten();
        let head = match sent {
            Some(bytes) => Head::new(bytes),
            None => self.kernel.head(&self.model, &self.settings)?,
        };
        Ok(Conversation::of(journal, self.settings.dialect(), head))
    }

    /// Ends the loop: the status is in the journal before anybody is told.
    async fn end(
        &self,
        talk: &Conversation,
        status: RunStatus,
        failure: Option<Failure>,
    ) -> Result<Ended, RunError> {
        let at = self.kernel.clock.millis();
        let final_text = talk.last_text.clone();
        let error = failure.as_ref().map(ToString::to_string).or_else(|| why(status));
        let ending = Ending { status, final_text: final_text.clone(), error: error.clone(), at };
        crash::point("run.end.before");
        self.kernel.store.end_run(&self.id, ending).await?;
        crash::point("run.end.after");
        let totals = self.totals()?;
        self.tell(What::Finished {
            status,
            final_text: final_text.clone(),
            error: error.clone(),
            usage: totals.usage,
            cost_microusd: (totals.unpriced == 0).then_some(totals.cost_microusd),
        });
        Ok(Ended { run: self.id.clone(), status, final_text, error, failure })
    }

    /// What it used, and all below it.
    fn totals(&self) -> Result<Totals, RunError> {
        let filter = Filter { below: Some(self.id.clone()), ..Filter::default() };
        let runs = self.kernel.store.runs(&filter)?;
        Ok(runs.into_iter().find(|run| run.id == self.id).map(|run| run.inclusive).unwrap_or_default())
    }

    pub(crate) fn tell(&self, what: What) {
        self.kernel.watch.see(&Event { run: self.id.clone(), parent: self.parent.clone(), what });
    }

    /// What a reply cost, where the price is known.
    pub(crate) fn cost(&self, reply: &Reply) -> Option<i64> {
        Some(microusd(model::price(&self.model)?.of(&reply.usage)))
    }

    /// What a request of that length is expected to cost; nothing where that is more than the run has left.
    pub(crate) fn reserve(&self, request: usize) -> Result<Option<i64>, RunError> {
        let Some(price) = model::price(&self.model) else { return Ok(Some(0)) };
        // Three bytes make a token in the worst of usual texts; an answer is rarely longer than this.
        let expected = Usage {
            input: request as u64 / 3,
            output: self.settings.max_tokens.min(4096),
            ..Usage::default()
        };
        let reserved = microusd(price.of(&expected));
        let Some(budget) = self.settings.max_budget_microusd else { return Ok(Some(reserved)) };
        let spent = self.totals()?.cost_microusd;
        Ok((spent + reserved <= budget).then_some(reserved))
    }

    pub(crate) fn log_attempt(&self, step: u32, number: u32, attempt: &Attempt) {
        let outcome = attempt.outcome.as_ref().map_or_else(|failure| failure.kind.word(), |_| "answered");
        let ms = attempt.ended.duration_since(attempt.started).unwrap_or_default().as_millis();
        let (run, model, status) = (&self.id, &self.model, attempt.status);
        tracing::info!(%run, step, attempt = number, %model, status, ms, outcome, "model call");
    }

    pub(crate) fn log_call(&self, call: &ToolCall, status: CallStatus, ms: u64) {
        tracing::info!(run = %self.id, tool = %call.name, call = %call.call, ms, outcome = %status, "tool call");
    }
}

/// Where a run stands that got no answer: a provider that may be back is told from one that refuses.
fn given_up(failure: &Failure) -> RunStatus {
    if failure.retry == Retry::No { RunStatus::Failed } else { RunStatus::Stalled }
}

/// Why a run ended that no provider ended.
fn why(status: RunStatus) -> Option<String> {
    let why = match status {
        RunStatus::Failed => "the model refused to answer",
        RunStatus::Budget => "the next request could cost more than is left of the budget",
        RunStatus::StepCap => "the steps were used up",
        _ => return None,
    };
    Some(why.to_owned())
}

fn microusd(usd: f64) -> i64 {
    (usd * 1e6).round() as i64
}

fn read_settings(row: &store::Run) -> Result<Settings, RunError> {
    Settings::from_bytes(&row.settings).map_err(|source| RunError::Settings { run: row.id.clone(), source })
}

/// The first line of a prompt, as a list shows it.
fn title(prompt: &str) -> String {
    let line = prompt.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
