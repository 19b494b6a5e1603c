//! Expectations of a scenario: written in `scenario.yaml`, kept in `scenario.json`, checked by `parity`.

use serde::{Deserialize, Serialize};

/// Expected contents of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expectations {
    /// Minimum number of sub-agents that one reply launches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawns_in_one_turn: Option<u32>,
    /// True if they run in the background.
    pub background: bool,
    /// True if main asks for their results.
    pub polling: bool,
    /// True if main is notified of their results.
    pub wakeup: bool,
    /// True if a running one is cancelled.
    pub cancel: bool,
    /// True if an unknown job is asked for.
    pub unknown_job: bool,
    /// True if a sub-agent is refused a write.
    pub denied_write: bool,
}

/// Name of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "they are those of `Expects`")]
pub enum Expectation {
    SpawnsInOneTurn,
    Background,
    Polling,
    Wakeup,
    Cancel,
    UnknownJob,
    DeniedWrite,
}

/// Replacement for a feature that a harness, or a version of it, lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    /// Name of the harness.
    pub harness: String,
    /// Expectations that it replaces.
    #[serde(default, rename = "for")]
    pub surfaces: Vec<Expectation>,
    /// Affected versions; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<VersionRange>,
    /// Description of the difference.
    pub note: String,
}

/// Versions of a harness, written as `before 2.1` or `2.1 and later`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum VersionRange {
    /// Versions before this one.
    Before(String),
    /// This version and later ones.
    From(String),
}

impl VersionRange {
    /// Returns whether a version is included. A version without numbers counts as newer than all others.
    pub fn include(&self, version: &str) -> bool {
        let numbers = |version: &str| -> Vec<u64> {
            version.split(['.', '-']).map_while(|part| part.parse().ok()).collect()
        };
        let is_before = |bound: &String| {
            let (version, bound) = (numbers(version), numbers(bound));
            !version.is_empty() && version < bound
        };
        match self {
            Self::Before(bound) => is_before(bound),
            Self::From(bound) => !is_before(bound),
        }
    }
}

impl TryFrom<String> for VersionRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bound = |bound: &str| {
            let bound = bound.trim();
            let is_version = bound.split('.').all(|part| part.parse::<u64>().is_ok());
            is_version.then(|| bound.to_owned()).ok_or_else(|| invalid(&text))
        };
        match (text.strip_prefix("before "), text.strip_suffix(" and later")) {
            (Some(version), _) => bound(version).map(Self::Before),
            (None, Some(version)) => bound(version).map(Self::From),
            (None, None) => Err(invalid(&text)),
        }
    }
}

fn invalid(text: &str) -> String {
    format!("`{text}` is not a range of versions; write `before 2.1` or `2.1 and later`")
}

impl From<VersionRange> for String {
    fn from(versions: VersionRange) -> Self {
        match versions {
            VersionRange::Before(bound) => format!("before {bound}"),
            VersionRange::From(bound) => format!("{bound} and later"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_before_or_from_one() {
        let versions = |text: &str| VersionRange::try_from(text.to_owned());
        let before = versions("before 2.1").expect("good");
        let later = versions("2.1 and later").expect("good");
        for (version, is_old) in
            [("2.0.76", true), ("2.1.325", false), ("2.10.0", false), ("1.0.128", true), ("latest", false)]
        {
            assert_eq!((before.include(version), later.include(version)), (is_old, !is_old), "{version}");
        }
        assert_eq!(String::from(later), "2.1 and later");
        assert!(versions("old ones").expect_err("words").contains("before 2.1"));
    }
}
