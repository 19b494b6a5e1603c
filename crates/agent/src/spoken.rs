//! What a model has said, put together: a reply that was cut off and gone on with is one answer.

use store::{Origin, StoredMessage};

use crate::words;

/// The last words of a conversation. It hears every message in order, as they are said or as the journal has them, so that
/// both come to the same.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    /// What the last answer says so far.
    answer: Option<String>,
    /// The words before it; an answer may have none.
    earlier: Option<String>,
    /// What stands between the answer so far and a reply that comes next; `None` where that is another answer.
    joint: Option<&'static str>,
    /// How often it was asked in a row to go on.
    cuts: u32,
}

impl Spoken {
    pub(crate) fn of(messages: &[StoredMessage]) -> Self {
        let mut spoken = Self::default();
        for StoredMessage { origin, bytes, text, .. } in messages {
            match origin {
                Origin::Reply => spoken.replied(text.clone()),
                origin => spoken.said(*origin, bytes),
            }
        }
        spoken
    }

    /// Something was said to the model.
    pub(crate) fn said(&mut self, origin: Origin, bytes: &[u8]) {
        match origin {
            Origin::Summary | Origin::Carried => {} // said before, and said again
            Origin::Kernel if String::from_utf8_lossy(bytes).contains(words::GO_ON) => {
                self.joint = Some("");
                self.cuts += 1;
            }
            _ => (self.joint, self.cuts) = (None, 0),
        }
    }

    /// The model replied.
    pub(crate) fn replied(&mut self, text: Option<String>) {
        let before = self.answer.take();
        self.answer = match (self.joint, before) {
            (Some(joint), Some(before)) => {
                Some(before + &text.map(|text| joint.to_owned() + &text).unwrap_or_default())
            }
            (Some(_), None) => text,
            (None, before) => {
                self.earlier = before.or(self.earlier.take());
                text
            }
        };
        self.joint = Some("\n"); // where nothing is said in between, it was paused
    }

    /// The last words. A text with nothing in it is none.
    pub(crate) fn last(&self) -> Option<&str> {
        let all = [&self.answer, &self.earlier].into_iter().filter_map(Option::as_deref);
        all.into_iter().find(|text| !text.trim().is_empty())
    }

    /// How often it was asked in a row to go on.
    pub(crate) fn cuts(&self) -> u32 {
        self.cuts
    }
}
