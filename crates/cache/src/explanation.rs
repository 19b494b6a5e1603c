//! What is asked of the explainer, and what it says.

use std::ops::Range;

use session::{RequestId, Usage};

use crate::confidence::Confidence;
use crate::prompt::{CachePrompt, Section};
use crate::reason::Reason;
use crate::tokens::TokenScale;
use crate::totals::CacheTotals;
use crate::unread_markers::UnreadMarker;

/// A request that was made.
#[derive(Clone, Debug)]
pub struct ObservedRequest {
    /// Its name.
    pub id: RequestId,
    /// Whose it is.
    pub lane: String,
    /// The lane that its lane starts from, where that is a fork.
    pub fork_of: Option<String>,
    /// Its turn in the lane, from 1.
    pub turn: u32,
    /// When it was made, in microseconds since whatever moment.
    pub at_us: u64,
    /// When its answer began; nothing where it never did.
    pub begun_us: Option<u64>,
    /// Its conversation was summed up since the last one, and begins anew.
    pub begins_anew: bool,
    /// What it asks.
    pub prompt: CachePrompt,
    /// What the provider says it used.
    pub reported: Option<Usage>,
}

/// What became of all requests.
#[derive(Clone, Debug, Default)]
pub struct CacheReport {
    /// Each, in the order they were made.
    pub requests: Vec<Explanation>,
    /// Sums by lane, in the order of their first requests that were answered.
    pub lanes: Vec<(String, CacheTotals)>,
    /// The sum of all.
    pub total: CacheTotals,
    /// The rules that were used, each with the month it is of.
    pub rules: Vec<(&'static str, &'static str)>,
    /// How each lane begins.
    pub openings: Vec<LaneOpening>,
    /// Markers that are written turn after turn, and never read.
    pub unread: Vec<UnreadMarker>,
}

impl CacheReport {
    /// Leaves out all lanes but some. What they read of others stays read.
    pub fn retain_lanes(&mut self, wanted: impl Fn(&str) -> bool) {
        self.requests.retain(|request| wanted(&request.lane));
        self.lanes.retain(|(lane, _)| wanted(lane));
        self.openings.retain(|opening| wanted(&opening.lane));
        self.unread.retain(|unread| wanted(&unread.lane));
        self.total = CacheTotals::of(self.requests.iter());
    }
}

/// How a lane begins.
#[derive(Clone, Debug)]
pub struct LaneOpening {
    /// The lane.
    pub lane: String,
    /// Its first request that was answered; where none was, its first.
    pub id: RequestId,
    /// What that asks.
    pub prompt: CachePrompt,
    /// The same in tokens.
    pub scale: TokenScale,
}

/// What became of one request.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Its name.
    pub id: RequestId,
    /// Its lane.
    pub lane: String,
    /// The lane that its lane starts from, where that is a fork.
    pub fork_of: Option<String>,
    /// Its turn.
    pub turn: u32,
    /// The model.
    pub model: String,
    /// What the cache should have read and written.
    pub predicted: Usage,
    /// What the usage says.
    pub reported: Option<Usage>,
    /// The same request behind a perfect prefix.
    pub perfect: Usage,
    /// How far usage and prediction agree.
    pub confidence: Confidence,
    /// Why it read less than it might have; nothing where it read all there was.
    pub reason: Option<Reason>,
    /// The rest of a miss.
    pub miss: Option<CacheMiss>,
    /// The bytes foretell a miss, and the usage has read all of it: there was none.
    pub is_disproved: bool,
    /// The request it should have gone on from.
    pub after: Option<RequestId>,
    /// Tokens at its beginning that this one said, too.
    pub repeated: u64,
}

impl Explanation {
    /// Of a request that nothing has become of.
    pub(crate) fn of(ask: &ObservedRequest) -> Self {
        Self {
            id: ask.id.clone(),
            lane: ask.lane.clone(),
            fork_of: ask.fork_of.clone(),
            turn: ask.turn,
            model: ask.prompt.model.clone(),
            predicted: Usage::default(),
            reported: ask.reported,
            perfect: Usage::default(),
            confidence: Confidence::Unchecked,
            reason: Some(Reason::Unanswered),
            miss: None,
            is_disproved: false,
            after: None,
            repeated: 0,
        }
    }

    /// Whether an answer came.
    pub fn is_answered(&self) -> bool {
        self.reason != Some(Reason::Unanswered)
    }
}

/// A prefix that was written and not read, and what it came to.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheMiss {
    /// The first block that is not the same, from 1; where all are, the last one that was written.
    pub block: usize,
    /// The section it stands in.
    pub section: Section,
    /// Where, in this request; in the other one where this one has nothing there.
    pub pointer: String,
    /// The bytes of that block: here, and in the request before.
    pub spans: [Option<Range<usize>>; 2],
    /// How many tokens could have been read and were not.
    pub tokens: u64,
    /// What that cost, in dollars.
    pub usd: Option<f64>,
    /// What it would cost where the provider does not do what it says.
    pub at_stake: Option<AvoidedMiss>,
}

/// A change that costs nothing by the provider's own word.
#[derive(Clone, Debug, PartialEq)]
pub struct AvoidedMiss {
    /// The tool that came, and stands beside the prefix.
    pub tool: String,
    /// The tokens behind it.
    pub tokens: u64,
    /// What writing them again would cost, in dollars.
    pub usd: Option<f64>,
}
