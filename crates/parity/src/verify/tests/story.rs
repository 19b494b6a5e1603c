//! A small recording in three dialects: two agents in the background, one polled, the other announced.

use std::collections::HashMap;

use recording::lanes::{LaneResponse, LaneTracker};
use recording::source::{Content, ExchangeSummary, OrderedExchanges, SenderIds, SourceRequest};
use serde_json::{Value, json};
use session::{Block, CallId, Reply, RequestId, StopReason, ToolCall, Usage};
use wire::Header;
use wire::dialect::Dialect;

use crate::{ComparedRecording, RecordingFacts, RequestSource};

/// A recording in memory.
#[derive(Clone)]
pub(super) struct Story {
    pub(super) dialect: Dialect,
    pub(super) exchanges: Vec<StoryExchange>,
    pub(super) facts: RecordingFacts,
    /// `+r1` for a request, `-r1` for the end of its answer.
    events: Vec<String>,
}

/// One exchange.
#[derive(Clone)]
pub(super) struct StoryExchange {
    pub(super) id: &'static str,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<Header>,
    pub(super) body: Value,
    /// With anything else than 200 it gives no reply.
    pub(super) status: u16,
    reply: Option<Reply>,
}

/// An element of a conversation.
enum Said {
    User(Vec<&'static str>),
    Calls(Vec<(&'static str, &'static str, Value)>),
    Results(Vec<(&'static str, &'static str)>),
}

use Said::{Calls, Results, User};

fn spawns() -> Said {
    let spawn = |prompt: &str| json!({"agent": "looker", "prompt": prompt});
    Calls(vec![
        ("call_a1", "Task", spawn("Look at the tides.")),
        ("call_b2", "Task", spawn("Look at the boats.")),
    ])
}

fn poll() -> Said {
    Calls(vec![("call_p5", "JobOutput", json!({"id": "job_a1f03c"}))])
}

fn reads() -> Said {
    let read = |path: &str| json!({"path": path, "lines": 20});
    Calls(vec![("call_r3", "Read", read("tides.md")), ("call_r4", "Read", read("moons.md"))])
}

fn acknowledged() -> Vec<Said> {
    let launched = [("call_a1", "started job_a1f03c"), ("call_b2", "started job_b7e219")];
    vec![User(vec!["Plan the trip.", "It is 2026-11-15."]), spawns(), Results(launched.to_vec())]
}

/// The story in a dialect.
pub(super) fn story(dialect: Dialect) -> Story {
    let main = ("ses_0a1b2c3d4e", None);
    let subs = [("ses_1f2e3d4c5b", Some(main.0)), ("ses_2c4d6e8f0a", Some(main.0))];
    let opening = || vec![User(vec!["Plan the trip.", "It is 2026-11-15."])];
    let done = ("call_p5", "job_a1f03c is done after all: high at noon");
    let announced = User(vec!["job_b7e219 has ended: boats are in"]);
    let tides = || vec![User(vec!["Look at the tides."])];
    let files = Results(vec![("call_r3", "low at dawn"), ("call_r4", "new on friday the third")]);
    let with = |mut history: Vec<Said>, more: Vec<Said>| {
        history.extend(more);
        history
    };
    let exchanges = vec![
        exchange(dialect, "r1", main, opening(), Some(spawns())),
        exchange(dialect, "r2", subs[0], tides(), Some(reads())),
        exchange(
            dialect,
            "r3",
            subs[1],
            vec![User(vec!["Look at the boats."])],
            Some(User(vec!["boats are in"])),
        ),
        exchange(dialect, "r4", main, acknowledged(), Some(poll())),
        exchange(
            dialect,
            "r5",
            subs[0],
            with(tides(), vec![reads(), files]),
            Some(User(vec!["high at noon"])),
        ),
        exchange(
            dialect,
            "r6",
            main,
            with(acknowledged(), vec![poll(), Results(vec![done]), announced]),
            Some(User(vec!["All is planned."])),
        ),
    ];
    let events = vec!["+r1", "-r1", "+r2", "+r3", "+r4", "-r2", "-r4", "+r5", "-r5", "-r3", "+r6", "-r6"];
    let events = events.into_iter().map(str::to_owned).collect();
    let facts = RecordingFacts {
        harness: Some("opencode".into()),
        version: Some("1.2.3".into()),
        ran: true,
        exit_code: Some(0),
        folders: vec![("cwd", "/work/here".into())],
        ..RecordingFacts::default()
    };
    Story { dialect, exchanges, facts, events }
}

/// Two turns without a call: the model says something, and the second request carries `back`.
pub(super) fn talk(dialect: Dialect, back: &str) -> Story {
    let main = ("ses_0a1b2c3d4e", None);
    let opening = || vec![User(vec!["Is the tide in?"])];
    let first = exchange(dialect, "r1", main, opening(), Some(User(vec!["It is coming in."])));
    let mut second = exchange(dialect, "r2", main, opening(), Some(User(vec!["At noon."])));
    let list = if dialect == Dialect::OpenAiResponses { "input" } else { "messages" };
    let messages = second.body[list].as_array_mut().expect("a list");
    messages.push(json!({"role": "assistant", "content": back}));
    messages.push(json!({"role": "user", "content": "When will it be?"}));
    let events = ["+r1", "-r1", "+r2", "-r2"].map(str::to_owned).to_vec();
    Story { exchanges: vec![first, second], events, ..story(dialect) }
}

fn exchange(
    dialect: Dialect,
    id: &'static str,
    (session, parent): (&str, Option<&str>),
    history: Vec<Said>,
    reply: Option<Said>,
) -> StoryExchange {
    let plain = |name: &str, value: &str| Header::Plain { name: name.into(), value: value.into() };
    let mut headers = vec![
        plain("User-Agent", "boatswain/1.2.3"),
        plain("x-beta", "tides-2025-01-01,moons"),
        plain("x-session-id", session),
        plain("Host", "127.0.0.1:4000"),
        plain("Content-Length", "1"),
        Header::Secret {
            name: "Authorization".into(),
            present: true,
            fingerprint: "00112233aabbccdd".into(),
        },
    ];
    headers.extend(parent.map(|parent| plain("x-parent-session-id", parent)));
    let is_main = parent.is_none();
    let path = match dialect {
        Dialect::AnthropicMessages => "/v1/messages?beta=true",
        Dialect::OpenAiChat => "/v1/chat/completions",
        Dialect::OpenAiResponses => "/v1/responses",
    };
    let body = match dialect {
        Dialect::AnthropicMessages => anthropic(session, is_main, &history),
        Dialect::OpenAiChat => chat(is_main, &history),
        Dialect::OpenAiResponses => responses(session, is_main, &history),
    };
    let reply = reply.map(|said| answer(id, said));
    StoryExchange { id, method: "POST".into(), path: path.into(), headers, body, status: 200, reply }
}

fn answer(id: &str, said: Said) -> Reply {
    let (blocks, stop) = match said {
        User(texts) => {
            let text = |text: &&str| Block::Text { text: (*text).to_owned() };
            (texts.iter().map(text).collect(), StopReason::EndTurn)
        }
        Calls(calls) => {
            let call = |(id, name, input): &(&str, &str, Value)| {
                Block::ToolCall(ToolCall {
                    id: CallId::new(*id),
                    name: (*name).to_owned(),
                    input: input.to_string(),
                    server: false,
                })
            };
            (calls.iter().map(call).collect(), StopReason::ToolUse)
        }
        Results(_) => unreachable!("a model gives no results"),
    };
    Reply { id: format!("msg_{id}"), model: "m".into(), blocks, stop: Some(stop), usage: Usage::default() }
}

const WORDS: [&str; 2] = ["You plan trips in /work/here and waste no words.", "Today's date is 2026-11-15."];

fn schema(name: &str) -> Value {
    let text = |what: &str| json!({"type": "string", "description": what});
    match name {
        "Task" => {
            json!({"type": "object", "properties": {"agent": text("Who looks"), "prompt": text("What at")},
            "required": ["agent", "prompt"]})
        }
        "JobOutput" => json!({"type": "object", "properties": {"id": text("Which job")}, "required": ["id"]}),
        _ => {
            json!({"type": "object", "properties": {"path": text("Which file"), "lines": {"type": "integer"}},
            "required": ["path"]})
        }
    }
}

fn offered(is_main: bool) -> Vec<(&'static str, &'static str)> {
    match is_main {
        true => vec![
            ("Task", "Sends somebody to look."),
            ("JobOutput", "Asks after a job."),
            ("Read", "Reads a file."),
        ],
        false => vec![("Read", "Reads a file.")],
    }
}

fn anthropic(session: &str, is_main: bool, history: &[Said]) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    let mut messages: Vec<Value> = Vec::new();
    for said in history {
        let (role, content): (&str, Vec<Value>) = match said {
            User(texts) => ("user", texts.iter().map(|said| text(said)).collect()),
            Calls(calls) => {
                let call = |(id, name, input): &(&str, &str, Value)| json!({"type": "tool_use", "id": id, "name": name, "input": input});
                ("assistant", calls.iter().map(call).collect())
            }
            Results(results) => {
                let result = |(call, said): &(&str, &str)| json!({"type": "tool_result", "tool_use_id": call, "content": [text(said)], "is_error": false});
                ("user", results.iter().map(result).collect())
            }
        };
        messages.push(json!({"role": role, "content": content}));
    }
    let last = messages.last_mut().and_then(|message| message["content"].as_array_mut()?.last_mut());
    last.expect("a message")["cache_control"] = json!({"type": "ephemeral"});
    let tool = |(name, words): (&str, &str)| json!({"name": name, "description": words, "input_schema": schema(name)});
    let mut system: Vec<Value> = WORDS.iter().map(|words| text(words)).collect();
    system[1]["cache_control"] = json!({"type": "ephemeral"});
    json!({"model": "tern-3", "max_tokens": 4096, "temperature": 0.5, "thinking": {"type": "enabled", "budget_tokens": 1024},
        "metadata": {"user_id": session}, "system": system,
        "tools": offered(is_main).into_iter().map(tool).collect::<Vec<_>>(), "messages": messages, "stream": true})
}

