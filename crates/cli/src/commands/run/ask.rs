//! Questions to whoever sits at the terminal.

use agent::{Answer, Asker, Doing, Question};
use serde_json::Value;

/// Somebody at a terminal.
pub(super) struct Terminal;

impl Asker for Terminal {
    fn ask<'a>(&'a self, question: &'a Question) -> Doing<'a, Answer> {
        Box::pin(async move {
            eprintln!("{}", text(question));
            let line = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).map(|_| line)
            });
            match line.await {
                Ok(Ok(line)) if matches!(line.trim().to_lowercase().as_str(), "y" | "yes") => Answer::Yes,
                _ => Answer::No("the user said no".to_owned()),
            }
        })
    }
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
        (Some(command), _) if question.tool == "bash" => command.to_owned(),
        (_, Value::Null) => question.input.clone(),
        (_, input) => serde_json::to_string_pretty(input).unwrap_or_else(|_| question.input.clone()),
    };
    for line in shown.lines() {
        text += &format!("  | {}\n", report::visible(line));
    }
    text + "y to let it, anything else to refuse:"
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
             y to let it, anything else to refuse:"
        );
        let shown = text(&question("write", r#"{"path":"a","content":"b"}"#));
        assert!(shown.contains("  |   \"content\": \"b\""), "{shown}");
    }
}
