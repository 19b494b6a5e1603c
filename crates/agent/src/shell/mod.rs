//! Commands of a model, in a box: what they may reach, and that nothing of them stays behind.
//!
//! Start at [`Shell`]. A command is started by our own program, started again ([`serve_if_asked`]), in three steps. The
//! [outer](outer) process takes the command a world of its own where the system allows it, ends everything when
//! its standard input is closed, and so also when we are killed. The [keeper](inner) is the first process of that world:
//! with it goes whatever is in it. The [inner](inner) one gives up its [rights](rights) and [system calls](filter), and
//! becomes the shell. What holds and what does not is in `ARCHITECTURE.md`.

mod filter;
mod inner;
mod outer;
mod plan;
mod process;
mod protect;
mod rights;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

pub(crate) use plan::MAKE_HOME;
pub use process::Processes;
pub(crate) use process::{Cut, Ending, Started};
pub(crate) use protect::{Disarmed, Guard, Made};
pub(crate) use watch::TOO_MANY;

/// What our own program is called with to run a command.
const ARGUMENT: &str = "__shell";

/// How commands are run.
#[derive(Clone, Debug, Default)]
pub struct Shell {
    /// The program that calls [`serve_if_asked`] first of all: our own. Without it, no command is run.
    pub launcher: Option<PathBuf>,
    /// The user wants commands to run without a box, with all their rights.
    pub without_sandbox: bool,
    /// Folders that no command may see, as that of the journal.
    pub hidden: Vec<PathBuf>,
}

/// A command to be run, and all that it may.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    command: String,
    workspace: PathBuf,
    env: BTreeMap<String, String>,
    sandbox: bool,
    /// In a world of its own: processes, network and mounts.
    namespaces: bool,
    /// What may be read, and programs in it started.
    read: Vec<PathBuf>,
    /// What may be written, too.
    write: Vec<PathBuf>,
    /// What may not be seen, though it lies below something that may.
    hidden: Vec<PathBuf>,
    /// What may be seen and not written, though it lies below something that may.
    protected: Vec<PathBuf>,
}

/// What the processes of a command say of it, one to a line.
#[derive(Debug, Serialize, Deserialize)]
enum News {
    /// The shell is about to run.
    Begun,
    /// The system has no namespaces for us; it goes without them.
    NoNamespaces { why: String },
    /// It was not run.
    Refused { why: String },
    /// It has ended, by itself; a signal counts from 128 on.
    Exited { code: i32 },
    /// It had more processes than anybody needs.
    TooMany { processes: usize },
}

/// Becomes one of a command's processes where this program was started as one. Must come first in `main`, before any
/// thread.
pub fn serve_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) {
        return None;
    }
    Some(match arguments.next()?.to_str()? {
        "outer" => outer::run(),
        "keeper" => inner::keep(),
        _ => inner::run(),
    })
}

/// The next of the processes: this program again.
fn next(step: &str) -> std::process::Command {
    let mut command = std::process::Command::new("/proc/self/exe");
    command.args([ARGUMENT, step]);
    command
}

fn tell(news: &News) {
    use std::io::Write as _;
    let line = serde_json::to_string(news).expect("strings and numbers are always JSON");
    let _ = writeln!(std::io::stdout(), "{line}"); // nobody else to tell
}

fn read_order() -> Result<Order, String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| error.to_string())?;
    serde_json::from_str(&line).map_err(|error| error.to_string())
}

/// Hands the order on to a process that was just started.
fn hand_on(order: &Order, child: &mut std::process::Child) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut line = serde_json::to_vec(order).expect("strings and lists are always JSON");
    line.push(b'\n');
    child.stdin.take().expect("it was asked for").write_all(&line)
}

/// Whether one path is another, or lies below it.
fn is_below(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder)
}