fn chat(is_main: bool, history: &[Said]) -> Value {
    let mut messages = vec![json!({"role": "system", "content": WORDS.join(" ")})];
    for said in history {
        match said {
            User(texts) => {
                let part = |text: &&str| json!({"type": "text", "text": text});
                messages.push(json!({"role": "user", "content": texts.iter().map(part).collect::<Vec<_>>()}));
            }
            Calls(calls) => {
                let call = |(id, name, input): &(&str, &str, Value)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": input.to_string()}});
                let calls: Vec<Value> = calls.iter().map(call).collect();
                messages.push(json!({"role": "assistant", "content": "", "tool_calls": calls}));
            }
            Results(results) => messages.extend(
                results
                    .iter()
                    .map(|(call, said)| json!({"role": "tool", "tool_call_id": call, "content": said})),
            ),
        }
    }
    let tool = |(name, words): (&str, &str)| json!({"type": "function", "function": {"name": name, "description": words, "parameters": schema(name)}});
    json!({"model": "tern-3", "temperature": 0.5, "max_tokens": 4096, "messages": messages,
        "tools": offered(is_main).into_iter().map(tool).collect::<Vec<_>>(), "tool_choice": "auto", "stream": true,
        "stream_options": {"include_usage": true}})
}

fn responses(session: &str, is_main: bool, history: &[Said]) -> Value {
    let mut input = vec![json!({"role": "developer", "content": WORDS[1]})];
    for said in history {
        match said {
            User(texts) => {
                let part = |text: &&str| json!({"type": "input_text", "text": text});
                input.push(json!({"role": "user", "content": texts.iter().map(part).collect::<Vec<_>>()}));
            }
            Calls(calls) => input.extend(calls.iter().map(|(id, name, arguments)| {
                json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments.to_string()})
            })),
            Results(results) => input.extend(results.iter().map(|(call, said)| {
                json!({"type": "function_call_output", "call_id": call, "output": said})
            })),
        }
    }
    let tool = |(name, words): (&str, &str)| json!({"type": "function", "name": name, "description": words, "parameters": schema(name)});
    json!({"model": "tern-3", "instructions": WORDS[0], "input": input, "store": false,
        "reasoning": {"effort": "high"}, "max_output_tokens": 4096, "prompt_cache_key": session,
        "tools": offered(is_main).into_iter().map(tool).collect::<Vec<_>>(), "stream": true})
}

