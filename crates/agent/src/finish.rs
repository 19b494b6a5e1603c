//! The end of a run: written to the journal first, then emitted.

use store::{RunEnd, RunStatus, StoreError, UsageTotals};

use crate::conversation::Conversation;
use crate::crash;
use crate::end_tree;
use crate::error::RunError;
use crate::event::EventKind;
use crate::fork;
use crate::jobs;
use crate::load::load;
use crate::outcome::RunOutcome;
use crate::prior;
use crate::prompts;
use crate::provider::{ProviderFailure, RetryAdvice, chain};
use crate::run::Run;
use crate::schema;
use crate::stop::StopRequest;

/// The reason why a loop ends.
pub(crate) enum LoopEnd {
    /// The model is done, or a stop was requested.
    Status(RunStatus),
    /// The next request could exceed the budget. The text says by how much.
    OverBudget(String),
    /// The provider did not answer.
    GaveUp(ProviderFailure),
    /// That many calls were denied.
    CallsDenied(u32),
    /// The answer was cut off that many times in a row.
    CutOff(u32),
    /// A hook ends the run, for this reason.
    StoppedByHook(String),
}

/// Ends the loop: waits for the runs below, writes the end, and emits it. Returns `None` if the run would be completed and
/// a message has come, so that the loop continues.
pub(crate) async fn finish(
    run: &Run,
    conversation: &Conversation,
    end: LoopEnd,
) -> Result<Option<RunOutcome>, RunError> {
    let (status, error, failure) = match end {
        LoopEnd::Status(status) => (status, reason(status), None),
        LoopEnd::OverBudget(why) => (RunStatus::Budget, Some(why), None),
        LoopEnd::CallsDenied(calls) => {
            let why = format!("{calls} tool calls were denied, and the agent would only try more");
            (RunStatus::Failed, Some(why), None)
        }
        LoopEnd::CutOff(times) => {
            let why =
                format!("the answer reached the output limit {times} times in a row and is still incomplete");
            (RunStatus::Failed, Some(why), None)
        }
        LoopEnd::StoppedByHook(why) => {
            (RunStatus::Failed, Some(format!("a hook ended the run: {why}")), None)
        }
        LoopEnd::GaveUp(failure) => (failed_status(&failure), Some(failure.to_string()), Some(failure)),
    };
    jobs::gather(run, status).await;
    // A cancel may have arrived while it waited for the others.
    let status = match run.stop_status()? {
        Some(stopped @ (RunStatus::CancelledByUser | RunStatus::CancelledByParent)) => stopped,
        _ => status,
    };
    if matches!(status, RunStatus::CancelledByUser | RunStatus::CancelledByParent) {
        // Background commands of a completed run may continue until its tree ends, those of a cancelled run may not.
        run.tree.processes.end_background_of(run.id());
        if run.is_root() {
            // Runs that were paused before the cancel are cancelled, too.
            end_tree::end_below(run).await?;
        }
    }
    let texts = LastTexts::of(conversation, status);
    let mismatch = schema_mismatch(run, status, texts.answer.as_deref());
    let misfits = mismatch.is_some();
    let error = mismatch.or(error);
    match write_end(run, status, &texts, error.clone(), misfits).await {
        Err(RunError::Store(StoreError::HasMessage(_))) => return Ok(None),
        written => written?,
    }
    end_processes(run).await;
    emit_end(run, status, &texts, error.clone(), totals(run)?);
    Ok(Some(texts.outcome(run, status, error, failure)))
}

/// Ends a run whose loop failed. The end is written if the journal still works, and emitted in any case.
pub(crate) async fn finish_broken(run: &Run, error: &RunError) -> RunOutcome {
    let status = match error {
        RunError::NoSummary | RunError::Encode(_) | RunError::TaskPanicked => RunStatus::Failed,
        _ => RunStatus::Interrupted, // the status of a run whose process was killed
    };
    // Only a root can be resumed by itself, and the runs below it with it.
    let request = if run.is_root() { StopRequest::Pause } else { StopRequest::Cancel };
    run.tree.request_below(run.id(), request);
    run.tree.wait_until_alone(run.id()).await;
    let error = chain(error);
    let texts = load(run).map(|conversation| LastTexts::of(&conversation, status)).unwrap_or_default();
    // The journal may be the reason for the failure.
    let _ = write_end(run, status, &texts, Some(error.clone()), false).await;
    end_processes(run).await;
    emit_end(run, status, &texts, Some(error.clone()), totals(run).unwrap_or_default());
    texts.outcome(run, status, Some(error), None)
}

/// The last text of a run: its answer, or a text without one. At most one of them is set.
#[derive(Clone, Default)]
struct LastTexts {
    answer: Option<String>,
    partial: Option<String>,
}

impl LastTexts {
    fn of(conversation: &Conversation, status: RunStatus) -> Self {
        let last = conversation.final_text.last().map(str::to_owned);
        let is_answer = match status {
            RunStatus::Completed => true,
            RunStatus::StepCap => conversation.is_complete(),
            _ => false,
        };
        if is_answer { Self { answer: last, partial: None } } else { Self { answer: None, partial: last } }
    }

