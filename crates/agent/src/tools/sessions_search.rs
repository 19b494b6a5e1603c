//! `sessions_search`: searches all conversations.

use super::Refusal;
use super::sessions_read::author;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::Value;

/// Default number of hits.
const DEFAULT_LIMIT: usize = 10;

/// The tool `sessions_search`. It covers what the user and main agents said.
pub(super) struct SessionsSearchTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    query: String,
    limit: Option<usize>,
}

impl Tool for SessionsSearchTool {
    fn name(&self) -> &'static str {
        "sessions_search"
    }

    fn description(&self) -> &'static str {
        "Searches everything that the user and you said in this and all earlier conversations, the best match \
         first. Any word may match, also the beginning of one; a phrase is in quotes. What tools answered is not \
         searched. Read on with `sessions_read`."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""query":{"type":"string","description":"Words, and phrases in quotes."},"#,
            r#""limit":{"type":"integer","minimum":1,"maximum":50,"description":"Maximum number of hits; the default is 10."}"#,
            r#"},"required":["query"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        super::run_in(self, input, context, |args: &Args, context, _| find(args, context))
    }
}

fn find(args: &Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let hits = context.store.main().search(&args.query, args.limit.unwrap_or(DEFAULT_LIMIT))?;
    if hits.is_empty() {
        return Ok(ToolOutput::text("no message contains any of these words"));
    }
    let shown = hits.iter().map(|hit| {
        let whose = if hit.thread == context.thread { " (this conversation)" } else { "" };
        let (thread, number, who) = (&hit.thread, hit.number, author(hit.role));
        let snippet = hit.snippet.split_whitespace().collect::<Vec<_>>().join(" ");
        let at = context.moment(hit.at);
        format!("{}{whose}, {who}, {at}\n    thread {thread}, message {number}: {snippet}\n", hit.title)
    });
    Ok(ToolOutput::text(shown.collect::<String>().trim_end()))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn earlier_messages_are_found() {
        let fixture = TestWorkspace::new(&[]);
        let seen = fixture
            .table(
                "sessions_search",
                [
                    json!({"query": "yard"}),
                    json!({"query": "unheard \"look ar\"* in"}),
                    json!({"query": "\" OR *"}),
                    json!({"query": "", "limit": 1}),
                    json!({"query": "unsaid"}),
                ],
            )
            .await;
        expect![[r#"
            --- {"query":"yard"}
            Look around in the yard. (this conversation), the user, 2026-07-31 12:13
                thread tyard, message 1: Look around in the [yard].
            --- {"query":"unheard \"look ar\"* in"}
            Look around in the yard. (this conversation), the user, 2026-07-31 12:13
                thread tyard, message 1: [Look around] [in] the yard.
            --- {"query":"\" OR *"}
            no message contains any of these words
            --- {"query":"","limit":1}
            no message contains any of these words
            --- {"query":"unsaid"}
            no message contains any of these words
        "#]]
        .assert_eq(&seen);
    }
}
