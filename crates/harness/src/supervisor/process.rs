//! The supervisor's own process: starts programs and ends everything they leave running.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::message::{ProgramStart, SupervisorCommand, SupervisorEvent, receive, send};
use super::network;

/// Interval between two checks for ended processes.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// Time for killed processes to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for processes to end when our parent is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// Runs a supervisor. Its standard input is the socket to its parent.
pub(crate) fn run(sealed: bool) -> ExitCode {
    let socket = std::io::stdin();
    let socket = socket.as_fd();
    // Orphaned descendants become our children, so that we can end them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    if let Err(error) = announce(socket, sealed) {
        let _ = send(socket, &SupervisorEvent::CannotSeal { why: error.to_string() }, &[]); // no one else can be informed
        return ExitCode::FAILURE;
    }
    let mut supervisor = SupervisorProcess { socket, held: Vec::new(), running: HashMap::new() };
    supervisor.serve();
    ExitCode::SUCCESS
}

fn announce(socket: BorrowedFd<'_>, sealed: bool) -> io::Result<()> {
    let mut sockets = Vec::new();
    if sealed {
        network::enter_namespace()?;
        sockets = network::listen()?;
    }
    let files: Vec<BorrowedFd<'_>> = sockets.iter().map(|(_, file)| file.as_fd()).collect();
    send(
        socket,
        &SupervisorEvent::Ready { sockets: sockets.iter().map(|(socket, _)| *socket).collect() },
        &files,
    )
}

struct SupervisorProcess<'s> {
    socket: BorrowedFd<'s>,
    held: Vec<OwnedFd>,
    running: HashMap<i32, Running>,
}

struct Running {
    id: u32,
    /// The time at which it is killed.
    kill_at: Option<Instant>,
}

impl SupervisorProcess<'_> {
    fn serve(&mut self) {
        loop {
            let mut waiting = [PollFd::new(&self.socket, PollFlags::IN)];
            let heard = poll(&mut waiting, Some(&POLL_INTERVAL)).is_ok_and(|ready| ready > 0);
            let order = if heard { receive::<SupervisorCommand>(self.socket) } else { Ok(None) };
            match order {
                Ok(Some((SupervisorCommand::Finish { grace_ms }, _))) => {
                    return self.finish(Duration::from_millis(grace_ms));
                }
                Ok(Some((order, files))) => self.handle(order, files),
                Ok(None) if !heard => {}
                _ => return self.finish(ORPHAN_GRACE), // our parent is gone
            }
            self.reap();
            self.kill_overdue();
        }
    }

    fn handle(&mut self, order: SupervisorCommand, files: Vec<OwnedFd>) {
        match order {
            SupervisorCommand::Hold => self.held.extend(files),
            SupervisorCommand::Launch(start) => {
                let id = start.id;
                match launch(start) {
                    Ok(pid) => {
                        self.running.insert(pid, Running { id, kill_at: None });
                        self.send_event(&SupervisorEvent::Started { id }, &[]);
                    }
                    Err(error) => {
                        self.send_event(&SupervisorEvent::NotStarted { id, why: error.to_string() }, &[])
                    }
                }
            }
            SupervisorCommand::Connect { port } => match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(tcp) => self.send_event(&SupervisorEvent::Connected { refused: None }, &[tcp.as_fd()]),
                Err(error) => {
                    self.send_event(&SupervisorEvent::Connected { refused: Some(error.to_string()) }, &[])
                }
            },
            SupervisorCommand::End { id, grace_ms } => {
                let found = self.running.iter_mut().find(|(_, running)| running.id == id);
                if let Some((pid, running)) = found {
                    signal_group(*pid, Signal::TERM);
                    running.kill_at = Some(Instant::now() + Duration::from_millis(grace_ms));
                }
            }
            SupervisorCommand::Finish { .. } => unreachable!("the loop ends with it"),
        }
    }

    fn send_event(&self, news: &SupervisorEvent, files: &[BorrowedFd<'_>]) {
        // If our parent is gone, receiving the next command fails.
        let _ = send(self.socket, news, files);
    }

    /// Collects ended processes. Returns `false` when no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let pid = pid.as_raw_nonzero().get();
                    if let Some(Running { id, .. }) = self.running.remove(&pid) {
                        self.send_event(&SupervisorEvent::Exited { id, code: code(status) }, &[]);
                    }
                }
                Ok(None) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn kill_overdue(&mut self) {
        let now = Instant::now();
        for (pid, _) in self.running.iter().filter(|(_, running)| running.kill_at.is_some_and(|at| at <= now))
        {
            signal_group(*pid, Signal::KILL);
        }
    }

    /// Asks all processes to end, then kills them.
    fn finish(&mut self, grace: Duration) {
        let began = Instant::now();
        for pid in descendants() {
            signal(pid, Signal::TERM);
        }
        while self.reap() {
            let age = began.elapsed();
            if age > grace + KILL_TIMEOUT {
                return;
            }
            if age > grace {
                // Each round finds processes that were started meanwhile.
                for pid in descendants() {
                    signal(pid, Signal::KILL);
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn launch(start: ProgramStart) -> io::Result<i32> {
    let output = |path: &Option<std::path::PathBuf>| match path {
        Some(path) => File::create(path).map(Stdio::from),
        None => Ok(Stdio::inherit()),
    };
    let child = Command::new(&start.program)
        .args(&start.args)
        .env_clear()
        .envs(&start.env)
        .current_dir(&start.cwd)
        .stdin(Stdio::null())
        .stdout(output(&start.stdout)?)
        .stderr(output(&start.stderr)?)
        .process_group(0)
        .spawn()?;
    Ok(child.id() as i32) // not awaited here: `reap` collects all children
}

fn code(status: WaitStatus) -> i32 {
    status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(1)
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal); // it may be gone
    }
}

fn signal_group(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process_group(pid, signal); // it may be gone
    }
}

/// Returns all descendants of this process, parents first.
fn descendants() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(i32, i32)> = pids
        .filter_map(|pid: i32| {
            Some((pid, parent_of(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        })
        .collect();
    let mut family = vec![std::process::id() as i32];
    let mut at = 0;
    while at < family.len() {
        let parent = family[at];
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    family.split_off(1)
}

/// Returns the parent from a line of `/proc/PID/stat`. The program's name, in brackets, may contain anything.
fn parent_of(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_parent() {
        assert_eq!(parent_of("42 (a) (b 7) S 17 42 42 0"), Some(17));
        assert_eq!(parent_of("42 (cut"), None);
    }

    #[test]
    fn children_are_descendants() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        let found = descendants().contains(&(child.id() as i32));
        child.kill().expect("it runs");
        child.wait().expect("it was ours");
        assert!(found);
    }
}
