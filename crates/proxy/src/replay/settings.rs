//! Settings of a replay.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::fault::Fault;

/// Settings of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplaySettings {
    /// Speed of the replies.
    pub pace: Pace,
    /// Order of requests and replies.
    pub order: Order,
    /// Fixed duration of each wait for an idle harness. Without it, the harness's processes are observed.
    pub settle: Option<Duration>,
    /// Faults to inject.
    pub faults: Vec<Fault>,
    /// Answer to a request without a recorded reply.
    pub on_miss: OnMiss,
    /// Reports the usage that the provider's prompt cache would have now, not the recorded usage.
    pub cache_sim: bool,
}

/// Speed of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as possible.
    #[default]
    Instant,
    /// Each part at its recorded time.
    Recorded,
}

/// Order of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Each request is answered at once.
    #[default]
    Free,
    /// The recorded order over all requests and parts of responses.
    Recorded,
    /// Another possible order, equal for equal seeds.
    Seed(u64),
}

/// Answer to a request without a recorded reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMiss {
    /// An error in the provider's format.
    #[default]
    Error,
    /// The reply to the most similar recorded request.
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
            (_, Some(seed)) => seed.parse().map(Self::Seed).map_err(|_| format!("`{seed}` is not a number")),
            _ => Err(format!("unknown order `{text}`; use `free`, `recorded` or `seed=N`")),
        }
    }
}
