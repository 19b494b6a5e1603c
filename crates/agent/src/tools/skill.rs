//! `skill`: instructions for one kind of work, read when they are needed.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::spawn_sub_agent::{DEADLINE, waited};
use super::{Refusal, input};
use crate::definition::ToolSelection;
use crate::fork::{self, ForkPermissions, ForkRequest};
use crate::run::Run;
use crate::spawn;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// Gives a skill's text.
pub(super) struct Skill;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    name: String,
    #[serde(default)]
    arguments: String,
}

impl Tool for Skill {
    fn name(&self) -> &'static str {
        "skill"
    }

    /// No names: what the tools say must not depend on the folder.
    fn description(&self) -> &'static str {
        "Gives the instructions of a skill: what to do for one kind of work. The context at the head of the \
         conversation names those that there are; read one before you do such work."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""name":{"type":"string","description":"The skill."},"#,
            r#""arguments":{"type":"string","description":"What it is to be used on, where it takes something."}"#,
            r#"},"required":["name"],"additionalProperties":false}"#
        )
    }

    /// A skill may be for a fork, which is called after the call: making it again goes on with the same one.
    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }

    fn waits(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let done = async {
                let args: Args = input::parse(self, input)?;
                let forks = context.skills.iter().find(|skill| skill.name == args.name && skill.in_fork);
                match forks.zip(context.run.as_ref().filter(|run| spawn::may_start(run))) {
                    Some((skill, run)) => forked(skill, &args, run, context).await,
                    // Who may start nobody follows it itself.
                    None => find(&args, context),
                }
            };
            done.await.unwrap_or_else(Refusal::into)
        })
    }
}

/// Lets a fork do what a skill says. What the skill allows it may do without a question that a project wants; what the user
/// asks about is asked, and what is forbidden stays so.
async fn forked(
    skill: &crate::Skill,
    args: &Args,
    run: &Arc<Run>,
    context: &ToolContext,
) -> Result<ToolOutput, Refusal> {
    let allow = skill.tools.as_ref().map(ToolSelection::rules).unwrap_or_default();
    let fork = ForkRequest {
        permissions: ForkPermissions { allow, ..ForkPermissions::default() },
        ..ForkRequest::new(skill.filled_in(&args.arguments), &skill.name, "skill")
    };
    let id = spawn::id(&context.call);
    let member = fork::spawn(run, context, &fork, false).await.map_err(Refusal)?;
    waited(run, &id, member, None).await
}

fn find(args: &Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    match context.skills.iter().find(|skill| skill.name == args.name) {
        Some(skill) => {
            let text = skill.filled_in(&args.arguments);
            Ok(ToolOutput::text(match &skill.tools {
                Some(tools) => format!(
                    "{text}\n\nUntil the user says something else, these tools are all that may be called beside \
                     `skill`: {}.",
                    tools.in_words()
                ),
                None => text,
            }))
        }
        None if context.skills.is_empty() => Err(Refusal("there are no skills here".to_owned())),
        None => {
            let names: Vec<String> = context.skills.iter().map(|skill| format!("`{}`", skill.name)).collect();
            Err(Refusal(format!("there is no skill `{}`; there are: {}", args.name, names.join(", "))))
        }
    }
}
