//! A model that chooses each reply by the agent's prompt and the number of its earlier replies.
//!
//! It has no state, so that an interrupted run continues as with a real one. A line is texts and calls
//! as `name{json}`, with ` + ` between them; `@gate line` waits until that gate is opened, `!` fails, and
//! ` | in=900` at its end is the length of the conversation.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use session::{Block, CallId, Reply, Role, StopReason, ToolCall, Usage};
use tokio::sync::watch;
use wire::dialect::{DecodedResponse, Dialect};

use super::super::model::failed;
use crate::provider::{AttemptEvent, BlockKind, CompleteReply, HttpAttempt, ProviderFailure, RequestSender};
use crate::{BoxFuture, ModelClient};

const DIALECT: Dialect = Dialect::AnthropicMessages;

pub(super) struct Play {
    lines: Vec<(String, Vec<String>)>,
    gates: watch::Sender<HashSet<String>>,
    /// Number of requests for each line.
    asked: Mutex<BTreeMap<(String, usize), usize>>,
    now: AtomicUsize,
    most: AtomicUsize,
    arrived: watch::Sender<Vec<String>>,
}

impl Play {
    pub(super) fn new(lines: &[(&str, &[&str])]) -> Self {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Self::of(lines.iter().map(|(who, says)| ((*who).to_owned(), owned(says))).collect())
    }

    pub(super) fn of(lines: Vec<(String, Vec<String>)>) -> Self {
        Self {
            lines,
            gates: watch::Sender::new(HashSet::new()),
            asked: Mutex::default(),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            arrived: watch::Sender::new(Vec::new()),
        }
    }

    /// Lets everybody through who waits there.
    pub(super) fn open(&self, gate: &str) {
        self.gates.send_modify(|open| {
            open.insert(gate.to_owned());
        });
    }

    /// Waits until so many stand at a gate; who they are, in the order in which they came.
    pub(super) async fn wait_for(&self, count: usize) -> Vec<String> {
        let mut arrived = self.arrived.subscribe();
        arrived.wait_for(|here| here.len() >= count).await.expect("it lives").clone()
    }

    /// Maximum number of concurrent requests.
    pub(super) fn most_at_once(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Number of requests for each line.
    pub(super) fn asked(&self) -> BTreeMap<(String, usize), usize> {
        self.asked.lock().expect("lock is not poisoned").clone()
    }

    /// Returns the prompt of the requesting agent and its next line.
    fn line(&self, body: &[u8]) -> (String, usize, Option<String>) {
        let prompt = DIALECT.decode_request(body).expect("a request");
        // The last prompt: a fork has its parent's conversation before its own.
        let (mut turn, mut known) = (0, None);
        for message in prompt.messages.iter().map(|message| message.message()) {
            if message.role == Role::Assistant {
                turn += 1;
                continue;
            }
            let texts = message.blocks.iter().filter_map(|block| match block {
                Block::Text { text } if !text.starts_with("<context>") => Some(text.as_str()),
                _ => None,
            });
            let lines: Vec<&str> = texts.flat_map(str::lines).collect();
            if let Some(told) = self.lines.iter().find(|(who, _)| lines.contains(&who.as_str())) {
                (turn, known) = (0, Some(told));
            }
        }
        let (who, says) = known.unwrap_or_else(|| panic!("nobody is told that: {prompt:?}"));
        (who.clone(), turn, says.get(turn).cloned())
    }

    async fn say(&self, body: &[u8]) -> Result<Reply, ProviderFailure> {
        let (who, turn, line) = self.line(body);
        *self.asked.lock().expect("lock is not poisoned").entry((who.clone(), turn)).or_default() += 1;
        let Some(mut line) = line else {
            return Err(failed(&format!("400 `{who}` has nothing to say in turn {turn}")));
        };
        if let Some((gate, rest)) = line.strip_prefix('@').and_then(|line| line.split_once(' ')) {
            self.arrived.send_modify(|arrived| arrived.push(who.clone()));
            let mut gates = self.gates.subscribe();
            gates.wait_for(|open| open.contains(gate)).await.expect("it lives");
            line = rest.to_owned();
        }
        if let Some(failure) = line.strip_prefix('!') {
            return Err(failed(failure.trim()));
        }
        let (line, input) = match line.split_once(" | in=") {
            Some((line, input)) => (line.to_owned(), input.parse().expect("a number")),
            None => (line, 100),
        };
        let parts = line.split(" + ").filter(|part| *part != "nothing").enumerate();
        let blocks: Vec<Block> = parts.map(|(n, part)| block(&format!("{who}.{turn}.{n}"), part)).collect();
        let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = Some(match calls {
            true => StopReason::ToolUse,
            false if line.ends_with('…') => StopReason::MaxTokens, // it did not come to its end
            false => StopReason::EndTurn,
        });
        let usage = Usage { input, output: 10, ..Usage::default() };
        Ok(Reply { id: "reply".to_owned(), model: "m".to_owned(), blocks, stop, usage })
    }
}

fn block(id: &str, part: &str) -> Block {
    if let Some(thought) = part.strip_prefix('~') {
        return Block::Thinking { text: thought.to_owned(), signature: Some(format!("signed {id}")) };
    }
    let call = part.split_once('{').filter(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    });
    match call {
        None => Block::Text { text: part.to_owned() },
        Some((name, _)) => {
            let (name, input) = (name.to_owned(), part[name.len()..].to_owned());
            Block::ToolCall(ToolCall { id: CallId::new(id.replace(' ', "_")), name, input, server: false })
        }
    }
}

impl ModelClient for Play {
    fn dialect(&self) -> Dialect {
        DIALECT
    }

    fn attempt<'a>(
        &'a self,
        body: Bytes,
        _: &'a RequestSender,
        on: &'a mut (dyn FnMut(AttemptEvent<'_>) + Send),
    ) -> BoxFuture<'a, HttpAttempt> {
        Box::pin(async move {
            let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(now, Ordering::Relaxed);
            let _open = Open(&self.now);
            let said = self.say(&body).await;
            let status = if said.is_ok() { http::StatusCode::OK } else { http::StatusCode::BAD_REQUEST };
            on(AttemptEvent::Head(status, &http::HeaderMap::new()));
            on(AttemptEvent::FirstByte);
            on(AttemptEvent::Delta { block: BlockKind::Text, text: "on its way" });
            tokio::task::yield_now().await;
            let whole = said.map(|reply| {
                let body = DIALECT.encode_reply(&reply).expect("it can be said");
                match DIALECT.decode_reply(&body).expect("JSON") {
                    DecodedResponse::Reply(answer) => CompleteReply { body, answer },
                    other => panic!("no answer: {other:?}"),
                }
            });
            let at = SystemTime::now();
            HttpAttempt {
                status: Some(status.as_u16()),
                headers: http::HeaderMap::new(),
                retry_after: None,
                bytes: whole.as_ref().map(|whole| whole.body.clone()).unwrap_or_default(),
                started: at,
                first_byte: Some(at),
                ended: at,
                outcome: whole,
            }
        })
    }
}

/// A request that is open until this goes.
struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
