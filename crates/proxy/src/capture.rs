//! The recording proxy: bound, started, stopped.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recording::Recorder;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::server;
use crate::upstream::Upstreams;

/// The proxy could not be started.
#[derive(Debug, Error)]
pub enum BindError {
    /// Only loopback is listened on: what passes here is not protected.
    #[error("`{0}` is not a loopback address")]
    NotLoopback(SocketAddr),
    /// Somebody else listens there, or nobody may.
    #[error("cannot listen on `{addr}`")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A port that is ours, and nobody is served on it yet.
#[derive(Debug)]
pub struct BoundProxy {
    listener: TcpListener,
    addr: SocketAddr,
}

impl BoundProxy {
    /// The address, with the port that was given to us.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Begins to serve.
    pub fn start(self, upstreams: Upstreams, recorder: Recorder) -> RecordingProxy {
        let tally = Tally::new(&upstreams);
        let (busy, _) = watch::channel(0);
        let shared = Arc::new(Shared { upstreams, recorder, tally, busy });
        let (phase, told) = watch::channel(Phase::Serving);
        let serving = tokio::spawn(server::serve(self.listener, shared.clone(), told));
        RecordingProxy { shared, phase, serving }
    }
}

/// A running proxy.
pub struct RecordingProxy {
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    serving: JoinHandle<()>,
}

/// What the server is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    /// Take no more connections.
    Draining,
    /// End those that are left.
    Cutting,
}

/// How long what was cut may take to tell the recorder so.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) upstreams: Upstreams,
    pub(crate) recorder: Recorder,
    pub(crate) tally: Tally,
    busy: watch::Sender<usize>,
}

impl RecordingProxy {
    /// Takes a port on loopback.
    pub async fn bind(addr: SocketAddr) -> Result<BoundProxy, BindError> {
        if !addr.ip().is_loopback() {
            return Err(BindError::NotLoopback(addr));
        }
        let failed = |source| BindError::Bind { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        Ok(BoundProxy { listener, addr })
    }

    /// Takes a socket that listens already, wherever that is.
    pub fn from_listener(listener: std::net::TcpListener) -> io::Result<BoundProxy> {
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        Ok(BoundProxy { listener: TcpListener::from_std(listener)?, addr })
    }

    /// Takes no more requests, waits for those in flight until `patience` is over, and cuts the rest.
    pub async fn stop(self, patience: impl Future) -> Vec<UpstreamStatus> {
        let shared = &self.shared;
        self.phase.send_replace(Phase::Draining);
        shared.calm_within(patience).await;
        shared.recorder.cut();
        self.phase.send_replace(Phase::Cutting);
        let _ = self.serving.await; // it does not panic, and nobody aborts it
        shared.calm_within(tokio::time::sleep(LAST_WORDS)).await;
        self.shared.tally.reach(&self.shared.upstreams)
    }
}

impl Shared {
    /// Waits until nothing is in flight, or `patience` is over.
    async fn calm_within(&self, patience: impl Future) {
        let mut busy = self.busy.subscribe();
        tokio::select! {
            _ = busy.wait_for(|busy| *busy == 0) => {}
            _ = patience => {} // what is left is cut
        }
    }

    /// Counts an exchange as in flight while the guard lives.
    pub(crate) fn in_flight(self: &Arc<Self>) -> InFlight {
        self.busy.send_modify(|busy| *busy += 1);
        InFlight(self.clone())
    }
}

pub(crate) struct InFlight(Arc<Shared>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.busy.send_modify(|busy| *busy -= 1);
    }
}

/// How each provider could be reached.
#[derive(Debug)]
pub(crate) struct Tally {
    answered: Vec<AtomicU64>,
    last_error: Vec<Mutex<Option<String>>>,
}

/// How one provider could be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// Its address.
    pub url: String,
    /// How many requests it answered, or began to.
    pub answered: u64,
    /// The last failure to get any answer from it.
    pub last_error: Option<String>,
}

impl Tally {
    fn new(upstreams: &Upstreams) -> Self {
        let count = upstreams.iter().count();
        Self {
            answered: (0..count).map(|_| AtomicU64::new(0)).collect(),
            last_error: (0..count).map(|_| Mutex::new(None)).collect(),
        }
    }

    pub(crate) fn answered(&self, index: usize) {
        self.answered[index].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, index: usize, error: &str) {
        *self.last_error[index].lock().expect("nobody panics with it") = Some(error.to_owned());
    }

    fn reach(&self, upstreams: &Upstreams) -> Vec<UpstreamStatus> {
        let one = |(index, upstream): (usize, &crate::Upstream)| UpstreamStatus {
            url: upstream.url(),
            answered: self.answered[index].load(Ordering::Relaxed),
            last_error: self.last_error[index].lock().expect("nobody panics with it").clone(),
        };
        upstreams.iter().enumerate().map(one).collect()
    }
}
