//! What one run knows, and what it does by itself: reading its journal, ending, reckoning, telling.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use session::model;
use session::{Block, Reply, RunId, ThreadId, Usage};
use store::{CallKey, CallStatus, Ending, Filter, Head, Origin, RunStatus, ToolCall, Totals};

use crate::conversation::{Conversation, last_text};
use crate::crash;
use crate::error::RunError;
use crate::event::{Event, What};
use crate::kernel::{Ended, Kernel};
use crate::permission::Rules;
use crate::provider::{Attempt, Failure, Retry, chain};
use crate::settings::Settings;
use crate::shell::Processes;
use crate::stop::{Brake, Stop};
use crate::tool::{self, Scene, Toolbox};
use crate::words;

/// What is set aside for an answer where nobody counts the money: rarely is one longer.
const USUAL_OUTPUT: u64 = 4096;

/// How a loop comes to its end.
pub(crate) enum End {
    /// By itself, or because it was told to.
    At(RunStatus),
    /// The next request would cost too much; in words.
    NoBudget(String),
    /// There was no answer.
    GaveUp(Failure),
    /// So many calls were refused.
    Refused(u32),
}

/// One run in this process.
pub(crate) struct Run<'k> {
    pub(crate) kernel: &'k Kernel,
    pub(crate) id: RunId,
    pub(crate) parent: Option<RunId>,
    pub(crate) agent: String,
    pub(crate) model: String,
    pub(crate) provider: String,
    pub(crate) settings: Settings,
    /// What its agent's description asks about and forbids.
    pub(crate) rules: Rules,
    pub(crate) brake: Brake,
    pub(crate) stop: Stop,
    /// What its tree has running.
    pub(crate) processes: Arc<Processes>,
    /// What it may call.
    pub(crate) tools: Arc<Toolbox>,
    thread: ThreadId,
    started: AtomicBool,
}

impl<'k> Run<'k> {
    /// The run of that row.
    pub(crate) fn of(kernel: &'k Kernel, row: store::Run, settings: Settings, brake: &Brake) -> Self {
        let store::Run { id, root, thread, parent, agent, model, provider, .. } = row;
        let processes = Processes::new(kernel.shell.clone(), &root, &kernel.store);
        Self {
            tools: Arc::new(kernel.tools.only(settings.tools.as_deref())),
            kernel,
            id,
            thread,
            parent,
            agent,
            model,
            provider,
            rules: Rules::stored(&settings.rules),
            settings,
            brake: brake.clone(),
            stop: brake.stop(),
            processes: Arc::new(processes),
            started: AtomicBool::new(false),
        }
    }

    /// The conversation as the journal has it.
    pub(crate) fn read(&self) -> Result<Conversation, RunError> {
        let reads = self.kernel.store.run(&self.id);
        let journal = reads.journal()?;
        // What was sent stays as it was sent, whatever this version would say instead.
        let sent = journal.last_call.as_ref().map(|call| reads.head(call.head)).transpose()?.flatten();
        let head = match sent {
            Some(bytes) => Head::new(bytes),
            None => self.kernel.head(&self.model, &self.settings)?,
        };
        let mut talk = Conversation::of(journal, self.settings.dialect(), head);
        if talk.step > 0 {
            let all = reads.messages()?; // some may stand before a summary
            let since = all.iter().rev().take_while(|message| message.origin != Origin::Prompt);
            let replies = since.filter(|message| message.origin == Origin::Reply).count();
            talk.since_prompt = u32::try_from(replies).unwrap_or(u32::MAX);
            talk.last_text = talk.last_text.take().or_else(|| last_text(&all));
        }
        Ok(talk)
    }

    /// Where a tool call takes place, and what the run knows by now.
    pub(crate) fn scene(&self, call: &CallKey) -> Result<Scene, RunError> {
        let seen = self.kernel.store.run(&self.id).seen_files()?;
        Ok(Scene {
            workspace: Arc::clone(&self.kernel.workspace),
            seen: Arc::new(seen.into_iter().map(|file| (file.path, file.sha256)).collect()),
            processes: Arc::clone(&self.processes),
            now: self.kernel.clock.now(),
            store: self.kernel.store.clone(),
            thread: self.thread.clone(),
            call: call.clone(),
            skills: Arc::clone(&self.kernel.skills),
        })
    }

    /// The tasks of its conversation, as its model is told of them where nothing before still tells it.
    pub(crate) fn tasks(&self) -> Result<Option<Block>, RunError> {
        let tasks = self.kernel.store.main().tasks(&self.thread)?;
        Ok((!tasks.is_empty()).then(|| tool::text(&words::tasks(&tasks))))
    }

