//! A server process for the duration of a measurement.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::process::ProcessTree;

/// Timeout of start and stop. Python needs seconds to start, and sealing thousands of exchanges takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server. Dropping it stops it.
pub(super) struct Server {
    child: Child,
    stopped_by: StopSignal,
    log: PathBuf,
}

/// StopSignal that stops a server.
#[derive(Clone, Copy)]
pub(super) enum StopSignal {
    Interrupt,
    Terminate,
}

impl Server {
    /// Starts `command` with its output in `log`.
    pub(super) fn start(command: &mut Command, log: &Path, stopped_by: StopSignal) -> Result<Server> {
        let file = File::create(log).with_context(|| format!("cannot create `{}`", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start `{}`", command.get_program().to_string_lossy()))?;
        Ok(Server { child, stopped_by, log: log.to_owned() })
    }

    /// Waits until `ready` returns a value for the log.
    pub(super) fn wait_until<T>(&mut self, mut ready: impl FnMut(&str) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(answer) = ready(&log) {
                return Ok(answer);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status} before it was ready\n{log}");
            }
            if Instant::now() > deadline {
                bail!("it was not ready after {} s\n{log}", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until `address` accepts connections.
    pub(super) fn wait_for_port(&mut self, address: SocketAddr) -> Result<()> {
        self.wait_until(|_| TcpStream::connect(address).ok()).map(drop)
    }

    /// Returns the processes to measure.
    pub(super) fn tree(&self) -> ProcessTree {
        ProcessTree::new(self.child.id())
    }

    /// Stops the server. Returns its exit status and its output.
    pub(super) fn stop(mut self) -> Result<(ExitStatus, String)> {
        let status = self.end()?;
        Ok((status, fs::read_to_string(&self.log).unwrap_or_default()))
    }

    fn end(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        let signal = match self.stopped_by {
            StopSignal::Interrupt => "-INT",
            StopSignal::Terminate => "-TERM",
        };
        Command::new("kill").args([signal, &self.child.id().to_string()]).status()?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.child.kill()?;
        self.child.wait()?;
        bail!("it did not stop within {} s and was killed", PATIENCE.as_secs())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("cannot stop process {}: {error:#}", self.child.id());
        }
    }
}

/// Returns a free address on loopback.
pub(super) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
    Ok(listener.local_addr()?)
}
