//! `bash`: runs a command in the sandbox.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use store::Millis;

use super::input;
use crate::shell::{CommandEnd, DisarmedPlace, MAX_DISARMED, RunningCommand};
use crate::workspace::display_path;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// Default time limit of a command.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time limit, as in the schema.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum time for all processes to end and for their changes to be scanned.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(45);
/// Longest command. The system accepts 128 KiB.
const MAX_COMMAND: usize = 100_000;
/// Kept length of a long output, for its beginning and for its end.
const KEPT_BYTES: usize = 32 << 10;
/// Maximum number of created protected places that an answer names.
const MAX_NAMED: usize = 20;
/// Maximum log size of a background command.
const MAX_LOG: u64 = 16 << 20;

/// The tool `bash`.
pub(super) struct BashTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    command: String,
    timeout_s: Option<u64>,
    background: Option<bool>,
    #[serde(rename = "description")]
    _description: Option<String>,
}

impl Tool for BashTool {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Runs a command in bash, in the workspace. It can read the system and its tools, write below the workspace and in \
         $TMPDIR, and nothing else: no network, no sockets of other programs, and `.git`, `.envrc`, `.vscode` and the settings \
         of agents cannot be written. Each call starts a new shell, and all processes that are left at its end are killed; with \
         `background` a command keeps running until the run ends, and the answer names the file with its output."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""command":{"type":"string","description":"The command."},"#,
            r#""timeout_s":{"type":"integer","minimum":1,"maximum":600,"description":"Time limit in seconds; the default is 120."},"#,
            r#""background":{"type":"boolean","description":"Do not wait for the command."},"#,
            r#""description":{"type":"string","description":"Purpose of the command, in a few words for the user."}"#,
            r#"},"required":["command"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Unsafe
    }

    fn deadline(&self) -> Duration {
        MAX_TIMEOUT + Duration::from_secs(60) // the command's own limit comes first
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match input::parse::<Args>(self, input) {
                Ok(args) => run(&args, context).await,
                Err(refusal) => refusal.into(),
            }
        })
    }
}

async fn run(args: &Args, context: &ToolContext) -> ToolOutput {
    if args.command.contains('\0') || args.command.len() > MAX_COMMAND {
        return ToolOutput::error(format!(
            "a command has at most {MAX_COMMAND} bytes, and no NUL byte; a longer one can be written to a file and run from there"
        ));
    }
    if let Err(error) = context.workspace.check_root() {
        return ToolOutput::error(error.to_string());
    }
    let mut started = match context.processes.start(&args.command, context.workspace.path()).await {
        Ok(started) => started,
        Err(why) => return ToolOutput::error(not_run(&why)),
    };
    if args.background == Some(true) {
        return background(started, context).await;
    }
    let limit = args.timeout_s.map_or(DEFAULT_TIMEOUT, Duration::from_secs).min(MAX_TIMEOUT);
    let mut kept = OutputBuffer::default();
    let ended = tokio::time::timeout(limit, started.finish(|bytes| kept.push(bytes))).await;
    let (ending, in_time) = match ended {
        Ok(ending) => (ending, true),
        Err(_) => {
            drop(started.kill_on_drop);
            drop(started.output);
            (CommandEnd::Lost, false)
        }
    };
    let looked = tokio::time::timeout(CLEANUP_TIMEOUT, started.disarmed).await;
    // Unknown changes count as untrusted.
    let all = || vec![DisarmedPlace { made: context.workspace.path().to_owned(), to: None }];
    let disarmed = looked.ok().and_then(Result::ok).unwrap_or_else(all);
    let mut said = describe_disarmed(&disarmed, context.workspace.path());
    if !disarmed.is_empty() && context.processes.has_background() {
        said.push("a background command may have created it, not this one".to_owned());
    }
    to_output(&ending, in_time.then_some(()).ok_or(limit), &kept.text(), (said, disarmed.len()))
}

/// Describes the protected places that a command has created.
fn describe_disarmed(disarmed: &[DisarmedPlace], workspace: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        disarmed.iter().take(MAX_NAMED).map(|made| made.describe(workspace)).collect();
    if disarmed.len() > MAX_NAMED {
        parts.push(format!("and {} more like these", disarmed.len() - MAX_NAMED));
    }
    parts
}

fn not_run(why: &str) -> String {
    format!(
        "the command was not run: {why}. Commands only run in a sandbox; the user can allow them without one, with \
         `sandbox = \"off\"` in their own `offshoot.toml`"
    )
}

