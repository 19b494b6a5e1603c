//! History of each spawned agent: waited for, polled, announced, or cancelled.
//!
//! It is derived from the order of events and from ids, not from a harness's phrases. A launch whose result
//! arrived before the agent's end ran in the background. A call with an id from that result polls or cancels
//! the agent. A text with such an id announces it.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use session::CallId;

use super::{Lane, LaneKind, Lanes, Turn};

/// Minimum length of a word that can be an id.
const ID: usize = 6;
/// Length of the part of an agent's final text that is searched for.
const WORDS: usize = 256;

/// Spawned agent, from the perspective of its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneJob {
    /// Lane of the agent.
    pub lane: String,
    /// Parent lane.
    pub parent: String,
    /// Call that started the agent.
    pub call: CallId,
    /// Turn of the parent that made the call.
    pub launched: u32,
    /// Turn of the parent that carried the call's result.
    pub acknowledged: Option<u32>,
    /// True if the result arrived before the agent's end.
    pub background: bool,
    /// Later calls that name the agent.
    pub touches: Vec<JobCall>,
    /// Texts that name the agent.
    pub notices: Vec<JobNotice>,
    /// Turn of the parent that carried the agent's final text.
    pub delivered: Option<u32>,
}

/// Later call that names a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobCall {
    /// Turn of the parent.
    pub turn: u32,
    /// Call.
    pub call: CallId,
    /// True if the tool cancels jobs, by its name.
    pub cancels: bool,
}

/// Text that names a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobNotice {
    /// Turn of the parent that followed it.
    pub turn: u32,
    /// True if the parent was idle and woken by it.
    pub wakes: bool,
}

impl Lanes {
    /// Returns every spawned agent in the order of the lanes.
    pub fn jobs(&self) -> Vec<LaneJob> {
        let mut parents: HashMap<&str, Parent<'_>> = HashMap::new();
        let lanes: HashMap<&str, &Lane> = self.lanes.iter().map(|lane| (lane.id.as_str(), lane)).collect();
        let spawns: HashSet<&CallId> =
            self.lanes.iter().filter_map(|lane| lane.spawned_by.as_ref()).collect();
        let spawned = self.lanes.iter().filter(|lane| matches!(lane.kind, LaneKind::Sub | LaneKind::Fork));
        let job = |lane: &Lane| {
            let parent = lanes.get(lane.parent.as_deref()?).copied()?;
            parents.entry(&parent.id).or_insert_with(|| Parent::new(parent, &spawns)).job(lane)
        };
        spawned.filter_map(job).collect()
    }
}

/// Lane that started others, indexed by the ids that it mentions.
struct Parent<'l> {
    lane: &'l Lane,
    made: HashMap<&'l CallId, &'l Turn>,
    results: HashMap<&'l CallId, (&'l Turn, &'l str)>,
    /// Number of launch results that contain a word. A word in several results identifies none of the jobs.
    launches: HashMap<&'l str, usize>,
    touches: HashMap<&'l str, Vec<JobCall>>,
    notices: HashMap<&'l str, Vec<u32>>,
}

impl<'l> Parent<'l> {
    fn new(lane: &'l Lane, spawns: &HashSet<&CallId>) -> Self {
        let mut parent = Self {
            lane,
            made: HashMap::new(),
            results: HashMap::new(),
            launches: HashMap::new(),
            touches: HashMap::new(),
            notices: HashMap::new(),
        };
        for turn in &lane.turns {
            parent.made.extend(turn.calls.iter().map(|call| (&call.id, turn)));
            for result in &turn.results {
                let first = parent.results.insert(&result.call, (turn, &result.text)).is_none();
                if first && spawns.contains(&result.call) {
                    let words: HashSet<&str> = words(&result.text).collect();
                    words.into_iter().for_each(|word| *parent.launches.entry(word).or_default() += 1);
                }
            }
            for call in turn.calls.iter().filter(|call| !spawns.contains(&call.id)) {
                let touch = JobCall { turn: turn.turn, call: call.id.clone(), cancels: cancels(&call.name) };
                let named: HashSet<&str> = all_words(&call.input).collect();
                named
                    .into_iter()
                    .for_each(|word| parent.touches.entry(word).or_default().push(touch.clone()));
            }
            let named: HashSet<&str> = turn.texts.iter().flat_map(|said| all_words(&said.text)).collect();
            named.into_iter().for_each(|word| parent.notices.entry(word).or_default().push(turn.turn));
        }
        parent
    }

