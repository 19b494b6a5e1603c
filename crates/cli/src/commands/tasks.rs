//! `offshoot tasks`: lists the tasks that main agents planned.

use std::process::ExitCode;

use serde_json::{Value, json};
use store::{Store, Task, Thread};

use super::Format;
use crate::failure::{ExitKind, OrFail};
use crate::journal;
use crate::terminal::{DEFAULT_WIDTH, print_text};

/// Number of conversations that are listed if none is named.
const MAX_THREADS: usize = 200;

/// List the tasks that our agents planned
///
/// Each task is followed by the first line of its result; `--format json` prints the whole result. Without a name, the
/// command lists the tasks of all conversations, newest first.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot tasks
  offshoot tasks 1m7g0c8g --format json")]
pub(crate) struct Args {
    /// A conversation or one of its runs; the beginning of the id is enough
    #[arg(value_name = "THREAD|RUN")]
    of: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let store = journal::open()?;
    let threads = match &args.of {
        Some(of) => vec![find_thread(&store, of)?],
        None => store.main().threads(MAX_THREADS).or_fail(ExitKind::Outside)?,
    };
    let mut all = Vec::new();
    for thread in threads {
        let tasks = store.main().tasks(&thread.id).or_fail(ExitKind::Outside)?;
        if !tasks.is_empty() || args.of.is_some() {
            all.push((thread, tasks));
        }
    }
    print_text(&match args.format {
        Format::Text => text(&all),
        Format::Json => format!("{}\n", report::harmless_json(&json(&all))),
    });
    Ok(ExitCode::SUCCESS)
}

/// Finds a conversation by its id, or by the id of one of its runs.
fn find_thread(store: &Store, of: &str) -> anyhow::Result<Thread> {
    let threads = store.main().threads(usize::MAX).or_fail(ExitKind::Outside)?;
    let found: Vec<&Thread> =
        threads.iter().filter(|thread| !of.is_empty() && thread.id.as_str().starts_with(of)).collect();
    if let [thread] = found[..] {
        return Ok(thread.clone());
    }
    let run = journal::find_run(store, of)?;
    let thread = store.run(&run).row().or_fail(ExitKind::Outside)?.thread;
    let thread = threads.into_iter().find(|known| known.id == thread);
    thread.ok_or_else(|| anyhow::anyhow!("the run `{run}` has no conversation")).or_fail(ExitKind::Bug)
}

fn text(all: &[(Thread, Vec<Task>)]) -> String {
    if all.iter().all(|(_, tasks)| tasks.is_empty()) {
        return "no tasks\n".to_owned();
    }
    let mut text = String::new();
    for (thread, tasks) in all {
        let title = report::plain(&thread.title);
        text += &report::fit(&format!("{} {title}", thread.id), crate::terminal::width());
        text.push('\n');
        let names: Vec<String> = tasks.iter().map(agent::tasks::display_name).collect();
        let column = names.iter().map(String::len).max().unwrap_or_default();
        for (task, name) in tasks.iter().zip(&names) {
            let status = task.status.as_str();
            let line = format!("  {name:<column$} {status:<12} {}", report::plain(&task.subject));
            text += &report::fit(&line, crate::terminal::width());
            text.push('\n');
            let result =
                task.result.as_deref().and_then(|result| result.lines().find(|line| !line.trim().is_empty()));
            if let Some(result) = result {
                let indent = " ".repeat(column + 16);
                text += &report::fit(
                    &format!("{indent}→ {}", report::plain(result)),
                    crate::terminal::width().min(DEFAULT_WIDTH),
                );
                text.push('\n');
            }
        }
    }
    text
}

fn json(all: &[(Thread, Vec<Task>)]) -> Value {
    let task = |task: &Task| {
        json!({
            "id": agent::tasks::display_name(task), "subject": task.subject, "description": task.description,
            "status": task.status.as_str(), "result": task.result,
        })
    };
    let thread = |(thread, tasks): &(Thread, Vec<Task>)| {
        json!({
            "thread": thread.id.as_str(), "title": thread.title, "workspace": thread.workspace,
            "tasks": tasks.iter().map(task).collect::<Vec<_>>(),
        })
    };
    json!({ "format": 1, "threads": all.iter().map(thread).collect::<Vec<_>>() })
}
