//! `skill`: loads instructions for one kind of work.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::spawn_sub_agent::{DEADLINE, wait_for_answer};
use super::{Refusal, input};
use crate::definition::ToolSelection;
use crate::fork_request::{ForkPermissions, ForkRequest};
use crate::ids;
use crate::tool::CallingRun;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// The tool `skill`.
pub(super) struct SkillTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    name: String,
    #[serde(default)]
    arguments: String,
}

impl Tool for SkillTool {
    fn name(&self) -> &'static str {
        "skill"
    }

    /// Lists no skills, because the tools must not depend on the folder.
    fn description(&self) -> &'static str {
        "Returns the instructions of a skill, which describe one kind of work. The context at the start of the \
         conversation lists all skills; read one before you do such work."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""name":{"type":"string","description":"The skill."},"#,
            r#""arguments":{"type":"string","description":"Arguments of the skill, if it takes any."}"#,
            r#"},"required":["name"],"additionalProperties":false}"#
        )
    }

    /// A skill may start a fork, whose id follows from the call. A repeated call continues the same fork.
    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }

    fn is_waiting_call(&self) -> bool {
        true
    }

    fn starts_runs(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let done = async {
                let args: Args = input::parse(self, input)?;
                let forks = context.skills.iter().find(|skill| skill.name == args.name && skill.in_fork);
                match forks.zip(context.caller.as_deref().filter(|run| run.may_spawn())) {
                    Some((skill, run)) => run_in_fork(skill, &args, run, context).await,
                    // An agent that may not start forks follows the skill itself.
                    None => skill_text(&args, context),
                }
            };
            done.await.unwrap_or_else(Refusal::into)
        })
    }
}

/// Runs a skill in a fork. The skill's allowed tools need no question that a project asks for. The user's own
/// questions and denials still apply.
async fn run_in_fork(
    skill: &crate::Skill,
    args: &Args,
    run: &dyn CallingRun,
    context: &ToolContext,
) -> Result<ToolOutput, Refusal> {
    let allow = skill.tools.as_ref().map(ToolSelection::rules).unwrap_or_default();
    let fork = ForkRequest {
        permissions: ForkPermissions { allow, ..ForkPermissions::default() },
        agent: skill.agent.clone(),
        ..ForkRequest::new(skill.filled_in(&args.arguments), &skill.name, "skill")
    };
    let end = run.fork(context, fork, false).await.map_err(Refusal)?;
    wait_for_answer(run, &ids::child_id(&context.call), end, None).await
}

fn skill_text(args: &Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    match context.skills.iter().find(|skill| skill.name == args.name) {
        Some(skill) => {
            let text = skill.filled_in(&args.arguments);
            Ok(ToolOutput::text(match &skill.tools {
                Some(tools) => format!(
                    "{text}\n\nUntil the user's next prompt, these tools are all that may be called beside \
                     `skill`: {}.",
                    tools.describe()
                ),
                None => text,
            }))
        }
        None if context.skills.is_empty() => Err(Refusal("there are no skills here".to_owned())),
        None => {
            let names: Vec<String> = context.skills.iter().map(|skill| format!("`{}`", skill.name)).collect();
            Err(Refusal(format!("no skill `{}`; there are: {}", args.name, names.join(", "))))
        }
    }
}
