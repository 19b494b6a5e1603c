//! Accumulates a stream.

use crate::dialect::ProviderError;
use crate::dialect::builder::{Log, MessageBuilder, StreamEnd, event_kind, inside};
use crate::dialect::cursor::Cursor;
use crate::dialect::raw::{Object, array};
use crate::json::{Document, Value, quote, unescape};
use crate::sse::Frame;

use super::reply::decode_error;

#[derive(Debug, Default)]
pub(in crate::dialect) struct MessageStream {
    message: Option<Object>,
    usage: Object,
    blocks: Vec<StreamedBlock>,
    stopped: bool,
    error: Option<ProviderError>,
}

/// A block that is being streamed.
#[derive(Debug)]
struct StreamedBlock {
    index: u64,
    /// The block exactly as it started.
    start: String,
    /// The same block, as members.
    block: Object,
    /// Members that deltas extend, with the raw content of their strings.
    texts: Vec<(&'static str, String)>,
    /// The raw content of the joined `partial_json`.
    input: Option<String>,
    citations: Vec<String>,
}

/// The type of a delta, the delta's string, and the member of the block that it extends.
const DELTAS: &[(&str, &str, &str)] = &[
    ("text_delta", "text", "text"),
    ("thinking_delta", "thinking", "thinking"),
    ("signature_delta", "signature", "signature"),
    ("compaction_delta", "content", "content"),
];

impl MessageBuilder for MessageStream {
    fn push_plain(&mut self, _: &str) -> bool {
        false
    }

    fn push_event(&mut self, frame: &Frame, data: &Cursor<'_, '_>, log: &mut Log) {
        match event_kind(frame, data).as_str() {
            "message_start" => self.begin(data, log),
            "content_block_start" => self.start_block(data, log),
            "content_block_delta" => self.delta(frame, data, log),
            "content_block_stop" | "ping" => {}
            "message_delta" => self.message_delta(data),
            "message_stop" => self.stopped = true,
            "error" => self.error = Some(decode_error(data.get("error").as_ref().unwrap_or(data))),
            other => log.unknown("/type", format!("event type `{other}`")),
        }
    }

    fn finish(&mut self, _: &mut Log) -> (Option<String>, StreamEnd) {
        let end = match self.error.take() {
            Some(error) => StreamEnd::Failed(error),
            None if self.stopped => StreamEnd::Complete,
            None => StreamEnd::Early,
        };
        let Some(mut message) = self.message.take() else { return (None, end) };
        message.set("content", array(self.blocks.drain(..).map(StreamedBlock::into_json)));
        message.set("usage", self.usage.json());
        (Some(message.json()), end)
    }
}

impl MessageStream {
    fn begin(&mut self, data: &Cursor<'_, '_>, log: &mut Log) {
        let Some(message) = data.get("message") else { return };
        if self.message.is_some() {
            return log.unknown("/type", "second `message_start`");
        }
        self.usage = message.get("usage").map(|usage| Object::of(usage.value)).unwrap_or_default();
        self.message = Some(Object::of(message.value));
    }

    fn start_block(&mut self, data: &Cursor<'_, '_>, log: &mut Log) {
        let Some(block) = data.get("content_block") else {
            return log.unknown("", "`content_block_start` without a block");
        };
        self.blocks.push(StreamedBlock {
            index: data.number("index"),
            start: block.value.raw().to_owned(),
            block: Object::of(block.value),
            texts: Vec::new(),
            input: None,
            citations: Vec::new(),
        });
    }

    fn delta(&mut self, frame: &Frame, data: &Cursor<'_, '_>, log: &mut Log) {
        let index = data.number("index");
        let position = self.blocks.iter().rposition(|block| block.index == index);
        let (Some(position), Some(delta)) = (position, data.get("delta")) else {
            return log.unknown("/index", format!("block {index} without a start event"));
        };
        self.blocks[position].extend(frame, &delta, &format!("/content/{position}"), log);
    }

    /// Replaces members of the message by those of a `message_delta`.
    fn message_delta(&mut self, data: &Cursor<'_, '_>) {
        let Some(message) = &mut self.message else { return };
        let top = data.value.members().filter(|m| !["type", "delta", "usage"].contains(&m.name().as_ref()));
        let delta = data.get("delta");
        for member in top.chain(delta.iter().flat_map(|delta| delta.value.members())) {
            message.set(&member.name(), member.value.raw());
        }
        for member in data.get("usage").iter().flat_map(|usage| usage.value.members()) {
            if !member.value.is_null() {
                self.usage.set(&member.name(), member.value.raw());
            }
        }
    }
}

impl StreamedBlock {
    fn extend(&mut self, frame: &Frame, delta: &Cursor<'_, '_>, pointer: &str, log: &mut Log) {
        let kind = delta.kind();
        let string = |name: &str| -> Option<Value<'_, '_>> { delta.get(name).map(|at| at.value) };
        if let Some((_, from, to)) = DELTAS.iter().find(|(known, _, _)| *known == kind) {
            if let Some(piece) = string(from) {
                let text = self.text(to);
                log.join(frame, piece, format!("{pointer}/{to}"), text);
            }
        } else if kind == "input_json_delta" {
            if let Some(piece) = string("partial_json") {
                let input = self.input.get_or_insert_default();
                log.join(frame, piece, format!("{pointer}/input"), input);
            }
        } else if kind == "citations_delta" {
            self.citations.extend(string("citation").map(|citation| citation.raw().to_owned()));
        } else {
            log.unknown("/delta/type", format!("delta type `{kind}`"));
        }
    }

    /// Returns the raw content of a member that deltas extend. It starts with the content from the block's start.
    fn text(&mut self, member: &'static str) -> &mut String {
        let known = self.texts.iter().position(|(name, _)| *name == member);
        let at = known.unwrap_or_else(|| {
            let first = inside(self.block.get(member).unwrap_or_default()).to_owned();
            self.texts.push((member, first));
            self.texts.len() - 1
        });
        &mut self.texts[at].1
    }

    fn into_json(mut self) -> String {
        if self.texts.is_empty() && self.input.is_none() && self.citations.is_empty() {
            return self.start;
        }
        for (member, inner) in std::mem::take(&mut self.texts) {
            self.block.set(member, format!("\"{inner}\""));
        }
        if !self.citations.is_empty() {
            let before = self.block.get("citations").unwrap_or("[]").to_owned();
            let before = Document::parse(before.as_bytes());
            let before = before.iter().flat_map(|document| document.root().items()).map(|item| item.raw());
            let all: Vec<&str> = before.chain(self.citations.iter().map(String::as_str)).collect();
            self.block.set("citations", array(all));
        }
        if let Some(input) = self.input.take().filter(|input| !input.is_empty()) {
            let input = unescape(&input);
            match Document::parse(input.as_bytes()) {
                Ok(_) => self.block.set("input", input),
                // Truncated: the input stays the object from the start, and the partial input is stored beside it.
                Err(_) => self.block.set("partial_json", quote(&input)),
            }
        }
        self.block.json()
    }
}
