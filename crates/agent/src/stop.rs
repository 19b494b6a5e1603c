//! Stop requests: a handle that asks a run to stop, and the signal that the run watches.

use std::sync::Arc;

use tokio::sync::watch;

use crate::future::BoxFuture;

/// A request to a run, each stronger than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// No request: the run continues.
    #[default]
    None,
    /// Stop at a point from which the run can be resumed.
    Pause,
    /// End the run.
    Cancel,
}

/// Asks one run to stop. Clones ask the same run.
#[derive(Clone, Debug)]
pub struct StopHandle(watch::Sender<StopRequest>);

/// Receives the requests to one run and to all runs above it. A request to a run never reaches the runs above it.
#[derive(Clone, Debug)]
pub struct StopSignal {
    own: watch::Receiver<StopRequest>,
    parent: Option<Arc<StopSignal>>,
}

impl Default for StopHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl StopHandle {
    /// Creates a handle without a request.
    pub fn new() -> Self {
        Self(watch::Sender::new(StopRequest::None))
    }

    /// Returns the signal of this handle alone.
    pub fn signal(&self) -> StopSignal {
        StopSignal { own: self.0.subscribe(), parent: None }
    }

    /// Returns a signal that also receives the requests to the run above.
    pub(crate) fn signal_below(&self, parent: &StopSignal) -> StopSignal {
        StopSignal { own: self.0.subscribe(), parent: Some(Arc::new(parent.clone())) }
    }

    /// Sends a request. A request that is weaker than an earlier one changes nothing.
    pub fn request(&self, request: StopRequest) {
        self.0.send_if_modified(|known| {
            let stronger = request > *known;
            *known = (*known).max(request);
            stronger
        });
    }
}

impl StopSignal {
    /// Returns the strongest request so far.
    pub fn requested(&self) -> StopRequest {
        let parent = self.parent.as_ref().map(|parent| parent.requested()).unwrap_or_default();
        parent.max(*self.own.borrow())
    }

    /// Waits for a request that is at least this strong. Never returns once all handles are dropped.
    pub async fn wait_for(&self, wanted: StopRequest) {
        let own = wait_for_own(self.own.clone(), wanted);
        match &self.parent {
            None => own.await,
            Some(parent) => tokio::select! {
                () = own => {}
                () = parent.wait_for_boxed(wanted) => {}
            },
        }
    }

    fn wait_for_boxed(&self, wanted: StopRequest) -> BoxFuture<'_, ()> {
        Box::pin(self.wait_for(wanted))
    }
}

async fn wait_for_own(mut own: watch::Receiver<StopRequest>, wanted: StopRequest) {
    if own.wait_for(|request| *request >= wanted).await.is_err() {
        std::future::pending().await
    }
}
