//! Input and output of the explanation.

use std::ops::Range;

use session::{RequestId, Usage};

use crate::confidence::Confidence;
use crate::observed::ObservedRequest;
use crate::reason::Reason;
use crate::section::Section;

/// Cache behaviour of one request.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Request id.
    pub id: RequestId,
    /// Lane.
    pub lane: String,
    /// Parent of the lane, if the lane is a fork.
    pub fork_of: Option<String>,
    /// Turn.
    pub turn: u32,
    /// Model.
    pub model: String,
    /// Predicted reads and writes.
    pub predicted: Usage,
    /// Reported usage.
    pub reported: Option<Usage>,
    /// Usage of the same request after a perfect prefix.
    pub perfect: Usage,
    /// Agreement of the reported usage with the prediction.
    pub confidence: Confidence,
    /// Reason why it read less than possible; `None` if it read everything.
    pub reason: Option<Reason>,
    /// Details of a miss.
    pub miss: Option<CacheMiss>,
    /// True if the bytes predict a miss but the usage shows a full read.
    pub is_disproved: bool,
    /// Request that this one should have continued.
    pub after: Option<RequestId>,
    /// Tokens at the start that are the same as in that request.
    pub repeated: u64,
}

impl Explanation {
    /// Creates the explanation of an unanswered request.
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

    /// Returns whether the request was answered.
    pub fn is_answered(&self) -> bool {
        self.reason != Some(Reason::Unanswered)
    }
}

/// Prefix that was written and not read, with its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheMiss {
    /// First differing block, from 1; the last written block if all are equal.
    pub block: usize,
    /// Section of the block.
    pub section: Section,
    /// Pointer in this request, or in the earlier one if this one has nothing there.
    pub pointer: String,
    /// Ranges of the block: in this request, and in the earlier one.
    pub spans: [Option<Range<usize>>; 2],
    /// Tokens that could have been read and were not.
    pub tokens: u64,
    /// Cost in dollars.
    pub usd: Option<f64>,
    /// Cost if the provider does not follow its documentation.
    pub at_stake: Option<AvoidedMiss>,
}

/// Change that costs nothing if the provider follows its documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct AvoidedMiss {
    /// Added tool that is not in the prefix.
    pub tool: String,
    /// Tokens after it.
    pub tokens: u64,
    /// Cost of writing them again, in dollars.
    pub usd: Option<f64>,
}