    fn outcome(
        self,
        run: &Run,
        status: RunStatus,
        error: Option<String>,
        failure: Option<ProviderFailure>,
    ) -> RunOutcome {
        let Self { answer: final_text, partial: partial_text } = self;
        RunOutcome { run: run.id().clone(), status, final_text, partial_text, error, failure }
    }
}

/// Returns why the answer does not match the requested schema.
fn schema_mismatch(run: &Run, status: RunStatus, answer: Option<&str>) -> Option<String> {
    let schema = run.settings.output_schema.as_ref()?;
    let answer = match status {
        RunStatus::Completed => answer.unwrap_or_default(),
        RunStatus::StepCap => answer?,
        _ => return None,
    };
    Some(prompts::schema_mismatch(&schema::check(schema, answer).err()?))
}

async fn write_end(
    run: &Run,
    status: RunStatus,
    texts: &LastTexts,
    error: Option<String>,
    misfits: bool,
) -> Result<(), RunError> {
    let at = run.kernel.clock.millis();
    let (fork, report) = fork_end(run, status).unzip();
    let is_paused = status == RunStatus::Paused;
    let LastTexts { answer: final_text, partial: partial_text } = texts.clone();
    let fork = fork.filter(|_| !is_paused);
    let ending = RunEnd { status, final_text, partial_text, error, misfits, fork, at };
    store_end(run, ending).await?;
    let is_kept = back_to_disk(run).await;
    // A paused fork has not ended, but one whose journal is lost cannot be resumed.
    if let Some(report) = report.filter(|_| !is_paused || !is_kept) {
        report.log(run.id());
        run.emit(EventKind::ForkEnded(Box::new(report)));
    }
    Ok(())
}

/// Stores the end. A job's parent is notified in the same commit. A paused job still owes its result.
async fn store_end(run: &Run, ending: RunEnd) -> Result<(), RunError> {
    if run.is_job() && ending.status != RunStatus::Paused {
        let news = jobs::end_notice(run.id(), &run.row.agent, &ending);
        crash::point("job.end.before");
        run.kernel.store.finish_job_and_notify_parent(run.id(), ending, news.into_bytes()).await?;
        crash::point("job.end.after");
    } else {
        crash::point("run.end.before");
        run.kernel.store.end_run(run.id(), ending).await?;
        crash::point("run.end.after");
    }
    Ok(())
}

fn fork_end(run: &Run, status: RunStatus) -> Option<(store::ForkEnd, crate::event::ForkReport)> {
    run.settings.fork.as_ref()?;
    let row = run.kernel.store.run(run.id()).row().ok()?;
    let ms = match run.is_resumed() {
        true => prior::usage(run).ok()?.ms,
        false => u64::try_from(run.started.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    fork::report(&run.kernel.store, &row, status, ms)
}

/// Writes the journal of a fork that continued in memory, if the disk works again. Otherwise its transcript is lost, and
/// nothing else. Returns whether it is on the disk.
async fn back_to_disk(run: &Run) -> bool {
    let store = &run.kernel.store;
    let Some(why) = store.in_memory() else { return true };
    let Err(error) = store.back_to_disk().await else { return true };
    let (error, why) = (chain(&error), chain(&why));
    tracing::warn!(run = %run.id(), error, why, "the transcript of a fork was not kept");
    run.emit(EventKind::TranscriptLost { error });
    false
}

/// Ends the background commands of the tree, while their effects can still be reported.
async fn end_processes(run: &Run) {
    if run.is_root() {
        run.tree.processes.end_all().await;
        run.emit_disarmed();
    }
}

fn emit_end(run: &Run, status: RunStatus, texts: &LastTexts, error: Option<String>, totals: UsageTotals) {
    let cost_microusd = (totals.unpriced == 0).then_some(totals.cost_microusd);
    let LastTexts { answer: final_text, partial: partial_text } = texts.clone();
    run.emit(EventKind::Finished {
        status,
        final_text,
        partial_text,
        error,
        denied_calls: run.kernel.store.run(run.id()).denied_calls().unwrap_or_default(),
        usage: totals.usage,
        cost_microusd,
    });
}

/// Returns the usage of the run and of all runs below it.
fn totals(run: &Run) -> Result<UsageTotals, RunError> {
    Ok(run.kernel.store.run(run.id()).totals()?)
}

/// Returns the status of a run without an answer: a temporary failure can be resumed, a refusal cannot.
fn failed_status(failure: &ProviderFailure) -> RunStatus {
    if failure.retry == RetryAdvice::No { RunStatus::Failed } else { RunStatus::Stalled }
}

fn reason(status: RunStatus) -> Option<String> {
    let reason = match status {
        RunStatus::Failed => "the model refused to answer",
        RunStatus::StepCap => "the step limit was reached",
        _ => return None,
    };
    Some(reason.to_owned())
}
