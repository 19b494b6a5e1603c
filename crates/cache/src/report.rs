//! Report on all requests.

use session::RequestId;

use crate::explanation::Explanation;
use crate::prompt::CachePrompt;
use crate::tokens::TokenScale;
use crate::totals::CacheTotals;
use crate::unread_markers::UnreadMarker;

/// Cache behaviour of all requests.
#[derive(Clone, Debug, Default)]
pub struct CacheReport {
    /// Requests in the order of time.
    pub requests: Vec<Explanation>,
    /// Sums by lane, in the order of their first answered requests.
    pub lanes: Vec<(String, CacheTotals)>,
    /// Sum of all requests.
    pub total: CacheTotals,
    /// Names of the applied rules, with the month of their documentation.
    pub rules: Vec<(&'static str, &'static str)>,
    /// First prompt of each lane.
    pub openings: Vec<LaneOpening>,
    /// Markers that are written turn after turn and never read.
    pub unread: Vec<UnreadMarker>,
}

impl CacheReport {
    /// Removes all other lanes. Reads from removed lanes stay counted.
    pub fn retain_lanes(&mut self, wanted: impl Fn(&str) -> bool) {
        self.requests.retain(|request| wanted(&request.lane));
        self.lanes.retain(|(lane, _)| wanted(lane));
        self.openings.retain(|opening| wanted(&opening.lane));
        self.unread.retain(|unread| wanted(&unread.lane));
        self.total = CacheTotals::of(self.requests.iter());
    }
}

/// First prompt of a lane.
#[derive(Clone, Debug)]
pub struct LaneOpening {
    /// Lane.
    pub lane: String,
    /// First answered request, or the first one if none was answered.
    pub id: RequestId,
    /// Prompt of that request.
    pub prompt: CachePrompt,
    /// Prompt in tokens.
    pub scale: TokenScale,
}
