//! What one run knows, and what it does by itself: reading its journal, ending, reckoning, telling.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use session::model;
use session::{Block, CallId, Reply, RunId, ThreadId, Usage};
use store::{
    CallStatus, Head, InboxEntry, InboxKind, Limit, Origin, RunEnd, RunKind, RunStatus, StoreError,
    StoredToolCall, UsageTotals,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::context;
use crate::conversation::{Conversation, is_repair};
use crate::crash;
use crate::error::RunError;
use crate::event::{EventKind, PriorUsage, RunEvent};
use crate::fork;
use crate::jobs;
use crate::kernel::{self, Kernel, RunOutcome};
use crate::narrow;
use crate::permission::{Answer, List, Question, Rules};
use crate::provider::{HttpAttempt, ProviderFailure, RetryAdvice, chain};
use crate::schema;
use crate::settings::RunSettings;
use crate::spawn;
use crate::spoken::Spoken;
use crate::stop::{StopHandle, StopRequest, StopSignal};
use crate::tool::{self, ToolContext, Toolbox};
use crate::tree::Tree;
use crate::words;
use crate::workspace::Workspace;

/// How much of what waits is told in one turn; the next one has the rest. A thousand jobs that end while their parent is
/// busy would fill its context at once.
const TOLD: u32 = 1000;
const TOLD_BYTES: usize = 64 << 10;

/// How a loop comes to its end.
pub(crate) enum End {
    /// By itself, or because it was told to.
    At(RunStatus),
    /// The next request would cost too much; in words.
    NoBudget(String),
    /// There was no answer.
    GaveUp(ProviderFailure),
    /// So many calls were refused.
    Refused(u32),
    /// The answer was cut off so often in a row.
    CutOff(u32),
}

/// One run in this process.
pub(crate) struct Run {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) id: RunId,
    pub(crate) thread: ThreadId,
    pub(crate) kind: RunKind,
    pub(crate) parent: Option<RunId>,
    /// The run right above it, where that is at work in this process too.
    pub(crate) above: Option<Arc<Run>>,
    /// The call that started it.
    pub(crate) spawned_by: Option<CallId>,
    pub(crate) depth: u32,
    pub(crate) chain: Arc<str>,
    pub(crate) parent_chain: Option<Arc<str>>,
    pub(crate) agent: String,
    pub(crate) model: String,
    pub(crate) provider: String,
    pub(crate) settings: RunSettings,
    /// What its agent's description asks about and forbids, and what those of all above it do.
    pub(crate) rules: Vec<Arc<Rules>>,
    /// What it and those above it may use.
    pub(crate) within: Vec<Limit>,
    pub(crate) stop_handle: StopHandle,
    pub(crate) stop: StopSignal,
    /// What it may call.
    pub(crate) tools: Arc<Toolbox>,
    /// It owes its parent a result.
    is_job: bool,
    /// It had been begun before.
    pub(crate) is_resumed: bool,
    /// When it began to work here.
    pub(crate) began: Instant,
    /// The calls of its last reply as they stood when the last of them were begun.
    open: Mutex<Vec<StoredToolCall>>,
    /// What is allowed beside what the kernel allows.
    pub(crate) allowed: Option<Rules>,
    is_root: bool,
    /// Its place among those at work.
    place: Mutex<Option<OwnedSemaphorePermit>>,
    /// How many it has started, once somebody has counted them.
    children: Mutex<Option<u64>>,
    started: AtomicBool,
    last_request: AtomicUsize,
}

impl Run {
    /// The run at the top of a tree.
    pub(crate) fn root(
        kernel: Arc<Kernel>,
        row: store::Run,
        settings: RunSettings,
        stop_handle: &StopHandle,
    ) -> Self {
        let tree = Tree::new(&kernel, &row.root);
        let above = row.parent.as_ref().and_then(|parent| kernel.store.run(parent).row().ok());
        let own = Self::of(kernel, tree, row, settings, (stop_handle.clone(), stop_handle.signal()));
        Self { parent_chain: above.map(|above| above.chain.into()), ..own }
    }

