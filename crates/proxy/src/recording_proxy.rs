//! The recording proxy: bind, start, stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use recording::Recorder;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::gate::{Gate, RequestGate};
use crate::server;
use crate::state::{Phase, ProxyState, UpstreamStatus};
use crate::upstream::Upstreams;

/// The proxy cannot listen.
#[derive(Debug, Error)]
pub enum BindError {
    /// The traffic is not protected, so only loopback is allowed.
    #[error("`{0}` is not a loopback address")]
    NotLoopback(SocketAddr),
    /// The port is in use or not permitted.
    #[error("cannot listen on `{addr}`")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// A bound port that is not served yet.
#[derive(Debug)]
pub struct BoundProxy {
    listener: TcpListener,
    addr: SocketAddr,
}

impl BoundProxy {
    /// Returns the address with the assigned port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Starts to serve.
    pub fn start(self, upstreams: Upstreams, recorder: Recorder) -> RecordingProxy {
        self.start_with(upstreams, recorder, Gate::default())
    }

    /// Starts to serve requests that a gate admits.
    pub fn start_gated(
        self,
        upstreams: Upstreams,
        recorder: Recorder,
        gate: Arc<dyn RequestGate>,
    ) -> RecordingProxy {
        self.start_with(upstreams, recorder, Gate(Some(gate)))
    }

    fn start_with(self, upstreams: Upstreams, recorder: Recorder, gate: Gate) -> RecordingProxy {
        let state = Arc::new(ProxyState::new(upstreams, recorder, gate));
        let (phase, phase_receiver) = watch::channel(Phase::Serving);
        let serving = tokio::spawn(server::serve(self.listener, state.clone(), phase_receiver));
        RecordingProxy { state, phase, serving }
    }
}

/// A running proxy.
pub struct RecordingProxy {
    state: Arc<ProxyState>,
    phase: watch::Sender<Phase>,
    serving: JoinHandle<()>,
}

/// Time for exchanges that were cut to inform the recorder.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

impl RecordingProxy {
    /// Binds a port on loopback.
    pub async fn bind(addr: SocketAddr) -> Result<BoundProxy, BindError> {
        if !addr.ip().is_loopback() {
            return Err(BindError::NotLoopback(addr));
        }
        let failed = |source| BindError::Bind { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        Ok(BoundProxy { listener, addr })
    }

    /// Takes a listening socket, on any address.
    pub fn from_listener(listener: std::net::TcpListener) -> io::Result<BoundProxy> {
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        Ok(BoundProxy { listener: TcpListener::from_std(listener)?, addr })
    }

    /// Accepts no more requests, waits for those in flight until `patience` is over, and cuts the rest.
    pub async fn stop(self, patience: impl Future) -> Vec<UpstreamStatus> {
        let state = &self.state;
        self.phase.send_replace(Phase::Draining);
        state.wait_until_idle(patience).await;
        state.recorder.begin_shutdown();
        self.phase.send_replace(Phase::Cutting);
        let _ = self.serving.await; // it does not panic and is never aborted
        state.wait_until_idle(tokio::time::sleep(CUT_TIMEOUT)).await;
        state.stats.statuses(&state.upstreams)
    }
}
