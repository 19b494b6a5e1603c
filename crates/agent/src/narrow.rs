//! What the skills that an agent has read leave of its tools, until the user says something else.
//!
//! Which ones those are is in the journal, as every call is; so a run that is resumed is held as it was.

use std::sync::Arc;

use serde_json::Value;

use crate::definition::Skill;
use crate::error::RunError;
use crate::permission::{Judgement, List, Rules};
use crate::run::Run;
use crate::workspace::Workspace;

/// The tool that gives skills; it stays, so that an agent can read what else there is.
const SKILL: &str = "skill";

/// The skills that were read since the user last said something and that say which tools they need. What a fork did
/// for one leaves whoever asked for it as it was.
pub(crate) fn skills_in_use(run: &Run) -> Result<Vec<&Skill>, RunError> {
    let narrowing: Vec<&Skill> =
        run.kernel.skills.iter().filter(|skill| skill.tools.is_some() && !skill.in_fork).collect();
    if narrowing.is_empty() {
        return Ok(narrowing);
    }
    let inputs = run.kernel.store.run(&run.id).called_since_prompt(SKILL)?;
    let read: Vec<Value> = inputs.iter().filter_map(|input| serde_json::from_slice(input).ok()).collect();
    let is_read = |skill: &&Skill| read.iter().any(|input| input["name"].as_str() == Some(&skill.name));
    Ok(narrowing.into_iter().filter(is_read).collect())
}

/// The same for those that the run starts now: they may do nothing that it may not.
pub(crate) fn rules(run: &Run) -> Option<Arc<Rules>> {
    let all = vec![(List::Deny, "*".to_owned())]; // who cannot be read may have said anything
    let Ok(skills) = skills_in_use(run) else { return Some(Arc::new(Rules::stored(&all))) };
    let mut rules = Vec::new();
    for tools in skills.iter().filter_map(|skill| skill.tools.as_ref()) {
        let left_out = run.kernel.tools.names().filter(|name| *name != SKILL && !tools.has(name));
        rules.extend(left_out.map(|name| (List::Deny, name.to_owned())));
        rules.extend(tools.only());
    }
    (!rules.is_empty()).then(|| Arc::new(Rules::stored(&rules)))
}

/// What they say of a call: each must leave it.
pub(crate) fn judge(skills: &[&Skill], tool: &str, input: &Value, workspace: &Workspace) -> Judgement {
    for skill in skills.iter().filter(|_| tool != SKILL) {
        let Some(tools) = &skill.tools else { continue };
        let rules = Rules::stored(&tools.only().into_iter().collect::<Vec<_>>());
        if !tools.has(tool) || rules.judge(tool, input, workspace) != Judgement::Allow {
            return Judgement::Deny(format!(
                "until the user says something else, the skill `{}` leaves only {}",
                skill.name,
                tools.in_words()
            ));
        }
    }
    Judgement::Allow
}