async fn background(started: RunningCommand, context: &ToolContext) -> ToolOutput {
    let id = format!("p{}", started.process.pid);
    let kept = async {
        let log =
            context.processes.temp_folder().map_err(|error| error.to_string())?.join(format!("{id}.log"));
        // Commands can write in that folder, so an existing file or link is not opened.
        let mut new = tokio::fs::File::options();
        let file = new.write(true).create_new(true).open(&log).await.map_err(|error| error.to_string())?;
        let at = Millis(context.now.timestamp().as_millisecond());
        context
            .processes
            .run_in_background(
                context.call.run.clone(),
                (&id, context.workspace.path()),
                started,
                file,
                MAX_LOG,
                at,
            )
            .await
            .map(|()| log)
    };
    match kept.await {
        Ok(log) => ToolOutput::text(format!(
            "`{id}` runs in the background until the run ends; its output is in `{}`, which `bash` can read",
            display_path(&log)
        )),
        Err(why) => ToolOutput::error(not_run(&why)),
    }
}

fn to_output(
    ending: &CommandEnd,
    in_time: Result<(), Duration>,
    text: &str,
    (mut parts, disarmed): (Vec<String>, usize),
) -> ToolOutput {
    match (ending, in_time) {
        (_, Err(limit)) => parts.push(format!(
            "the command took longer than {} s and was ended with all its processes",
            limit.as_secs()
        )),
        (CommandEnd::Exited(0), Ok(())) if text.is_empty() && disarmed == 0 => {
            parts.push("it succeeded without output".to_owned())
        }
        (CommandEnd::Exited(0), Ok(())) => {}
        (CommandEnd::Lost, Ok(())) if disarmed >= MAX_DISARMED => parts.push(
            "it kept creating protected places and was ended; create test repositories in $TMPDIR".to_owned(),
        ),
        (ending, Ok(())) => parts.push(ending.describe()),
    }
    if !text.is_empty() {
        parts.push(text.to_owned());
    }
    let well = *ending == CommandEnd::Exited(0) && in_time.is_ok() && disarmed == 0;
    ToolOutput { is_error: !well, ..ToolOutput::text(parts.join("\n\n")) }
}

/// Buffer that keeps the beginning and the end of an output.
#[derive(Default)]
struct OutputBuffer {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    left_out: u64,
}

impl OutputBuffer {
    fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(KEPT_BYTES - self.head.len()));
        self.head.extend(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(KEPT_BYTES);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    fn text(&self) -> String {
        let (head, tail) = (String::from_utf8_lossy(&self.head), Vec::from_iter(self.tail.iter().copied()));
        let tail = String::from_utf8_lossy(&tail);
        let text = match self.left_out {
            0 => format!("{head}{tail}"),
            left_out => format!("{head}\n\n[{left_out} bytes are left out here]\n\n{tail}"),
        };
        text.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_both_ends() {
        let mut kept = OutputBuffer::default();
        for piece in ["begin", &"x".repeat(KEPT_BYTES), &"y".repeat(KEPT_BYTES), "end\n"] {
            kept.push(piece.as_bytes());
        }
        let text = kept.text();
        assert!(text.starts_with("beginx") && text.ends_with("yend"), "{}", &text[..20]);
        assert!(text.contains("[9 bytes are left out here]"), "{}", kept.left_out);
        let mut short = OutputBuffer::default();
        short.push(b"one\ntwo\n");
        assert_eq!(short.text(), "one\ntwo");
    }

    #[tokio::test]
    async fn an_impossible_command_explains_the_reason_and_the_remedy() {
        let fixture = crate::testing::TestWorkspace::new(&[]);
        let answer = fixture.ask("bash", serde_json::json!({"command": "touch made"})).await;
        assert!(
            answer.starts_with("error: the command was not run: ") && answer.contains("sandbox = \"off\""),
            "{answer}"
        );
        let answer = fixture.ask("bash", serde_json::json!({"command": "x".repeat(MAX_COMMAND + 1)})).await;
        assert!(answer.contains("can be written to a file"), "{answer}");
        assert!(!fixture.root.join("made").exists());
    }

    #[test]
    fn every_exit_is_described() {
        let said = |ending, in_time| {
            let output = to_output(&ending, in_time, "words", (Vec::new(), 0));
            format!("{} {}", output.is_error, crate::testing::format_output(&output).replace("\n\n", " | "))
        };
        assert_eq!(said(CommandEnd::Exited(0), Ok(())), "false words");
        assert_eq!(said(CommandEnd::Exited(2), Ok(())), "true exit code 2 | words");
        assert_eq!(said(CommandEnd::Exited(139), Ok(())), "true exit code 139 (as after signal 11) | words");
        assert_eq!(
            said(CommandEnd::Lost, Err(Duration::from_secs(3))),
            "true the command took longer than 3 s and was ended with all its processes | words"
        );
    }
}
