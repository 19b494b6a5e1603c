//! A stream put back together.
//!
//! The last event mostly brings the whole response. What came before it matters where the stream was
//! cut, and with servers that leave the output out at the end.

use crate::dialect::ProviderError;
use crate::dialect::accumulate::{Gather, Log, StreamEnd, event_kind, inside};
use crate::dialect::chat::decode_error;
use crate::dialect::cursor::Cursor;
use crate::dialect::raw::{Object, array};
use crate::json::{Document, Edits, ValueKind};
use crate::sse::Frame;

#[derive(Debug, Default)]
pub(in crate::dialect) struct Gathered {
    /// The response as the last event that had it told it.
    response: Option<String>,
    items: Vec<Growing>,
    ended: bool,
    error: Option<ProviderError>,
}

/// One item on its way.
#[derive(Debug)]
struct Growing {
    index: u64,
    /// As it was added, or, once it is done, as it is.
    item: String,
    done: bool,
    /// Members that grow, with the raw inside of their strings.
    texts: Vec<(&'static str, String)>,
    /// Parts of `content` and `summary`.
    parts: Vec<GrowingPart>,
}

#[derive(Debug)]
struct GrowingPart {
    list: &'static str,
    index: u64,
    part: Object,
    member: &'static str,
    /// The raw inside of its string.
    text: String,
    annotations: Vec<String>,
}

/// Where a delta belongs.
#[derive(Clone, Copy)]
enum Grows {
    /// A member of the item.
    Item(&'static str),
    /// A member of a part: the list it is in, the event's index into it, a new part's type, the member.
    Part(&'static str, &'static str, &'static str, &'static str),
}

/// Families of events (`….delta` and `….done`) and the string that they build.
const TEXTS: &[(&str, Grows)] = &[
    ("response.output_text", Grows::Part("content", "content_index", "output_text", "text")),
    ("response.refusal", Grows::Part("content", "content_index", "refusal", "refusal")),
    ("response.reasoning_text", Grows::Part("content", "content_index", "reasoning_text", "text")),
    ("response.reasoning_summary_text", Grows::Part("summary", "summary_index", "summary_text", "text")),
    ("response.function_call_arguments", Grows::Item("arguments")),
    ("response.custom_tool_call_input", Grows::Item("input")),
    ("response.mcp_call_arguments", Grows::Item("arguments")),
    ("response.code_interpreter_call_code", Grows::Item("code")),
];

/// Events that only tell of progress, by what they begin with.
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

impl Gather for Gathered {
    fn plain(&mut self, data: &str) -> bool {
        data == "[DONE]" // some routers close with it
    }

    fn event(&mut self, frame: &Frame, data: &Cursor<'_, '_>, log: &mut Log) {
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
            // Their texts have come already, piece by piece.
            "response.content_part.done" | "response.reasoning_summary_part.done" => {}
            "response.output_text.annotation.added" => self.annotation(data, log),
            "error" => {
                let nested = data.get("error");
                let mut error = decode_error(nested.as_ref().unwrap_or(data));
                if nested.is_none() {
                    error.kind = error.code.take().unwrap_or(error.kind); // its `type` is `error`
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
        let items: Vec<String> = self.items.drain(..).map(Growing::whole).collect();
        (Some(with_output(response, &items)), end)
    }
}

/// The response, with the items where it has none itself.
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

impl Gathered {
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
            None => self.items.push(Growing { index, item, done, texts: Vec::new(), parts: Vec::new() }),
        }
    }

    fn growing(&mut self, data: &Cursor<'_, '_>, log: &mut Log) -> Option<&mut Growing> {
        let index = data.number("output_index");
        let known = self.items.iter_mut().find(|item| item.index == index);
        if known.is_none() {
            log.unknown("/output_index", format!("item {index}, which was never added"));
        }
        known
    }

