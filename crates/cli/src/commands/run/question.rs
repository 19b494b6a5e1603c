//! Asks the user at the terminal for permission.

use std::path::PathBuf;
use std::sync::Arc;

use super::board::Board;
use crate::settings;
use agent::{Approver, BoxFuture, PermissionAnswer, PermissionQuestion};
use report::plain;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

/// The user at a terminal.
pub(super) struct TerminalAsker {
    pub(super) board: Board,
    /// The folder that permanent answers are for.
    pub(super) workspace: PathBuf,
}

impl Approver for TerminalAsker {
    fn ask<'a>(&'a self, question: &'a PermissionQuestion) -> BoxFuture<'a, PermissionAnswer> {
        Box::pin(async move {
            let _hidden = HiddenBoard::new(&self.board);
            // Text that was typed before the question is no answer to it.
            let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
            status!("{}", text(question, &self.permanent(question)));
            let answer = read_answer(!question.always.is_empty()).await;
            if answer == PermissionAnswer::Always {
                self.remember(&question.always);
            }
            answer
        })
    }
}

impl TerminalAsker {
    /// Describes the rules that the answer `always` writes, and the file.
    fn permanent(&self, question: &PermissionQuestion) -> String {
        let (Ok(file), false) = (settings::own_settings(), question.always.is_empty()) else {
            return String::new();
        };
        let rules: Vec<String> = question.always.iter().map(|rule| format!("  {}\n", plain(rule))).collect();
        let (workspace, file) = (self.workspace.display().to_string(), file.display().to_string());
        format!("`always` allows in {}, by {}:\n{}", plain(&workspace), plain(&file), rules.concat())
    }

    fn remember(&self, rules: &[String]) {
        match settings::remember_rules(&self.workspace, rules) {
            Ok(()) => status!("added to your settings"),
            Err(error) => warning!("allowed for this run only: {error:#}"),
        }
    }
}

/// Hides the lines of sub-agents until it is dropped, also when the question is abandoned.
struct HiddenBoard<'a>(&'a Board);

impl<'a> HiddenBoard<'a> {
    fn new(board: &'a Board) -> Self {
        board.hide();
        Self(board)
    }
}

impl Drop for HiddenBoard<'_> {
    fn drop(&mut self) {
        self.0.show();
    }
}

async fn read_answer(has_always: bool) -> PermissionAnswer {
    loop {
        let line = read_line().await.unwrap_or_default();
        match line.trim().to_lowercase().as_str() {
            "o" | "once" | "y" | "yes" => return PermissionAnswer::Yes,
            "a" | "always" if has_always => return PermissionAnswer::Always,
            "n" | "no" => return PermissionAnswer::No("the user said no".to_owned()),
            "" if !line.ends_with('\n') => return PermissionAnswer::No("the user gave no answer".to_owned()),
            _ => status!("{}:", choices(has_always)),
        }
    }
}

fn choices(has_always: bool) -> &'static str {
    if has_always { "once, always or no" } else { "once or no" }
}

/// Interval between checks that the question is still open.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Reads the next line. If the question is abandoned, the line is left for the next reader.
async fn read_line() -> std::io::Result<String> {
    let waiting = Arc::new(());
    let question = Arc::downgrade(&waiting);
    let typed = tokio::task::spawn_blocking(move || {
        let stdin = std::io::stdin();
        while question.strong_count() > 0 {
            let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
            if poll(&mut ready, Some(&POLL_INTERVAL))? > 0 {
                let mut line = String::new();
                return stdin.read_line(&mut line).map(|_| line);
            }
        }
        Ok(String::new())
    });
    let line = typed.await.map_err(std::io::Error::other)?;
    drop(waiting);
    line
}

/// Formats the question with the exact action, escaped for the terminal. `permanent` describes the answer `always`.
fn text(question: &PermissionQuestion, permanent: &str) -> String {
    let mut text = format!(
        "\n{} wants to call {}: {}\n",
        plain(&question.agent),
        plain(&question.tool),
        plain(&question.why)
    );
    let input: Value = serde_json::from_str(&question.input).unwrap_or(Value::Null);
    let shown = match (input.get("command").and_then(Value::as_str), &input) {
        (Some(command), Value::Object(fields)) if question.tool == "bash" => {
            let others = fields.iter().filter(|(name, _)| *name != "command").map(field);
            format!("{command}\n{}", others.collect::<String>())
        }
        (_, Value::Null) => question.input.clone(),
        (_, Value::Object(fields)) => fields.iter().map(field).collect(),
        (_, input) => input.to_string(),
    };
    for line in shown.trim_end_matches('\n').split('\n') {
        text += &format!("  | {}\n", report::visible(line));
    }
    format!("{text}{permanent}allow? {}:", choices(!question.always.is_empty()))
}

/// Formats one field of an input, with the lines of a long text.
fn field((name, value): (&String, &Value)) -> String {
    match value.as_str().filter(|text| text.contains('\n')) {
        Some(text) => format!("{name}:\n{text}\n"),
        None => format!("{name}: {value}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_shows_the_exact_command() {
        let question = |tool: &str, input: &str| PermissionQuestion {
            agent: "main".to_owned(),
            tool: tool.to_owned(),
            input: input.to_owned(),
            why: "the rule `bash` asks first".to_owned(),
            always: Vec::new(),
        };
        let shown = text(&question("bash", r#"{"command":"ls\u001b[2K\nrm -rf \u202e/"}"#), "");
        assert_eq!(
            shown,
            "\nmain wants to call bash: the rule `bash` asks first\n  | ls\\u{1b}[2K\n  | rm -rf \\u{202e}/\n\
             allow? once or no:"
        );
        let shown = text(&question("write", r#"{"path":"a","content":"b\nc"}"#), "");
        assert!(
            shown.contains("  | path: \"a\"\n") && shown.contains("  | content:\n  | b\n  | c\n"),
            "{shown}"
        );
    }
}
