//! The scripted model over HTTP: three dialects, streamed and not, many agents at once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::*;
use proxy::{Script, ScriptReport, ScriptedModel};
use session::{Block, Message, Reply, Role, StopReason, ToolResult};
use wire::dialect::{DecodedResponse, Dialect, Draft, Element, StreamEnd, ToolSpec, accumulate};

const DIALECTS: [Dialect; 3] = [Dialect::AnthropicMessages, Dialect::OpenAiChat, Dialect::OpenAiResponses];

/// A scripted model and the threads it runs on.
struct Model {
    model: ScriptedModel,
    runtime: tokio::runtime::Runtime,
}

impl Model {
    fn start(script: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let script = Script::parse(script, Path::new("test.yaml")).unwrap_or_else(|error| panic!("{error}"));
        let model = runtime.block_on(ScriptedModel::start(script, Path::new("/work"))).unwrap();
        Self { model, runtime }
    }

    fn agent(&self, dialect: Dialect, tools: &[&str], prompt: &str) -> Agent {
        Agent {
            addr: self.model.addr(),
            dialect,
            draft: Draft {
                model: "m".into(),
                stream: true,
                max_tokens: Some(100),
                tools: tools.iter().map(|name| Element::Value(tool(name))).collect(),
                messages: vec![Element::Value(said(Role::User, Block::Text { text: prompt.into() }))],
                ..Draft::default()
            },
        }
    }

    fn report(&self) -> ScriptReport {
        self.model.report()
    }

    fn ask(&self, request: &str) -> String {
        let mut tcp = connect(self.model.addr());
        tcp.write_all(request.as_bytes()).unwrap();
        String::from_utf8(read_to_close(&mut tcp)).unwrap()
    }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec { name: name.into(), description: "does it".into(), schema: r#"{"type":"object"}"#.into() }
}

fn said(role: Role, block: Block) -> Message {
    Message { role, blocks: vec![block] }
}

/// A minimal agent: it sends requests, and gives each call the same result.
#[derive(Clone)]
struct Agent {
    addr: SocketAddr,
    dialect: Dialect,
    draft: Draft,
}

impl Agent {
    fn request(&self) -> Vec<u8> {
        let path = match self.dialect {
            Dialect::AnthropicMessages => "/v1/messages?beta=true",
            Dialect::OpenAiChat => "/v1/chat/completions",
            Dialect::OpenAiResponses => "/v1/responses",
        };
        post(path, &self.dialect.encode_request(&self.draft).unwrap())
    }

    fn send(&self) -> TcpStream {
        let mut tcp = connect(self.addr);
        tcp.write_all(&self.request()).unwrap();
        tcp
    }

    /// The reply, or status and message of the error.
    fn try_ask(&self) -> Result<Reply, (u16, String)> {
        let (status, body) = response(&read_to_close(&mut self.send()));
        if status != 200 {
            return match self.dialect.decode_reply(&body) {
                Ok(DecodedResponse::Error(error)) => Err((status, error.message)),
                other => panic!("{other:?}"),
            };
        }
        let whole = match self.draft.stream {
            false => body,
            true => {
                let stream = accumulate(self.dialect, &body);
                assert_eq!(stream.end, StreamEnd::Complete);
                stream.body.unwrap()
            }
        };
        Ok(self.dialect.decode_reply(&whole).unwrap().into_reply().unwrap().reply)
    }

    /// Sends a request and remembers the reply.
    fn ask(&mut self) -> Reply {
        let reply = self.try_ask().unwrap_or_else(|error| panic!("{error:?}"));
        self.draft
            .messages
            .push(Element::Value(Message { role: Role::Assistant, blocks: reply.blocks.clone() }));
        reply
    }

    fn result(&mut self, reply: &Reply, text: &str) {
        for call in reply.calls() {
            let result = ToolResult {
                call: call.id.clone(),
                blocks: vec![Block::Text { text: text.into() }],
                is_error: false,
                server: false,
            };
            self.draft.messages.push(Element::Value(said(Role::User, Block::ToolResult(result))));
        }
    }

