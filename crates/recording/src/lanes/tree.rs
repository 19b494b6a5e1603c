//! Final assembly of the lanes: their kinds and parents.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use session::{CallId, RequestId, StopReason, Usage};

use super::jobs::{all_words, words};
use super::request::{CarriedResult, InjectedText};
use super::state::{Attempt, LaneState, LaneTracker, TurnMark};

/// Minimum length of an answer by which a longer result is recognised as a sub-agent's.
const TELLING: usize = 8;
/// Maximum number of lanes with one prompt whose results are compared.
const COMPARED: usize = 64;

/// All lanes of a recording, in the order of their first request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lanes {
    /// Lanes.
    pub lanes: Vec<Lane>,
}

/// Requests of one agent, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Id, such as `main`, `sub-1`, `side-2`.
    pub id: String,
    /// Kind of the lane.
    pub kind: LaneKind,
    /// Parent lane.
    pub parent: Option<String>,
    /// Call that started the lane.
    pub spawned_by: Option<CallId>,
    /// Agent type that the call asks for, such as `repo-scanner`.
    pub agent_type: Option<String>,
    /// Session id of the harness, if known.
    pub session: Option<String>,
    /// Agent id of the harness, if known.
    pub agent: Option<String>,
    /// Turns.
    pub turns: Vec<Turn>,
}

/// Kind of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneKind {
    /// Agent that the user talks to.
    Main,
    /// Agent that a tool call started.
    Sub,
    /// Agent that starts from another agent's history.
    Fork,
    /// Title, warm-up, or token count.
    Side,
}

/// One reply, and the request for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Number in the lane, from 1.
    pub turn: u32,
    /// Number in the recording, from 1. A spawn comes before its child, and a child's end before the result
    /// that carries it.
    pub seq: u32,
    /// Requests. The last one counts.
    pub attempts: Vec<RequestId>,
    /// New texts of the user in the request, shortened.
    pub asked: Vec<String>,
    /// Calls of the reply.
    pub calls: Vec<CallNote>,
    /// Results in the request.
    pub results: Vec<CarriedResult>,
    /// Texts in the request after the previous reply.
    pub texts: Vec<InjectedText>,
    /// Shortened text of the reply.
    pub text: Option<String>,
    /// Stop reason.
    pub stop: Option<StopReason>,
    /// Usage.
    pub usage: Usage,
    /// Anomalies.
    pub marks: Vec<TurnMark>,
    /// Time of the request, in the tracker's count of events.
    pub asked_at: u64,
    /// Time of the response, in the tracker's count of events.
    pub answered_at: Option<u64>,
    /// True if an attempt succeeded.
    pub whole: bool,
}

/// Summary of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallNote {
    /// Call id.
    pub id: CallId,
    /// Tool name.
    pub name: String,
    /// Beginning of the input.
    pub input: String,
}

impl Lanes {
    /// Returns the lane with that id.
    pub fn lane(&self, id: &str) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.id == id)
    }

    /// Returns the lanes that a lane started.
    pub fn children(&self, id: &str) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(move |lane| lane.parent.as_deref() == Some(id))
    }

    /// Returns the user's lane: the first main one.
    pub fn main(&self) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.kind == LaneKind::Main)
    }
}

impl Lane {
    /// Returns every request including retries, in the order of arrival.
    pub fn requests(&self) -> impl Iterator<Item = &RequestId> {
        self.turns.iter().flat_map(|turn| &turn.attempts)
    }

    /// Returns the text of the last reply that has one.
    pub fn final_text(&self) -> Option<&str> {
        self.turns.iter().rev().find_map(|turn| turn.text.as_deref())
    }

    /// Returns the usage of all turns.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.turns.iter().for_each(|turn| sum += turn.usage);
        sum
    }
}

impl LaneTracker {
    /// Returns all lanes after the last event.
    pub fn finish(mut self) -> Lanes {
        self.separate_forks();
        let homes = self.join_rewrites();
        self.match_late_prompts(&homes);
        self.bind_forks(&homes);
        let spawns = self.bind_prompts(&homes);
        let mut lanes = self.build_lanes(&homes, &spawns);
        lanes.extend(self.side_calls());
        number(&mut lanes);
        Lanes { lanes }
    }

