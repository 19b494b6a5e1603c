//! A decoded request, in the words all dialects share.

use std::fmt;

use session::{Block, Role, ToolCall, ToolResult};

use super::Dialect;
use super::cursor::{Cursor, token};

pub use super::cursor::JsonLocation;

/// What a request asks the model, with the place of every part of it in the body.
///
/// Nothing is lost here: what has no word of its own is reachable by its [`JsonLocation`].
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The dialect it was written in.
    pub dialect: Dialect,
    /// The model that is asked; some providers have it in the address instead.
    pub model: Option<String>,
    /// Instructions given beside the messages (`system`, `instructions`). Instructions that are
    /// messages stay messages: see [`Prompt::instructions`].
    pub system: Vec<Part>,
    /// The conversation, in order; in Responses every input item is one message.
    pub messages: Vec<PromptMessage>,
    /// The tools on offer, in order; those inside input items come last.
    pub tools: Vec<ToolDefinition>,
    /// Whether the answer shall be streamed.
    pub stream: bool,
    /// The output limit, under whatever name.
    pub max_tokens: Option<u64>,
    /// Every other member of the body in order: sampling, thinking, limits, metadata.
    pub settings: Vec<Setting>,
    /// Every cache marker, in document order.
    pub markers: Vec<Marker>,
    /// What this version does not know, in places that it knows.
    pub unknown: Vec<UnknownValue>,
}

impl Prompt {
    /// All instructions: those beside the messages, then the messages that come first and are
    /// instructions too.
    pub fn instructions(&self) -> impl Iterator<Item = &Part> {
        let leading = self.messages.iter().take_while(|message| is_instruction(message.role));
        self.system.iter().chain(leading.flat_map(|message| &message.parts))
    }

    /// The messages behind the leading instructions.
    pub fn conversation(&self) -> &[PromptMessage] {
        let leading = self.messages.iter().take_while(|message| is_instruction(message.role)).count();
        &self.messages[leading..]
    }

    /// The tool calls that the history holds, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results that the history holds, in order.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// The place of a top-level member that has no field of its own here.
    pub fn setting(&self, name: &str) -> Option<&JsonLocation> {
        self.settings.iter().rfind(|setting| setting.name == name).map(|setting| &setting.place)
    }

    /// The markers of everything decoded, and those that stand elsewhere, in document order.
    pub(crate) fn collect_markers(&self, elsewhere: impl IntoIterator<Item = Marker>) -> Vec<Marker> {
        let parts = self.system.iter().chain(self.messages.iter().flat_map(|message| &message.parts));
        let parts = parts.flat_map(|part| std::iter::once(part).chain(&part.parts));
        let carried = parts.map(|part| &part.marker).chain(self.tools.iter().map(|tool| &tool.marker));
        let mut markers: Vec<Marker> = carried.flatten().cloned().chain(elsewhere).collect();
        markers.sort_by_key(|marker| marker.place.span.start);
        markers.dedup();
        markers
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.messages.iter().flat_map(|message| &message.parts).map(|part| &part.block)
    }
}

fn is_instruction(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

/// One message, or one input item.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said; a plain string is one text part.
    pub parts: Vec<Part>,
    /// The whole message.
    pub place: JsonLocation,
    /// Members that are neither role nor content, in order.
    pub extra: Vec<Setting>,
}

impl PromptMessage {
    /// The message as a session value.
    pub fn message(&self) -> session::Message {
        session::Message {
            role: self.role,
            blocks: self.parts.iter().map(|part| part.block.clone()).collect(),
        }
    }
}

/// One block and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its meaning.
    pub block: Block,
    /// The provider's name for it: its `type`, or the member it stands in.
    pub kind: String,
    /// All of it.
    pub place: JsonLocation,
    /// The value that says it: a text's string, a call's input, a result's content.
    pub content: Option<JsonLocation>,
    /// Its cache marker.
    pub marker: Option<Marker>,
    /// The parts inside a tool result.
    pub parts: Vec<Part>,
}

