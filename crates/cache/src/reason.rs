//! Reasons for cache misses, in the providers' words if they exist.

use std::fmt;

use crate::section::Section;

/// Reason why a prefix was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Another model was asked.
    ModelChanged,
    /// The tools or their keys changed.
    ToolsChanged,
    /// The instructions or their keys changed.
    SystemChanged,
    /// The messages or their keys changed.
    MessagesChanged,
    /// The entry has expired.
    Expired,
    /// The response of the writing request had not begun.
    NotYetReadable,
    /// The prefix is too short to be cached.
    BelowMinimum,
    /// The entry is further back than any marker's lookup.
    BeyondLookBack,
    /// The history is stored by the provider, so its bytes are unknown.
    HistoryElsewhere,
    /// The conversation was compacted, so the written prefix was not asked for.
    Compacted,
    /// The provider did not have the entry although it should.
    Unavailable,
    /// There was no response, so nothing was read, written or charged.
    Unanswered,
    /// Nothing is marked, or not as far as the written prefix.
    Unmarked,
    /// The first request of its lane, and no other request wrote its prefix.
    Cold,
}

impl Reason {
    /// Returns the reason's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ModelChanged => "model_changed",
            Self::ToolsChanged => "tools_changed",
            Self::SystemChanged => "system_changed",
            Self::MessagesChanged => "messages_changed",
            Self::Expired => "expired",
            Self::NotYetReadable => "not_yet_readable",
            Self::BelowMinimum => "below_minimum",
            Self::BeyondLookBack => "beyond_look_back",
            Self::HistoryElsewhere => "history_elsewhere",
            Self::Compacted => "compacted",
            Self::Unavailable => "unavailable",
            Self::Unanswered => "unanswered",
            Self::Unmarked => "unmarked",
            Self::Cold => "cold",
        }
    }

    /// Returns whether the written prefix was not the start of the request.
    pub fn is_break(self) -> bool {
        matches!(self, Self::ModelChanged | Self::ToolsChanged | Self::SystemChanged | Self::MessagesChanged)
    }

    pub(crate) fn change_in(section: Section) -> Self {
        match section {
            Section::Tools => Self::ToolsChanged,
            Section::System => Self::SystemChanged,
            Section::Messages => Self::MessagesChanged,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