    /// Appends each lane that continues another's history and outlives it to that lane. Returns the lane that
    /// holds the turns of each lane now.
    fn join_rewrites(&mut self) -> Vec<usize> {
        let mut homes: Vec<usize> = (0..self.lanes.len()).collect();
        for lane in 0..self.lanes.len() {
            let state = &self.lanes[lane];
            let Some((base, _)) = state.origin.branch.filter(|_| !state.origin.is_fork) else { continue };
            let home = homes[base];
            let began = self.lanes[lane].turns[0].attempts[0].asked_at;
            let lives_on = |attempt: &Attempt| {
                attempt.asked_at > began || (attempt.whole && attempt.ended_at.is_some_and(|end| end > began))
            };
            if self.lanes[home].turns.iter().flat_map(|turn| &turn.attempts).any(lives_on) {
                continue;
            }
            let mut turns = std::mem::take(&mut self.lanes[lane].turns);
            // Different instructions alone are no rewrite.
            turns[0].marks.extend((!self.lanes[lane].origin.is_side_question).then_some(TurnMark::Rewrite));
            self.lanes[home].turns.append(&mut turns);
            homes[lane] = home;
        }
        homes
    }

    /// Matches prompts of calls that became known only after their agent had begun, from the caller's next
    /// request.
    fn match_late_prompts(&mut self, homes: &[usize]) {
        for number in 0..self.lanes.len() {
            let lane = &self.lanes[number];
            if homes[number] != number
                || lane.origin.prompt_match.is_some()
                || lane.origin.branch.is_some()
                || lane.origin.opening_texts.is_empty()
            {
                continue;
            }
            let began = lane.turns[0].attempts[0].asked_at;
            let texts = lane.origin.opening_texts.iter().map(String::as_str);
            let prompt_match = self.prompts.find_in(texts, lane.origin.first_user_text.as_deref());
            let before = |call: &usize| {
                let call = &self.calls[*call];
                call.made_at < began && homes[call.at.0] != number
            };
            let prompt_match = prompt_match
                .filter(|prompt_match| self.prompts.calls(prompt_match.prompt).iter().any(before));
            self.lanes[number].origin.prompt_match = prompt_match;
        }
    }

