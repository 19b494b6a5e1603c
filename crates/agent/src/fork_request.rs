//! Requests for forks.

use std::sync::Arc;

use session::Message;

use crate::permission::{Approver, RuleList};

/// A request to start a fork.
#[derive(Clone)]
pub struct ForkRequest {
    /// The fork's prompt.
    pub prompt: String,
    /// Messages placed before the prompt, as if they had been exchanged.
    pub messages: Vec<Message>,
    /// Name shown to people.
    pub label: String,
    /// Name of the feature that starts the fork.
    pub source: String,
    /// The agent that the fork runs as, by its name. `None` keeps the parent's.
    pub agent: Option<String>,
    /// Maximum number of turns before the last one. `None` takes the parent's limit.
    pub max_turns: Option<u32>,
    /// Limits the fork to this part of what its parent's budget has left, such as 3 for a third. `None` gives it a budget as
    /// large as its parent's.
    pub budget_shares: Option<u32>,
    /// Text appended to every message to the fork.
    pub reminder: Option<String>,
    /// Maximum number of output tokens of a reply.
    pub max_output_tokens: Option<u64>,
    /// Accepts an output limit that changes the thinking budget and so loses the prompt cache.
    pub allow_cache_loss: bool,
    /// Marks the fork's own messages for the prompt cache. Not needed for a fork that is never resumed.
    pub write_cache: bool,
    /// Keeps the fork's messages in the journal. Otherwise only its usage is kept.
    pub keep_transcript: bool,
    /// Gives the fork the files that its parent knows.
    pub share_known_files: bool,
    /// The fork's permissions.
    pub permissions: ForkPermissions,
    /// Receives every message of the fork itself.
    pub on_message: Option<Arc<MessageListener>>,
}

/// Permissions of a fork, in addition to its parent's.
#[derive(Clone, Default)]
pub struct ForkPermissions {
    /// Rules for calls that need no question.
    pub allow: Vec<String>,
    /// Rules for calls that are forbidden.
    pub deny: Vec<String>,
    /// Rules of the definition that the fork follows. They only narrow what it may do.
    pub rules: Vec<(RuleList, String)>,
    /// Asks about every call, even if a rule allows it.
    pub always_ask: bool,
    /// Answers the questions. `None` takes the parent's.
    pub asker: Option<Arc<dyn Approver>>,
}

/// A callback for messages.
pub type MessageListener = dyn Fn(&Message) + Send + Sync;

impl ForkRequest {
    /// Creates a request for a fork that differs from its parent only in its prompt.
    pub fn new(prompt: impl Into<String>, label: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            messages: Vec::new(),
            label: label.into(),
            source: source.into(),
            agent: None,
            max_turns: None,
            budget_shares: None,
            reminder: None,
            max_output_tokens: None,
            allow_cache_loss: false,
            write_cache: true,
            keep_transcript: true,
            share_known_files: true,
            permissions: ForkPermissions::default(),
            on_message: None,
        }
    }
}
