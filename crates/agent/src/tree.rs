//! The runs of one tree that are at work in this process, and what they share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session::RunId;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, watch};

use crate::kernel::{Kernel, RunOutcome};
use crate::run::Run;
use crate::shell::Processes;
use crate::stop::{StopHandle, StopRequest};
use crate::tree_limits::TreeLimits;

/// One tree. It knows who is at work, so that nobody is started twice and everybody can be told.
pub(crate) struct Tree {
    /// What it has running.
    pub(crate) processes: Arc<Processes>,
    /// One question at a time: there is one terminal.
    pub(crate) asking: tokio::sync::Mutex<()>,
    at_once: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    members: Mutex<Members>,
    /// Counts whenever somebody has ended.
    ended: watch::Sender<u64>,
    /// Counts whenever a question has its answer, and what was set aside for it is free.
    settled: watch::Sender<u64>,
    /// Those who wait for what others have set aside, by the run whose limit it is.
    lines: Mutex<HashMap<RunId, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct Members {
    at_work: HashMap<RunId, Member>,
    /// How many are at work right below a run.
    below: HashMap<RunId, usize>,
}

/// A run below the root that is at work.
#[derive(Clone)]
pub(crate) struct Member {
    parent: RunId,
    stop_handle: StopHandle,
    ended: watch::Receiver<Option<RunOutcome>>,
}

impl Member {
    /// Waits until it has ended; `None` where its task is gone without a word.
    pub(crate) async fn end(mut self) -> Option<RunOutcome> {
        self.ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone())
    }
}

impl Tree {
    pub(crate) fn new(kernel: &Kernel, root: &RunId) -> Arc<Self> {
        let TreeLimits { max_running, max_requests, .. } = kernel.tree_limits;
        Arc::new(Self {
            processes: Arc::new(Processes::new(kernel.shell.clone(), root, &kernel.store)),
            asking: tokio::sync::Mutex::default(),
            at_once: Arc::new(Semaphore::new(max_running.max(1))),
            requests: Arc::new(Semaphore::new(max_requests.max(1))),
            members: Mutex::default(),
            ended: watch::Sender::new(0),
            settled: watch::Sender::new(0),
            lines: Mutex::default(),
        })
    }

    /// Lets a run work in a task of its own; one that is at work already goes on as it is.
    pub(crate) fn launch(&self, run: Run) -> Member {
        let mut members = self.members();
        if let Some(member) = members.at_work.get(&run.id) {
            return member.clone();
        }
        let (tell, ended) = watch::channel(None);
        let parent = run.parent.clone().unwrap_or_else(|| run.id.clone());
        let member = Member { parent: parent.clone(), stop_handle: run.stop_handle.clone(), ended };
        members.at_work.insert(run.id.clone(), member.clone());
        *members.below.entry(parent).or_default() += 1;
        drop(members);
        let run = Arc::new(run);
        tokio::spawn(async move {
            let ended = match tokio::spawn(Arc::clone(&run).work()).await {
                Ok(ended) => ended,
                Err(_) => run.broke().await,
            };
            tell.send_replace(Some(ended));
            run.tree.left(&run.id);
        });
        member
    }

    fn left(&self, run: &RunId) {
        let mut members = self.members();
        if let Some(member) = members.at_work.remove(run)
            && let Some(count) = members.below.get_mut(&member.parent)
        {
            *count -= 1;
            if *count == 0 {
                members.below.remove(&member.parent);
            }
        }
        drop(members);
        self.settled(); // what it had set aside is free
        self.ended.send_modify(|count| *count += 1);
    }

    /// A run that is at work.
    pub(crate) fn member(&self, run: &RunId) -> Option<Member> {
        self.members().at_work.get(run).cloned()
    }

    /// How many are at work right below a run.
    pub(crate) fn below(&self, run: &RunId) -> usize {
        self.members().below.get(run).copied().unwrap_or_default()
    }

    /// Asks a run to stop.
    pub(crate) fn ask(&self, run: &RunId, wish: StopRequest) {
        if let Some(member) = self.member(run) {
            member.stop_handle.request(wish);
        }
    }

    /// Asks all right below a run to stop.
    pub(crate) fn ask_below(&self, run: &RunId, wish: StopRequest) {
        for member in self.members().at_work.values().filter(|member| member.parent == *run) {
            member.stop_handle.request(wish);
        }
    }

    /// Sees who ends from now on.
    pub(crate) fn ends(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// Waits until nobody is at work right below a run.
    pub(crate) async fn alone(&self, run: &RunId) {
        let mut ends = self.ends();
        while self.below(run) > 0 {
            if ends.changed().await.is_err() {
                return;
            }
        }
    }

    /// A question has its answer.
    pub(crate) fn settled(&self) {
        self.settled.send_modify(|count| *count += 1);
    }

    /// Sees which questions are answered from now on.
    pub(crate) fn settling(&self) -> watch::Receiver<u64> {
        self.settled.subscribe()
    }

    /// Waits to be the first of those who wait for a limit of that run. Only the first looks again when something is
    /// settled: if all did, a thousand would ask a million times.
    pub(crate) async fn line(&self, of: &RunId) -> OwnedMutexGuard<()> {
        let line = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(lines.entry(of.clone()).or_default())
        };
        line.lock_owned().await
    }

    /// A place among those at work, where one is free.
    pub(crate) fn free_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.at_once).try_acquire_owned().ok()
    }

    /// Waits for a place among those at work.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.at_once).acquire_owned().await.ok()
    }

    /// Waits until the provider may be asked.
    pub(crate) async fn request(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.requests).acquire_owned().await.ok()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
