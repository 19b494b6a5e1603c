//! Executes an [`OrderPlan`]: allows parts of replies to be sent, and waits for requests and for the harness.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::idle::wait_until_idle;
use super::plan::{OrderPlan, Step};
use super::report::ReplayWait;
use super::traffic::{ExchangeIndex, RecordedTraffic};

/// Maximum wait for a harness that is never idle.
const MAX_BUSY: Duration = Duration::from_secs(5);
/// Maximum time for a harness to read a part of a reply.
const MAX_UNREAD: Duration = Duration::from_secs(10);
/// A harness that becomes idle within this time was idle already.
const WAS_IDLE: Duration = Duration::from_millis(100);
/// Additional time for a busy harness to send a request.
const MAX_EXTENSION: Duration = Duration::from_secs(30);
/// Shorter waits are not reported.
const MIN_REPORTED: Duration = Duration::from_millis(100);

/// Says when each part of a reply may be sent.
#[derive(Debug)]
pub(super) struct ReplyScheduler {
    state: Mutex<SchedulerState>,
    changed: watch::Sender<()>,
    pid: watch::Receiver<Option<u32>>,
    settle: Option<Duration>,
}

#[derive(Debug, Default)]
struct SchedulerState {
    /// Exchanges in the plan. All others are sent at once.
    planned: HashSet<ExchangeIndex>,
    arrived: HashSet<ExchangeIndex>,
    /// Number of parts that may be sent.
    allowed: HashMap<ExchangeIndex, usize>,
    /// Number of parts that were sent.
    sent: HashMap<ExchangeIndex, usize>,
    /// Times at which the replies were complete.
    ended: HashMap<ExchangeIndex, Instant>,
    /// Exchanges whose client is gone.
    abandoned: HashSet<ExchangeIndex>,
    /// Exchanges whose request did not come in time.
    skipped: HashSet<ExchangeIndex>,
    is_finished: bool,
    waits: Vec<ReplayWait>,
}

impl SchedulerState {
    fn is_unplanned(&self, exchange: ExchangeIndex) -> bool {
        self.is_finished || !self.planned.contains(&exchange) || self.skipped.contains(&exchange)
    }

    fn allowed_parts(&self, exchange: ExchangeIndex) -> usize {
        match self.is_unplanned(exchange) {
            true => usize::MAX,
            false => self.allowed.get(&exchange).copied().unwrap_or_default(),
        }
    }
}

impl ReplyScheduler {
    /// Starts to execute a plan.
    pub(super) fn start(
        traffic: &Arc<RecordedTraffic>,
        plan: OrderPlan,
        pid: watch::Receiver<Option<u32>>,
        settle: Option<Duration>,
    ) -> (Arc<Self>, tokio::task::JoinHandle<()>) {
        let planned = plan.steps.iter().filter_map(|step| match step {
            Step::AwaitRequest(exchange, _) => Some(*exchange),
            _ => None,
        });
        let state = SchedulerState {
            planned: planned.collect(),
            is_finished: plan.steps.is_empty(),
            ..SchedulerState::default()
        };
        let scheduler =
            Arc::new(Self { state: Mutex::new(state), changed: watch::Sender::new(()), pid, settle });
        let running = scheduler.clone();
        let traffic = traffic.clone();
        let task = tokio::spawn(async move { running.execute(&traffic, &plan.steps).await });
        (scheduler, task)
    }

    fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().expect("lock is not poisoned")
    }

    fn change(&self, change: impl FnOnce(&mut SchedulerState)) {
        change(&mut self.lock());
        self.changed.send_replace(());
    }

    /// Notes that the request of this exchange came.
    pub(super) fn mark_arrived(&self, exchange: ExchangeIndex) {
        self.change(|state| {
            state.arrived.insert(exchange);
        });
    }

    /// Waits until a part may be sent.
    pub(super) async fn wait_for_turn(&self, exchange: ExchangeIndex, part: usize) {
        self.wait_until(|state| state.allowed_parts(exchange) > part).await;
    }

    /// Returns whether a part may be sent now.
    pub(super) fn may_send(&self, exchange: ExchangeIndex, part: usize) -> bool {
        self.lock().allowed_parts(exchange) > part
    }

    /// Notes that this number of parts was sent.
    pub(super) fn mark_sent(&self, exchange: ExchangeIndex, parts: usize, is_complete: bool) {
        self.change(|state| {
            state.sent.insert(exchange, parts);
            if is_complete {
                state.ended.insert(exchange, Instant::now());
            }
        });
    }

    /// Notes that nothing more can be sent, because the client is gone.
    pub(super) fn mark_abandoned(&self, exchange: ExchangeIndex) {
        self.change(|state| {
            state.abandoned.insert(exchange);
        });
    }

    /// Returns the long waits so far.
    pub(super) fn waits(&self) -> Vec<ReplayWait> {
        self.lock().waits.clone()
    }

    async fn wait_until(&self, condition: impl Fn(&SchedulerState) -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition(&self.lock()) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    async fn execute(&self, traffic: &RecordedTraffic, steps: &[Step]) {
        if let Some(Step::AwaitRequest(..)) = steps.first() {
            // The clock starts with the first request, whichever it is.
            self.wait_until(|state| !state.arrived.is_empty()).await;
        }
        for step in steps {
            self.execute_step(traffic, step).await;
        }
        self.change(|state| state.is_finished = true);
    }

    async fn execute_step(&self, traffic: &RecordedTraffic, step: &Step) {
        match step {
            Step::AwaitRequest(exchange, patience) => {
                self.await_request(traffic, *exchange, *patience).await;
            }
            Step::Send(exchange, parts) => self.allow_and_wait(traffic, *exchange, *parts).await,
            Step::Allow(exchange, parts) => self.allow(*exchange, *parts),
            Step::AwaitIdle(usual) => self.await_idle(*usual).await,
            Step::Pause(time) => sleep(self.settle.unwrap_or(*time)).await,
            Step::PauseSince(exchange, time) => {
                let ended = self.lock().ended.get(exchange).copied();
                if let Some(ended) = ended {
                    sleep_until(ended + *time).await;
                }
            }
        }
    }

    fn allow(&self, exchange: ExchangeIndex, parts: usize) {
        self.change(|state| {
            state.allowed.insert(exchange, parts);
        });
    }

    async fn allow_and_wait(&self, traffic: &RecordedTraffic, exchange: ExchangeIndex, parts: usize) {
        if !self.lock().arrived.contains(&exchange) {
            return; // skipped
        }
        self.allow(exchange, parts);
        let is_sent = |state: &SchedulerState| {
            state.abandoned.contains(&exchange)
                || state.sent.get(&exchange).is_some_and(|sent| *sent >= parts)
        };
        if timeout(MAX_UNREAD, self.wait_until(is_sent)).await.is_err() {
            self.report_wait(format!("the client to read {}", name(traffic, exchange)), MAX_UNREAD, false);
        }
    }

    /// Waits for a request. Skips it when nothing has happened for `patience`.
    async fn await_request(&self, traffic: &RecordedTraffic, exchange: ExchangeIndex, patience: Duration) {
        let begun = Instant::now();
        let mut changed = self.changed.subscribe();
        let mut was_extended = false;
        loop {
            let is_hopeless = {
                let state = self.lock();
                if state.arrived.contains(&exchange) {
                    break;
                }
                // A lane whose earlier request was skipped will not continue.
                let lane = &traffic[exchange].lane;
                state.skipped.iter().any(|other| traffic[*other].lane == *lane)
            };
            let limit = if is_hopeless { Duration::ZERO } else { patience };
            let came = timeout(limit, changed.changed()).await.is_ok();
            if !came && !is_hopeless && !was_extended && self.await_busy_harness().await {
                was_extended = true;
                continue;
            }
            if !came {
                self.report_wait(name(traffic, exchange), begun.elapsed(), false);
                self.change(|state| {
                    state.skipped.insert(exchange);
                });
                return;
            }
        }
        if begun.elapsed() >= MIN_REPORTED {
            self.report_wait(name(traffic, exchange), begun.elapsed(), true);
        }
    }

    /// Gives a busy harness time to finish its work. Returns whether it was busy.
    async fn await_busy_harness(&self) -> bool {
        let pid = *self.pid.borrow();
        let Some(pid) = pid else { return false };
        let begun = Instant::now();
        wait_until_idle(pid, MAX_EXTENSION).await;
        begun.elapsed() >= WAS_IDLE
    }

    /// Waits until the harness is idle; for a fixed time if its process is unknown.
    async fn await_idle(&self, usual: Duration) {
        let pid = *self.pid.borrow();
        match (pid, self.settle) {
            (_, Some(settle)) => sleep(settle).await,
            (None, None) => sleep(usual.min(MAX_BUSY)).await,
            (Some(pid), None) => {
                let begun = Instant::now();
                if !wait_until_idle(pid, MAX_BUSY).await {
                    self.report_wait("an idle harness".to_owned(), begun.elapsed(), false);
                }
            }
        }
    }

    fn report_wait(&self, awaited: String, time: Duration, is_met: bool) {
        self.lock().waits.push(ReplayWait { awaited, ms: time.as_millis() as u64, is_met });
    }
}

fn name(traffic: &RecordedTraffic, exchange: ExchangeIndex) -> String {
    let exchange = &traffic[exchange];
    format!("turn {} of lane `{}` ({})", exchange.turn, exchange.lane, exchange.id)
}
