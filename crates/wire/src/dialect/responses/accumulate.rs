//! Accumulates a stream.
//!
//! The last event usually contains the complete response. The events before it are needed if the stream is
//! truncated, and for servers that omit the output at the end.

use crate::dialect::ProviderError;
use crate::dialect::builder::{Log, MessageBuilder, StreamEnd, event_kind, inside};
use crate::dialect::chat::decode_error;
use crate::dialect::cursor::Cursor;
use crate::dialect::raw::{Object, array};
use crate::json::{Document, Edits, ValueKind};
use crate::sse::Frame;

#[derive(Debug, Default)]
pub(in crate::dialect) struct ResponseStream {
    /// The response in the last event that contains it.
    response: Option<String>,
    items: Vec<StreamedItem>,
    ended: bool,
    error: Option<ProviderError>,
}

/// An item that is being streamed.
#[derive(Debug)]
struct StreamedItem {
    index: u64,
    /// The item as it was added or, after its end, the final item.
    item: String,
    done: bool,
    /// Members that deltas extend, with the raw content of their strings.
    texts: Vec<(&'static str, String)>,
    /// The parts of `content` and `summary`.
    parts: Vec<StreamedPart>,
}

#[derive(Debug)]
struct StreamedPart {
    list: &'static str,
    index: u64,
    part: Object,
    member: &'static str,
    /// The raw content of the part's string.
    text: String,
    annotations: Vec<String>,
}

/// The string that a delta extends.
#[derive(Clone, Copy)]
enum DeltaTarget {
    /// A member of the item.
    Item(&'static str),
    /// A member of a part: the list, the event's index into it, the type of a new part, the member.
    Part(&'static str, &'static str, &'static str, &'static str),
}

/// Event families (`….delta` and `….done`) and the strings that they extend.
const TEXTS: &[(&str, DeltaTarget)] = &[
    ("response.output_text", DeltaTarget::Part("content", "content_index", "output_text", "text")),
    ("response.refusal", DeltaTarget::Part("content", "content_index", "refusal", "refusal")),
    ("response.reasoning_text", DeltaTarget::Part("content", "content_index", "reasoning_text", "text")),
    (
        "response.reasoning_summary_text",
        DeltaTarget::Part("summary", "summary_index", "summary_text", "text"),
    ),
    ("response.function_call_arguments", DeltaTarget::Item("arguments")),
    ("response.custom_tool_call_input", DeltaTarget::Item("input")),
    ("response.mcp_call_arguments", DeltaTarget::Item("arguments")),
    ("response.code_interpreter_call_code", DeltaTarget::Item("code")),
];

/// Prefixes of events that only report progress.
const PROGRESS: &[&str] = &[
    "keepalive",
    "response.apply_patch_call",
    "response.audio",
    "response.code_interpreter_call.",
    "response.file_search_call.",
    "response.image_generation_call.",
    "response.mcp_call.",
    "response.mcp_list_tools.",
    "response.reasoning.",
    "response.reasoning_summary.",
    "response.shell_call",
    "response.tool_search_call.",
    "response.web_search_call.",
];

impl MessageBuilder for ResponseStream {
    fn push_plain(&mut self, data: &str) -> bool {
        data == "[DONE]" // some routers end a stream with it
    }

    fn push_event(&mut self, frame: &Frame, data: &Cursor<'_, '_>, log: &mut Log) {
        let kind = event_kind(frame, data);
        match kind.as_str() {
            "response.created" | "response.in_progress" | "response.queued" => self.lifecycle(data),
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.lifecycle(data);
                self.ended = true;
            }
            "response.output_item.added" => self.item(data, false),
            "response.output_item.done" => self.item(data, true),
            "response.content_part.added" => self.part(data, "content", "content_index", log),
            "response.reasoning_summary_part.added" => self.part(data, "summary", "summary_index", log),
            // The texts are complete already.
            "response.content_part.done" | "response.reasoning_summary_part.done" => {}
            "response.output_text.annotation.added" => self.annotation(data, log),
            "error" => {
                let nested = data.get("error");
                let mut error = decode_error(nested.as_ref().unwrap_or(data));
                if nested.is_none() {
                    error.kind = error.code.take().unwrap_or(error.kind); // the error's own `type` is `error`
                }
                self.error = Some(error);
            }
            other => self.text(frame, other, data, log),
        }
    }

    fn finish(&mut self, _: &mut Log) -> (Option<String>, StreamEnd) {
        let end = match self.error.take() {
            Some(error) => StreamEnd::Failed(error),
            None if self.ended => StreamEnd::Complete,
            None => StreamEnd::Early,
        };
        let Some(response) = self.response.take() else { return (None, end) };
        self.items.sort_by_key(|item| item.index);
        let items: Vec<String> = self.items.drain(..).map(StreamedItem::into_json).collect();
        (Some(with_output(response, &items)), end)
    }
}

/// Adds the items to the response, unless it contains items.
fn with_output(response: String, items: &[String]) -> String {
    let Ok(document) = Document::parse(response.as_bytes()) else { return response };
    let output = document.root().get("output");
    if items.is_empty() || output.is_some_and(|output| output.items().next().is_some()) {
        return response;
    }
    let mut edits = Edits::default();
    match output {
        Some(output) => edits.add(output.replaced_by(array(items))),
        None => {
            document.root().with_member("output", &array(items)).into_iter().for_each(|edit| edits.add(edit))
        }
    }
    let spliced = edits.apply(response.as_bytes()).map(String::from_utf8);
    spliced.expect("one edit overlaps nothing").expect("UTF-8 spliced into UTF-8")
}

impl ResponseStream {
    fn lifecycle(&mut self, data: &Cursor<'_, '_>) {
        let Some(response) = data.get("response") else { return };
        if let Some(error) = response.get("error") {
            self.error = Some(decode_error(&error));
        }
        self.response = Some(response.value.raw().to_owned());
    }

