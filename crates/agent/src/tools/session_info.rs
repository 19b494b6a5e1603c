//! `session_info`: reports facts and usage of the conversation.

use serde::Deserialize;
use serde_json::Value;
use store::{Filter, RunKind, TaskStatus, UsageTotals};

use super::{Refusal, input};
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// The tool `session_info`.
pub(super) struct SessionInfoTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {}

impl Tool for SessionInfoTool {
    fn name(&self) -> &'static str {
        "session_info"
    }

    fn description(&self) -> &'static str {
        "Reports facts about this conversation: title, folder, start time, last activity, number of messages, model, and \
         the steps, tokens, cost and tasks so far."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{},"additionalProperties":false}"#
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let described = input::parse(self, input).and_then(|Args {}| describe(context));
            described.unwrap_or_else(Refusal::into)
        })
    }
}

fn describe(context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let reads = context.store.main();
    let info = reads.session_info(&context.thread)?;
    let (folder, began) = (&info.thread.workspace, context.moment(info.thread.created_at));
    // The conversation is private to the user and the main agent. Other agents get information about their own
    // work.
    if let Some(run) = context.caller.as_ref().filter(|run| run.kind() != RunKind::Main) {
        let below = Filter { below: Some(run.id().clone()), ..Filter::default() };
        let own = run.store().runs(&below)?.into_iter().find(|found| found.id == *run.id());
        let (own, all) = own.map(|own| (own.own, own.inclusive)).unwrap_or_default();
        let row = run.store().run(run.id()).row()?;
        let (agent, model) = (&row.agent, &row.model);
        let used = usage_lines(&own, &all);
        return Ok(ToolOutput::text(format!(
            "agent: {agent}\nfolder: {folder}\nbegan: {began}\nmodel: {model}\n{used}"
        )));
    }
    let mut all = UsageTotals::default();
    for run in &info.runs {
        all += context.store.run(&run.id).totals()?;
    }
    let model = info.runs.last().map_or("none", |run| run.model.as_str());
    let tasks = reads.tasks(&context.thread)?;
    let counts: Vec<String> = TaskStatus::ALL
        .iter()
        .map(|status| (tasks.iter().filter(|task| task.status == *status).count(), status))
        .filter(|(count, _)| *count > 0)
        .map(|(count, status)| format!("{count} {status}"))
        .collect();
    let tasks = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    let (messages, active) = (info.messages, context.moment(info.thread.updated_at));
    Ok(ToolOutput::text(format!(
        "title: {}\nfolder: {folder}\nbegan: {began}\nlast activity: {active}\nmessages: {messages}\nmodel: {model}\n{}\ntasks: {tasks}",
        info.thread.title,
        usage_lines(&info.totals, &all),
    )))
}

/// Formats usage, with the sub-agents' share if there is any.
fn usage_lines(own: &UsageTotals, all: &UsageTotals) -> String {
    let tokens = |of: &UsageTotals| format!("{} in, {} out", of.usage.input_total(), of.usage.output);
    let cost = |of: &UsageTotals| match of.unpriced {
        0 => format!("${:.4}", of.cost_microusd as f64 / 1e6),
        _ => "not known".to_owned(),
    };
    let both = |of: &dyn Fn(&UsageTotals) -> String| match own.calls == all.calls {
        true => of(own),
        false => format!("{} (with sub-agents: {})", of(own), of(all)),
    };
    format!("steps: {}\ntokens: {}\ncost: {}", own.calls, both(&tokens), both(&cost))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn a_conversation_describes_itself() {
        let fixture = TestWorkspace::new(&[]);
        fixture.ask("manage_tasks", json!({"create": [{"subject": "a"}, {"subject": "b"}]})).await;
        expect![[r#"
            title: Look around in the yard.
            folder: HOME/yard
            began: 2026-07-31 12:13
            last activity: 2026-07-31 12:13
            messages: 1
            model: claude-sonnet-5
            steps: 0
            tokens: 0 in, 0 out
            cost: $0.0000
            tasks: 2 pending
        "#]]
        .assert_eq(&fixture.ask("session_info", json!({})).await);
    }

    #[test]
    fn usage_of_descendants_is_listed_beside_the_own_usage() {
        let usage = |input| session::Usage { input, output: 10, ..Default::default() };
        let own =
            UsageTotals { calls: 2, usage: usage(1000), cost_microusd: 6_000, ..UsageTotals::default() };
        assert_eq!(usage_lines(&own, &own), "steps: 2\ntokens: 1000 in, 10 out\ncost: $0.0060");
        let mut all = own;
        all += UsageTotals { calls: 3, usage: usage(2000), cost_microusd: 20_500, ..UsageTotals::default() };
        assert_eq!(
            usage_lines(&own, &all),
            "steps: 2\ntokens: 1000 in, 10 out (with sub-agents: 3000 in, 20 out)\n\
             cost: $0.0060 (with sub-agents: $0.0265)"
        );
    }
}