impl Part {
    pub(crate) fn new(at: &Cursor<'_, '_>, kind: impl Into<String>, block: Block) -> Self {
        let (kind, place) = (kind.into(), at.place());
        Self { block, kind, place, content: None, marker: Marker::on(at), parts: Vec::new() }
    }

    pub(crate) fn said_by(mut self, content: Option<&Cursor<'_, '_>>) -> Self {
        self.content = content.map(Cursor::place);
        self
    }

    /// A string that is a text block by itself.
    pub(crate) fn text(at: &Cursor<'_, '_>) -> Self {
        let text = at.value.as_str().unwrap_or_default().into_owned();
        Self::new(at, "text", Block::Text { text }).said_by(Some(at))
    }
}

/// One tool on offer.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Its name; a provider's own tool that has none goes by its type.
    pub name: String,
    /// The provider's name for this kind of tool, as in `function` or `web_search_20250305`.
    pub kind: String,
    /// Who execution it, and what it takes.
    pub execution: ToolExecution,
    /// Its schema is not shown to the model until it is asked for.
    pub deferred: bool,
    /// What it is for, in words.
    pub description: Option<String>,
    /// All of it.
    pub place: JsonLocation,
    /// The schema of its input.
    pub schema: Option<JsonLocation>,
    /// Its cache marker.
    pub marker: Option<Marker>,
    /// The message that brings it, where it is not in the list of tools.
    pub message: Option<usize>,
}

/// Who execution a tool, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolExecution {
    /// The harness; takes JSON.
    Function,
    /// The harness; takes free text.
    Custom,
    /// A tool that the provider defined; it may also be the one who execution it.
    Provider,
}

/// A member of an object, by name and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The member's name.
    pub name: String,
    /// Its value.
    pub place: JsonLocation,
}

impl Setting {
    /// The members of an object that are not in `known`.
    pub(crate) fn others(at: &Cursor<'_, '_>, known: &[&str]) -> Vec<Self> {
        let members = at.value.members().filter(|member| !known.contains(&member.name().as_ref()));
        let setting = |member: crate::json::Member<'_, '_>| {
            let name = member.name().into_owned();
            let pointer = format!("{}/{}", at.pointer, token(&name));
            let place = JsonLocation { pointer, span: member.value.span() };
            Self { name, place }
        };
        members.map(setting).collect()
    }
}

/// The names under which values carry a cache marker: Anthropic's, which routers pass on in other
/// dialects too, and OpenAI's.
const MARKERS: &[&str] = &["cache_control", "prompt_cache_breakpoint"];

/// The prompt up to and including the value that carries this shall be cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The marker itself, a member of what it marks.
    pub place: JsonLocation,
    /// How long, where it says so, as in `1h`.
    pub ttl: Option<String>,
    /// Not `null`: that marks nothing, and is no part of what is said either.
    pub is_set: bool,
}

impl Marker {
    pub(crate) fn on(at: &Cursor<'_, '_>) -> Option<Self> {
        let named = || MARKERS.iter().filter_map(|name| at.member(name));
        let is_set = |marker: &Cursor<'_, '_>| !marker.value.is_null();
        let marker = named().find(is_set).or_else(|| named().next())?;
        Some(Self { place: marker.place(), ttl: marker.text("ttl"), is_set: is_set(&marker) })
    }
}

/// Something this version does not know, in a place that it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownValue {
    /// The event of the stream it came in, counted from 0.
    pub frame: Option<usize>,
    /// The JSON pointer of the value.
    pub pointer: String,
    /// What it is, as in ``block type `hologram` ``.
    pub what: String,
}

impl UnknownValue {
    pub(crate) fn at(pointer: impl Into<String>, what: impl Into<String>) -> Self {
        Self { frame: None, pointer: pointer.into(), what: what.into() }
    }
}

impl fmt::Display for UnknownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(frame) = self.frame {
            write!(f, "event {frame} ")?;
        }
        write!(f, "`{}`: unknown {}", self.pointer, self.what)
    }
}
