//! State of the tracker: lanes under construction, their turns, and indexes of both.

use std::collections::HashMap;

use session::{CallId, RequestId, StopReason, Usage};

use super::identity::Identity;
use super::prompts::{PromptIndex, PromptMatch};
use super::request::{Atom, CarriedResult, Gap, InjectedText, InstructionDigests};

/// Finds the lane and turn of each request from the wire alone.
///
/// Requests are added in the order of their arrival, responses when they end. Questions that only the end of a
/// recording can answer (fork or rewritten history? whose sub-agent?) are left to [`LaneTracker::finish`].
#[derive(Debug, Default)]
pub struct LaneTracker {
    pub(super) lanes: Vec<LaneState>,
    pub(super) calls: Vec<Call>,
    pub(super) prompts: PromptIndex,
    pub(super) other_requests: Vec<(String, RequestId, u64)>,
    pub(super) positions: HashMap<RequestId, (usize, usize, usize)>,
    /// Turns by the digest of the replies before theirs.
    pub(super) turns_by_replies: HashMap<u64, Vec<TurnIndex>>,
    /// Turns by the digest of the replies up to and including theirs.
    pub(super) turns_by_replies_after: HashMap<u64, Vec<TurnIndex>>,
    /// Turns by the digest of their request, if it carries no replies.
    pub(super) turns_by_first_request: HashMap<u64, Vec<TurnIndex>>,
    /// Lanes by their dialect, model, system prompt and tools.
    pub(super) lanes_by_setup: HashMap<u64, Vec<usize>>,
    /// Turns whose reply contains an atom, the newest last.
    pub(super) turns_by_atom: HashMap<Atom, Vec<TurnIndex>>,
    pub(super) items: HashMap<String, Vec<Atom>>,
    pub(super) instructions: InstructionDigests,
    pub(super) turns_by_reply: HashMap<String, TurnIndex>,
    pub(super) tick: u64,
}

/// Turn by the numbers of its lane and itself.
pub(super) type TurnIndex = (usize, usize);

/// Lane under construction.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    pub(super) turns: Vec<TurnState>,
    pub(super) identity: Identity,
    pub(super) origin: LaneOrigin,
    pub(super) setup: LaneSetup,
    /// Lane whose history this one carries without being it, such as for a summary.
    pub(super) subject: Option<usize>,
    /// Texts of such lanes about this one.
    pub(super) notes: Vec<String>,
    /// Opening texts of each request without replies.
    pub(super) openings: Vec<Vec<u64>>,
    /// Gaps of the newest request.
    pub(super) gaps: Vec<Gap>,
}

/// Origin of a lane: another lane's history, a call, or neither.
#[derive(Debug, Default)]
pub(super) struct LaneOrigin {
    /// Branch point: the other lane, and the number of shared turns.
    pub(super) branch: Option<TurnIndex>,
    /// True if its first request says that it is a fork.
    pub(super) is_marked_fork: bool,
    /// True if it is a fork, by its own text or by the prompt of a call, and never a rewrite.
    pub(super) is_fork: bool,
    /// Call that started the fork, if its prompt names it.
    pub(super) fork_call: Option<CallId>,
    pub(super) prompt_match: Option<PromptMatch>,
    /// True if it began under other instructions than the lane whose history it carries.
    pub(super) is_side_question: bool,
    /// Opening texts.
    pub(super) opening_texts: Vec<String>,
    /// First of them from the user.
    pub(super) first_user_text: Option<String>,
}

/// Instructions and tools of a lane's first request.
#[derive(Debug, Default)]
pub(super) struct LaneSetup {
    pub(super) dialect: u64,
    /// Model of the newest request.
    pub(super) model: u64,
    pub(super) system: u64,
    /// Sample of the words of its instructions.
    pub(super) instruction_sample: Vec<u64>,
    pub(super) has_tools: bool,
    pub(super) is_probe: bool,
}

#[derive(Debug)]
pub(super) struct TurnState {
    pub(super) replies_digest: u64,
    pub(super) history: u64,
    pub(super) attempts: Vec<Attempt>,
    pub(super) reply: Option<TurnReply>,
    /// New texts of the user, shortened.
    pub(super) asked: Vec<String>,
    pub(super) results: Vec<CarriedResult>,
    pub(super) texts: Vec<InjectedText>,
    pub(super) marks: Vec<TurnMark>,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) request: RequestId,
    pub(super) asked_at: u64,
    pub(super) ended_at: Option<u64>,
    pub(super) whole: bool,
}

/// Summary of a turn's reply.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnReply {
    /// Spine after the reply.
    pub(super) replies_digest: u64,
    pub(super) calls: Vec<usize>,
    pub(super) text: Option<String>,
    pub(super) stop: Option<StopReason>,
    pub(super) usage: Usage,
}

/// Call, and the turn that made it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) name: String,
    /// Beginning of the input.
    pub(super) input: String,
    pub(super) at: TurnIndex,
    pub(super) made_at: u64,
}

/// Anomaly of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnMark {
    /// The harness changed its earlier messages.
    Rewrite,
    /// The harness replaced the history by a summary.
    Compaction,
    /// A text was inserted before an existing reply, which no replay can reproduce.
    LateText,
}

impl TurnState {
    pub(super) fn is_open(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.ended_at.is_none())
    }

    pub(super) fn is_whole(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.whole)
    }

    /// Returns whether every attempt ended and none succeeded.
    pub(super) fn has_failed(&self) -> bool {
        !self.is_open() && !self.is_whole()
    }
}
