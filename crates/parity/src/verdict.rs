//! The result of comparing two recordings, as plain values and as JSON.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

pub(crate) use crate::surface::Surface;

/// Version of a verdict's JSON.
pub const VERDICT_FORMAT: u32 = 1;

/// Degree to which two recordings agree. Each level includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Both ran to the same end, and the same requests were answered.
    E0,
    /// Same shape: the same names, roles and numbers of units.
    E1,
    /// Same structure: only words, attempts and ids differ.
    E2,
    /// Equal after masks, with ids paired one to one.
    E3,
    /// Byte-equal.
    E4,
}

impl Level {
    /// All levels, the lowest first.
    pub const ALL: [Self; 5] = [Self::E0, Self::E1, Self::E2, Self::E3, Self::E4];

    /// Returns the level in words, such as `same structure`.
    pub fn words(self) -> &'static str {
        match self {
            Self::E0 => "same outcome",
            Self::E1 => "same shape",
            Self::E2 => "same structure",
            Self::E3 => "equal after masks",
            Self::E4 => "byte-equal",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{}", *self as u8)
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|level| level.to_string().eq_ignore_ascii_case(text));
        named.ok_or_else(|| format!("unknown level `{text}`; the levels are E0, E1, E2, E3 and E4"))
    }
}

/// Result of comparing a candidate with a golden.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Version of the JSON.
    pub format: u32,
    /// The golden's folder, as the caller named it.
    pub golden: String,
    /// The candidate's folder.
    pub candidate: String,
    /// Harness, version and scenario of each, one line each.
    #[serde(rename = "about")]
    pub descriptions: [String; 2],
    /// The level that the caller requires.
    #[serde(rename = "wanted")]
    pub required: Level,
    /// The highest level that holds on all surfaces; `None` if not even E0 holds.
    pub level: Option<Level>,
    /// Result at the required level.
    pub outcome: VerdictOutcome,
    /// The changes by name, in a few lines.
    pub summary: Vec<String>,
    /// Levels and counts of each surface.
    pub surfaces: Vec<SurfaceVerdict>,
    /// Levels and counts of each surface, lane by lane.
    pub lanes: Vec<LaneVerdict>,
    /// All differences, in the order of the golden.
    pub differences: Vec<VerdictDifference>,
    /// Masks, rules and ids that allowed values to differ.
    #[serde(flatten)]
    pub tolerances: Tolerances,
    /// Facts that help to judge the result, such as a racy golden.
    pub notes: Vec<String>,
    /// Effects of the changes on the provider's prompt cache.
    pub cache: Vec<CacheChange>,
}

/// Values that were allowed to differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tolerances {
    /// The built-in masks.
    pub masks: Vec<MaskUse>,
    /// The rules of `parity.toml`.
    pub rules: Vec<RuleUse>,
    /// Pairs of different ids with the same role, the golden's first.
    #[serde(default)]
    pub ids: Vec<(String, String)>,
}

/// A file that is not a verdict of this version.
#[derive(Debug, Error)]
pub enum VerdictFileError {
    /// The bytes are no verdict.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    /// Another version of offshoot wrote it.
    #[error("unknown format {0}; this version of offshoot reads {VERDICT_FORMAT}")]
    UnknownFormat(u32),
}

impl Verdict {
    /// Reads the JSON of a verdict.
    pub fn from_json(bytes: &[u8]) -> Result<Self, VerdictFileError> {
        #[derive(Deserialize)]
        struct VersionedVerdict {
            format: u32,
            // Tells a newer verdict from other JSON with a `format`.
            #[serde(rename = "surfaces")]
            _surfaces: Vec<IgnoredAny>,
        }
        match serde_json::from_slice::<VersionedVerdict>(bytes)? {
            VersionedVerdict { format: VERDICT_FORMAT, .. } => Ok(serde_json::from_slice(bytes)?),
            VersionedVerdict { format, .. } => Err(VerdictFileError::UnknownFormat(format)),
        }
    }

    /// Returns the number of rules that cover nothing any more. One such rule fails the verdict.
    pub fn stale_rules(&self) -> usize {
        self.tolerances.rules.iter().filter(|rule| rule.stale).count()
    }
}

/// Effect of a changed prompt on the provider's cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheChange {
    /// The candidate's lane.
    pub lane: String,
    /// The first block that differs from the cached prefix, counted from 1.
    pub block: usize,
    /// JSON pointer to the block.
    pub pointer: String,
    /// Reason of the cache misses in the provider's word; `None` if only the first request of the lane differs from
    /// the golden's.
    pub reason: Option<String>,
    /// Number of turns with the miss.
    pub turns: u64,
    /// Tokens that each of these turns writes or sends again.
    pub tokens: u64,
    /// Their price in dollars.
    pub usd: Option<f64>,
}

/// Outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "because")]
pub enum VerdictOutcome {
    /// The required level holds.
    Match,
    /// The required level does not hold, or a rule is stale.
    Differs,
    /// The recordings cannot be compared, for this reason.
    Inconclusive(String),
}

impl VerdictOutcome {
    /// Returns the word that begins a printed verdict.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Match => "PASS",
            Self::Differs => "FAIL",
            Self::Inconclusive(_) => "INCONCLUSIVE",
        }
    }
}

/// Level and counts of one surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurfaceVerdict {
    /// The surface.
    pub surface: Surface,
    /// The highest level that holds. It is E0 if not even E1 holds, and `None` if nothing was compared or E0 fails.
    pub level: Option<Level>,
    /// Counts of its units.
    #[serde(flatten)]
    pub counts: UnitCounts,
}

/// Counts of the units of a surface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitCounts {
    /// Units that were compared.
    pub compared: u64,
    /// Compared units that are byte-equal.
    pub equal: u64,
    /// Compared units with a mask in them.
    pub masked: u64,
    /// Units that a rule of `parity.toml` leaves out.
    pub excluded: u64,
    /// Units that the model produced, which are given and not compared.
    pub echoed: u64,
    /// Units that only the candidate has.
    pub absent: u64,
}

/// A lane of the golden and its counterpart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneVerdict {
    /// The golden's lane.
    pub golden: Option<String>,
    /// The candidate's lane.
    pub candidate: Option<String>,
    /// Pairs of turn numbers that were compared, the golden's first.
    pub turns: Vec<(Option<u32>, Option<u32>)>,
    /// Levels and counts of each surface.
    pub surfaces: Vec<SurfaceVerdict>,
}

/// A difference at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictDifference {
    /// The surface.
    pub surface: Surface,
    /// The highest level at which the two still agree here; `None` if they agree at no level.
    #[serde(rename = "holds")]
    pub level: Option<Level>,
    /// The golden's lane, or the candidate's if the golden has none.
    pub lane: String,
    /// The turn in that lane.
    pub turn: u32,
    /// JSON pointer (RFC 6901) into the request's body, or `header:NAME` for a header.
    pub pointer: String,
    /// A few words that name the difference.
    #[serde(rename = "what")]
    pub description: String,
    /// The golden's value, if it has one.
    pub golden: Option<String>,
    /// The candidate's value, if it has one.
    pub candidate: Option<String>,
    /// The rule for `parity.toml` that would cover the difference, ready to paste.
    #[serde(rename = "mask")]
    pub suggested_rule: Option<String>,
    /// The race that causes the difference: the golden's own replay differs here too, and no reply of a model decides
    /// the value.
    #[serde(rename = "racy")]
    pub race: Option<Race>,
}

/// A race in a golden: something other than the model's replies decides a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Race {
    /// Descriptions of tools in the first request, which precedes all replies.
    Start,
    /// Progress of a running agent.
    Progress,
    /// Announcements of agents that ended together.
    Announced,
    /// Text in front of a reply that was given without it.
    Late,
}

impl Race {
    /// Returns the name of the rule, such as `start`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Progress => "progress",
            Self::Announced => "announced",
            Self::Late => "late",
        }
    }

    /// Returns the reason why no reply decides the value.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Start => {
                "the description of a tool depends on what the harness found before its first request"
            }
            Self::Progress => "the progress of a running agent depends on when the harness last looked",
            Self::Announced => {
                "agents that end together are announced in one text or in several, in any order"
            }
            Self::Late => "a text precedes a reply that was given without it",
        }
    }
}

/// Hits of a built-in mask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskUse {
    /// Name of the mask.
    pub name: String,
    /// Description of the values that it covers.
    pub covers: String,
    /// Hits in values that were compared.
    pub hits: u64,
    /// Hits whose two values differed.
    pub differed: u64,
}

/// Hits of a rule of `parity.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleUse {
    /// Surface of the rule.
    pub surface: Surface,
    /// Pointer of the rule.
    pub pointer: String,
    /// Reason that the rule gives.
    pub reason: String,
    /// Number of places where it applied.
    pub hits: u64,
    /// True if it covers nothing any more, which fails the verdict.
    pub stale: bool,
}

#[cfg(test)]
mod tests;
