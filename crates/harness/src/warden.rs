//! The small process that starts a harness, and lets nothing of it outlive the recording.

use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::adapter::Launch;
use crate::error::HarnessError;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; more than 128 stands for a signal, as shells have it.
    pub code: i32,
    /// We ended it because it had done what it was asked: its code says nothing.
    pub by_us: bool,
}

/// Our end of the small process.
#[derive(Debug)]
pub struct Warden {}

impl Warden {
    /// Waits for the program to end by itself.
    pub fn wait(&mut self) -> crate::Doing<'_, Result<Ended, HarnessError>> {
        Box::pin(async { Err(HarnessError::outside("nothing was started", "")) })
    }

    /// Asks the program to end (its whole process group), and sees to it that it does.
    pub fn end(&mut self) -> crate::Doing<'_, Result<Ended, HarnessError>> {
        self.wait()
    }

    /// Connects to a port that the program listens on, on its own loopback.
    pub async fn connect(&mut self, port: u16) -> Result<TcpStream, HarnessError> {
        let _ = port;
        Err(HarnessError::outside("nothing was started", ""))
    }

    /// Runs another program to its end, sealed like the first; its standard output goes to a file.
    pub async fn run(
        &mut self,
        launch: Launch,
        stdout: PathBuf,
        deadline: Duration,
    ) -> Result<Ended, HarnessError> {
        let _ = (launch, stdout, deadline);
        Err(HarnessError::outside("nothing was started", ""))
    }
}