    fn item(&mut self, data: &Cursor<'_, '_>, done: bool) {
        let Some(item) = data.get("item") else { return };
        let (index, item) = (data.number("output_index"), item.value.raw().to_owned());
        match self.items.iter_mut().find(|known| known.index == index) {
            Some(known) if done => (known.item, known.done) = (item, true),
            Some(_) => {}
            None => self.items.push(StreamedItem { index, item, done, texts: Vec::new(), parts: Vec::new() }),
        }
    }

    fn find_item(&mut self, data: &Cursor<'_, '_>, log: &mut Log) -> Option<&mut StreamedItem> {
        let index = data.number("output_index");
        let known = self.items.iter_mut().find(|item| item.index == index);
        if known.is_none() {
            log.unknown("/output_index", format!("item {index} that was not added"));
        }
        known
    }

    fn part(&mut self, data: &Cursor<'_, '_>, list: &'static str, index: &str, log: &mut Log) {
        let at = data.number(index);
        let (Some(item), Some(part)) = (self.find_item(data, log), data.get("part")) else { return };
        if item.parts.iter().any(|known| known.list == list && known.index == at) {
            return; // a delta created the part
        }
        let member = if part.kind() == "refusal" { "refusal" } else { "text" };
        let part = Object::of(part.value);
        let text = inside(part.get(member).unwrap_or_default()).to_owned();
        item.parts.push(StreamedPart { list, index: at, part, member, text, annotations: Vec::new() });
    }

    fn annotation(&mut self, data: &Cursor<'_, '_>, log: &mut Log) {
        let at = data.number("content_index");
        let Some(item) = self.find_item(data, log) else { return };
        let part = item.parts.iter_mut().find(|part| part.list == "content" && part.index == at);
        if let (Some(part), Some(annotation)) = (part, data.get("annotation")) {
            part.annotations.push(annotation.value.raw().to_owned());
        }
    }

    fn text(&mut self, frame: &Frame, kind: &str, data: &Cursor<'_, '_>, log: &mut Log) {
        let family = |suffix: &str| {
            let name = kind.strip_suffix(suffix)?;
            TEXTS.iter().find(|(family, _)| *family == name).map(|(_, target)| *target)
        };
        if let Some(target) = family(".delta") {
            let output = data.number("output_index");
            let Some(item) = self.find_item(data, log) else { return };
            let (pointer, text) = item.target_text(target, data);
            if let Some(delta) = data.get("delta") {
                log.join(frame, delta.value, format!("/output/{output}{pointer}"), text);
            }
        } else if let Some(target) = family(".done") {
            let Some(item) = self.find_item(data, log) else { return };
            let member = match target {
                DeltaTarget::Item(member) | DeltaTarget::Part(_, _, _, member) => member,
            };
            if let Some(whole) = data.get(member).filter(Cursor::is_string) {
                *item.target_text(target, data).1 = inside(whole.value.raw()).to_owned();
            }
        } else if !PROGRESS.iter().any(|known| kind.starts_with(known)) {
            log.unknown("/type", format!("event type `{kind}`"));
        }
    }
}

impl StreamedItem {
    /// Returns the string that an event extends, and its pointer in the item.
    fn target_text(&mut self, target: DeltaTarget, data: &Cursor<'_, '_>) -> (String, &mut String) {
        match target {
            DeltaTarget::Item(member) => {
                let known = self.texts.iter().position(|(name, _)| *name == member);
                let at = known.unwrap_or_else(|| {
                    self.texts.push((member, initial_text(&self.item, member)));
                    self.texts.len() - 1
                });
                (format!("/{member}"), &mut self.texts[at].1)
            }
            DeltaTarget::Part(list, index, kind, member) => {
                let index = data.number(index);
                let known = self.parts.iter().position(|part| part.list == list && part.index == index);
                let at = known.unwrap_or_else(|| {
                    let part = Object::new().text("type", kind);
                    let (text, annotations) = (String::new(), Vec::new());
                    self.parts.push(StreamedPart { list, index, part, member, text, annotations });
                    self.parts.len() - 1
                });
                (format!("/{list}/{index}/{member}"), &mut self.parts[at].text)
            }
        }
    }

    fn into_json(mut self) -> String {
        if self.done || (self.texts.is_empty() && self.parts.is_empty()) {
            return self.item;
        }
        let Ok(document) = Document::parse(self.item.as_bytes()) else { return self.item };
        let mut item = Object::of(document.root());
        for (member, inner) in &self.texts {
            item.set(member, format!("\"{inner}\""));
        }
        self.parts.sort_by_key(|part| part.index);
        for list in ["content", "summary"] {
            let parts: Vec<String> =
                self.parts.iter().filter(|part| part.list == list).map(StreamedPart::json).collect();
            if !parts.is_empty() {
                item.set(list, array(parts));
            }
        }
        item.json()
    }
}

/// Returns the raw content that a member had when its item was added.
fn initial_text(item: &str, member: &str) -> String {
    let document = Document::parse(item.as_bytes()).ok();
    let piece = document.as_ref().and_then(|document| document.root().get(member));
    piece
        .filter(|piece| piece.kind() == ValueKind::String)
        .map_or_else(String::new, |piece| inside(piece.raw()).to_owned())
}

impl StreamedPart {
    fn json(&self) -> String {
        let mut part = self.part.clone();
        part.set(self.member, format!("\"{}\"", self.text));
        if !self.annotations.is_empty() {
            part.set("annotations", array(&self.annotations));
        }
        part.json()
    }
}
