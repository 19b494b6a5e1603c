//! A cache of decoded requests. A retried request has the same bytes and is decoded only once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use wire::dialect::{Dialect, Prompt};

/// Maximum number of cached body bytes. Retries follow soon, so few bodies suffice.
const CAPACITY: usize = 8 << 20;

/// The most recent decoded requests.
#[derive(Debug, Default)]
pub(super) struct PromptCache {
    newest: Mutex<VecDeque<DecodedRequest>>,
}

#[derive(Debug)]
struct DecodedRequest {
    dialect: Dialect,
    body: Vec<u8>,
    prompt: Arc<Prompt>,
}

impl PromptCache {
    /// Decodes a request. Returns `None` if it is not valid in its dialect.
    pub(super) fn decode(&self, dialect: Dialect, body: &[u8]) -> Option<Arc<Prompt>> {
        if let Some(known) = self.get(dialect, body) {
            return Some(known);
        }
        let prompt = Arc::new(dialect.decode_request(body).ok()?);
        self.insert(DecodedRequest { dialect, body: body.to_vec(), prompt: prompt.clone() });
        Some(prompt)
    }

    fn get(&self, dialect: Dialect, body: &[u8]) -> Option<Arc<Prompt>> {
        let newest = self.newest.lock().expect("lock is not poisoned");
        let known = newest.iter().find(|known| known.dialect == dialect && known.body == body);
        known.map(|known| known.prompt.clone())
    }

    fn insert(&self, request: DecodedRequest) {
        let mut newest = self.newest.lock().expect("lock is not poisoned");
        newest.push_front(request);
        let mut bytes = 0;
        let fits = |known: &&DecodedRequest| {
            bytes += known.body.len();
            bytes <= CAPACITY
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
    fn a_request_with_the_same_bytes_is_decoded_once() {
        let cache = PromptCache::default();
        let decode = |dialect, words: &str| cache.decode(dialect, &body(words)).expect("a request");
        let (messages, chat) = (Dialect::AnthropicMessages, Dialect::OpenAiChat);
        let first = decode(messages, "one");
        assert!(Arc::ptr_eq(&first, &decode(messages, "one")));
        assert_ne!(first, decode(messages, "two"));
        assert_eq!(decode(chat, "one").dialect, chat, "the same bytes differ in another dialect");
        assert_eq!(cache.decode(messages, b"[]"), None);
    }

    #[test]
    fn old_and_long_requests_are_evicted() {
        let cache = PromptCache::default();
        let half = "x".repeat(CAPACITY / 2);
        let first = cache.decode(Dialect::OpenAiChat, &body("one")).expect("a request");
        for end in ["a", "b"] {
            cache.decode(Dialect::OpenAiChat, &body(&format!("{half}{end}"))).expect("a request");
        }
        assert_eq!(cache.newest.lock().expect("lock is not poisoned").len(), 1);
        let again = cache.decode(Dialect::OpenAiChat, &body("one")).expect("a request");
        assert!(!Arc::ptr_eq(&first, &again));
        assert_eq!(first, again);
    }
}
