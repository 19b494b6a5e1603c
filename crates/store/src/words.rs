//! The enums of the journal and the words that columns store for them.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// Defines an enum whose variants are stored and printed as one word each.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All variants, in the order of their definition.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that is stored and printed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Parses a stored word.
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
    /// The event that hooks were asked about.
    HookEvent {
        /// Before a tool call.
        PreToolUse = "pre_tool_use",
        /// After a tool call.
        PostToolUse = "post_tool_use",
        /// At the end of a turn.
        Stop = "stop",
    }
);

words!(
    /// The kind of a run.
    RunKind {
        /// The agent that the user talks to.
        Main = "main",
        /// An agent that another agent started, with its own context.
        Sub = "sub",
        /// An agent that starts from its parent's exact request.
        Fork = "fork",
    }
);

words!(
    /// The status of a run.
    RunStatus {
        /// Its loop is running.
        Running = "running",
        /// Its loop waits for its jobs.
        Waiting = "waiting",
        /// Paused by the user or together with its parent; continues when it is resumed.
        Paused = "paused",
        /// Its agent has finished.
        Completed = "completed",
        /// An error ended it.
        Failed = "failed",
        /// The user cancelled it.
        CancelledByUser = "cancelled_by_user",
        /// Its parent cancelled it.
        CancelledByParent = "cancelled_by_parent",
        /// Its process ended unexpectedly.
        Interrupted = "interrupted",
        /// The provider stopped responding.
        Stalled = "stalled",
        /// It reached its budget.
        Budget = "budget",
        /// It reached its limit of steps.
        StepCap = "step_cap",
    }
);

impl RunStatus {
    /// Returns whether nothing follows unless the user adds a prompt to a completed run. A cancelled run never
    /// continues.
    ///
    /// Other runs can be resumed: a paused or interrupted run at once, a stalled or failed one when the cause
    /// is gone, and
    /// one that reached its budget or step limit with a higher limit.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::CancelledByUser | Self::CancelledByParent)
    }

    /// The status as words of a sentence.
    pub fn words(self) -> String {
        self.as_str().replace('_', " ")
    }

    /// Returns whether it continues when its root is resumed.
    pub fn is_paused(self) -> bool {
        matches!(self, Self::Paused | Self::Interrupted)
    }

    /// Returns whether a loop should be running it.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Waiting)
    }
}

words!(
    /// The reason why a message is in a run.
    Origin {
        /// The opening message that describes the environment.
        Context = "context",
        /// A prompt of the user, or of the parent for a sub-agent.
        Prompt = "prompt",
        /// A reply of the model.
        Reply = "reply",
        /// Tool results.
        Results = "results",
        /// Entries of the inbox.
        Inbox = "inbox",
        /// Text of the kernel itself.
        Kernel = "kernel",
        /// The summary of compacted messages.
        Summary = "summary",
        /// A copy of an earlier message that follows a summary, so that it stays in the context. Users see
        /// the original.
        Carried = "carried",
        /// A message of the parent, at the start of a fork.
        Inherited = "inherited",
    }
);

words!(
    /// The purpose of a model call.
    Purpose {
        /// The next turn of the run.
        Turn = "turn",
        /// A summary of the run's messages.
        Summary = "summary",
    }
);

words!(
    /// The status of a model call.
    ModelCallStatus {
        /// Stored before the request was sent; no complete reply has been received.
        Asked = "asked",
        /// The complete reply is stored.
        Answered = "answered",
        /// Given up.
        Failed = "failed",
    }
);

words!(
    /// The action allowed for a tool call that started and whose end was never seen.
    Policy {
        /// It changes nothing: run it again. It may run in parallel.
        Pure = "pure",
        /// It changes something, but doing so twice has the same effect: run it again.
        Idempotent = "idempotent",
        /// Doing it twice has another effect: never run it again, and report that it may have run.
        Unsafe = "unsafe",
    }
);

words!(
    /// The status of a tool call.
    CallStatus {
        /// The model asked for it; it has not started.
        Planned = "planned",
        /// It has started.
        Running = "running",
        /// It succeeded.
        Done = "done",
        /// It returned an error.
        Failed = "failed",
        /// It was not permitted.
        Denied = "denied",
        /// It started, its end was never seen, and it must not run twice.
        MayHaveRun = "may_have_run",
    }
);

impl CallStatus {
    /// Returns whether it has no result yet.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Planned | Self::Running)
    }
}

words!(
    /// The kind of an inbox entry.
    InboxKind {
        /// The end of a job.
        Job = "job",
        /// A message to the run.
        Message = "message",
        /// A request to stop.
        Cancel = "cancel",
    }
);

words!(
    /// The status of a task, which the main agent sets.
    TaskStatus {
        /// Not started.
        Pending = "pending",
        /// Started.
        InProgress = "in_progress",
        /// Completed, in the main agent's judgement.
        Complete = "complete",
        /// Failed, in the main agent's judgement.
        Failed = "failed",
        /// No longer needed.
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
