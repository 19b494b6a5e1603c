//! Why a request read less than it might have: the providers' words where they have one, else ours.

use std::fmt;

use crate::prompt::Section;

/// Why a prefix was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Another model was asked.
    ModelChanged,
    /// The tools, or what belongs to their key, are not the same.
    ToolsChanged,
    /// The instructions, or what belongs to their key, are not the same.
    SystemChanged,
    /// What was said, or what belongs to its key, is not the same.
    MessagesChanged,
    /// It was written, and had gone.
    Expired,
    /// Its writer's answer had not begun.
    NotYetReadable,
    /// It is too short to be kept.
    BelowMinimum,
    /// It was written, but further back than any marker looks.
    BeyondLookBack,
    /// The history is with the provider, and not in the request: nothing can be told from the bytes.
    HistoryElsewhere,
    /// The conversation was summed up and begins anew: what was written is not what is asked.
    Compacted,
    /// The provider did not have it, although it should.
    Unavailable,
    /// No answer came: nothing was read, written or charged.
    Unanswered,
    /// Nothing is marked, or not as far as what had been written.
    Unmarked,
    /// The first of its lane, and nobody had written any beginning of it.
    Cold,
}

impl Reason {
    /// The word for it.
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

    /// Whether a prefix that had been written was not what came next.
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
