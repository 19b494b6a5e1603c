//! Forks that run as another agent: with its instructions, its tools and its rules.
//!
//! The fork keeps its parent's messages, model and limits. Its request head is built as for a new run with that agent, so
//! it shares the prompt cache up to the first part that differs: tools come first, then the instructions, then messages.

use store::RunKind;

use crate::definition::{self, Agent};
use crate::error::RunError;
use crate::head;
use crate::kernel::Kernel;
use crate::permission::RuleList;
use crate::settings::{ForkAgent, RunSettings};

impl Kernel {
    /// Returns the agent of a fork.
    pub(crate) fn find_fork_agent(&self, name: &str) -> Result<Agent, RunError> {
        let found = definition::choose(&self.agents, Some(name)).map_err(|error| match &error {
            definition::ChooseError::NoSuch { known, .. } => {
                RunError::ForkRefused(format!("{error}; available: {}", known.join(", ")))
            }
            definition::ChooseError::None => RunError::ForkRefused(error.to_string()),
        })?;
        Ok(found.0)
    }

    /// Applies an agent to the settings of a fork, which are its parent's. An agent can only narrow what the parent may do.
    pub(crate) fn apply_fork_agent(
        &self,
        agent: &Agent,
        above: &store::Run,
        settings: &mut RunSettings,
    ) -> Result<ForkAgent, RunError> {
        let parent = settings.clone();
        settings.instructions = Some(agent.prompt.clone()).filter(|prompt| !prompt.is_empty());
        let available = self.tools.only(parent.tools.as_deref());
        let names: Vec<&str> = available.names().collect();
        let own: Vec<String> =
            names.iter().filter(|name| agent.tools.has(name)).map(|name| (*name).to_owned()).collect();
        let mut rules = agent.permissions();
        if own.is_empty() {
            // A conversation with calls needs tools in its requests. They are the parent's, and none may be called.
            rules.push((RuleList::Deny, "*".to_owned()));
        } else if own.len() < names.len() {
            settings.tools = Some(own);
        }
        if !rules.is_empty() {
            add_rules(&mut rules, parent.rules.clone());
            settings.rules = rules;
        }
        settings.max_steps = agent.max_steps.unwrap_or(u32::MAX).min(settings.max_steps);
        let parts = [
            ("tools", settings.tools != parent.tools),
            ("instructions", settings.instructions != parent.instructions),
        ];
        let differs = parts.iter().filter(|(_, differs)| *differs).map(|(name, _)| (*name).to_owned());
        Ok(ForkAgent { is_main: self.is_main_conversation(above)?, differs: differs.collect() })
    }

    /// Builds the head of the fork's requests. If the provider has rejected settings of its parent's, it has none of them.
    pub(crate) fn head_of_fork_agent(
        &self,
        agent: &ForkAgent,
        model: &str,
        settings: &RunSettings,
        parent_head: &[u8],
    ) -> Result<Vec<u8>, RunError> {
        let kind = if agent.is_main { RunKind::Main } else { RunKind::Sub };
        let own = self.head(kind, model, settings)?.bytes().to_vec();
        let dialect = settings.dialect();
        Ok(match head::without_model_settings(dialect, parent_head) {
            Some(_) => own,
            None => head::without_model_settings(dialect, &own).map_or(own, |(own, _)| own),
        })
    }

    /// Returns whether the conversation of a run, or of the run that it is a fork of, is a main agent's.
    fn is_main_conversation(&self, run: &store::Run) -> Result<bool, RunError> {
        let mut row = run.clone();
        while let (RunKind::Fork, Some(parent)) = (row.kind, row.parent.clone()) {
            row = self.store.run(&parent).row()?;
        }
        Ok(row.kind == RunKind::Main)
    }
}

/// Adds the `ask` and `deny` rules of a run above. An `allow` rule is an exception within its own list only: if a run above
/// has an `ask` rule, all exceptions are dropped.
pub(crate) fn add_rules(rules: &mut Vec<(RuleList, String)>, above: Vec<(RuleList, String)>) {
    let is_exception = |(list, _): &(RuleList, String)| *list == RuleList::Allow;
    if above.iter().any(|(list, _)| *list == RuleList::Ask) {
        rules.retain(|rule| !is_exception(rule));
    }
    rules.extend(above.into_iter().filter(|rule| !is_exception(rule)));
}
