//! `offshoot tasks`: what main agents have planned.

use std::process::ExitCode;

use serde_json::{Value, json};
use store::{Store, Task, Thread};

use super::Format;
use crate::failure::{Kind, OrFail};
use crate::journal;
use crate::terminal::{DEFAULT_WIDTH, print};

/// How many conversations are looked at where none is named.
const USUAL: usize = 200;

/// What comes before a result, below the subject of its task.
const RESULT: &str = "                        → ";

/// List the tasks that our agents have planned
///
/// Below a task stands the first line of what came of it; `--format json` has all of it.
///
/// Without a name, those of all conversations that have some, the newest first.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot tasks
  offshoot tasks 1m7g0c8g --format json")]
pub(crate) struct Arguments {
    /// A conversation, or one of its runs; the beginning of its id is enough
    #[arg(value_name = "THREAD|RUN")]
    of: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let store = journal::open()?;
    let threads = match &arguments.of {
        Some(of) => vec![find(&store, of)?],
        None => store.main().threads(USUAL).or_fail(Kind::Outside)?,
    };
    let mut all = Vec::new();
    for thread in threads {
        let tasks = store.main().tasks(&thread.id).or_fail(Kind::Outside)?;
        if !tasks.is_empty() || arguments.of.is_some() {
            all.push((thread, tasks));
        }
    }
    print(&match arguments.format {
        Format::Text => text(&all),
        Format::Json => format!("{}\n", report::harmless_json(&json(&all))),
    });
    Ok(ExitCode::SUCCESS)
}

/// The conversation of that name, or the one of the run of that name.
fn find(store: &Store, of: &str) -> anyhow::Result<Thread> {
    let threads = store.main().threads(usize::MAX).or_fail(Kind::Outside)?;
    let found: Vec<&Thread> =
        threads.iter().filter(|thread| !of.is_empty() && thread.id.as_str().starts_with(of)).collect();
    if let [thread] = found[..] {
        return Ok(thread.clone());
    }
    let run = journal::find(store, of)?;
    let thread = store.run(&run).row().or_fail(Kind::Outside)?.thread;
    let thread = threads.into_iter().find(|known| known.id == thread);
    thread.ok_or_else(|| anyhow::anyhow!("the run `{run}` has no conversation")).or_fail(Kind::Bug)
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
        for task in tasks {
            let status = task.status.as_str();
            let line = format!(
                "  {:<8} {status:<12} {}",
                agent::tasks::display_name(task),
                report::plain(&task.subject)
            );
            text += &report::fit(&line, crate::terminal::width());
            text.push('\n');
            let result =
                task.result.as_deref().and_then(|result| result.lines().find(|line| !line.trim().is_empty()));
            if let Some(result) = result {
                text += &report::fit(
                    &format!("{RESULT}{}", report::plain(result)),
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
