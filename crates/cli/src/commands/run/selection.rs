//! Selects the agent of a run, and expands slash commands.

use std::path::Path;
use std::sync::Arc;

use agent::definition::{Agent, ChooseError, DefinitionKind, FolderSkills, GENERAL, Skill, choose};
use agent::{RuleList, Skill as AvailableSkill, Toolbox};

use super::options::StartMode;
use crate::commands::agents::not_accepted;
use crate::definitions::FolderDefinitions;
use crate::failure::{ExitKind, OrFail, classify};

/// Name of the default agent.
const MAIN: &str = "main";

/// The agent of a run, its prompt, and the definitions it can use.
pub(super) struct AgentSelection {
    /// Name of the agent.
    pub(super) name: String,
    /// The prompt with its slash command expanded.
    pub(super) prompt: Option<String>,
    pub(super) skills: Arc<[AvailableSkill]>,
    pub(super) folder_skills: Arc<FolderSkills>,
    /// Agents that can be started as sub-agents.
    pub(super) agents: Arc<[Agent]>,
    agent: Option<Agent>,
    command: Option<Skill>,
    is_fork: bool,
}

impl AgentSelection {
    /// Finds the agent by its name, or by the slash command of the prompt. A resumed run keeps its agent, and a slash command
    /// with `context: fork` runs in a fork of it.
    pub(super) fn find(
        here: &Path,
        name: Option<&str>,
        prompt: Option<String>,
        mode: StartMode,
    ) -> anyhow::Result<Self> {
        let definitions = FolderDefinitions::load(here)?;
        let (command, prompt) = match prompt {
            Some(prompt) => match slash_command(&definitions, &prompt)? {
                Some((command, arguments)) => {
                    let filled = command.filled_in(arguments);
                    (Some(command), Some(filled))
                }
                None => (None, Some(prompt)),
            },
            None => (None, None),
        };
        let is_fork = mode == StartMode::Fork
            || mode == StartMode::Resume && command.as_ref().is_some_and(|command| command.in_fork);
        let is_new = mode == StartMode::New;
        let agent = match (name, command.as_ref().and_then(|command| command.agent.as_deref())) {
            (Some(name), _) => Some(find_agent(&definitions, name)?),
            (None, Some(name)) if is_new || is_fork => agent_of_command(&definitions, name)?,
            (None, None) if is_new && is_main_disabled(&definitions) => Some(default_agent(&definitions)?),
            _ => None,
        };
        let unaccepted = definitions.unaccepted();
        if unaccepted > 0 {
            let files = report::counted(unaccepted as u64, "file");
            status!("{files} for agents not accepted; to list them: `offshoot agents check`");
        }
        Ok(Self {
            name: agent.as_ref().map_or(MAIN, |agent| agent.name.as_str()).to_owned(),
            prompt,
            folder_skills: Arc::new(definitions.folder_skills),
            skills: definitions.all.skills.into(),
            agents: definitions.all.agents.into(),
            agent,
            command,
            is_fork,
        })
    }

    /// Returns whether the prompt runs in a fork of the earlier run.
    pub(super) fn is_fork(&self) -> bool {
        self.is_fork
    }

    /// Returns the agent that a fork runs as, if it is not its parent's.
    pub(super) fn fork_agent(&self) -> Option<String> {
        self.agent.as_ref().map(|agent| agent.name.clone())
    }

    /// Returns the slash command that a fork follows.
    pub(super) fn fork_command(&self) -> Option<&str> {
        self.command.as_ref().filter(|command| command.in_fork).map(|command| command.name.as_str())
    }

    /// Returns the rules that limit a fork to the tools of its slash command. The tools in the request stay the parent's.
    pub(super) fn command_rules(&self, all: &Toolbox) -> Vec<(RuleList, String)> {
        let Some(tools) = self.command.as_ref().and_then(|command| command.tools.as_ref()) else {
            return Vec::new();
        };
        let left_out = all.names().filter(|name| !tools.has(name));
        left_out.map(|name| (RuleList::Deny, name.to_owned())).chain(tools.only()).collect()
    }

    /// Returns the instructions of the agent, in addition to those of all agents.
    pub(super) fn instructions(&self) -> Option<String> {
        self.agent.as_ref().map(|agent| agent.prompt.clone()).filter(|prompt| !prompt.is_empty())
    }

