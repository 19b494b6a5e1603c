//! One fork of side work: started or resumed, run to its end, and its answer used.

use std::sync::Arc;

use session::RunId;
use store::{InboxKind, Memory, NewInboxEntry, RunStatus, StoreError};

use super::plan::SideTask;
use super::{SOURCE, prompts};
use crate::agent_loop::ResumeOverrides;
use crate::error::RunError;
use crate::event::{EventKind, EventSink, RunEvent};
use crate::fork::ForkPoint;
use crate::fork_request::{ForkPermissions, ForkRequest};
use crate::kernel::Kernel;
use crate::outcome::{RunOutcome, is_unfinished};
use crate::permission::NoApprover;
use crate::stop::StopHandle;
use crate::tools::MAX_MEMORY_TEXT;

/// Name of the memory with the notes of the conversation.
const MEMORY: &str = "session";

/// One fork of side work.
pub(super) struct Job {
    pub(super) kernel: Kernel,
    pub(super) stop_handle: StopHandle,
    /// The turn that it belongs to.
    pub(super) point: ForkPoint,
    /// An event of the main run.
    pub(super) event: RunEvent,
    pub(super) task: SideTask,
    /// Number of forks that share what the run's budget has left.
    pub(super) shares: u32,
}

impl Job {
    /// Runs the fork and uses its answer. A failure is an event, and nothing else.
    pub(super) async fn run(self) {
        let ended = match self.fork().await {
            Ok(Some(ended)) => ended,
            Ok(None) => return, // it was used before, or another process does it
            Err(error) => return self.emit(None, None, Some(error.to_string()), false),
        };
        let fork = Some(ended.run.clone());
        let text = match (ended.status, ended.final_text) {
            (RunStatus::Completed | RunStatus::StepCap, Some(text)) => text.trim().to_owned(),
            (status, _) => {
                let error = ended.error.unwrap_or_else(|| format!("it is {}", status.words()));
                return self.emit(fork, None, Some(error), false);
            }
        };
        match self.apply(&ended.run, &text).await {
            Ok(is_reminded) => {
                let is_empty = self.task == SideTask::PromptSuggestion && !prompts::is_suggestion(&text);
                self.emit(fork, (!is_empty).then_some(text), None, is_reminded);
            }
            Err(error) => self.emit(fork, Some(text), Some(error.to_string()), false),
        }
    }

    /// Runs the fork of this turn. Returns `None` if there is nothing left to do for it.
    async fn fork(&self) -> Result<Option<RunOutcome>, RunError> {
        let reads = self.kernel.store.run(self.point.run());
        let known = reads.fork_at(self.point.reply(), self.task.label(), SOURCE)?;
        let (id, kernel) = match known {
            None => self.kernel.start_fork_at(&self.point, &self.request()).await?,
            Some(id) => {
                let row = self.kernel.store.run(&id).row()?;
                if !is_unfinished(row.status) {
                    return Ok((!self.is_used(&id)?).then(|| RunOutcome::of(row)));
                }
                let kernel = self.kernel.for_run(&row);
                match kernel.resume(&id, None).await {
                    Err(RunError::AlreadyRunning(_) | RunError::Store(StoreError::Held { .. })) => {
                        return Ok(None);
                    }
                    resumed => resumed?,
                }
                (id, kernel)
            }
        };
        let events = Arc::new(ForkEnds(Arc::clone(&self.kernel.events)));
        // A hook could ask for more turns than the one.
        let kernel = Kernel { events, asker: Arc::new(NoApprover), hooks: Arc::default(), ..kernel };
        kernel.run(&id, &ResumeOverrides::default(), &self.stop_handle).await.map(Some)
    }

    /// Returns the request: one answer without tools, and nothing of it in the prompt cache.
    fn request(&self) -> ForkRequest {
        ForkRequest {
            max_turns: Some(1),
            write_cache: false,
            budget_shares: Some(self.shares),
            permissions: ForkPermissions { deny: vec!["*".to_owned()], ..ForkPermissions::default() },
            ..ForkRequest::new(self.task.prompt(), self.task.label(), SOURCE)
        }
    }

