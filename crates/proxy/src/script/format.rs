//! The format of a script: strict, with the position of each part that may be wrong.
//!
//! Deserialization checks single values. `check` checks relations between them.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use session::StopReason;

use super::template::Template;

/// The supported version of the format.
const FORMAT: u32 = 1;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptFile {
    #[serde(rename = "format")]
    _format: Version,
    pub(super) lanes: Spanned<Vec<Lane>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lane {
    pub(super) lane: Spanned<String>,
    #[serde(rename = "match")]
    pub(super) matching: Spanned<Match>,
    pub(super) turns: Spanned<Vec<Spanned<Turn>>>,
    /// For replies without calls.
    pub(super) stop_reason: Option<StopName>,
    pub(super) pace: Option<ScriptPace>,
}

/// Conditions, all of which must hold.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Match {
    /// Matches all requests.
    pub(super) any: bool,
    /// Matches requests without tools.
    pub(super) no_tools: bool,
    pub(super) tools_include: OneOrMore<String>,
    pub(super) tools_exclude: OneOrMore<String>,
    pub(super) system_contains: OneOrMore<String>,
    pub(super) prompt_contains: OneOrMore<String>,
    pub(super) text_contains: OneOrMore<String>,
    pub(super) model: OneOrMore<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Turn {
    pub(super) when: Option<Spanned<When>>,
    /// Maximum number of uses. The default is 1.
    pub(super) repeat: Option<NonZeroU32>,
    #[serde(default)]
    pub(super) capture: BTreeMap<String, Spanned<Capture>>,
    #[serde(default)]
    pub(super) wait_for: Vec<Spanned<Wait>>,
    pub(super) reply: Option<Vec<Spanned<ReplyItem>>>,
    /// Instead of a reply.
    pub(super) error: Option<ScriptFailure>,
    #[serde(default)]
    pub(super) usage: ScriptTokens,
    pub(super) stop_reason: Option<StopName>,
    pub(super) pace: Option<ScriptPace>,
}

/// Conditions, all of which must hold.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct When {
    pub(super) results_contain: OneOrMore<String>,
    pub(super) text_contains: OneOrMore<String>,
    pub(super) tools_include: OneOrMore<String>,
    pub(super) tools_exclude: OneOrMore<String>,
    /// Texts and results of the whole conversation.
    pub(super) messages_contain: OneOrMore<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Capture {
    pub(super) result_of: Option<String>,
    #[serde(rename = "in")]
    pub(super) within: Option<Within>,
    pub(super) regex: Pattern,
}

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Within {
    Results,
    Messages,
    System,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    pub(super) lane: String,
    pub(super) finished: Option<bool>,
    pub(super) turn: Option<NonZeroU32>,
    /// Minimum number of agents on that lane.
    pub(super) count: Option<NonZeroU32>,
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReplyItem {
    Text(Template),
    Thinking(Template),
    Call(OneOrMore<ScriptCall>),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptCall {
    pub(super) tool: OneOrMore<String>,
    /// True if the call is made even if the request does not offer the tool.
    #[serde(default)]
    pub(super) unoffered: bool,
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) input: serde_json::Value,
}

/// An error in the provider's format.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptFailure {
    pub(super) status: Status,
    pub(super) kind: Option<String>,
    pub(super) message: Option<Template>,
    /// Seconds of the `retry-after` header.
    pub(super) retry_after: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScriptTokens {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScriptPace {
    /// Before the first event.
    pub(super) first_ms: u64,
    /// Between two events.
    pub(super) event_ms: u64,
}

/// The `format` of a script, which must be the supported one.
#[derive(Clone, Copy, Debug)]
struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u32::deserialize(from)? {
            FORMAT => Ok(Self),
            other => Err(D::Error::custom(format!("unknown format {other}, expected {FORMAT}"))),
        }
    }
}

/// A regular expression.
#[derive(Clone, Debug)]
pub(super) struct Pattern(pub(super) Regex);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Regex::new(&text).map(Self).map_err(|error| {
            // The message has several lines with a drawing. The last line has the reason.
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            D::Error::custom(format!("`{text}` is not a regular expression: {reason}"))
        })
    }
}

/// A stop reason, by its name in Anthropic's dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StopName(pub(super) StopReason);

const STOPS: &[(&str, StopReason)] = &[
    ("end_turn", StopReason::EndTurn),
    ("tool_use", StopReason::ToolUse),
    ("max_tokens", StopReason::MaxTokens),
    ("stop_sequence", StopReason::StopSequence),
    ("pause_turn", StopReason::PauseTurn),
    ("refusal", StopReason::Refusal),
    ("content_filter", StopReason::ContentFilter),
    ("context_window", StopReason::ContextWindow),
];

impl<'de> Deserialize<'de> for StopName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let known = STOPS.iter().find(|(name, _)| *name == text);
        known.map(|(_, stop)| Self(stop.clone())).ok_or_else(|| {
            let names: Vec<_> = STOPS.iter().map(|(name, _)| format!("`{name}`")).collect();
            D::Error::custom(format!("unknown stop reason `{text}`, expected one of {}", names.join(", ")))
        })
    }
}

/// The HTTP status of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub(super) u16);

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u16::deserialize(from)? {
            status @ 400..600 => Ok(Self(status)),
            other => Err(D::Error::custom(format!("status {other} is not an error, expected 400 to 599"))),
        }
    }
}

/// One value, or a list. An untagged enum would lose the line of an error.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OneOrMore<T>(pub(super) Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct One<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for One<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value or a list; a text that looks like a number needs quotes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(text.into_deserializer())?])
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
                Ok(vec![T::deserialize(MapAccessDeserializer::new(map))?])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
                let list = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                if list.is_empty() {
                    return Err(A::Error::custom("an empty list, expected at least one value"));
                }
                Ok(list)
            }
        }

        from.deserialize_any(One(PhantomData)).map(Self)
    }
}

impl Turn {
    /// Returns the maximum number of uses.
    pub(super) fn times(&self) -> u32 {
        self.repeat.map_or(1, NonZeroU32::get)
    }

    /// Returns the calls with all their alternatives.
    pub(super) fn calls(&self) -> impl Iterator<Item = &ScriptCall> {
        self.reply.iter().flatten().flat_map(|item| match &item.value {
            ReplyItem::Call(call) => call.0.as_slice(),
            ReplyItem::Text(_) | ReplyItem::Thinking(_) => &[],
        })
    }
}

/// Default timeout of a wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

impl Wait {
    /// Returns the minimum number of agents on the lane.
    pub(super) fn agents(&self) -> usize {
        self.count.map_or(1, |count| count.get() as usize)
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout_ms.map_or(WAIT_TIMEOUT, Duration::from_millis)
    }
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Results => "results",
            Self::Messages => "messages",
            Self::System => "system",
        })
    }
}
