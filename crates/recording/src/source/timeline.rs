//! Timeline of all events on the wire.

use super::{Exchanges, Source, SourceEvent};
use crate::open::Recording;

/// Entry of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineEntry {
    /// Microseconds since the recording began; 0 if unknown.
    pub us: u64,
    /// Event.
    pub event: TimelineEvent,
}

/// Event on the wire. Exchanges are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineEvent {
    /// A request arrived.
    RequestArrived(usize),
    /// Bytes of a response were read.
    ResponseRead {
        /// Exchange.
        exchange: usize,
        /// Offset of the bytes in the stored body.
        offset: u64,
    },
    /// A response ended.
    ResponseEnded(usize),
}

impl From<SourceEvent> for TimelineEvent {
    fn from(event: SourceEvent) -> Self {
        match event {
            SourceEvent::Request(n) => Self::RequestArrived(n),
            SourceEvent::ResponseEnd(n) => Self::ResponseEnded(n),
        }
    }
}

impl Source {
    /// Returns all events in order. Plain dumps have no reads.
    pub fn timeline(&self) -> Vec<TimelineEntry> {
        match &self.exchanges {
            Exchanges::Log(recording) => in_log_order(recording),
            Exchanges::Dumps(dumps) => {
                let timed = dumps.timed();
                let first = timed.first().map_or(0, |(time, _)| *time);
                let moment = |(time, event): (i128, SourceEvent)| TimelineEntry {
                    us: u64::try_from(time - first).unwrap_or_default(),
                    event: event.into(),
                };
                timed.into_iter().map(moment).collect()
            }
            Exchanges::Session(session) => {
                let moment = |event| TimelineEntry { us: 0, event };
                session.events().into_iter().map(|event| moment(event.into())).collect()
            }
        }
    }
}

/// Returns the timeline in the order of the log.
fn in_log_order(recording: &Recording) -> Vec<TimelineEntry> {
    let mut moments = Vec::new();
    for (n, entry) in recording.entries().iter().enumerate() {
        moments.push((
            entry.request_head.seq,
            TimelineEntry { us: entry.request_head.us, event: TimelineEvent::RequestArrived(n) },
        ));
        let Some(exchange_end) = &entry.exchange_end else { continue };
        for read in &exchange_end.reads {
            let event = TimelineEvent::ResponseRead { exchange: n, offset: read.offset };
            moments.push((read.seq, TimelineEntry { us: read.us, event }));
        }
        moments.push((
            exchange_end.seq,
            TimelineEntry { us: exchange_end.us, event: TimelineEvent::ResponseEnded(n) },
        ));
    }
    moments.sort_by_key(|(seq, _)| *seq);
    moments.into_iter().map(|(_, moment)| moment).collect()
}
