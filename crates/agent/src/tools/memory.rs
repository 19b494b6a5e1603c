//! `memory`: keeps named texts for later.

use serde::Deserialize;
use serde_json::Value;
use store::Memory as MemoryEntry;

use super::{Refusal, input};
use crate::fence::fenced;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput, tasks};

/// Limits in bytes. All memories are part of every new conversation's context.
pub(crate) const MAX_TEXT: usize = 4 << 10;
const MAX_NAME: usize = 64;
/// Maximum number of names in one scope.
const MAX_NAMES: usize = 100;

/// The tool `memory`.
pub(super) struct MemoryTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    action: Action,
    name: Option<String>,
    text: Option<String>,
    #[serde(default)]
    scope: Scope,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    List,
    Read,
    Write,
    Delete,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Scope {
    #[default]
    Thread,
    User,
}

impl Tool for MemoryTool {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn description(&self) -> &'static str {
        "Keeps short named texts for later: `write` stores or replaces one, `read` returns it, \
         `delete` forgets it, `list` shows all names. Scope `thread` is this conversation alone, `user` is all of this \
         user's conversations, in every folder. Store what will stay true and useful; never a password or a key."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""action":{"type":"string","enum":["list","read","write","delete"],"description":"What to do."},"#,
            r#""name":{"type":"string","description":"The name: small letters, digits, `-`, `_` and `.`. Not for `list`."},"#,
            r#""text":{"type":"string","description":"What to keep, at most 4096 bytes. Only for `write`."},"#,
            r#""scope":{"type":"string","enum":["thread","user"],"description":"Scope of the text; the default is `thread`."}"#,
            r#"},"required":["action"],"additionalProperties":false}"#
        )
    }

    /// A repeated write or delete has the same effect and the same answer.
    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let done = async { run_action(input::parse(self, input)?, context).await };
            done.await.unwrap_or_else(Refusal::into)
        })
    }
}

async fn run_action(args: Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let Args { action, name, text, scope } = args;
    let thread = (scope == Scope::Thread).then(|| context.thread.clone());
    let mut kept = context.store.main().memory(Some(&context.thread))?;
    if let Action::List = action {
        return Ok(ToolOutput::text(list(&kept)));
    }
    kept.retain(|memory| memory.thread == thread);
    let name = check_name(name)?;
    let found = kept.iter().find(|memory| memory.name == name);
    match (action, text) {
        (Action::List, _) => unreachable!("answered above"),
        (Action::Read, _) => match found {
            Some(memory) => Ok(ToolOutput::text(memory.text.clone())),
            None => Err(Refusal(format!("nothing is remembered as `{name}` here; `list` shows all names"))),
        },
        (Action::Write, None) => Err(Refusal("`text` is missing; it must be a string".to_owned())),
        (Action::Write, Some(text)) if text.trim().is_empty() => {
            Err(Refusal("`text` is empty; `delete` forgets".to_owned()))
        }
        (Action::Write, Some(text)) if text.len() > MAX_TEXT => {
            Err(Refusal(format!("`text` has {} bytes, and {MAX_TEXT} are the most", text.len())))
        }
        (Action::Write, Some(_)) if found.is_none() && kept.len() >= MAX_NAMES => {
            Err(Refusal(format!("{MAX_NAMES} names are the most; `delete` one that is not needed any more")))
        }
        (Action::Write, Some(text)) => {
            let answer = format!("remembered as `{name}`, {} bytes", text.len());
            context.store.put_memory(MemoryEntry { thread, name, text, updated_at: context.at() }).await?;
            Ok(ToolOutput::text(answer))
        }
        (Action::Delete, _) => {
            let answer = format!("nothing is remembered as `{name}` now");
            context.store.delete_memory(thread.as_ref(), name).await?;
            Ok(ToolOutput::text(answer))
        }
    }
}

