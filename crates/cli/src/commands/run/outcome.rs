//! Reports the end of a run: message, hint, and exit code.

use std::path::Path;
use std::process::ExitCode;

use agent::provider::{FailureKind, ProviderFailure, RetryAdvice};
use agent::{RunError, RunOutcome};
use session::RunId;
use store::{Filter, RunStatus, Store, StoreError};

use super::execute::StartedRun;
use super::failure::failure;
use super::options::RunOptions;
use crate::failure::{ExitKind, classify};
use crate::{journal, paths};

/// Prints the end of a run, and returns the exit code. An output error is reported only if nothing else failed.
pub(super) fn report(
    result: Result<RunOutcome, RunError>,
    started: &StartedRun,
    options: &RunOptions,
    output_error: Option<std::io::Error>,
) -> anyhow::Result<ExitCode> {
    let StartedRun { id, kernel, .. } = started;
    let script = options.args.script.path.as_deref();
    let in_memory = kernel.store.in_memory();
    let is_stored = in_memory.is_none();
    let code = match (result, in_memory) {
        (Ok(outcome), Some(why)) => report_unstored(&outcome, &why, kernel.store.path()),
        (Err(error), Some(_)) => Err(failure(error)),
        (Ok(outcome), None) => {
            let jobs = kernel.store.run(id).jobs().unwrap_or_default(); // unreadable jobs are not counted
            let paused = jobs.iter().filter(|job| job.ended_at.is_none()).count();
            report_outcome(&outcome, paused, script)
        }
        // The loop could not store its own end. The journal has every step before it.
        (Err(error), None) => Err(resumable(error, id, script)),
    };
    match (code, output_error) {
        (Ok(_), Some(error)) => {
            let hint = is_stored.then(|| format!("offshoot show {id}"));
            let error = anyhow::Error::new(error).context("cannot write the output");
            Err(classify(ExitKind::Outside, hint, error))
        }
        (code, _) => code,
    }
}

/// Reports the end of a run in the journal. `paused` is the number of its unfinished jobs.
fn report_outcome(outcome: &RunOutcome, paused: usize, script: Option<&Path>) -> anyhow::Result<ExitCode> {
    let RunOutcome { run, status, error, .. } = outcome;
    let resume = resume_command(run, script);
    match status {
        RunStatus::Completed => {
            if outcome.final_text.is_none() {
                status!("{}", agent::NO_FINAL_TEXT);
            }
            match paused {
                0 => status!("run {run}"),
                1 => status!("run {run}; 1 job is paused; to resume it: `{resume}`"),
                paused => status!("run {run}; {paused} jobs are paused; to resume them: `{resume}`"),
            }
            return Ok(ExitCode::SUCCESS);
        }
        RunStatus::Paused => status!("paused; to resume: `{resume}`"),
        RunStatus::CancelledByUser => status!("run `{run}` was cancelled"),
        RunStatus::StepCap => {
            status!("reached the maximum number of turns; to continue: `{resume} --max-steps N`")
        }
        RunStatus::Budget => {
            let why = error.as_deref().unwrap_or("reached the budget");
            let flag = if why.contains("tokens") { "--max-budget-tokens" } else { "--max-budget-usd" };
            status!("{why}; to continue: `{resume} {flag} N`");
        }
        _ => return Err(failed_run(outcome, &resume, script)),
    }
    Ok(ExitCode::from(ExitKind::Verdict as u8))
}

fn failed_run(outcome: &RunOutcome, resume: &str, script: Option<&Path>) -> anyhow::Error {
    let (kind, hint) = match &outcome.failure {
        Some(failure) => provider_advice(failure, resume, script),
        // The run stopped on purpose, and would stop again.
        None => (ExitKind::Verdict, format!("{resume} 'what to do instead'")),
    };
    let error = outcome.error.as_deref().unwrap_or("it cannot continue");
    let error = anyhow::anyhow!("run `{}` is {}: {error}", outcome.run, outcome.status.words());
    classify(kind, Some(hint), error)
}

