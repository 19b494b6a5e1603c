//! Kinds of definitions.

/// A kind of definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    /// An agent.
    Agent,
    /// A skill.
    Skill,
    /// A slash command.
    Command,
}

impl DefinitionKind {
    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Skill => "skill",
            Self::Command => "command",
        }
    }
}
