//! Units of a body.

use std::hash::Hash;
use std::sync::Arc;

use recording::source::SourceRequest;
use session::{Block, Role};
use wire::dialect::{Dialect, JsonLocation, Marker, Part, Prompt, PromptMessage, ToolDefinition};
use wire::json::Document;

use super::head::head_units;
use super::projector::Projector;
use super::reminder::AttachedReminders;
use super::unit::{
    Attachment, JsonPart, MessageFacts, OwnedMarker, RequestUnits, TextBlock, Unit, UnitKind, UnitPool,
    digest, number_duplicates, stamp,
};

/// Members of the body whose content is projected by itself.
const CONTENT: &[&str] = &["system", "instructions", "messages", "input", "tools"];

/// Members of the body that identify the caller.
const IDENTITY: &[&str] = &[
    "metadata",
    "prompt_cache_key",
    "previous_response_id",
    "safety_identifier",
    "user",
    "session_id",
    "conversation",
];

/// Projects a request. A body of an unknown dialect becomes one setting.
pub(super) fn project(asked: &SourceRequest, pool: &mut UnitPool) -> RequestUnits {
    let body = String::from_utf8_lossy(asked.body.bytes.as_deref().unwrap_or_default());
    let document = Document::parse(body.as_bytes());
    let dialect = document.as_ref().ok().and_then(|_| Dialect::detect(&asked.url, body.as_bytes()));
    let prompt = document.as_ref().ok().zip(dialect);
    let prompt = prompt.and_then(|(document, dialect)| dialect.decode_document(document).ok());
    if let (Ok(document), Some(prompt)) = (&document, &prompt) {
        return project_prompt(asked, document, prompt, pool);
    }
    let mut projector = Projector::new(pool, &body);
    let mut named = head_units(&mut projector, &asked.method, &asked.url, &asked.headers);
    match document {
        Ok(_) => named.push(projector.inside(UnitKind::Setting, "body", "", 0..body.len())),
        Err(_) if body.is_empty() => {}
        Err(_) => {
            named.push(projector.outside(UnitKind::Setting, "body", "", &wire::json::quote(&body)));
        }
    }
    number_duplicates(&mut named);
    let (body_digest, frame_digest) = projector.digests();
    RequestUnits { body_digest, frame_digest, named, ordered: Vec::new() }
}

/// Projects a request that has been decoded already.
pub(super) fn project_prompt(
    asked: &SourceRequest,
    document: &Document<'_>,
    prompt: &Prompt,
    pool: &mut UnitPool,
) -> RequestUnits {
    let mut projector = Projector::new(pool, document.text());
    let mut named = head_units(&mut projector, &asked.method, &asked.url, &asked.headers);
    let ordered = body_units(&mut projector, document, prompt, &mut named);
    let (body_digest, frame_digest) = projector.digests();
    RequestUnits { body_digest, frame_digest, named, ordered }
}

/// Returns the body of a request with a hole in place of each unit.
pub(super) fn frame_of(asked: &SourceRequest) -> Option<String> {
    let body = String::from_utf8_lossy(asked.body.bytes.as_deref()?);
    let document = Document::parse(body.as_bytes()).ok()?;
    let prompt = Dialect::detect(&asked.url, body.as_bytes())?.decode_document(&document).ok()?;
    let mut pool = UnitPool::default();
    let mut projector = Projector::new(&mut pool, &body);
    body_units(&mut projector, &document, &prompt, &mut Vec::new());
    Some(projector.frame())
}

/// Adds the named units of the body to `named`, and returns the ordered ones.
fn body_units(
    projector: &mut Projector<'_>,
    document: &Document<'_>,
    prompt: &Prompt,
    named: &mut Vec<Arc<Unit>>,
) -> Vec<Arc<Unit>> {
    named.extend(tool_units(projector, prompt));
    named.extend(setting_units(projector, prompt, document));
    number_duplicates(named);
    let mut ordered = system_units(projector, prompt);
    ordered.extend(message_units(projector, prompt, document));
    ordered
}

fn tool_units(projector: &mut Projector<'_>, prompt: &Prompt) -> Vec<Arc<Unit>> {
    // Tools inside of messages belong to their messages.
    let listed = prompt.tools.iter().filter(|tool| tool.message.is_none());
    let unit = |tool: &ToolDefinition| {
        let place = &tool.place;
        let markers: Vec<_> = tool.marker.iter().map(|marker| (marker, &place.span)).collect();
        projector.unit((UnitKind::Tool, &tool.name), &place.pointer, place.span.clone(), |body| {
            Unit::without_markers(UnitKind::Tool, &tool.name, place, &markers, body)
        })
    };
    listed.map(unit).collect()
}

