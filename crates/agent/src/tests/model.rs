//! A model that answers from a list, and keeps what it was asked.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use session::{Block, CallId, Reply, StopReason, ToolCall, Usage};
use wire::dialect::{DecodedResponse, Dialect};

use crate::provider::{
    AttemptEvent, BlockKind, CompleteReply, FailureKind, HttpAttempt, ProviderFailure, RequestSender,
    RetryAdvice,
};
use crate::{BoxFuture, ModelClient};

/// Called when a request waits for a reply that never comes.
type Hook = Box<dyn Fn() + Send>;

pub(super) struct Fake {
    pub(super) dialect: Dialect,
    says: Mutex<VecDeque<Says>>,
    asked: Mutex<Vec<Vec<u8>>>,
    hook: Mutex<Option<Hook>>,
    calls: AtomicU32,
}

#[derive(Clone)]
pub(super) enum Says {
    Reply(Reply),
    /// This body, whatever is in it.
    Body(String),
    Fails(ProviderFailure),
    Never,
}

impl Fake {
    pub(super) fn new(dialect: Dialect) -> Self {
        let calls = AtomicU32::new(0);
        Self { dialect, says: Mutex::default(), asked: Mutex::default(), hook: Mutex::default(), calls }
    }

    /// The requests that it was sent.
    pub(super) fn asked(&self) -> Vec<Vec<u8>> {
        self.asked.lock().expect("lock is not poisoned").clone()
    }

    /// Done whenever an answer never comes.
    pub(super) fn when_waited_for(&self, hook: impl Fn() + Send + 'static) {
        *self.hook.lock().expect("lock is not poisoned") = Some(Box::new(hook));
    }

    pub(super) fn says(&self, says: Says) {
        self.says.lock().expect("lock is not poisoned").push_back(says);
    }

    /// Asserts that all replies were used and that many requests were made.
    pub(super) fn forgets(&self, calls: usize) {
        self.says.lock().expect("lock is not poisoned").clear();
        self.calls.store(calls as u32, Ordering::Relaxed);
    }

    /// Takes one line of a story.
    pub(super) fn shall_say(&self, line: &str) {
        self.says(match line.strip_prefix('!') {
            Some(failure) => Says::Fails(failed(failure.trim())),
            None if line == "..." => Says::Never,
            None => Says::Reply(self.reply(line)),
        });
    }

    fn reply(&self, line: &str) -> Reply {
        let (said, settings) = line.split_once(" | ").unwrap_or((line, ""));
        let setting = |name: &str| settings.split(' ').find_map(|setting| setting.strip_prefix(name));
        let said = said.trim();
        let parts = said.split(" + ").map(str::trim).filter(|part| !part.is_empty() && *part != "nothing");
        let blocks: Vec<Block> = parts.map(|part| self.block(part)).collect();
        let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = match setting("stop=") {
            Some("max_tokens") => StopReason::MaxTokens,
            Some("pause") => StopReason::PauseTurn,
            Some("refusal") => StopReason::Refusal,
            Some("filter") => StopReason::ContentFilter,
            Some("context") => StopReason::ContextWindow,
            Some(other) => panic!("no such stop reason: {other}"),
            None if calls => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        let number = |name| setting(name).map(|number| number.parse().expect("a number"));
        let usage = Usage {
            input: number("in=").unwrap_or(100),
            output: number("out=").unwrap_or(10),
            ..Usage::default()
        };
        Reply { id: "reply".to_owned(), model: "m".to_owned(), blocks, stop: Some(stop), usage }
    }

    fn block(&self, part: &str) -> Block {
        if let Some(thought) = part.strip_prefix('(').and_then(|part| part.strip_suffix(')')) {
            return Block::Thinking { text: thought.to_owned(), signature: None };
        }
        let call = part.split_once('{').filter(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        });
        let Some((name, _)) = call else { return Block::Text { text: part.to_owned() } };
        let number = self.calls.fetch_add(1, Ordering::Relaxed) as u8;
        let id = CallId::new(char::from(b'a' + number % 26).to_string());
        let (name, input) = (name.to_owned(), part[name.len()..].to_owned());
        Block::ToolCall(ToolCall { id, name, input, server: false })
    }

