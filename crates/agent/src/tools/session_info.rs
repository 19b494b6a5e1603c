//! `session_info`: what this conversation is, and what it has used.

use serde::Deserialize;
use serde_json::Value;
use store::TaskStatus;

use super::{Refusal, input};
use crate::{Doing, Output, Policy, Scene, Tool};

/// Tells of the conversation that the call is part of.
pub(super) struct SessionInfo;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {}

impl Tool for SessionInfo {
    fn name(&self) -> &'static str {
        "session_info"
    }

    fn description(&self) -> &'static str {
        "Tells of this conversation: its title, its folder, when it began, the model, and the steps, tokens, money and \
         tasks so far."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{},"additionalProperties":false}"#
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, scene: &'a Scene) -> Doing<'a, Output> {
        Box::pin(async move {
            let told = input::parse(self, input).and_then(|Args {}| tell(scene));
            told.unwrap_or_else(Refusal::into)
        })
    }
}

fn tell(scene: &Scene) -> Result<Output, Refusal> {
    let reads = scene.store.main();
    let info = reads.session_info(&scene.thread)?;
    let tasks = reads.tasks(&scene.thread)?;
    let totals = info.totals;
    let model = info.runs.last().map_or("none", |run| run.model.as_str());
    let cost = match totals.unpriced {
        0 => format!("${:.4}", totals.cost_microusd as f64 / 1e6),
        _ => "not known".to_owned(),
    };
    let counts: Vec<String> = TaskStatus::ALL
        .iter()
        .map(|status| (tasks.iter().filter(|task| task.status == *status).count(), status))
        .filter(|(count, _)| *count > 0)
        .map(|(count, status)| format!("{count} {status}"))
        .collect();
    let tasks = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    Ok(Output::text(format!(
        "title: {}\nfolder: {}\nbegan: {}\nmodel: {model}\nsteps: {}\ntokens: {} in, {} out\ncost: {cost}\ntasks: {tasks}",
        info.thread.title,
        info.thread.workspace,
        scene.moment(info.thread.created_at),
        totals.calls,
        totals.usage.input_total(),
        totals.usage.output,
    )))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::tools::testing::Yard;

    #[tokio::test]
    async fn a_conversation_tells_of_itself() {
        let yard = Yard::new(&[]);
        yard.ask("manage_tasks", json!({"create": [{"subject": "a"}, {"subject": "b"}]})).await;
        expect![[r#"
            title: Look around in the yard.
            folder: HOME/yard
            began: 2026-07-31 12:13
            model: claude-sonnet-5
            steps: 0
            tokens: 0 in, 0 out
            cost: $0.0000
            tasks: 2 pending
        "#]]
        .assert_eq(&yard.ask("session_info", json!({})).await);
    }
}