    /// A run below another one: it stops when that one does, and may do nothing that is forbidden there.
    pub(crate) fn below(
        above: &Arc<Self>,
        kernel: Arc<Kernel>,
        row: store::Run,
        settings: RunSettings,
        is_job: bool,
    ) -> Self {
        let stop_handle = StopHandle::new();
        let stop = stop_handle.signal_below(&above.stop);
        let own = Self::of(kernel, Arc::clone(&above.tree), row, settings, (stop_handle, stop));
        Self {
            rules: above.rules.iter().cloned().chain(own.rules).collect(),
            within: above.within.iter().cloned().chain(own.within).collect(),
            parent_chain: Some(Arc::clone(&above.chain)),
            provider: above.provider.clone(), // who answers one answers all
            above: Some(Arc::clone(above)),
            is_job,
            ..own
        }
    }

    fn of(
        kernel: Arc<Kernel>,
        tree: Arc<Tree>,
        row: store::Run,
        settings: RunSettings,
        (stop_handle, stop): (StopHandle, StopSignal),
    ) -> Self {
        let is_resumed = row.started_at != row.created_at;
        let is_root = row.root == row.id;
        let allow = settings.fork.as_ref().map(|fork| fork.allow.as_slice()).unwrap_or_default();
        let allow: Vec<_> = allow.iter().map(|rule| (List::Allow, rule.clone())).collect();
        let allowed = (!allow.is_empty()).then(|| Rules::stored(&allow));
        let store::Run { id, thread, kind, parent, spawned_by, depth, chain, agent, model, provider, .. } =
            row;
        let (microusd, tokens) = (settings.max_budget_microusd, settings.max_budget_tokens);
        let limit = Limit { run: id.clone(), microusd, tokens };
        Self {
            tools: Arc::new(kernel.tools.only(settings.tools.as_deref())),
            rules: vec![Arc::new(Rules::stored(&settings.rules))],
            within: [limit]
                .into_iter()
                .filter(|limit| microusd.is_some() || limit.tokens.is_some())
                .collect(),
            kernel,
            tree,
            id,
            thread,
            kind,
            parent,
            above: None,
            spawned_by,
            depth,
            chain: chain.into(),
            parent_chain: None,
            agent,
            model,
            provider,
            settings,
            stop_handle,
            stop,
            is_job: false,
            is_resumed,
            began: Instant::now(),
            open: Mutex::default(),
            allowed,
            is_root,
            place: Mutex::default(),
            children: Mutex::default(),
            started: AtomicBool::new(false),
            last_request: AtomicUsize::new(0),
        }
    }

    /// Works in a task of its own, as soon as there is a place for it.
    pub(crate) async fn work(self: Arc<Self>) -> RunOutcome {
        if self.has_to_wait() {
            self.tell(EventKind::Queued { kind: self.kind, agent: self.agent.clone() });
        }
        self.take_place().await;
        let ended = kernel::go(&self).await;
        self.leave_place();
        match ended {
            Ok(ended) => ended,
            Err((_, ended)) => ended,
        }
    }

    /// Whether there is no place for it at the moment; where there is one, it is taken.
    fn has_to_wait(&self) -> bool {
        let place = if self.is_root { None } else { self.tree.free_place() };
        let mut own = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        *own = place;
        !self.is_root && own.is_none()
    }

    /// Waits until it may be at work, or is told to stop. The main agent always may.
    pub(crate) async fn take_place(&self) {
        let has_one = self.place.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !self.is_root && !has_one {
            let place = tokio::select! {
                place = self.tree.place() => place,
                () = self.stop.wait_for(StopRequest::Pause) => None,
            };
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }
    }

    /// Somebody else may be at work meanwhile.
    pub(crate) fn leave_place(&self) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Where it comes to stand, where it was told to stop.
    pub(crate) fn told_to_stop(&self) -> Result<Option<RunStatus>, RunError> {
        Ok(match (self.stop.requested(), self.is_root) {
            (StopRequest::None, _) => None,
            (StopRequest::Pause, _) => Some(RunStatus::Paused),
            (StopRequest::Cancel, true) => Some(RunStatus::CancelledByUser),
            (StopRequest::Cancel, false) => {
                let own = self.kernel.store.run(&self.id).cancel_status()?;
                Some(own.unwrap_or(RunStatus::CancelledByParent))
            }
        })
    }

    /// What waits for its next turn.
    pub(crate) fn news(&self) -> Result<Vec<InboxEntry>, RunError> {
        let reads = self.kernel.store.run(&self.id);
        if !reads.has_waiting_input()? {
            return Ok(Vec::new());
        }
        let mut waiting = reads.first_in_inbox(TOLD)?;
        waiting.retain(|entry| entry.kind != InboxKind::Cancel);
        // Which of two jobs was the first to end is a matter of luck; which was started first is not.
        waiting.sort_by_key(|entry| entry.job.as_ref().map(|job| spawn::place(&self.id, job)));
        let mut bytes = 0;
        let fits = waiting.iter().take_while(|entry| {
            bytes += entry.body.len();
            bytes <= TOLD_BYTES
        });
        let fits = fits.count().max(1);
        waiting.truncate(fits);
        Ok(waiting)
    }

