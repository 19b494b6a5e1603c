//! The one request and the one response that the bench sends to and fro.
//!
//! In the shape of a Messages call: 64 KB of history up, 200 server-sent events of 38 KB down.

use std::fmt::Write;
use std::net::SocketAddr;

const REQUEST_BODY_BYTES: usize = 64 * 1024;
const DELTAS: usize = 195; // with five events around them: 200

const SENTENCE: &str = "the gardener cut a branch and set it in wet sand until it grew new roots";

/// The whole request as it goes over the wire.
///
/// It carries a key, as every real call does, so a target that removes secrets has one to remove.
pub(super) fn request(host: SocketAddr) -> Vec<u8> {
    let body = request_body();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n\
         x-api-key: bench-key-5f2c90d1b7a64e38\r\nanthropic-version: 2023-06-01\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

fn request_body() -> String {
    let mut body = r#"{"model":"bench","max_tokens":1024,"stream":true,"messages":["#.to_owned();
    let mut role = ["user", "assistant"].into_iter().cycle();
    let mut number = 0;
    let end = r#"{"role":"user","content":""}]}"#.len();
    loop {
        let mut message = String::new();
        let speaker = role.next().expect("a cycle has no end");
        write!(message, r#"{{"role":"{speaker}","content":[{{"type":"text","text":""#)
            .expect("a string takes all");
        for _ in 0..8 {
            number += 1;
            write!(message, "{number}: {SENTENCE}. ").expect("a string takes all");
        }
        message.push_str(r#""}]},"#);
        if body.len() + message.len() + end > REQUEST_BODY_BYTES {
            break;
        }
        body.push_str(&message);
    }
    let filler = ".".repeat(REQUEST_BODY_BYTES - body.len() - end);
    write!(body, r#"{{"role":"user","content":"{filler}"}}]}}"#).expect("a string takes all");
    body
}

/// The events of the response, one string each.
pub(super) fn events() -> Vec<String> {
    let event = |kind: &str, data: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{data}}}\n\n");
    let mut events = vec![
        event(
            "message_start",
            r#","message":{"id":"msg_bench","type":"message","role":"assistant","model":"bench","content":[],"stop_reason":null,"usage":{"input_tokens":16000,"output_tokens":1}}"#,
        ),
        event("content_block_start", r#","index":0,"content_block":{"type":"text","text":""}"#),
    ];
    events.extend((0..DELTAS).map(|number| {
        event(
            "content_block_delta",
            &format!(r#","index":0,"delta":{{"type":"text_delta","text":"{number}: {SENTENCE} "}}"#),
        )
    }));
    events.extend([
        event("content_block_stop", r#","index":0"#),
        event("message_delta", r#","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2800}"#),
        event("message_stop", ""),
    ]);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traffic_is_of_the_promised_size() {
        let body = request_body();
        let value: serde_json::Value = serde_json::from_str(&body).expect("the body is JSON");
        assert_eq!(body.len(), 64 * 1024);
        assert!(value["messages"].as_array().is_some_and(|messages| messages.len() > 50));
        let events = events();
        assert_eq!(events.len(), 200);
        let bytes: usize = events.iter().map(String::len).sum();
        assert!((37_500..38_500).contains(&bytes), "{bytes} bytes of events");
    }

    #[test]
    fn every_event_carries_json() {
        for event in events() {
            let data = event.split_once("data: ").expect("each event has data").1;
            serde_json::from_str::<serde_json::Value>(data).expect("the data is JSON");
        }
    }
}
