//! Decoded requests, in terms that all dialects share.

use std::fmt;

use session::{Block, Role, ToolCall, ToolResult};

use super::Dialect;
use super::cursor::{Cursor, escape_token};

pub use super::cursor::JsonLocation;

/// A decoded request, with the location of each of its parts in the body.
///
/// The decoding loses nothing: values without a field of their own can be reached by their [`JsonLocation`].
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The dialect of the request.
    pub dialect: Dialect,
    /// The model. `None` for providers that have it in the URL.
    pub model: Option<String>,
    /// Instructions outside of the messages (`system`, `instructions`). See [`Prompt::instructions`] for
    /// instructions in messages.
    pub system: Vec<Part>,
    /// The conversation, in order. In the Responses dialect each input item is one message.
    pub messages: Vec<PromptMessage>,
    /// The available tools, in order. Tools inside input items come last.
    pub tools: Vec<ToolDefinition>,
    /// True if the reply is to be streamed.
    pub stream: bool,
    /// The output limit, under any of its names.
    pub max_tokens: Option<u64>,
    /// All other members of the body in order: sampling, thinking, limits, metadata.
    pub settings: Vec<Setting>,
    /// All cache markers, in document order.
    pub markers: Vec<Marker>,
    /// Unknown values in known positions.
    pub unknown: Vec<UnknownValue>,
}

impl Prompt {
    /// Iterates over all instructions: those outside of the messages, then those in the first messages.
    pub fn instructions(&self) -> impl Iterator<Item = &Part> {
        let leading = self.messages.iter().take_while(|message| is_instruction(message.role));
        self.system.iter().chain(leading.flat_map(|message| &message.parts))
    }

    /// Returns the messages after the leading instructions.
    pub fn conversation(&self) -> &[PromptMessage] {
        let leading = self.messages.iter().take_while(|message| is_instruction(message.role)).count();
        &self.messages[leading..]
    }

    /// Iterates over the tool calls in the history, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Iterates over the tool results in the history, in order.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// Returns the location of a top-level member that has no field in this struct.
    pub fn setting(&self, name: &str) -> Option<&JsonLocation> {
        self.settings.iter().rfind(|setting| setting.name == name).map(|setting| &setting.place)
    }

    /// Returns the markers of all decoded parts and the given other ones, in document order.
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
    /// The author.
    pub role: Role,
    /// The content. A plain string is one text part.
    pub parts: Vec<Part>,
    /// The location of the whole message.
    pub place: JsonLocation,
    /// Members other than role and content, in order.
    pub extra: Vec<Setting>,
}

impl PromptMessage {
    /// Returns the message as a session value.
    pub fn message(&self) -> session::Message {
        session::Message {
            role: self.role,
            blocks: self.parts.iter().map(|part| part.block.clone()).collect(),
        }
    }
}

/// One block and its location.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The block as a session value.
    pub block: Block,
    /// The provider's name of the block: its `type`, or the name of its member.
    pub kind: String,
    /// The location of the whole block.
    pub place: JsonLocation,
    /// The location of the content: the string of a text, the input of a call, the content of a result.
    pub content: Option<JsonLocation>,
    /// The cache marker.
    pub marker: Option<Marker>,
    /// The parts of a tool result.
    pub parts: Vec<Part>,
}

impl Part {
    pub(crate) fn new(at: &Cursor<'_, '_>, kind: impl Into<String>, block: Block) -> Self {
        let (kind, place) = (kind.into(), at.place());
        Self { block, kind, place, content: None, marker: Marker::on(at), parts: Vec::new() }
    }

    pub(crate) fn with_content(mut self, content: Option<&Cursor<'_, '_>>) -> Self {
        self.content = content.map(Cursor::place);
        self
    }

    /// Creates a text part from a plain string.
    pub(crate) fn text(at: &Cursor<'_, '_>) -> Self {
        let text = at.value.as_str().unwrap_or_default().into_owned();
        Self::new(at, "text", Block::Text { text }).with_content(Some(at))
    }
}

/// A tool that a request offers.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name. A provider's tool without a name has the name of its type.
    pub name: String,
    /// The provider's name of the tool's type, such as `function` or `web_search_20250305`.
    pub kind: String,
    /// The party that runs the tool, and the form of its input.
    pub execution: ToolExecution,
    /// True if the model does not see the schema until it asks for the tool.
    pub deferred: bool,
    /// The description.
    pub description: Option<String>,
    /// The location of the whole definition.
    pub place: JsonLocation,
    /// The location of the input's schema.
    pub schema: Option<JsonLocation>,
    /// The cache marker.
    pub marker: Option<Marker>,
    /// The index of the message that adds the tool, if it is not in the list of tools.
    pub message: Option<usize>,
}

/// The party that runs a tool, and the form of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolExecution {
    /// The harness runs it. The input is JSON.
    Function,
    /// The harness runs it. The input is free text.
    Custom,
    /// The provider defines it, and may run it.
    Provider,
}

/// A member of an object: its name and location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name.
    pub name: String,
    /// The location of the value.
    pub place: JsonLocation,
}

impl Setting {
    /// Returns the members of an object whose names are not in `known`.
    pub(crate) fn others(at: &Cursor<'_, '_>, known: &[&str]) -> Vec<Self> {
        let members = at.value.members().filter(|member| !known.contains(&member.name().as_ref()));
        let setting = |member: crate::json::Member<'_, '_>| {
            let name = member.name().into_owned();
            let pointer = format!("{}/{}", at.pointer, escape_token(&name));
            let place = JsonLocation { pointer, span: member.value.span() };
            Self { name, place }
        };
        members.map(setting).collect()
    }
}

/// The names of members that are cache markers: Anthropic's, which routers also accept in other dialects, and
/// OpenAI's.
const MARKERS: &[&str] = &["cache_control", "prompt_cache_breakpoint"];

/// A cache marker: the provider caches the prompt up to the end of the value that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The location of the marker, which is a member of the marked value.
    pub place: JsonLocation,
    /// The lifetime if given, such as `1h`.
    pub ttl: Option<String>,
    /// False if the marker is `null`. It then marks nothing, and is not part of the content either.
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

/// An unknown value in a known position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownValue {
    /// The index of the stream's event, if it was streamed.
    pub frame: Option<usize>,
    /// The JSON pointer.
    pub pointer: String,
    /// A description, such as ``block type `hologram` ``.
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