    fn text(&mut self) -> String {
        self.ask().text().unwrap_or_default()
    }
}

const TWO_SUBS: &str = r#"
format: 1
lanes:
  - lane: main
    match: { tools_include: [Agent, task] }
    turns:
      - reply:
          - thinking: "two at once"
          - text: "Launching."
          - call: { tool: [task, Agent], id: toolu_a, input: { prompt: "list ${workspace}" } }
          - call: { tool: [task, Agent], id: toolu_b, input: { prompt: count } }
        usage: { input: 100, output: 20, cache_read: 7, cache_write: 3 }
      - capture: { first: { result_of: toolu_a, regex: 'id (\w+)' } }
        wait_for: [ { lane: sub, finished: true, count: 2 } ]
        reply: [ { text: "All done, ${first}." } ]
  - lane: sub
    match: { prompt_contains: [list, count] }
    turns:
      - reply: [ { call: { tool: Read, id: toolu_r, input: { path: a } } } ]
      - capture: { seen: { result_of: toolu_r, regex: '\d+' } }
        reply: [ { text: "${lane} saw ${seen}" } ]
"#;

#[test]
fn a_run_with_two_agents_in_every_dialect() {
    for dialect in DIALECTS {
        for stream in [true, false] {
            let model = Model::start(TWO_SUBS);
            let mut main = model.agent(dialect, &["Read", "Agent"], "go");
            main.draft.stream = stream;
            let reply = main.ask();
            assert_eq!(reply.stop, Some(StopReason::ToolUse));
            assert_eq!(
                (reply.usage.input, reply.usage.output, reply.usage.cache_read),
                (100, 20, 7),
                "{dialect}"
            );
            let calls: Vec<_> =
                reply.calls().map(|c| (c.id.as_str(), c.name.as_str(), c.input.as_str())).collect();
            assert_eq!(
                calls,
                [
                    ("toolu_a", "Agent", r#"{"prompt":"list /work"}"#),
                    ("toolu_b", "Agent", r#"{"prompt":"count"}"#)
                ]
            );
            main.result(&reply, "started, id a7");
            // Main sends its request before its agents start.
            let asking = std::thread::spawn(move || main.text());
            let mut first = model.agent(dialect, &["Read"], "list /work");
            let mut second = model.agent(dialect, &["Read"], "count");
            (first.draft.stream, second.draft.stream) = (stream, stream);
            let (one, two) = (first.ask(), second.ask());
            let id = |reply: &Reply| reply.calls().next().unwrap().id.as_str().to_owned();
            assert_eq!((id(&one), id(&two)), ("toolu_r".into(), "toolu_r-2".into()));
            second.result(&two, "22 files");
            first.result(&one, "11 files");
            assert_eq!(second.text(), "sub-2 saw 22");
            assert!(!asking.is_finished());
            assert_eq!(first.text(), "sub saw 11");
            assert_eq!(asking.join().unwrap(), "All done, a7.");
            let report = model.report();
            assert_eq!((report.answered, report.unanswered, report.unused), (6, 0, vec![]));
        }
    }
}

#[test]
fn a_request_ends_a_wait_for_an_agent() {
    let model = Model::start(
        "
format: 1
lanes:
  - lane: main
    match: { tools_include: Agent }
    turns:
      - wait_for: [ { lane: sub, count: 1 } ]
        reply: [ { text: stop } ]
  - lane: sub
    match: { any: true }
    turns:
      - wait_for: [ { lane: main, turn: 1 } ]
        reply: [ { text: stopped } ]
",
    );
    let mut main = model.agent(Dialect::AnthropicMessages, &["Agent"], "go");
    let mut sub = model.agent(Dialect::AnthropicMessages, &["Read"], "look");
    let replies = std::thread::scope(|scope| {
        let main = scope.spawn(|| main.ask());
        let sub = scope.spawn(|| sub.ask());
        [main, sub].map(|asked| asked.join().expect("it is answered").blocks)
    });
    let text = |text: &str| vec![Block::Text { text: text.to_owned() }];
    assert_eq!(replies, [text("stop"), text("stopped")]);
}

#[test]
fn two_hundred_agents_on_one_lane_at_once() {
    let model = Model::start(
        "
format: 1
lanes:
  - lane: main
    match: { tools_include: Agent }
    turns: [ { wait_for: [ { lane: sub, finished: true, count: 200 } ], reply: [ { text: all } ] } ]
  - lane: sub
    match: { any: true }
    turns:
      - reply: [ { call: { tool: Read, id: r } } ]
      - wait_for: [ { lane: sub, turn: 1, count: 200 } ]
        reply: [ { text: \"${lane}\" } ]
",
    );
    let mut main = model.agent(Dialect::AnthropicMessages, &["Agent"], "go");
    let main = std::thread::spawn(move || main.text());
    let agents: Vec<_> = (0..200)
        .map(|number| {
            // In pairs with the same prompt.
            let prompt = format!("part {}", number / 2);
            let mut agent = model.agent(DIALECTS[number % 3], &["Read"], &prompt);
            std::thread::spawn(move || {
                let reply = agent.ask();
                agent.result(&reply, "text");
                (reply.calls().next().unwrap().id.as_str().to_owned(), agent.text())
            })
        })
        .collect();
    let mut heard: Vec<_> = agents.into_iter().map(|agent| agent.join().unwrap()).collect();
    for (id, text) in &heard {
        assert_eq!(id.replace("r", "sub"), *text, "an agent changed places");
    }
    heard.sort();
    heard.dedup();
    assert_eq!(heard.len(), 200);
    assert_eq!(main.join().unwrap(), "all");
    assert_eq!(model.report().unanswered, 0);
}

#[test]
fn polling_ends_with_the_final_result() {
    let script = "
format: 1
lanes:
  - lane: main
    match: { any: true }
    turns:
      - reply: [ { call: { tool: poll, id: p } } ]
      - { when: { results_contain: running }, repeat: 5, reply: [ { call: { tool: poll, id: p } } ] }
      - capture: { word: { result_of: p, regex: 'done: (\\w+)' } }
        reply: [ { text: \"It said ${word}.\" } ]
";
    for dialect in DIALECTS {
        let model = Model::start(script);
        let mut agent = model.agent(dialect, &["poll"], "go");
        for result in ["running", "still running", "done: hello"] {
            let reply = agent.ask();
            agent.result(&reply, result);
        }
        assert_eq!(agent.text(), "It said hello.");
    }
}

#[test]
fn an_attempt_gets_the_same_answer_and_a_scripted_error_the_next() {
    let script = "
format: 1
lanes:
  - lane: main
    match: { any: true }
    pace: { event_ms: 30 }
    turns:
      - error: { status: 529, message: \"busy in ${lane}\", retry_after: 0 }
      - reply: [ { text: \"a text of some length, so that it takes more than one event\" }, { call: { tool: ls } } ]
      - reply: [ { text: end } ]
";
    for dialect in DIALECTS {
        let model = Model::start(script);
        let mut agent = model.agent(dialect, &["ls"], "go");
        assert_eq!(agent.try_ask(), Err((529, "busy in main".into())));
        // Leaves in the middle of the stream, and retries without streaming.
        let mut cut = agent.send();
        read_until(&mut cut, b"a text of");
        drop(cut);
        std::thread::sleep(Duration::from_millis(100));
        agent.draft.stream = false;
        let reply = agent.ask();
        assert!(reply.text().unwrap().starts_with("a text of some"), "{dialect}");
        agent.result(&reply, "x");
        assert_eq!(agent.text(), "end");
        assert_eq!(model.report().unanswered, 0);
    }
}

#[test]
fn an_unscripted_request_names_lane_and_turn() {
    let model = Model::start(TWO_SUBS);
    for dialect in DIALECTS {
        let stranger = model.agent(dialect, &[], "hello");
        let (status, message) = stranger.try_ask().unwrap_err();
        assert_eq!(status, 400);
        assert_eq!(
            message,
            "scripted model: no lane of the script matches this request; its lanes are `main`, `sub`"
        );
    }
    let without = model.agent(Dialect::OpenAiChat, &["Grep"], "count");
    let expected = "scripted model: turn 1 of lane `sub` calls `Read`; the request offers `Grep`";
    assert_eq!(without.try_ask(), Err((400, expected.into())));
    let report = model.report();
    assert_eq!((report.answered, report.unanswered), (0, 4));
    assert!(report.first_unanswered.unwrap().starts_with("no lane of the script"));
    let unused: Vec<_> = report.unused.iter().map(|unused| (unused.lane.as_str(), unused.turn)).collect();
    assert_eq!(unused, [("main", 1), ("main", 2), ("sub", 2)]);
}

#[test]
fn a_wait_times_out_and_does_not_wait_for_a_client_that_left() {
    let script = "
format: 1
lanes:
  - lane: main
    match: { tools_include: Agent }
    turns:
      - wait_for: [ { lane: sub, finished: true, timeout_ms: 50 }, { lane: sub, turn: 1 } ]
        reply: [ { text: late } ]
  - lane: sub
    match: { any: true }
    turns: [ { reply: [ { text: there } ] } ]
";
    let model = Model::start(script);
    let mut main = model.agent(Dialect::OpenAiResponses, &["Agent"], "go");
    let expected =
        "scripted model: turn 1 of lane `main` waited 50 ms for the end of lane `sub`; 0 of 1 agents started";
    assert_eq!(main.try_ask(), Err((400, expected.into())));
    drop(main.send());
    assert_eq!(model.agent(Dialect::OpenAiChat, &[], "look").text(), "there");
    // The abandoned request keeps its turn.
    assert_eq!(main.text(), "late");
}

#[test]
fn a_pace_is_kept() {
    let script = "
format: 1
lanes:
  - lane: main
    match: { any: true }
    turns: [ { pace: { first_ms: 60, event_ms: 20 }, reply: [ { text: hi } ] } ]
";
    let model = Model::start(script);
    let agent = model.agent(Dialect::AnthropicMessages, &[], "go");
    let asked = Instant::now();
    let mut tcp = agent.send();
    read_until(&mut tcp, b"message_start");
    let first = asked.elapsed();
    read_to_close(&mut tcp);
    assert!(first >= Duration::from_millis(60), "{first:?}");
    // message_start, block start, delta, block stop, message_delta, message_stop
    assert!(asked.elapsed() >= Duration::from_millis(60 + 5 * 20), "{:?}", asked.elapsed());
}

#[test]
fn a_request_may_name_the_reply_it_continues() {
    let model = Model::start(TWO_SUBS);
    let ask = |body: &str| {
        let (status, body) = response(
            model.ask(&String::from_utf8(post("/v1/responses", body.as_bytes())).unwrap()).as_bytes(),
        );
        (status, String::from_utf8(body).unwrap())
    };
    let tools = r#""tools":[{"type":"function","name":"Read","parameters":{}}]"#;
    let (status, body) = ask(&format!(r#"{{"model":"m",{tools},"input":"count"}}"#));
    assert_eq!(status, 200, "{body}");
    let id = "resp_sub_1";
    assert!(body.contains(&format!(r#""id":"{id}""#)), "{body}");
    let next = format!(
        r#"{{"model":"m",{tools},"previous_response_id":"{id}","input":[{{"type":"function_call_output","call_id":"toolu_r","output":"33 files"}}]}}"#
    );
    assert!(ask(&next).1.contains("sub saw 33"));
    assert!(ask(&next).1.contains("sub saw 33"), "an attempt");
    let (status, body) = ask(&next.replace(id, "resp_x"));
    assert_eq!(status, 400);
    assert!(body.contains("continues `resp_x`"), "{body}");
}

#[test]
fn requests_beside_the_model_are_served() {
    let model = Model::start(&TWO_SUBS.replace("{ tools_include: [Agent, task] }", "{ model: big }"));
    let get = |method: &str, path: &str, header: &str| {
        model.ask(&format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{header}Connection: close\r\n\r\n"))
    };
    let posted = |path: &str| model.ask(&String::from_utf8(post(path, br#"{"model":"m"}"#)).unwrap());
    for (said, status, part) in [
        (get("HEAD", "/", ""), 200, "\r\n\r\n"),
        (get("HEAD", "/api/hello", ""), 200, "\r\n\r\n"),
        (get("GET", "/", ""), 200, "scripted"),
        (get("GET", "/v1/models", ""), 200, r#"{"object":"list","data":[{"id":"big","object":"model""#),
        (
            get("GET", "/v1/models?limit=9", "anthropic-version: 1\r\n"),
            200,
            r#""has_more":false,"first_id":"big""#,
        ),
        (get("GET", "/v1/models/small", "anthropic-version: 1\r\n"), 200, r#""id":"small""#),
        (get("GET", "/v1/files", ""), 404, "no response to this address: GET /v1/files"),
        (get("DELETE", "/v1/x", ""), 404, "no response to DELETE requests"),
        (posted("/v1/messages/count_tokens"), 200, r#"{"input_tokens":3}"#),
        (posted("/v1/responses/input_tokens"), 200, r#""input_tokens":3"#),
        (posted("/v1/responses/compact"), 404, "no response to compaction"),
        (posted("/v1/embeddings"), 404, "no response to this call: POST /v1/embeddings"),
        (posted("/api/events"), 404, "no response to this call"),
    ] {
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
        assert!(said.contains(part), "{said}");
    }
    let broken = model.ask(&String::from_utf8(post("/v1/messages", b"{")).unwrap());
    assert!(broken.contains("invalid_request_error"), "{broken}");
    assert_eq!(model.report().unanswered, 1);
}

#[test]
fn one_connection_serves_many_requests_and_compressed_ones() {
    let model = Model::start(
        "
format: 1
lanes: [ { lane: all, match: { any: true }, turns: [ { reply: [ { text: hi } ] } ] } ]
",
    );
    let plain = br#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#;
    let packed = wire::encoding::encode("zstd", plain).unwrap();
    let request = |body: &[u8], more: &str| {
        let head =
            format!("POST /v1/messages HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let mut tcp = connect(model.model.addr());
    for bytes in [request(plain, ""), request(&packed, "Content-Encoding: zstd\r\n"), request(plain, "")] {
        tcp.write_all(&bytes).unwrap();
        let said = read_until(&mut tcp, b"\"usage\"");
        assert!(said.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&said));
        // Reads the rest of the body, so that the next response starts at its head.
        let rest = read_until_brace(&mut tcp, &said);
        assert!(rest);
    }
}

/// Returns whether the body of a response is complete.
fn read_until_brace(tcp: &mut TcpStream, begun: &[u8]) -> bool {
    let text = String::from_utf8_lossy(begun).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length: usize =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    read_exactly(tcp, length - body.len());
    true
}

#[test]
fn it_ends_with_its_owner() {
    let model = Model::start(TWO_SUBS);
    let (heard, told) = mpsc::channel();
    let agent = model.agent(Dialect::AnthropicMessages, &["Agent"], "go");
    let mut idle = connect(model.model.addr());
    assert_eq!(agent.try_ask().unwrap().stop, Some(StopReason::ToolUse));
    let addr = model.model.addr();
    std::thread::spawn(move || heard.send(read_to_close(&mut idle)));
    let Model { model, runtime } = model;
    drop(model);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b"");
    wait_until(|| TcpStream::connect(addr).is_err());
    drop(runtime);
}
