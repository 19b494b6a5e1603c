//! The signals that ask us to end, listened to from before anyone can know that we are there.

use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        // Where a file may grow no more, the write fails as on a full disk, and we go on. Nobody waits for the
        // signal itself: that it is listened to is enough, and a command that is started has it as before.
        drop(signal(SignalKind::from_raw(libc::SIGXFSZ))?);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one that comes.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = self.hangup.recv() => libc::SIGHUP,
        }
    }
}
