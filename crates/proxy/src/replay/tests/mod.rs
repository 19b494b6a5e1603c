//! Small recordings, replayed to a client that sends the requests of the test.

mod faults;
mod live;
mod order;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{RecordedTraffic, ReplayServer, ReplaySettings};

/// A recording from lines, one for each request and response in order:
///
/// ```text
/// main > hello                      a request with this text after the lane's history
/// main < call t1 Task scan the root ; text bye
/// main > result t1 all is well      a result; `\n` in it, and in replies, is a new line
/// main < status 529
/// fork = main                       a lane that continues the history of another lane
/// title > name it                   lanes whose name begins with `title` have no tools
/// ```
struct Story {
    dir: TempDir,
}

#[derive(Clone, Default)]
struct Conversation {
    messages: Vec<Value>,
    asked: usize,
}

impl Story {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut lanes: BTreeMap<String, Conversation> = BTreeMap::new();
        let mut exchanges = 0;
        let mut ms = 0;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            // One second after the line before, or 10 ms.
            let (wait, line) = line.strip_prefix("+ ").map_or((1_000, line), |line| (10, line));
            ms += wait;
            let (lane, rest) = line.split_once(' ').expect("a lane");
            let at = format!("2026-01-01T00:{:02}:{:02}.{:03}Z", ms / 60_000, ms / 1_000 % 60, ms % 1_000);
            if let Some(other) = rest.strip_prefix("= ") {
                lanes.insert(lane.to_owned(), lanes[other].clone());
                continue;
            }
            let conversation = lanes.entry(lane.to_owned()).or_default();
            match rest.split_at(1) {
                (">", said) => {
                    exchanges += 1;
                    conversation.asked = exchanges;
                    said_by_user(&mut conversation.messages, said.trim());
                    let body = request(lane, &conversation.messages);
                    write(
                        dir.path(),
                        exchanges,
                        "request",
                        json!({
                            "timestamp": at, "method": "POST", "targetUrl": "http://127.0.0.1:1/v1/messages",
                            "headers": [], "body": {"text": body},
                        }),
                    );
                }
                ("<", said) => {
                    let (status, kind, body) = response(said.trim(), conversation.asked);
                    if status == 200 {
                        conversation.messages.push(assistant(said.trim()));
                    }
                    write(
                        dir.path(),
                        conversation.asked,
                        "response",
                        json!({
                            "timestamp": at, "status": status,
                            "headers": [{"name": "content-type", "value": kind}],
                            "body": {"text": body}, "ending": "complete",
                        }),
                    );
                }
                _ => panic!("neither request nor response: {line}"),
            }
        }
        Self { dir }
    }

    /// Changes the dump of a response.
    fn respell(&self, n: usize, change: impl FnOnce(&mut Value)) {
        let path = self.dir.path().join(format!("r{n:06}_response.json"));
        let mut dump = serde_json::from_slice(&std::fs::read(&path).expect("a dump")).expect("JSON");
        change(&mut dump);
        std::fs::write(path, dump.to_string()).expect("it can be written");
    }

    fn traffic(&self) -> Arc<RecordedTraffic> {
        Arc::new(RecordedTraffic::load(self.dir.path()).expect("a recording"))
    }

    async fn play(&self, settings: &ReplaySettings) -> Live {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = ReplayServer::start(self.traffic(), settings, listener).expect("it plays");
        Live { server, lanes: BTreeMap::new() }
    }
}

fn write(dir: &Path, n: usize, phase: &str, dump: Value) {
    let path = dir.join(format!("r{n:06}_{phase}.json"));
    std::fs::write(path, dump.to_string()).expect("it can be written");
}

/// Adds a message of the user: a text, or results divided by `;`.
fn said_by_user(messages: &mut Vec<Value>, said: &str) {
    if said == "again" {
        return;
    }
    let block = |part: &str| match part.trim().strip_prefix("result ") {
        Some(result) => {
            let (id, text) = result.split_once(' ').expect("an id and a text");
            json!({"type": "tool_result", "tool_use_id": id, "content": unfolded(text)})
        }
        None => json!({"type": "text", "text": part.trim()}),
    };
    messages.push(json!({"role": "user", "content": said.split(';').map(block).collect::<Vec<_>>()}));
}

fn unfolded(text: &str) -> String {
    text.replace(r"\n", "\n")
}

fn blocks(said: &str) -> Vec<Value> {
    let block = |part: &str| match part.trim().strip_prefix("call ") {
        Some(call) => {
            let mut words = call.splitn(3, ' ');
            let (id, name) = (words.next().expect("an id"), words.next().expect("a tool"));
            json!({"type": "tool_use", "id": id, "name": name, "input": {"prompt": unfolded(words.next().unwrap_or(""))}})
        }
        None => json!({"type": "text", "text": unfolded(part.trim().trim_start_matches("text "))}),
    };
    said.split(';').map(block).collect()
}

fn assistant(said: &str) -> Value {
    json!({"role": "assistant", "content": blocks(said)})
}