    fn part(&mut self, data: &Cursor<'_, '_>, list: &'static str, index: &str, log: &mut Log) {
        let at = data.number(index);
        let (Some(item), Some(part)) = (self.growing(data, log), data.get("part")) else { return };
        if item.parts.iter().any(|known| known.list == list && known.index == at) {
            return; // a delta was faster
        }
        let member = if part.kind() == "refusal" { "refusal" } else { "text" };
        let part = Object::of(part.value);
        let text = inside(part.get(member).unwrap_or_default()).to_owned();
        item.parts.push(GrowingPart { list, index: at, part, member, text, annotations: Vec::new() });
    }

    fn annotation(&mut self, data: &Cursor<'_, '_>, log: &mut Log) {
        let at = data.number("content_index");
        let Some(item) = self.growing(data, log) else { return };
        let part = item.parts.iter_mut().find(|part| part.list == "content" && part.index == at);
        if let (Some(part), Some(annotation)) = (part, data.get("annotation")) {
            part.annotations.push(annotation.value.raw().to_owned());
        }
    }

    fn text(&mut self, frame: &Frame, kind: &str, data: &Cursor<'_, '_>, log: &mut Log) {
        let family = |suffix: &str| {
            let name = kind.strip_suffix(suffix)?;
            TEXTS.iter().find(|(family, _)| *family == name).map(|(_, grows)| *grows)
        };
        if let Some(grows) = family(".delta") {
            let output = data.number("output_index");
            let Some(item) = self.growing(data, log) else { return };
            let (pointer, text) = item.place(grows, data);
            if let Some(delta) = data.get("delta") {
                log.join(frame, delta.value, format!("/output/{output}{pointer}"), text);
            }
        } else if let Some(grows) = family(".done") {
            let Some(item) = self.growing(data, log) else { return };
            let member = match grows {
                Grows::Item(member) | Grows::Part(_, _, _, member) => member,
            };
            if let Some(whole) = data.get(member).filter(Cursor::is_string) {
                *item.place(grows, data).1 = inside(whole.value.raw()).to_owned();
            }
        } else if !PROGRESS.iter().any(|known| kind.starts_with(known)) {
            log.unknown("/type", format!("event type `{kind}`"));
        }
    }
}

impl Growing {
    /// The growing string that an event belongs to, and its pointer in the item.
    fn place(&mut self, grows: Grows, data: &Cursor<'_, '_>) -> (String, &mut String) {
        match grows {
            Grows::Item(member) => {
                let known = self.texts.iter().position(|(name, _)| *name == member);
                let at = known.unwrap_or_else(|| {
                    self.texts.push((member, first_piece(&self.item, member)));
                    self.texts.len() - 1
                });
                (format!("/{member}"), &mut self.texts[at].1)
            }
            Grows::Part(list, index, kind, member) => {
                let index = data.number(index);
                let known = self.parts.iter().position(|part| part.list == list && part.index == index);
                let at = known.unwrap_or_else(|| {
                    let part = Object::new().text("type", kind);
                    let (text, annotations) = (String::new(), Vec::new());
                    self.parts.push(GrowingPart { list, index, part, member, text, annotations });
                    self.parts.len() - 1
                });
                (format!("/{list}/{index}/{member}"), &mut self.parts[at].text)
            }
        }
    }

    fn whole(mut self) -> String {
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
                self.parts.iter().filter(|part| part.list == list).map(GrowingPart::whole).collect();
            if !parts.is_empty() {
                item.set(list, array(parts));
            }
        }
        item.json()
    }
}

/// What an item was added with of a text that grows, as it is spelled.
fn first_piece(item: &str, member: &str) -> String {
    let document = Document::parse(item.as_bytes()).ok();
    let piece = document.as_ref().and_then(|document| document.root().get(member));
    piece
        .filter(|piece| piece.kind() == ValueKind::String)
        .map_or_else(String::new, |piece| inside(piece.raw()).to_owned())
}

impl GrowingPart {
    fn whole(&self) -> String {
        let mut part = self.part.clone();
        part.set(self.member, format!("\"{}\"", self.text));
        if !self.annotations.is_empty() {
            part.set("annotations", array(&self.annotations));
        }
        part.json()
    }
}
