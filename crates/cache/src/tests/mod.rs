//! Tests: requests in, predicted cache behaviour out.

mod breaks;
mod forks;
mod linting;
mod markers;
mod openai;
mod times;
mod traffic;
mod usage;

use std::fmt::Write as _;

use session::{RequestId, Usage};

use crate::{CachePrompt, CacheReport, ObservedRequest, explain};

const SECOND: u64 = 1_000_000;
/// URL that implies the dialect.
const MESSAGES: &str = "http://x/v1/messages";
/// Cache marker.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;
const MARK_1H: &str = r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#;

/// Returns `tokens` tokens of text with `word` in it, at four bytes each.
fn long(word: &str, tokens: usize) -> String {
    let mut text = word.repeat(tokens * 4 / word.len() + 1);
    text.truncate(tokens * 4 - 2); // minus the quotes
    text
}

fn text(said: &str, mark: &str) -> String {
    format!(r#"{{"type":"text","text":"{said}"{mark}}}"#)
}

fn user(said: &str, mark: &str) -> String {
    format!(r#"{{"role":"user","content":[{}]}}"#, text(said, mark))
}

fn assistant(said: &str) -> String {
    format!(r#"{{"role":"assistant","content":"{said}"}}"#)
}

/// Anthropic request under construction.
#[derive(Clone)]
struct Body {
    model: &'static str,
    tools: Vec<String>,
    system: Vec<String>,
    messages: Vec<String>,
    more: String,
}

impl Body {
    fn new() -> Self {
        Self { model: "claude-opus-5", tools: vec![], system: vec![], messages: vec![], more: String::new() }
    }

    /// Adds a tool of 500 tokens.
    fn tool(mut self, name: &str, mark: &str) -> Self {
        let frame = format!(r#"{{"name":"{name}","description":"","input_schema":{{}}}}"#).len();
        let about = &long("does what it says ", 500)[..2_000 - frame];
        self.tools.push(format!(r#"{{"name":"{name}","description":"{about}","input_schema":{{}}{mark}}}"#));
        self
    }

    fn system(mut self, said: &str, mark: &str) -> Self {
        self.system.push(text(said, mark));
        self
    }

    fn says(mut self, message: String) -> Self {
        self.messages.push(message);
        self
    }

    fn with(mut self, more: &str) -> Self {
        self.more.push_str(more);
        self
    }

    fn json(&self) -> String {
        let Self { model, tools, system, messages, more } = self;
        let (tools, system, messages) = (tools.join(","), system.join(","), messages.join(","));
        format!(
            r#"{{"model":"{model}","messages":[{messages}],"system":[{system}],"tools":[{tools}]{more}}}"#
        )
    }

    fn prompt(&self) -> CachePrompt {
        CachePrompt::read(MESSAGES, self.json().as_bytes()).expect("it asks a model")
    }
}

/// Builds a request of lane `main` that is answered a second later.
fn ask(n: u32, second: u64, body: &Body) -> ObservedRequest {
    of_prompt(n, second, body.prompt())
}

/// Builds the same with a reported usage: read, written for five minutes, and the rest.
fn used(n: u32, second: u64, body: &Body, [cache_read, cache_write_5m, input]: [u64; 3]) -> ObservedRequest {
    let usage = Usage { cache_read, cache_write_5m, input, ..Usage::default() };
    ObservedRequest { reported: Some(usage), ..ask(n, second, body) }
}

fn of_prompt(n: u32, second: u64, prompt: CachePrompt) -> ObservedRequest {
    ObservedRequest {
        id: RequestId::nth(n.into()),
        lane: "main".to_owned(),
        fork_of: None,
        turn: n,
        at_us: second * SECOND,
        begun_us: Some((second + 1) * SECOND),
        is_compacted: false,
        prompt,
        reported: None,
    }
}

/// Formats one line per request: read, written for five minutes and for an hour, the rest, and the reason.
fn render(explained: &CacheReport) -> String {
    let mut out = String::new();
    for request in &explained.requests {
        let Usage { input, cache_read, cache_write_5m, cache_write_1h, .. } = request.predicted;
        write!(out, "{} {cache_read}+{cache_write_5m}+{cache_write_1h}+{input}", request.id)
            .expect("a string");
        if let Some(reason) = request.reason {
            write!(out, " {reason}").expect("a string");
        }
        if let Some(miss) = &request.miss {
            write!(out, " block {} {} missed {}", miss.block, miss.pointer, miss.tokens).expect("a string");
        }
        out.push('\n');
    }
    out
}

fn check(observed: Vec<ObservedRequest>, expected: expect_test::Expect) {
    expected.assert_eq(&render(&explain(observed)));
}
