//! Chooses an agent.

use super::agent::Agent;

/// The built-in agent: it has every tool and no instructions of its own.
pub const GENERAL: &str = "general-purpose";

/// Errors of choosing an agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// No agent has that name.
    #[error("no agent `{name}`")]
    NoSuch {
        /// The requested name.
        name: String,
        /// The available agents.
        known: Vec<String>,
    },
    /// The built-in agent is switched off, and there is no other.
    #[error("no agent available: `general-purpose` is switched off, and no other is defined")]
    None,
}

/// Returns the named agent. Without a name it is the built-in one, or the first one, with a warning, if that is switched off.
pub fn choose(agents: &[Agent], name: Option<&str>) -> Result<(Agent, Option<String>), ChooseError> {
    let wanted = name.unwrap_or(GENERAL);
    let described = agents.iter().find(|agent| agent.name == wanted);
    let first = agents.iter().find(|agent| !agent.is_disabled);
    match (described, name, first) {
        (Some(agent), _, _) if !agent.is_disabled => Ok((agent.clone(), None)),
        (None, _, _) if wanted == GENERAL => Ok((general(), None)),
        (Some(_), None, Some(first)) => {
            let warning = format!("`{GENERAL}` is switched off; using `{}` instead", first.name);
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
    let description = "Any kind of work; has every tool.".to_owned();
    Agent { name: GENERAL.to_owned(), description, ..Agent::default() }
}
