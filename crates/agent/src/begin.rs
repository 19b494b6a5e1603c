//! Starting a run, and taking one up again: what is in the journal before its loop runs.

use std::sync::Arc;

use session::model::{self, AgentRole};
use session::{Message, Role, RunId, ThreadId};
use store::{Head, NewMessage, NewRun, NewThread, Origin, RunKind, RunStatus, RunThread};
use wire::dialect::{Dialect, Draft, DraftMarker, Element, MarkerTarget, ToolSpec};

use crate::budget::affordable;
use crate::calls;
use crate::crash;
use crate::error::RunError;
use crate::event::{EventKind, RunEvent};
use crate::fork::ForkReport;
use crate::jobs;
use crate::kernel::{Kernel, StartRequest};
use crate::process::{self, AtWork};
use crate::provider;
use crate::run::Run;
use crate::settings::{RunLimits, RunSettings};
use crate::stop::StopHandle;
use crate::tool;
use crate::words;

impl Kernel {
    /// Starts a run: its row is in the journal when this returns.
    pub async fn start(&self, start: StartRequest) -> Result<RunId, RunError> {
        let at = self.clock.millis();
        let id = start.id.unwrap_or_else(|| process::new_run_id(at));
        let dialect = self.model.dialect();
        let workspace = self.workspace.path().display().to_string();
        let context = self.context(&workspace)?;
        let limits = affordable(start.limits, &start.model)?;
        let mut settings = RunSettings::new(dialect, &limits, context.clone(), workspace.clone());
        (settings.instructions, settings.tools) = (start.instructions, start.tools);
        settings.rules = start.rules;
        let first =
            Message { role: Role::User, blocks: vec![tool::text(&context), tool::text(&start.prompt)] };
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

    /// Ends a run that was paused here, and all below it, for good. Whoever watches was told that it is paused, and is told
    /// of this too.
    pub async fn cancel(&self, id: &RunId) -> Result<(), RunError> {
        for (id, fork) in jobs::end_tree(&self.store, id, self.clock.millis()).await? {
            self.tell_end_of(&id, fork)?;
        }
        Ok(())
    }

    /// Tells of the end of a run that nobody was at work on.
    pub(crate) fn tell_end_of(&self, id: &RunId, fork: Option<ForkReport>) -> Result<(), RunError> {
        let (row, totals) = (self.store.run(id).row()?, self.store.run(id).totals()?);
        let above = row.parent.as_ref().map(|parent| self.store.run(parent).row()).transpose()?;
        let finished = EventKind::Finished {
            status: row.status,
            final_text: row.final_text,
            error: row.error,
            usage: totals.usage,
            cost_microusd: (totals.unpriced == 0).then_some(totals.cost_microusd),
        };
        let told = fork.map(|ended| EventKind::ForkEnded(Box::new(ended))).into_iter().chain([finished]);
        for kind in told {
            self.events.emit(&RunEvent {
                run: id.clone(),
                parent: row.parent.clone(),
                chain: row.chain.as_str().into(),
                parent_chain: above.as_ref().map(|above| above.chain.as_str().into()),
                depth: row.depth,
                is_root: row.root == *id,
                kind,
            });
        }
        Ok(())
    }

    /// Takes a run up again, so that [`Kernel::run`] goes on with it. A run that had come to its end needs a `prompt`.
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
        let (began, speaks) = (settings.dialect(), self.model.dialect());
        if began != speaks {
            return Err(RunError::DialectMismatch { run: row.id, began, speaks });
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
        let run = Arc::new(Run::root(Arc::new(self.clone()), row, settings, &StopHandle::new()));
        let results = self.settle(&run).await?;
        let mut blocks: Vec<_> = run.tasks()?.into_iter().collect();
        blocks.push(tool::text(prompt));
        blocks.extend(reminder.as_deref().map(tool::text));
        let said = Message { role: Role::User, blocks };
        let prompt = NewMessage {
            role: Role::User,
            origin: Origin::Prompt,
            bytes: began.encode_message(&said).map_err(RunError::Encode)?.into_bytes(),
            text: Some(prompt.to_owned()),
            at: self.clock.millis(),
        };
        crash::point("resume.prompt.before");
        self.store.append(id, results.into_iter().chain([prompt]).collect()).await?;
        crash::point("resume.prompt.after");
        Ok(())
    }

    /// Whether a job still owes the run a result.
    fn is_owed(&self, id: &RunId) -> Result<bool, RunError> {
        Ok(self.store.run(id).jobs()?.iter().any(|job| job.ended_at.is_none()))
    }

    /// Gives every call of the last reply a result, so that something else can be said: those that exist stay, the
    /// others get one constant sentence each. Returns the message that carries them.
    async fn settle(&self, run: &Arc<Run>) -> Result<Option<NewMessage>, RunError> {
        let mut talk = run.read()?;
        calls::none(run, &mut talk).await?;
        let blocks = talk.results();
        if blocks.is_empty() {
            return Ok(None);
        }
        let bytes = talk.encode(blocks).map_err(RunError::Encode)?.into_bytes();
        let at = self.clock.millis();
        Ok(Some(NewMessage { role: Role::User, origin: Origin::Results, bytes, text: None, at }))
    }

    /// What the requests of a run begin with: everything that stays the same.
    pub(crate) fn head(&self, kind: RunKind, model: &str, settings: &RunSettings) -> Result<Head, RunError> {
        let dialect = settings.dialect();
        let tools: Vec<Element<ToolSpec>> =
            self.tools.only(settings.tools.as_deref()).specs().into_iter().map(Element::Value).collect();
        let (who, seat) = match kind {
            RunKind::Main => (words::MAIN, AgentRole::Main),
            RunKind::Sub | RunKind::Fork => (words::SUB, AgentRole::Sub),
        };
        // A run that was begun before its context named the folder, and has not asked yet, is told it here.
        let workspace = words::workspace(&settings.workspace);
        let system_context = match settings.context.contains(&workspace) {
            true => words::system(),
            false => format!("{workspace}\n{}", words::system()),
        };
        let system: Vec<String> = [who.to_owned()]
            .into_iter()
            .chain(settings.instructions.clone())
            .chain([system_context])
            .collect();
        // What all sub-agents are told is kept for all of them; what one is told besides comes behind it.
        let marked = match seat {
            AgentRole::Main => system.len() - 1,
            AgentRole::Sub => 0,
        };
        let mark = |on| DraftMarker { on, ttl: None };
        let mut draft = Draft {
            model: model.to_owned(),
            stream: true,
            marks: tools
                .len()
                .checked_sub(1)
                .map(MarkerTarget::Tool)
                .into_iter()
                .chain([MarkerTarget::System(marked)])
                .map(mark)
                .collect(),
            tools,
            system: system.iter().map(|text| Element::Value(tool::text(text))).collect(),
            ..Draft::default()
        };
        provider::apply_model_settings(&mut draft, dialect, seat);
        if settings.max_tokens < RunLimits::of(model).max_tokens {
            let usual = draft.max_tokens.unwrap_or(u64::MAX);
            draft.max_tokens = Some(settings.max_tokens.min(usual));
        }
        match dialect {
            Dialect::AnthropicMessages => {}
            Dialect::OpenAiChat => draft.marks.clear(),
            Dialect::OpenAiResponses => {
                draft.marks.clear();
                draft.extra.push(("store".to_owned(), "false".to_owned()));
                // We keep the conversation ourselves, so its reasoning must come back with it.
                if model::is_reasoning_model(model) {
                    draft.extra.push(("include".to_owned(), r#"["reasoning.encrypted_content"]"#.to_owned()));
                }
            }
        }
        Ok(Head::new(dialect.encode_head(&draft).map_err(RunError::Encode)?))
    }
}

/// The first line of a prompt, as a list shows it.
fn title(prompt: &str) -> String {
    let line = prompt.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
