//! The last answer of a model. A reply that was cut off and its continuations are one answer.

use store::{Origin, StoredMessage};

use crate::prompts;

/// The last answer of a conversation. It takes every message in order, as it is added or as the journal has it.
#[derive(Debug, Default)]
pub(crate) struct FinalText {
    /// The text of the last answer so far.
    answer: Option<String>,
    /// The text before it: an answer may have none.
    earlier: Option<String>,
    /// The separator before the next reply, if that continues the answer.
    separator: Option<&'static str>,
    /// Number of continuations in a row that the output limit made necessary.
    cuts: u32,
}

impl FinalText {
    pub(crate) fn of(messages: &[StoredMessage]) -> Self {
        let mut text_so_far = Self::default();
        for StoredMessage { origin, bytes, text, .. } in messages {
            match origin {
                Origin::Reply => text_so_far.replied(text.clone()),
                origin => text_so_far.prompted(*origin, bytes),
            }
        }
        text_so_far
    }

    /// Takes a message to the model.
    pub(crate) fn prompted(&mut self, origin: Origin, bytes: &[u8]) {
        match origin {
            Origin::Summary | Origin::Carried => {} // repeats earlier messages
            Origin::Kernel if String::from_utf8_lossy(bytes).contains(prompts::CONTINUE) => {
                self.separator = Some("");
                self.cuts += 1;
            }
            _ => (self.separator, self.cuts) = (None, 0),
        }
    }

    /// Takes a reply.
    pub(crate) fn replied(&mut self, text: Option<String>) {
        let before = self.answer.take();
        self.answer = match (self.separator, before) {
            (Some(separator), Some(before)) => {
                Some(before + &text.map(|text| separator.to_owned() + &text).unwrap_or_default())
            }
            (Some(_), None) => text,
            (None, before) => {
                self.earlier = before.or(self.earlier.take());
                text
            }
        };
        self.separator = Some("\n"); // without a message in between, the turn was paused
    }

    /// Returns the last text that is not blank.
    pub(crate) fn last(&self) -> Option<&str> {
        let all = [&self.answer, &self.earlier].into_iter().filter_map(Option::as_deref);
        all.into_iter().find(|text| !text.trim().is_empty())
    }

    /// Returns the number of continuations in a row.
    pub(crate) fn cuts(&self) -> u32 {
        self.cuts
    }
}
