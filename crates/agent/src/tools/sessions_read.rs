//! `sessions_read`: reads messages of a conversation.

use serde::Deserialize;
use serde_json::Value;
use session::{Role, ThreadId};
use store::{SaidMessage, StoreError};

use super::Refusal;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// Default number of messages.
const DEFAULT_LIMIT: usize = 20;
/// Maximum length of one message, in characters.
const MAX_TEXT: usize = 4_000;

/// The tool `sessions_read`. It covers what the user and main agents said.
pub(super) struct SessionsReadTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    thread: Option<String>,
    from: Option<u64>,
    limit: Option<usize>,
}

impl Tool for SessionsReadTool {
    fn name(&self) -> &'static str {
        "sessions_read"
    }

    fn description(&self) -> &'static str {
        "Reads messages of a conversation in order: what the user and you said, without tool results. \
         `sessions_search` returns the ids of conversations and the numbers of messages."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""thread":{"type":"string","description":"The id of the conversation; the default is this one."},"#,
            r#""from":{"type":"integer","minimum":1,"description":"The number of the first message; the default is 1."},"#,
            r#""limit":{"type":"integer","minimum":1,"maximum":100,"description":"Maximum number of messages; the default is 20."}"#,
            r#"},"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        super::run_in(self, input, context, |args: &Args, context, _| read(args, context))
    }
}

fn read(args: &Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let thread = args.thread.as_deref().map_or_else(|| context.thread.clone(), ThreadId::new);
    let from = args.from.unwrap_or(1);
    let page = context.store.main().read_thread(&thread, from, args.limit.unwrap_or(DEFAULT_LIMIT));
    let page = page.map_err(|error| match error {
        StoreError::NoThread(_) => {
            Refusal(format!("no conversation `{thread}`; `sessions_search` returns the ids of conversations"))
        }
        other => other.into(),
    })?;
    let Some(last) = page.messages.last() else {
        return Ok(ToolOutput::text(format!("there is no message {from}; the last one is {}", page.total)));
    };
    let title = page.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = format!("{title}, messages {from} to {} of {}\n", last.number, page.total);
    for SaidMessage { number, role, at, text: said } in &page.messages {
        text += &format!("\n#{number} {}, {}\n{}\n", author(*role), context.moment(*at), shortened(said));
    }
    Ok(ToolOutput::text(text.trim_end()))
}

/// Returns the author of a message as models know them.
pub(super) fn author(role: Role) -> &'static str {
    if role == Role::Assistant { "you" } else { "the user" }
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => {
            format!("{}\n[cut: the message has {} characters]", &text[..end], text.chars().count())
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;
    use session::RunId;
    use store::{Millis, NewMessage, Origin};

    use super::*;
    use crate::testing::TestWorkspace;

    /// Text of another agent, in each kind of message that may quote one.
    const CANARY: &str = "canary-of-a-sub-agent";

    #[tokio::test]
    async fn a_conversation_is_read_in_pages_and_never_shows_another_agent() {
        let fixture = TestWorkspace::new(&[]);
        let message = |role, origin, text: &str| NewMessage {
            role,
            origin,
            bytes: b"{}".to_vec(),
            text: Some(text.to_owned()),
            at: Millis(1_785_500_000_000),
        };
        let said = vec![
            message(Role::Assistant, Origin::Reply, "I look around."),
            message(Role::User, Origin::Results, CANARY),
            message(Role::User, Origin::Inbox, CANARY),
            message(Role::User, Origin::Kernel, CANARY),
            message(Role::User, Origin::Summary, CANARY),
            message(Role::User, Origin::Carried, CANARY),
            message(Role::Assistant, Origin::Reply, &"long ".repeat(2_000)),
            message(Role::User, Origin::Prompt, "And now?"),
        ];
        fixture.context.store.append(&RunId::new("yard"), said).await.expect("appended");
        for (tool, input) in [
            ("sessions_read", json!({})),
            ("sessions_search", json!({ "query": CANARY })),
            ("sessions_search", json!({ "query": "canary agent sub" })),
            ("session_info", json!({})),
        ] {
            let shown = fixture.ask(tool, input.clone()).await;
            assert!(!shown.contains(CANARY), "{tool} {input}: {shown}");
        }
        let whole = fixture.ask("sessions_read", json!({ "from": 3, "limit": 1 })).await;
        assert!(
            whole.ends_with("[cut: the message has 9999 characters]\n") && whole.len() < 4_200,
            "{whole}"
        );
        let seen = fixture
            .table(
                "sessions_read",
                [
                    json!({"thread": "tyard", "limit": 2}),
                    json!({"from": 4}),
                    json!({"from": 5}),
                    json!({"thread": "elsewhere"}),
                    json!({"thread": "' OR 1=1 --"}),
                ],
            )
            .await;
        expect![[r#"
            --- {"thread":"tyard","limit":2}
            Look around in the yard., messages 1 to 2 of 4

            #1 the user, 2026-07-31 12:13
            Look around in the yard.

            #2 you, 2026-07-31 12:13
            I look around.
            --- {"from":4}
            Look around in the yard., messages 4 to 4 of 4

            #4 the user, 2026-07-31 12:13
            And now?
            --- {"from":5}
            there is no message 5; the last one is 4
            --- {"thread":"elsewhere"}
            error: no conversation `elsewhere`; `sessions_search` returns the ids of conversations
            --- {"thread":"' OR 1=1 --"}
            error: no conversation `' OR 1=1 --`; `sessions_search` returns the ids of conversations
        "#]]
        .assert_eq(&seen);
    }
}
