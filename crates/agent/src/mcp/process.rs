//! Server process in a process group of its own, which is killed when the connection closes.

use std::collections::BTreeMap;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use store::Lease;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::launch::LaunchCommand;
use super::meter::{MeteredReader, OutputMeter};
use crate::process as lease;

/// Variables of our environment that a server inherits, besides `PATH`.
const INHERITED: [&str; 2] = ["HOME", "LANG"];
/// Kept length of a server's error output.
const KEPT_STDERR: usize = 4 * 1024;
/// Time for a server to exit by itself after its input is closed.
const END_GRACE: Duration = Duration::from_secs(1);

/// Variable that marks the processes of a server, and names the process of ours that started it.
const MARKER_VARIABLE: &str = "OFFSHOOT_SERVER";
/// Maximum number of searches for remaining processes.
const KILL_ROUNDS: usize = 20;

/// A running server. Dropping it kills its process group.
pub(super) struct ServerProcess {
    process: tokio::process::Child,
    group: Option<Pid>,
    /// Marker in the environment of all its processes, unless they remove it.
    mark: String,
    stderr: Arc<Mutex<Vec<u8>>>,
    drained: tokio::task::JoinHandle<()>,
}

/// ToolOutput and input of the server.
pub(super) type ServerPipes = (MeteredReader<ChildStdout>, ChildStdin);

impl ServerProcess {
    /// Starts it. Its output is metered.
    pub(super) fn start(
        launch: &LaunchCommand,
        env: &BTreeMap<String, String>,
        meter: Arc<OutputMeter>,
    ) -> io::Result<(Self, ServerPipes)> {
        let us = lease::lease();
        let mark = format!("{MARKER_VARIABLE}={}.{}-{:016x}", us.pid, us.start, fastrand::u64(..));
        let (name, value) = mark.split_once('=').expect("it was just put together");
        let inherited = INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut process = Command::new(&launch.program)
            .args(&launch.arguments)
            .current_dir(&launch.folder)
            .env_clear()
            .envs(inherited)
            .env("PATH", &launch.path)
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
        Ok((Self { process, group, mark, stderr, drained }, (MeteredReader::new(stdout, meter), stdin)))
    }

    /// Returns the last line of its error output.
    pub(super) fn last_error_line(&self) -> Option<String> {
        let tail = self.stderr.lock().expect("lock is not poisoned");
        let text = String::from_utf8_lossy(&tail);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// Returns the exit status if it exits within a moment. Collects its error output until then.
    pub(super) async fn wait_briefly(&mut self) -> Option<ExitStatus> {
        let status = tokio::time::timeout(END_GRACE, self.process.wait()).await.ok()?.ok()?;
        let _ = tokio::time::timeout(END_GRACE, &mut self.drained).await;
        Some(status)
    }

    /// Waits a moment for it to exit, then kills it and all its processes.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(END_GRACE, self.process.wait()).await;
        self.kill();
        let _ = tokio::time::timeout(END_GRACE, self.process.wait()).await;
    }

    fn kill(&mut self) {
        // Also after the server itself has exited: a group keeps its number while any process is in it.
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
            // Processes that have left the group or the session. They may be starting others, so the search is
            // repeated.
            for _ in 0..KILL_ROUNDS {
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

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills the servers of processes of ours that were killed and could not end them.
pub(crate) fn end_leftover_servers() {
    let is_left =
        |variable: &[u8]| starter_of(variable).is_some_and(|owner| !lease::is_lease_holder_alive(owner));
    for pid in processes_with(is_left) {
        let _ = rustix::process::kill_process(pid, Signal::KILL); // it may have ended
    }
}

/// Parses the marker, and returns the process of ours that started the server.
fn starter_of(variable: &[u8]) -> Option<Lease> {
    let mark = std::str::from_utf8(variable).ok()?.strip_prefix(MARKER_VARIABLE)?.strip_prefix('=')?;
    let (pid, start) = mark.split_once('-')?.0.split_once('.')?;
    Some(Lease { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

/// Lists the processes with a marker in their environment. A dead process has none.
fn marked(mark: &str) -> Vec<Pid> {
    processes_with(|variable| variable == mark.as_bytes())
}

/// Lists the processes with a matching variable in their environment.
fn processes_with(is_it: impl Fn(&[u8]) -> bool) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(&is_it)
    };
    pids.filter(has).filter_map(Pid::from_raw).collect()
}

/// Reads error output to its end, so that the server never blocks, and keeps the last part.
async fn drain(mut errors: ChildStderr, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        let mut kept = kept.lock().expect("lock is not poisoned");
        kept.extend_from_slice(&buffer[..read]);
        let over = kept.len().saturating_sub(KEPT_STDERR);
        kept.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn only_leftovers_of_a_dead_process_are_ended() {
        let server = |mark: &str| {
            let mut sleep = std::process::Command::new("sleep");
            sleep.arg("600").env(MARKER_VARIABLE, mark).spawn().expect("sleep is everywhere")
        };
        let us = lease::lease();
        let [mut left, mut reused, mut ours, mut other] = [
            "4194304.1-0".to_owned(),
            format!("{}.{}-0", us.pid, us.start + 1),
            format!("{}.{}-0", us.pid, us.start),
            "no mark".to_owned(),
        ]
        .map(|mark| server(&mark));
        end_leftover_servers();
        assert_eq!(left.wait().expect("ours").signal(), Some(9), "its process is gone");
        assert_eq!(reused.wait().expect("ours").signal(), Some(9), "another one has its number");
        for child in [&mut ours, &mut other] {
            assert_eq!(child.try_wait().expect("ours"), None, "it is somebody's");
            child.kill().expect("it runs");
            child.wait().expect("ours");
        }
    }
}
