//! Which agent is meant.

use super::agent::Agent;

/// The agent that is there by itself: it has every tool, and is told what every agent is told.
pub const GENERAL: &str = "general-purpose";

/// Why there is no agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// None is called like that.
    #[error("there is no agent `{name}`")]
    NoSuch {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The usual one is switched off, and there is no other.
    #[error("there is no agent at all: `general-purpose` is switched off, and no other is described")]
    None,
}

/// The named agent; without a name the general one, and where that is switched off the first, with a warning.
pub fn choose(agents: &[Agent], name: Option<&str>) -> Result<(Agent, Option<String>), ChooseError> {
    let wanted = name.unwrap_or(GENERAL);
    let described = agents.iter().find(|agent| agent.name == wanted);
    let first = agents.iter().find(|agent| !agent.is_disabled);
    match (described, name, first) {
        (Some(agent), _, _) if !agent.is_disabled => Ok((agent.clone(), None)),
        (None, _, _) if wanted == GENERAL => Ok((general(), None)),
        (Some(_), None, Some(first)) => {
            let warning = format!("`{GENERAL}` is switched off; `{}` is taken instead", first.name);
            Ok((first.clone(), Some(warning)))
        }
        (Some(_), None, None) => Err(ChooseError::None),
        (_, _, _) => {
            let names = agents.iter().filter(|agent| !agent.is_disabled).map(|agent| agent.name.clone());
            let built_in = agents.iter().all(|agent| agent.name != GENERAL).then(|| GENERAL.to_owned());
            Err(ChooseError::NoSuch { name: wanted.to_owned(), known: names.chain(built_in).collect() })
        }
    }
}

fn general() -> Agent {
    let description = "Whatever there is to do; it has every tool.".to_owned();
    Agent { name: GENERAL.to_owned(), description, ..Agent::default() }
}
