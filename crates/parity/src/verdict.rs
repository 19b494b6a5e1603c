//! What comes out of comparing two recordings: values that anybody may print.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The version of the JSON form.
pub const VERDICT_FORMAT: u32 = 1;

/// A part of a recording that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// System prompt, user text, reminders.
    Prompt,
    /// Tool definitions.
    Tools,
    /// Model, sampling, thinking, limits, betas, cache markers.
    Settings,
    /// Tool calls, as the harness carries them back.
    Calls,
    /// Tool results.
    Results,
    /// Acknowledgement, poll, wake-up, cancel.
    Jobs,
    /// Lane, session, parent.
    Routing,
}

impl Surface {
    /// All of them, in the order they are shown.
    pub const ALL: [Self; 7] =
        [Self::Prompt, Self::Tools, Self::Settings, Self::Calls, Self::Results, Self::Jobs, Self::Routing];

    /// As in `prompt`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Tools => "tools",
            Self::Settings => "settings",
            Self::Calls => "calls",
            Self::Results => "results",
            Self::Jobs => "jobs",
            Self::Routing => "routing",
        }
    }
}

/// How far two recordings agree; each level holds the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It ran, with the same outcome, and every request was answered.
    E0,
    /// The same shape.
    E1,
    /// The same structure.
    E2,
    /// Equal after masks, ids one to one.
    E3,
    /// Equal to the byte.
    E4,
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

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::E0, Self::E1, Self::E2, Self::E3, Self::E4]
            .into_iter()
            .find(|level| level.to_string().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("`{text}` is no level; there are E0, E1, E2, E3 and E4"))
    }
}

/// Whether two recordings agree, and where they do not.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Version of the format.
    pub format: u32,
    /// The golden's folder, as it was given.
    pub golden: String,
    /// The candidate's.
    pub candidate: String,
    /// The harness, version and scenario of each, one line each.
    #[serde(rename = "about")]
    pub descriptions: [String; 2],
    /// The level that the comparison requires.
    #[serde(rename = "wanted")]
    pub required: Level,
    /// The highest level that holds for all; nothing where not even E0 does.
    pub level: Option<Level>,
    /// Match, differs or inconclusive.
    pub outcome: VerdictOutcome,
    /// What changed, in a few lines; the first thing to read where versions differ.
    pub summary: Vec<String>,
    /// The whole, surface by surface.
    pub surfaces: Vec<SurfaceVerdict>,
    /// The same, lane by lane.
    pub lanes: Vec<LaneVerdict>,
    /// Every difference, in the order of the golden.
    pub differences: Vec<VerdictDifference>,
    /// Masks and how often each was hit.
    pub masks: Vec<MaskUse>,
    /// Exclusions and extra masks from `parity.toml`.
    pub rules: Vec<RuleUse>,
    /// Ids that stand for each other, golden's first.
    pub ids: Vec<(String, String)>,
    /// What a reader should know: siblings compared as a set, a racy golden.
    pub notes: Vec<String>,
    /// What the changes do to the provider's prompt cache.
    pub cache: Vec<CacheChange>,
}

/// What a change of the prompt does to the provider's cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheChange {
    /// The candidate's lane.
    pub lane: String,
    /// The first block that is not what was written, from 1.
    pub block: usize,
    /// Where it stands.
    pub pointer: String,
    /// Why turns read less, in the provider's word; nothing where only the first request of the lane differs from
    /// the golden's.
    pub reason: Option<&'static str>,
    /// In how many turns.
    pub turns: u64,
    /// Tokens that each of these writes or sends again.
    pub tokens: u64,
    /// What that costs, in dollars.
    pub usd: Option<f64>,
}

/// What a verdict comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "because")]
pub enum VerdictOutcome {
    /// The wanted level holds.
    Match,
    /// It does not.
    Differs,
    /// Nobody can say, for this reason.
    Inconclusive(String),
}

/// One surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SurfaceVerdict {
    /// Which.
    pub surface: Surface,
    /// The highest level that holds: E0 where not even E1 does, nothing where nothing was compared or E0 fails.
    pub level: Option<Level>,
    /// How many units there were, and what became of them.
    #[serde(flatten)]
    pub counts: UnitCounts,
}

/// Units of a surface, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnitCounts {
    /// Compared.
    pub compared: u64,
    /// Of these, equal to the byte.
    pub equal: u64,
    /// Of these, a mask was hit in.
    pub masked: u64,
    /// Left out by a rule of `parity.toml`.
    pub excluded: u64,
    /// Served by a replay, hence given and not judged.
    pub echoed: u64,
    /// That the golden has not.
    pub absent: u64,
}

/// One lane of the golden and its counterpart.
#[derive(Clone, Debug, Serialize)]
pub struct LaneVerdict {
    /// The golden's lane.
    pub golden: Option<String>,
    /// The candidate's.
    pub candidate: Option<String>,
    /// Their turns by number, each golden's with the candidate's that it was compared with.
    pub turns: Vec<(Option<u32>, Option<u32>)>,
    /// Surface by surface.
    pub surfaces: Vec<SurfaceVerdict>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictDifference {
    /// The surface it is on.
    pub surface: Surface,
    /// The highest level at which the two still agree here; `None` where they do not agree at any.
    #[serde(rename = "holds")]
    pub level: Option<Level>,
    /// The golden's lane, or the candidate's where the golden has none.
    pub lane: String,
    /// The turn in that lane.
    pub turn: u32,
    /// Where in the request's body, as a JSON pointer (RFC 6901); `header:NAME` for a header.
    pub pointer: String,
    /// A few words that name the difference.
    #[serde(rename = "what")]
    pub description: String,
    /// The golden's value; nothing where there is none.
    pub golden: Option<String>,
    /// The candidate's value; nothing where there is none.
    pub candidate: Option<String>,
    /// The rule for `parity.toml` that would cover it, ready to paste.
    #[serde(rename = "mask")]
    pub suggested_rule: Option<String>,
    /// The race that causes it: the golden's own replay differs here too, and no reply of a model decides the value.
    #[serde(rename = "racy")]
    pub race: Option<Race>,
}

/// A rule by which a golden is racy at a place: something else than the replies decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Race {
    /// The words of a tool in the very first request: no reply had been given.
    Start,
    /// What is told of an agent that is still at work.
    Progress,
    /// How agents that ended together are announced.
    Announced,
    /// A text stands before a reply that was given without it.
    Late,
}

impl Race {
    /// As in `start`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Progress => "progress",
            Self::Announced => "announced",
            Self::Late => "late",
        }
    }

    /// Why no reply decides it.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Start => "the words of a tool depend on what was found before the first request",
            Self::Progress => "what is told of an agent at work depends on when the harness looked last",
            Self::Announced => {
                "agents that end together are announced in one text or in several, in any order"
            }
            Self::Late => "a text stands before a reply that was given without it",
        }
    }
}

/// A built-in mask and its hits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MaskUse {
    /// Its name.
    pub name: String,
    /// What it covers.
    pub covers: String,
    /// Hits in values that were compared.
    pub hits: u64,
    /// Of these, where the two values differed.
    pub differed: u64,
}

/// A rule of `parity.toml` and its hits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleUse {
    /// The surface.
    pub surface: Surface,
    /// Where.
    pub pointer: String,
    /// Why somebody put it there.
    pub reason: String,
    /// How often it applied.
    pub hits: u64,
    /// It covers nothing any more: that fails the verdict.
    pub stale: bool,
}