    /// Returns whether the answer of an earlier process has been used. An answer that is only shown is not shown again.
    fn is_used(&self, fork: &RunId) -> Result<bool, RunError> {
        let row = self.kernel.store.run(fork).row()?;
        let answer = row.final_text.filter(|_| row.status == RunStatus::Completed).unwrap_or_default();
        match self.task {
            SideTask::TurnSummary | SideTask::PromptSuggestion => Ok(true),
            SideTask::SessionMemory => {
                let all = self.kernel.store.main().memory(Some(&row.thread))?;
                let kept = all.iter().find(|memory| memory.thread.is_some() && memory.name == MEMORY);
                // A later memory may be the agent's own.
                let is_newer =
                    kept.is_some_and(|kept| row.ended_at.is_some_and(|end| kept.updated_at >= end));
                Ok(answer.is_empty() || is_newer)
            }
            SideTask::Supervisor(_) => Ok(prompts::reminder_of(&answer).is_none() || self.is_sent(fork)?),
        }
    }

    /// Uses an answer. Returns whether the agent gets a reminder.
    async fn apply(&self, fork: &RunId, text: &str) -> Result<bool, RunError> {
        let store = self.kernel.store.on_disk();
        let at = self.kernel.clock.millis();
        match &self.task {
            SideTask::TurnSummary | SideTask::PromptSuggestion => Ok(false),
            SideTask::SessionMemory => {
                let thread = Some(store.run(self.point.run()).row()?.thread);
                let text = text[..text.floor_char_boundary(MAX_MEMORY_TEXT)].to_owned();
                if !text.is_empty() {
                    store
                        .put_memory(Memory { thread, name: MEMORY.to_owned(), text, updated_at: at })
                        .await?;
                }
                Ok(false)
            }
            SideTask::Supervisor(_) => {
                let Some(reminder) = prompts::reminder_of(text) else { return Ok(false) };
                // An agent that has finished needs none.
                let run = self.point.run().clone();
                if !store.run(&run).row()?.status.is_live() || self.is_sent(fork)? {
                    return Ok(false);
                }
                let body = prompts::reminder(fork, reminder).into_bytes();
                let entry = NewInboxEntry { run, kind: InboxKind::Message, sent_by: None, body, at };
                match store.send(entry).await {
                    Err(StoreError::Over { .. }) => Ok(false),
                    sent => Ok(sent.map(|_| true)?),
                }
            }
        }
    }

    /// Returns whether the reminder of a fork is in the agent's inbox or was delivered.
    fn is_sent(&self, fork: &RunId) -> Result<bool, RunError> {
        let reads = self.kernel.store.run(self.point.run());
        let delivered = reads.delivered()?.into_iter().map(|(_, entry)| entry);
        let sign = format!("<supervisor run_id=\"{fork}\">");
        Ok(reads.inbox()?.into_iter().chain(delivered).any(|entry| entry.body.starts_with(sign.as_bytes())))
    }

    fn emit(&self, fork: Option<RunId>, text: Option<String>, error: Option<String>, is_reminder: bool) {
        let label = self.task.label();
        let kind = EventKind::SideWork { label, fork, text, error, is_reminder };
        self.kernel.events.emit(&RunEvent { kind, ..self.event.clone() });
    }
}

/// Forwards the usage of a fork, and none of its other events.
struct ForkEnds(Arc<dyn EventSink>);

impl EventSink for ForkEnds {
    fn emit(&self, event: &RunEvent) {
        if matches!(event.kind, EventKind::ForkEnded(_) | EventKind::TranscriptLost { .. }) {
            // It is the root of a run tree, but not the run that the user sees.
            self.0.emit(&RunEvent { is_root: false, ..event.clone() });
        }
    }
}