    /// Counts one more run right below it; how many there are where there may be no more.
    pub(crate) fn count_child(&self) -> Result<Result<(), u64>, StoreError> {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match *children {
            Some(known) => known,
            None => self.kernel.store.run(&self.id).child_count()?,
        };
        let may = known < self.kernel.tree_limits.max_children;
        *children = Some(known + u64::from(may));
        Ok(if may { Ok(()) } else { Err(known) })
    }

    /// One that was counted was not begun.
    pub(crate) fn uncount_child(&self) {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        *children = children.map(|known| known.saturating_sub(1));
    }

    /// The conversation as the journal has it.
    pub(crate) fn read(&self) -> Result<Conversation, RunError> {
        let reads = self.kernel.store.run(&self.id);
        let journal = reads.snapshot()?;
        if let Some(call) = &journal.last_call {
            self.requests(usize::try_from(call.request_len).unwrap_or(usize::MAX));
        }
        // What was sent stays as it was sent, whatever this version would say instead. A later request may have allowed
        // for less than the first.
        let sent = reads.first_head()?;
        let fork = reads.fork()?;
        let begun_with = match (&sent, &fork) {
            (None, Some(fork)) => reads.head(fork.head)?,
            _ => None,
        };
        let head = match (sent, begun_with) {
            (Some(bytes), _) => Head::new(bytes),
            (None, Some(bytes)) => fork::head(&self.settings, bytes)?,
            (None, None) => self.kernel.head(self.kind, &self.model, &self.settings)?,
        };
        let mut talk = Conversation::of(journal, self.settings.dialect(), head);
        let keeps_cache = self.settings.fork.as_ref().is_none_or(|fork| fork.write_cache);
        if let Some(fork) = fork.as_ref().filter(|_| talk.step == 0 && talk.filled == 0) {
            // It begins as full as its parent was.
            talk.filled = self.kernel.store.run(&fork.of).context_tokens(fork.to)?;
        }
        if let Some(fork) = fork {
            let own = reads.messages()?;
            talk.spoken = Spoken::of(&own); // what its parent said last is not its own
            let results = own.first().filter(|message| message.origin == Origin::Results);
            let shared_to = results.map_or(fork.to, |results| results.seq);
            (talk.mark_up_to, talk.shared_to) =
                if keeps_cache { (None, Some(shared_to)) } else { (Some(fork.to), None) };
        }
        if talk.step > 0 {
            let all = reads.messages()?; // some may stand before a summary
            let since = all.iter().rev().take_while(|message| !starts_anew(message.origin));
            let replies = since.filter(|message| message.origin == Origin::Reply).count();
            talk.since_prompt = u32::try_from(replies).unwrap_or(u32::MAX);
            talk.repaired = all.iter().any(|message| is_repair(message.origin, &message.bytes));
            talk.spoken = Spoken::of(&all);
        }
        Ok(talk)
    }

    /// The files, as far as its rules leave them.
    fn workspace(&self, rules: &[Arc<Rules>]) -> Workspace {
        let all = Workspace::clone(&self.kernel.workspace);
        rules.iter().fold(all, |all, rules| all.with_rules(Arc::clone(rules)))
    }

    /// Where a tool call takes place, and what the run knows by now.
    pub(crate) fn context(self: &Arc<Self>, call: &StoredToolCall) -> Result<ToolContext, RunError> {
        let seen = self.kernel.store.run(&self.id).seen_files()?;
        let rules: Vec<Arc<Rules>> = self.rules.iter().cloned().chain(narrow::rules_above(self)).collect();
        Ok(ToolContext {
            workspace: Arc::new(self.workspace(&rules)),
            rules: std::iter::once(Arc::clone(&self.kernel.rules)).chain(rules).collect(),
            seen: Arc::new(seen.into_iter().map(|file| (file.path, file.sha256)).collect()),
            processes: Arc::clone(&self.tree.processes),
            run: Some(Arc::clone(self)),
            now: self.kernel.clock.now(),
            // What it is to remember for others must be on the disk.
            store: self.kernel.store.on_disk(),
            thread: self.thread.clone(),
            call: call.key.clone(),
            call_id: call.call.clone(),
            skills: Arc::clone(&self.kernel.skills),
            turn: None,
        })
    }