    fn job(&self, lane: &Lane) -> Option<LaneJob> {
        let call = lane.spawned_by.as_ref()?;
        let launched = self.made.get(call)?.turn;
        let acknowledged = self.results.get(call).filter(|(turn, _)| turn.turn > launched);
        let ids = self.ids_of(lane, call, acknowledged.map(|(_, text)| *text));
        let later = |turn: &u32| *turn > launched;
        let mut touches: Vec<JobCall> =
            ids.iter().filter_map(|id| self.touches.get(id.as_str())).flatten().cloned().collect();
        touches.retain(|touch| later(&touch.turn));
        touches.sort_by(|a, b| (a.turn, a.call.as_str()).cmp(&(b.turn, b.call.as_str())));
        touches.dedup();
        let mut named: Vec<u32> = ids
            .iter()
            .filter_map(|id| self.notices.get(id.as_str()))
            .flatten()
            .copied()
            .filter(later)
            .collect();
        named.sort_unstable();
        named.dedup();
        let turns = &self.lane.turns;
        let ended_before =
            |turn: u32| turns.get(turn as usize - 2).is_some_and(|before| before.calls.is_empty());
        let notices: Vec<JobNotice> =
            named.into_iter().map(|turn| JobNotice { turn, wakes: ended_before(turn) }).collect();
        let words = lane.final_text().map(str::trim).filter(|words| !words.is_empty());
        let words = words.map(|words| &words[..words.floor_char_boundary(WORDS)]);
        let delivered = self.delivery(launched, words, &touches, &notices, call);
        let ended = lane.turns.last().and_then(|turn| turn.answered_at);
        // The result came before the agent's end, or was an acknowledgement without its final text.
        let background = acknowledged.is_some_and(|(turn, text)| {
            let early = ended.is_none_or(|ended| ended > turn.asked_at);
            let without = words.is_some_and(|words| !text.contains(words));
            // The acknowledgement and the notice may arrive with the same request.
            let noticed = notices.iter().any(|notice| notice.turn == turn.turn);
            early || (without && (noticed || delivered.is_some_and(|delivered| delivered > turn.turn)))
        });
        Some(LaneJob {
            lane: lane.id.clone(),
            parent: self.lane.id.clone(),
            call: call.clone(),
            launched,
            acknowledged: acknowledged.map(|(turn, _)| turn.turn),
            background,
            touches,
            notices,
            delivered,
        })
    }

    /// Returns the first turn that carries an agent's final text: in the result of its own call or of a call
    /// that names it, or in a text that names it.
    fn delivery(
        &self,
        launched: u32,
        words: Option<&str>,
        touches: &[JobCall],
        notices: &[JobNotice],
        call: &CallId,
    ) -> Option<u32> {
        let words = words?;
        let answered =
            touches.iter().map(|touch| &touch.call).chain([call]).filter_map(|call| self.results.get(call));
        let results = answered.filter(|(_, text)| text.contains(words)).map(|(turn, _)| turn.turn);
        let told = |turn: u32| self.lane.turns.get(turn as usize - 1);
        let says = |turn: &Turn| turn.texts.iter().any(|said| said.text.contains(words));
        let texts = notices.iter().map(|notice| notice.turn).filter(|turn| told(*turn).is_some_and(says));
        results.chain(texts).filter(|turn| *turn > launched).min()
    }

    /// Returns the ids that may name a job: those in its launch result, its lane's agent id, and its call id.
    fn ids_of(&self, lane: &Lane, call: &CallId, result: Option<&str>) -> Vec<String> {
        let alone = |word: &&str| self.launches.get(word).is_none_or(|count| *count == 1);
        let words = words(result.unwrap_or_default()).filter(alone).map(str::to_owned);
        let own = [&lane.agent, &lane.session].into_iter().flatten().cloned();
        let mut ids: Vec<String> = words.chain(own).chain([call.as_str().to_owned()]).collect();
        ids.retain(|id| id.len() >= ID && self.lane.session.as_ref() != Some(id));
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Returns the words of a launch result that may be ids: words with a digit, and random hex digits without one after a
/// label. Parts of paths are excluded, because other calls name the same folders.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word_byte = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let is_id = |word: &&str| word.len() >= ID && word.bytes().any(|byte| byte.is_ascii_digit());
    let words = text.split(move |c| !is_word_byte(c)).filter(|word| !word.contains('/'));
    words.flat_map(|word| word.split('.')).filter(is_id).chain(lettered_ids(text))
}

/// Returns the ids of hex digits that happen to be letters only: `agentId: abcdefa`, `<task_id>bg_abcdefab`. A word has the
/// same letters (`facade`), so a label must precede the id.
pub fn lettered_ids(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut end = 0;
    std::iter::from_fn(move || {
        let start = end + text[end..].find(is_part)?;
        end = text[start..].find(|c| !is_part(c)).map_or(text.len(), |length| start + length);
        Some((&text[..start], &text[start..end]))
    })
    .filter(|(before, word)| is_lettered(word) && follows_id_label(before))
    .map(|(_, word)| word)
}

/// Returns whether a word, or its part after a kind (`bg_`), consists of enough of the letters a to f.
fn is_lettered(word: &str) -> bool {
    let random = word.split_once('_').map_or(word, |(_, rest)| rest);
    random.len() >= ID && random.bytes().all(|byte| matches!(byte, b'a'..=b'f'))
}

/// Returns whether a text ends with the label of an id: `task ID: `, `"agentId":"`, `<agent-id>`.
fn follows_id_label(before: &str) -> bool {
    let label = before.trim_end_matches([' ', '"', '\'', '`', '*', '\\', ':', '=', '>']);
    let name = label.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    before[label.len()..].contains([':', '=', '>'])
        && (name.eq_ignore_ascii_case("id") || name.ends_with("Id"))
}

/// Returns every word of a text that is long enough for an id, including parts of paths.
pub(super) fn all_words(text: &str) -> impl Iterator<Item = &str> {
    let is_word_byte = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.split(move |c| !is_word_byte(c)).filter(|word| word.len() >= ID)
}

fn cancels(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    ["cancel", "stop", "kill", "abort"].iter().any(|word| tool.contains(word))
}
