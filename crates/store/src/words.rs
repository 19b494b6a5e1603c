//! The closed lists of the journal: what a column may say, as a type.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// An enum whose variants are stored, printed and read back as one word each.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All of them, in the order they are written here.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word it is stored and printed as.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The variant of that word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Self::from_word(value.as_str()?).ok_or(FromSqlError::InvalidType)
            }
        }
    };
}

words!(
    /// Which place a run has in the tree.
    RunKind {
        /// The agent the user talks to.
        Main = "main",
        /// An agent that another one started, with a context of its own.
        Sub = "sub",
        /// An agent that starts from its parent's exact request bytes.
        Fork = "fork",
    }
);

words!(
    /// Where a run stands.
    RunStatus {
        /// Its loop is at work.
        Running = "running",
        /// Its loop waits for its jobs.
        Waiting = "waiting",
        /// Stopped by the user or with its parent; goes on when it is resumed.
        Paused = "paused",
        /// It said everything.
        Completed = "completed",
        /// It cannot go on.
        Failed = "failed",
        /// The user ended it.
        CancelledByUser = "cancelled_by_user",
        /// Its parent ended it.
        CancelledByParent = "cancelled_by_parent",
        /// Its process went away in the middle.
        Interrupted = "interrupted",
        /// The provider stopped answering.
        Stalled = "stalled",
        /// The money was used up.
        Budget = "budget",
        /// The steps were used up.
        StepCap = "step_cap",
    }
);

impl RunStatus {
    /// Nothing follows by itself: only somebody who says more takes up a completed run, and nobody one that was
    /// cancelled.
    ///
    /// The others may be taken up as they are: a paused or interrupted run by resuming it, a stalled or failed one by
    /// trying again when the cause is gone, and one that met its budget or step cap by giving it more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::CancelledByUser | Self::CancelledByParent)
    }

    /// As it stands in a sentence.
    pub fn words(self) -> String {
        self.as_str().replace('_', " ")
    }

    /// It goes on when whoever it belongs to is taken up again.
    pub fn is_paused(self) -> bool {
        matches!(self, Self::Paused | Self::Interrupted)
    }

    /// A loop is supposed to be at work on it.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Waiting)
    }
}

words!(
    /// Why a message is in a run's messages.
    Origin {
        /// What opens the conversation: the surroundings, not the question.
        Context = "context",
        /// Somebody's words: the user's, or the parent's for a sub-agent.
        Prompt = "prompt",
        /// What the model answered.
        Reply = "reply",
        /// What the tools answered.
        Results = "results",
        /// What waited in the inbox.
        Inbox = "inbox",
        /// The kernel's own words.
        Kernel = "kernel",
        /// What a compaction says of the messages before it.
        Summary = "summary",
        /// A message repeated behind a summary so that the context goes on with it; people see the original.
        Carried = "carried",
        /// The parent's message, at the start of a fork.
        Inherited = "inherited",
    }
);

words!(
    /// What a model was asked for.
    Purpose {
        /// The next turn of the run.
        Turn = "turn",
        /// A summary of the run's messages.
        Summary = "summary",
    }
);

words!(
    /// Where a model call stands.
    ModelCallStatus {
        /// Written down before the request was sent; nothing came back that could be kept as a reply.
        Asked = "asked",
        /// The whole reply is kept.
        Answered = "answered",
        /// Given up.
        Failed = "failed",
    }
);

words!(
    /// What may be done with a tool call that was started and never finished.
    Policy {
        /// It changes nothing: run it again, and beside others.
        Pure = "pure",
        /// It changes something, and doing it twice is doing it once: run it again.
        Idempotent = "idempotent",
        /// Twice would be too often: never run it again, say that it may have run.
        Unsafe = "unsafe",
    }
);

words!(
    /// Where a tool call stands.
    CallStatus {
        /// The model asked for it.
        Planned = "planned",
        /// It was started.
        Running = "running",
        /// It answered.
        Done = "done",
        /// It answered with an error.
        Failed = "failed",
        /// It was not allowed.
        Denied = "denied",
        /// It was started, its end was never seen, and it must not be started twice.
        MayHaveRun = "may_have_run",
    }
);

impl CallStatus {
    /// It has no result yet.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Planned | Self::Running)
    }
}

words!(
    /// What waits in an inbox.
    InboxKind {
        /// A job ended.
        Job = "job",
        /// Somebody says something.
        Message = "message",
        /// The run is to stop.
        Cancel = "cancel",
    }
);

words!(
    /// Where a task stands, in the main agent's judgement.
    TaskStatus {
        /// Not begun.
        Pending = "pending",
        /// Begun.
        InProgress = "in_progress",
        /// Judged complete.
        Complete = "complete",
        /// Judged failed.
        Failed = "failed",
        /// No longer wanted.
        Cancelled = "cancelled",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back() {
        for status in RunStatus::ALL {
            assert_eq!(RunStatus::from_word(status.as_str()), Some(*status));
        }
        assert_eq!(RunStatus::from_word("done"), None);
    }

    #[test]
    fn nothing_live_is_final() {
        assert!(RunStatus::ALL.iter().all(|status| !(status.is_live() && status.is_final())));
        assert!(!RunStatus::Paused.is_final() && !RunStatus::Paused.is_live());
    }
}