fn request(lane: &str, messages: &[Value]) -> String {
    let mut body = json!({"model": "m", "max_tokens": 100, "stream": true, "system": "Be brief."});
    if !lane.starts_with("title") {
        body["tools"] = json!([{"name": "Task", "input_schema": {"type": "object"}}]);
    }
    body["messages"] = json!(messages);
    body.to_string()
}

/// Returns a streamed reply with two pieces for each text and input.
fn response(said: &str, n: usize) -> (u16, &'static str, String) {
    if let Some(status) = said.strip_prefix("status ") {
        let body = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
        return (status.parse().expect("a status"), "application/json", body.to_string());
    }
    let mut events = vec![json!({"type": "message_start", "message": {
        "id": format!("msg_{n}"), "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 1}}})];
    let mut calls = false;
    for (index, mut block) in blocks(said).into_iter().enumerate() {
        let is_call = block["type"] == "tool_use";
        calls |= is_call;
        let whole = if is_call {
            block["input"].to_string()
        } else {
            block["text"].as_str().unwrap_or("").to_owned()
        };
        if is_call {
            block["input"] = json!({})
        } else {
            block["text"] = json!("")
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        let (first, second) = whole.split_at(whole.floor_char_boundary(whole.len() / 2));
        for piece in [first, second] {
            let delta = match is_call {
                true => json!({"type": "input_json_delta", "partial_json": piece}),
                false => json!({"type": "text_delta", "text": piece}),
            };
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let stop = if calls { "tool_use" } else { "end_turn" };
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}}),
    );
    events.push(json!({"type": "message_stop"}));
    let mut stream = String::new();
    for event in events {
        let kind = event["type"].as_str().expect("a type");
        write!(stream, "event: {kind}\ndata: {event}\n\n").expect("a string accepts all text");
    }
    (200, "text/event-stream", stream)
}

/// A running replay, and the live conversations.
struct Live {
    server: ReplayServer,
    lanes: BTreeMap<String, Vec<Value>>,
}

impl Live {
    /// Lets a lane continue the history of another lane.
    fn fork(&mut self, lane: &str, of: &str) {
        self.lanes.insert(lane.to_owned(), self.lanes[of].clone());
    }

    /// Sends a message of a lane. Returns the reply in the notation of a story, or status and body of an error.
    async fn ask(&mut self, lane: &str, said: &str) -> String {
        let messages = self.lanes.entry(lane.to_owned()).or_default();
        said_by_user(messages, said);
        let (status, body) = post(&self.server, &request(lane, messages)).await;
        if status != 200 {
            return format!("{status} {body}");
        }
        let heard = recording::lanes::LaneResponse::decode(
            wire::dialect::Dialect::AnthropicMessages,
            200,
            body.as_bytes(),
        );
        let Some(reply) = heard.reply.filter(|_| heard.whole) else { return "cut".to_owned() };
        let mut content = Vec::new();
        let mut words = Vec::new();
        for block in &reply.blocks {
            match block {
                session::Block::Text { text } => {
                    content.push(json!({"type": "text", "text": text}));
                    words.push(format!("text {text}"));
                }
                session::Block::ToolCall(call) => {
                    let input: Value = serde_json::from_str(&call.input).expect("JSON");
                    words.push(format!(
                        "call {} {} {}",
                        call.id,
                        call.name,
                        input["prompt"].as_str().unwrap_or("")
                    ));
                    content.push(json!({"type": "tool_use", "id": call.id.as_str(), "name": call.name, "input": input}));
                }
                other => panic!("not in any story: {other:?}"),
            }
        }
        self.lanes.get_mut(lane).expect("it asked").push(json!({"role": "assistant", "content": content}));
        words.join("; ")
    }
}

async fn post(server: &ReplayServer, body: &str) -> (u16, String) {
    let (status, bytes) = post_bytes(server, body).await;
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

async fn post_to(server: &ReplayServer, path: &str, body: &str) -> (u16, String) {
    let (status, bytes) = post_bytes_to(server, path, body).await;
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

async fn post_bytes(server: &ReplayServer, body: &str) -> (u16, Vec<u8>) {
    post_bytes_to(server, "/v1/messages", body).await
}

async fn get(server: &ReplayServer, path: &str) -> (u16, String) {
    let (status, bytes) = ask_bytes(server, "GET", path, "").await;
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

async fn post_bytes_to(server: &ReplayServer, path: &str, body: &str) -> (u16, Vec<u8>) {
    ask_bytes(server, "POST", path, body).await
}

/// Sends a request. Returns status and unchunked body, as far as they come.
async fn ask_bytes(server: &ReplayServer, method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
    let mut tcp = TcpStream::connect(server.addr()).await.expect("it listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    tcp.write_all(head.as_bytes()).await.expect("it reads");
    tcp.write_all(body.as_bytes()).await.expect("it reads");
    let mut bytes = Vec::new();
    let _ = tcp.read_to_end(&mut bytes).await; // a reset ends it too
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return (0, bytes) };
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut rest = &bytes[head + 4..];
    if !text.contains("transfer-encoding: chunked") {
        return (status, rest.to_vec());
    }
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let length =
            std::str::from_utf8(&rest[..end]).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
        let Some(length) = length.filter(|length| *length > 0 && rest.len() >= end + 2 + length) else {
            break;
        };
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
    (status, body)
}
