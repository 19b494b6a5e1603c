//! A scripted model with a simulated prompt cache.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use common::*;
use proxy::{Script, ScriptedModel};
use session::Usage;
use wire::dialect::{Dialect, accumulate};

const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: any
    match: { any: true }
    turns:
      - repeat: 100
        reply: [ { text: "ok" } ]
        usage: { input: 7, output: 5 }
"#;

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

struct Model {
    model: ScriptedModel,
    _runtime: tokio::runtime::Runtime,
}

impl Model {
    fn start(has_cache: bool) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let script = Script::parse(SCRIPT, Path::new("test.yaml")).unwrap_or_else(|error| panic!("{error}"));
        let script = if has_cache { script.with_cache() } else { script };
        let model = runtime.block_on(ScriptedModel::start(script, Path::new("/work"))).unwrap();
        Self { model, _runtime: runtime }
    }

    fn addr(&self) -> SocketAddr {
        self.model.addr()
    }

    fn ask(&self, body: &str) -> Usage {
        let mut tcp = connect(self.addr());
        tcp.write_all(&post("/v1/messages", body.as_bytes())).unwrap();
        let (status, answer) = response(&read_to_close(&mut tcp));
        assert_eq!(status, 200);
        let dialect = Dialect::AnthropicMessages;
        let whole = accumulate(dialect, &answer).body.unwrap_or(answer);
        dialect.decode_reply(&whole).unwrap().into_reply().unwrap().reply.usage
    }
}

fn user(said: &str, mark: &str) -> String {
    format!(r#"{{"role":"user","content":[{{"type":"text","text":"{said}"{mark}}}]}}"#)
}

/// Returns the body of a parent with 200,000 tokens of four bytes, or of its fork with another tail.
fn body(stream: bool, tail: Option<usize>) -> String {
    let mut messages: Vec<String> = Vec::new();
    for turn in 0..100 {
        messages.push(user(&format!("question {turn} ").repeat(400), ""));
        messages
            .push(format!(r#"{{"role":"assistant","content":"{}"}}"#, format!("answer {turn} ").repeat(400)));
    }
    messages.push(user("go on", MARK));
    if let Some(n) = tail {
        messages.push(r#"{"role":"assistant","content":"starting them"}"#.to_owned());
        messages.push(user(&format!("you are number {n}"), MARK));
    }
    let system = "be good ".repeat(2_000);
    format!(
        r#"{{"model":"claude-opus-5","max_tokens":9,"stream":{stream},"system":"{system}","messages":[{}]}}"#,
        messages.join(",")
    )
}

#[test]
fn a_fork_of_200_000_tokens_reads_its_parent_and_ten_write_it_once() {
    let model = Model::start(true);
    let parent = model.ask(&body(true, None));
    assert!(parent.cache_write_5m > 200_000, "{parent:?}");
    assert_eq!((parent.cache_read, parent.output), (0, 5), "what is said is the script's");
    let (mut read, mut written) = (0, 0);
    for n in 0..10 {
        let fork = model.ask(&body(n % 2 == 0, Some(n)));
        let share = fork.cache_read as f64 / parent.cache_write_5m as f64;
        assert!(share >= 0.998, "fork {n} reads {share}");
        read += fork.cache_read;
        written += fork.cache_write_5m;
    }
    assert_eq!(read, 10 * parent.cache_write_5m);
    assert!(written < 200, "the shared part was written before: {written}");
}

#[test]
fn without_it_the_usage_is_the_scripts() {
    let model = Model::start(false);
    for _ in 0..2 {
        assert_eq!(model.ask(&body(true, None)), Usage { input: 7, output: 5, ..Usage::default() });
    }
}