impl StoryExchange {
    fn asks_no_model(&self) -> bool {
        self.method == "GET"
            || self.path.ends_with("/count_tokens")
            || self.path.ends_with(":generateContent")
    }

    fn asked(&self) -> SourceRequest {
        SourceRequest {
            id: RequestId::new(self.id),
            timestamp: None,
            method: self.method.clone(),
            url: format!("http://127.0.0.1:4000{}", self.path),
            headers: self.headers.clone(),
            sender: SenderIds::default(),
            body: Content { bytes: Some(self.body.to_string().into_bytes()), ..Content::default() },
        }
    }
}

impl Story {
    pub(super) fn exchange_mut(&mut self, id: &str) -> &mut StoryExchange {
        self.exchanges.iter_mut().find(|exchange| exchange.id == id).expect("an exchange of the story")
    }

    /// With a side call about a text.
    pub(super) fn with_title(mut self, id: &'static str, text: &'static str) -> Self {
        let said = vec![User(vec![text])];
        let mut title =
            exchange(self.dialect, id, ("ses_3b5d7f9a1c", None), said, Some(User(vec!["A trip"])));
        title.body.as_object_mut().expect("an object").remove("tools");
        self.exchanges.push(title);
        self.events.extend(["+", "-"].map(|sign| format!("{sign}{id}")));
        self
    }

