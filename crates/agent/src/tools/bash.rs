//! `bash`: runs a command, in a box.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use store::Millis;

use super::input;
use crate::shell::{Disarmed, Ending, Guard, Started, TOO_MANY};
use crate::workspace::shown;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// How long a command may take where nobody says how long.
const USUAL: Duration = Duration::from_secs(120);
/// The longest that one may ask for, as the schema says.
const LONGEST: Duration = Duration::from_secs(600);
/// How long all of it may take to be gone, and to be looked through.
const BURIAL: Duration = Duration::from_secs(45);
/// The longest command: the system takes 128 KiB.
const MAX_COMMAND: usize = 100_000;
/// How much of a long output is kept of its beginning, and of its end.
const KEPT: usize = 32 << 10;
/// How many of the protected places that it made are named.
const TOLD: usize = 20;
/// How much a command in the background may write down.
const LOG: u64 = 16 << 20;

/// Runs a command.
pub(super) struct Bash;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    command: String,
    timeout_s: Option<u64>,
    background: Option<bool>,
    #[serde(rename = "description")]
    _description: Option<String>,
}

impl Tool for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Runs a command in bash, in the workspace. It can read the system and its tools, write below the workspace and in \
         $TMPDIR, and nothing else: no network, no sockets of other programs, and `.git`, `.envrc`, `.vscode` and the settings \
         of agents cannot be written. Each call begins afresh, and whatever it leaves running is ended with it; with \
         `background` a command goes on until the run ends, and the answer names the file with its output."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""command":{"type":"string","description":"The command."},"#,
            r#""timeout_s":{"type":"integer","minimum":1,"maximum":600,"description":"After how many seconds it is ended; without it, 120."},"#,
            r#""background":{"type":"boolean","description":"Does not wait for it."},"#,
            r#""description":{"type":"string","description":"What it is for, in a few words for the user."}"#,
            r#"},"required":["command"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Unsafe
    }

    fn deadline(&self) -> Duration {
        LONGEST + Duration::from_secs(60) // its own limit comes first
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
    if let Err(error) = context.workspace.check() {
        return ToolOutput::error(error.to_string());
    }
    let workspace = context.workspace.path().to_owned();
    let guard = match context.processes.are_free() {
        true => None,
        false => tokio::task::spawn_blocking(move || Guard::look(&workspace)).await.ok().map(Arc::new),
    };
    let mut started = match context.processes.start(&args.command, context.workspace.path(), guard).await {
        Ok(started) => started,
        Err(why) => return ToolOutput::error(not_run(&why)),
    };
    if args.background == Some(true) {
        return background(started, context).await;
    }
    let limit = args.timeout_s.map_or(USUAL, Duration::from_secs).min(LONGEST);
    let mut kept = Kept::default();
    let ended = tokio::time::timeout(limit, started.finish(|bytes| kept.take(bytes))).await;
    let (ending, in_time) = match ended {
        Ok(ending) => (ending, true),
        Err(_) => {
            drop(started.lifeline);
            drop(started.output);
            (Ending::Lost, false)
        }
    };
    let looked = tokio::time::timeout(BURIAL, started.disarmed).await;
    // Nobody knows what it made, so nothing of it is to be trusted.
    let all = || vec![Disarmed { made: context.workspace.path().to_owned(), to: None }];
    let disarmed = looked.ok().and_then(Result::ok).unwrap_or_else(all);
    let mut said = told(&disarmed, context.workspace.path());
    if !disarmed.is_empty() && context.processes.have_background() {
        said.push("that may have been made by a command in the background, and not by this one".to_owned());
    }
    answer(&ending, in_time.then_some(()).ok_or(limit), &kept.text(), (said, disarmed.len()))
}

/// What was made that is protected, in words.
fn told(disarmed: &[Disarmed], workspace: &Path) -> Vec<String> {
    let mut parts: Vec<String> = disarmed.iter().take(TOLD).map(|made| made.in_words(workspace)).collect();
    if disarmed.len() > TOLD {
        parts.push(format!("and {} more like these", disarmed.len() - TOLD));
    }
    parts
}

fn not_run(why: &str) -> String {
    format!(
        "the command was not run: {why}. Commands only run in a sandbox; the user can allow them without one, with \
         `sandbox = \"off\"` in their own `offshoot.toml`"
    )
}

