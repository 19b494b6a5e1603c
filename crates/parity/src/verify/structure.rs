//! Differences of structure: order, shape, lanes and jobs. Each has its level and its words in one table.

use super::text::SIDES;
use crate::verdict::Level;

/// A difference in something other than a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Structure {
    /// The cache marker of a unit is gone, new or changed.
    Marker(ChangeKind),
    ToolOrder,
    HeaderOrder,
    /// Calls of one name changed places.
    CallOrder,
    /// Calls of different names changed places.
    CallNameOrder,
    ResultOrder,
    /// Results of one message changed places in a harness that sends them as they end.
    UnpromisedResultOrder,
    AnnouncementOrder,
    TextOrder,
    /// Items of two sorts changed places.
    Order([&'static str; 2]),
    /// A reminder is attached to another result.
    ReminderPlace,
    /// Results are divided into messages at another place.
    ResultMessages,
    /// Messages are divided at another place.
    Messages,
    Role,
    /// The same text as a string and as a block.
    TextForm,
    /// Bytes around the units.
    Frame,
    /// The same value in other bytes.
    Spelling,
    /// A turn that one side has.
    Turn {
        side: usize,
        units: String,
    },
    Unreadable {
        side: usize,
    },
    ExitCode,
    /// Only one side has requests, or requests of agents.
    Activity {
        side: usize,
        words: &'static str,
    },
    Lane {
        side: usize,
    },
    SideCall {
        side: usize,
    },
    Parent,
    SpawnCall,
    AgentType,
    TurnCount,
    Answered,
    Attempts,
    Status {
        attempt: usize,
        attempts: usize,
    },
    /// Other things happened to a job.
    JobEvents {
        lane: String,
    },
    JobEventOrder {
        lane: String,
    },
    JobEventTurn {
        lane: String,
        event: &'static str,
    },
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ChangeKind {
    /// Only the golden has it.
    Gone,
    /// Only the candidate has it.
    New,
    /// Its value changed.
    Changed,
    /// Only its words changed.
    Reworded,
}

impl Structure {
    /// Returns the highest level that still holds with this difference, and its description.
    pub(super) fn level_and_words(&self) -> (Option<Level>, String) {
        use Level::{E0, E1, E2, E3};
        let side = |side: &usize| SIDES[*side];
        let (level, words): (Level, &str) = match self {
            Self::Marker(ChangeKind::Gone) => (E1, "a cache marker is missing"),
            Self::Marker(ChangeKind::New) => (E1, "a cache marker is new"),
            Self::Marker(_) => (E1, "a cache marker differs"),
            Self::ToolOrder => (E1, "the order of the tools differs"),
            Self::HeaderOrder => (E3, "the order of the headers differs"),
            Self::CallOrder => (E1, "two calls of one tool changed places"),
            Self::CallNameOrder => (E0, "the order of the calls differs"),
            Self::ResultOrder => (E1, "the order of the results differs"),
            Self::UnpromisedResultOrder => {
                (E3, "the order of the results differs, which this harness does not promise")
            }
            Self::AnnouncementOrder => {
                (E3, "the order of the announcements differs, which no harness promises")
            }
            Self::TextOrder => (E1, "the order of the texts differs"),
            Self::Order([a, b]) => return (Some(E1), format!("{a} and {b} changed places")),
            Self::ReminderPlace => (E2, "a reminder is attached to another result"),
            Self::ResultMessages => (E1, "results are split into other messages"),
            Self::Messages => (E1, "messages are split at another place"),
            Self::Role => (E0, "the role differs"),
            Self::TextForm => (E3, "the same text in another form"),
            Self::Frame => (E1, "the body differs outside of the units"),
            Self::Spelling => (E3, "the same value in other bytes"),
            Self::Turn { side: at, units } => {
                return (Some(E0), format!("only the {} has this turn, which adds {units}", side(at)));
            }
            Self::Unreadable { side: at } => {
                return (Some(E0), format!("the {}'s request cannot be read", side(at)));
            }
            Self::ExitCode => return (None, "the exit code differs".to_owned()),
            Self::Activity { side: at, words } => {
                return (None, format!("only the {} has {words}", side(at)));
            }
            Self::Lane { side: at } => return (Some(E0), format!("only the {} has this lane", side(at))),
            Self::SideCall { side: at } => return (Some(E0), format!("only the {} has this call", side(at))),
            Self::Parent => (E0, "the parent of the lane differs"),
            Self::SpawnCall => (E1, "the call that started the lane differs"),
            Self::AgentType => (E1, "the type of the agent differs"),
            Self::TurnCount => (E1, "the number of turns differs"),
            Self::Answered => return (None, "only one of the requests was answered".to_owned()),
            Self::Attempts => (E2, "the number of attempts differs"),
            Self::Status { attempt, attempts } => {
                let words = format!("the status of attempt {attempt} of {attempts} differs");
                return (Some(E2), words);
            }
            Self::JobEvents { lane } => return (Some(E0), format!("the events of {lane} differ")),
            Self::JobEventOrder { lane } => {
                return (Some(E1), format!("the order of the events of {lane} differs"));
            }
            Self::JobEventTurn { lane, event } => {
                return (Some(E1), format!("the {event} of {lane} is at another turn"));
            }
        };
        (Some(level), words.to_owned())
    }
}
