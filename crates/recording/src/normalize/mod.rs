//! `normalized/`: every turn of a recording in order, and what connects them.
//!
//! All of it is derived and can be made again: the same input gives the same bytes.

mod envelope;
mod files;
mod join;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use session::{Block, RequestId};
use thiserror::Error;
use wire::dialect::Prompt;

use crate::folder;
use crate::lanes::{Heard, Job, Lane, Turn};
use crate::open::OpenError;
use crate::source::{Answered, Asked, Ordered, Problem, Source};

pub use envelope::{
    ENVELOPE_FORMAT, Envelope, SessionCall, SessionLane, SessionResult, SessionText, SessionTurn,
};
use files::{RequestFile, ResponseFile};
use join::Exported;

const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
/// The name of the session's file.
pub const ENVELOPE: &str = "replay_session.json";

/// Why `normalized/` could not be written.
#[derive(Debug, Error)]
pub enum NormalizeError {
    /// The folder cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is a folder of that name that somebody else made.
    #[error("`{}` is in the way: it is not a folder of normalized turns", path.display())]
    InTheWay {
        /// The folder.
        path: PathBuf,
    },
}

/// What was written.
#[derive(Debug)]
pub struct Normalized {
    /// The lanes, and each exchange in short.
    pub ordered: Ordered,
    /// The session as one tree.
    pub envelope: Envelope,
}

/// `normalized/manifest.json`
#[derive(Serialize)]
struct NormalizedManifest<'n> {
    format: u32,
    source: &'static str,
    exchanges: usize,
    turns: Vec<TurnEntry<'n>>,
    lanes: Vec<LaneEntry<'n>>,
    jobs: Vec<Job>,
    problems: &'n [Problem],
}

#[derive(Serialize)]
struct TurnEntry<'n> {
    seq: u32,
    lane: &'n str,
    turn: u32,
    attempts: Vec<AttemptEntry<'n>>,
}

#[derive(Serialize)]
struct AttemptEntry<'n> {
    request_id: &'n RequestId,
    request: String,
    response: Option<String>,
    raw: bool,
}

#[derive(Serialize)]
struct LaneEntry<'n> {
    id: &'n str,
    kind: crate::lanes::LaneKind,
    parent: Option<&'n str>,
    spawned_by: Option<&'n session::CallId>,
    agent_type: Option<&'n str>,
    session: Option<&'n str>,
    agent: Option<&'n str>,
    exchanges: Vec<&'n RequestId>,
}

/// Where an exchange stands.
#[derive(Clone, Copy)]
struct Stand<'n> {
    lane: &'n Lane,
    turn: &'n Turn,
    attempt: usize,
}

impl Stand<'_> {
    fn is_last(&self) -> bool {
        self.attempt + 1 == self.turn.attempts.len()
    }

    fn file(&self, half: &str) -> String {
        match self.is_last() {
            true => format!("turn_{:03}_{half}.json", self.turn.seq),
            false => format!("turn_{:03}_attempt_{}_{half}.json", self.turn.seq, self.attempt + 1),
        }
    }
}

/// Orders the exchanges of a folder and writes `normalized/` into it. `exported` is the session as
/// the harness itself tells it; it adds session, agent and message ids.
pub fn normalize(source: &Source, exported: Option<&Envelope>) -> Result<Normalized, NormalizeError> {
    let mut ordered = source.order();
    let exported = exported.map(Exported::of);
    if let Some(exported) = &exported {
        exported.name_lanes(&mut ordered.lanes);
    }
    let target = source.dir().join(folder::NORMALIZED);
    let is_there = fs::symlink_metadata(&target);
    if is_there.is_ok_and(|found| !found.is_dir() || !target.join(MANIFEST).exists()) {
        return Err(NormalizeError::InTheWay { path: target });
    }
    let fresh = source.dir().join(format!(".{}.new", folder::NORMALIZED));
    let write = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).map_err(|source| NormalizeError::Write { path: path.to_owned(), source })
    };
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| NormalizeError::Write { path, source }
    };
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(failed(&fresh))?;
    }
    fs::create_dir(&fresh).map_err(failed(&fresh))?;
    let (attempts, mut envelope) = write_turns(source, &ordered, &fresh)?;
    if let Some(exported) = &exported {
        exported.name_messages(&mut envelope);
    }
    let manifest = manifest(source, &ordered, attempts);
    write(&fresh.join(MANIFEST), &pretty(&manifest))?;
    write(&fresh.join(ENVELOPE), &envelope.to_json())?;
    if target.exists() {
        fs::remove_dir_all(&target).map_err(failed(&target))?;
    }
    fs::rename(&fresh, &target).map_err(failed(&target))?;
    Ok(Normalized { ordered, envelope })
}

