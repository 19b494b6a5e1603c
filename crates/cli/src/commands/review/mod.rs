//! `offshoot review`: decisions on runs that are newer than their goldens.

mod walk;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use parity::ScenarioFolder;

use super::accept::{accept, explain, sealed};
use crate::failure::{self, ExitKind, OrFail};
use crate::judge::RecordingJudge;
use crate::terminal::print;
use walk::{Terminal, Walk};

/// Decide on runs that are newer than their golden
///
/// Shows one difference after the other. Each run can be accepted or rejected, and
/// each difference masked. Without a terminal it lists the pending runs. It then
/// exits with 1 if there are any, or if a scenario has recordings but no golden.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot review                  review one difference after the other
  offshoot review --list           list the pending runs
  offshoot review --all            accept the newest run of each scenario
  offshoot review --all --reject   reject all pending runs")]
pub(crate) struct Args {
    /// Folder of the goldens [default: goldens]
    #[arg(long, value_name = "DIR")]
    goldens: Option<PathBuf>,
    /// Folder of the captures
    #[arg(long, value_name = "DIR", default_value = parity::RECORDINGS)]
    recordings: PathBuf,
    /// Accept the newest run of each scenario without questions
    #[arg(long)]
    all: bool,
    /// With --all: reject all pending runs instead
    #[arg(long, requires = "all")]
    reject: bool,
    /// List the pending runs without changes
    #[arg(long, conflicts_with = "all")]
    list: bool,
}

/// A scenario and its pending runs, oldest first.
struct PendingScenario {
    folder: ScenarioFolder,
    runs: Vec<String>,
}

impl PendingScenario {
    fn newest(&self) -> &str {
        self.runs.last().map_or("", String::as_str)
    }
}

pub(crate) fn run(arguments: &Args) -> anyhow::Result<ExitCode> {
    let waiting = pending(arguments)?;
    let unaccepted =
        ScenarioFolder::list_unaccepted(goldens(arguments), &arguments.recordings).map_err(explain)?;
    report_unaccepted(&unaccepted);
    let verdict = |is_done: bool| ExitCode::from(if is_done { 0 } else { ExitKind::Verdict as u8 });
    match arguments {
        _ if waiting.is_empty() && !unaccepted.is_empty() => Ok(verdict(arguments.list)),
        Args { all: true, reject, .. } => {
            let code = decide_all(&waiting, *reject);
            Ok(if code == ExitCode::SUCCESS { verdict(unaccepted.is_empty()) } else { code })
        }
        Args { list: true, .. } => {
            print(&list(&waiting));
            Ok(ExitCode::SUCCESS)
        }
        _ if !io::stdin().is_terminal() => {
            print(&list(&waiting));
            Ok(verdict(waiting.is_empty() && unaccepted.is_empty()))
        }
        _ => {
            let (mut input, mut out) = (io::stdin().lock(), io::stderr().lock());
            let terminal = Terminal { input: &mut input, out: &mut out, width: crate::terminal::width() };
            let left = Walk { judge: &RecordingJudge, terminal }.through(&waiting)?;
            Ok(verdict(left == 0 && unaccepted.is_empty()))
        }
    }
}

/// Prints the scenarios without a golden. Their runs have nothing to be compared with.
fn report_unaccepted(unaccepted: &[(ScenarioFolder, String)]) {
    for (folder, newest) in unaccepted {
        let newest = folder.run_dir(newest);
        status!("`{}` has recordings but no golden", folder.dir().display());
        hint!("offshoot accept {}", newest.display());
    }
}

fn goldens(arguments: &Args) -> &Path {
    arguments.goldens.as_deref().unwrap_or(Path::new("goldens"))
}

fn pending(arguments: &Args) -> anyhow::Result<Vec<PendingScenario>> {
    let mut waiting = Vec::new();
    if let Some(given) = arguments.goldens.as_ref().filter(|given| !given.is_dir()) {
        let error = anyhow::anyhow!("there is no folder `{}`", given.display());
        return Err(error).or_fail_with(ExitKind::Usage, || {
            "name the folder that contains HARNESS/VERSION/SCENARIO".into()
        });
    }
    for folder in ScenarioFolder::list_accepted(goldens(arguments), &arguments.recordings).map_err(explain)? {
        let pending = folder.pending().map_err(explain)?;
        for (run, why) in &pending.skipped {
            status!("skipped `{}`: {}", folder.run_dir(run).display(), report::plain(why));
        }
        if !pending.runs.is_empty() {
            waiting.push(PendingScenario { folder, runs: pending.runs });
        }
    }
    Ok(waiting)
}

fn list(waiting: &[PendingScenario]) -> String {
    let line = |waiting: &PendingScenario| match waiting.runs.len() {
        1 => format!("{}\n", waiting.folder.run_dir(waiting.newest()).display()),
        n => format!("{} and {} older\n", waiting.folder.run_dir(waiting.newest()).display(), n - 1),
    };
    match waiting {
        [] => "no pending runs\n".to_owned(),
        waiting => waiting.iter().map(line).collect(),
    }
}

/// Accepts or rejects all pending runs. An error does not stop it, but decides the exit code.
fn decide_all(waiting: &[PendingScenario], reject: bool) -> ExitCode {
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

fn accept_newest(waiting: &PendingScenario) -> anyhow::Result<String> {
    let run = waiting.newest();
    sealed(&waiting.folder.run_dir(run))?;
    accept(&waiting.folder, run)
}

fn reject_runs(waiting: &PendingScenario) -> anyhow::Result<String> {
    let mut said = String::new();
    for run in &waiting.runs {
        waiting.folder.reject(run, SystemTime::now()).map_err(explain)?;
        said += &format!("rejected `{}`\n", waiting.folder.run_dir(run).display());
    }
    Ok(said)
}

#[cfg(test)]
mod tests;
