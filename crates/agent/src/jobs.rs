//! Runs below another one, as that one sees them: taken up again, waited for, and told of when they end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use session::RunId;
use store::{CancelScope, Child, Filter, FinalRecord, Millis, RunEnd, RunKind, RunStatus, Store, StoreError};

use crate::calls;
use crate::conversation::Conversation;
use crate::crash;
use crate::error::RunError;
use crate::event::EventKind;
use crate::fork::{self, ForkReport};
use crate::mcp;
use crate::process;
use crate::run::Run;
use crate::settings::RunSettings;
use crate::shell::{Processes, ShellConfig};
use crate::spawn;
use crate::spoken::Spoken;
use crate::stop::StopRequest;
use crate::tools::STARTING;
use crate::tree::Member;
use crate::words;

/// How much of a job's answer its parent is woken with; the rest is there for whoever asks.
const MOST: usize = 16 << 10;
/// And how much of why it has none: a provider or a schema may quote what it was given.
const MOST_ERROR: usize = 2 << 10;

/// How far apart the ends of jobs may be that wake their parent together.
const SETTLE: Duration = Duration::from_millis(100);

/// Takes up what was at work below a run when its last process ended.
///
/// A sub-agent that a call still waits for is taken up by that call. One whose call has its result already, since it was
/// paused together with its parent, goes on in the background.
pub(crate) async fn take_up(run: &Arc<Run>, talk: &Conversation) -> Result<(), RunError> {
    if !run.tools.names().any(|name| STARTING.contains(&name)) {
        return Ok(());
    }
    let awaited: Vec<RunId> =
        talk.calls().iter().filter(|call| call.status.is_open()).map(|call| spawn::id(&call.key)).collect();
    for Child { run: row, owes } in run.kernel.store.run(&run.id).children()? {
        let goes_on = match owes {
            Some(owes) => owes,
            None => goes_on(row.status) && !awaited.contains(&row.id),
        };
        if !goes_on {
            continue;
        }
        if owes.is_none() {
            make(run, &row.id).await?;
        }
        match again(run, &row.id, true).await {
            Ok(_) => {}
            // What cannot go on is told of, and keeps nobody else from it.
            Err(error @ RunError::Settings { .. }) => {
                let (error, at) = (Some(error.to_string()), run.kernel.clock.millis());
                let status = RunStatus::Failed;
                let ending = RunEnd { status, final_text: None, error, misfits: false, fork: None, at };
                let told = news(&row.id, &row.agent, &ending).into_bytes();
                run.kernel.store.finish_job_and_notify_parent(&row.id, ending, told).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Nobody waits for a run any more: it goes on in the background, and owes its answer.
pub(crate) async fn make(run: &Run, child: &RunId) -> Result<(), StoreError> {
    crash::point("job.made.before");
    run.kernel.store.promote_to_job(child, run.kernel.clock.millis()).await?;
    crash::point("job.made.after");
    Ok(())
}

/// Whether a run that stands like that has not come to its end.
pub(crate) fn goes_on(status: RunStatus) -> bool {
    status.is_live() || status.is_paused()
}

/// Lets a run go on that was begun before; one that is at work already goes on as it is.
pub(crate) async fn again(above: &Arc<Run>, id: &RunId, is_job: bool) -> Result<Member, RunError> {
    if let Some(member) = above.tree.member(id) {
        return Ok(member);
    }
    let kernel = &above.kernel;
    let settings = RunSettings::of(&kernel.store.run(id).row()?)?;
    crash::point("child.resume.before");
    kernel
        .store
        .take_lease(id, process::lease(), kernel.clock.millis(), process::is_lease_holder_alive)
        .await?;
    crash::point("child.resume.after");
    let row = kernel.store.run(id).row()?;
    let kernel = Arc::new(kernel.for_run(&row));
    Ok(above.tree.launch(Run::below(above, kernel, row, settings, is_job)))
}

/// Ends a run that nobody is at work on, and all below it; with a whole tree also what it has left running. Those that
/// were ended, the lowest first, each with what is told of it where it is a fork.
pub async fn end_tree(
    store: &Store,
    run: &RunId,
    at: Millis,
) -> Result<Vec<(RunId, Option<ForkReport>)>, StoreError> {
    let ended = end_runs(store, run, at, CancelScope::Tree).await?;
    let root = store.run(run).row()?.root;
    if root == *run {
        let left = Processes::new(ShellConfig::default(), run, store);
        left.end_leftovers().await?;
        left.end_all().await;
        mcp::end_leftover_servers();
    }
    Ok(ended)
}

/// The same for those below a run alone: what was paused with it, before it was to end for good.
pub(crate) async fn end_below(run: &Run) -> Result<(), RunError> {
    let kernel = &run.kernel;
    for (id, fork) in
        end_runs(&kernel.store, &run.id, kernel.clock.millis(), CancelScope::Descendants).await?
    {
        kernel.tell_end_of(&id, fork)?;
    }
    Ok(())
}

async fn end_runs(
    store: &Store,
    run: &RunId,
    at: Millis,
    whom: CancelScope,
) -> Result<Vec<(RunId, Option<ForkReport>)>, StoreError> {
    let (mut agents, mut left, mut told_of) = (HashMap::new(), HashMap::new(), HashMap::new());
    for found in store.runs(&Filter { below: Some(run.clone()), ..Filter::default() })? {
        let by_whom =
            if found.id == *run { RunStatus::CancelledByUser } else { RunStatus::CancelledByParent };
        let ms = u64::try_from(at.0 - found.created_at.0).unwrap_or_default();
        let final_text = Spoken::of(&store.run(&found.id).messages()?).last().map(str::to_owned);
        let mut of_it =
            FinalRecord { final_text, fork: None, results: calls::left_open(store, &found.id, at)? };
        if found.kind == RunKind::Fork
            && let Some((end, told)) = fork::ended(store, &store.run(&found.id).row()?, by_whom, ms)
        {
            of_it.fork = Some(end);
            told_of.insert(found.id.clone(), told);
        }
        left.insert(found.id.clone(), of_it);
        agents.insert(found.id, found.agent);
    }
    let told = move |run: &RunId, ending: &RunEnd| {
        news(run, agents.get(run).map_or("", String::as_str), ending).into_bytes()
    };
    let ended = store.end_tree(run, whom, at, left, told).await?;
    let ended = ended.into_iter().map(|id| {
        let told = told_of.remove(&id);
        if let Some(told) = &told {
            told.log(&id);
        }
        (id, told)
    });
    Ok(ended.collect())
}

/// Whether a run that has nothing more to say waits for others.
pub(crate) fn are_waited_for(run: &Run) -> bool {
    !leaves(run) && run.tree.below(&run.id) > 0
}

/// Whether it leaves its jobs. Only what can be taken up again by itself does.
fn leaves(run: &Run) -> bool {
    run.kernel.tree_limits.leave_jobs && run.is_root()
}

/// Waits until something waits for the run, nobody is left below it, or it is told to stop.
pub(crate) async fn wait(run: &Run) -> Result<(), RunError> {
    let store = &run.kernel.store;
    let mut ends = run.tree.ends();
    if store.run(&run.id).has_waiting_input()? {
        return Ok(());
    }
    crash::point("park.before");
    store.park(&run.id, run.kernel.clock.millis()).await?;
    crash::point("park.after");
    run.leave_place();
    run.tell(EventKind::Waiting { jobs: run.tree.below(&run.id) });
    while run.tree.below(&run.id) > 0 && !store.run(&run.id).has_waiting_input()? {
        tokio::select! {
            _ = ends.changed() => {}
            () = run.stop.wait_for(StopRequest::Pause) => break,
        }
    }
    run.take_place().await;
    crash::point("wake.before");
    store.wake(&run.id, run.kernel.clock.millis()).await?;
    crash::point("wake.after");
    Ok(())
}

/// Gives others that are about to end the time to do so: jobs that end together are told of together, whichever of them is
/// a little faster. Ends at once where nobody else is at work.
pub(crate) async fn settle(run: &Run) {
    let mut ends = run.tree.ends();
    let settled = tokio::time::sleep(SETTLE);
    tokio::pin!(settled);
    while run.tree.below(&run.id) > 0 {
        tokio::select! {
            _ = ends.changed() => {}
            () = &mut settled => return,
            () = run.stop.wait_for(StopRequest::Pause) => return,
        }
    }
}

/// Nobody is at work below a run any more when it ends: who is told to stop tells those below, and who ends by itself
/// waits for them, or pauses them where it leaves them.
pub(crate) async fn gather(run: &Run, status: RunStatus) {
    if run.tree.below(&run.id) == 0 {
        return;
    }
    match status {
        RunStatus::CancelledByUser | RunStatus::CancelledByParent => {
            run.tree.ask_below(&run.id, StopRequest::Cancel)
        }
        RunStatus::Paused => run.tree.ask_below(&run.id, StopRequest::Pause),
        _ if leaves(run) => run.tree.ask_below(&run.id, StopRequest::Pause),
        _ => run.tell(EventKind::Waiting { jobs: run.tree.below(&run.id) }),
    }
    run.leave_place();
    run.tree.alone(&run.id).await;
}

/// What a parent is told when a job has ended.
pub(crate) fn news(job: &RunId, agent: &str, ending: &RunEnd) -> String {
    let RunEnd { status, final_text, error, .. } = ending;
    let mut said = final_text.clone().unwrap_or_else(|| words::NO_FINAL_TEXT.to_owned());
    let cut = said.floor_char_boundary(MOST);
    if cut < said.len() {
        let rest = said.len() - cut;
        said.truncate(cut);
        said += &format!("\n[{rest} bytes more: `job_output` has them from `offset` {cut} on]");
    }
    let error = error.as_deref().map(|error| format!("\nerror: {}", words::cut(error, MOST_ERROR)));
    // Nobody ends another one's job by what it says.
    let told = format!("{}\n{said}", error.unwrap_or_default()).replace("</job_ended", "<\\/job_ended");
    format!("<job_ended job_id=\"{job}\" agent=\"{agent}\" status=\"{status}\">{told}\n</job_ended>")
}
