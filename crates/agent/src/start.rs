//! Starts and resumes main runs: what is in the journal before the loop runs.

use std::sync::Arc;

use session::{Message, Role, RunId, ThreadId};
use store::{NewMessage, NewRun, NewThread, Origin, RunKind, RunStatus, RunThread};

use crate::agent_loop::root_run;
use crate::budget::affordable;
use crate::calls;
use crate::crash;
use crate::error::RunError;
use crate::folder_notes;
use crate::hook_events;
use crate::ids;
use crate::kernel::Kernel;
use crate::load::load;
use crate::permission::RuleList;
use crate::process::{self, AtWork};
use crate::prompts::text_block;
use crate::reminders;
use crate::run::Run;
use crate::settings::{RunLimits, RunSettings};
use crate::stop::StopHandle;

/// A request to start a run.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// Its id. `None` creates one.
    pub id: Option<RunId>,
    /// The user's prompt.
    pub prompt: String,
    /// The agent's name.
    pub agent: String,
    /// The agent's instructions, beside those of every agent.
    pub instructions: Option<String>,
    /// The names of its tools. `None` is all tools.
    pub tools: Option<Vec<String>>,
    /// The rules of its agent, beside the kernel's.
    pub rules: Vec<(RuleList, String)>,
    /// The user's rules about calls that need a question, kept for a resumed run.
    pub ask: Vec<String>,
    /// The provider's name.
    pub provider: String,
    /// The provider's id of the model.
    pub model: String,
    /// Its limits.
    pub limits: RunLimits,
}

impl Kernel {
    /// Starts a run. Its row is in the journal when this returns.
    pub async fn start(&self, start: StartRequest) -> Result<RunId, RunError> {
        let at = self.clock.millis();
        let id = start.id.unwrap_or_else(|| ids::new_run_id(at));
        let dialect = self.model.dialect();
        let workspace = self.workspace.path().display().to_string();
        let context = self.context(&workspace)?;
        let limits = affordable(start.limits, &start.model)?;
        let mut settings = RunSettings::new(dialect, &limits, context.clone(), workspace.clone());
        (settings.instructions, settings.tools) = (start.instructions, start.tools);
        (settings.rules, settings.ask) = (start.rules, start.ask);
        let first =
            Message { role: Role::User, blocks: vec![text_block(&context), text_block(&start.prompt)] };
        let message = NewMessage {
            role: Role::User,
            origin: Origin::Prompt,
            bytes: dialect.encode_message(&first).map_err(RunError::Encode)?.into_bytes(),
            text: Some(start.prompt.clone()),
            at,
        };
        let thread =
            NewThread { id: ThreadId::new(format!("t{id}")), title: title(&start.prompt), workspace };
        let run = NewRun {
            id: id.clone(),
            thread: RunThread::New(thread),
            kind: RunKind::Main,
            parent: None,
            task: None,
            spawned_by: None,
            background: false,
            agent: start.agent,
            model: start.model,
            provider: start.provider,
            settings: settings.to_bytes(),
            chain: id.to_string(),
            depth: 0,
            fork: None,
            messages: vec![message],
            at,
        };
        crash::point("run.start.before");
        self.store.start_run(run, process::lease()).await?;
        crash::point("run.start.after");
        Ok(id)
    }

    /// Resumes a run, so that [`Kernel::run`] continues it. A run that has ended needs a `prompt`.
    pub async fn resume(&self, id: &RunId, prompt: Option<&str>) -> Result<(), RunError> {
        let _alone = AtWork::on(&self.store, id)?;
        let row = self.store.run(id).row()?;
        if row.root != row.id {
            return Err(RunError::NotMain { run: row.id, root: row.root });
        }
        let owed = || Ok::<_, RunError>(self.store.run(id).has_waiting_input()? || self.is_owed(id)?);
        let ended = row.status == RunStatus::Completed && prompt.is_none() && !owed()?;
        if ended || matches!(row.status, RunStatus::CancelledByUser | RunStatus::CancelledByParent) {
            return Err(RunError::Finished { run: row.id, status: row.status });
        }
        let settings = RunSettings::of(&row)?;
        let (run_dialect, provider_dialect) = (settings.dialect(), self.model.dialect());
        if run_dialect != provider_dialect {
            return Err(RunError::DialectMismatch { run: row.id, run_dialect, provider_dialect });
        }
        if settings.fork.as_ref().is_some_and(|fork| !fork.keep_transcript)
            && row.ended_at.is_some()
            && !row.status.is_paused()
        {
            return Err(RunError::TranscriptNotKept(row.id));
        }
        let (lease, at) = (process::lease(), self.clock.millis());
        let Some(prompt) = prompt else {
            crash::point("resume.lease.before");
            match row.status {
                RunStatus::Completed => {
                    self.store.reopen(id, lease, at, process::is_lease_holder_alive).await?
                }
                _ => self.store.take_lease(id, lease, at, process::is_lease_holder_alive).await?,
            };
            crash::point("resume.lease.after");
            return Ok(());
        };
        crash::point("resume.reopen.before");
        self.store.reopen(id, lease, at, process::is_lease_holder_alive).await?;
        crash::point("resume.reopen.after");
        let reminder = settings.fork.as_ref().and_then(|fork| fork.reminder.clone());
        let run = root_run(Arc::new(self.clone()), row, settings, &StopHandle::new());
        let results = self.settle(&run).await?;
        let mut blocks: Vec<_> = reminders::tasks(&run)?.into_iter().collect();
        blocks.push(text_block(prompt));
        blocks.extend(reminder.as_deref().map(text_block));
        let said = Message { role: Role::User, blocks };
        let prompt = NewMessage {
            role: Role::User,
            origin: Origin::Prompt,
            bytes: run_dialect.encode_message(&said).map_err(RunError::Encode)?.into_bytes(),
            text: Some(prompt.to_owned()),
            at: self.clock.millis(),
        };
        crash::point("resume.prompt.before");
        self.store.append(id, results.into_iter().chain([prompt]).collect()).await?;
        crash::point("resume.prompt.after");
        Ok(())
    }

    /// Returns whether a job still owes the run a result.
    fn is_owed(&self, id: &RunId) -> Result<bool, RunError> {
        Ok(self.store.run(id).jobs()?.iter().any(|job| job.ended_at.is_none()))
    }

    /// Gives a result to every call of the last reply, so that another message can follow. Calls without a result get one
    /// constant sentence each. Returns the message with the results.
    async fn settle(&self, run: &Arc<Run>) -> Result<Option<NewMessage>, RunError> {
        let mut conversation = load(run)?;
        calls::skip_pending(run, &mut conversation).await?;
        let folders = folder_notes::texts(run, &conversation)?;
        conversation
            .set_notes(folders.into_iter().chain(hook_events::notes(run, &conversation)?.texts).collect());
        let blocks = conversation.results();
        if blocks.is_empty() {
            return Ok(None);
        }
        let bytes = conversation.encode(blocks).map_err(RunError::Encode)?.into_bytes();
        let at = self.clock.millis();
        Ok(Some(NewMessage { role: Role::User, origin: Origin::Results, bytes, text: None, at }))
    }
}

/// Returns the first line of a prompt, shortened.
fn title(prompt: &str) -> String {
    let line = prompt.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
