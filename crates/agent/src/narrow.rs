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

/// The skills that say which tools they need and that the run, or one above it, has read since the user last said
/// something to it. They are looked for at every call: what is narrowed above is narrowed below from then on.
pub(crate) fn skills_in_use(run: &Run) -> Result<Vec<&Skill>, RunError> {
    in_use(run, Some(run))
}

/// Those that one above it has read.
fn skills_above(run: &Run) -> Result<Vec<&Skill>, RunError> {
    in_use(run, run.above.as_deref())
}

/// Those that a run or one above it has read. What a fork did for one leaves whoever asked for it as it was.
fn in_use<'a>(asks: &'a Run, mut from: Option<&Run>) -> Result<Vec<&'a Skill>, RunError> {
    let narrowing: Vec<&Skill> =
        asks.kernel.skills.iter().filter(|skill| skill.tools.is_some() && !skill.in_fork).collect();
    if narrowing.is_empty() {
        return Ok(narrowing);
    }
    let mut read: Vec<Value> = Vec::new();
    while let Some(run) = from {
        let inputs = run.kernel.store.run(&run.id).inputs_since_prompt(SKILL)?;
        read.extend(inputs.iter().filter_map(|input| serde_json::from_slice(input).ok()));
        from = run.above.as_deref();
    }
    let is_read = |skill: &&Skill| read.iter().any(|input| input["name"].as_str() == Some(&skill.name));
    Ok(narrowing.into_iter().filter(is_read).collect())
}

/// What those above leave of the files.
pub(crate) fn rules_above(run: &Run) -> Option<Arc<Rules>> {
    let all = vec![(List::Deny, "*".to_owned())]; // who cannot be read may have said anything
    let Ok(skills) = skills_above(run) else { return Some(Arc::new(Rules::stored(&all))) };
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
