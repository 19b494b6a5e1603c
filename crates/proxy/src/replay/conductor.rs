//! Keeps the order: says who may send how much, and waits where the order says so.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::idle;
use super::score::Step;
use super::tape::RecordedTraffic;

/// How long a harness that never rests is waited for.
const RESTLESS: Duration = Duration::from_secs(5);
/// How long a harness may take to read what it asked for.
const UNREAD: Duration = Duration::from_secs(10);
/// A harness that comes to rest sooner than this was at rest.
const AT_WORK: Duration = Duration::from_millis(100);
/// How long a harness that is at work is waited for beyond its time.
const BUSY: Duration = Duration::from_secs(30);
/// Waits shorter than this are not worth a line.
const SHORT: Duration = Duration::from_millis(100);

/// A wait that was longer than usual.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ReplayWait {
    /// For what.
    pub what: String,
    /// How long, in milliseconds.
    pub ms: u64,
    /// It came.
    pub came: bool,
}

/// The order and how far it has come.
#[derive(Debug)]
pub(super) struct Conductor {
    state: Mutex<State>,
    moved: watch::Sender<()>,
    pid: watch::Receiver<Option<u32>>,
    settle: Option<Duration>,
}

#[derive(Debug, Default)]
struct State {
    /// Takes that the order is about.
    ordered: HashSet<usize>,
    arrived: HashSet<usize>,
    allowed: HashMap<usize, usize>,
    sent: HashMap<usize, usize>,
    ended: HashMap<usize, Instant>,
    gone: HashSet<usize>,
    given_up: HashSet<usize>,
    finished: bool,
    waits: Vec<ReplayWait>,
}

impl Conductor {
    /// Begins with the first step; without any, everything goes out at once.
    pub(super) fn start(
        tape: &Arc<RecordedTraffic>,
        steps: Vec<Step>,
        pid: watch::Receiver<Option<u32>>,
        settle: Option<Duration>,
    ) -> (Arc<Self>, tokio::task::JoinHandle<()>) {
        let ordered = steps.iter().filter_map(|step| match step {
            Step::Arrive(take, _) => Some(*take),
            _ => None,
        });
        let state = State { ordered: ordered.collect(), finished: steps.is_empty(), ..State::default() };
        let conductor =
            Arc::new(Self { state: Mutex::new(state), moved: watch::Sender::new(()), pid, settle });
        let running = conductor.clone();
        let tape = tape.clone();
        let task = tokio::spawn(async move { running.conduct(&tape, &steps).await });
        (conductor, task)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.moved.send_replace(());
    }

    /// A request came; its place is known.
    pub(super) fn arrived(&self, take: usize) {
        self.change(|state| {
            state.arrived.insert(take);
        });
    }

    /// Waits until a part may go out. Who is not in the order need not wait.
    pub(super) async fn allow(&self, take: usize, part: usize) {
        self.until(|state| {
            state.finished
                || !state.ordered.contains(&take)
                || state.given_up.contains(&take)
                || state.allowed.get(&take).is_some_and(|upto| *upto > part)
        })
        .await;
    }

    /// How many parts may go out without another look.
    pub(super) fn allowed(&self, take: usize) -> usize {
        let state = self.lock();
        let free = state.finished || !state.ordered.contains(&take) || state.given_up.contains(&take);
        if free { usize::MAX } else { state.allowed.get(&take).copied().unwrap_or_default() }
    }

    /// Parts went out.
    pub(super) fn sent(&self, take: usize, parts: usize, is_whole: bool) {
        self.change(|state| {
            state.sent.insert(take, parts);
            if is_whole {
                state.ended.insert(take, Instant::now());
            }
        });
    }

    /// The client has left, or the connection is broken: nothing more will go out.
    pub(super) fn gone(&self, take: usize) {
        self.change(|state| {
            state.gone.insert(take);
        });
    }

    /// Where it took longer.
    pub(super) fn waits(&self) -> Vec<ReplayWait> {
        self.lock().waits.clone()
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        let mut moved = self.moved.subscribe();
        while !holds(&self.lock()) {
            if moved.changed().await.is_err() {
                return;
            }
        }
    }

