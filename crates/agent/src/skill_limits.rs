//! Limits of skills: an agent that has read a skill may use only the skill's tools, until the user's next prompt.
//!
//! The calls that read skills are in the journal, so a resumed run has the same limits.

use std::sync::Arc;

use serde_json::Value;

use crate::definition::Skill;
use crate::error::RunError;
use crate::folder_notes;
use crate::permission::{Decision, PermissionRules, RuleList};
use crate::run::Run;
use crate::workspace::Workspace;

/// The tool that reads skills. It is never limited.
const SKILL: &str = "skill";

/// Returns the skills with limits that the run, or a run above it, has read since its last prompt. They are read from the
/// journal at every call, so that a limit above holds below from then on.
pub(crate) fn skills_in_use(run: &Run) -> Result<Vec<Skill>, RunError> {
    in_use(Some(run))
}

/// Returns those that a run above has read.
fn skills_above(run: &Run) -> Result<Vec<Skill>, RunError> {
    in_use(run.parent.as_deref())
}

/// Returns those that `from` or a run above it has read. A skill that runs in a fork does not limit the fork's parent.
fn in_use(mut from: Option<&Run>) -> Result<Vec<Skill>, RunError> {
    let mut used = Vec::new();
    while let Some(reader) = from {
        let skills = folder_notes::skills(reader)?;
        let limiting: Vec<&Skill> =
            skills.iter().filter(|skill| skill.tools.is_some() && !skill.in_fork).collect();
        if !limiting.is_empty() {
            let inputs = reader.kernel.store.run(reader.id()).inputs_since_prompt(SKILL)?;
            let read: Vec<Value> =
                inputs.iter().filter_map(|input| serde_json::from_slice(input).ok()).collect();
            let is_read =
                |skill: &&Skill| read.iter().any(|input| input["name"].as_str() == Some(&skill.name));
            used.extend(limiting.into_iter().filter(is_read).cloned());
        }
        from = reader.parent.as_deref();
    }
    Ok(used)
}

/// Returns the rules of the skills above, for the workspace.
pub(crate) fn rules_above(run: &Run) -> Option<Arc<PermissionRules>> {
    let all = vec![(RuleList::Deny, "*".to_owned())]; // unknown limits deny everything
    let Ok(skills) = skills_above(run) else { return Some(Arc::new(PermissionRules::stored(&all))) };
    let mut rules = Vec::new();
    for tools in skills.iter().filter_map(|skill| skill.tools.as_ref()) {
        let left_out = run.kernel.tools.names().filter(|name| *name != SKILL && !tools.has(name));
        rules.extend(left_out.map(|name| (RuleList::Deny, name.to_owned())));
        rules.extend(tools.only());
    }
    (!rules.is_empty()).then(|| Arc::new(PermissionRules::stored(&rules)))
}

/// Judges a call by skills: each must allow it.
pub(crate) fn judge(skills: &[Skill], tool: &str, input: &Value, workspace: &Workspace) -> Decision {
    for skill in skills.iter().filter(|_| tool != SKILL) {
        let Some(tools) = &skill.tools else { continue };
        let rules = PermissionRules::stored(&tools.only().into_iter().collect::<Vec<_>>());
        if !tools.has(tool) || rules.judge(tool, input, workspace) != Decision::Allow {
            return Decision::Deny(format!(
                "until the user's next prompt, the skill `{}` allows only {}",
                skill.name,
                tools.describe()
            ));
        }
    }
    Decision::Allow
}