fn setting_units(projector: &mut Projector<'_>, prompt: &Prompt, document: &Document<'_>) -> Vec<Arc<Unit>> {
    let mut units = Vec::new();
    for member in document.root().members() {
        let name = member.name();
        if CONTENT.contains(&name.as_ref()) && !member.value.is_null() {
            continue;
        }
        let kind = match name.as_ref() {
            "model" => UnitKind::Model,
            name if IDENTITY.contains(&name) => UnitKind::Identity,
            _ => UnitKind::Setting,
        };
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        units.push(projector.inside(kind, &name, &pointer, member.value.span()));
    }
    // The other members of a model's message are compared with the message.
    for message in prompt.messages.iter().filter(|message| message.role != Role::Assistant) {
        for extra in message.extra.iter().filter(|_| !is_one_part(message)) {
            let (pointer, span) = (&extra.place.pointer, extra.place.span.clone());
            units.push(projector.inside(UnitKind::Setting, pointer, pointer, span));
        }
    }
    units
}

fn system_units(projector: &mut Projector<'_>, prompt: &Prompt) -> Vec<Arc<Unit>> {
    let unit = |part: &Part| {
        let new = |body: &str| Unit { kind: UnitKind::System, ..text_unit(part, body) };
        let by = (UnitKind::System, decoded_facts(part));
        projector.unit(by, &part.place.pointer, part.place.span.clone(), new)
    };
    prompt.system.iter().map(unit).collect()
}

fn message_units(projector: &mut Projector<'_>, prompt: &Prompt, document: &Document<'_>) -> Vec<Arc<Unit>> {
    let mut units = Vec::new();
    // Each message of the prompt is an item of the list. A string in place of the list has no role.
    let list = ["messages", "input"].iter().find_map(|name| document.root().get(name));
    let mut items = list.iter().flat_map(|list| list.items());
    let mut follows_reply = false;
    for message in &prompt.messages {
        let item = items.next();
        follows_reply |= message.role == Role::Assistant;
        let frame = item.filter(|_| !is_one_part(message) && !message.parts.is_empty());
        let written_role = frame.and_then(|item| item.get("role")).map(|role| {
            projector.spans.push((role.span(), digest(role.raw())));
            role.as_str().unwrap_or_else(|| role.raw().into()).into_owned()
        });
        let message_extra = frame.and_then(|_| message_extra(projector, message));
        let is_result = |at: usize| message.parts.get(at).is_some_and(|part| result_of(part).is_some());
        let mut reminders = Vec::new();
        for (at, part) in message.parts.iter().enumerate() {
            let (is_first, role) = (at == 0, message.role);
            let extra = message_extra.as_ref().filter(|_| is_first);
            let around = stamp((&written_role, extra.map(|extra| &extra.json)), "", "");
            let new = |body: &str| {
                let unit = message_unit(part, role, body);
                // With another role, or in another message, it is another unit.
                let opens = is_first && unit.kind != UnitKind::Result;
                let hash = unit.hash.rotate_left(role as u32 + 1) ^ u64::from(opens) ^ around;
                let message = MessageFacts {
                    role: Some(role),
                    written_role: written_role.clone(),
                    extra: extra.cloned(),
                    is_first,
                    follows_reply,
                };
                Unit { hash, message, ..unit }
            };
            let by = (role as u32, is_first, follows_reply, around, decoded_facts(part));
            units.push(projector.unit(by, &part.place.pointer, part.place.span.clone(), new));
            let is_last = !is_result(at + 1);
            reminders.extend(reminder_units(projector, part, (role, follows_reply), is_last));
            if is_last {
                units.append(&mut reminders);
            }
        }
    }
    units
}

/// Returns the call that a part answers.
fn result_of(part: &Part) -> Option<&session::CallId> {
    match &part.block {
        Block::ToolResult(result) if !result.server => Some(&result.call),
        _ => None,
    }
}

/// Returns the reminders that are attached to a result, which follow the results of their message.
fn reminder_units(
    projector: &mut Projector<'_>,
    part: &Part,
    (role, follows_reply): (Role, bool),
    is_last: bool,
) -> Vec<Arc<Unit>> {
    let Some(call) = result_of(part) else { return Vec::new() };
    let attachment = Attachment { call: call.as_str().to_owned(), is_last };
    let found = AttachedReminders::find(part, projector.body).reminders;
    let unit = |(pointer, text): (&str, &str)| {
        let json = format!("\"{text}\"");
        let by = (UnitKind::Text, "reminder", role as u32, follows_reply, &attachment);
        projector.cut_out(by, pointer, &json, || Unit {
            message: MessageFacts { role: Some(role), follows_reply, ..MessageFacts::default() },
            attachment: Some(attachment.clone()),
            ..Unit::new(UnitKind::Text, "reminder", pointer, &json)
        })
    };
    found.into_iter().map(unit).collect()
}

