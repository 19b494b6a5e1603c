//! What a server says, read with some patience: one thing that nobody knows does not cost the rest, and an answer that
//! cannot be read is known to be one.

use rmcp::model::{ContentBlock, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// What stands in the place of something that models could not be shown.
pub(super) const UNKNOWN: &str = "[something of an unknown kind]";

/// The code by which we tell ourselves that there is no answer which can be read. A server that uses it gains nothing.
const UNREAD: ErrorCode = ErrorCode(-32_099);

/// Reads a message. A block of a tool's answer that is of no known kind is left out by itself.
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

/// Says to whoever asked that there is no answer which can be read, and why.
pub(super) fn unread(asked: RequestId, why: String) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(UNREAD, why, None), Some(asked))
}

/// Whether that is what an error says.
pub(super) fn is_unread(error: &ErrorData) -> bool {
    error.code == UNREAD
}

/// Which of those that were asked a line answers that cannot be read: its letters are looked at, as far as they are some.
pub(super) fn answers(line: &[u8], asked: &[RequestId]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(line);
    if !text.contains("\"result\"") && !text.contains("\"error\"") {
        return None;
    }
    let ids = text.split("\"id\"").skip(1).filter_map(|behind| {
        let number = behind.trim_start().strip_prefix(':')?.trim_start();
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        number[..end].parse().ok().map(RequestId::Number)
    });
    ids.into_iter().find(|id| asked.contains(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_is_known_by_its_number() {
        let asked = [RequestId::Number(7), RequestId::Number(12)];
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
            assert_eq!(answers(line, &asked), expected.map(RequestId::Number), "{text}");
        }
    }
}
