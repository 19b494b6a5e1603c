//! How a run is told to stop.

use std::sync::Arc;

use tokio::sync::watch;

use crate::tool::Doing;

/// What a run is asked to do, each stronger than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// To go on.
    #[default]
    GoOn,
    /// To stop where it can go on later.
    Pause,
    /// To end.
    Cancel,
}

/// The end that asks. Clones ask the same run.
#[derive(Clone, Debug)]
pub struct Brake(watch::Sender<Wish>);

/// The end that listens: to its own brake, and to those of all above it. What is wished of a run below reaches nobody
/// above.
#[derive(Clone, Debug)]
pub struct Stop {
    own: watch::Receiver<Wish>,
    above: Option<Arc<Stop>>,
}

impl Default for Brake {
    fn default() -> Self {
        Self::new()
    }
}

impl Brake {
    /// A brake that nobody has pulled.
    pub fn new() -> Self {
        Self(watch::Sender::new(Wish::GoOn))
    }

    /// The end that listens.
    pub fn stop(&self) -> Stop {
        Stop { own: self.0.subscribe(), above: None }
    }

    /// The end that listens, to another one as well.
    pub(crate) fn stop_below(&self, above: &Stop) -> Stop {
        Stop { own: self.0.subscribe(), above: Some(Arc::new(above.clone())) }
    }

    /// Asks; a weaker wish than one that was uttered before changes nothing.
    pub fn ask(&self, wish: Wish) {
        self.0.send_if_modified(|known| {
            let stronger = wish > *known;
            *known = (*known).max(wish);
            stronger
        });
    }
}

impl Stop {
    /// What is wished now.
    pub fn wish(&self) -> Wish {
        let above = self.above.as_ref().map(|above| above.wish()).unwrap_or_default();
        above.max(*self.own.borrow())
    }

    /// Waits until at least this is wished; for ever where nobody can wish any more.
    pub async fn at_least(&self, wanted: Wish) {
        let own = wished(self.own.clone(), wanted);
        match &self.above {
            None => own.await,
            Some(above) => tokio::select! {
                () = own => {}
                () = above.at_least_boxed(wanted) => {}
            },
        }
    }

    fn at_least_boxed(&self, wanted: Wish) -> Doing<'_, ()> {
        Box::pin(self.at_least(wanted))
    }
}

async fn wished(mut own: watch::Receiver<Wish>, wanted: Wish) {
    if own.wait_for(|wish| *wish >= wanted).await.is_err() {
        std::future::pending().await
    }
}
