//! Standing in for the model: a recording plays the provider it recorded.
//!
//! Start at [`RecordedTraffic`] and [`ReplayServer`]. A request's place is found by what the model had said before it, nothing else;
//! what the harness names anew is put into the replies; the order of everything can be kept. `docs/guide/replay.md` has
//! the rules. Nothing here knows a harness, and nothing is ever forwarded.

mod conductor;
mod fault;
mod find;
mod fresh;
mod idle;
mod names;
mod question;
mod readings;
mod report;
mod response;
mod score;
mod server;
mod stage;
mod tape;
mod together;
mod tokens;
mod trail;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use conductor::ReplayWait;
pub use fault::{Fault, FaultAttempts, FaultKind, FaultParseError};
pub use names::NameConflict;
pub use report::{FaultOutcome, ReplayMiss, ReplayReport, TurnRef};
pub use server::ReplayServer;
pub use tape::{RecordedTraffic, ReplayLoadError};

/// How a recording is played.
#[derive(Clone, Debug, Default)]
pub struct ReplaySettings {
    /// How fast.
    pub pace: Pace,
    /// In which order.
    pub order: Order,
    /// A fixed time in the place of every wait for the harness to come to rest.
    pub settle: Option<Duration>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What a request gets that has no recorded answer.
    pub on_miss: OnMiss,
    /// ReplayReport the usage that the provider's prompt cache would come to, not the recorded one.
    pub cache_sim: bool,
}

/// How fast a recording is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it goes.
    #[default]
    Instant,
    /// Each part when it came.
    Recorded,
}

/// In which order things go out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Whoever asks is answered.
    #[default]
    Free,
    /// One order over all requests and parts of responses, as recorded.
    Recorded,
    /// Another that is as legal, the same for the same seed.
    Seed(u64),
}

/// What a request gets that has no recorded answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMiss {
    /// An error in the provider's shape.
    #[default]
    Error,
    /// What was recorded for the request that is most like it.
    Nearest,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instant => "instant",
            Self::Recorded => "recorded",
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Recorded => f.write_str("recorded"),
            Self::Seed(seed) => write!(f, "seed={seed}"),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("seed=")) {
            ("free", _) => Ok(Self::Free),
            ("recorded", _) => Ok(Self::Recorded),
            (_, Some(seed)) => seed.parse().map(Self::Seed).map_err(|_| format!("`{seed}` is no number")),
            _ => Err(format!("`{text}` is no order; there are `free`, `recorded` and `seed=N`")),
        }
    }
}
