//! `normalized/`: every turn of a recording in order, and how the lanes are connected.
//!
//! All files are derived. The same input gives the same bytes.

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

use crate::error::OpenError;
use crate::file_names;
use crate::lanes::{Lane, LaneJob, LaneResponse, Turn};
use crate::source::{OrderedExchanges, Problem, Source, SourceRequest, SourceResponse};

pub use crate::envelope::{
    ENVELOPE, ENVELOPE_FORMAT, Envelope, SessionCall, SessionLane, SessionResult, SessionText, SessionTurn,
};
use files::{RequestFile, ResponseFile};
use join::Exported;

const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";

/// Error when writing `normalized/`.
#[derive(Debug, Error)]
pub enum NormalizeError {
    /// The folder cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// File.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Another folder has that name.
    #[error("`{}` exists but is not a folder of normalized turns", path.display())]
    InTheWay {
        /// Folder.
        path: PathBuf,
    },
}

/// Result of normalizing a recording.
#[derive(Debug)]
pub struct Normalized {
    /// Lanes and exchanges.
    pub ordered: OrderedExchanges,
    /// Session as one tree.
    pub envelope: Envelope,
}

/// Contents of `normalized/manifest.json`.
#[derive(Serialize)]
struct NormalizedManifest<'n> {
    format: u32,
    source: &'static str,
    exchanges: usize,
    turns: Vec<TurnEntry<'n>>,
    lanes: Vec<LaneEntry<'n>>,
    jobs: Vec<LaneJob>,
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

/// Position of an exchange: lane, turn, and attempt.
#[derive(Clone, Copy)]
struct AttemptPosition<'n> {
    lane: &'n Lane,
    turn: &'n Turn,
    attempt: usize,
}

impl AttemptPosition<'_> {
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

/// Returns the default folder of the normalized turns: `normalized/` in the folder of the source.
pub fn default_folder(source: &Source) -> PathBuf {
    source.dir().join(file_names::NORMALIZED)
}

/// Orders the exchanges of a folder and writes `normalized/` into it. `exported` is the harness's own export;
/// it adds session, agent and message ids.
pub fn normalize(source: &Source, exported: Option<&Envelope>) -> Result<Normalized, NormalizeError> {
    normalize_into(source, exported, &default_folder(source))
}

/// Does the same with another folder `target`, which must be empty, missing, or such a folder.
pub fn normalize_into(
    source: &Source,
    exported: Option<&Envelope>,
    target: &Path,
) -> Result<Normalized, NormalizeError> {
    let mut ordered = source.order();
    let exported = exported.map(Exported::of);
    if let Some(exported) = &exported {
        exported.name_lanes(&mut ordered.lanes);
    }
    let is_there = fs::symlink_metadata(target);
    let is_ours = || target.join(MANIFEST).exists() || is_empty(target);
    if is_there.is_ok_and(|found| !found.is_dir() || !is_ours()) {
        return Err(NormalizeError::InTheWay { path: target.to_owned() });
    }
    let (name, parent) = (target.file_name().unwrap_or_default(), target.parent());
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fresh = parent.join(format!(".{}.new", name.to_string_lossy()));
    let write = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).map_err(|source| NormalizeError::Write { path: path.to_owned(), source })
    };
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| NormalizeError::Write { path, source }
    };
    fs::create_dir_all(parent).map_err(failed(parent))?;
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
        fs::remove_dir_all(target).map_err(failed(target))?;
    }
    fs::rename(&fresh, target).map_err(failed(target))?;
    Ok(Normalized { ordered, envelope })
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns the same as [`normalize`] without writing files.
pub fn session(source: &Source, exported: Option<&Envelope>) -> (OrderedExchanges, Envelope) {
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

/// Builds the session as one tree from the wire alone.
pub fn envelope(source: &Source, ordered: &OrderedExchanges) -> Envelope {
    let positions = attempt_positions(ordered);
    let mut turns = HashMap::new();
    for n in 0..source.len() {
        let Ok(request) = source.request(n) else { continue };
        let Some(position) = positions.get(&request.id).filter(|position| position.is_last()) else {
            continue;
        };
        let response = source.response(n).ok().flatten();
        let (turn, model) = session_turn(position, &request, response.as_ref());
        turns.insert(request.id, (turn, model));
    }
    assemble(ordered, turns)
}

fn attempt_positions(ordered: &OrderedExchanges) -> HashMap<RequestId, AttemptPosition<'_>> {
    let mut positions = HashMap::new();
    for lane in &ordered.lanes.lanes {
        for turn in &lane.turns {
            for (attempt, request) in turn.attempts.iter().enumerate() {
                positions.insert(request.clone(), AttemptPosition { lane, turn, attempt });
            }
        }
    }
    positions
}

