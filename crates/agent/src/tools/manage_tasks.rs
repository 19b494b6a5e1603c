//! `manage_tasks`: plans tasks and tracks their status.

use serde::Deserialize;
use serde_json::Value;
use store::{NewTask, Task, TaskChange, TaskStatus};

use super::{Refusal, input};
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput, tasks};

/// Maximum sizes in bytes.
const MAX_SUBJECT: usize = 200;
const MAX_DESCRIPTION: usize = 8 << 10;
/// Maximum number of tasks in a conversation.
const MAX_TASKS: usize = 200;

/// The name of the tool.
pub(crate) const MANAGE_TASKS: &str = "manage_tasks";

/// The tool `manage_tasks`. A call is applied as a whole or not at all.
pub(super) struct ManageTasksTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    create: Vec<Create>,
    #[serde(default)]
    update: Vec<Update>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    subject: String,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    id: String,
    status: Option<String>,
    subject: Option<String>,
    description: Option<String>,
}

impl Tool for ManageTasksTool {
    fn name(&self) -> &'static str {
        MANAGE_TASKS
    }

    fn description(&self) -> &'static str {
        "Plans tasks and tracks their status, for work with several parts. Creates and \
         updates in one call, all of it or nothing, and answers with all tasks of this conversation; with neither it \
         only answers. Set a task to `in_progress` when you begin with it, and to `complete` only when you have seen \
         that it is done."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""create":{"type":"array","description":"New tasks, in their order; they begin as `pending`.","items":{"type":"object","properties":{"#,
            r#""subject":{"type":"string","description":"The subject, in a few words."},"#,
            r#""description":{"type":"string","description":"What has to be done, and how to check that it is."}"#,
            r#"},"required":["subject"],"additionalProperties":false}},"#,
            r#""update":{"type":"array","description":"Changes of existing tasks.","items":{"type":"object","properties":{"#,
            r#""id":{"type":"string","description":"Id of the task, as listed."},"#,
            r#""status":{"type":"string","enum":["pending","in_progress","complete","failed","cancelled"],"description":"Its new status."},"#,
            r#""subject":{"type":"string","description":"Its new subject."},"#,
            r#""description":{"type":"string","description":"Its new description."}"#,
            r#"},"required":["id"],"additionalProperties":false}}"#,
            r#"},"additionalProperties":false}"#
        )
    }

    fn is_main_only(&self) -> bool {
        true
    }

    /// Ids of new tasks follow from the call, so a repeated call creates nothing twice.
    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let done = async { change_tasks(input::parse(self, input)?, context).await };
            done.await.unwrap_or_else(Refusal::into)
        })
    }
}

async fn change_tasks(args: Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let at = context.at();
    let thread = &context.thread;
    let before = context.store.main().tasks(thread)?;
    let mut new = Vec::new();
    for (n, create) in args.create.into_iter().enumerate() {
        let Create { subject, description } = create;
        check_lengths(Some(&subject), Some(&description))
            .map_err(|why| Refusal(format!("create[{n}]: {why}")))?;
        let id = tasks::planned_by(&context.call, thread, n + 1);
        new.push(NewTask { id, thread: thread.clone(), subject, description, at });
    }
    let planned = new.iter().filter(|task| before.iter().all(|known| known.id != task.id)).count();
    if before.len() + planned > MAX_TASKS {
        return Err(Refusal(format!(
            "a conversation has at most {MAX_TASKS} tasks, and this one has {}; nothing was changed",
            before.len()
        )));
    }
    let mut changes = Vec::new();
    for (n, update) in args.update.into_iter().enumerate() {
        let Update { id, status, subject, description } = update;
        check_lengths(subject.as_deref(), description.as_deref())
            .map_err(|why| Refusal(format!("update[{n}]: {why}")))?;
        let Some(task) = tasks::find(&before, &id) else {
            return Err(Refusal(format!(
                "this conversation has no task `{id}`, and nothing was changed; {}",
                existing_tasks(&before)
            )));
        };
        let status = status.as_deref().and_then(TaskStatus::from_word);
        changes.push((task.id.clone(), TaskChange { subject, description, status, ..TaskChange::default() }));
    }
    context.store.change_tasks(thread, new, changes, at).await?;
    let now = context.store.main().tasks(thread)?;
    Ok(ToolOutput::text(if now.is_empty() {
        "no tasks".to_owned()
    } else {
        tasks::list(&now).trim_end().to_owned()
    }))
}