fn check_name(name: Option<String>) -> Result<String, Refusal> {
    let name = name.ok_or_else(|| Refusal("`name` is missing; it must be a string".to_owned()))?;
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !begins || name.len() > MAX_NAME || !name.chars().all(good) {
        return Err(Refusal(format!(
            "a name has at most {MAX_NAME} small letters, digits, `-`, `_` and `.`, and begins with a letter or a digit"
        )));
    }
    Ok(name)
}

/// Lists all names, each with the beginning of its text.
fn list(kept: &[MemoryEntry]) -> String {
    if kept.is_empty() {
        return "nothing is remembered".to_owned();
    }
    kept.iter().map(memory_line).collect::<Vec<_>>().join("\n")
}

/// Formats a memory as one line.
pub(crate) fn memory_line(memory: &MemoryEntry) -> String {
    let scope = if memory.thread.is_some() { "thread" } else { "user" };
    let text = tasks::short(memory.text.lines().next().unwrap_or_default());
    format!("{} ({scope}): {}", memory.name, fenced(&text))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn a_stored_memory_is_read_later() {
        let fixture = TestWorkspace::new(&[]);
        let seen = fixture
            .table(
                "memory",
                [
                    json!({"action": "list"}),
                    json!({"action": "write", "name": "style", "text": "short\nand plain", "scope": "user"}),
                    json!({"action": "write", "name": "style", "text": "long here"}),
                    json!({"action": "write", "name": "style", "text": "long here"}),
                    json!({"action": "list"}),
                    json!({"action": "read", "name": "style"}),
                    json!({"action": "read", "name": "style", "scope": "user"}),
                    json!({"action": "read", "name": "nothing"}),
                    json!({"action": "delete", "name": "style"}),
                    json!({"action": "delete", "name": "style"}),
                    json!({"action": "list"}),
                    json!({"action": "write", "name": "a"}),
                    json!({"action": "write", "name": "a", "text": " "}),
                    json!({"action": "write", "text": "a"}),
                    json!({"action": "write", "name": "../a", "text": "a"}),
                    json!({"action": "write", "name": "A", "text": "a"}),
                    json!({"action": "write", "name": "", "text": "a"}),
                ],
            )
            .await;
        expect![[r#"
            --- {"action":"list"}
            nothing is remembered
            --- {"action":"write","name":"style","text":"short\nand plain","scope":"user"}
            remembered as `style`, 15 bytes
            --- {"action":"write","name":"style","text":"long here"}
            remembered as `style`, 9 bytes
            --- {"action":"write","name":"style","text":"long here"}
            remembered as `style`, 9 bytes
            --- {"action":"list"}
            style (user): short
            style (thread): long here
            --- {"action":"read","name":"style"}
            long here
            --- {"action":"read","name":"style","scope":"user"}
            short
            and plain
            --- {"action":"read","name":"nothing"}
            error: nothing is remembered as `nothing` here; `list` shows all names
            --- {"action":"delete","name":"style"}
            nothing is remembered as `style` now
            --- {"action":"delete","name":"style"}
            nothing is remembered as `style` now
            --- {"action":"list"}
            style (user): short
            --- {"action":"write","name":"a"}
            error: `text` is missing; it must be a string
            --- {"action":"write","name":"a","text":" "}
            error: `text` is empty; `delete` forgets
            --- {"action":"write","text":"a"}
            error: `name` is missing; it must be a string
            --- {"action":"write","name":"../a","text":"a"}
            error: a name has at most 64 small letters, digits, `-`, `_` and `.`, and begins with a letter or a digit
            --- {"action":"write","name":"A","text":"a"}
            error: a name has at most 64 small letters, digits, `-`, `_` and `.`, and begins with a letter or a digit
            --- {"action":"write","name":"","text":"a"}
            error: a name has at most 64 small letters, digits, `-`, `_` and `.`, and begins with a letter or a digit
        "#]].assert_eq(&seen);
        let long =
            fixture.ask("memory", json!({"action": "write", "name": "a", "text": "x".repeat(4097)})).await;
        assert!(long.contains("4096 are the most"), "{long}");
    }
}
