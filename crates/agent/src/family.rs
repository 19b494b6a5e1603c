//! How far a tree of runs may grow.

/// The limits of one tree, and what becomes of its jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// How many sub-agents are at work at the same time; the others wait for their turn.
    pub at_once: usize,
    /// How many requests a provider is sent at the same time; the others wait for theirs.
    pub requests: usize,
    /// How many sub-agents one agent may start.
    pub width: u64,
    /// How many agents may stand above one another, the main one not counted.
    pub depth: u32,
    /// An agent that has nothing more to say ends, and its jobs are paused; else it waits for them.
    pub leaves_jobs: bool,
    /// What one sub-agent may cost, those below it included.
    pub max_budget_microusd: Option<i64>,
    /// How many tokens one sub-agent may use, those below it included.
    pub max_budget_tokens: Option<u64>,
}

impl Default for Family {
    fn default() -> Self {
        Self {
            at_once: 16,
            requests: 16,
            width: 1000,
            depth: 1,
            leaves_jobs: false,
            max_budget_microusd: None,
            max_budget_tokens: None,
        }
    }
}