/// The exchanges in order and the session as one tree, as [`normalize`] finds them, without writing anything.
pub fn session(source: &Source, exported: Option<&Envelope>) -> (Ordered, Envelope) {
    let mut ordered = source.order();
    let exported = exported.map(Exported::of);
    if let Some(exported) = &exported {
        exported.name_lanes(&mut ordered.lanes);
    }
    let mut envelope = envelope(source, &ordered);
    if let Some(exported) = &exported {
        exported.name_messages(&mut envelope);
    }
    (ordered, envelope)
}

/// The session as one tree, of what is on the wire alone.
pub fn envelope(source: &Source, ordered: &Ordered) -> Envelope {
    let stands = stands(ordered);
    let mut turns = HashMap::new();
    for n in 0..source.len() {
        let Ok(asked) = source.asked(n) else { continue };
        let Some(stand) = stands.get(&asked.id).filter(|stand| stand.is_last()) else { continue };
        let answered = source.answered(n).ok().flatten();
        let (turn, model) = session_turn(stand, &asked, answered.as_ref());
        turns.insert(asked.id, (turn, model));
    }
    assemble(ordered, turns)
}

fn stands(ordered: &Ordered) -> HashMap<RequestId, Stand<'_>> {
    let mut stands = HashMap::new();
    for lane in &ordered.lanes.lanes {
        for turn in &lane.turns {
            for (attempt, request) in turn.attempts.iter().enumerate() {
                stands.insert(request.clone(), Stand { lane, turn, attempt });
            }
        }
    }
    stands
}

type Turns = HashMap<RequestId, (SessionTurn, Option<String>)>;

fn write_turns<'o>(
    source: &Source,
    ordered: &'o Ordered,
    dir: &Path,
) -> Result<(HashMap<RequestId, AttemptEntry<'o>>, Envelope), NormalizeError> {
    let stands = stands(ordered);
    let mut entries = HashMap::new();
    let mut turns = Turns::new();
    for n in 0..source.len() {
        // What cannot be read is among the problems already.
        let Ok(asked) = source.asked(n) else { continue };
        let Some(stand) = stands.get(&asked.id) else { continue };
        let answered = source.answered(n).ok().flatten();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes).map_err(|source| NormalizeError::Write { path, source })
        };
        let (request, response) = (stand.file("request"), stand.file("response"));
        write(&request, &RequestFile::new(stand, &asked).to_json())?;
        if let Some(answered) = &answered {
            write(&response, &ResponseFile::new(stand, &asked, answered).to_json())?;
        }
        if stand.is_last() {
            turns.insert(asked.id.clone(), session_turn(stand, &asked, answered.as_ref()));
        }
        let is_raw = asked.body.origin.is_raw()
            && answered.as_ref().is_none_or(|answered| answered.body.origin.is_raw());
        let entry = AttemptEntry {
            request_id: &stand.turn.attempts[stand.attempt],
            request,
            response: answered.is_some().then_some(response),
            raw: is_raw,
        };
        entries.insert(asked.id, entry);
    }
    Ok((entries, assemble(ordered, turns)))
}

/// The turn that a request and its reply make, and the model that was asked.
fn session_turn(
    stand: &Stand<'_>,
    asked: &Asked,
    answered: Option<&Answered>,
) -> (SessionTurn, Option<String>) {
    let body = asked.body.bytes.as_deref().unwrap_or_default();
    let dialect = wire::dialect::Dialect::detect(&asked.url, body);
    let prompt = dialect.and_then(|dialect| dialect.decode_request(body).ok());
    let heard = answered.map(|answered| answered.heard(dialect)).unwrap_or_default();
    let Stand { turn, .. } = stand;
    let (results, injected) = prompt.as_ref().map(|prompt| brought(prompt, turn)).unwrap_or_default();
    let model = prompt.and_then(|prompt| prompt.model);
    (
        SessionTurn {
            turn: turn.turn,
            seq: turn.seq,
            requests: turn.attempts.clone(),
            message: asked.named.message.clone(),
            marks: turn.marks.clone(),
            results,
            injected,
            calls: calls(&heard),
            text: heard.reply.as_ref().and_then(session::Reply::text),
            stop: turn.stop.clone(),
            usage: turn.usage,
        },
        model,
    )
}

