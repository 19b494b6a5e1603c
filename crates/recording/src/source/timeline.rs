//! Everything that happened on the wire, in the one order it happened in.

use super::{Event, From, Source, log};

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds since the recording began; 0 where nobody knows.
    pub us: u64,
    /// What happened.
    pub what: Happened,
}

/// What can happen; exchanges by their number from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A request arrived.
    Asked(usize),
    /// Bytes of its response were read, from this offset on.
    Read {
        /// The exchange.
        exchange: usize,
        /// Where they begin in the stored body.
        offset: u64,
    },
    /// The response came to its end.
    Ended(usize),
}

impl Source {
    /// Everything that happened. Bare dumps know of no reads: their responses only end.
    pub fn timeline(&self) -> Vec<Moment> {
        match &self.from {
            From::Log(recording) => log::timeline(recording),
            From::Dumps(dumps) => {
                let timed = dumps.timed();
                let first = timed.first().map_or(0, |(time, _)| *time);
                let moment = |(time, event): (i128, Event)| Moment {
                    us: u64::try_from(time - first).unwrap_or_default(),
                    what: match event {
                        Event::Asked(n) => Happened::Asked(n),
                        Event::Ended(n) => Happened::Ended(n),
                    },
                };
                timed.into_iter().map(moment).collect()
            }
        }
    }
}
