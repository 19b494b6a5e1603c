//! Exchanges from the log of a recording.

use std::time::Duration;

use session::RequestId;
use wire::Body;

use super::{Answered, Asked, Content, Event, Happened, Moment, Named};
use crate::folder;
use crate::hints::Hints;
use crate::log::StoredBody;
use crate::open::{OpenError, Recording};
use crate::time::{iso, parse};

/// What happened, in the log's own order. A response has ended when its last byte was read: the
/// harness may go on from there, before the connection says that nothing follows.
pub(super) fn events(recording: &Recording) -> Vec<Event> {
    let mut events = Vec::new();
    for (n, entry) in recording.entries().iter().enumerate() {
        events.push((entry.arrived.seq, Event::Asked(n)));
        if let Some(ended) = &entry.ended {
            let last = ended.reads.last().map_or(ended.seq, |read| read.seq);
            events.push((last.max(entry.arrived.seq), Event::Ended(n)));
        }
    }
    events.sort_by_key(|(seq, event)| (*seq, matches!(event, Event::Ended(_))));
    events.into_iter().map(|(_, event)| event).collect()
}

/// Everything that happened, in the log's own order.
pub(super) fn timeline(recording: &Recording) -> Vec<Moment> {
    let mut moments = Vec::new();
    for (n, entry) in recording.entries().iter().enumerate() {
        moments.push((entry.arrived.seq, Moment { us: entry.arrived.us, what: Happened::Asked(n) }));
        let Some(ended) = &entry.ended else { continue };
        for read in &ended.reads {
            let what = Happened::Read { exchange: n, offset: read.offset };
            moments.push((read.seq, Moment { us: read.us, what }));
        }
        moments.push((ended.seq, Moment { us: ended.us, what: Happened::Ended(n) }));
    }
    moments.sort_by_key(|(seq, _)| *seq);
    moments.into_iter().map(|(_, moment)| moment).collect()
}

pub(super) fn asked(recording: &Recording, n: usize) -> Result<Asked, OpenError> {
    let entry = &recording.entries()[n];
    let arrived = &entry.arrived;
    let body = match &entry.asked {
        Some(asked) => content(recording, &asked.body, &folder::request_dump(&asked.id), &arrived.headers)?,
        None => Content::stored(None, &[], true, None),
    };
    let hints = Hints::of(&arrived.url, &arrived.headers, &[]);
    Ok(Asked {
        id: RequestId::new(arrived.id.clone()),
        timestamp: time(recording, arrived.us),
        method: arrived.method.clone(),
        url: arrived.url.clone(),
        headers: arrived.headers.clone(),
        named: Named {
            session: hints.session,
            agent: hints.agent,
            message: hints.message,
            workspace: recording.manifest().and_then(|manifest| Some(manifest.command.as_ref()?.cwd.clone())),
        },
        body,
    })
}

pub(super) fn answered(recording: &Recording, n: usize) -> Result<Option<Answered>, OpenError> {
    let entry = &recording.entries()[n];
    let (answered, ended) = (entry.answered.as_ref(), entry.ended.as_ref());
    if answered.is_none() && ended.is_none() {
        return Ok(None);
    }
    let headers = answered.map_or_else(Vec::new, |answered| answered.headers.clone());
    let since = |us: u64| us.saturating_sub(entry.arrived.us);
    let body = match ended {
        Some(ended) => content(recording, &ended.body, &folder::response_dump(&ended.id), &headers)?,
        None => Content::stored(None, &[], true, None),
    };
    Ok(Some(Answered {
        timestamp: answered
            .map(|answered| answered.us)
            .or(ended.map(|ended| ended.us))
            .and_then(|us| time(recording, us)),
        status: answered.map(|answered| answered.status),
        headers,
        ending: ended.map(|ended| ended.ending),
        error: ended.and_then(|ended| ended.error.clone()),
        first_byte_us: ended.and_then(|ended| ended.reads.first()).map(|read| since(read.us)),
        end_us: ended.map(|ended| since(ended.us)),
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