/// Returns whether a message is the same JSON value as one of its parts.
fn is_one_part(message: &PromptMessage) -> bool {
    message.parts.iter().any(|part| part.place.span == message.place.span)
}

/// Returns the members of a model's message besides role and content, as one object. A cache marker there stays in the
/// frame, because it moves from turn to turn.
fn message_extra(projector: &mut Projector<'_>, message: &PromptMessage) -> Option<JsonPart> {
    let of_model = message.role == Role::Assistant;
    let is_marker = |name: &str| name.starts_with("cache_") || name.starts_with("prompt_cache_");
    let extra: Vec<_> = message.extra.iter().filter(|extra| of_model && !is_marker(&extra.name)).collect();
    let mut members = Vec::new();
    for extra in extra {
        let raw = &projector.body[extra.place.span.clone()];
        members.push(format!("{}:{raw}", wire::json::quote(&extra.name)));
        projector.spans.push((extra.place.span.clone(), digest(raw)));
    }
    let json = format!("{{{}}}", members.join(","));
    (!members.is_empty()).then(|| JsonPart { pointer: message.place.pointer.clone(), json })
}

/// Returns the decoded facts of a part that its own bytes do not determine. The id of a call may be outside of them.
fn decoded_facts(part: &Part) -> impl Hash {
    let inside = |place: &JsonLocation| {
        let start = part.place.span.start;
        (place.span.start.wrapping_sub(start), place.span.end.wrapping_sub(start))
    };
    let call = match &part.block {
        Block::ToolCall(call) => Some((call.id.as_str(), call.name.as_str(), call.server)),
        Block::ToolResult(result) => Some((result.call.as_str(), "", result.server)),
        _ => None,
    };
    let is_text = matches!(part.block, Block::Text { .. });
    let marker = part.marker.as_ref().map(|marker| inside(&marker.place));
    (part.kind.as_str(), call, is_text, part.content.as_ref().map(inside), marker)
}

fn message_unit(part: &Part, role: Role, body: &str) -> Unit {
    let unit =
        |kind: UnitKind, key: &str| Unit::without_markers(kind, key, &part.place, &markers(part), body);
    match &part.block {
        Block::ToolCall(call) if !call.server => {
            Unit { call: Some(call.id.as_str().to_owned()), ..unit(UnitKind::Call, &call.name) }
        }
        Block::ToolResult(result) if !result.server => {
            let mut unit =
                Unit { call: Some(result.call.as_str().to_owned()), ..unit(UnitKind::Result, &part.kind) };
            AttachedReminders::find(part, body).cut_from(&mut unit);
            unit
        }
        _ if role == Role::Assistant => unit(UnitKind::Reply, &part.kind),
        _ => text_unit(part, body),
    }
}

/// Returns the unit of content for the model. A bare string and a block that holds nothing else have the same digest,
/// because harnesses turn one into the other from turn to turn.
fn text_unit(part: &Part, body: &str) -> Unit {
    const FRAME: usize = r#"{"type":"text","text":}"#.len();
    const OPENAI_FRAME: usize = r#"{"type":"input_text","text":}"#.len();
    let (place, is_text) = (&part.place, matches!(part.block, Block::Text { .. }));
    let key = if is_text { "text" } else { part.kind.as_str() };
    let unit = Unit::without_markers(UnitKind::Text, key, place, &markers(part), body);
    let Some(content) = part.content.as_ref().filter(|_| is_text) else { return unit };
    let inside = &body[content.span.clone()];
    let is_bare = content.span == place.span;
    let frame = unit.json.len() - inside.len();
    if !is_bare && frame != FRAME && frame != OPENAI_FRAME {
        return unit;
    }
    // The cut-out marker may have been before the text or after it.
    let is_after = |marker: &&Marker| marker.place.span.start > content.span.start;
    let at = match part.marker.as_ref().filter(|marker| !is_after(marker)) {
        Some(_) => unit.json.len() - (place.span.end - content.span.start),
        None => content.span.start - place.span.start,
    };
    let block = (!is_bare).then(|| TextBlock {
        pointer: unit.pointer.clone(),
        before: unit.json[..at].to_owned(),
        after: unit.json[at + inside.len()..].to_owned(),
    });
    Unit { marker: unit.marker, is_bare, block, ..Unit::new(UnitKind::Text, key, &content.pointer, inside) }
}

/// Returns the markers of a part and of its inner parts, in order.
fn markers(part: &Part) -> Vec<OwnedMarker<'_>> {
    let parts = std::iter::once(part).chain(&part.parts);
    parts.filter_map(|part| Some((part.marker.as_ref()?, &part.place.span))).collect()
}
