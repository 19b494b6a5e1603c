//! Units and the pool that shares them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Range;
use std::sync::Arc;

use session::Role;
use wire::dialect::{JsonLocation, Marker};

/// Kind of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::verify) enum UnitKind {
    /// Block of the instructions outside the messages.
    System,
    /// Content for the model: text, picture, document.
    Text,
    /// Content of the model that the harness carries back.
    Reply,
    /// Tool call that the harness carries back.
    Call,
    /// Result of a tool.
    Result,
    /// Definition of a tool.
    Tool,
    /// Name of the model.
    Model,
    /// Any other member of the body, or of a message.
    Setting,
    /// Header, or the query of the address.
    Header,
    /// Method, host or path of the request.
    RequestLine,
    /// Id of a session, an agent or a conversation.
    Identity,
}

/// The smallest thing that is compared.
#[derive(Clone, Debug)]
pub(in crate::verify) struct Unit {
    pub(in crate::verify) kind: UnitKind,
    /// The name of a tool, header or member, or the type of a block. Units are aligned by it.
    pub(in crate::verify) key: String,
    /// JSON pointer into the body, or a pseudo pointer such as `header:NAME`.
    pub(in crate::verify) pointer: String,
    pub(in crate::verify) in_body: bool,
    /// Its JSON text without its cache marker.
    pub(in crate::verify) json: String,
    /// Digest of the text, its role and its place in the message. It does not depend on how the text is wrapped.
    pub(in crate::verify) hash: u64,
    pub(in crate::verify) marker: Option<JsonPart>,
    pub(in crate::verify) message: MessageFacts,
    /// Id of the call that the unit makes or answers.
    pub(in crate::verify) call: Option<String>,
    /// The result that a reminder is attached to.
    pub(in crate::verify) attachment: Option<Attachment>,
    /// True if it is a text that is a bare string instead of a block.
    pub(in crate::verify) is_bare: bool,
    /// The block around a text that is compared without it.
    pub(super) block: Option<TextBlock>,
}

/// The place of a reminder: the call whose result carries it, and whether that is the last result of its message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::verify) struct Attachment {
    pub(in crate::verify) call: String,
    pub(in crate::verify) is_last: bool,
}

/// Facts about the message of a unit.
#[derive(Clone, Debug, Default)]
pub(in crate::verify) struct MessageFacts {
    pub(in crate::verify) role: Option<Role>,
    /// The role as the body spells it, which may be one that we do not know.
    pub(in crate::verify) written_role: Option<String>,
    /// Other members of a model's message, as one object. Only the first unit of the message has them.
    pub(in crate::verify) extra: Option<JsonPart>,
    /// True if the unit is the first of its message.
    pub(in crate::verify) is_first: bool,
    /// True if a message of the model precedes it.
    pub(in crate::verify) follows_reply: bool,
}

/// JSON that is compared apart from its unit, such as a cache marker.
#[derive(Clone, Debug)]
pub(in crate::verify) struct JsonPart {
    pub(in crate::verify) pointer: String,
    pub(in crate::verify) json: String,
}

/// The JSON before and after a text in its block.
#[derive(Clone, Debug)]
pub(super) struct TextBlock {
    pub(super) pointer: String,
    pub(super) before: String,
    pub(super) after: String,
}

/// A request as units. It shares its units with other requests of the recording, because a lane repeats its history
/// in each request.
#[derive(Clone, Debug)]
pub(in crate::verify) struct RequestUnits {
    /// Digest of the whole body.
    pub(in crate::verify) body_digest: u64,
    /// Digest of the bytes around the units.
    pub(in crate::verify) frame_digest: u64,
    /// Tools, settings and headers. They are aligned by name.
    pub(in crate::verify) named: Vec<Arc<Unit>>,
    /// Instructions and messages. They are aligned in order.
    pub(in crate::verify) ordered: Vec<Arc<Unit>>,
}

/// The units of a recording. Most occur in many requests and are kept once.
#[derive(Debug, Default)]
pub(super) struct UnitPool {
    units: HashMap<u64, Arc<Unit>>,
}

impl UnitPool {
    /// Returns the unit with this stamp, or adds a new one.
    pub(super) fn get(&mut self, stamp: u64, new: impl FnOnce() -> Unit) -> Arc<Unit> {
        Arc::clone(self.units.entry(stamp).or_insert_with(|| Arc::new(new())))
    }
}

