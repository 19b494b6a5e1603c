//! The tools that every agent has. A new one is a new file and a line in [`builtin`].
//!
//! Files are only reached through the [`Workspace`](crate::Workspace), and the only clock is the context's. But for two
//! they answer the same bytes for the same files, so a run that is done again is the same run. [`web_fetch`] asks others,
//! and what `bash` reaches is held by the [shell](crate::Shell)'s sandbox.

mod bash;
mod edit;
mod get_time;
mod glob;
mod grep;
mod input;
mod job_cancel;
mod job_output;
mod list;
mod manage_tasks;
pub(crate) mod memory;
mod pattern;
mod read;
mod session_info;
mod sessions_search;
mod skill;
mod spawn_sub_agent;
#[cfg(feature = "crash-points")]
mod stamp;
#[cfg(test)]
pub(crate) mod testing;
mod walk;
mod web_fetch;
mod write;

use std::error::Error as _;
use std::sync::{Arc, Weak};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{BoxFuture, Tool, ToolContext, ToolOutput, Workspace, WorkspaceError};

pub(crate) use spawn_sub_agent::{answered, ended, spawned};
pub use web_fetch::Allowed;

/// What starts one.
pub(crate) const SPAWN: &str = "spawn_sub_agent";

/// Calls that a run is called after: a sub-agent, or the fork that follows a skill.
/// What ends a job.
pub(crate) const CANCELLING: &str = "job_cancel";
pub(crate) const STARTING: [&str; 2] = [SPAWN, "skill"];

/// What it takes to have sub-agents; who may have none does not have these either.
pub(crate) const SPAWNING: [&str; 3] = [SPAWN, "job_output", "job_cancel"];

/// What only the main agent has: planning is its own.
pub(crate) const MAIN_ONLY: [&str; 1] = ["manage_tasks"];

/// All of them, as they are where the user has said nothing.
pub fn builtin() -> Vec<Box<dyn Tool>> {
    all(Allowed::default())
}

/// All of them, in the order in which models are told of them. The order is part of what a prompt cache keeps.
fn all(allowed: Allowed) -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(read::Read),
        Box::new(write::Write),
        Box::new(edit::Edit),
        Box::new(list::List),
        Box::new(glob::Glob),
        Box::new(grep::Grep),
        Box::new(bash::Bash),
        Box::new(get_time::GetTime),
        Box::new(web_fetch::WebFetch::new(allowed)),
        Box::new(manage_tasks::ManageTasks),
        Box::new(session_info::SessionInfo),
        Box::new(sessions_search::SessionsSearch),
        Box::new(memory::Memory),
        Box::new(skill::Skill),
        Box::new(spawn_sub_agent::SpawnSubAgent),
        Box::new(job_output::JobOutput),
        Box::new(job_cancel::JobCancel),
    ]
}

/// What a run of this process has: all of them, and in the tests that kill it one that must not happen twice.
pub fn available(allowed: Allowed) -> Vec<Box<dyn Tool>> {
    #[cfg(feature = "crash-points")]
    if std::env::var_os("OFFSHOOT_TEST_TOOLS").is_some() {
        return all(allowed).into_iter().chain([Box::new(stamp::Stamp) as Box<dyn Tool>]).collect();
    }
    all(allowed)
}

/// Why a tool does not do what was asked, in words for the model.
#[derive(Debug)]
struct Refusal(String);

impl From<WorkspaceError> for Refusal {
    fn from(error: WorkspaceError) -> Self {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        Self(format!("{error}{cause}"))
    }
}

impl From<store::StoreError> for Refusal {
    fn from(error: store::StoreError) -> Self {
        Self(error.to_string())
    }
}

impl From<Refusal> for ToolOutput {
    fn from(refusal: Refusal) -> Self {
        Self::error(refusal.0)
    }
}

/// Tells work that nobody waits for it any more.
struct Stop(Weak<()>);

impl Stop {
    fn is_asked(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Checks the input and does the work on a thread that may block. When the call is dropped, the work is told.
fn run<'a, A: DeserializeOwned + Send + 'static>(
    tool: &'a dyn Tool,
    input: &'a Value,
    context: &'a ToolContext,
    work: fn(&A, &Workspace, &Stop) -> Result<ToolOutput, Refusal>,
) -> BoxFuture<'a, ToolOutput> {
    run_in(tool, input, context, move |args: &A, context, stop| work(args, &context.workspace, stop))
}

/// The same for work that needs to know more than the files.
fn run_in<'a, A: DeserializeOwned + Send + 'static>(
    tool: &'a dyn Tool,
    input: &'a Value,
    context: &'a ToolContext,
    work: impl FnOnce(&A, &ToolContext, &Stop) -> Result<ToolOutput, Refusal> + Send + 'static,
) -> BoxFuture<'a, ToolOutput> {
    Box::pin(async move {
        let args: A = match input::parse(tool, input) {
            Ok(args) => args,
            Err(refusal) => return refusal.into(),
        };
        let context = context.clone();
        let waiting = Arc::new(());
        let stop = Stop(Arc::downgrade(&waiting));
        let done = tokio::task::spawn_blocking(move || work(&args, &context, &stop)).await;
        drop(waiting);
        match done {
            Ok(Ok(output)) => output,
            Ok(Err(refusal)) => refusal.into(),
            Err(_) => ToolOutput::error(format!("`{}` broke off before it was done", tool.name())),
        }
    })
}

/// Cuts a line that is longer than `most` characters, from `from` on, and says so.
fn cut(line: &str, from: usize, most: usize) -> String {
    let length = line.chars().count();
    if length <= most {
        return line.to_owned();
    }
    let from = from.min(length - most);
    let kept: String = line.chars().skip(from).take(most).collect();
    let before = if from == 0 { "" } else { "…" };
    let after = if from + most == length { "" } else { "…" };
    format!("{before}{kept}{after} [cut: the line has {length} characters]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_say_what_every_tool_takes() {
        let docs = include_str!("../../../../docs/guide/run.md");
        for tool in builtin() {
            let schema: serde_json::Value = serde_json::from_str(tool.schema()).expect("a schema");
            let needed: Vec<&str> = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|name| name.as_str())
                .collect();
            let names = schema["properties"].as_object().expect("properties").keys();
            let sign = |name: &String| if needed.contains(&name.as_str()) { "" } else { "?" };
            let mut takes: Vec<String> = names.map(|name| format!("{name}{}", sign(name))).collect();
            takes.sort();
            let line = docs.lines().find_map(|line| line.strip_prefix(&format!("{} {{", tool.name())));
            let line =
                line.unwrap_or_else(|| panic!("docs/guide/run.md does not say what `{}` takes", tool.name()));
            let told = line.trim_end_matches('}').split(", ").filter(|name| !name.is_empty());
            let mut told: Vec<&str> = told.collect();
            told.sort_unstable();
            assert_eq!(told, takes, "`{}`", tool.name());
        }
    }
}
