//! A provider that chooses the next reply of each agent from its first message and its number of turns. It keeps no
//! state, so an interrupted run can continue.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use session::{Block, CallId, Reply, StopReason, ToolCall, Usage};
use wire::dialect::Dialect;

/// Agent that sent a request, and its number of turns.
pub(crate) type RequestKey = (String, usize);

/// Returns `true` if a reply may be sent now.
type Gate = dyn Fn(&str) -> bool + Send + Sync;

pub(crate) struct Provider {
    pub(crate) addr: SocketAddr,
    asked: Arc<Mutex<BTreeMap<RequestKey, usize>>>,
    bodies: Arc<Mutex<Vec<Value>>>,
}

struct Lines {
    /// By the prompt: texts, calls as `id=name{json}`, with ` + ` between them, and `@gate ` before.
    says: Vec<(String, Vec<String>)>,
    gate: Box<Gate>,
}

impl Provider {
    /// Says these lines; a line behind `@gate ` is said when `gate` lets it pass.
    pub(crate) fn start(
        says: &[(&str, &[&str])],
        gate: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let says = says.iter().map(|(who, lines)| ((*who).to_owned(), owned(lines))).collect();
        let lines = Arc::new(Lines { says, gate: Box::new(gate) });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<BTreeMap<RequestKey, usize>>>::default();
        let bodies = Arc::<Mutex<Vec<Value>>>::default();
        let (seen, kept) = (asked.clone(), bodies.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (lines, seen, kept) = (lines.clone(), seen.clone(), kept.clone());
                // A killed process leaves its connection open, which is no error here.
                std::thread::spawn(move || serve(&stream.unwrap(), &lines, &seen, &kept).ok());
            }
        });
        Self { addr, asked, bodies }
    }

    /// Number of requests for each reply.
    pub(crate) fn asked(&self) -> BTreeMap<RequestKey, usize> {
        self.asked.lock().unwrap().clone()
    }

    /// Requests in the order of their arrival.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().unwrap().clone()
    }
}

fn serve(
    stream: &TcpStream,
    lines: &Lines,
    seen: &Mutex<BTreeMap<RequestKey, usize>>,
    kept: &Mutex<Vec<Value>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body: Value = serde_json::from_slice(&body).unwrap();
        let (asked, line) = lines.find(&body);
        kept.lock().unwrap().push(body);
        *seen.lock().unwrap().entry(asked.clone()).or_default() += 1;
        let line = match line.strip_prefix('@').and_then(|line| line.split_once(' ')) {
            Some((gate, line)) => {
                let patience = Instant::now() + Duration::from_secs(60);
                while !(lines.gate)(gate) && Instant::now() < patience {
                    std::thread::sleep(Duration::from_millis(2));
                }
                line.to_owned()
            }
            None => line,
        };
        let events = Dialect::AnthropicMessages.encode_stream(&reply(&asked, &line), 8).unwrap();
        let mut out = stream;
        write!(
            out,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )?;
        for event in events {
            write!(out, "{:x}\r\n", event.len())?;
            out.write_all(&event)?;
            write!(out, "\r\n")?;
        }
        write!(out, "0\r\n\r\n")?;
    }
}

impl Lines {
    fn find(&self, body: &Value) -> (RequestKey, String) {
        let messages = body["messages"].as_array().unwrap();
        // The last addressee counts, because a fork begins with the whole conversation of its parent.
        let (mut turn, mut known) = (0, None);
        for message in messages {
            if message["role"] == "assistant" {
                turn += 1;
                continue;
            }
            let texts =
                message["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str());
            let lines: Vec<&str> = texts.flat_map(str::lines).collect();
            if let Some(told) = self.says.iter().find(|(who, _)| lines.contains(&who.as_str())) {
                (turn, known) = (0, Some(told));
            }
        }
        let (who, says) = known.unwrap();
        ((who.clone(), turn), says.get(turn).unwrap_or_else(|| panic!("{who} {turn}")).clone())
    }
}

fn reply((who, turn): &RequestKey, line: &str) -> Reply {
    let blocks: Vec<Block> = line.split(" + ").map(block).collect();
    let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
    let stop = Some(if calls { StopReason::ToolUse } else { StopReason::EndTurn });
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    let id = format!("msg_{}_{turn}", who.replace(' ', "_"));
    Reply { id, model: "claude-sonnet-5".to_owned(), blocks, stop, usage }
}

fn block(part: &str) -> Block {
    let call = part.split_once('=').and_then(|(id, call)| Some((id, call.split_once('{')?.0, call)));
    match call {
        Some((id, name, call)) if id.starts_with("toolu_") => Block::ToolCall(ToolCall {
            id: CallId::new(id),
            name: name.to_owned(),
            input: call[name.len()..].to_owned(),
            server: false,
        }),
        _ => Block::Text { text: part.to_owned() },
    }
}
