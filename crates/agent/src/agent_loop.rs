//! The agent loop: the same for every run, and small enough to read at once.

use std::sync::Arc;
use std::time::Duration;

use session::{RunId, model};
use store::RunStatus;

use crate::calls;
use crate::compact::compact;
use crate::conversation::{Conversation, Next};
use crate::error::RunError;
use crate::event::EventKind;
use crate::finish::{LoopEnd, finish, finish_broken};
use crate::folder_notes;
use crate::future::BoxFuture;
use crate::hook_events::{self, TurnEnd};
use crate::jobs;
use crate::kernel::Kernel;
use crate::load::load;
use crate::model_call::{self, CallOutcome};
use crate::outcome::RunOutcome;
use crate::prior;
use crate::process::AtWork;
use crate::provider::FailureKind;
use crate::run::Run;
use crate::settings::RunSettings;
use crate::settings_fallback;
use crate::stop::{StopHandle, StopRequest};

/// Interval at which a tree looks for cancels and messages of other processes.
const POLL: Duration = Duration::from_millis(200);

/// Settings of a resumed run that replace those it was started with.
#[derive(Clone, Debug, Default)]
pub struct ResumeOverrides {
    /// Maximum number of model turns before the last one, earlier ones included.
    pub max_steps: Option<u32>,
    /// Maximum cost, earlier cost included.
    pub max_budget_microusd: Option<i64>,
    /// Maximum number of tokens, earlier ones included.
    pub max_budget_tokens: Option<u64>,
    /// The provider that answers from now on.
    pub provider: Option<String>,
}

impl Kernel {
    /// Runs the loop of a run that was started or resumed here, until it ends or a stop is requested.
    pub async fn run(
        &self,
        run: &RunId,
        overrides: &ResumeOverrides,
        stop_handle: &StopHandle,
    ) -> Result<RunOutcome, RunError> {
        let _alone = AtWork::on(&self.store, run)?;
        let mut row = self.store.run(run).row()?;
        row.provider = overrides.provider.clone().unwrap_or(row.provider);
        let mut settings = RunSettings::of(&row)?;
        settings.max_steps = overrides.max_steps.unwrap_or(settings.max_steps);
        settings.max_budget_microusd = overrides.max_budget_microusd.or(settings.max_budget_microusd);
        settings.max_budget_tokens = overrides.max_budget_tokens.or(settings.max_budget_tokens);
        if settings.max_budget_microusd.is_some() && model::price(&row.model).is_none() {
            return Err(RunError::UnknownPrice(row.model));
        }
        let run = root_run(Arc::new(self.for_run(&row)), row, settings, stop_handle);
        let ended = tokio::select! {
            biased; // a cancel that was there before is seen before anything is done
            never = forward_cancels(&run) => match never {},
            ended = run_to_end(&run) => ended,
        };
        run.tree.processes.end_all().await;
        ended.map_err(|(error, _)| error)
    }
}

/// Creates the run at the top of a tree.
pub(crate) fn root_run(
    kernel: Arc<Kernel>,
    row: store::Run,
    settings: RunSettings,
    stop_handle: &StopHandle,
) -> Arc<Run> {
    Arc::new(Run::root(kernel, row, settings, stop_handle, work))
}

