//! What became of each spawned agent: waited for, polled, announced, cancelled.
//!
//! Judged by order and by ids, not by a harness's words: a launch whose result came before the
//! agent's end was in the background; a call that names an id from that result asks after it; a text
//! that names it announces it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use session::CallId;

use super::{Lane, LaneKind, Lanes};

/// Shortest word that may be an id.
const ID: usize = 6;
/// How much of an agent's last words must be found again.
const WORDS: usize = 256;

/// A spawned agent, seen from the lane that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The agent's lane.
    pub lane: String,
    /// The lane that started it.
    pub parent: String,
    /// The call that started it.
    pub call: CallId,
    /// The parent's turn that made the call.
    pub launched: u32,
    /// The parent's turn that brought the call's result.
    pub acknowledged: Option<u32>,
    /// The result came before the agent's end.
    pub background: bool,
    /// Calls that name it.
    pub touches: Vec<Touch>,
    /// Texts that name it.
    pub notices: Vec<Notice>,
    /// The parent's turn in which its last words arrived.
    pub delivered: Option<u32>,
}

/// A later call that names a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Touch {
    /// The parent's turn.
    pub turn: u32,
    /// The call.
    pub call: CallId,
    /// Whether its tool's name says that it ends the job.
    pub cancels: bool,
}

/// A text that names a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notice {
    /// The parent's turn that it led to.
    pub turn: u32,
    /// The parent had ended its turn: it was woken.
    pub wakes: bool,
}

impl Lanes {
    /// Every spawned agent, in the order of the lanes.
    pub fn jobs(&self) -> Vec<Job> {
        let spawned = self.lanes.iter().filter(|lane| matches!(lane.kind, LaneKind::Sub | LaneKind::Fork));
        spawned.filter_map(|lane| self.job(lane)).collect()
    }

    fn job(&self, lane: &Lane) -> Option<Job> {
        let call = lane.spawned_by.as_ref()?;
        let parent = self.lane(lane.parent.as_deref()?)?;
        let made = |turn: &&super::Turn| turn.calls.iter().any(|made| made.id == *call);
        let launched = parent.turns.iter().find(made)?;
        let later = || parent.turns.iter().filter(|turn| turn.turn > launched.turn);
        let result = |turn: &super::Turn| turn.results.iter().find(|result| result.call == *call).cloned();
        let acknowledged = later().find_map(|turn| result(turn).map(|result| (turn, result)));
        let ended = lane.turns.last().and_then(|turn| turn.answered_at);
        let background =
            acknowledged.as_ref().is_some_and(|(turn, _)| ended.is_none_or(|ended| ended > turn.asked_at));
        let siblings = self.children(&parent.id).filter_map(|lane| lane.spawned_by.as_ref());
        let siblings: HashSet<&CallId> = siblings.filter(|other| *other != call).collect();
        let others = later().flat_map(|turn| &turn.results).filter(|result| siblings.contains(&result.call));
        // A session or a folder that all of them name tells none of them apart.
        let shared: HashSet<&str> = others.flat_map(|result| words(&result.text)).collect();
        let mut ids = ids_of(lane, call, acknowledged.as_ref().map(|(_, result)| result.text.as_str()));
        ids.retain(|id| !shared.contains(id.as_str()) && parent.session.as_ref() != Some(id));
        let names_it = |text: &str| ids.iter().any(|id| text.contains(id.as_str()));
        let spawns: HashSet<&CallId> =
            self.lanes.iter().filter_map(|lane| lane.spawned_by.as_ref()).collect();
        let touches: Vec<Touch> = later()
            .flat_map(|turn| turn.calls.iter().map(move |call| (turn.turn, call)))
            .filter(|(_, call)| !spawns.contains(&call.id) && names_it(&call.input))
            .map(|(turn, call)| Touch { turn, call: call.id.clone(), cancels: cancels(&call.name) })
            .collect();
        let ended_before =
            |turn: u32| parent.turns.iter().any(|other| other.turn + 1 == turn && other.calls.is_empty());
        let notices: Vec<Notice> = later()
            .filter(|turn| turn.texts.iter().any(|said| names_it(&said.text)))
            .map(|turn| Notice { turn: turn.turn, wakes: ended_before(turn.turn) })
            .collect();
        let words = lane.final_text().map(str::trim).filter(|words| !words.is_empty());
        let words = words.map(|words| &words[..words.floor_char_boundary(WORDS)]);
        let brings = |turn: &&super::Turn| {
            let results = turn.results.iter().map(|result| &result.text);
            let mut texts = results.chain(turn.texts.iter().map(|said| &said.text));
            words.is_some_and(|words| texts.any(|text| text.contains(words)))
        };
        Some(Job {
            lane: lane.id.clone(),
            parent: parent.id.clone(),
            call: call.clone(),
            launched: launched.turn,
            acknowledged: acknowledged.map(|(turn, _)| turn.turn),
            background,
            touches,
            notices,
            delivered: later().find(brings).map(|turn| turn.turn),
        })
    }
}

/// The ids by which a job may be named: those in its launch's result, the lane's own, the call's. Parts of
/// paths are no ids: other calls name the same folders.
fn ids_of(lane: &Lane, call: &CallId, result: Option<&str>) -> Vec<String> {
    let words = words(result.unwrap_or_default()).map(str::to_owned);
    let own = [&lane.agent, &lane.session].into_iter().flatten().cloned();
    words.chain(own).chain([call.as_str().to_owned()]).collect()
}

/// The words of a text that may be ids.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word_byte = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let is_id = |word: &&str| word.len() >= ID && word.bytes().any(|byte| byte.is_ascii_digit());
    let words = text.split(move |c| !is_word_byte(c)).filter(|word| !word.contains('/'));
    words.flat_map(|word| word.split('.')).filter(is_id)
}

fn cancels(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    ["cancel", "stop", "kill", "abort"].iter().any(|word| tool.contains(word))
}
