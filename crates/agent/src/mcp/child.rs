//! A server that we start: a process with a group of its own, which is gone when we are done with it.

use std::collections::BTreeMap;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use store::Lease;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::ground::Stand;
use super::meter::{Meter, Metered};
use crate::process;

/// Of our own environment, all that a server is given beside a `PATH`.
const INHERITED: [&str; 2] = ["HOME", "LANG"];
/// How much of what a server complains about is kept.
const TAIL: usize = 4 * 1024;
/// How long a server may take to end by itself when its input is closed.
const GRACE: Duration = Duration::from_secs(1);

/// The variable by which the processes of a server are known, and the process of ours that started it.
const MARK: &str = "OFFSHOOT_SERVER";
/// How often they are looked for when all of them are to end.
const ROUNDS: usize = 20;

/// A running server. Dropping it ends the whole group.
pub(super) struct Child {
    process: tokio::process::Child,
    group: Option<Pid>,
    /// What everything that it starts has in its environment, unless it wants to be rid of it.
    mark: String,
    stderr: Arc<Mutex<Vec<u8>>>,
    drained: tokio::task::JoinHandle<()>,
}

/// What is written to it and read from it.
pub(super) type Pipes = (Metered<ChildStdout>, ChildStdin);

impl Child {
    /// Starts it. What it says goes through the meter.
    pub(super) fn start(
        stand: &Stand,
        env: &BTreeMap<String, String>,
        meter: Arc<Meter>,
    ) -> io::Result<(Self, Pipes)> {
        let us = process::lease();
        let mark = format!("{MARK}={}.{}-{:016x}", us.pid, us.start, fastrand::u64(..));
        let (name, value) = mark.split_once('=').expect("it was just put together");
        let inherited = INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut process = Command::new(&stand.program)
            .args(&stand.arguments)
            .current_dir(&stand.folder)
            .env_clear()
            .envs(inherited)
            .env("PATH", &stand.path)
            .envs(env)
            .env(name, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let stderr = Arc::default();
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(stdin), Some(stdout), Some(errors)) = pipes else {
            return Err(io::Error::other("it has no pipes"));
        };
        let drained = tokio::spawn(drain(errors, Arc::clone(&stderr)));
        Ok((Self { process, group, mark, stderr, drained }, (Metered::new(stdout, meter), stdin)))
    }

    /// What it complained about last, on one line.
    pub(super) fn last_words(&self) -> Option<String> {
        let tail = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// How it ended, where it does so at once and says its last words.
    pub(super) async fn wait_a_moment(&mut self) -> Option<ExitStatus> {
        let status = tokio::time::timeout(GRACE, self.process.wait()).await.ok()?.ok()?;
        let _ = tokio::time::timeout(GRACE, &mut self.drained).await;
        Some(status)
    }

    /// Waits for it to end by itself, for a moment; then ends it and whatever it has started.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(GRACE, self.process.wait()).await;
        self.kill();
        let _ = tokio::time::timeout(GRACE, self.process.wait()).await;
    }

    fn kill(&mut self) {
        // Also when the server itself has ended: a group lives, and keeps its number, as long as anybody is in it.
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
            // Those that have made themselves a group or a session of their own. Some may just be starting others.
            for _ in 0..ROUNDS {
                let marked = marked(&self.mark);
                if marked.is_empty() {
                    break;
                }
                for pid in marked {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ends what servers have left whose own process of ours is gone: it was killed, and could not end them itself.
pub(crate) fn sweep() {
    let is_left =
        |variable: &[u8]| owner(variable).is_some_and(|owner| !process::is_lease_holder_alive(owner));
    for pid in having(is_left) {
        let _ = rustix::process::kill_process(pid, Signal::KILL); // it may be gone meanwhile
    }
}

/// The process of ours that started whoever has this in its environment.
fn owner(variable: &[u8]) -> Option<Lease> {
    let mark = std::str::from_utf8(variable).ok()?.strip_prefix(MARK)?.strip_prefix('=')?;
    let (pid, start) = mark.split_once('-')?.0.split_once('.')?;
    Some(Lease { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

/// The processes that have a mark in their environment. One that is gone has none.
fn marked(mark: &str) -> Vec<Pid> {
    having(|variable| variable == mark.as_bytes())
}

/// The processes with such a variable in their environment.
fn having(is_it: impl Fn(&[u8]) -> bool) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(&is_it)
    };
    pids.filter(has).filter_map(Pid::from_raw).collect()
}

/// Reads to the end, so that nobody waits for us, and keeps the last of it.
async fn drain(mut errors: ChildStderr, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let over = kept.len().saturating_sub(TAIL);
        kept.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn what_is_left_of_a_process_that_is_gone_is_ended_and_nothing_else() {
        let server = |mark: &str| {
            let mut sleep = std::process::Command::new("sleep");
            sleep.arg("600").env(MARK, mark).spawn().expect("sleep is everywhere")
        };
        let us = process::lease();
        let [mut left, mut reused, mut ours, mut other] = [
            "4194304.1-0".to_owned(),
            format!("{}.{}-0", us.pid, us.start + 1),
            format!("{}.{}-0", us.pid, us.start),
            "no mark".to_owned(),
        ]
        .map(|mark| server(&mark));
        sweep();
        assert_eq!(left.wait().expect("ours").signal(), Some(9), "its process is gone");
        assert_eq!(reused.wait().expect("ours").signal(), Some(9), "another one has its number");
        for child in [&mut ours, &mut other] {
            assert_eq!(child.try_wait().expect("ours"), None, "it is somebody's");
            child.kill().expect("it runs");
            child.wait().expect("ours");
        }
    }
}
