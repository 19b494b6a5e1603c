//! `offshoot review`: what waits to be accepted, one after the other.

mod walk;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use parity::ScenarioFolder;

use super::accept::{accept, explain, sealed};
use crate::failure::{self, ExitKind, OrFail};
use crate::judge::judge;
use crate::terminal::print;
use walk::{Terminal, Walk};

/// Decide on runs that are newer than their golden
///
/// One difference after the other can be accepted, rejected or masked.
/// Without a terminal it lists them, and exits with 1 where there are any, or
/// where a scenario has recordings and none was ever accepted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot review                  one difference after the other
  offshoot review --list           only name what waits
  offshoot review --all            accept the newest of each, unseen
  offshoot review --all --reject   reject everything that waits")]
pub(crate) struct Args {
    /// Where goldens are; ./goldens without
    #[arg(long, value_name = "DIR")]
    goldens: Option<PathBuf>,
    /// Accept everything that waits, and ask nothing
    #[arg(long)]
    all: bool,
    /// With --all: reject it instead
    #[arg(long, requires = "all")]
    reject: bool,
    /// List what waits, and change nothing
    #[arg(long, conflicts_with = "all")]
    list: bool,
}

/// A scenario and its runs that nobody has decided on, oldest first.
struct Waiting {
    folder: ScenarioFolder,
    runs: Vec<String>,
}

impl Waiting {
    fn newest(&self) -> &str {
        self.runs.last().map_or("", String::as_str)
    }
}

pub(crate) fn run(arguments: &Args) -> anyhow::Result<ExitCode> {
    let waiting = waiting(arguments)?;
    let never = ScenarioFolder::list_unaccepted(goldens(arguments)).map_err(explain)?;
    tell_never_accepted(&never);
    let verdict = |is_done: bool| ExitCode::from(if is_done { 0 } else { ExitKind::Verdict as u8 });
    match arguments {
        _ if waiting.is_empty() && !never.is_empty() => Ok(verdict(arguments.list)),
        Args { all: true, reject, .. } => {
            let code = decide_all(&waiting, *reject);
            Ok(if code == ExitCode::SUCCESS { verdict(never.is_empty()) } else { code })
        }
        Args { list: true, .. } => {
            print(&list(&waiting));
            Ok(ExitCode::SUCCESS)
        }
        _ if !io::stdin().is_terminal() => {
            print(&list(&waiting));
            Ok(verdict(waiting.is_empty() && never.is_empty()))
        }
        _ => {
            let judge = judge();
            let (mut input, mut out) = (io::stdin().lock(), io::stderr().lock());
            let terminal = Terminal { input: &mut input, out: &mut out, width: crate::terminal::width() };
            let left = Walk { judge: &judge, terminal }.through(&waiting)?;
            Ok(verdict(left == 0 && never.is_empty()))
        }
    }
}

/// There is nothing to compare these with, so they are only named.
fn tell_never_accepted(never: &[(ScenarioFolder, String)]) {
    for (folder, newest) in never {
        status!("`{}` has recordings, and none was ever accepted", folder.dir().display());
        hint!("`offshoot accept {}`", folder.run_dir(newest).display());
    }
}

fn goldens(arguments: &Args) -> &Path {
    arguments.goldens.as_deref().unwrap_or(Path::new("goldens"))
}

fn waiting(arguments: &Args) -> anyhow::Result<Vec<Waiting>> {
    let mut waiting = Vec::new();
    if let Some(given) = arguments.goldens.as_ref().filter(|given| !given.is_dir()) {
        let error = anyhow::anyhow!("there is no folder `{}`", given.display());
        return Err(error)
            .or_fail_with(ExitKind::Usage, || "give the folder that holds HARNESS/VERSION/SCENARIO".into());
    }
    for folder in ScenarioFolder::list_accepted(goldens(arguments)).map_err(explain)? {
        let pending = folder.pending().map_err(explain)?;
        for (run, why) in &pending.skipped {
            status!("passed over `{}`: {}", folder.run_dir(run).display(), report::plain(why));
        }
        if !pending.runs.is_empty() {
            waiting.push(Waiting { folder, runs: pending.runs });
        }
    }
    Ok(waiting)
}

fn list(waiting: &[Waiting]) -> String {
    let line = |waiting: &Waiting| match waiting.runs.len() {
        1 => format!("{}\n", waiting.folder.run_dir(waiting.newest()).display()),
        n => format!("{} and {} older\n", waiting.folder.run_dir(waiting.newest()).display(), n - 1),
    };
    match waiting {
        [] => "nothing waits\n".to_owned(),
        waiting => waiting.iter().map(line).collect(),
    }
}

/// Goes on where one cannot be accepted, and says so at the end by its exit code.
fn decide_all(waiting: &[Waiting], reject: bool) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for waiting in waiting {
        let done = match reject {
            true => reject_runs(waiting),
            false => accept_newest(waiting),
        };
        match done {
            Ok(said) => print(&said),
            Err(error) => code = failure::print(&error),
        }
    }
    if waiting.is_empty() {
        print(&list(waiting));
    }
    code
}

fn accept_newest(waiting: &Waiting) -> anyhow::Result<String> {
    let run = waiting.newest();
    sealed(&waiting.folder.run_dir(run))?;
    accept(&waiting.folder, run)
}

fn reject_runs(waiting: &Waiting) -> anyhow::Result<String> {
    let mut said = String::new();
    for run in &waiting.runs {
        waiting.folder.reject(run, SystemTime::now()).map_err(explain)?;
        said += &format!("rejected `{}`\n", waiting.folder.run_dir(run).display());
    }
    Ok(said)
}

#[cfg(test)]
mod tests;
