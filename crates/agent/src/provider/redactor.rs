//! Keeps our key out of a response while it arrives.

use super::deltas::BlockKind;
use super::response::AttemptEvent;
use super::secret::Secret;

/// Removes secrets from streamed events. If the end of a piece may be the beginning of a secret, it is held back
/// until more arrives, so a secret in pieces is not shown either.
#[derive(Debug)]
pub(super) struct StreamRedactor {
    secrets: Vec<Secret>,
    held: String,
    of: BlockKind,
}

impl StreamRedactor {
    pub(super) fn new(secrets: &[Secret]) -> Self {
        Self { secrets: secrets.to_vec(), held: String::new(), of: BlockKind::Text }
    }

    /// Passes on what may be shown.
    pub(super) fn push(&mut self, seen: AttemptEvent<'_>, on: &mut (dyn FnMut(AttemptEvent<'_>) + Send)) {
        let AttemptEvent::Delta { block, text } = seen else { return on(seen) };
        if self.of != block {
            self.finish(on);
            self.of = block;
        }
        self.held.push_str(text);
        for secret in &self.secrets {
            self.held = secret.starred_in(&self.held);
        }
        let may_begin = self.secrets.iter().map(|secret| secret.beginning_at_end(&self.held)).max();
        let rest = self.held.split_off(self.held.len() - may_begin.unwrap_or_default());
        self.finish(on);
        self.held = rest;
    }

    /// Passes on what was held back, because no more text can complete a secret.
    pub(super) fn finish(&mut self, on: &mut (dyn FnMut(AttemptEvent<'_>) + Send)) {
        if !self.held.is_empty() {
            on(AttemptEvent::Delta { block: self.of, text: &self.held });
            self.held.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&str]) -> Vec<String> {
        let mut redactor = StreamRedactor::new(&[Secret::new("sk-canary"), Secret::new("skeleton key")]);
        let mut shown = Vec::new();
        let mut on = |seen: AttemptEvent<'_>| {
            if let AttemptEvent::Delta { text, .. } = seen {
                shown.push(text.to_owned());
            }
        };
        for text in pieces {
            redactor.push(AttemptEvent::Delta { block: BlockKind::Text, text }, &mut on);
        }
        redactor.finish(&mut on);
        shown
    }

    #[test]
    fn a_split_secret_is_not_shown() {
        let said = "is sk-canary, ask-canarysk-can or skeleton keys";
        for width in 1..said.len() {
            let pieces: Vec<&str> =
                said.as_bytes().chunks(width).map(|piece| str::from_utf8(piece).expect("ASCII")).collect();
            let shown = shown(&pieces).concat();
            assert_eq!(shown, "is *********, a*********sk-can or ************s", "{width}");
        }
    }

    #[test]
    fn text_that_cannot_be_a_secret_is_shown_at_once() {
        assert_eq!(shown(&["a", "task", "-free", "day s"]), ["a", "ta", "sk-free", "day ", "s"]);
    }

    #[test]
    fn a_new_kind_of_block_flushes_the_held_text() {
        let mut redactor = StreamRedactor::new(&[Secret::new("sk-canary")]);
        let mut shown = Vec::new();
        let mut on = |seen: AttemptEvent<'_>| shown.push(format!("{seen:?}"));
        redactor.push(AttemptEvent::Delta { block: BlockKind::Thinking, text: "thoughts" }, &mut on);
        redactor.push(AttemptEvent::Delta { block: BlockKind::Text, text: "words." }, &mut on);
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert!(shown[1].contains("Thinking") && shown[1].contains("\"s\""), "{shown:?}");
    }
}
