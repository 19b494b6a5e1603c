//! What a project and its user have written down for agents: agents, skills and commands, as Markdown with front matter.
//!
//! Start at [`Definitions::load`]. Everything that is found is kept, also what is not used and why: nothing is skipped
//! without a word. A project's file counts only once the user has accepted it as it is ([`Trust`]).

mod agent;
mod choose;
mod find;
mod front;
mod keys;
mod rule;
mod skill;
mod tools;

#[cfg(test)]
mod tests;

pub use crate::trust::{Trust, TrustError};
pub use agent::Agent;
pub use choose::{ChooseError, GENERAL, choose};
pub use find::{DefinitionFile, DefinitionFolders, DefinitionKind, DefinitionState, Definitions};
pub use front::DefinitionError;
pub use keys::UnusedKey;
pub use rule::ToolRule;
pub use skill::Skill;
pub use tools::ToolSelection;
