//! The state that all connections of a proxy share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use recording::Recorder;
use tokio::sync::watch;

use crate::gate::Gate;
use crate::upstream::{Upstream, Upstreams};

/// The state that all connections share.
pub(crate) struct ProxyState {
    pub(crate) upstreams: Upstreams,
    pub(crate) recorder: Recorder,
    pub(crate) stats: UpstreamStats,
    /// Decision about each request, if there is a gate.
    pub(crate) gate: Gate,
    /// Number of exchanges in flight.
    busy: watch::Sender<usize>,
}

/// Phase of a proxy's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Accepts connections.
    Serving,
    /// Accepts no more connections.
    Draining,
    /// Cuts the remaining connections.
    Cutting,
}

impl ProxyState {
    pub(crate) fn new(upstreams: Upstreams, recorder: Recorder, gate: Gate) -> Self {
        let stats = UpstreamStats::new(&upstreams);
        Self { upstreams, recorder, stats, gate, busy: watch::Sender::new(0) }
    }

    /// Waits until no exchange is in flight, or until `patience` is over.
    pub(crate) async fn wait_until_idle(&self, patience: impl Future) {
        let mut busy = self.busy.subscribe();
        tokio::select! {
            _ = busy.wait_for(|busy| *busy == 0) => {}
            _ = patience => {}
        }
    }

    /// Counts an exchange as in flight until the guard is dropped.
    pub(crate) fn begin_exchange(self: &Arc<Self>) -> InFlightGuard {
        self.busy.send_modify(|busy| *busy += 1);
        InFlightGuard(self.clone())
    }
}

/// Counts an exchange as in flight.
pub(crate) struct InFlightGuard(Arc<ProxyState>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.busy.send_modify(|busy| *busy -= 1);
    }
}

/// Counts responses and failures of each upstream.
#[derive(Debug)]
pub(crate) struct UpstreamStats {
    answered: Vec<AtomicU64>,
    last_error: Vec<Mutex<Option<String>>>,
}

/// The reachability of one upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// The address.
    pub url: String,
    /// Number of requests with a response, complete or not.
    pub answered: u64,
    /// The last failure to get a response.
    pub last_error: Option<String>,
}

impl UpstreamStats {
    fn new(upstreams: &Upstreams) -> Self {
        let count = upstreams.iter().count();
        Self {
            answered: (0..count).map(|_| AtomicU64::new(0)).collect(),
            last_error: (0..count).map(|_| Mutex::new(None)).collect(),
        }
    }

    /// Counts a response of the upstream `index`.
    pub(crate) fn add_response(&self, index: usize) {
        self.answered[index].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a failure of the upstream `index`.
    pub(crate) fn set_error(&self, index: usize, error: &str) {
        *self.last_error[index].lock().expect("lock is not poisoned") = Some(error.to_owned());
    }

    /// Returns the status of each upstream.
    pub(crate) fn statuses(&self, upstreams: &Upstreams) -> Vec<UpstreamStatus> {
        let status = |(index, upstream): (usize, &Upstream)| UpstreamStatus {
            url: upstream.url(),
            answered: self.answered[index].load(Ordering::Relaxed),
            last_error: self.last_error[index].lock().expect("lock is not poisoned").clone(),
        };
        upstreams.iter().enumerate().map(status).collect()
    }
}
