//! Signals that ask the process to end. They are caught before the process announces itself.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Starts to catch the signals.
    pub(crate) fn listen() -> std::io::Result<Self> {
        // With a handler installed, a write beyond the file size limit fails like a write to a full disk instead of
        // ending the process. Child processes start with the default again.
        drop(signal(SignalKind::from_raw(libc::SIGXFSZ))?);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = self.hangup.recv() => libc::SIGHUP,
        }
    }
}
