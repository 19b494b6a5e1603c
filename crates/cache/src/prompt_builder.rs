//! Splits a request into prompt blocks.

use std::ops::Range;

use session::model::Vendor;
use session::{Block as Said, Role};
use wire::dialect::{Dialect, JsonLocation, Part, PromptMessage, ToolDefinition};
use wire::json::{self, Document, Value};

use crate::digest::{Digest, MarkedBytes, TextForm};
use crate::prompt::{
    CacheKey, CacheMarker, CachePrompt, DeferredTool, Pictures, PromptBlock, PromptBlockKind,
};
use crate::rules::{
    CacheRules, DeferredPlacement, LookupPolicy, ROUTE, StoragePolicy, ThinkingPolicy, UnmarkedPolicy,
};
use crate::section::Section;

/// Size of the pieces of a long block. A cache with token steps can end a prefix in the middle of a block.
const STEP_PIECE: usize = 512;
/// Weight of a picture, which is some hundred to some thousand tokens whatever its size. A document as a file
/// counts the same.
const PICTURE: u64 = 6_400;
/// Weight of encrypted thinking, which is far shorter than its ciphertext.
const SEALED: u64 = 64;

/// Default values of settings, in the form of [`canonical`]. `null` is always a default.
const DEFAULTS: [(&str, &str); 6] = [
    ("/tool_choice", r#"{"type":"auto"}"#),
    ("/tool_choice", r#""auto""#),
    ("/thinking", r#"{"type":"disabled"}"#),
    ("/speed", r#""standard""#),
    ("/response_format", r#"{"type":"text"}"#),
    ("/text/format", r#"{"type":"text"}"#),
];
/// Default value of a member of such a setting.
const DEFAULT_MEMBER: (&str, &str) = ("disable_parallel_tool_use", "false");

impl CachePrompt {
    /// Splits a request into blocks. `document` is the source of `prompt`.
    pub fn of(document: &Document<'_>, prompt: &wire::dialect::Prompt) -> Self {
        split(document, prompt)
    }

    /// Decodes and splits a body; returns `None` if it does not ask a model.
    pub fn read(url: &str, body: &[u8]) -> Option<Self> {
        Self::decode(Dialect::detect(url, body)?, body)
    }

    /// Decodes and splits a body of a known dialect.
    pub fn decode(dialect: Dialect, body: &[u8]) -> Option<Self> {
        let document = Document::parse(body).ok()?;
        let prompt = dialect.decode_document(&document).ok()?;
        Some(Self::of(&document, &prompt))
    }
}

/// Splits a request.
fn split(document: &Document<'_>, prompt: &wire::dialect::Prompt) -> CachePrompt {
    let model = prompt.model.as_deref().unwrap_or_default();
    let rules = CacheRules::of(model, prompt.dialect);
    let body = document.text().as_bytes();
    let bytes = MarkedBytes::new(body, prompt.markers.iter().map(|marker| marker.place.span.clone()));
    let mut building =
        PromptBuilder { rules, bytes, blocks: Vec::new(), behind: Vec::new(), pictures: Pictures::default() };
    let is_aside = |tool: &&ToolDefinition| tool.deferred && rules.deferred == DeferredPlacement::Outside;
    let listed = prompt.tools.iter().filter(|tool| tool.message.is_none());
    let (outside, inside): (Vec<&ToolDefinition>, Vec<&ToolDefinition>) =
        listed.partition(|tool| is_search(tool) || is_aside(tool));
    inside
        .iter()
        .for_each(|tool| building.push(Section::Tools, PromptBlockKind::Other, &[], &tool.place, None, 0));
    prompt.system.iter().for_each(|part| building.part(Section::System, &[], part));
    let dropped = first_kept_thinking(rules, &prompt.messages);
    // Dialects without a field for instructions have them as first messages.
    let is_instruction = |message: &PromptMessage| matches!(message.role, Role::System | Role::Developer);
    let head = prompt.messages.iter().take_while(|message| is_instruction(message)).count();
    for (number, message) in prompt.messages.iter().enumerate() {
        let section = if number < head { Section::System } else { Section::Messages };
        building.message(section, message, number < dropped);
    }
    let (searches, deferred): (Vec<&ToolDefinition>, Vec<&ToolDefinition>) =
        outside.into_iter().partition(|tool| is_search(tool));
    let keys = building.keys(document.root(), prompt, &searches);
    let deferred_blocks = deferred.into_iter().map(|tool| DeferredTool {
        name: tool.name.clone(),
        pointer: tool.place.pointer.clone(),
        digest: Digest::of(&body[tool.place.span.clone()]),
    });
    let deferred_blocks = deferred_blocks.collect();
    let retention = document.root().str_at("prompt_cache_retention");
    let marks = building.marks(document.root(), prompt);
    CachePrompt {
        rules,
        model: model.to_owned(),
        marks,
        marker_count: prompt.markers.iter().filter(|marker| marker.is_set).count(),
        deferred_blocks,
        pictures: building.pictures,
        is_tail: prompt.dialect == Dialect::OpenAiResponses && is_tail(document.root()),
        is_retained: retention.is_some_and(|term| term == "24h"),
        blocks: building.with_chains(&keys),
        keys,
    }
}

/// Returns whether a request refers to messages that the provider stored.
fn is_tail(root: Value<'_, '_>) -> bool {
    let named = ["previous_response_id", "conversation"].iter().filter_map(|name| root.get(name));
    named.into_iter().any(|value| value.raw() != "null")
}

/// Returns the canonical form of a setting, without spaces and with sorted members.
fn canonical(value: Value<'_, '_>) -> String {
    match value.kind() {
        json::ValueKind::Object => {
            let members = value.members().map(|it| (it.name(), canonical(it.value)));
            let said = members.filter(|(name, value)| (name.as_ref(), value.as_str()) != DEFAULT_MEMBER);
            let mut members: Vec<String> =
                said.map(|(name, value)| format!("{}:{value}", json::quote(&name))).collect();
            members.sort_unstable();
            format!("{{{}}}", members.join(","))
        }
        json::ValueKind::Array => format!("[{}]", value.items().map(canonical).collect::<Vec<_>>().join(",")),
        _ => value.as_str().map_or_else(|| value.raw().to_owned(), |text| json::quote(&text)),
    }
}

/// Returns whether the tool is the provider's search, which belongs to the instructions and is no definition.
fn is_search(tool: &ToolDefinition) -> bool {
    tool.kind.starts_with("web_search_2")
}

/// Returns the first message whose thinking is kept: earlier thinking is dropped when the user speaks again.
fn first_kept_thinking(rules: &CacheRules, messages: &[PromptMessage]) -> usize {
    let is_plain = |message: &PromptMessage| {
        let answers = message.parts.iter().any(|part| matches!(part.block, Said::ToolResult(_)));
        message.role == Role::User && !answers
    };
    match rules.thinking {
        ThinkingPolicy::Kept => 0,
        ThinkingPolicy::Dropped => messages.iter().rposition(is_plain).unwrap_or(0),
    }
}

/// Prompt under construction.
struct PromptBuilder<'b> {
    rules: &'static CacheRules,
    bytes: MarkedBytes<'b>,
    blocks: Vec<PromptBlock>,
    /// Ranges of the messages, each with the number of blocks up to its end.
    behind: Vec<(Range<usize>, usize)>,
    pictures: Pictures,
}

impl PromptBuilder<'_> {
    fn message(&mut self, section: Section, message: &PromptMessage, drops_thinking: bool) {
        // The role and other members of a message belong to its first block.
        let mut opening = format!("{:?}", message.role).into_bytes();
        for extra in message.extra.iter().filter(|extra| !self.bytes.is_marker(&extra.place.span)) {
            opening.extend_from_slice(extra.name.as_bytes());
            for piece in self.bytes.pieces(extra.place.span.clone()).collect::<Vec<_>>() {
                opening.extend_from_slice(piece);
            }
        }
        let is_thinking =
            |part: &&Part| matches!(part.block, Said::Thinking { .. } | Said::RedactedThinking { .. });
        let mut seen = message.parts.iter().filter(|part| !(drops_thinking && is_thinking(part))).peekable();
        if message.parts.is_empty() {
            self.push(section, PromptBlockKind::Other, &opening, &message.place, None, 0);
        } else if let Some(first) = seen.next() {
            self.part(section, &opening, first);
            seen.for_each(|part| self.part(section, &[], part));
        }
        self.behind.push((message.place.span.clone(), self.blocks.len()));
    }

    fn part(&mut self, section: Section, opening: &[u8], part: &Part) {
        let kind = match part.block {
            Said::ToolCall(_) => PromptBlockKind::Call,
            Said::ToolResult(_) => PromptBlockKind::Result,
            _ => PromptBlockKind::Other,
        };
        let said = text_form(part);
        let unseen = self.unseen_bytes(part);
        self.push(section, kind, opening, &part.place, said, unseen);
    }

    /// Returns the number of bytes of a part that are no text for the model.
    fn unseen_bytes(&mut self, part: &Part) -> u64 {
        let most = match &part.block {
            Said::Image(_) => PICTURE,
            Said::Document { .. } if self.is_file(part) => PICTURE,
            Said::Thinking { text, .. } => text.len() as u64 + SEALED,
            Said::RedactedThinking { .. } => SEALED,
            _ => return part.parts.iter().map(|inner| self.unseen_bytes(inner)).sum(),
        };
        let sent: u64 = self.bytes.pieces(part.place.span.clone()).map(|piece| piece.len() as u64).sum();
        if matches!(part.block, Said::Image(_) | Said::Document { .. }) {
            self.pictures.sent += sent;
            self.pictures.seen += sent.min(most);
        }
        sent.saturating_sub(most)
    }

    /// Returns whether a document is not text in the request itself.
    fn is_file(&self, part: &Part) -> bool {
        let source = part.content.as_ref().map(|content| &self.bytes.body[content.span.clone()]);
        let source = source.and_then(|source| Document::parse(source).ok());
        let kind = source.as_ref().and_then(|source| source.root().str_at("type"));
        !kind.is_some_and(|kind| kind == "text" || kind == "content")
    }

    fn push(
        &mut self,
        section: Section,
        kind: PromptBlockKind,
        opening: &[u8],
        place: &JsonLocation,
        said: Option<TextForm>,
        unseen: u64,
    ) {
        let in_steps = matches!(self.rules.storage, StoragePolicy::Steps { .. });
        let is_long =
            |said: &&TextForm| in_steps && said.text.len() > STEP_PIECE && said.within == place.span;
        let pieces = match said.as_ref().filter(is_long) {
            // The frame of a long text belongs to its last piece and is nearly always the same.
            Some(said) => split_text(&said.text),
            None => vec![place.span.clone()],
        };
        let last = pieces.len() - 1;
        for (number, span) in pieces.into_iter().enumerate() {
            let mut digest = Digest::new();
            digest.bytes(if number == 0 { opening } else { &[] }).number(number as u64);
            let weight = match number == 0 && last == 0 {
                true => self.bytes.block(&mut digest, span.clone(), said.clone()),
                false => self.bytes.block(&mut digest, span.clone(), None),
            };
            self.blocks.push(PromptBlock {
                section,
                kind,
                pointer: place.pointer.clone(),
                span,
                weight: weight.saturating_sub(unseen),
                digest: digest.finish(),
                chain: 0,
                unrouted: 0,
                position: 0,
            });
        }
    }

    /// Returns the keys outside the blocks.
    fn keys(
        &self,
        root: Value<'_, '_>,
        prompt: &wire::dialect::Prompt,
        searches: &[&ToolDefinition],
    ) -> Vec<CacheKey> {
        let mut keys = Vec::new();
        let mut add = |section, name: &'static str, pointer: &str, span: Range<usize>, said: &[u8]| {
            let digest = Digest::new().number(Digest::of(name.as_bytes())).number(Digest::of(said)).finish();
            keys.push(CacheKey { section, name, pointer: pointer.to_owned(), span, digest });
        };
        for (pointer, section) in self.rules.keys {
            let Some(value) = root.pointer(pointer) else { continue };
            // A default value equals an absent one.
            let said = canonical(value);
            if said != "null" && !DEFAULTS.contains(&(*pointer, said.as_str())) {
                add(*section, pointer, pointer, value.span(), said.as_bytes());
            }
        }
        if self.rules.vendor == Vendor::Anthropic {
            for tool in searches {
                let JsonLocation { pointer, span, .. } = &tool.place;
                add(Section::System, "search", pointer, span.clone(), &self.bytes.body[span.clone()]);
            }
            let parts = || prompt.messages.iter().flat_map(|message| &message.parts);
            let all = || parts().flat_map(|part| std::iter::once(part).chain(&part.parts));
            if let Some(cited) = all().find(|part| self.is_cited(part)) {
                add(Section::System, "citations", &cited.place.pointer, cited.place.span.clone(), b"");
            }
            if let Some(picture) = all().find(|part| matches!(part.block, Said::Image(_))) {
                add(Section::Messages, "pictures", &picture.place.pointer, picture.place.span.clone(), b"");
            }
        }
        keys
    }

    fn is_cited(&self, part: &Part) -> bool {
        let Said::Document { .. } = part.block else { return false };
        let whole = Document::parse(&self.bytes.body[part.place.span.clone()]);
        let enabled = |document: &Document<'_>| document.root().pointer("/citations/enabled")?.as_bool();
        whole.is_ok_and(|document| enabled(&document) == Some(true))
    }

    /// Returns the markers.
    fn marks(&self, root: Value<'_, '_>, prompt: &wire::dialect::Prompt) -> Vec<CacheMarker> {
        let mut by_start: Vec<(usize, usize)> =
            self.blocks.iter().enumerate().map(|(index, block)| (block.span.start, index)).collect();
        by_start.sort_unstable();
        let block_at = |at: usize| {
            let found = by_start[..by_start.partition_point(|(start, _)| *start <= at)].last()?.1;
            self.blocks[found].span.contains(&at).then_some(found)
        };
        let message_at = |at: usize| {
            let message = self.behind.partition_point(|(span, _)| span.end <= at);
            let (span, blocks) = self.behind.get(message)?;
            span.contains(&at).then(|| blocks.checked_sub(1)).flatten()
        };
        let last = self.blocks.len().checked_sub(1);
        let mut marks: Vec<CacheMarker> = Vec::new();
        for marker in prompt.markers.iter().filter(|marker| marker.is_set) {
            let at = marker.place.span.start;
            // A marker at the top level belongs to the last block.
            let at_top = || last.filter(|_| marker.place.pointer.matches('/').count() == 1);
            let Some(block) = block_at(at).or_else(|| message_at(at)).or_else(at_top) else { continue };
            let is_long = marker.ttl.as_deref() == Some("1h");
            marks.push(CacheMarker { block, is_long, pointer: Some(marker.place.pointer.clone()) });
        }
        if let StoragePolicy::Marked { unmarked: UnmarkedPolicy::Implicit, .. } = self.rules.storage {
            let mode = root.pointer("/prompt_cache_options/mode").and_then(|mode| mode.as_str());
            if mode.is_none_or(|mode| mode != "explicit") {
                let ends = self.behind.iter().filter_map(|(_, blocks)| blocks.checked_sub(1));
                marks.extend(ends.map(|block| CacheMarker { block, is_long: false, pointer: None }));
            }
        }
        marks.sort_by_key(|mark| (mark.block, mark.pointer.is_none(), !mark.is_long));
        marks.dedup_by_key(|mark| mark.block);
        marks
    }

    /// Sets the chain digests of the blocks.
    fn with_chains(mut self, keys: &[CacheKey]) -> Vec<PromptBlock> {
        let runs_are_one = match self.rules.storage {
            StoragePolicy::Marked { reads: LookupPolicy::LookBack { runs_are_one, .. }, .. } => runs_are_one,
            _ => false,
        };
        let is_route = |key: &CacheKey| key.name == ROUTE;
        let is_routed = keys.iter().any(is_route);
        let (mut chain, mut unrouted) = (0, 0);
        let mut sections = Section::ALL.iter().peekable();
        let mut before: Option<(Section, PromptBlockKind)> = None;
        let mut position = 0;
        for block in &mut self.blocks {
            while let Some(section) = sections.next_if(|section| **section <= block.section) {
                let opened = |chain: u64, counts: &dyn Fn(&CacheKey) -> bool| {
                    let mut digest = Digest::new();
                    digest.number(chain).number(*section as u64);
                    for key in keys.iter().filter(|key| key.section == *section && counts(key)) {
                        digest.number(key.digest);
                    }
                    digest.finish()
                };
                (chain, unrouted) = (opened(chain, &|_| true), opened(unrouted, &|key| !is_route(key)));
            }
            let behind = |chain: u64| Digest::new().number(chain).number(block.digest).finish();
            chain = behind(chain);
            unrouted = if is_routed { behind(unrouted) } else { chain };
            (block.chain, block.unrouted) = (chain, unrouted);
            let here = (block.section, block.kind);
            let in_run = runs_are_one && block.kind != PromptBlockKind::Other && before == Some(here);
            position += usize::from(before.is_some() && !in_run);
            block.position = position;
            before = Some(here);
        }
        self.blocks
    }
}

/// Returns the text of a part that contains nothing else: a text, or the only text of a tool's result.
fn text_form(part: &Part) -> Option<TextForm> {
    let span = |part: &Part| part.content.as_ref().map(|content| content.span.clone());
    match (&part.block, part.parts.as_slice()) {
        (Said::Text { .. }, _) => Some(TextForm { text: span(part)?, within: part.place.span.clone() }),
        (Said::ToolResult(_), [only]) if matches!(only.block, Said::Text { .. }) => {
            Some(TextForm { text: span(only)?, within: span(part)? })
        }
        _ => None,
    }
}

/// Splits a long text into pieces of bytes. Cuts within characters are harmless, because pieces are only
/// compared.
fn split_text(said: &Range<usize>) -> Vec<Range<usize>> {
    let starts = (said.start..said.end).step_by(STEP_PIECE);
    starts.map(|start| start..(start + STEP_PIECE).min(said.end)).collect()
}