    /// With a side call that asks no model.
    pub(super) fn with_probe(mut self, id: &'static str, path: &str) -> Self {
        let probe = self.exchanges[0].clone();
        let (method, body) = ("GET".to_owned(), Value::Null);
        self.exchanges.push(StoryExchange { id, method, path: path.to_owned(), body, reply: None, ..probe });
        self.events.push(format!("+{id}"));
        self
    }

    /// With a call that no dialect reads, such as a count.
    pub(super) fn with_other(mut self, id: &'static str, path: &str, body: Value) -> Self {
        let other = self.exchanges[0].clone();
        self.exchanges.push(StoryExchange { id, path: path.to_owned(), body, reply: None, ..other });
        self.events.push(format!("+{id}"));
        self
    }

    /// With a first try of the first request, which the provider had no room for.
    pub(super) fn with_failed_try(mut self, id: &'static str) -> Self {
        let first = self.exchanges[0].clone();
        self.exchanges.insert(0, StoryExchange { id, status: 529, ..first });
        self.events.splice(0..0, ["+", "-"].map(|sign| format!("{sign}{id}")));
        self
    }

    /// Puts other names everywhere.
    pub(super) fn rename(&mut self, names: &[(&str, &str)]) {
        let all = |text: String| names.iter().fold(text, |text, (old, new)| text.replace(old, new));
        for exchange in &mut self.exchanges {
            exchange.body = serde_json::from_str(&all(exchange.body.to_string())).expect("JSON");
            let headers = serde_json::to_string(&exchange.headers).expect("JSON");
            exchange.headers = serde_json::from_str(&all(headers)).expect("headers");
            let reply = serde_json::to_string(&exchange.reply).expect("JSON");
            exchange.reply = serde_json::from_str(&all(reply)).expect("a reply");
        }
    }