/// A cache marker and the span of its owner.
pub(super) type OwnedMarker<'p> = (&'p Marker, &'p Range<usize>);

impl Unit {
    pub(super) fn new(kind: UnitKind, key: impl Into<String>, pointer: &str, json: &str) -> Self {
        Self {
            kind,
            key: key.into(),
            pointer: pointer.to_owned(),
            in_body: true,
            hash: digest(json),
            json: json.to_owned(),
            marker: None,
            message: MessageFacts::default(),
            call: None,
            attachment: None,
            is_bare: false,
            block: None,
        }
    }

    /// Returns a unit without its cache markers, which may also be inside of its parts.
    pub(super) fn without_markers(
        kind: UnitKind,
        key: impl Into<String>,
        place: &JsonLocation,
        markers: &[OwnedMarker<'_>],
        body: &str,
    ) -> Self {
        let span = &place.span;
        let mut json = body[span.clone()].to_owned();
        let mut holes: Vec<_> =
            markers.iter().map(|(marker, owner)| member_around(body, &marker.place.span, owner)).collect();
        holes.sort_unstable_by_key(|hole| std::cmp::Reverse(hole.start));
        for hole in holes {
            json.replace_range(hole.start - span.start..hole.end - span.start, "");
        }
        // A marker inside of a part is compared with its place, because another place is another marker.
        let described = |(marker, owner): &OwnedMarker<'_>| match *owner == span {
            true => body[marker.place.span.clone()].to_owned(),
            false => {
                let inside = marker.place.pointer.strip_prefix(&place.pointer).unwrap_or_default();
                format!("{inside} {}", &body[marker.place.span.clone()])
            }
        };
        let marker = markers.first().map(|(first, _)| JsonPart {
            pointer: first.place.pointer.clone(),
            json: markers.iter().map(described).collect::<Vec<_>>().join(", "),
        });
        Self { marker, ..Self::new(kind, key, &place.pointer, &json) }
    }

    /// Returns the text with its block, if it is compared without it.
    pub(in crate::verify) fn with_block(&self) -> Self {
        let Some(TextBlock { pointer, before, after }) = &self.block else { return self.clone() };
        let json = format!("{before}{}{after}", self.json);
        Self { pointer: pointer.clone(), json, block: None, ..self.clone() }
    }

    /// Returns whether it is a text that is compared without its block.
    pub(in crate::verify) fn is_narrow(&self) -> bool {
        self.block.is_some()
    }
}

/// Numbers the units that share a name, so that each is aligned with its counterpart.
pub(super) fn number_duplicates(units: &mut [Arc<Unit>]) {
    let mut seen = HashMap::<(UnitKind, String), usize>::new();
    for unit in units {
        let count = seen.entry((unit.kind, unit.key.clone())).or_default();
        *count += 1;
        if *count > 1 {
            let key = format!("{} ({count})", unit.key);
            Arc::make_mut(unit).key = key;
        }
    }
}

pub(super) fn digest(json: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(json.as_bytes());
    hasher.finish()
}

/// Returns the digest of everything that a unit is made from.
pub(super) fn stamp(by: impl Hash, pointer: &str, raw: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    by.hash(&mut hasher);
    pointer.hash(&mut hasher);
    hasher.write(raw.as_bytes());
    hasher.finish()
}

/// Returns the span of a member with its key and one comma, so that the object without it is still valid.
fn member_around(body: &str, value: &Range<usize>, owner: &Range<usize>) -> Range<usize> {
    let before = &body[owner.start..value.start];
    let key = before.rfind(':').and_then(|colon| {
        let close = before[..colon].rfind('"')?;
        before[..close].rfind('"')
    });
    let start = owner.start + key.unwrap_or(before.len());
    let ahead = body[owner.start..start].trim_end();
    if ahead.ends_with(',') {
        return owner.start + ahead.len() - 1..value.end;
    }
    let after = &body[value.end..owner.end];
    let comma = after.len() - after.trim_start().len();
    match after.trim_start().starts_with(',') {
        true => start..value.end + comma + 1,
        false => start..value.end,
    }
}
