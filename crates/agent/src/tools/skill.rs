//! `skill`: instructions for one kind of work, read when they are needed.

use serde::Deserialize;
use serde_json::Value;

use super::{Refusal, input};
use crate::{Doing, Output, Policy, Scene, Tool};

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

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, scene: &'a Scene) -> Doing<'a, Output> {
        Box::pin(async move {
            let found = input::parse(self, input).and_then(|args| find(&args, scene));
            found.unwrap_or_else(Refusal::into)
        })
    }
}

fn find(args: &Args, scene: &Scene) -> Result<Output, Refusal> {
    match scene.skills.iter().find(|skill| skill.name == args.name) {
        Some(skill) => {
            let text = skill.filled_in(&args.arguments);
            Ok(Output::text(match &skill.tools {
                Some(tools) => format!(
                    "{text}\n\nUntil the user says something else, these tools are all that may be called beside \
                     `skill`: {}.",
                    tools.in_words()
                ),
                None => text,
            }))
        }
        None if scene.skills.is_empty() => Err(Refusal("there are no skills here".to_owned())),
        None => {
            let names: Vec<String> = scene.skills.iter().map(|skill| format!("`{}`", skill.name)).collect();
            Err(Refusal(format!("there is no skill `{}`; there are: {}", args.name, names.join(", "))))
        }
    }
}