fn check_lengths(subject: Option<&str>, description: Option<&str>) -> Result<(), String> {
    if subject.is_some_and(|subject| subject.trim().is_empty()) {
        return Err("`subject` is empty; nothing was changed".to_owned());
    }
    for (what, text, most) in
        [("subject", subject, MAX_SUBJECT), ("description", description, MAX_DESCRIPTION)]
    {
        let length = text.map_or(0, str::len);
        if length > most {
            return Err(format!("`{what}` has {length} bytes, and {most} are the most; nothing was changed"));
        }
    }
    Ok(())
}

fn existing_tasks(tasks: &[Task]) -> String {
    if tasks.is_empty() {
        return "there are no tasks yet".to_owned();
    }
    let names: Vec<String> = tasks.iter().map(|task| format!("`{}`", tasks::display_name(task))).collect();
    format!("there are: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn a_plan_is_made_and_kept() {
        let mut fixture = TestWorkspace::new(&[]);
        let mut seen = fixture.ask("manage_tasks", json!({})).await;
        let plan = json!({"create": [
            {"subject": "Write the parser", "description": "By hand.\nNo crate."},
            {"subject": "Test  it"},
        ]});
        for (message, input) in [
            (4, plan.clone()),
            // As after a crash between the effect and its result.
            (4, plan),
            (
                6,
                json!({"update": [{"id": "yard.4.0.1", "status": "in_progress"}], "create": [{"subject": "Ship it"}]}),
            ),
            (
                8,
                json!({"update": [{"id": "yard.4.0.1", "status": "complete"}, {"id": "yard.4.0.9", "subject": "x"}]}),
            ),
            (
                10,
                json!({"create": [{"subject": "lost"}], "update": [{"id": "tother/4.0.1", "status": "failed"}]}),
            ),
            (12, json!({"update": [{"id": "yard.4.0.2", "subject": " "}]})),
            (14, json!({"update": [{"id": "yard.4.0.2", "status": "done"}]})),
            (16, json!({"update": [{"status": "failed"}]})),
            (18, json!({"create": [{"subject": "x".repeat(201)}]})),
            (20, json!({"create": [{"subject": "x", "colour": 1}]})),
            (22, json!({"create": ["x"]})),
        ] {
            fixture.context.call.message.0 = message;
            seen += &format!("--- {}\n", input.to_string().chars().take(100).collect::<String>());
            seen += &fixture.ask("manage_tasks", input).await;
        }
        expect![[r#"
            no tasks
            --- {"create":[{"subject":"Write the parser","description":"By hand.\nNo crate."},{"subject":"Test  it"}
            yard.4.0.1 pending: Write the parser
            yard.4.0.2 pending: Test it
            --- {"create":[{"subject":"Write the parser","description":"By hand.\nNo crate."},{"subject":"Test  it"}
            yard.4.0.1 pending: Write the parser
            yard.4.0.2 pending: Test it
            --- {"update":[{"id":"yard.4.0.1","status":"in_progress"}],"create":[{"subject":"Ship it"}]}
            yard.4.0.1 in_progress: Write the parser
                By hand.
                No crate.
            yard.4.0.2 pending: Test it
            yard.6.0.1 pending: Ship it
            --- {"update":[{"id":"yard.4.0.1","status":"complete"},{"id":"yard.4.0.9","subject":"x"}]}
            error: this conversation has no task `yard.4.0.9`, and nothing was changed; there are: `yard.4.0.1`, `yard.4.0.2`, `yard.6.0.1`
            --- {"create":[{"subject":"lost"}],"update":[{"id":"tother/4.0.1","status":"failed"}]}
            error: this conversation has no task `tother/4.0.1`, and nothing was changed; there are: `yard.4.0.1`, `yard.4.0.2`, `yard.6.0.1`
            --- {"update":[{"id":"yard.4.0.2","subject":" "}]}
            error: update[0]: `subject` is empty; nothing was changed
            --- {"update":[{"id":"yard.4.0.2","status":"done"}]}
            error: `status` must be one of "pending", "in_progress", "complete", "failed", "cancelled", but is: "done"
            --- {"update":[{"status":"failed"}]}
            error: `id` is missing; it must be a string
            --- {"create":[{"subject":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
            error: create[0]: `subject` has 201 bytes, and 200 are the most; nothing was changed
            --- {"create":[{"subject":"x","colour":1}]}
            error: `colour` is no input of `manage_tasks.create[0]`; it takes `subject`, `description`
            --- {"create":["x"]}
            error: `manage_tasks.create[0]` takes a JSON object, but got: "x"
        "#]]
        .assert_eq(&seen);
    }
}