    fn answer(&self, says: &Says) -> (Vec<u8>, Result<CompleteReply, ProviderFailure>) {
        let (bytes, body) = match says {
            Says::Fails(failure) => return (failure.message.clone().into_bytes(), Err(failure.clone())),
            Says::Reply(reply) => {
                let stream = self.dialect.encode_stream(reply, 7).expect("every dialect can say this");
                let body = self.dialect.encode_reply(reply).expect("every dialect can say this");
                (stream.concat(), body)
            }
            Says::Body(body) => (body.clone().into_bytes(), body.clone().into_bytes()),
            Says::Never => unreachable!("that has no answer"),
        };
        match self.dialect.decode_reply(&body).expect("JSON") {
            DecodedResponse::Reply(answer) => (bytes, Ok(CompleteReply { body, answer })),
            other => panic!("no answer: {other:?}"),
        }
    }
}

impl ModelClient for Fake {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn attempt<'a>(
        &'a self,
        body: Bytes,
        _: &'a RequestSender,
        on: &'a mut (dyn FnMut(AttemptEvent<'_>) + Send),
    ) -> BoxFuture<'a, HttpAttempt> {
        Box::pin(async move {
            self.asked.lock().expect("lock is not poisoned").push(body.to_vec());
            let says = self.says.lock().expect("lock is not poisoned").pop_front();
            let says = says.unwrap_or_else(|| Says::Fails(failed("400 the story has no more answers")));
            if matches!(says, Says::Never) {
                if let Some(hook) = &*self.hook.lock().expect("lock is not poisoned") {
                    hook();
                }
                std::future::pending::<()>().await;
            }
            on(AttemptEvent::FirstByte);
            on(AttemptEvent::Delta { block: BlockKind::Text, text: "never whole" });
            tokio::task::yield_now().await;
            let (bytes, outcome) = self.answer(&says);
            let now = SystemTime::now();
            let status = match &outcome {
                Ok(_) => Some(200),
                Err(failure) => match failure.kind {
                    FailureKind::Status(code) => Some(code),
                    _ => None,
                },
            };
            let retry_after = match &outcome {
                Err(ProviderFailure { retry: RetryAdvice::After(after), .. }) => Some(*after),
                _ => None,
            };
            HttpAttempt {
                status,
                headers: http::HeaderMap::new(),
                retry_after,
                bytes,
                started: now,
                first_byte: Some(now),
                ended: now,
                outcome,
            }
        })
    }
}

/// `529`, `429 after=7`, `cut`, `400 words`
pub(super) fn failed(line: &str) -> ProviderFailure {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let after = rest.strip_prefix("after=").map(|s| Duration::from_secs(s.parse().expect("seconds")));
    let again = after.map_or(RetryAdvice::Yes, RetryAdvice::After);
    let (kind, retry) = match word {
        "cut" => (FailureKind::Cut, RetryAdvice::Yes),
        "no_connection" => (FailureKind::Connect, RetryAdvice::Yes),
        "401" => (FailureKind::Auth, RetryAdvice::No),
        "413" => (FailureKind::RequestTooLarge, RetryAdvice::No),
        "429" => (FailureKind::RateLimited, again),
        "529" => (FailureKind::Overloaded, again),
        "500" => (FailureKind::Status(500), again),
        code => (FailureKind::Status(code.parse().expect("a status")), RetryAdvice::No),
    };
    let hint = (kind == FailureKind::Auth).then(|| "set the key".to_owned());
    ProviderFailure { kind, message: format!("the provider says {line}"), hint, retry }
}