    /// Returns the model of the slash command or of the agent.
    pub(super) fn model(&self) -> Option<String> {
        let command = self.command.as_ref().and_then(|command| command.model.clone());
        command.or_else(|| self.agent.as_ref().and_then(|agent| agent.model.clone()))
    }

    /// Returns the permission rules of the agent and of the slash command.
    pub(super) fn rules(&self) -> Vec<(RuleList, String)> {
        let command = self.command.as_ref().and_then(|command| command.tools.as_ref());
        let command = command.and_then(|tools| tools.only());
        self.agent.iter().flat_map(Agent::permissions).chain(command).collect()
    }

    /// Returns the maximum number of turns of the agent.
    pub(super) fn max_steps(&self) -> Option<u32> {
        self.agent.as_ref().and_then(|agent| agent.max_steps)
    }

    /// Returns the available tools, or `None` if all are available.
    pub(super) fn tools(&self, all: &Toolbox) -> Option<Vec<String>> {
        let agent = self.agent.as_ref().map(|agent| &agent.tools);
        let command = self.command.as_ref().and_then(|command| command.tools.as_ref());
        let is_available = |name: &&str| [agent, command].into_iter().flatten().all(|tools| tools.has(name));
        let available: Vec<String> = all.names().filter(is_available).map(str::to_owned).collect();
        (available.len() < all.names().count()).then_some(available)
    }
}

fn find_agent(definitions: &FolderDefinitions, name: &str) -> anyhow::Result<Agent> {
    let error = match choose(&definitions.all.agents, Some(name)) {
        Ok((agent, _)) => return Ok(agent),
        Err(error) => error,
    };
    if let Some(error) = not_accepted(definitions, DefinitionKind::Agent, name) {
        return Err(error);
    }
    let hint = match &error {
        ChooseError::NoSuch { known, .. } => format!("choose one of: {}", known.join(", ")),
        ChooseError::None => "offshoot agents check".to_owned(),
    };
    Err(classify(ExitKind::Usage, Some(hint), error.into()))
}

/// Returns `true` if the main agent is disabled, under its general name.
fn is_main_disabled(definitions: &FolderDefinitions) -> bool {
    definitions.all.agents.iter().any(|agent| agent.name == GENERAL && agent.is_disabled)
}

/// Chooses the agent that replaces a disabled main agent.
fn default_agent(definitions: &FolderDefinitions) -> anyhow::Result<Agent> {
    let (agent, warning) = choose(&definitions.all.agents, None)
        .map_err(|error| classify(ExitKind::Usage, Some("offshoot agents check".to_owned()), error.into()))?;
    if let Some(warning) = warning {
        warning!("{}", report::plain(&warning));
    }
    Ok(agent)
}

/// Finds the agent of a slash command. Commands of other harnesses may name agents that have no definition.
fn agent_of_command(definitions: &FolderDefinitions, name: &str) -> anyhow::Result<Option<Agent>> {
    match choose(&definitions.all.agents, Some(name)) {
        Ok((agent, _)) => Ok(Some(agent)),
        Err(_) => match not_accepted(definitions, DefinitionKind::Agent, name) {
            Some(error) => Err(error),
            None => {
                warning!("no agent `{}`; using the main agent", report::plain(name));
                Ok(None)
            }
        },
    }
}

/// Returns the slash command of a prompt and its arguments. A path is not a slash command.
fn slash_command<'a>(
    definitions: &FolderDefinitions,
    prompt: &'a str,
) -> anyhow::Result<Option<(Skill, &'a str)>> {
    let Some(text) = prompt.strip_prefix('/') else { return Ok(None) };
    let (name, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if let Some(command) = definitions.all.commands.iter().find(|command| command.name == name) {
        return Ok(Some((command.clone(), arguments)));
    }
    if let Some(error) = not_accepted(definitions, DefinitionKind::Command, name) {
        return Err(error);
    }
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_:".contains(c));
    if !is_name || Path::new("/").join(name).exists() {
        return Ok(None);
    }
    let known: Vec<String> =
        definitions.all.commands.iter().map(|known| format!("/{}", known.name)).collect();
    let known = if known.is_empty() {
        "no commands are defined".to_owned()
    } else {
        format!("choose one of {}", known.join(", "))
    };
    Err(anyhow::anyhow!("no command `/{name}`"))
        .or_fail_with(ExitKind::Usage, || format!("{known}; or begin a prompt with a space: ' /{name}'"))
}