async fn background(started: Started, context: &ToolContext) -> ToolOutput {
    let id = format!("p{}", started.process.pid);
    let kept = async {
        let log = context.processes.tmp().map_err(|error| error.to_string())?.join(format!("{id}.log"));
        // Commands can write in that folder: what is there already, or a link, is not for us to follow.
        let mut new = tokio::fs::File::options();
        let file = new.write(true).create_new(true).open(&log).await.map_err(|error| error.to_string())?;
        let at = Millis(context.now.timestamp().as_millisecond());
        context
            .processes
            .keep(context.call.run.clone(), (&id, context.workspace.path()), started, file, LOG, at)
            .await
            .map(|()| log)
    };
    match kept.await {
        Ok(log) => ToolOutput::text(format!(
            "`{id}` runs in the background until the run ends; what it says is in `{}`, which `bash` can read",
            shown(&log)
        )),
        Err(why) => ToolOutput::error(not_run(&why)),
    }
}

fn answer(
    ending: &Ending,
    in_time: Result<(), Duration>,
    text: &str,
    (mut parts, disarmed): (Vec<String>, usize),
) -> ToolOutput {
    match (ending, in_time) {
        (_, Err(limit)) => parts.push(format!(
            "the command took longer than {} s and was ended, with everything it had started",
            limit.as_secs()
        )),
        (Ending::Exited(0), Ok(())) if text.is_empty() && disarmed == 0 => {
            parts.push("it ended well, and said nothing".to_owned())
        }
        (Ending::Exited(0), Ok(())) => {}
        (Ending::Lost, Ok(())) if disarmed >= TOO_MANY => parts.push(
            "it made protected places again and again, and was ended; repositories for tests belong in $TMPDIR"
                .to_owned(),
        ),
        (ending, Ok(())) => parts.push(ending.in_words()),
    }
    if !text.is_empty() {
        parts.push(text.to_owned());
    }
    let well = *ending == Ending::Exited(0) && in_time.is_ok() && disarmed == 0;
    ToolOutput { is_error: !well, ..ToolOutput::text(parts.join("\n\n")) }
}

/// The beginning and the end of an output.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    left_out: u64,
}

impl Kept {
    fn take(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(KEPT - self.head.len()));
        self.head.extend(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(KEPT);
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
        let mut kept = Kept::default();
        for piece in ["begin", &"x".repeat(KEPT), &"y".repeat(KEPT), "end\n"] {
            kept.take(piece.as_bytes());
        }
        let text = kept.text();
        assert!(text.starts_with("beginx") && text.ends_with("yend"), "{}", &text[..20]);
        assert!(text.contains("[9 bytes are left out here]"), "{}", kept.left_out);
        let mut short = Kept::default();
        short.take(b"one\ntwo\n");
        assert_eq!(short.text(), "one\ntwo");
    }

    #[tokio::test]
    async fn a_command_that_cannot_be_run_says_why_and_what_the_user_can_do() {
        let yard = crate::tools::testing::Yard::new(&[]);
        let answer = yard.ask("bash", serde_json::json!({"command": "touch made"})).await;
        assert!(
            answer.starts_with("error: the command was not run: ") && answer.contains("sandbox = \"off\""),
            "{answer}"
        );
        let answer = yard.ask("bash", serde_json::json!({"command": "x".repeat(MAX_COMMAND + 1)})).await;
        assert!(answer.contains("can be written to a file"), "{answer}");
        assert!(!yard.root.join("made").exists());
    }

    #[test]
    fn every_end_says_what_happened() {
        let said = |ending, in_time| {
            let output = answer(&ending, in_time, "words", (Vec::new(), 0));
            format!("{} {}", output.is_error, crate::tools::testing::answer(&output).replace("\n\n", " | "))
        };
        assert_eq!(said(Ending::Exited(0), Ok(())), "false words");
        assert_eq!(said(Ending::Exited(2), Ok(())), "true exit code 2 | words");
        assert_eq!(said(Ending::Exited(139), Ok(())), "true exit code 139, as after signal 11 | words");
        assert_eq!(
            said(Ending::Lost, Err(Duration::from_secs(3))),
            "true the command took longer than 3 s and was ended, with everything it had started | words"
        );
    }
}