    /// The model thinks and says something before its calls, and the next requests carry it back.
    pub(super) fn says(&mut self, id: &str, thinking: &str, text: &str, carried: &[&str]) {
        let reply = self.exchange_mut(id).reply.as_mut().expect("an answer");
        let Some(Block::ToolCall(call)) = reply.blocks.first().cloned() else { panic!("it makes no call") };
        reply.blocks.insert(0, Block::Text { text: text.to_owned() });
        reply.blocks.insert(
            0,
            Block::Thinking { text: thinking.to_owned(), signature: Some("c2lnMTRkZDU3MWE5ZTA4Nzc=".into()) },
        );
        for later in carried {
            let mut messages =
                self.exchange_mut(later).body["messages"].as_array_mut().expect("messages").iter_mut();
            let makes_it = |message: &&mut Value| message["content"][0]["id"] == call.id.as_str();
            let message = messages.find(makes_it).expect("it carries the call");
            let content = message["content"].as_array_mut().expect("blocks");
            content.insert(0, json!({"type": "text", "text": text}));
            content.insert(
                0,
                json!({"type": "thinking", "thinking": thinking, "signature": "c2lnMTRkZDU3MWE5ZTA4Nzc="}),
            );
        }
    }

    /// Leaves an answer without its end.
    pub(super) fn cut(&mut self, id: &str) {
        self.exchange_mut(id).reply = None;
    }

    /// Leaves an exchange out.
    pub(super) fn forget(&mut self, id: &str) {
        self.exchanges.retain(|exchange| exchange.id != id);
    }

    /// The lanes, found as they would be in a recording.
    pub(super) fn ordered(&self) -> OrderedExchanges {
        let mut tracker = LaneTracker::new();
        let by_id: HashMap<&str, &StoryExchange> =
            self.exchanges.iter().map(|exchange| (exchange.id, exchange)).collect();
        let mut exchanges = Vec::new();
        for event in &self.events {
            let (sign, id) = event.split_at(1);
            let Some(exchange) = by_id.get(id) else { continue };
            let request = RequestId::new(id);
            if sign == "+" && exchange.asks_no_model() {
                tracker.add_side_call(&request, &format!("{} {}", exchange.method, exchange.path));
            } else if sign == "+" {
                let asked = exchange.asked();
                let body = asked.body.bytes.clone().unwrap_or_default();
                let prompt = self.dialect.decode_request(&body).expect("a request");
                tracker.add_request(&request, &prompt, &asked.identity(&body, &prompt));
                exchanges.push(summary(self.dialect, request, exchange.status));
            } else if exchange.status != 200 {
                let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"full"}}"#;
                tracker.add_response(
                    &request,
                    &LaneResponse::decode(self.dialect, exchange.status, error.as_bytes()),
                );
            } else if let Some(reply) = &exchange.reply {
                let body = self.dialect.encode_reply(reply).expect("a reply");
                tracker.add_response(&request, &LaneResponse::decode(self.dialect, 200, &body));
            }
        }
        OrderedExchanges { lanes: tracker.finish(), exchanges, problems: Vec::new() }
    }

    pub(super) fn side<'s>(&'s self, folder: &str, ordered: &'s OrderedExchanges) -> ComparedRecording<'s> {
        ComparedRecording { folder: folder.into(), facts: self.facts.clone(), ordered, requests: self }
    }
}

impl RequestSource for Story {
    fn request(&self, id: &RequestId) -> Option<SourceRequest> {
        self.exchanges.iter().find(|exchange| exchange.id == id.as_str()).map(StoryExchange::asked)
    }

    fn reply_blocks(&self, id: &RequestId) -> Vec<Block> {
        let exchange =
            self.exchanges.iter().find(|exchange| exchange.id == id.as_str() && exchange.status == 200);
        let reply = exchange.and_then(|exchange| exchange.reply.clone());
        reply.map(|reply| reply.blocks).unwrap_or_default()
    }
}

fn summary(dialect: Dialect, id: RequestId, status: u16) -> ExchangeSummary {
    ExchangeSummary {
        id,
        method: "POST".into(),
        url: "http://127.0.0.1:4000".into(),
        dialect: Some(dialect),
        model: None,
        status: Some(status),
        ending: None,
        started_us: None,
        took_us: None,
        error: None,
    }
}
