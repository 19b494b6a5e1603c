//! Which agent runs, and what a command turns a prompt into.

use std::path::Path;
use std::sync::Arc;

use agent::definition::{Agent, ChooseError, DefinitionKind, GENERAL, Skill, choose};
use agent::{List, Skill as Known, Toolbox};

use crate::commands::agents::not_accepted;
use crate::definitions::Described;
use crate::failure::{Kind, OrFail, marked};

/// The agent of a run where nobody names one.
const MAIN: &str = "main";

/// Who runs, on what.
pub(super) struct Chosen {
    /// The agent's name.
    pub(super) name: String,
    /// What the user says, written out.
    pub(super) prompt: Option<String>,
    /// What there are instructions for.
    pub(super) skills: Arc<[Known]>,
    /// Who can be asked to help.
    pub(super) agents: Arc<[Agent]>,
    agent: Option<Agent>,
    command: Option<Skill>,
}

impl Chosen {
    /// The agent by its name, or the one that the prompt's command is for; a resumed run has its own.
    pub(super) fn find(
        here: &Path,
        name: Option<&str>,
        prompt: Option<String>,
        is_resumed: bool,
    ) -> anyhow::Result<Self> {
        let described = Described::load(here)?;
        let (command, prompt) = match prompt {
            Some(prompt) => match command(&described, &prompt)? {
                Some((command, arguments)) => {
                    let filled = command.filled_in(arguments);
                    (Some(command), Some(filled))
                }
                None => (None, Some(prompt)),
            },
            None => (None, None),
        };
        let agent = match (name, command.as_ref().and_then(|command| command.agent.as_deref())) {
            (Some(name), _) => Some(find(&described, name)?),
            (None, Some(name)) if !is_resumed => for_command(&described, name)?,
            (None, None) if !is_resumed && is_switched_off(&described) => Some(instead(&described)?),
            _ => None,
        };
        let waiting = described.waiting();
        if waiting > 0 {
            let (files, are) = if waiting == 1 { ("file", "is") } else { ("files", "are") };
            eprintln!(
                "{waiting} {files} for agents {are} not accepted here; `offshoot agents check` says which"
            );
        }
        Ok(Self {
            name: agent.as_ref().map_or(MAIN, |agent| agent.name.as_str()).to_owned(),
            prompt,
            skills: described.all.skills.into(),
            agents: described.all.agents.into(),
            agent,
            command,
        })
    }

    /// What the agent is told beside what every agent is told.
    pub(super) fn instructions(&self) -> Option<String> {
        self.agent.as_ref().map(|agent| agent.prompt.clone()).filter(|prompt| !prompt.is_empty())
    }

    /// The model that the command or the agent is for.
    pub(super) fn model(&self) -> Option<String> {
        let command = self.command.as_ref().and_then(|command| command.model.clone());
        command.or_else(|| self.agent.as_ref().and_then(|agent| agent.model.clone()))
    }

    /// What the agent's description asks about and forbids, and what it and the command leave of a tool.
    pub(super) fn rules(&self) -> Vec<(List, String)> {
        let command = self.command.as_ref().and_then(|command| command.tools.as_ref());
        let command = command.and_then(|tools| tools.only());
        self.agent.iter().flat_map(Agent::permissions).chain(command).collect()
    }

    pub(super) fn max_steps(&self) -> Option<u32> {
        self.agent.as_ref().and_then(|agent| agent.max_steps)
    }

    /// The tools that are left, where that is not all of them.
    pub(super) fn tools(&self, all: &Toolbox) -> Option<Vec<String>> {
        let agent = self.agent.as_ref().map(|agent| &agent.tools);
        let command = self.command.as_ref().and_then(|command| command.tools.as_ref());
        let stays = |name: &&str| [agent, command].into_iter().flatten().all(|tools| tools.has(name));
        let kept: Vec<String> = all.names().filter(stays).map(str::to_owned).collect();
        (kept.len() < all.names().count()).then_some(kept)
    }
}

fn find(described: &Described, name: &str) -> anyhow::Result<Agent> {
    let error = match choose(&described.all.agents, Some(name)) {
        Ok((agent, _)) => return Ok(agent),
        Err(error) => error,
    };
    if let Some(error) = not_accepted(described, DefinitionKind::Agent, name) {
        return Err(error);
    }
    let hint = match &error {
        ChooseError::NoSuch { known, .. } => format!("there are: {}", known.join(", ")),
        ChooseError::None => "offshoot agents check".to_owned(),
    };
    Err(marked(Kind::Usage, Some(hint), error.into()))
}

/// Whether the main agent is not to be used, by the name that it has for others.
fn is_switched_off(described: &Described) -> bool {
    described.all.agents.iter().any(|agent| agent.name == GENERAL && agent.is_disabled)
}

/// Who runs then.
fn instead(described: &Described) -> anyhow::Result<Agent> {
    let (agent, warning) = choose(&described.all.agents, None)
        .map_err(|error| marked(Kind::Usage, Some("offshoot agents check".to_owned()), error.into()))?;
    if let Some(warning) = warning {
        eprintln!("warning: {}", report::plain(&warning));
    }
    Ok(agent)
}

/// The agent that a command is for. Other harnesses have agents of their own, which are nowhere described.
fn for_command(described: &Described, name: &str) -> anyhow::Result<Option<Agent>> {
    match choose(&described.all.agents, Some(name)) {
        Ok((agent, _)) => Ok(Some(agent)),
        Err(_) => match not_accepted(described, DefinitionKind::Agent, name) {
            Some(error) => Err(error),
            None => {
                eprintln!("the agent `{}` is not described; the main agent runs", report::plain(name));
                Ok(None)
            }
        },
    }
}

/// The command that a prompt calls, with its arguments. What begins like a path is a prompt.
fn command<'a>(described: &Described, prompt: &'a str) -> anyhow::Result<Option<(Skill, &'a str)>> {
    let Some(said) = prompt.strip_prefix('/') else { return Ok(None) };
    let (name, arguments) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
    if let Some(command) = described.all.commands.iter().find(|command| command.name == name) {
        return Ok(Some((command.clone(), arguments)));
    }
    if let Some(error) = not_accepted(described, DefinitionKind::Command, name) {
        return Err(error);
    }
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_:".contains(c));
    if !is_name || Path::new("/").join(name).exists() {
        return Ok(None);
    }
    let known: Vec<String> = described.all.commands.iter().map(|known| format!("/{}", known.name)).collect();
    let known = if known.is_empty() {
        "there are none".to_owned()
    } else {
        format!("there are: {}", known.join(", "))
    };
    Err(anyhow::anyhow!("there is no command `/{name}`")).or_fail_with(Kind::Usage, || {
        format!("{known}; a prompt that is none begins with a space, as in ' /{name}'")
    })
}