fn calls(heard: &Heard) -> Vec<SessionCall> {
    let input = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.into());
    let call = |call: &session::ToolCall| SessionCall {
        id: call.id.clone(),
        name: call.name.clone(),
        input: input(&call.input),
        started: Vec::new(),
    };
    heard.reply.iter().flat_map(session::Reply::calls).map(call).collect()
}

/// What a request brings behind the last reply, whole.
fn brought(prompt: &Prompt, turn: &Turn) -> (Vec<SessionResult>, Vec<SessionText>) {
    let texts = |blocks: &[Block]| {
        let text = |block: &Block| match block {
            Block::Text { text } => Some(text.clone()),
            _ => None,
        };
        blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
    };
    let carried =
        prompt.results().filter(|result| turn.results.iter().any(|known| known.call == result.call));
    let results = carried.map(|result| SessionResult {
        call: result.call.clone(),
        text: texts(&result.blocks),
        is_error: result.is_error,
    });
    let behind =
        prompt.conversation().iter().rev().take_while(|message| message.role != session::Role::Assistant);
    let behind: Vec<_> = behind.collect();
    let injected = behind.into_iter().rev().flat_map(|message| {
        let said = message.parts.iter().filter_map(|part| match &part.block {
            Block::Text { text } => Some(SessionText { role: message.role, text: text.clone() }),
            _ => None,
        });
        said.collect::<Vec<_>>()
    });
    (results.collect(), injected.collect())
}

fn assemble(ordered: &Ordered, mut turns: Turns) -> Envelope {
    let mut jobs: HashMap<String, Job> =
        ordered.lanes.jobs().into_iter().map(|job| (job.lane.clone(), job)).collect();
    let lane = |lane: &Lane| {
        let last = |turn: &Turn| turn.attempts.last().cloned();
        let mut model = None;
        let told = lane.turns.iter().filter_map(|turn| {
            let (turn, asked) = turns.remove(&last(turn)?)?;
            model = model.take().or(asked);
            Some(turn)
        });
        let told: Vec<SessionTurn> = told.collect();
        SessionLane {
            id: lane.id.clone(),
            kind: lane.kind,
            parent: lane.parent.clone(),
            spawned_by: lane.spawned_by.clone(),
            agent_type: lane.agent_type.clone(),
            session: lane.session.clone(),
            agent: lane.agent.clone(),
            model,
            job: jobs.remove(&lane.id),
            final_text: told.iter().rev().find_map(|turn| turn.text.clone()),
            turns: told,
            usage: lane.usage(),
        }
    };
    Envelope::from_lanes("wire", ordered.lanes.lanes.iter().map(lane).collect())
}

fn manifest<'n>(
    source: &Source,
    ordered: &'n Ordered,
    mut attempts: HashMap<RequestId, AttemptEntry<'n>>,
) -> NormalizedManifest<'n> {
    let mut turns: Vec<TurnEntry<'n>> = Vec::new();
    for lane in &ordered.lanes.lanes {
        for turn in &lane.turns {
            let attempts = turn.attempts.iter().filter_map(|request| attempts.remove(request)).collect();
            turns.push(TurnEntry { seq: turn.seq, lane: &lane.id, turn: turn.turn, attempts });
        }
    }
    turns.sort_by_key(|turn| turn.seq);
    let lane = |lane: &'n Lane| LaneEntry {
        id: &lane.id,
        kind: lane.kind,
        parent: lane.parent.as_deref(),
        spawned_by: lane.spawned_by.as_ref(),
        agent_type: lane.agent_type.as_deref(),
        session: lane.session.as_deref(),
        agent: lane.agent.as_deref(),
        exchanges: lane.requests().collect(),
    };
    NormalizedManifest {
        format: FORMAT,
        source: if source.recording().is_some() { "recording" } else { "dumps" },
        exchanges: source.len(),
        turns,
        lanes: ordered.lanes.lanes.iter().map(lane).collect(),
        jobs: ordered.lanes.jobs(),
        problems: &ordered.problems,
    }
}

fn pretty<T: Serialize>(value: &T) -> Vec<u8> {
    let mut json = serde_json::to_vec_pretty(value).expect("it has only string keys");
    json.push(b'\n');
    json
}