    /// Returns the call that started each lane, and whether the lane is only a side call about its prompt.
    fn bind_prompts(&self, homes: &[usize]) -> HashMap<usize, Spawn> {
        let mut by_prompt: BTreeMap<usize, (u64, Vec<usize>)> = BTreeMap::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            let Some(prompt_match) = &lane.origin.prompt_match else { continue };
            let first = self.prompts.calls(prompt_match.prompt).first().copied().unwrap_or_default();
            by_prompt.entry(first).or_insert((prompt_match.prompt, Vec::new())).1.push(number);
        }
        let mut spawns = HashMap::new();
        for (prompt, lanes) in by_prompt.into_values() {
            let calls = self.prompts.calls(prompt);
            let is_agent =
                |lane: &&usize| self.lanes[**lane].setup.has_tools && !self.lanes[**lane].setup.is_probe;
            let (agents, plain): (Vec<usize>, Vec<usize>) = lanes.iter().partition(is_agent);
            // An agent may have no tools if no other lane opens with its prompt.
            let exact = |lane: &&usize| {
                self.lanes[**lane].origin.prompt_match.as_ref().is_some_and(|prompt_match| prompt_match.exact)
            };
            let free = calls.len().saturating_sub(agents.len());
            let (also, sides): (Vec<usize>, Vec<usize>) = match agents.is_empty() {
                true => plain.iter().partition(exact),
                false => (Vec::new(), plain),
            };
            let agents: Vec<usize> = agents.into_iter().chain(also.iter().copied().take(free)).collect();
            let sides = sides.into_iter().chain(also.into_iter().skip(free));
            spawns.extend(
                self.pair_calls(homes, &agents, calls)
                    .into_iter()
                    .map(|(lane, call)| (lane, Spawn { call, is_side: false })),
            );
            spawns.extend(
                sides.filter_map(|lane| Some((lane, Spawn { call: *calls.first()?, is_side: true }))),
            );
        }
        spawns
    }

    /// Matches lanes with calls that have the same prompt: by an id in what came back for the call, by the
    /// lane's final text in it, else in the order of arrival.
    fn pair_calls(&self, homes: &[usize], lanes: &[usize], calls: &[usize]) -> HashMap<usize, usize> {
        let mut pairs: HashMap<usize, usize> = HashMap::new();
        let mut taken: HashSet<usize> = HashSet::new();
        let began = |lane: usize| self.lanes[lane].turns[0].attempts[0].asked_at;
        let before = |lane: usize, call: usize| self.calls[call].made_at < began(lane);
        if (2..=COMPARED).contains(&lanes.len()) {
            let answers: HashMap<usize, Vec<&str>> =
                calls.iter().map(|call| (*call, self.answers_of(homes, *call))).collect();
            for tells in [Self::is_named_in, Self::has_final_text_in] {
                for &lane in lanes {
                    if pairs.contains_key(&lane) {
                        continue;
                    }
                    let fits = |call: &&usize| before(lane, **call) && !taken.contains(*call);
                    let mut told = calls.iter().filter(fits).filter(|call| tells(self, lane, &answers[call]));
                    let (first, second) = (told.next(), told.next());
                    let mut rivals =
                        lanes.iter().filter(|other| **other != lane && !pairs.contains_key(other));
                    // Lanes with equal final texts cannot be distinguished by them.
                    if let (Some(&call), None) = (first, second)
                        && !rivals.any(|other| tells(self, *other, &answers[&call]))
                    {
                        taken.insert(call);
                        pairs.insert(lane, call);
                    }
                }
            }
        }
        let mut free = calls.iter().copied().filter(|call| !taken.contains(call)).peekable();
        for &lane in lanes.iter().filter(|lane| !pairs.contains_key(lane)).collect::<Vec<_>>() {
            let exact =
                self.lanes[lane].origin.prompt_match.as_ref().is_some_and(|prompt_match| prompt_match.exact);
            let next = free.next_if(|call| before(lane, *call));
            // More lanes than calls: the harness restarted one of them, unless the lane only quotes the prompt.
            let again = || calls.iter().copied().rfind(|call| exact && before(lane, *call));
            pairs.extend(next.or_else(again).map(|call| (lane, call)));
        }
        pairs
    }

    /// Returns everything that came back for a call: its results, those of later calls with an id from them,
    /// and texts with such an id.
    pub(super) fn answers_of<'l>(&'l self, homes: &[usize], call: usize) -> Vec<&'l str> {
        let call = &self.calls[call];
        let turns = &self.lanes[homes[call.at.0]].turns;
        let results = |id: &CallId| -> Vec<&'l str> {
            let results = turns.iter().flat_map(|turn| &turn.results).filter(|result| result.call == *id);
            results.map(|result| result.text.as_str()).collect()
        };
        let own = results(&call.id);
        let others = turns.iter().flat_map(|turn| &turn.results).filter(|result| result.call != call.id);
        let shared: HashSet<&str> = others.flat_map(|result| words(&result.text)).collect();
        let ids: HashSet<&str> =
            own.iter().flat_map(|text| words(text)).filter(|word| !shared.contains(word)).collect();
        if ids.is_empty() {
            return own;
        }
        let names = |text: &str| all_words(text).any(|word| ids.contains(word));
        let made = turns.iter().filter_map(|turn| turn.reply.as_ref()).flat_map(|reply| &reply.calls);
        let naming = made.map(|call| &self.calls[*call]).filter(|other| names(&other.input));
        let asked = naming.flat_map(|other| results(&other.id));
        // One text may announce several jobs. The part about this one ends at the next other id.
        let part = |text: &'l str| {
            let from = ids.iter().filter_map(|id| text.find(id)).min()?;
            let rest = &text[from..];
            let until = shared.iter().filter_map(|other| rest.find(other)).min().unwrap_or(rest.len());
            Some(&rest[..until])
        };
        let texts = turns.iter().flat_map(|turn| &turn.texts).filter_map(|said| part(&said.text));
        own.iter().copied().chain(asked).chain(texts).collect()
    }

    fn is_named_in(&self, lane: usize, answers: &[&str]) -> bool {
        let identity = &self.lanes[lane].identity;
        let named =
            |id: &String| id.len() >= TELLING && answers.iter().any(|text| text.contains(id.as_str()));
        let session = identity.session.as_ref().filter(|_| identity.agent.is_none());
        identity.agent.as_ref().or(session).is_some_and(named)
    }

    pub(super) fn has_final_text_in(&self, lane: usize, answers: &[&str]) -> bool {
        let last = self.lanes[lane].turns.iter().rev().find_map(|turn| turn.reply.as_ref()?.text.as_deref());
        let last = last.map(str::trim).unwrap_or_default();
        let part = &last[..last.floor_char_boundary(256)];
        // A result may be JSON that contains the text.
        let escaped = serde_json::Value::from(part).to_string();
        let escaped = escaped.trim_matches('"');
        let holds = |text: &&str| {
            text.trim() == last || (last.len() >= TELLING && (text.contains(part) || text.contains(escaped)))
        };
        !last.is_empty() && answers.iter().any(holds)
    }

    fn build_lanes(&mut self, homes: &[usize], spawns: &HashMap<usize, Spawn>) -> Vec<Lane> {
        let kinds: Vec<LaneKind> = self.kinds(spawns);
        let mut counts: HashMap<LaneKind, usize> = HashMap::new();
        let mut ids = vec![String::new(); self.lanes.len()];
        let mut order: Vec<usize> = (0..self.lanes.len()).filter(|lane| homes[*lane] == *lane).collect();
        order.sort_by_key(|lane| self.lanes[*lane].turns[0].attempts[0].asked_at);
        for lane in order {
            ids[lane] = name(kinds[lane], &mut counts);
        }
        let by_session = |session: &String| {
            let owns =
                |lane: &&LaneState| lane.identity.session.as_ref() == Some(session) && lane.setup.has_tools;
            self.lanes.iter().position(|lane| owns(&lane))
        };
        let parents: Vec<Option<(usize, Option<usize>)>> = self
            .lanes
            .iter()
            .enumerate()
            .map(|(number, lane)| match spawns.get(&number) {
                Some(spawn) => Some((self.calls[spawn.call].at.0, Some(spawn.call))),
                None => match (lane.origin.branch, &lane.identity.parent) {
                    (Some((base, _)), _) => {
                        let call = lane
                            .origin
                            .fork_call
                            .as_ref()
                            .and_then(|id| self.calls.iter().rposition(|call| call.id == *id));
                        Some((base, call))
                    }
                    (None, Some(session)) => by_session(session).map(|parent| (parent, None)),
                    (None, None) => None,
                },
            })
            .collect();
        let mut lanes = Vec::new();
        for number in (0..self.lanes.len()).filter(|number| homes[*number] == *number) {
            let turns = std::mem::take(&mut self.lanes[number].turns);
            let (parent, call) = parents[number].unzip();
            let call = call.flatten().map(|call| &self.calls[call]);
            let identity = &self.lanes[number].identity;
            lanes.push(Lane {
                id: ids[number].clone(),
                kind: kinds[number],
                parent: parent.map(|parent| ids[homes[parent]].clone()),
                spawned_by: call.map(|call| call.id.clone()),
                agent_type: call.and_then(|call| agent_type(&call.input)),
                session: identity.session.clone(),
                agent: identity.agent.clone(),
                turns: turns.into_iter().map(|turn| self.turn(turn)).collect(),
            });
        }
        lanes
    }

    fn turn(&self, turn: super::state::TurnState) -> Turn {
        let reply = turn.reply.unwrap_or_default();
        let note = |call: &usize| {
            let call = &self.calls[*call];
            CallNote { id: call.id.clone(), name: call.name.clone(), input: call.input.clone() }
        };
        Turn {
            calls: reply.calls.iter().map(note).collect(),
            text: reply.text,
            stop: reply.stop,
            usage: reply.usage,
            whole: turn.attempts.iter().any(|attempt| attempt.whole),
            asked_at: turn.attempts[0].asked_at,
            answered_at: turn.attempts.last().and_then(|attempt| attempt.ended_at),
            attempts: turn.attempts.into_iter().map(|attempt| attempt.request).collect(),
            asked: turn.asked,
            results: turn.results,
            texts: turn.texts,
            marks: turn.marks,
            ..Turn::default()
        }
    }

    fn kinds(&self, spawns: &HashMap<usize, Spawn>) -> Vec<LaneKind> {
        let is_agent = |lane: &LaneState| lane.setup.has_tools && !lane.setup.is_probe;
        let is_root = |number: usize| {
            let lane = &self.lanes[number];
            !spawns.contains_key(&number) && lane.origin.branch.is_none() && lane.identity.parent.is_none()
        };
        let roots: Vec<usize> = (0..self.lanes.len()).filter(|number| is_root(*number)).collect();
        // If no lane has tools, the longest conversation is the user's.
        let longest = |number: &&usize| (self.lanes[**number].turns.len(), std::cmp::Reverse(**number));
        let plain_main = match roots.iter().any(|number| is_agent(&self.lanes[*number])) {
            true => None,
            false => roots.iter().max_by_key(longest).map(|number| self.lanes[*number].setup.system),
        };
        let kind = |(number, lane): (usize, &LaneState)| match spawns.get(&number) {
            Some(spawns) if spawns.is_side => LaneKind::Side,
            Some(_) => LaneKind::Sub,
            None if lane.origin.is_side_question && lane.turns.len() == 1 => LaneKind::Side,
            None if lane.origin.branch.is_some() => LaneKind::Fork,
            None if is_agent(lane) && lane.identity.parent.is_some() => LaneKind::Sub,
            None if is_agent(lane) || plain_main == Some(lane.setup.system) => LaneKind::Main,
            None => LaneKind::Side,
        };
        self.lanes.iter().enumerate().map(kind).collect()
    }

    /// Returns the requests that do not ask a model, one lane per kind.
    fn side_calls(&mut self) -> Vec<Lane> {
        let mut kinds: Vec<(String, Vec<Turn>)> = Vec::new();
        for (what, request, tick) in std::mem::take(&mut self.other_requests) {
            let turn = Turn { attempts: vec![request], asked_at: tick, ..Turn::default() };
            match kinds.iter_mut().find(|(known, _)| *known == what) {
                Some((_, turns)) => turns.push(turn),
                None => kinds.push((what, vec![turn])),
            }
        }
        let lane = |(what, turns): (String, Vec<Turn>)| Lane {
            id: String::new(),
            kind: LaneKind::Side,
            parent: None,
            spawned_by: None,
            agent_type: Some(what),
            session: None,
            agent: None,
            turns,
        };
        kinds.into_iter().map(lane).collect()
    }
}

