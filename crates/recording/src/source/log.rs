//! Exchanges from the log of a recording.

use std::time::Duration;

use session::RequestId;
use wire::Body;

use super::{Content, SenderIds, SourceEvent, SourceRequest, SourceResponse};
use crate::error::OpenError;
use crate::file_names;
use crate::hints::Hints;
use crate::log::StoredBody;
use crate::open::Recording;
use crate::time::{iso, parse};

/// Returns the events in the order of the log. A response ends with its last byte, because the harness may
/// continue then, before the connection reports the end.
pub(super) fn events(recording: &Recording) -> Vec<SourceEvent> {
    let mut events = Vec::new();
    for (n, entry) in recording.entries().iter().enumerate() {
        events.push((entry.request_head.seq, SourceEvent::Request(n)));
        if let Some(exchange_end) = &entry.exchange_end {
            let last = exchange_end.reads.last().map_or(exchange_end.seq, |read| read.seq);
            events.push((last.max(entry.request_head.seq), SourceEvent::ResponseEnd(n)));
        }
    }
    events.sort_by_key(|(seq, event)| (*seq, matches!(event, SourceEvent::ResponseEnd(_))));
    events.into_iter().map(|(_, event)| event).collect()
}

pub(super) fn request(recording: &Recording, n: usize) -> Result<SourceRequest, OpenError> {
    let entry = &recording.entries()[n];
    let request_head = &entry.request_head;
    let body = match &entry.request_body {
        Some(request_body) => content(
            recording,
            &request_body.body,
            &file_names::request_dump(&request_body.id),
            &request_head.headers,
        )?,
        None => Content::stored(None, &[], true, None),
    };
    let manifest = recording.manifest();
    let session_header = manifest.and_then(|manifest| manifest.session_header.as_deref());
    let hints = Hints::of(&request_head.url, &request_head.headers, &[], session_header);
    Ok(SourceRequest {
        id: RequestId::new(request_head.id.clone()),
        timestamp: time(recording, request_head.us),
        method: request_head.method.clone(),
        url: request_head.url.clone(),
        headers: request_head.headers.clone(),
        sender: SenderIds {
            session: hints.session,
            agent: hints.agent,
            message: hints.message,
            workspace: recording.manifest().and_then(|manifest| Some(manifest.command.as_ref()?.cwd.clone())),
        },
        body,
    })
}

pub(super) fn response(recording: &Recording, n: usize) -> Result<Option<SourceResponse>, OpenError> {
    let entry = &recording.entries()[n];
    let (response_head, exchange_end) = (entry.response_head.as_ref(), entry.exchange_end.as_ref());
    if response_head.is_none() && exchange_end.is_none() {
        return Ok(None);
    }
    let headers = response_head.map_or_else(Vec::new, |response_head| response_head.headers.clone());
    let since = |us: u64| us.saturating_sub(entry.request_head.us);
    let body = match exchange_end {
        Some(exchange_end) => {
            content(recording, &exchange_end.body, &file_names::response_dump(&exchange_end.id), &headers)?
        }
        None => Content::stored(None, &[], true, None),
    };
    Ok(Some(SourceResponse {
        timestamp: response_head
            .map(|response_head| response_head.us)
            .or(exchange_end.map(|exchange_end| exchange_end.us))
            .and_then(|us| time(recording, us)),
        status: response_head.map(|response_head| response_head.status),
        headers,
        ending: exchange_end.map(|exchange_end| exchange_end.ending),
        error: exchange_end.and_then(|exchange_end| exchange_end.error.clone()),
        first_byte_us: exchange_end
            .and_then(|exchange_end| exchange_end.reads.first())
            .map(|read| since(read.us)),
        end_us: exchange_end.map(|exchange_end| since(exchange_end.us)),
        body,
    }))
}

fn content(
    recording: &Recording,
    stored: &StoredBody,
    dump: &str,
    headers: &[wire::Header],
) -> Result<Content, OpenError> {
    let body = recording.body(stored, dump)?;
    let bytes = match body {
        Body::Inline(bytes) => Some(bytes),
        other => recording.bytes_of(&other)?,
    };
    Ok(Content::stored(bytes, headers, stored.decoded_from.is_some(), Some(stored.sha256.clone())))
}

fn time(recording: &Recording, us: u64) -> Option<String> {
    let started = parse(&recording.manifest()?.started_at)?;
    Some(iso(started + Duration::from_micros(us)))
}