/// Reports the end of a fork that exists only in memory and cannot be resumed.
fn report_unstored(outcome: &RunOutcome, why: &StoreError, path: &Path) -> anyhow::Result<ExitCode> {
    if outcome.status == RunStatus::Completed {
        if outcome.final_text.is_none() {
            status!("{}", agent::NO_FINAL_TEXT);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let error = outcome.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let error = anyhow::anyhow!("the fork is {}, and was not stored{error}", outcome.status.words());
    let kind = if outcome.failure.is_some() { ExitKind::Outside } else { ExitKind::Verdict };
    Err(classify(kind, journal::hint(why, path), error))
}

/// Returns the command that resumes a run.
fn resume_command(run: &RunId, script: Option<&Path>) -> String {
    let script =
        script.map(|script| format!(" --script {}", paths::shell_word(&script.display().to_string())));
    format!("offshoot run --resume {run}{}", script.unwrap_or_default())
}

/// Chooses the exit code and the hint after a failure of the provider. The user can fix a key, an address or a script.
fn provider_advice(failure: &ProviderFailure, resume: &str, script: Option<&Path>) -> (ExitKind, String) {
    if let (Some(script), FailureKind::Status(_) | FailureKind::Auth | FailureKind::NotFound) =
        (script, failure.kind)
    {
        return (ExitKind::Usage, format!("add a reply to `{}`, then `{resume}`", script.display()));
    }
    let kind = match failure.kind {
        FailureKind::Auth | FailureKind::NotFound | FailureKind::Redirect => ExitKind::Usage,
        // The address is wrong.
        FailureKind::Connect | FailureKind::Garbage if failure.retry == RetryAdvice::No => ExitKind::Usage,
        _ => ExitKind::Outside,
    };
    let hint = match failure.kind {
        FailureKind::OutputLimit => format!("{resume} 'Take smaller steps.'"),
        FailureKind::RequestTooLarge => {
            "start a new run with the rest of the task: `offshoot run '…'`".to_owned()
        }
        _ => match &failure.hint {
            Some(hint) => format!("{hint}; then `{resume}`"),
            None => resume.to_owned(),
        },
    };
    (kind, hint)
}

/// Adds the exit code and the hint to an error of the start.
pub(super) fn start_failure(error: RunError, store: &Store) -> anyhow::Error {
    match &error {
        // An active run gets a fork point soon, and must not be resumed.
        RunError::NoForkPoint(run) if is_active(store, run) => {
            let hint = "wait until its first turn has ended (`offshoot ps --live`), then ask again";
            classify(ExitKind::Usage, Some(hint.to_owned()), error.into())
        }
        _ => failure(error),
    }
}

fn is_active(store: &Store, run: &RunId) -> bool {
    let tree = Filter { below: Some(run.clone()), ..Filter::default() };
    let runs = store.runs(&tree).unwrap_or_default(); // an unreadable run gets the usual hint
    runs.into_iter().filter(|summary| summary.id == *run).any(|mut summary| {
        journal::mark_interrupted(&mut summary);
        summary.status.is_live()
    })
}

/// Adds the exit code and the hint to an error that broke off the loop. The run can be resumed.
fn resumable(error: RunError, run: &RunId, script: Option<&Path>) -> anyhow::Error {
    let kind = match &error {
        RunError::Store(error) => journal::exit_kind(error),
        RunError::NoSummary => ExitKind::Outside,
        _ => ExitKind::Bug,
    };
    let resume = resume_command(run, script);
    let hint = match &error {
        RunError::NoSummary => format!("request the summary again: `{resume}`"),
        // The journal cannot be trusted, so no run can be resumed from it.
        RunError::Store(
            error @ (StoreError::Corrupt { path, .. }
            | StoreError::NotADatabase { path }
            | StoreError::Emptied { path, .. }
            | StoreError::LogDamaged { path, .. }
            | StoreError::Removed { path }),
        ) => return classify(kind, journal::hint(error, path), anyhow::Error::new(error.clone())),
        _ => format!("to resume: `{resume}`"),
    };
    classify(kind, Some(hint), error.into())
}