    async fn conduct(&self, tape: &RecordedTraffic, steps: &[Step]) {
        if let Some(Step::Arrive(..)) = steps.first() {
            // The clock starts with the first request, whichever it is.
            self.until(|state| !state.arrived.is_empty()).await;
        }
        for step in steps {
            self.take_step(tape, step).await;
        }
        self.change(|state| state.finished = true);
    }

    async fn take_step(&self, tape: &RecordedTraffic, step: &Step) {
        match step {
            Step::Arrive(take, patience) => self.await_request(tape, *take, *patience).await,
            Step::Send(take, upto) => {
                if !self.lock().arrived.contains(take) {
                    return; // given up
                }
                self.change(|state| {
                    state.allowed.insert(*take, *upto);
                });
                let sent = |state: &State| {
                    state.gone.contains(take) || state.sent.get(take).is_some_and(|sent| sent >= upto)
                };
                let read = timeout(UNREAD, self.until(sent)).await.is_ok();
                if !read {
                    let what = format!("{} to be read", name(tape, *take));
                    self.note(what, UNREAD, false);
                }
            }
            Step::Let(take, upto) => self.change(|state| {
                state.allowed.insert(*take, *upto);
            }),
            Step::Rest(usual) => self.rest(*usual).await,
            Step::Pause(time) => sleep(self.settle.unwrap_or(*time)).await,
            Step::Since(take, time) => {
                let ended = self.lock().ended.get(take).copied();
                if let Some(ended) = ended {
                    sleep_until(ended + *time).await;
                }
            }
        }
    }

    /// Waits for a request, as long as anything moves and a while longer.
    async fn await_request(&self, tape: &RecordedTraffic, take: usize, patience: Duration) {
        let begun = Instant::now();
        let mut moved = self.moved.subscribe();
        let mut excused = false;
        loop {
            let hopeless = {
                let state = self.lock();
                if state.arrived.contains(&take) {
                    break;
                }
                // A lane whose earlier request never came will not go on.
                let lane = &tape.takes[take].lane;
                state.given_up.iter().any(|other| tape.takes[*other].lane == *lane)
            };
            let limit = if hopeless { Duration::ZERO } else { patience };
            let came = timeout(limit, moved.changed()).await.is_ok();
            if !came && !hopeless && !excused && self.is_at_work().await {
                excused = true;
                continue;
            }
            if !came {
                self.note(name(tape, take), begun.elapsed(), false);
                self.change(|state| {
                    state.given_up.insert(take);
                });
                return;
            }
        }
        if begun.elapsed() >= SHORT {
            self.note(name(tape, take), begun.elapsed(), true);
        }
    }

    /// Whether the harness has something else to do, on a machine that lets it wait; gives it the time to do it.
    async fn is_at_work(&self) -> bool {
        let pid = *self.pid.borrow();
        let Some(pid) = pid else { return false };
        let begun = Instant::now();
        idle::rest(pid, BUSY).await;
        begun.elapsed() >= AT_WORK
    }

    /// Waits until the harness is at rest; where its process is not known, for a time.
    async fn rest(&self, usual: Duration) {
        let pid = *self.pid.borrow();
        match (pid, self.settle) {
            (_, Some(settle)) => sleep(settle).await,
            (None, None) => sleep(usual.min(RESTLESS)).await,
            (Some(pid), None) => {
                let begun = Instant::now();
                let rested = idle::rest(pid, RESTLESS).await;
                if !rested {
                    self.note("the harness to come to rest".to_owned(), begun.elapsed(), false);
                }
            }
        }
    }

    fn note(&self, what: String, time: Duration, came: bool) {
        self.lock().waits.push(ReplayWait { what, ms: time.as_millis() as u64, came });
    }
}

fn name(tape: &RecordedTraffic, take: usize) -> String {
    let take = &tape.takes[take];
    format!("turn {} of lane `{}` ({})", take.turn, take.lane, take.id)
}
