//! The environment of runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use session::RunId;
use store::{Millis, RunKind, Store};

use crate::cache_warmup::CacheWarmup;
use crate::clock::RunClock;
use crate::definition::{Agent, FolderSkills, Skill};
use crate::event::EventSink;
use crate::hooks::HookSet;
use crate::model::ModelClient;
use crate::permission::{Approver, PermissionRules};
use crate::provider::Backoff;
use crate::shell::ShellConfig;
use crate::tool::Toolbox;
use crate::tree_limits::TreeLimits;
use crate::workspace::Workspace;

/// Everything that a run needs and that is not its own.
#[derive(Clone)]
pub struct Kernel {
    /// The journal.
    pub store: Store,
    /// The model client.
    pub model: Arc<dyn ModelClient>,
    /// The retry policy of requests.
    pub backoff: Arc<Backoff>,
    /// Orders the first requests of forks, so that they share the prompt cache.
    pub cache_warmup: Arc<CacheWarmup>,
    /// All tools.
    pub tools: Arc<Toolbox>,
    /// All skills.
    pub skills: Arc<[Skill]>,
    /// Finds the skills of folders in the workspace.
    pub folder_skills: Option<Arc<FolderSkills>>,
    /// All agents.
    pub agents: Arc<[Agent]>,
    /// The provider's model for each tier.
    pub tiers: Arc<BTreeMap<String, String>>,
    /// Asks for summaries of a model's thoughts, where thinking is sent.
    pub thinking_summaries: bool,
    /// The limits of a run tree.
    pub tree_limits: TreeLimits,
    /// The files.
    pub workspace: Arc<Workspace>,
    /// Runs commands.
    pub shell: ShellConfig,
    /// The user's permission rules.
    pub rules: Arc<PermissionRules>,
    /// The hooks of the user and of accepted files.
    pub hooks: Arc<HookSet>,
    /// Answers questions about permissions.
    pub asker: Arc<dyn Approver>,
    /// The time.
    pub clock: RunClock,
    /// Hides conversations that began later from new ones: the start of a replayed recording.
    pub recent_before: Option<Millis>,
    /// Receives the events of runs.
    pub events: Arc<dyn EventSink>,
}

impl Kernel {
    /// Returns the kernel for one run. A fork's journal continues in memory if the disk cannot be written; every other
    /// run's journal is on the disk.
    pub fn for_run(&self, row: &store::Run) -> Self {
        match (row.kind, &row.parent) {
            (RunKind::Fork, Some(of)) => self.for_fork(&row.id, of),
            _ => self.clone(),
        }
    }

    /// Returns the kernel for a fork.
    pub(crate) fn for_fork(&self, run: &RunId, of: &RunId) -> Self {
        Self { store: self.store.for_fork(run, of), ..self.clone() }
    }
}
