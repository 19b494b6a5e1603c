//! Timeline of all events on the wire.

use super::{Exchanges, Source, SourceEvent, log};

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

impl Source {
    /// Returns all events in order. Plain dumps have no reads.
    pub fn timeline(&self) -> Vec<TimelineEntry> {
        match &self.exchanges {
            Exchanges::Log(recording) => log::timeline(recording),
            Exchanges::Dumps(dumps) => {
                let timed = dumps.timed();
                let first = timed.first().map_or(0, |(time, _)| *time);
                let moment = |(time, event): (i128, SourceEvent)| TimelineEntry {
                    us: u64::try_from(time - first).unwrap_or_default(),
                    event: match event {
                        SourceEvent::Request(n) => TimelineEvent::RequestArrived(n),
                        SourceEvent::ResponseEnd(n) => TimelineEvent::ResponseEnded(n),
                    },
                };
                timed.into_iter().map(moment).collect()
            }
        }
    }
}
