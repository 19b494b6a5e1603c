//! How a run is told to stop.

use tokio::sync::watch;

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

/// The end that listens.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Wish>);

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
        Stop(self.0.subscribe())
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
        *self.0.borrow()
    }

    /// Waits until at least this is wished; for ever where nobody can wish any more.
    pub async fn at_least(&self, wanted: Wish) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|wish| *wish >= wanted).await.is_err() {
            std::future::pending().await
        }
    }
}
