//! One of the two recordings: where its requests come from, and what is known of its surroundings.

use std::collections::HashSet;

use recording::source::{Asked, Ordered};
use recording::{Manifest, Replay};
use session::{Block, RequestId};

use super::day::Day;
use super::ids::is_made_up;

/// No word is as long as this.
const LONG: usize = 20;

/// One of the two recordings.
pub struct ComparedRecording<'s> {
    /// Its folder, as it was given.
    pub folder: String,
    /// What is known of its surroundings.
    pub facts: RecordingFacts,
    /// Its lanes.
    pub ordered: &'s Ordered,
    /// Its requests, one at a time.
    pub requests: &'s dyn RequestSource,
}

/// Where requests come from; each is let go before the next is asked for.
pub trait RequestSource {
    /// The request of that name; `None` where it cannot be read.
    fn request(&self, id: &RequestId) -> Option<Asked>;

    /// What the model answered to it, as far as it came.
    fn reply_blocks(&self, id: &RequestId) -> Vec<Block>;
}

/// What a recording's manifest says of the harness and of where it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingFacts {
    /// The harness, as in `claude-code`.
    pub harness: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The version of the program that loads it.
    pub host_version: Option<String>,
    /// The scenario.
    pub scenario: Option<String>,
    /// What the harness returned.
    pub exit_code: Option<i32>,
    /// It was started by the recorder, so that an exit code is to be expected.
    pub ran: bool,
    /// The folders that paths are below, each with the mask that covers it.
    pub folders: Vec<(&'static str, String)>,
    /// The recording that answered, where the provider was one.
    pub replay: Option<Replay>,
    /// The names that it made anew, as that replay tells: the recorded one, and the one here.
    pub renamed: Vec<(String, String)>,
    /// The day on which it began, where it says so.
    pub day: Option<Day>,
}

impl RecordingFacts {
    /// Those of a manifest.
    pub fn of(manifest: &Manifest) -> Self {
        let harness = manifest.harness.as_ref();
        let command = manifest.command.as_ref();
        let mut folders = Vec::new();
        if let Some(command) = command {
            folders.push(("cwd", command.cwd.clone()));
            folders.extend(command.home.clone().map(|home| ("home", home)));
            folders.extend(command.tmpdir.clone().map(|tmp| ("tmpdir", tmp)));
        }
        // A folder as short as `/` or `/tmp` is no place of its own.
        folders.retain(|(_, folder)| folder.len() > 5);
        Self {
            harness: harness.map(|harness| harness.name.clone()),
            version: harness.and_then(|harness| harness.version.clone()),
            host_version: harness.and_then(|harness| Some(harness.host.as_ref()?.version.clone())),
            scenario: harness.map(|harness| harness.scenario.clone()),
            exit_code: command.and_then(|command| command.exit_code),
            ran: command.is_some(),
            folders,
            replay: manifest.replay.clone(),
            renamed: Vec::new(),
            day: None,
        }
    }

    /// With what only the other side's manifest tells: a bare folder of dumps has none, and speaks of the same places.
    pub(super) fn completed_by(&self, other: &Self) -> Self {
        let lacks = |name: &str| !self.folders.iter().any(|(of, _)| *of == name);
        let borrowed = other.folders.iter().filter(|(name, _)| lacks(name)).cloned();
        Self {
            version: self.version.clone().or_else(|| other.version.clone()),
            host_version: self.host_version.clone().or_else(|| other.host_version.clone()),
            folders: self.folders.iter().cloned().chain(borrowed).collect(),
            ..self.clone()
        }
    }

    /// As in `claude-code 2.1.325, wakeup`.
    pub fn in_words(&self) -> String {
        let Some(harness) = &self.harness else { return "a harness that is not named".to_owned() };
        let version = self.version.as_deref().unwrap_or("of some version");
        let host = self.host_version.as_ref().map_or(String::new(), |host| format!(" in host {host}"));
        let scenario = self.scenario.as_ref().filter(|scenario| !scenario.is_empty());
        let scenario = scenario.map_or(String::new(), |scenario| format!(", {scenario}"));
        format!("{harness} {version}{host}{scenario}")
    }

    /// Whether the harness brings results back in the order of the calls.
    pub fn promises_order(&self) -> bool {
        self.harness.as_deref() != Some("claude-code")
    }
}

impl ComparedRecording<'_> {
    /// The ids that stand in places made for them: calls, sessions, agents.
    pub(super) fn ids(&self) -> HashSet<String> {
        let mut ids = HashSet::new();
        for lane in &self.ordered.lanes.lanes {
            // A header that speaks of sessions may say something else of them, such as a mode.
            let named = lane.session.iter().chain(&lane.agent);
            ids.extend(named.filter(|id| is_made_up(id) || id.len() >= LONG).cloned());
            let calls = lane.turns.iter().flat_map(|turn| &turn.calls);
            ids.extend(calls.map(|call| call.id.as_str().to_owned()));
        }
        // A path is no id, for what is new in it is named by itself; and a number may be anything else elsewhere.
        let is_id = |name: &str| !name.contains('/') && name.contains(|c: char| c.is_ascii_alphabetic());
        let words = self.facts.renamed.iter().filter(|(old, new)| is_id(old) && is_id(new));
        ids.extend(words.flat_map(|(old, new)| [old.clone(), new.clone()]));
        ids.retain(|id| id.len() > 3);
        ids
    }
}
