//! Sandbox for commands of a model: limits what they reach, and ends everything that they start.
//!
//! Start at [`ShellConfig`] and [`Processes::start`]. Our own program is started again ([`run_sandbox_step`])
//! in three steps. The [outer](outer) process creates namespaces where the system allows it. It ends everything
//! when its standard input closes, so also when we are killed. The [keeper](inner) is the first process of the
//! PID namespace, and everything in there ends with it. The [inner](inner) process gives up [file
//! rights](rights) and [system calls](filter), and becomes the shell. `docs/reference/sandbox.md` lists what is
//! guaranteed.

mod filter;
mod guard;
mod inner;
mod kill_switch;
mod outer;
mod plan;
mod process;
mod rights;
mod watcher;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

pub(crate) use guard::DisarmedPlace;
use guard::{DisarmedList, WorkspaceGuard};
use kill_switch::KillSwitch;
use plan::HOME_FOLDER;
pub use process::Processes;
pub(crate) use process::{CommandEnd, HookCommand, RunningCommand};
pub(crate) use watcher::MAX_DISARMED;

/// First argument of our own program when it runs a step of the sandbox.
const ARGUMENT: &str = "__shell";

/// Configuration for commands.
#[derive(Clone, Debug, Default)]
pub struct ShellConfig {
    /// Program that calls [`run_sandbox_step`] first in `main`: our own. Without it, no command runs.
    pub launcher: Option<PathBuf>,
    /// True if the user lets commands run without a sandbox, with all their rights.
    pub without_sandbox: bool,
    /// Folders that no command may see, such as the journal's.
    pub hidden: Vec<PathBuf>,
}

/// A command with all its limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SandboxSpec {
    command: String,
    workspace: PathBuf,
    env: BTreeMap<String, String>,
    sandbox: bool,
    /// Creates namespaces for processes, network and mounts.
    namespaces: bool,
    /// Paths to read, and to run programs from.
    read: Vec<PathBuf>,
    /// Paths to read and write.
    write: Vec<PathBuf>,
    /// Paths to hide, even below a readable one.
    hidden: Vec<PathBuf>,
    /// Paths to keep read-only, even below a writable one.
    protected: Vec<PathBuf>,
    /// Standard input of the command. Without it, there is none.
    input: Option<String>,
}

/// Event that a sandbox process reports, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
enum SandboxEvent {
    /// The shell is about to start.
    Begun,
    /// The system refused namespaces. The command is tried again without them.
    NoNamespaces { why: String },
    /// A protected place is gone since the scan of the workspace. The scan is repeated.
    Moved { path: PathBuf },
    /// The command did not run.
    Refused { why: String },
    /// The command ended by itself. Signals count from 128.
    Exited { code: i32 },
    /// The command had too many processes.
    TooMany { processes: usize },
}

/// Runs a step of the sandbox if this program was started for one. Must be the first call in `main`, before any
/// thread starts.
pub fn run_sandbox_step() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) {
        return None;
    }
    Some(match arguments.next()?.to_str()? {
        "outer" => outer::run(),
        "keeper" => inner::run_keeper(),
        _ => inner::run(),
    })
}

/// Builds the command for the next step: this program again.
fn step_command(step: &str) -> std::process::Command {
    let mut command = std::process::Command::new("/proc/self/exe");
    command.args([ARGUMENT, step]);
    command
}

fn report(news: &SandboxEvent) {
    use std::io::Write as _;
    let line = serde_json::to_string(news).expect("strings and numbers are always JSON");
    let _ = writeln!(std::io::stdout(), "{line}"); // without the pipe, no one listens
}

fn read_spec() -> Result<SandboxSpec, String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| error.to_string())?;
    serde_json::from_str(&line).map_err(|error| error.to_string())
}

/// Sends the specification to a process that was just started.
fn send_spec(order: &SandboxSpec, child: &mut std::process::Child) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut line = serde_json::to_vec(order).expect("strings and lists are always JSON");
    line.push(b'\n');
    child.stdin.take().expect("it was asked for").write_all(&line)
}

/// Returns true if a path is `folder` or below it.
fn is_below(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder)
}
