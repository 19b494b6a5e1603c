//! One run in this process: its row, what it may do, and its handles to the rest of the tree.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use session::{Reply, RunId, model};
use store::{CallStatus, InboxEntry, InboxKind, Limit, RunKind, RunStatus, StoreError, StoredToolCall};
use tokio::sync::OwnedSemaphorePermit;

use crate::error::RunError;
use crate::event::{EventKind, RunEvent};
use crate::future::BoxFuture;
use crate::ids;
use crate::kernel::Kernel;
use crate::outcome::RunOutcome;
use crate::permission::{PermissionRules, RuleList};
use crate::provider::HttpAttempt;
use crate::settings::RunSettings;
use crate::stop::{StopHandle, StopRequest, StopSignal};
use crate::tasks;
use crate::tool::Toolbox;
use crate::tree::{Member, Tree};

/// Limits of the inbox entries that one turn delivers. The next turn delivers more. A thousand jobs that end while their
/// parent is busy would fill its context at once.
const MAX_DELIVERED: u32 = 1000;
const MAX_DELIVERED_BYTES: usize = 64 << 10;

/// Runs the loop of a run below the root to its end. Children inherit it from their parent.
pub(crate) type RunBody = fn(Arc<Run>) -> BoxFuture<'static, RunOutcome>;

/// One run in this process.
pub(crate) struct Run {
    /// Its row, as it was when the run began to work here. The settings are in the next field, read.
    pub(crate) row: store::Run,
    pub(crate) settings: RunSettings,
    pub(crate) bounds: Bounds,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) tree: Arc<Tree>,
    /// The run above, if that is at work in this process, too.
    pub(crate) parent: Option<Arc<Run>>,
    pub(crate) stop_handle: StopHandle,
    pub(crate) stop: StopSignal,
    /// The time at which it began to work here.
    pub(crate) started: Instant,
    /// True if its parent gets its result later.
    is_job: bool,
    chain: Arc<str>,
    parent_chain: Option<Arc<str>>,
    body: RunBody,
    progress: Progress,
}

/// The limits of a run: what it may call, do and spend.
pub(crate) struct Bounds {
    pub(crate) tools: Arc<Toolbox>,
    /// The rules of its agent and of all agents above it.
    pub(crate) rules: Vec<Arc<PermissionRules>>,
    /// Exceptions for a fork, beside those of the kernel's rules.
    pub(crate) allowed: Option<PermissionRules>,
    /// Its budget and the budgets of all runs above it.
    pub(crate) budgets: Vec<Limit>,
}

/// The part of a run that changes while it works.
#[derive(Default)]
struct Progress {
    /// The calls of the last reply, as they were when the newest of them were started.
    open_calls: Mutex<Vec<StoredToolCall>>,
    /// Its slot among the runs at work.
    slot: Mutex<Option<OwnedSemaphorePermit>>,
    /// Number of runs it has started, once that was counted.
    children: Mutex<Option<u64>>,
    has_events: AtomicBool,
    last_request_len: AtomicUsize,
}

impl Bounds {
    fn of(kernel: &Kernel, row: &store::Run, settings: &RunSettings) -> Self {
        let allow = settings.fork.as_ref().map(|fork| fork.allow.as_slice()).unwrap_or_default();
        let allow: Vec<_> = allow.iter().map(|rule| (RuleList::Allow, rule.clone())).collect();
        let (microusd, tokens) = (settings.max_budget_microusd, settings.max_budget_tokens);
        let budget =
            (microusd.is_some() || tokens.is_some()).then(|| Limit { run: row.id.clone(), microusd, tokens });
        Self {
            tools: Arc::new(kernel.tools.only(settings.tools.as_deref())),
            rules: vec![Arc::new(PermissionRules::stored(&settings.rules))],
            allowed: (!allow.is_empty()).then(|| PermissionRules::stored(&allow)),
            budgets: budget.into_iter().collect(),
        }
    }

