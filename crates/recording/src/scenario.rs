//! What a scenario expects of its recordings: said in `scenario.yaml`, kept in `scenario.json`, judged by the check.

use serde::{Deserialize, Serialize};

/// What a recording of the scenario should show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expects {
    /// At least so many sub-agents are launched by one reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawns_in_one_turn: Option<u32>,
    /// They are launched in the background.
    pub background: bool,
    /// Main asks for their results.
    pub polling: bool,
    /// Main is told of their results.
    pub wakeup: bool,
    /// A running one is cancelled.
    pub cancel: bool,
    /// One is asked for that does not exist.
    pub unknown_job: bool,
    /// A sub-agent tries to write, and may not.
    pub denied_write: bool,
}

/// An expectation by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "they are those of `Expects`")]
pub enum Surface {
    SpawnsInOneTurn,
    Background,
    Polling,
    Wakeup,
    Cancel,
    UnknownJob,
    DeniedWrite,
}

/// What stands in for a surface that a harness, or a version of it, does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandIn {
    /// The harness.
    pub harness: String,
    /// The expectations that it stands in for, by their names.
    #[serde(default, rename = "for")]
    pub surfaces: Vec<Surface>,
    /// Which versions; all where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Versions>,
    /// What is different there.
    pub note: String,
}

/// Some versions of a harness, written as in `before 2.1` or `2.1 and later`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Versions {
    /// Those before this one.
    Before(String),
    /// This one and those behind it.
    From(String),
}

impl Versions {
    /// Whether a version is among them. One that is not made of numbers counts as newer than all.
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

impl TryFrom<String> for Versions {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bound = |bound: &str| {
            let bound = bound.trim();
            let is_version = bound.split('.').all(|part| part.parse::<u64>().is_ok());
            is_version.then(|| bound.to_owned()).ok_or_else(|| wrong(&text))
        };
        match (text.strip_prefix("before "), text.strip_suffix(" and later")) {
            (Some(version), _) => bound(version).map(Self::Before),
            (None, Some(version)) => bound(version).map(Self::From),
            (None, None) => Err(wrong(&text)),
        }
    }
}

fn wrong(text: &str) -> String {
    format!("`{text}` does not say which versions; write `before 2.1` or `2.1 and later`")
}

impl From<Versions> for String {
    fn from(versions: Versions) -> Self {
        match versions {
            Versions::Before(bound) => format!("before {bound}"),
            Versions::From(bound) => format!("{bound} and later"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_before_or_from_one() {
        let versions = |text: &str| Versions::try_from(text.to_owned());
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
