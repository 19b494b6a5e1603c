//! The request and the response of a benchmark, in the format of the Messages API.

use std::fmt::Write;
use std::net::SocketAddr;

/// Number of events around the deltas of a text.
const FRAME_EVENTS: usize = 5;
/// Names of the tools of an agent.
const TOOLS: [&str; 8] = ["Read", "Write", "Edit", "Search", "Find", "Run", "Fetch", "Task"];

const SENTENCE: &str = "the gardener cut a branch and set it in wet sand until it grew new roots";

/// Size of one request and its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// Bytes of the request's body.
    pub(super) request: usize,
    /// Number of events of the response, each of about 190 bytes.
    pub(super) events: usize,
    /// True if the request has instructions and tools, as those of agents.
    pub(super) is_agent: bool,
}

impl Traffic {
    /// Traffic of the proxy benchmark: 64 KB of history, and 200 events of 38 KB in total.
    pub(super) const PROXY: Traffic = Traffic { request: 64 * 1024, events: 200, is_agent: false };

    /// Encodes the whole request.
    ///
    /// It has a key as real requests do, so that a target that removes secrets has one to remove.
    pub(super) fn request(self, host: SocketAddr) -> Vec<u8> {
        let body = self.body();
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n\
             x-api-key: bench-key-5f2c90d1b7a64e38\r\nanthropic-version: 2023-06-01\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.into_bytes(), body.into_bytes()].concat()
    }

    /// Returns the approximate number of characters in an event.
    pub(super) fn delta_length(self) -> usize {
        delta(self.events / 2).len()
    }

    fn body(self) -> String {
        let opening = if self.is_agent { opening() } else { String::new() };
        let mut body = format!(r#"{{"model":"bench","max_tokens":1024,"stream":true,{opening}"messages":["#);
        if self.is_agent {
            body.push_str(r#"{"role":"user","content":[{"type":"text","text":"Look at the garden."}]},"#);
        }
        let mut role = ["user", "assistant"].into_iter().cycle();
        let mut number = 0;
        let end = r#"{"role":"user","content":""}]}"#.len();
        loop {
            number += 1;
            let message = match self.is_agent {
                true => round(number),
                false => format!(
                    r#"{{"role":"{}","content":[{{"type":"text","text":"{}"}}]}},"#,
                    role.next().expect("a cycle is infinite"),
                    sentences(8 * number, 8)
                ),
            };
            if body.len() + message.len() + end > self.request {
                break;
            }
            body.push_str(&message);
        }
        let filler = ".".repeat(self.request - body.len() - end);
        write!(body, r#"{{"role":"user","content":"{filler}"}}]}}"#).expect("a string accepts all text");
        body
    }

    /// Returns the events of the response.
    pub(super) fn events(self) -> Vec<String> {
        let event =
            |kind: &str, data: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{data}}}\n\n");
        let mut events = vec![
            event(
                "message_start",
                r#","message":{"id":"msg_bench","type":"message","role":"assistant","model":"bench","content":[],"stop_reason":null,"usage":{"input_tokens":16000,"output_tokens":1}}"#,
            ),
            event("content_block_start", r#","index":0,"content_block":{"type":"text","text":""}"#),
        ];
        events.extend((0..self.events - FRAME_EVENTS).map(|number| {
            event(
                "content_block_delta",
                &format!(r#","index":0,"delta":{{"type":"text_delta","text":"{}"}}"#, delta(number)),
            )
        }));
        events.extend([
            event("content_block_stop", r#","index":0"#),
            event("message_delta", r#","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2800}"#),
            event("message_stop", ""),
        ]);
        events
    }
}

/// Returns a call and its result for the history of an agent.
fn round(number: usize) -> String {
    format!(
        r#"{{"role":"assistant","content":[{{"type":"text","text":"{number}: I look."}},{{"type":"tool_use","id":"toolu_{number:04}","name":"Read","input":{{"path":"garden/bed{number}"}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{number:04}","content":"{}"}}]}},"#,
        sentences(16 * number, 16)
    )
}

fn sentences(from: usize, count: usize) -> String {
    (from..from + count).map(|number| format!("{number}: {SENTENCE}. ")).collect()
}

fn delta(number: usize) -> String {
    format!("{number}: {SENTENCE} ")
}

/// Returns 6 KB of instructions and tools.
fn opening() -> String {
    let rules: String = (1..=20).map(|number| format!("Rule {number}: {SENTENCE}. ")).collect();
    let tool = |name: &str| {
        let about = format!("{name}: {SENTENCE}. ").repeat(4);
        format!(
            r#"{{"name":"{name}","description":"{about}","input_schema":{{"type":"object","properties":{{"path":{{"type":"string","description":"{SENTENCE}"}}}},"required":["path"]}}}}"#
        )
    };
    format!(
        r#""system":[{{"type":"text","text":"{rules}","cache_control":{{"type":"ephemeral"}}}}],"tools":[{}],"#,
        TOOLS.map(tool).join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traffic_is_of_the_promised_size() {
        let body = Traffic::PROXY.body();
        let value: serde_json::Value = serde_json::from_str(&body).expect("the body is JSON");
        assert_eq!(body.len(), 64 * 1024);
        assert!(value["messages"].as_array().is_some_and(|messages| messages.len() > 50));
        let events = Traffic::PROXY.events();
        assert_eq!(events.len(), 200);
        let bytes: usize = events.iter().map(String::len).sum();
        assert!((37_500..38_500).contains(&bytes), "{bytes} bytes of events");
    }

    #[test]
    fn an_agent_has_instructions_and_tools() {
        let body = Traffic { request: 20_000, events: 100, is_agent: true }.body();
        let value: serde_json::Value = serde_json::from_str(&body).expect("the body is JSON");
        assert_eq!(body.len(), 20_000);
        assert_eq!(value["tools"].as_array().map(Vec::len), Some(TOOLS.len()));
        assert!(value["system"].is_array());
        assert!(value["messages"].as_array().is_some_and(|messages| messages.len() > 10));
    }

    #[test]
    fn every_event_carries_json() {
        for event in Traffic::PROXY.events() {
            let data = event.split_once("data: ").expect("each event has data").1;
            serde_json::from_str::<serde_json::Value>(data).expect("the data is JSON");
        }
    }
}
