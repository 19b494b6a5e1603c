//! The limits of a run tree.

/// The limits of one run tree, and the fate of jobs that are unfinished when the main agent ends.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeLimits {
    /// Maximum number of sub-agents that run at the same time. The others wait in line.
    pub max_running: usize,
    /// Maximum number of concurrent requests to the provider. The others wait in line.
    pub max_requests: usize,
    /// Maximum number of sub-agents that one agent may start.
    pub max_children: u64,
    /// Maximum nesting of sub-agents, without the main agent.
    pub max_depth: u32,
    /// Ends an agent that has nothing more to say and pauses its jobs. Without it the agent waits for its jobs.
    pub leave_jobs: bool,
    /// Asks the user also for calls of agents in the background. Without it they are denied.
    pub ask_for_background: bool,
    /// Maximum cost of one sub-agent and all runs below it.
    pub max_budget_microusd: Option<i64>,
    /// Maximum number of tokens for one sub-agent and all runs below it.
    pub max_budget_tokens: Option<u64>,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self {
            max_running: 16,
            max_requests: 16,
            max_children: 1000,
            max_depth: 1,
            leave_jobs: false,
            ask_for_background: false,
            max_budget_microusd: None,
            max_budget_tokens: None,
        }
    }
}
