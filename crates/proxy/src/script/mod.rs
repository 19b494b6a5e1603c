//! What a scripted model says: read from YAML, served like a provider.
//!
//! A lane is found by what a request looks like, a turn by how many replies it already carries, so
//! a script answers in any order and at any speed. `docs/script.md` describes the format.

mod answer;
mod server;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

pub use server::ScriptedModel;

const FORMAT: u32 = 1;

/// A script that cannot be used.
#[derive(Debug, Error)]
pub enum BadScript {
    /// It cannot be read.
    #[error("cannot read the script `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not what a script should be.
    #[error("`{}` is not a script: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected, and the line.
        reason: String,
    },
}

/// What a scripted model says, lane by lane.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    format: u32,
    lanes: Vec<Lane>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lane {
    lane: String,
    #[serde(rename = "match")]
    matching: Match,
    turns: Vec<Turn>,
}

/// All that is given must hold.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Match {
    /// Takes whatever comes.
    any: bool,
    /// One of these tools is offered.
    tools_include: Vec<String>,
    system_contains: Option<String>,
    prompt_contains: Option<String>,
    model: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    reply: Vec<Item>,
    #[serde(default)]
    usage: Tokens,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Item {
    Text(String),
    Thinking(String),
    Call(Call),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: Names,
    id: Option<String>,
    #[serde(default)]
    input: serde_json::Value,
}

/// One name, or several of which the first that is offered counts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Several(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl Script {
    /// Reads a script from a file.
    pub fn read(path: &Path) -> Result<Self, BadScript> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| BadScript::Io { path: path.to_owned(), source })?;
        Self::from_text(path, &text)
    }

    /// Reads a script from its text; `path` is where that came from.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, BadScript> {
        Self::parse(text).map_err(|reason| BadScript::Malformed { path: path.to_owned(), reason })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let script: Self =
            serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())?;
        if script.format != FORMAT {
            return Err(format!("format {} is not {FORMAT}", script.format));
        }
        let matches_nothing = |lane: &&Lane| lane.matching == Match::default();
        match script.lanes.iter().find(matches_nothing) {
            Some(lane) => Err(format!(
                "lane `{}` has an empty `match`; write `any: true` to take whatever comes",
                lane.lane
            )),
            None => Ok(script),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, part) in [
            (
                "format: 1\nlanes:\n  - lane: main\n    match: { any: true }\n    turns: []\n    colour: red\n",
                "colour",
            ),
            (
                "format: 1\nlanes:\n  - lane: main\n    match: { any: true }\n    turns:\n      - reply: [ { shout: hi } ]\n",
                "line 6",
            ),
            ("format: 2\nlanes: []\n", "format 2 is not 1"),
            (
                "format: 1\nlanes:\n  - lane: main\n    match: {}\n    turns: []\n",
                "lane `main` has an empty `match`",
            ),
            ("format: 1\nlanes: [\n", "line"),
        ] {
            let error = Script::parse(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