    /// Adds the rules and budgets of the run above.
    fn within(self, above: &Self) -> Self {
        Self {
            rules: above.rules.iter().cloned().chain(self.rules).collect(),
            budgets: above.budgets.iter().cloned().chain(self.budgets).collect(),
            ..self
        }
    }
}

impl Run {
    /// Creates the run at the top of a tree.
    pub(crate) fn root(
        kernel: Arc<Kernel>,
        row: store::Run,
        settings: RunSettings,
        stop_handle: &StopHandle,
        body: RunBody,
    ) -> Self {
        let tree = Tree::new(&kernel, &row.root);
        let above = row.parent.as_ref().and_then(|parent| kernel.store.run(parent).row().ok());
        let stop = (stop_handle.clone(), stop_handle.signal());
        let own = Self::new(kernel, tree, row, settings, stop, body);
        Self { parent_chain: above.map(|above| above.chain.into()), ..own }
    }

    /// Creates a run below another one. It stops with that one, and all bounds of that one hold for it.
    pub(crate) fn below(
        parent: &Arc<Self>,
        kernel: Arc<Kernel>,
        row: store::Run,
        settings: RunSettings,
        is_job: bool,
    ) -> Self {
        let stop_handle = StopHandle::new();
        let stop = stop_handle.signal_below(&parent.stop);
        // One provider answers all runs of a tree.
        let row = store::Run { provider: parent.row.provider.clone(), ..row };
        let tree = Arc::clone(&parent.tree);
        let own = Self::new(kernel, tree, row, settings, (stop_handle, stop), parent.body);
        Self {
            bounds: own.bounds.within(&parent.bounds),
            parent_chain: Some(Arc::clone(&parent.chain)),
            parent: Some(Arc::clone(parent)),
            is_job,
            ..own
        }
    }

    fn new(
        kernel: Arc<Kernel>,
        tree: Arc<Tree>,
        row: store::Run,
        settings: RunSettings,
        (stop_handle, stop): (StopHandle, StopSignal),
        body: RunBody,
    ) -> Self {
        Self {
            bounds: Bounds::of(&kernel, &row, &settings),
            chain: row.chain.as_str().into(),
            row: store::Run { settings: Vec::new(), ..row },
            settings,
            kernel,
            tree,
            parent: None,
            stop_handle,
            stop,
            started: Instant::now(),
            is_job: false,
            parent_chain: None,
            body,
            progress: Progress::default(),
        }
    }

    /// Starts the run in a task of its own. A run that is at work already continues as it is.
    pub(crate) fn launch(self) -> Member {
        let parent = self.row.parent.clone().unwrap_or_else(|| self.id().clone());
        let (member, end) = match self.tree.add(self.id(), &parent, &self.stop_handle) {
            Ok(added) => added,
            Err(member) => return member,
        };
        let run = Arc::new(self);
        tokio::spawn(async move {
            let outcome = (run.body)(Arc::clone(&run)).await;
            run.tree.remove(run.id(), &end, outcome);
        });
        member
    }

    /// Returns its id.
    pub(crate) fn id(&self) -> &RunId {
        &self.row.id
    }

    /// Returns whether it is at the top of its tree.
    pub(crate) fn is_root(&self) -> bool {
        self.row.root == self.row.id
    }

    /// Returns whether its parent gets its result later.
    pub(crate) fn is_job(&self) -> bool {
        self.is_job
    }

    /// Returns whether an earlier loop of it exists.
    pub(crate) fn is_resumed(&self) -> bool {
        self.row.started_at != self.row.created_at
    }

    /// Returns its name in questions to the user.
    pub(crate) fn display_name(&self) -> String {
        match (self.is_root(), self.row.kind) {
            (true, _) => self.row.agent.clone(),
            (false, RunKind::Fork) => format!("{} (fork {})", self.row.agent, self.id()),
            (false, _) => format!("{} (sub-agent {})", self.row.agent, self.id()),
        }
    }

