//! Starts the run, and runs it until it ends or a signal stops it.

use std::sync::Arc;
use std::time::Duration;

use agent::{
    Kernel, ResumeOverrides, RunError, RunLimits, RunOutcome, SideWorker, StartRequest, StopHandle,
    StopRequest,
};
use session::RunId;
use store::RunStatus;

use super::board::Board;
use super::connect::Connection;
use super::fork_args::fork_request;
use super::open::deny_rules;
use super::options::{RunOptions, StartMode};
use super::side_work;
use crate::signals::Signals;

/// Time after a pause in which a second Ctrl-C still ends the run.
const SECOND_INTERRUPT: Duration = Duration::from_secs(1);

/// A run in the journal, ready to work.
pub(super) struct StartedRun {
    pub(super) id: RunId,
    pub(super) kernel: Kernel,
    side_work: Option<Arc<SideWorker>>,
}

/// Creates, resumes or forks the run.
pub(super) async fn start(options: &RunOptions, connection: &Connection) -> Result<StartedRun, RunError> {
    let Connection { kernel, agent, .. } = connection;
    let (id, kernel) = match (connection.mode, &connection.row) {
        (StartMode::Resume, Some(row)) => {
            let own = kernel.for_run(row);
            kernel.resume(&row.id, agent.prompt.as_deref()).await?;
            (row.id.clone(), own)
        }
        (StartMode::Fork, Some(row)) => {
            let fork = fork_request(&options.args, agent, &kernel.tools);
            kernel.start_fork(&row.id, &fork).await?
        }
        _ => (kernel.start(start_request(options, connection)).await?, kernel.clone()),
    };
    let settings = &connection.provider.defaults.side_work;
    let (kernel, side_work) = side_work::attach(&options.args.side_work, settings, kernel, &id);
    Ok(StartedRun { id, kernel, side_work })
}

fn start_request(options: &RunOptions, connection: &Connection) -> StartRequest {
    let Connection { provider, agent, .. } = connection;
    let limits = &options.args.limits;
    StartRequest {
        id: options.id.clone(),
        prompt: agent.prompt.clone().unwrap_or_default(),
        agent: agent.name.clone(),
        instructions: agent.instructions(),
        tools: agent.tools(&connection.kernel.tools),
        rules: [agent.rules(), deny_rules(&options.args)].concat(),
        ask: options.args.permissions.ask.clone(),
        provider: provider.name.clone(),
        model: provider.model_id.clone(),
        limits: RunLimits {
            max_steps: limits.max_steps.or(agent.max_steps()).unwrap_or(RunLimits::MAIN_STEPS),
            max_budget_microusd: options.max_budget_microusd,
            max_budget_tokens: limits.max_budget_tokens,
            ..RunLimits::of(&provider.model_id)
        },
    }
}

/// Runs until the end. Signals pause or end the run.
pub(super) async fn run_to_end(
    options: &RunOptions,
    started: &StartedRun,
    connection: &Connection,
    signals: &mut Signals,
) -> Result<RunOutcome, RunError> {
    let overrides = ResumeOverrides {
        max_steps: options.args.limits.max_steps,
        max_budget_microusd: options.max_budget_microusd,
        max_budget_tokens: options.args.limits.max_budget_tokens,
        provider: Some(connection.provider.name.clone()),
    };
    let stop_handle = StopHandle::new();
    let mut is_interrupted = false;
    let result = {
        let work = started.kernel.run(&started.id, &overrides, &stop_handle);
        tokio::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => break result,
                signal = signals.next() => {
                    is_interrupted |= signal == libc::SIGINT;
                    stop_by_signal(signal, &stop_handle, &connection.board);
                }
            }
        }
    };
    let result = match result {
        Ok(outcome) if outcome.status == RunStatus::Paused && is_interrupted => {
            await_second_interrupt(outcome, &started.kernel, &stop_handle, signals).await
        }
        result => result,
    };
    if let Some(worker) = &started.side_work {
        let status = result.as_ref().ok().map(|outcome| outcome.status);
        side_work::finish(worker, status, signals).await;
    }
    connection.events.release();
    result
}

/// Pauses the run at the first signal. A second Ctrl-C ends it; SIGTERM and SIGHUP only pause.
fn stop_by_signal(signal: i32, stop_handle: &StopHandle, board: &Board) {
    let is_second = stop_handle.signal().requested() >= StopRequest::Pause;
    let is_interrupt = signal == libc::SIGINT;
    match (is_second, is_interrupt) {
        (false, true) => board.print_line("\npausing; Ctrl-C again ends the run"),
        (false, false) => board.print_line("pausing"),
        _ => {}
    }
    stop_handle.request(if is_interrupt && is_second { StopRequest::Cancel } else { StopRequest::Pause });
}

/// Waits a moment after a pause for the Ctrl-C that ends the run.
async fn await_second_interrupt(
    outcome: RunOutcome,
    kernel: &Kernel,
    stop_handle: &StopHandle,
    signals: &mut Signals,
) -> Result<RunOutcome, RunError> {
    // It may have come while the pause was written.
    if stop_handle.signal().requested() < StopRequest::Cancel {
        let signal = tokio::time::timeout(SECOND_INTERRUPT, signals.next()).await;
        if signal != Ok(libc::SIGINT) {
            return Ok(outcome);
        }
    }
    kernel.cancel(&outcome.run).await?;
    Ok(RunOutcome { status: RunStatus::CancelledByUser, ..outcome })
}