struct Spawn {
    call: usize,
    is_side: bool,
}

/// Returns the next id of a kind: `main`, `main-2`; `sub-1`, `sub-2`.
fn name(kind: LaneKind, counts: &mut HashMap<LaneKind, usize>) -> String {
    let count = counts.entry(kind).or_default();
    *count += 1;
    match (kind, *count) {
        (LaneKind::Main, 1) => "main".to_owned(),
        (LaneKind::Main, n) => format!("main-{n}"),
        (LaneKind::Sub, n) => format!("sub-{n}"),
        (LaneKind::Fork, n) => format!("fork-{n}"),
        (LaneKind::Side, n) => format!("side-{n}"),
    }
}

/// Returns the agent type that a spawning call asks for, under its usual names.
fn agent_type(input: &str) -> Option<String> {
    ["subagent_type", "agent_type", "agent", "agent_name", "category"]
        .iter()
        .find_map(|name| wire::json::peek_string(input.as_bytes(), name))
}

/// Numbers the turns in their lane and over all lanes, and names the remaining side lanes.
fn number(lanes: &mut Vec<Lane>) {
    let mut sides = lanes.iter().filter(|lane| lane.kind == LaneKind::Side && !lane.id.is_empty()).count();
    for lane in lanes.iter_mut().filter(|lane| lane.id.is_empty()) {
        sides += 1;
        lane.id = format!("side-{sides}");
    }
    lanes.sort_by_key(|lane| lane.turns.first().map(|turn| turn.asked_at));
    // A request arrives after everything that it carries, so the order of arrival is valid.
    let mut order: Vec<&mut Turn> = Vec::new();
    for lane in lanes {
        for (at, turn) in lane.turns.iter_mut().enumerate() {
            turn.turn = at as u32 + 1;
            order.push(turn);
        }
    }
    order.sort_by_key(|turn| turn.asked_at);
    for (at, turn) in order.into_iter().enumerate() {
        turn.seq = at as u32 + 1;
    }
}
