//! What a scripted model can say of its own performance.

/// How a script went so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptReport {
    /// Requests that got what the script says, its errors included.
    pub answered: u64,
    /// Requests that the script has nothing for.
    pub unanswered: u64,
    /// Why the first of them got no answer: lane, turn and what was missing.
    pub first_unanswered: Option<String>,
    /// Turns that were never used, in the script's order. One with a `when`, or of a lane for side calls,
    /// may well be left over.
    pub unused: Vec<UnusedTurn>,
}

/// A turn that was never used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedTurn {
    /// The script's lane.
    pub lane: String,
    /// Its number in that lane, from 1.
    pub turn: usize,
}