    /// The tasks of its conversation, as its model is told of them where nothing before still tells it.
    pub(crate) fn tasks(&self) -> Result<Option<Block>, RunError> {
        if self.kind != RunKind::Main {
            return Ok(None);
        }
        let tasks = self.kernel.store.main().tasks(&self.thread)?;
        Ok((!tasks.is_empty()).then(|| tool::text(&words::tasks(&tasks))))
    }

    /// Its jobs that are at work, as its model is told of them where nothing before still tells it.
    pub(crate) fn jobs(&self) -> Result<Option<Block>, RunError> {
        if self.tree.below(&self.id) == 0 {
            return Ok(None);
        }
        let children = self.kernel.store.run(&self.id).children()?;
        let at_work = children.iter().filter(|child| child.owes == Some(true)).map(|child| &child.run);
        Ok(words::jobs(at_work).map(|text| tool::text(&text)))
    }

    /// What is remembered for its conversation alone, as its model is told of it behind a summary.
    pub(crate) fn remembered(&self) -> Result<Option<Block>, RunError> {
        if self.parent.is_some() {
            return Ok(None); // its conversation is its own
        }
        let kept = self.kernel.store.main().memory(Some(&self.thread))?;
        let own: Vec<_> = kept.into_iter().filter(|kept| kept.thread.is_some()).collect();
        Ok(context::remembered(&own).map(|listed| tool::text(&listed)))
    }

    /// Ends the loop: the status is in the journal before anybody is told.
    pub(crate) async fn end(&self, talk: &Conversation, end: End) -> Result<RunOutcome, RunError> {
        let (status, error, failure) = match end {
            End::At(status) => (status, why(status), None),
            End::NoBudget(why) => (RunStatus::Budget, Some(why), None),
            End::Refused(calls) => {
                let why = format!("{calls} calls were refused: it would only go on asking");
                (RunStatus::Failed, Some(why), None)
            }
            End::CutOff(times) => {
                let why = format!(
                    "the answer was cut off at the output limit and gone on with {times} times in a row, and has no end"
                );
                (RunStatus::Failed, Some(why), None)
            }
            End::GaveUp(failure) => (given_up(&failure), Some(failure.to_string()), Some(failure)),
        };
        jobs::gather(self, status).await;
        // Somebody may have ended it while it waited for the others.
        let status = match self.told_to_stop()? {
            Some(stopped @ (RunStatus::CancelledByUser | RunStatus::CancelledByParent)) => stopped,
            _ => status,
        };
        if matches!(status, RunStatus::CancelledByUser | RunStatus::CancelledByParent) {
            // What somebody finished still needs may run until its tree ends; of what was cancelled nobody needs any.
            self.tree.processes.end_background_of(&self.id);
            if self.is_root {
                // Who had been paused before it was to end for good is nobody's any more.
                jobs::end_below(self).await?;
            }
        }
        let final_text = talk.spoken.last().map(str::to_owned);
        let misfit = self.misfit(status, final_text.as_deref());
        let misfits = misfit.is_some();
        let error = misfit.or(error);
        self.write_end(status, final_text.clone(), error.clone(), misfits).await?;
        self.end_processes().await;
        self.tell_end(status, final_text.clone(), error.clone(), self.totals()?);
        Ok(RunOutcome { run: self.id.clone(), status, final_text, error, failure })
    }

    /// Why its answer is not what was asked for.
    fn misfit(&self, status: RunStatus, answer: Option<&str>) -> Option<String> {
        let schema = self.settings.output_schema.as_ref()?;
        let answer = match status {
            RunStatus::Completed => answer.unwrap_or_default(),
            RunStatus::StepCap => answer?,
            _ => return None,
        };
        Some(words::not_as_asked(&schema::check(schema, answer).err()?))
    }

    /// Writes the end down. A job's parent is told in the same commit; one that is only paused still owes its result.
    async fn write_end(
        &self,
        status: RunStatus,
        final_text: Option<String>,
        error: Option<String>,
        misfits: bool,
    ) -> Result<(), RunError> {
        let at = self.kernel.clock.millis();
        let (fork, told) = self.fork_end(status).unzip();
        let is_paused = status == RunStatus::Paused;
        let ending = RunEnd { status, final_text, error, misfits, fork: fork.filter(|_| !is_paused), at };
        self.keep_end(ending).await?;
        let is_kept = self.back_to_disk().await;
        // One that is only paused goes on, but nobody can go on with what is not kept.
        if let Some(ended) = told.filter(|_| !is_paused || !is_kept) {
            ended.log(&self.id);
            self.tell(EventKind::ForkEnded(Box::new(ended)));
        }
        Ok(())
    }