/// Forwards the cancels and the messages that other processes have written to the journal on the disk.
async fn forward_cancels(root: &Run) -> std::convert::Infallible {
    let disk = root.kernel.store.on_disk();
    loop {
        for run in disk.run(root.id()).runs_to_cancel().unwrap_or_default() {
            match run == *root.id() {
                true => root.stop_handle.request(StopRequest::Cancel),
                false => root.tree.request(&run, StopRequest::Cancel),
            }
        }
        if disk.run(root.id()).tree_has_message().unwrap_or_default() {
            root.tree.wake_waiting();
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Runs a run below the root, as soon as it has a slot. A panic is a failed run, too.
fn work(run: Arc<Run>) -> BoxFuture<'static, RunOutcome> {
    Box::pin(async move {
        match tokio::spawn(work_in_slot(Arc::clone(&run))).await {
            Ok(outcome) => outcome,
            Err(_) => finish_broken(&run, &RunError::TaskPanicked).await,
        }
    })
}

async fn work_in_slot(run: Arc<Run>) -> RunOutcome {
    if run.must_wait_for_slot() {
        let (kind, agent, subject) = (run.row.kind, run.row.agent.clone(), run.subject());
        run.emit(EventKind::Queued { kind, agent, subject });
    }
    run.acquire_slot().await;
    let ended = run_to_end(&run).await;
    run.release_slot();
    ended.unwrap_or_else(|(_, outcome)| outcome)
}

/// Runs the loop, and reports its end even if it fails.
async fn run_to_end(run: &Arc<Run>) -> Result<RunOutcome, (RunError, RunOutcome)> {
    run.emit(EventKind::Started {
        kind: run.row.kind,
        agent: run.row.agent.clone(),
        model: run.row.model.clone(),
        call: run.row.spawned_by.clone(),
        is_job: run.is_job(),
        subject: run.subject(),
        prior: run.is_resumed().then(|| prior::usage(run).unwrap_or_default()),
    });
    match agent_loop(run).await {
        Ok(outcome) => Ok(outcome),
        Err(error) => {
            let outcome = finish_broken(run, &error).await;
            Err((error, outcome))
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Called between a run's look at the jobs below it and its look at its inbox.
    pub(crate) static BETWEEN: std::cell::RefCell<Option<Between>> = const { std::cell::RefCell::new(None) };
}

#[cfg(test)]
pub(crate) type Between = Box<dyn Fn(Arc<Run>) -> BoxFuture<'static, ()>>;

#[cfg(test)]
async fn between(run: &Arc<Run>) {
    let happens = BETWEEN.with_borrow(|between| between.as_ref().map(|between| between(Arc::clone(run))));
    if let Some(happens) = happens {
        happens.await;
    }
}

/// Runs an agent until the model asks for no more tools and no job is left to wait for.
///
/// Every step is in the journal before it is taken, so that another process can continue from there.
async fn agent_loop(run: &Arc<Run>) -> Result<RunOutcome, RunError> {
    if run.is_root() {
        run.tree.processes.end_leftovers().await?; // commands that an earlier process left
    }
    let mut conversation = load(run)?;
    jobs::resume_children(run, &conversation).await?;
    loop {
        if let Some(status) = run.stop_status()? {
            if status != RunStatus::Paused {
                calls::end_started(run, &mut conversation).await?;
            }
            return finish_for_good(run, &conversation, LoopEnd::Status(status)).await;
        }
        hook_events::after_calls(run, &conversation).await?; // those that an earlier process has not asked
        let hooks = hook_events::notes(run, &conversation)?;
        if let Some(why) = hooks.stop {
            calls::skip_pending(run, &mut conversation).await?;
            return finish_for_good(run, &conversation, LoopEnd::StoppedByHook(why)).await;
        }
        conversation
            .set_notes(folder_notes::texts(run, &conversation)?.into_iter().chain(hooks.texts).collect());
        // In this order: a job that ends after the first look has put its notice into the inbox before the second.
        let waits = jobs::are_awaited(run);
        #[cfg(test)]
        between(run).await;
        conversation.set_inbox(run.inbox()?);
        if waits && conversation.has_only_inbox() {
            jobs::settle(run).await;
            conversation.set_inbox(run.inbox()?);
        }
        let outcome = match conversation.next(&run.settings, waits) {
            Next::CallsDenied(calls) => {
                return finish_for_good(run, &conversation, LoopEnd::CallsDenied(calls)).await;
            }
            Next::CutOff(times) => {
                return finish_for_good(run, &conversation, LoopEnd::CutOff(times)).await;
            }
            Next::End(RunStatus::Completed | RunStatus::StepCap) if waits => {
                // Calls that are not made any more need results before the next message.
                calls::skip_pending(run, &mut conversation).await?;
                jobs::wait(run).await?;
                continue;
            }
            Next::End(status) => match end_turn(run, &conversation, status).await? {
                Some(outcome) => return Ok(outcome),
                None => continue, // a message came, or a hook prevents the end
            },
            Next::Call => {
                calls::run_pending(run, &mut conversation).await?;
                continue;
            }
            Next::Compact(message) => compact(run, &mut conversation, message).await?,
            Next::Ask(message) => model_call::turn(run, &mut conversation, message).await?,
        };
        match outcome {
            CallOutcome::Answered | CallOutcome::Stopped => {}
            CallOutcome::OverBudget(why) => {
                return finish_for_good(run, &conversation, LoopEnd::OverBudget(why)).await;
            }
            CallOutcome::GaveUp(failure)
                if failure.kind == FailureKind::RequestTooLarge && conversation.shorten() => {}
            CallOutcome::GaveUp(failure)
                if settings_fallback::drop_rejected(run, &mut conversation, &failure) => {}
            CallOutcome::GaveUp(failure) => {
                return finish_for_good(run, &conversation, LoopEnd::GaveUp(failure)).await;
            }
        }
    }
}

/// Ends the loop with a status, unless a hook says otherwise. Returns `None` if the loop continues.
async fn end_turn(
    run: &Arc<Run>,
    conversation: &Conversation,
    status: RunStatus,
) -> Result<Option<RunOutcome>, RunError> {
    let decision = match status {
        RunStatus::Completed => hook_events::at_end(run, conversation).await?,
        _ => TurnEnd::Complete,
    };
    match decision {
        TurnEnd::Complete => finish(run, conversation, LoopEnd::Status(status)).await,
        TurnEnd::Continue => Ok(None),
        TurnEnd::Stop(why) => finish(run, conversation, LoopEnd::StoppedByHook(why)).await,
    }
}

/// Ends a loop that does not complete, so that no message can continue it.
async fn finish_for_good(
    run: &Arc<Run>,
    conversation: &Conversation,
    end: LoopEnd,
) -> Result<RunOutcome, RunError> {
    Ok(finish(run, conversation, end).await?.expect("only a completed run waits for a message"))
}
