//! One of the two recordings: its requests and the facts about its surroundings.

use std::collections::HashSet;

use recording::source::{OrderedExchanges, SourceRequest};
use recording::{Manifest, Replay};
use session::{Block, RequestId};

use super::day::Day;
use super::id_shape::has_made_up_id;

/// Length of a value that is no ordinary word.
const LONG: usize = 20;

/// One of the two recordings.
pub struct ComparedRecording<'s> {
    /// Its folder, as the caller named it.
    pub folder: String,
    /// Facts about its surroundings.
    pub facts: RecordingFacts,
    /// Its lanes.
    pub ordered: &'s OrderedExchanges,
    /// Its requests.
    pub requests: &'s dyn RequestSource,
}

/// Loads requests one at a time.
pub trait RequestSource {
    /// Returns a request, unless it cannot be read.
    fn request(&self, id: &RequestId) -> Option<SourceRequest>;

    /// Returns the blocks of the reply to a request, as far as it was received.
    fn reply_blocks(&self, id: &RequestId) -> Vec<Block>;
}

/// Facts about the harness and its surroundings, mostly from the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingFacts {
    /// The harness, as in `claude-code`.
    pub harness: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The version of the program that loads the harness.
    pub host_version: Option<String>,
    /// The scenario.
    pub scenario: Option<String>,
    /// The exit code of the harness.
    pub exit_code: Option<i32>,
    /// True if the recorder started the harness, so that an exit code is expected.
    pub ran: bool,
    /// The folders of the harness, each with the name of its mask.
    pub folders: Vec<(&'static str, String)>,
    /// The replay, if a recording answered in place of a provider.
    pub replay: Option<Replay>,
    /// Names that the replay mapped: the recorded one, and the one here.
    pub renamed: Vec<(String, String)>,
    /// The first day of the recording, if it is known.
    pub day: Option<Day>,
}

impl RecordingFacts {
    /// Reads the facts in a manifest.
    pub fn of(manifest: &Manifest) -> Self {
        let harness = manifest.harness.as_ref();
        let command = manifest.command.as_ref();
        let mut folders = Vec::new();
        if let Some(command) = command {
            folders.push(("cwd", command.cwd.clone()));
            folders.extend(command.home.clone().map(|home| ("home", home)));
            folders.extend(command.tmpdir.clone().map(|tmp| ("tmpdir", tmp)));
        }
        // A folder as short as `/` or `/tmp` belongs to other programs, too.
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

    /// Adds the facts that only the other side knows. A bare folder of dumps has no manifest, but the same folders.
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

    /// Returns harness, version and scenario, as in `claude-code 2.1.325, wakeup`.
    pub fn description(&self) -> String {
        let Some(harness) = &self.harness else { return "unnamed command".to_owned() };
        let version = self.version.as_deref().unwrap_or("without a version");
        let host = self.host_version.as_ref().map_or(String::new(), |host| format!(" in host {host}"));
        let scenario = self.scenario.as_ref().filter(|scenario| !scenario.is_empty());
        let scenario = scenario.map_or(String::new(), |scenario| format!(", {scenario}"));
        format!("{harness} {version}{host}{scenario}")
    }

    /// Returns whether the harness sends results in the order of the calls.
    pub fn promises_order(&self) -> bool {
        self.harness.as_deref() != Some("claude-code")
    }
}

impl ComparedRecording<'_> {
    /// Returns the ids in places that are made for ids: calls, sessions, agents.
    pub(super) fn ids(&self) -> HashSet<String> {
        let mut ids = HashSet::new();
        for lane in &self.ordered.lanes.lanes {
            // A header about sessions may hold something else, such as a mode.
            let named = lane.session.iter().chain(&lane.agent);
            ids.extend(named.filter(|id| has_made_up_id(id) || id.len() >= LONG).cloned());
            let calls = lane.turns.iter().flat_map(|turn| &turn.calls);
            ids.extend(calls.map(|call| call.id.as_str().to_owned()));
        }
        // A path is no id, because its new part is mapped by itself. A number may mean something else elsewhere.
        let is_id = |name: &str| !name.contains('/') && name.contains(|c: char| c.is_ascii_alphabetic());
        let words = self.facts.renamed.iter().filter(|(old, new)| is_id(old) && is_id(new));
        ids.extend(words.flat_map(|(old, new)| [old.clone(), new.clone()]));
        ids.retain(|id| id.len() > 3);
        ids
    }
}
