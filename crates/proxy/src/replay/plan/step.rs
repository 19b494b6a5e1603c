//! The steps of a plan.

use std::time::Duration;

use crate::replay::traffic::{ExchangeIndex, RecordedTraffic};

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::replay) enum Step {
    /// Waits for this request. It is skipped when nothing has happened for this time.
    AwaitRequest(ExchangeIndex, Duration),
    /// Sends the reply up to this part (exclusive), and waits until it is sent.
    Send(ExchangeIndex, usize),
    /// Allows to send the reply up to this part (exclusive), and continues at once.
    Allow(ExchangeIndex, usize),
    /// Waits until the harness is idle, or for this time if its process is unknown.
    AwaitIdle(Duration),
    /// Waits for this time.
    Pause(Duration),
    /// Waits until this time after the end of the reply.
    PauseSince(ExchangeIndex, Duration),
}

/// A step of the recording with its time in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimedStep {
    pub(super) us: u64,
    pub(super) step: Step,
}

/// Minimum time after which a request that does not come is skipped.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the index of the step that completes the reply.
pub(super) fn end_of(
    traffic: &RecordedTraffic,
    steps: &[TimedStep],
    exchange: ExchangeIndex,
) -> Option<usize> {
    let end = Step::Send(exchange, traffic[exchange].response.parts.len());
    steps.iter().position(|timed| timed.step == end)
}

/// Returns the index of the step that awaits the request.
pub(super) fn arrival_of(steps: &[TimedStep], exchange: ExchangeIndex) -> Option<usize> {
    steps.iter().position(|timed| matches!(timed.step, Step::AwaitRequest(other, _) if other == exchange))
}
