//! The report of a scripted model.

/// The report of a scripted model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptReport {
    /// Number of requests with a scripted reply or a scripted error.
    pub answered: u64,
    /// Number of requests without a reply.
    pub unanswered: u64,
    /// The reason why the first of them has no reply.
    pub first_unanswered: Option<String>,
    /// Turns that were never used, in the script's order. Turns with a `when` and lanes for side calls may remain unused.
    pub unused: Vec<UnusedTurn>,
}

/// A turn that was never used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedTurn {
    /// The lane of the script.
    pub lane: String,
    /// 1-based number in the lane.
    pub turn: usize,
}
