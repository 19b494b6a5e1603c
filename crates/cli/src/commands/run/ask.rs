//! Questions to whoever sits at the terminal.

use std::sync::Arc;

use super::board::Board;
use agent::{Answer, Asker, BoxFuture, Question};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

/// Somebody at a terminal.
pub(super) struct Terminal(pub(super) Board);

impl Asker for Terminal {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let _shown = Hidden::behind(&self.0);
            // Whatever was typed before nobody has asked for: it is no answer to this.
            let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
            eprintln!("{}", text(question));
            answer().await
        })
    }
}

/// The lines of the others are away for as long as this lives, also where nobody waits for the answer any more.
struct Hidden<'a>(&'a Board);

impl<'a> Hidden<'a> {
    fn behind(board: &'a Board) -> Self {
        board.hide();
        Self(board)
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        self.0.show();
    }
}

async fn answer() -> Answer {
    loop {
        let line = line().await.unwrap_or_default();
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return Answer::Yes,
            "n" | "no" => return Answer::No("the user said no".to_owned()),
            "" if !line.ends_with('\n') => return Answer::No("nobody answered".to_owned()),
            _ => eprintln!("y or n:"),
        }
    }
}

/// How long nobody looks whether the question is still asked.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The next line that is typed. Whoever stops waiting leaves it to whoever reads next.
async fn line() -> std::io::Result<String> {
    let waiting = Arc::new(());
    let asked = Arc::downgrade(&waiting);
    let typed = tokio::task::spawn_blocking(move || {
        let stdin = std::io::stdin();
        while asked.strong_count() > 0 {
            let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
            if poll(&mut ready, Some(&LOOK))? > 0 {
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

/// The question: exactly what would be done, with nothing in it that moves the cursor.
fn text(question: &Question) -> String {
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
    text + "let it? y or n:"
}

/// One field of an input: a text of several lines as it would be written.
fn field((name, value): (&String, &Value)) -> String {
    match value.as_str().filter(|text| text.contains('\n')) {
        Some(text) => format!("{name}:\n{text}\n"),
        None => format!("{name}: {value}\n"),
    }
}

fn plain(text: &str) -> String {
    report::plain(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_shows_exactly_what_would_run() {
        let question = |tool: &str, input: &str| Question {
            agent: "main".to_owned(),
            tool: tool.to_owned(),
            input: input.to_owned(),
            why: "the rule `bash` wants a question".to_owned(),
        };
        let shown = text(&question("bash", r#"{"command":"ls\u001b[2K\nrm -rf \u202e/"}"#));
        assert_eq!(
            shown,
            "\nmain wants to call bash: the rule `bash` wants a question\n  | ls\\u{1b}[2K\n  | rm -rf \\u{202e}/\n\
             let it? y or n:"
        );
        let shown = text(&question("write", r#"{"path":"a","content":"b\nc"}"#));
        assert!(
            shown.contains("  | path: \"a\"\n") && shown.contains("  | content:\n  | b\n  | c\n"),
            "{shown}"
        );
    }
}
