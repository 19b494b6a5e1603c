//! Ends a command from any thread.

use std::sync::{Arc, Mutex};

use tokio::process::ChildStdin;

/// Ends a command from elsewhere.
#[derive(Clone, Default)]
pub(crate) struct KillSwitch(pub(super) Arc<Mutex<Option<ChildStdin>>>);

impl KillSwitch {
    pub(crate) fn kill(&self) {
        self.0.lock().expect("lock is not poisoned").take();
    }
}