    /// Returns what it was asked, in a few words: the subject of its task, or the beginning of its prompt. A run at the top
    /// of a tree has the user's prompt and needs none.
    pub(crate) fn subject(&self) -> Option<String> {
        if self.is_root() {
            return None;
        }
        let store = &self.kernel.store;
        let tasks = self.row.task.as_ref().and_then(|_| store.on_disk().main().tasks(&self.row.thread).ok());
        let task =
            tasks.and_then(|tasks| tasks.into_iter().find(|task| Some(&task.id) == self.row.task.as_ref()));
        let prompt = || store.run(self.id()).first_prompt().ok().flatten();
        let asked = task.map(|task| task.subject).or_else(prompt)?;
        Some(tasks::short(&asked))
    }

    /// Returns whether it may start other runs.
    pub(crate) fn may_spawn(&self) -> bool {
        self.row.depth < self.kernel.tree_limits.max_depth
    }

    /// Returns the terminal status if a stop was requested.
    pub(crate) fn stop_status(&self) -> Result<Option<RunStatus>, RunError> {
        Ok(match (self.stop.requested(), self.is_root()) {
            (StopRequest::None, _) => None,
            (StopRequest::Pause, _) => Some(RunStatus::Paused),
            (StopRequest::Cancel, _) => Some(self.cancel_status()?),
        })
    }

    /// Returns the status of a cancelled run. It depends on who made the request, to this run or to one above it.
    pub(crate) fn cancel_status(&self) -> Result<RunStatus, RunError> {
        let mut run = self;
        loop {
            // The request may be in the journal before it has reached the runs above.
            if let Some(status) = run.kernel.store.run(run.id()).cancel_status()? {
                return Ok(status);
            }
            match &run.parent {
                Some(parent) => run = parent,
                None if run.stop.requested() == StopRequest::Cancel => return Ok(RunStatus::CancelledByUser),
                None => return Ok(RunStatus::CancelledByParent),
            }
        }
    }

    /// Takes a slot if one is free. Returns whether the run has to wait for one. The main agent never waits.
    pub(crate) fn must_wait_for_slot(&self) -> bool {
        let free = if self.is_root() { None } else { self.tree.free_slot() };
        let mut own = self.progress.slot.lock().expect("lock is not poisoned");
        *own = free;
        !self.is_root() && own.is_none()
    }

    /// Waits for a slot, or until a stop is requested.
    pub(crate) async fn acquire_slot(&self) {
        let has_one = self.progress.slot.lock().expect("lock is not poisoned").is_some();
        if !self.is_root() && !has_one {
            let slot = tokio::select! {
                slot = self.tree.slot() => slot,
                () = self.stop.wait_for(StopRequest::Pause) => None,
            };
            *self.progress.slot.lock().expect("lock is not poisoned") = slot;
        }
    }

    /// Gives its slot to another run.
    pub(crate) fn release_slot(&self) {
        self.progress.slot.lock().expect("lock is not poisoned").take();
    }

    /// Returns the inbox entries for the next turn.
    pub(crate) fn inbox(&self) -> Result<Vec<InboxEntry>, RunError> {
        let reads = self.kernel.store.run(self.id());
        if !reads.has_waiting_input()? {
            return Ok(Vec::new());
        }
        let mut entries = reads.first_in_inbox(MAX_DELIVERED)?;
        entries.retain(|entry| entry.kind != InboxKind::Cancel);
        // Jobs end in any order. The order in which they were started is the same in every run.
        entries.sort_by_key(|entry| entry.job.as_ref().map(|job| ids::call_position(self.id(), job)));
        let mut bytes = 0;
        let fits = entries.iter().take_while(|entry| {
            bytes += entry.body.len();
            bytes <= MAX_DELIVERED_BYTES
        });
        let fits = fits.count().max(1);
        entries.truncate(fits);
        Ok(entries)
    }

