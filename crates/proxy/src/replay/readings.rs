//! Requests that were read. One that comes again to the byte is not read again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use wire::dialect::{Dialect, Prompt};

/// Bytes of bodies that are remembered. Who asks again does so soon.
const REMEMBERED: usize = 8 << 20;

/// What the newest requests said.
#[derive(Debug, Default)]
pub(super) struct Readings {
    newest: Mutex<VecDeque<Reading>>,
}

#[derive(Debug)]
struct Reading {
    dialect: Dialect,
    body: Vec<u8>,
    prompt: Arc<Prompt>,
}

impl Readings {
    /// What a request says; `None` where it is not one of its dialect.
    pub(super) fn read(&self, dialect: Dialect, body: &[u8]) -> Option<Arc<Prompt>> {
        if let Some(known) = self.find(dialect, body) {
            return Some(known);
        }
        let prompt = Arc::new(dialect.decode_request(body).ok()?);
        self.remember(Reading { dialect, body: body.to_vec(), prompt: prompt.clone() });
        Some(prompt)
    }

    fn find(&self, dialect: Dialect, body: &[u8]) -> Option<Arc<Prompt>> {
        let newest = self.newest.lock().expect("nobody panics while holding it");
        let known = newest.iter().find(|known| known.dialect == dialect && known.body == body);
        known.map(|known| known.prompt.clone())
    }

    fn remember(&self, reading: Reading) {
        let mut newest = self.newest.lock().expect("nobody panics while holding it");
        newest.push_front(reading);
        let mut bytes = 0;
        let fits = |known: &&Reading| {
            bytes += known.body.len();
            bytes <= REMEMBERED
        };
        let kept = newest.iter().take_while(fits).count();
        newest.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(words: &str) -> Vec<u8> {
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{words}"}}]}}"#).into_bytes()
    }

    #[test]
    fn what_comes_again_to_the_byte_is_the_same_reading() {
        let readings = Readings::default();
        let read = |dialect, words: &str| readings.read(dialect, &body(words)).expect("a request");
        let (messages, chat) = (Dialect::AnthropicMessages, Dialect::OpenAiChat);
        let first = read(messages, "one");
        assert!(Arc::ptr_eq(&first, &read(messages, "one")));
        assert_ne!(first, read(messages, "two"));
        assert_eq!(read(chat, "one").dialect, chat, "the same bytes in another dialect say something else");
        assert_eq!(readings.read(messages, b"[]"), None);
    }

    #[test]
    fn what_is_old_or_too_long_is_forgotten() {
        let readings = Readings::default();
        let half = "x".repeat(REMEMBERED / 2);
        let first = readings.read(Dialect::OpenAiChat, &body("one")).expect("a request");
        for end in ["a", "b"] {
            readings.read(Dialect::OpenAiChat, &body(&format!("{half}{end}"))).expect("a request");
        }
        assert_eq!(readings.newest.lock().expect("held by nobody").len(), 1);
        let again = readings.read(Dialect::OpenAiChat, &body("one")).expect("a request");
        assert!(!Arc::ptr_eq(&first, &again));
        assert_eq!(first, again);
    }
}
