//! Runs the command of a hook, and reads its answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Hook;
use super::answer::{HookEnd, HookReply};
use super::workspace_names::{self, is_inside, names_workspace_file};
use crate::shell::{CommandEnd, HookCommand, Processes};

/// Maximum length of the outputs of a hook. More is a failure.
const MAX_OUTPUT: usize = 2 << 20;

/// Variables that a hook outside of the sandbox gets. Keys of providers are not among them.
const PASSED_VARIABLES: &[&str] = &["HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "TMPDIR"];

/// Asks a hook. Its processes end when the future is dropped. An error says why there is no answer.
pub(crate) async fn ask(
    hook: &Hook,
    request: &Value,
    processes: &Processes,
    workspace: &Path,
) -> Result<HookReply, String> {
    let end = run(hook, request.to_string(), processes, workspace).await?;
    HookReply::read(hook.point, &end)
}

async fn run(hook: &Hook, input: String, processes: &Processes, workspace: &Path) -> Result<HookEnd, String> {
    let folder = hook.file.parent().unwrap_or(Path::new("/"));
    let is_sandboxed = hook.is_sandboxed || names_workspace_file(&hook.command, folder, workspace);
    let mut env: BTreeMap<String, String> = workspace_names::VARIABLES
        .iter()
        .map(|name| ((*name).to_owned(), workspace.display().to_string()))
        .collect();
    let outside = (!is_sandboxed).then(|| folder.to_owned());
    if outside.is_some() {
        let passed =
            PASSED_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        env.extend(passed);
        env.insert("PATH".to_owned(), search_path(workspace));
    }
    let command = HookCommand { script: script(&hook.command), input, env, outside };
    let mut started =
        processes.start_hook(&command, workspace).await.map_err(|why| format!("it did not run: {why}"))?;
    let (mut output, mut is_long) = (Vec::new(), false);
    let ended = tokio::time::timeout(
        hook.timeout,
        started.finish(|bytes| match output.len() + bytes.len() > MAX_OUTPUT {
            true => is_long = true,
            false => output.extend_from_slice(bytes),
        }),
    )
    .await;
    match ended {
        Err(_) => Err(format!("it took longer than {} s and was ended", hook.timeout.as_secs())),
        Ok(_) if is_long => Err(format!("it printed more than {} MiB", MAX_OUTPUT >> 20)),
        Ok(CommandEnd::Exited(code)) => Ok(split(code, &output)),
        Ok(other) => Err(other.describe()),
    }
}

/// Returns a script that runs a command and prints its standard error, a NUL byte, and its standard output. The sandbox has one
/// output for both.
fn script(command: &str) -> String {
    let quoted = format!("'{}'", command.replace('\'', r"'\''"));
    format!(
        "exec 3>&1; out=$(\"${{BASH:-/bin/sh}}\" -c {quoted} 2>&3 3>&-); code=$?; printf '\\0%s' \"$out\"; exit $code"
    )
}

fn split(code: i32, output: &[u8]) -> HookEnd {
    // The standard output in the script has no NUL byte, so the last one is ours.
    let at = output.iter().rposition(|byte| *byte == 0);
    let (stderr, stdout) = at.map_or((output, &[][..]), |at| (&output[..at], &output[at + 1..]));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    HookEnd { code, stdout: text(stdout), stderr: text(stderr) }
}

/// Returns the folders to search for programs, without those that an agent can write.
fn search_path(workspace: &Path) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_outside = |folder: &PathBuf| folder.is_absolute() && !is_inside(folder, workspace);
    let folders = std::env::split_paths(&path).filter(is_outside);
    std::env::join_paths(folders).unwrap_or_default().to_string_lossy().into_owned()
}