    async fn keep_end(&self, ending: RunEnd) -> Result<(), RunError> {
        let status = ending.status;
        if self.is_job && status != RunStatus::Paused {
            let news = jobs::news(&self.id, &self.agent, &ending);
            crash::point("job.end.before");
            self.kernel.store.finish_job_and_notify_parent(&self.id, ending, news.into_bytes()).await?;
            crash::point("job.end.after");
        } else {
            crash::point("run.end.before");
            self.kernel.store.end_run(&self.id, ending).await?;
            crash::point("run.end.after");
        }
        Ok(())
    }

    /// A fork that has gone on in memory is written down where that is possible now. Where it is not, its transcript is
    /// lost, and nothing else. Whether it is on the disk.
    async fn back_to_disk(&self) -> bool {
        let store = &self.kernel.store;
        let Some(why) = store.in_memory() else { return true };
        let Err(error) = store.back_to_disk().await else { return true };
        let (error, why) = (chain(&error), chain(&why));
        tracing::warn!(run = %self.id, error, why, "the transcript of a fork was not kept");
        self.tell(EventKind::TranscriptLost { error });
        false
    }

    /// The loop could not go on by itself: that is written down where it still can be, and told in any case.
    pub(crate) async fn broke_off(&self, error: &RunError) -> RunOutcome {
        let status = match error {
            RunError::NoSummary | RunError::Encode(_) | RunError::TaskPanicked => RunStatus::Failed,
            _ => RunStatus::Interrupted, // as it is called when its process is gone
        };
        // Only a root can be taken up again by itself, and with it what it has started.
        self.tree.ask_below(&self.id, if self.is_root { StopRequest::Pause } else { StopRequest::Cancel });
        self.tree.alone(&self.id).await;
        let words = chain(error);
        let final_text = self.read().ok().and_then(|talk| talk.spoken.last().map(str::to_owned));
        // A journal that fails has failed already.
        let _ = self.write_end(status, final_text.clone(), Some(words.clone()), false).await;
        self.end_processes().await;
        self.tell_end(status, final_text.clone(), Some(words.clone()), self.totals().unwrap_or_default());
        RunOutcome { run: self.id.clone(), status, final_text, error: Some(words), failure: None }
    }

    /// Its task broke; that is a bug of ours, and no reason to lose it.
    pub(crate) async fn broke(&self) -> RunOutcome {
        self.broke_off(&RunError::TaskPanicked).await
    }

    /// Ends what runs in the background with the tree that it belongs to, while the user can still be told what it made.
    async fn end_processes(&self) {
        if self.is_root {
            self.tree.processes.end_all().await;
            self.tell_made();
        }
    }

    /// Tells the user what commands in the background made that is protected, and returns it for the model.
    pub(crate) fn tell_made(&self) -> Vec<String> {
        let unsaid = self.tree.processes.take_notices();
        for made in &unsaid {
            self.tell(EventKind::Disarmed { text: made.clone() });
        }
        unsaid
    }

    fn tell_end(
        &self,
        status: RunStatus,
        final_text: Option<String>,
        error: Option<String>,
        totals: UsageTotals,
    ) {
        let cost_microusd = (totals.unpriced == 0).then_some(totals.cost_microusd);
        self.tell(EventKind::Finished { status, final_text, error, usage: totals.usage, cost_microusd });
    }

    /// What it had used and how long it had worked before it was taken up again: as long as a question or a call of it was
    /// open.
    pub(crate) fn prior(&self) -> Result<PriorUsage, RunError> {
        let mut prior = PriorUsage { usage: Usage::default(), cost_microusd: Some(0), ms: 0 };
        let reads = self.kernel.store.run(&self.id);
        let mut open: Vec<(i64, i64)> = Vec::new();
        for call in reads.model_calls()? {
            prior.usage += call.usage;
            if call.status == store::ModelCallStatus::Answered {
                prior.cost_microusd =
                    prior.cost_microusd.zip(call.cost_microusd).map(|(all, more)| all + more);
            }
            open.extend(call.ended_at.map(|end| (call.asked_at.0, end.0)));
        }
        let calls = reads.tool_calls()?;
        open.extend(calls.iter().filter_map(|call| Some((call.started_at?.0, call.ended_at?.0))));
        open.sort_unstable();
        let mut until = i64::MIN;
        for (start, end) in open {
            prior.ms += u64::try_from(end - start.max(until)).unwrap_or_default();
            until = until.max(end);
        }
        Ok(prior)
    }

