//! The runs of one run tree that are at work in this process, and the resources they share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use session::RunId;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, watch};

use crate::kernel::Kernel;
use crate::outcome::RunOutcome;
use crate::permission::PermissionRules;
use crate::shell::Processes;
use crate::stop::{StopHandle, StopRequest};
use crate::tree_limits::TreeLimits;

/// A run tree in this process. It starts no run twice, and forwards stop requests.
pub(crate) struct Tree {
    /// The running commands.
    pub(crate) processes: Arc<Processes>,
    /// Held while the user is asked: one question at a time.
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// The calls that the user has allowed for good during this run.
    always: Mutex<PermissionRules>,
    run_slots: Arc<Semaphore>,
    request_slots: Arc<Semaphore>,
    members: Mutex<Members>,
    /// Counts the ends of members.
    ended: watch::Sender<u64>,
    /// Counts released reservations.
    released: watch::Sender<u64>,
    /// Queues for the reservations of others, by the run whose limit it is.
    budget_queues: Mutex<HashMap<RunId, Arc<tokio::sync::Mutex<()>>>>,
    /// The models whose provider has rejected thinking and effort.
    without_settings: Mutex<HashSet<String>>,
}

#[derive(Default)]
struct Members {
    at_work: HashMap<RunId, Member>,
    /// Number of members directly below a run.
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
    /// Waits for its end. Returns `None` if its task vanished.
    pub(crate) async fn end(mut self) -> Option<RunOutcome> {
        self.ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone())
    }
}

/// Reports the end of a member.
pub(crate) struct MemberEnd(watch::Sender<Option<RunOutcome>>);

impl Tree {
    pub(crate) fn new(kernel: &Kernel, root: &RunId) -> Arc<Self> {
        let TreeLimits { max_running, max_requests, .. } = kernel.tree_limits;
        Arc::new(Self {
            processes: Arc::new(Processes::new(kernel.shell.clone(), root, &kernel.store)),
            asking: tokio::sync::Mutex::default(),
            always: Mutex::default(),
            run_slots: Arc::new(Semaphore::new(max_running.max(1))),
            request_slots: Arc::new(Semaphore::new(max_requests.max(1))),
            members: Mutex::default(),
            ended: watch::Sender::new(0),
            released: watch::Sender::new(0),
            budget_queues: Mutex::default(),
            without_settings: Mutex::default(),
        })
    }

    /// Returns what the user has allowed for good during this run.
    pub(crate) fn always(&self) -> PermissionRules {
        self.always.lock().expect("lock is not poisoned").clone()
    }

    /// Sets what the user has allowed for good. The caller holds `asking`.
    pub(crate) fn set_always(&self, rules: PermissionRules) {
        *self.always.lock().expect("lock is not poisoned") = rules;
    }

    /// Records that the provider has rejected thinking and effort for a model.
    pub(crate) fn set_without_settings(&self, model: &str) {
        self.without_settings.lock().expect("lock is not poisoned").insert(model.to_owned());
    }

    /// Returns whether the provider has rejected thinking and effort for a model.
    pub(crate) fn is_without_settings(&self, model: &str) -> bool {
        self.without_settings.lock().expect("lock is not poisoned").contains(model)
    }

    /// Adds a run. Returns the existing member as an error if the run is at work already.
    pub(crate) fn add(
        &self,
        run: &RunId,
        parent: &RunId,
        stop_handle: &StopHandle,
    ) -> Result<(Member, MemberEnd), Member> {
        let mut members = self.members();
        if let Some(member) = members.at_work.get(run) {
            return Err(member.clone());
        }
        let (end, ended) = watch::channel(None);
        let member = Member { parent: parent.clone(), stop_handle: stop_handle.clone(), ended };
        members.at_work.insert(run.clone(), member.clone());
        *members.below.entry(parent.clone()).or_default() += 1;
        Ok((member, MemberEnd(end)))
    }

    /// Removes a run that has ended.
    pub(crate) fn remove(&self, run: &RunId, end: &MemberEnd, outcome: RunOutcome) {
        end.0.send_replace(Some(outcome));
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
        self.notify_released(); // its reservations are free
        self.ended.send_modify(|count| *count += 1);
    }

    /// Returns a run that is at work.
    pub(crate) fn member(&self, run: &RunId) -> Option<Member> {
        self.members().at_work.get(run).cloned()
    }

    /// Counts the runs at work directly below a run.
    pub(crate) fn count_below(&self, run: &RunId) -> usize {
        self.members().below.get(run).copied().unwrap_or_default()
    }

    /// Asks a run to stop.
    pub(crate) fn request(&self, run: &RunId, request: StopRequest) {
        if let Some(member) = self.member(run) {
            member.stop_handle.request(request);
        }
    }

    /// Asks all runs directly below a run to stop.
    pub(crate) fn request_below(&self, run: &RunId, request: StopRequest) {
        for member in self.members().at_work.values().filter(|member| member.parent == *run) {
            member.stop_handle.request(request);
        }
    }

    /// Returns a receiver of the ends from now on.
    pub(crate) fn ends(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// Waits until no run is at work directly below a run.
    pub(crate) async fn wait_until_alone(&self, run: &RunId) {
        let mut ends = self.ends();
        while self.count_below(run) > 0 {
            if ends.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until a run is not at work.
    pub(crate) async fn wait_until_gone(&self, run: &RunId) {
        let mut ends = self.ends();
        while self.member(run).is_some() {
            if ends.changed().await.is_err() {
                return;
            }
        }
    }

    /// Makes the runs that wait for others look at their inboxes.
    pub(crate) fn wake_waiting(&self) {
        self.ended.send_modify(|count| *count += 1);
    }

    /// Reports that a reservation was released.
    pub(crate) fn notify_released(&self) {
        self.released.send_modify(|count| *count += 1);
    }

    /// Returns a receiver of the reservations that are released from now on.
    pub(crate) fn releases(&self) -> watch::Receiver<u64> {
        self.released.subscribe()
    }

    /// Waits to be the first in the queue for a run's limit. Only the first looks again when a reservation is released:
    /// if all did, a thousand runs would look a million times.
    pub(crate) async fn budget_turn(&self, of: &RunId) -> OwnedMutexGuard<()> {
        let queue = {
            let mut queues = self.budget_queues.lock().expect("lock is not poisoned");
            Arc::clone(queues.entry(of.clone()).or_default())
        };
        queue.lock_owned().await
    }

    /// Returns a slot for a run, if one is free.
    pub(crate) fn free_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.run_slots).try_acquire_owned().ok()
    }

    /// Waits for a slot for a run.
    pub(crate) async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.run_slots).acquire_owned().await.ok()
    }

    /// Waits for a slot for a request to the provider.
    pub(crate) async fn request_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.request_slots).acquire_owned().await.ok()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().expect("lock is not poisoned")
    }
}
