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
    /// Which versions, for people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<String>,
    /// What is different there.
    pub note: String,
}
