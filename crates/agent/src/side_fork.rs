//! Forks that are started from outside of the run tree, beside a run.

use std::sync::{Arc, Mutex};

use session::{Block, Message, RunId, Usage};
use store::{RunKind, Seq};
use wire::dialect::Dialect;

use crate::agent_loop::ResumeOverrides;
use crate::crash;
use crate::error::RunError;
use crate::event::{EventKind, EventSink, RunEvent};
use crate::fork::{ForkPoint, own_messages};
use crate::fork_agent::add_rules;
use crate::fork_request::{ForkRequest, MessageListener};
use crate::ids;
use crate::kernel::Kernel;
use crate::outcome::RunOutcome;
use crate::process;
use crate::settings::RunSettings;
use crate::stop::StopHandle;

/// The result of a fork.
#[derive(Clone, Debug)]
pub struct ForkOutcome {
    /// Its outcome.
    pub ended: RunOutcome,
    /// Its own messages, from its prompt on.
    pub messages: Vec<Message>,
    /// The usage of all its requests.
    pub usage: Usage,
}

impl Kernel {
    /// Starts a fork beside a run, which may be at work in any process and is not changed. The fork's row is in the journal
    /// when this returns. [`Kernel::run`] of the returned kernel runs it; the journal of that kernel is in memory if the
    /// disk cannot be written.
    pub async fn start_fork(&self, of: &RunId, fork: &ForkRequest) -> Result<(RunId, Self), RunError> {
        self.start_fork_at(&self.fork_point(of)?, fork).await
    }

    /// Starts a fork beside a run, at one of its turns.
    pub(crate) async fn start_fork_at(
        &self,
        point: &ForkPoint,
        fork: &ForkRequest,
    ) -> Result<(RunId, Self), RunError> {
        let of = point.run();
        let above = self.store.run(of).row()?;
        let mut settings = RunSettings::of(&above)?;
        if settings.dialect() != self.model.dialect() {
            let (run_dialect, provider_dialect) = (settings.dialect(), self.model.dialect());
            return Err(RunError::DialectMismatch { run: of.clone(), run_dialect, provider_dialect });
        }
        // The runs above are not at work, so their rules are copied.
        let (mut below, mut next) = (above.kind, above.parent.clone());
        while let Some(run) = next {
            let row = self.store.run(&run).row()?;
            // A fork's row has its parent's rules already.
            if below != RunKind::Fork {
                add_rules(&mut settings.rules, RunSettings::of(&row)?.rules);
            }
            (below, next) = (row.kind, row.parent);
        }
        let id = ids::new_run_id(self.clock.millis());
        if let Some(shares) = fork.budget_shares {
            let used = self.store.run(of).totals()?;
            let tokens = used.usage.input_total().saturating_add(used.usage.output);
            let left = settings.max_budget_microusd.map(|most| (most - used.cost_microusd).max(0));
            settings.max_budget_microusd = left.map(|left| left / i64::from(shares));
            let left = settings.max_budget_tokens.map(|most| most.saturating_sub(tokens));
            settings.max_budget_tokens = left.map(|left| left / u64::from(shares));
        }
        let new = self.new_fork(point, &above, settings, (id.clone(), None), fork, (true, false))?;
        let kernel = self.for_fork(&id, of);
        crash::point("fork.start.before");
        kernel.store.start_run(new, process::lease()).await?;
        crash::point("fork.start.after");
        Ok((id, kernel))
    }

    /// Starts a fork and runs it to its end. Returns its messages, even if the journal does not keep them.
    pub async fn fork(
        &self,
        of: &RunId,
        fork: &ForkRequest,
        stop_handle: &StopHandle,
    ) -> Result<ForkOutcome, RunError> {
        let (id, mut kernel) = self.start_fork(of, fork).await?;
        let transcript = Arc::new(Transcript {
            on_message: fork.on_message.clone(),
            messages: Mutex::default(),
            kernel: kernel.clone(),
        });
        transcript.update(&id);
        kernel.events = transcript.clone();
        if let Some(asker) = &fork.permissions.asker {
            kernel.asker = Arc::clone(asker);
        }
        let ended = kernel.run(&id, &ResumeOverrides::default(), stop_handle).await;
        transcript.update(&id);
        let filter = store::Filter { below: Some(id.clone()), ..store::Filter::default() };
        let usage =
            kernel.store.runs(&filter)?.iter().find(|run| run.id == id).map(|run| run.inclusive.usage);
        let messages = transcript.messages.lock().expect("lock is not poisoned").clone();
        let messages = messages.into_iter().map(|(_, message)| message).collect();
        Ok(ForkOutcome { ended: ended?, messages, usage: usage.unwrap_or_default() })
    }
}

/// Collects the messages of a fork while it runs, and forwards its events.
struct Transcript {
    on_message: Option<Arc<MessageListener>>,
    messages: Mutex<Vec<(Seq, Message)>>,
    kernel: Kernel,
}

impl Transcript {
    /// Reads the new messages from the journal.
    fn update(&self, run: &RunId) {
        let mut known = self.messages.lock().expect("lock is not poisoned");
        let last = known.last().map_or(Seq(0), |(seq, _)| *seq);
        let said = self.kernel.store.run(run).messages().unwrap_or_default();
        for message in own_messages(said).filter(|message| message.seq > last) {
            let decoded = decoded(self.kernel.model.dialect(), &message.bytes);
            let whole = Message { role: message.role, blocks: decoded };
            if let Some(on_message) = &self.on_message {
                on_message(&whole);
            }
            known.push((message.seq, whole));
        }
    }
}

impl EventSink for Transcript {
    fn emit(&self, event: &RunEvent) {
        // At the `Finished` event, a transcript that is not kept is gone already.
        if matches!(
            event.kind,
            EventKind::Message { .. } | EventKind::CallStarted { .. } | EventKind::Compacted { .. }
        ) {
            self.update(&event.run);
        }
        self.kernel.events.emit(event);
    }
}

/// Decodes a message.
fn decoded(dialect: Dialect, bytes: &[u8]) -> Vec<Block> {
    let messages = if dialect == Dialect::OpenAiResponses { "input" } else { "messages" };
    let head = format!(r#"{{"model":"m","{messages}":["#);
    let body = wire::dialect::join_request(head.as_bytes(), [String::from_utf8_lossy(bytes).as_ref()]);
    let prompt = dialect.decode_request(&body);
    let messages = prompt.map(|prompt| prompt.messages).unwrap_or_default();
    messages.iter().flat_map(|message| message.message().blocks).collect()
}
