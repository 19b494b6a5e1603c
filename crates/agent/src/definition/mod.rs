//! Definitions of agents, skills and slash commands: Markdown files with front matter, of a project or its user.
//!
//! Start at [`Definitions::load`]. Files and keys that are not used are kept with the reason. A project's file is used only
//! after the user has accepted its content ([`Trust`]).

mod agent;
mod choose;
mod find;
mod front;
mod keys;
mod kind;
mod rule;
mod skill;
mod tools;

#[cfg(test)]
mod tests;

pub use crate::trust::{Trust, TrustError};
pub use agent::Agent;
pub use choose::{ChooseError, GENERAL, choose};
pub use find::{DefinitionFile, DefinitionFolders, DefinitionState, Definitions, FolderSkills};
pub use front::DefinitionError;
pub use keys::UnusedKey;
pub use kind::DefinitionKind;
pub use rule::ToolRule;
pub use skill::Skill;
pub use tools::ToolSelection;
