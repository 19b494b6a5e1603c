//! A server that runs while we measure, and is gone when we have.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::process::Tree;

/// Python needs seconds to start; a recording with thousands of exchanges may need many to be sealed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server. Dropping it stops it.
pub(super) struct Server {
    child: Child,
    stopped_by: Signal,
    log: PathBuf,
}

/// How a server is asked to stop.
#[derive(Clone, Copy)]
pub(super) enum Signal {
    Interrupt,
    Terminate,
}

impl Server {
    /// Starts `command`, which writes what it has to say to `log`.
    pub(super) fn start(command: &mut Command, log: &Path, stopped_by: Signal) -> Result<Server> {
        let file = File::create(log).with_context(|| format!("could not create `{}`", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("could not start `{}`", command.get_program().to_string_lossy()))?;
        Ok(Server { child, stopped_by, log: log.to_owned() })
    }

    /// Waits until `ready` has an answer, as long as the server lives.
    pub(super) fn wait_until<T>(&mut self, mut ready: impl FnMut(&str) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(answer) = ready(&said) {
                return Ok(answer);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status} before it was ready\n{said}");
            }
            if Instant::now() > deadline {
                bail!("it was not ready after {} s\n{said}", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until `address` accepts connections.
    pub(super) fn wait_for_port(&mut self, address: SocketAddr) -> Result<()> {
        self.wait_until(|_| TcpStream::connect(address).ok()).map(drop)
    }

    /// The processes to be measured.
    pub(super) fn tree(&self) -> Tree {
        Tree::of(self.child.id())
    }

    /// Asks the server to stop and waits until it has; returns how it ended and what it said.
    pub(super) fn stop(mut self) -> Result<(ExitStatus, String)> {
        let status = self.end()?;
        Ok((status, fs::read_to_string(&self.log).unwrap_or_default()))
    }

    fn end(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        let signal = match self.stopped_by {
            Signal::Interrupt => "-INT",
            Signal::Terminate => "-TERM",
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
            eprintln!("could not stop process {}: {error:#}", self.child.id());
        }
    }
}

/// An address on loopback that nobody listens on.
pub(super) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("could not listen on loopback")?;
    Ok(listener.local_addr()?)
}
