//! The choice of side work: settings and command line.

use serde::Deserialize;
use toml::Spanned;

use super::prompts;

/// The side work of main runs. All of it is off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideWork {
    /// Sums up each completed turn in a sentence or two.
    pub turn_summary: bool,
    /// Suggests the user's next prompt.
    pub prompt_suggestion: bool,
    /// Keeps notes about the conversation as a memory of its thread.
    pub session_memory: bool,
    /// Watches the agent while it works.
    pub supervisor: Option<AgentSupervisor>,
}

/// A question that is asked about the agent's work at intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSupervisor {
    /// The question.
    pub question: String,
    /// The number of model turns between two questions.
    pub every: u32,
}

impl AgentSupervisor {
    /// The default question.
    pub const QUESTION: &str = "Is the agent going in circles, or has it lost sight of what was asked?";
    /// The default interval.
    pub const EVERY: u32 = 10;
}

/// One kind of side work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SideTask {
    TurnSummary,
    PromptSuggestion,
    SessionMemory,
    Supervisor(String),
}

impl SideTask {
    /// Returns the name in settings, events and the journal.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::TurnSummary => "turn_summary",
            Self::PromptSuggestion => "prompt_suggestion",
            Self::SessionMemory => "session_memory",
            Self::Supervisor(_) => "supervisor",
        }
    }

    /// Returns the fork's prompt.
    pub(super) fn prompt(&self) -> String {
        match self {
            Self::TurnSummary => prompts::TURN_SUMMARY.to_owned(),
            Self::PromptSuggestion => prompts::PROMPT_SUGGESTION.to_owned(),
            Self::SessionMemory => prompts::SESSION_MEMORY.to_owned(),
            Self::Supervisor(question) => prompts::supervisor(question),
        }
    }
}

impl SideWork {
    /// Returns whether all of it is off.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the tasks after a completed turn.
    pub(super) fn after_turn(&self) -> Vec<SideTask> {
        let all = [
            (self.turn_summary, SideTask::TurnSummary),
            (self.prompt_suggestion, SideTask::PromptSuggestion),
            (self.session_memory, SideTask::SessionMemory),
        ];
        all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, task)| task).collect()
    }

    /// Returns the tasks after a model turn within the work, by its 1-based number.
    pub(super) fn at_step(&self, step: u32) -> Vec<SideTask> {
        let due = self.supervisor.iter().filter(|supervisor| step.is_multiple_of(supervisor.every));
        due.map(|supervisor| SideTask::Supervisor(supervisor.question.clone())).collect()
    }

    /// Returns all tasks.
    pub(super) fn all(&self) -> Vec<SideTask> {
        let supervisor = self.supervisor.iter().map(|it| SideTask::Supervisor(it.question.clone()));
        self.after_turn().into_iter().chain(supervisor).collect()
    }
}

/// The table `[side_work]` of a settings file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SideWorkTable {
    turn_summary: Option<bool>,
    prompt_suggestion: Option<bool>,
    session_memory: Option<bool>,
    supervisor: Option<Spanned<SupervisorSetting>>,
    every: Option<Spanned<u32>>,
}

/// On or off, or a question.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`supervisor` must be true, false or a question")]
enum SupervisorSetting {
    Switch(bool),
    Question(String),
}

impl SideWorkTable {
    /// Applies the settings. An error has its position, its text, and a valid setting.
    pub(crate) fn apply(&self, plan: &mut SideWork) -> Result<(), (usize, String, String)> {
        plan.turn_summary = self.turn_summary.unwrap_or(plan.turn_summary);
        plan.prompt_suggestion = self.prompt_suggestion.unwrap_or(plan.prompt_suggestion);
        plan.session_memory = self.session_memory.unwrap_or(plan.session_memory);
        if let Some(setting) = &self.supervisor {
            let question = match setting.get_ref() {
                SupervisorSetting::Switch(false) => None,
                SupervisorSetting::Switch(true) => Some(AgentSupervisor::QUESTION),
                SupervisorSetting::Question(question) if question.trim().is_empty() => {
                    let why = "the question of the supervisor is empty".to_owned();
                    return Err((setting.span().start, why, "supervisor = true".to_owned()));
                }
                SupervisorSetting::Question(question) => Some(question.as_str()),
            };
            plan.supervisor = question.map(|question| AgentSupervisor {
                question: question.to_owned(),
                every: AgentSupervisor::EVERY,
            });
        }
        if let Some(every) = &self.every {
            let (at, number) = (every.span().start, *every.get_ref());
            let Some(supervisor) = plan.supervisor.as_mut() else {
                let why = "`every` has no effect without `supervisor`".to_owned();
                return Err((at, why, "supervisor = true".to_owned()));
            };
            if number == 0 {
                let why = "`every` must be at least 1".to_owned();
                return Err((at, why, format!("every = {}", AgentSupervisor::EVERY)));
            }
            supervisor.every = number;
        }
        Ok(())
    }
}