    /// Counts one more child. Returns the number of children as an error if there may be no more.
    pub(crate) fn reserve_child(&self) -> Result<Result<(), u64>, StoreError> {
        let mut children = self.progress.children.lock().expect("lock is not poisoned");
        let count = match *children {
            Some(count) => count,
            None => self.kernel.store.run(self.id()).child_count()?,
        };
        let may = count < self.kernel.tree_limits.max_children;
        *children = Some(count + u64::from(may));
        Ok(if may { Ok(()) } else { Err(count) })
    }

    /// Reverts [`reserve_child`](Self::reserve_child): the child was not started.
    pub(crate) fn release_child(&self) {
        let mut children = self.progress.children.lock().expect("lock is not poisoned");
        *children = children.map(|count| count.saturating_sub(1));
    }

    /// Keeps the calls of its last reply as they are now, for the forks that some of them may start.
    pub(crate) fn set_open_calls(&self, calls: &[StoredToolCall]) {
        *self.progress.open_calls.lock().expect("lock is not poisoned") = calls.to_vec();
    }

    /// Returns the calls that were kept.
    pub(crate) fn open_calls(&self) -> Vec<StoredToolCall> {
        self.progress.open_calls.lock().expect("lock is not poisoned").clone()
    }

    /// Returns whether it, or a run above it, works in the background.
    pub(crate) fn is_in_background(&self) -> bool {
        self.is_job || self.parent.as_ref().is_some_and(|parent| parent.is_in_background())
    }

    /// Returns whether it has emitted an event.
    pub(crate) fn has_events(&self) -> bool {
        self.progress.has_events.load(Ordering::Relaxed)
    }

    /// Emits an event of this run.
    pub(crate) fn emit(&self, kind: EventKind) {
        self.progress.has_events.store(true, Ordering::Relaxed);
        self.kernel.events.emit(&RunEvent {
            run: self.id().clone(),
            parent: self.row.parent.clone(),
            chain: Arc::clone(&self.chain),
            parent_chain: self.parent_chain.clone(),
            depth: self.row.depth,
            is_root: self.is_root(),
            kind,
        });
    }

    /// Emits what background commands created in protected places, and returns it for the model.
    pub(crate) fn emit_disarmed(&self) -> Vec<String> {
        let disarmed = self.tree.processes.take_notices();
        for text in &disarmed {
            self.emit(EventKind::Disarmed { text: text.clone() });
        }
        disarmed
    }

    /// Returns the cost of a reply, if the price is known and the provider reported the usage.
    pub(crate) fn cost(&self, reply: &Reply) -> Option<i64> {
        let price = model::price(&self.row.model).filter(|_| reply.usage.is_reported())?;
        Some(microusd(price.cost(&reply.usage)))
    }

    /// Returns the length of its last request.
    pub(crate) fn last_request_len(&self) -> usize {
        self.progress.last_request_len.load(Ordering::Relaxed)
    }

    /// Records the length of a request.
    pub(crate) fn set_last_request_len(&self, length: usize) {
        self.progress.last_request_len.store(length, Ordering::Relaxed);
    }

    pub(crate) fn log_attempt(&self, step: u32, number: u32, attempt: &HttpAttempt) {
        let outcome = attempt.outcome.as_ref().map_or_else(|failure| failure.kind.word(), |_| "answered");
        let ms = attempt.ended.duration_since(attempt.started).unwrap_or_default().as_millis();
        let (run, model, status) = (self.id(), &self.row.model, attempt.status);
        tracing::info!(%run, step, attempt = number, %model, status, ms, outcome, "model call");
    }

    pub(crate) fn log_call(&self, call: &StoredToolCall, status: CallStatus, ms: u64) {
        // The model chose name and id: they are quoted, so that they cannot forge fields.
        let (tool, call) = (call.name.as_str(), call.call.as_str());
        tracing::info!(run = %self.id(), ?tool, ?call, ms, outcome = %status, "tool call");
    }
}

/// Converts dollars. A provider may report any number of tokens, so a call costs at most a million dollars.
pub(crate) fn microusd(usd: f64) -> i64 {
    (usd * 1e6).round().clamp(0.0, 1e12) as i64
}