    /// What it used, and all below it.
    fn totals(&self) -> Result<UsageTotals, RunError> {
        Ok(self.kernel.store.run(&self.id).totals()?)
    }

    /// Whether it works for that run, or for one that does.
    pub(crate) fn is_below(&self, other: &RunId) -> Result<bool, StoreError> {
        let mut above = self.parent.clone();
        while let Some(run) = above {
            if run == *other {
                return Ok(true);
            }
            above = self.kernel.store.run(&run).row()?.parent;
        }
        Ok(false)
    }

    /// Keeps the calls of its last reply as they stand now, for the forks that some of them may start.
    pub(crate) fn save_calls(&self, calls: &[StoredToolCall]) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = calls.to_vec();
    }

    /// The calls as they were kept.
    pub(crate) fn open_calls(&self) -> Vec<StoredToolCall> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it owes its parent a result.
    pub(crate) fn is_job(&self) -> bool {
        self.is_job
    }

    /// Whether it is at the top of its tree.
    pub(crate) fn is_root(&self) -> bool {
        self.is_root
    }

    /// As whoever is asked something knows it.
    pub(crate) fn name(&self) -> String {
        match (self.is_root, self.kind) {
            (true, _) => self.agent.clone(),
            (false, RunKind::Fork) => format!("{} (fork {})", self.agent, self.id),
            (false, _) => format!("{} (sub-agent {})", self.agent, self.id),
        }
    }

    /// Asks whoever sits at the root, when nobody else of the tree is asking.
    pub(crate) async fn ask(&self, question: &Question) -> Answer {
        let _turn = self.tree.asking.lock().await;
        self.kernel.asker.ask(question).await
    }

    /// Whether anybody was told that its loop runs.
    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    pub(crate) fn tell(&self, kind: EventKind) {
        self.started.store(true, Ordering::Relaxed);
        self.kernel.events.emit(&RunEvent {
            run: self.id.clone(),
            parent: self.parent.clone(),
            chain: Arc::clone(&self.chain),
            parent_chain: self.parent_chain.clone(),
            depth: self.depth,
            is_root: self.is_root,
            kind,
        });
    }

    /// What a reply cost, where the price is known and the provider said what it used.
    pub(crate) fn cost(&self, reply: &Reply) -> Option<i64> {
        let price = model::price(&self.model).filter(|_| reply.usage.is_reported())?;
        Some(microusd(price.cost(&reply.usage)))
    }

    /// How long its last request was.
    pub(crate) fn last_request(&self) -> usize {
        self.last_request.load(Ordering::Relaxed)
    }

    /// It sends a request of that length.
    pub(crate) fn requests(&self, length: usize) {
        self.last_request.store(length, Ordering::Relaxed);
    }

    pub(crate) fn log_attempt(&self, step: u32, number: u32, attempt: &HttpAttempt) {
        let outcome = attempt.outcome.as_ref().map_or_else(|failure| failure.kind.word(), |_| "answered");
        let ms = attempt.ended.duration_since(attempt.started).unwrap_or_default().as_millis();
        let (run, model, status) = (&self.id, &self.model, attempt.status);
        tracing::info!(%run, step, attempt = number, %model, status, ms, outcome, "model call");
    }

    pub(crate) fn log_call(&self, call: &StoredToolCall, status: CallStatus, ms: u64) {
        // Name and id are the model's own words: quoted, so that they stay words.
        let (tool, call) = (call.name.as_str(), call.call.as_str());
        tracing::info!(run = %self.id, ?tool, ?call, ms, outcome = %status, "tool call");
    }
}

/// Where a run stands that got no answer: a provider that may be back is told from one that refuses.
fn given_up(failure: &ProviderFailure) -> RunStatus {
    if failure.retry == RetryAdvice::No { RunStatus::Failed } else { RunStatus::Stalled }
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

/// What is said to an agent from outside, so that its steps count from there.
pub(crate) fn starts_anew(origin: Origin) -> bool {
    matches!(origin, Origin::Prompt | Origin::Inbox)
}