    /// Ends the loop: the status is in the journal before anybody is told.
    pub(crate) async fn end(&self, talk: &Conversation, end: End) -> Result<Ended, RunError> {
        let (status, error, failure) = match end {
            End::At(status) => (status, why(status), None),
            End::NoBudget(why) => (RunStatus::Budget, Some(why), None),
            End::Refused(calls) => {
                let why = format!("{calls} calls were refused: it would only go on asking");
                (RunStatus::Failed, Some(why), None)
            }
            End::GaveUp(failure) => (given_up(&failure), Some(failure.to_string()), Some(failure)),
        };
        let at = self.kernel.clock.millis();
        let final_text = talk.last_text.clone();
        let ending = Ending { status, final_text: final_text.clone(), error: error.clone(), at };
        crash::point("run.end.before");
        self.kernel.store.end_run(&self.id, ending).await?;
        crash::point("run.end.after");
        self.tell_end(status, final_text.clone(), error.clone(), self.totals()?);
        Ok(Ended { run: self.id.clone(), status, final_text, error, failure })
    }

    /// The loop could not go on by itself: that is written down where it still can be, and told in any case.
    pub(crate) async fn broke_off(&self, error: RunError) -> RunError {
        let status = match error {
            RunError::NoSummary | RunError::Encode(_) => RunStatus::Failed,
            _ => RunStatus::Interrupted, // as it is called when its process is gone
        };
        let words = chain(&error);
        let final_text = self.read().ok().and_then(|talk| talk.last_text);
        let at = self.kernel.clock.millis();
        let ending = Ending { status, final_text: final_text.clone(), error: Some(words.clone()), at };
        let _ = self.kernel.store.end_run(&self.id, ending).await; // a journal that fails has failed already
        self.tell_end(status, final_text, Some(words), self.totals().unwrap_or_default());
        error
    }

    fn tell_end(&self, status: RunStatus, final_text: Option<String>, error: Option<String>, totals: Totals) {
        let cost_microusd = (totals.unpriced == 0).then_some(totals.cost_microusd);
        self.tell(What::Finished { status, final_text, error, usage: totals.usage, cost_microusd });
    }

    /// What it used, and all below it.
    fn totals(&self) -> Result<Totals, RunError> {
        let filter = Filter { below: Some(self.id.clone()), ..Filter::default() };
        let runs = self.kernel.store.runs(&filter)?;
        Ok(runs.into_iter().find(|run| run.id == self.id).map(|run| run.inclusive).unwrap_or_default())
    }

    /// Whether anybody was told that its loop runs.
    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    pub(crate) fn tell(&self, what: What) {
        self.started.store(true, Ordering::Relaxed);
        self.kernel.watch.see(&Event { run: self.id.clone(), parent: self.parent.clone(), what });
    }

    /// What a reply cost, where the price is known.
    pub(crate) fn cost(&self, reply: &Reply) -> Option<i64> {
        Some(microusd(model::price(&self.model)?.of(&reply.usage)))
    }

    /// What a request of that length is expected to cost; in words where that is more than the run has left.
    pub(crate) fn reserve(&self, request: usize) -> Result<Result<i64, String>, RunError> {
        let Some(price) = model::price(&self.model) else { return Ok(Ok(0)) };
        // Three bytes make a token in the worst of usual texts, and the cache may have none of it yet.
        let output = match self.settings.max_budget_microusd {
            Some(_) => self.settings.max_tokens,
            None => self.settings.max_tokens.min(USUAL_OUTPUT),
        };
        let expected = Usage { cache_write_5m: request as u64 / 3, output, ..Usage::default() };
        let reserved = microusd(price.of(&expected));
        let Some(budget) = self.settings.max_budget_microusd else { return Ok(Ok(reserved)) };
        let spent = self.totals()?.cost_microusd;
        if spent + reserved <= budget {
            return Ok(Ok(reserved));
        }
        let usd = |microusd: i64| {
            let places = if microusd < 10_000 { 6 } else { 4 };
            format!("${:.places$}", microusd as f64 / 1e6)
        };
        let (spent, budget, reserved) = (usd(spent), usd(budget), usd(reserved));
        Ok(Err(format!("{spent} of {budget} are spent, and the next request could cost {reserved}")))
    }

    pub(crate) fn log_attempt(&self, step: u32, number: u32, attempt: &Attempt) {
        let outcome = attempt.outcome.as_ref().map_or_else(|failure| failure.kind.word(), |_| "answered");
        let ms = attempt.ended.duration_since(attempt.started).unwrap_or_default().as_millis();
        let (run, model, status) = (&self.id, &self.model, attempt.status);
        tracing::info!(%run, step, attempt = number, %model, status, ms, outcome, "model call");
    }

    pub(crate) fn log_call(&self, call: &ToolCall, status: CallStatus, ms: u64) {
        // Name and id are the model's own words: quoted, so that they stay words.
        let (tool, call) = (call.name.as_str(), call.call.as_str());
        tracing::info!(run = %self.id, ?tool, ?call, ms, outcome = %status, "tool call");
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
        RunStatus::StepCap => "the steps were used up",
        _ => return None,
    };
    Some(why.to_owned())
}

/// A provider may claim any number of tokens; a million dollars is as much as one call can be said to cost.
pub(crate) fn microusd(usd: f64) -> i64 {
    (usd * 1e6).round().clamp(0.0, 1e12) as i64
}
