//! Invariants of every run.

use store::{ModelCallStatus, Origin, Purpose};
use wire::dialect::{Dialect, Prompt};

use super::Room;
use crate::rebuild_request;

pub(super) const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// Every request was written down as it was sent, begins with the one before, and answers every call in order.
pub(super) fn hold(room: &Room) {
    let (run, dialect) = (room.run(), room.model.dialect);
    // As another process finds it.
    let store = super::open(&room.folder);
    let calls = store.run(&run).model_calls().expect("model calls");
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for call in &calls {
        let body = rebuild_request(&store, &run, call).expect("what was sent");
        assert_eq!(body.len() as u64, call.request_len);
        assert_eq!(call.head, calls[0].head, "the head stays");
        markers(dialect, &body);
        answers_in_order(&dialect.decode_request(&body).expect("a request"));
        sent.push(body);
    }
    for pair in calls.windows(2).zip(sent.windows(2)) {
        let ([before, after], [shorter, longer]) = pair else { unreachable!("windows of two") };
        // A summary replaces the beginning, which is its purpose, and its own question is not said for good; where the
        // provider found all of it too long, the summary is asked for without the end.
        if before.from == after.from && before.purpose == Purpose::Turn && before.to <= after.to {
            begins_with(longer, shorter);
        }
    }
    for asked in room.model.asked() {
        assert!(sent.contains(&asked), "asked, and not written down: {}", String::from_utf8_lossy(&asked));
    }
    let reads = store.run(&run);
    let replies = reads.messages().expect("messages").into_iter().filter(|m| m.origin == Origin::Reply);
    let answered = calls.iter().filter(|call| call.status == ModelCallStatus::Answered);
    let turns = answered.filter(|call| call.purpose == Purpose::Turn).count();
    assert_eq!(replies.count(), turns, "a reply for every answer, and an answer for every reply");
}

/// Asserts that `longer` starts with `shorter`, except for cache markers.
pub(super) fn begins_with(longer: &[u8], shorter: &[u8]) {
    let plain = |body: &[u8]| String::from_utf8_lossy(body).replace(MARKER, "");
    let (shorter, longer) = (plain(shorter), plain(longer));
    let opening = shorter.strip_suffix("]}").expect("messages come last");
    assert!(longer.starts_with(opening), "{longer}\ndoes not go on with\n{shorter}");
}

fn markers(dialect: Dialect, body: &[u8]) {
    let markers = String::from_utf8_lossy(body).matches("cache_control").count();
    match dialect {
        Dialect::AnthropicMessages => assert!((3..=4).contains(&markers), "{markers} markers"),
        _ => assert_eq!(markers, 0),
    }
}

/// Every call has its one result, in its order, before anything else is said.
fn answers_in_order(prompt: &Prompt) {
    let calls: Vec<&str> = prompt.calls().map(|call| call.id.as_str()).collect();
    let results: Vec<&str> = prompt.results().map(|result| result.call.as_str()).collect();
    assert_eq!(calls, results, "the calls of a request and their results");
}
