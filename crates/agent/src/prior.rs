//! The usage of earlier loops of a run.

use session::Usage;

use crate::error::RunError;
use crate::event::PriorUsage;
use crate::run::Run;

/// Returns what the run had used when it was resumed. Its working time is the time in which a request or a call was open.
pub(crate) fn usage(run: &Run) -> Result<PriorUsage, RunError> {
    let mut prior = PriorUsage { usage: Usage::default(), cost_microusd: Some(0), ms: 0 };
    let reads = run.kernel.store.run(run.id());
    let mut open: Vec<(i64, i64)> = Vec::new();
    for call in reads.model_calls()? {
        prior.usage += call.usage;
        if call.status == store::ModelCallStatus::Answered {
            prior.cost_microusd = prior.cost_microusd.zip(call.cost_microusd).map(|(all, more)| all + more);
        }
        open.extend(call.ended_at.map(|end| (call.asked_at.0, end.0)));
    }
    let calls = reads.tool_calls()?;
    open.extend(calls.iter().filter_map(|call| Some((call.started_at?.0, call.ended_at?.0))));
    open.sort_unstable();
    let mut until = i64::MIN;
    for (start, end) in open {
        prior.ms += u64::try_from(end - start.max(until)).unwrap_or_default();
        until = until.max(end);
    }
    Ok(prior)
}
