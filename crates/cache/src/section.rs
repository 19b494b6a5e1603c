//! Sections of a prompt.

/// Section of a prompt. A change in one changes all later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// Definitions of tools.
    Tools,
    /// Instructions outside the messages.
    System,
    /// Conversation.
    Messages,
}

impl Section {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::System, Self::Messages];
}
