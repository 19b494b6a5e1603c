//! Tolerant parsing of a server's messages: an unknown part does not cost the rest, and an unreadable answer is
//! recognised as one.

use rmcp::model::{ContentBlock, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// Replacement for content that models cannot be shown.
pub(super) const UNKNOWN: &str = "[content of an unknown type]";

/// Internal error code for an unreadable answer. A server gains nothing by sending it.
const UNREADABLE: ErrorCode = ErrorCode(-32_099);

/// Parses a message. Replaces content blocks of unknown kinds.
pub(super) fn read(bytes: &[u8]) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    let mut message: Value = serde_json::from_slice(bytes)?;
    let content = message.pointer_mut("/result/content").and_then(Value::as_array_mut);
    for block in content.into_iter().flatten() {
        if ContentBlock::deserialize(&*block).is_err() {
            *block = json!({ "type": "text", "text": UNKNOWN });
        }
    }
    serde_json::from_value(message)
}

/// Builds the error for an answer that is unreadable.
pub(super) fn unreadable_answer(id: RequestId, why: String) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(UNREADABLE, why, None), Some(id))
}

/// Returns true if an error was built by [`unreadable_answer`].
pub(super) fn is_unreadable(error: &ErrorData) -> bool {
    error.code == UNREADABLE
}

/// Finds the pending request that an unparsable line answers, by its text.
pub(super) fn answered_request(line: &[u8], pending_ids: &[RequestId]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(line);
    if !text.contains("\"result\"") && !text.contains("\"error\"") {
        return None;
    }
    let ids = text.split("\"id\"").skip(1).filter_map(|behind| {
        let number = behind.trim_start().strip_prefix(':')?.trim_start();
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        number[..end].parse().ok().map(RequestId::Number)
    });
    ids.into_iter().find(|id| pending_ids.contains(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_matched_by_its_number() {
        let pending_ids = [RequestId::Number(7), RequestId::Number(12)];
        for (line, expected) in [
            (&br#"{"jsonrpc":"2.0","id":12,"result":{"a":"\ud800"}}"#[..], Some(12)),
            (br#"[{"result":{"id":3},"id" : 7}]"#, Some(7)),
            (b"{\"id\":7,\"error\":\"\xff", Some(7)),
            (br#"{"id":71,"result":1e999}"#, None),
            (br#"{"id":"7","result":1e999}"#, None),
            (br#"{"method":"log","params":{"id":7,"a":1e999}}"#, None),
            (b"this is no message", None),
        ] {
            let text = String::from_utf8_lossy(line);
            assert_eq!(answered_request(line, &pending_ids), expected.map(RequestId::Number), "{text}");
        }
    }
}
