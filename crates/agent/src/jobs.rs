//! The runs below another one, as that one sees them: resumed, awaited, and reported when they end.

use std::sync::Arc;
use std::time::Duration;

use session::RunId;
use store::{Child, RunEnd, RunStatus, StoreError};

use crate::conversation::Conversation;
use crate::crash;
use crate::error::RunError;
use crate::event::EventKind;
use crate::fence;
use crate::open_calls;
use crate::outcome::is_unfinished;
use crate::process;
use crate::prompts;
use crate::run::Run;
use crate::settings::RunSettings;
use crate::stop::StopRequest;
use crate::tree::Member;

/// Length of the part of a job's answer that wakes its parent. `job_output` has the rest.
const MAX_ANSWER: usize = 16 << 10;
/// Length of the part of a job's error. Providers and schemas may quote their input.
const MAX_ERROR: usize = 2 << 10;

/// Time between ends of jobs that wake their parent together.
const SETTLE: Duration = Duration::from_millis(100);

/// Resumes the runs that were at work below a run when its last process ended.
///
/// A sub-agent that an open call waits for is resumed by that call. One whose call has its result, because it was paused
/// together with its parent, continues as a job.
pub(crate) async fn resume_children(run: &Arc<Run>, conversation: &Conversation) -> Result<(), RunError> {
    if !run.bounds.tools.iter().any(|tool| tool.starts_runs()) {
        return Ok(());
    }
    let open = conversation.calls().iter().filter(|call| call.status.is_open());
    let awaited = open.map(|call| open_calls::started_id(&run.kernel.store, &call.key));
    let awaited: Vec<RunId> = awaited.collect::<Result<_, _>>()?;
    for Child { run: row, owes } in run.kernel.store.run(run.id()).children()? {
        let continues = match owes {
            Some(owes) => owes,
            None => is_unfinished(row.status) && !awaited.contains(&row.id),
        };
        if !continues {
            continue;
        }
        if owes.is_none() {
            promote_to_job(run, &row.id).await?;
        }
        match resume_child(run, &row.id, true).await {
            Ok(_) => {}
            // A run that this version cannot read is reported as failed and does not keep others from resuming.
            Err(error @ RunError::Settings { .. }) => {
                let (error, at) = (Some(error.to_string()), run.kernel.clock.millis());
                let status = RunStatus::Failed;
                let (final_text, partial_text) = (None, None);
                let ending =
                    RunEnd { status, final_text, partial_text, error, misfits: false, fork: None, at };
                let notice = end_notice(&row.id, &row.agent, &ending).into_bytes();
                run.kernel.store.finish_job_and_notify_parent(&row.id, ending, notice).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes a run a job: no call waits for it any more, and it owes its answer.
pub(crate) async fn promote_to_job(run: &Run, child: &RunId) -> Result<(), StoreError> {
    crash::point("job.made.before");
    run.kernel.store.promote_to_job(child, run.kernel.clock.millis()).await?;
    crash::point("job.made.after");
    Ok(())
}

/// Resumes a run that was started before. One that is at work already continues as it is.
pub(crate) async fn resume_child(parent: &Arc<Run>, id: &RunId, is_job: bool) -> Result<Member, RunError> {
    if let Some(member) = parent.tree.member(id) {
        return Ok(member);
    }
    let kernel = &parent.kernel;
    let settings = RunSettings::of(&kernel.store.run(id).row()?)?;
    crash::point("child.resume.before");
    kernel
        .store
        .take_lease(id, process::lease(), kernel.clock.millis(), process::is_lease_holder_alive)
        .await?;
    crash::point("child.resume.after");
    let row = kernel.store.run(id).row()?;
    let kernel = Arc::new(kernel.for_run(&row));
    Ok(Run::below(parent, kernel, row, settings, is_job).launch())
}

/// Returns whether a run that is done waits for jobs.
pub(crate) fn are_awaited(run: &Run) -> bool {
    !leaves_jobs(run) && run.tree.count_below(run.id()) > 0
}

/// Returns whether a run pauses its jobs when it ends. Only a root may, because only a root can be resumed by itself.
fn leaves_jobs(run: &Run) -> bool {
    run.kernel.tree_limits.leave_jobs && run.is_root()
}

/// Waits until the inbox has an entry, no job is left, or a stop is requested.
pub(crate) async fn wait(run: &Run) -> Result<(), RunError> {
    let store = &run.kernel.store;
    let mut ends = run.tree.ends();
    if store.run(run.id()).has_waiting_input()? {
        return Ok(());
    }
    crash::point("park.before");
    store.park(run.id(), run.kernel.clock.millis()).await?;
    crash::point("park.after");
    run.release_slot();
    run.emit(EventKind::Waiting { jobs: run.tree.count_below(run.id()) });
    while run.tree.count_below(run.id()) > 0 && !store.run(run.id()).has_waiting_input()? {
        tokio::select! {
            _ = ends.changed() => {}
            () = run.stop.wait_for(StopRequest::Pause) => break,
        }
    }
    run.acquire_slot().await;
    crash::point("wake.before");
    store.wake(run.id(), run.kernel.clock.millis()).await?;
    crash::point("wake.after");
    Ok(())
}

/// Gives jobs that are about to end the time to do so, so that jobs that end together are reported together. Returns at
/// once if no job is at work.
pub(crate) async fn settle(run: &Run) {
    let mut ends = run.tree.ends();
    let settled = tokio::time::sleep(SETTLE);
    tokio::pin!(settled);
    while run.tree.count_below(run.id()) > 0 {
        tokio::select! {
            _ = ends.changed() => {}
            () = &mut settled => return,
            () = run.stop.wait_for(StopRequest::Pause) => return,
        }
    }
}

/// Waits until no run is at work below a run that ends. A stopped run stops those below, and one that ends by itself
/// waits for them, or pauses them if it leaves them.
pub(crate) async fn gather(run: &Run, status: RunStatus) {
    if run.tree.count_below(run.id()) == 0 {
        return;
    }
    match status {
        RunStatus::CancelledByUser | RunStatus::CancelledByParent => {
            run.tree.request_below(run.id(), StopRequest::Cancel)
        }
        RunStatus::Paused => run.tree.request_below(run.id(), StopRequest::Pause),
        _ if leaves_jobs(run) => run.tree.request_below(run.id(), StopRequest::Pause),
        _ => run.emit(EventKind::Waiting { jobs: run.tree.count_below(run.id()) }),
    }
    run.release_slot();
    run.tree.wait_until_alone(run.id()).await;
}

/// Writes the notice that reports a job's end to its parent.
pub(crate) fn end_notice(job: &RunId, agent: &str, ending: &RunEnd) -> String {
    let RunEnd { status, final_text, partial_text, error, .. } = ending;
    let text = final_text.clone().or_else(|| partial_text.as_deref().map(prompts::partial_text));
    let mut answer = text.unwrap_or_else(|| prompts::NO_FINAL_TEXT.to_owned());
    let cut = answer.floor_char_boundary(MAX_ANSWER);
    if cut < answer.len() {
        let rest = answer.len() - cut;
        answer.truncate(cut);
        answer += &format!("\n[{rest} more bytes: call `job_output` with `offset` {cut}]");
    }
    let error = error.as_deref().map(|error| format!("\nerror: {}", prompts::cut(error, MAX_ERROR)));
    // An answer cannot end the notice and begin another job's.
    let text = format!("{}\n{answer}", error.unwrap_or_default());
    let text = fence::without_control_tags(&text).unwrap_or(text);
    format!("<job_ended job_id=\"{job}\" agent=\"{agent}\" status=\"{status}\">{text}\n</job_ended>")
}