type Turns = HashMap<RequestId, (SessionTurn, Option<String>)>;

fn write_turns<'o>(
    source: &Source,
    ordered: &'o OrderedExchanges,
    dir: &Path,
) -> Result<(HashMap<RequestId, AttemptEntry<'o>>, Envelope), NormalizeError> {
    let positions = attempt_positions(ordered);
    let mut entries = HashMap::new();
    let mut turns = Turns::new();
    for n in 0..source.len() {
        // Unreadable requests are listed as problems already.
        let Ok(request) = source.request(n) else { continue };
        let Some(position) = positions.get(&request.id) else { continue };
        let response = source.response(n).ok().flatten();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes).map_err(|source| NormalizeError::Write { path, source })
        };
        let (request_file, response_file) = (position.file("request"), position.file("response"));
        write(&request_file, &RequestFile::new(position, &request).to_json())?;
        if let Some(response) = &response {
            write(&response_file, &ResponseFile::new(position, &request, response).to_json())?;
        }
        if position.is_last() {
            turns.insert(request.id.clone(), session_turn(position, &request, response.as_ref()));
        }
        let is_raw = request.body.origin.is_raw()
            && response.as_ref().is_none_or(|response| response.body.origin.is_raw());
        let entry = AttemptEntry {
            request_id: &position.turn.attempts[position.attempt],
            request: request_file,
            response: response.is_some().then_some(response_file),
            raw: is_raw,
        };
        entries.insert(request.id, entry);
    }
    Ok((entries, assemble(ordered, turns)))
}

/// Builds the turn of a request and its reply, and returns the requested model.
fn session_turn(
    position: &AttemptPosition<'_>,
    request: &SourceRequest,
    response: Option<&SourceResponse>,
) -> (SessionTurn, Option<String>) {
    let body = request.body.bytes.as_deref().unwrap_or_default();
    let dialect = wire::dialect::Dialect::detect(&request.url, body);
    let prompt = dialect.and_then(|dialect| dialect.decode_request(body).ok());
    let decoded = response.map(|response| response.decode(dialect)).unwrap_or_default();
    let AttemptPosition { turn, .. } = position;
    let (results, injected) = prompt.as_ref().map(|prompt| new_input(prompt, turn)).unwrap_or_default();
    let model = prompt.and_then(|prompt| prompt.model);
    (
        SessionTurn {
            turn: turn.turn,
            seq: turn.seq,
            requests: turn.attempts.clone(),
            message: request.sender.message.clone(),
            marks: turn.marks.clone(),
            results,
            injected,
            calls: calls(&decoded),
            text: decoded.reply.as_ref().and_then(session::Reply::text),
            stop: turn.stop.clone(),
            usage: turn.usage,
        },
        model,
    )
}

fn calls(decoded: &LaneResponse) -> Vec<SessionCall> {
    let input = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.into());
    let call = |call: &session::ToolCall| SessionCall {
        id: call.id.clone(),
        name: call.name.clone(),
        input: input(&call.input),
        started: Vec::new(),
    };
    decoded.reply.iter().flat_map(session::Reply::calls).map(call).collect()
}

/// Returns the complete results and texts of a request after the last reply.
fn new_input(prompt: &Prompt, turn: &Turn) -> (Vec<SessionResult>, Vec<SessionText>) {
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

fn assemble(ordered: &OrderedExchanges, mut turns: Turns) -> Envelope {
    let mut jobs: HashMap<String, LaneJob> =
        ordered.lanes.jobs().into_iter().map(|job| (job.lane.clone(), job)).collect();
    let lane = |lane: &Lane| {
        let last = |turn: &Turn| turn.attempts.last().cloned();
        let mut model = None;
        let told = lane.turns.iter().filter_map(|turn| {
            let (turn, request) = turns.remove(&last(turn)?)?;
            model = model.take().or(request);
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
    ordered: &'n OrderedExchanges,
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
