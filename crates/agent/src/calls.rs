//! The tool calls of one reply: written to the journal before they are made, made together where that is safe, and each
//! result written before it is used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use session::{RunId, ToolResult};
use store::{CallStatus, FinishedCall, FolderText, Policy, RunStatus, SeenFile, StoreError, StoredToolCall};

use crate::approval::judge_calls;
use crate::conversation::{Conversation, placeholder};
use crate::crash;
use crate::error::RunError;
use crate::event::EventKind;
use crate::fence;
use crate::folder_notes;
use crate::hook_events;
use crate::jobs;
use crate::open_calls::{self, as_result, started_run};
use crate::outcome::{RunOutcome, is_unfinished};
use crate::permission::PermissionRules;
use crate::picture;
use crate::preview;
use crate::prompts::{self, text_block};
use crate::run::Run;
use crate::skill_limits;
use crate::stop::StopRequest;
use crate::sub_agents::SubAgents;
use crate::tasks;
use crate::tool::{Tool, ToolContext, ToolOutput, start_slots};
use crate::tools::{MANAGE_TASKS, sub_agent_output, unfinished_output};
use crate::workspace::Workspace;

/// Runs the calls that have no result yet. Returns early, between two batches, if a stop is requested.
pub(crate) async fn run_pending(run: &Arc<Run>, conversation: &mut Conversation) -> Result<(), RunError> {
    for batch in batches(run, calls_that(conversation, |status| status.is_open())) {
        if run.stop.requested() > StopRequest::None {
            return Ok(());
        }
        run.set_open_calls(conversation.calls());
        for finished in run_batch(run, batch).await? {
            conversation.finished(finished);
        }
        hook_events::after_calls(run, conversation).await?;
        if hook_events::notes(run, conversation)?.stop.is_some() {
            return Ok(());
        }
    }
    Ok(())
}

/// Gives each call that has no result yet a result that says so.
pub(crate) async fn skip_pending(run: &Arc<Run>, conversation: &mut Conversation) -> Result<(), RunError> {
    for call in calls_that(conversation, |status| status.is_open()) {
        conversation.finished(abandon_call(run, call).await?);
    }
    Ok(())
}

/// Gives results to the calls that an earlier process had started, if the run is cancelled before it resumes them.
pub(crate) async fn end_started(run: &Arc<Run>, conversation: &mut Conversation) -> Result<(), RunError> {
    for call in calls_that(conversation, |status| status == CallStatus::Running) {
        conversation.finished(abandon_call(run, call).await?);
    }
    Ok(())
}

fn calls_that(conversation: &Conversation, has: impl Fn(CallStatus) -> bool) -> Vec<StoredToolCall> {
    conversation.calls().iter().filter(|call| has(call.status)).cloned().collect()
}

/// Groups calls: those that change nothing, or wait for other runs, are made together. Each other call is made alone, so
/// that later calls see its effect.
fn batches(run: &Run, calls: Vec<StoredToolCall>) -> Vec<Vec<StoredToolCall>> {
    let waits = |tool: &dyn Tool| tool.is_waiting_call() && !tool.ends_runs();
    let joins = |call: &StoredToolCall| {
        call.policy == Policy::Pure || run.bounds.tools.find(&call.name).is_some_and(waits)
    };
    let mut batches: Vec<Vec<StoredToolCall>> = Vec::new();
    for call in calls {
        match batches.last_mut() {
            Some(batch) if joins(&call) && joins(&batch[0]) => batch.push(call),
            _ => batches.push(vec![call]),
        }
    }
    batches
}

async fn run_batch(run: &Arc<Run>, batch: Vec<StoredToolCall>) -> Result<Vec<StoredToolCall>, RunError> {
    let (lost, to_start): (Vec<_>, Vec<_>) = batch.into_iter().partition(may_have_run);
    let mut finished = Vec::new();
    for call in lost {
        let result = placeholder(&call, prompts::MAY_HAVE_RUN);
        finished.push(finish(run, call, CallStatus::MayHaveRun, None, result).await?);
    }
    let Some(to_start) = hook_events::before_calls(run, to_start).await? else { return Ok(finished) };
    let Some((to_start, denied)) = judge_calls(run, to_start).await? else { return Ok(finished) };
    for (call, why) in denied {
        finished.push(deny(run, call, why).await?);
    }
    if to_start.is_empty() {
        return Ok(finished);
    }
    let keys: Vec<_> = to_start.iter().map(|call| call.key.clone()).collect();
    crash::point("call.intent.before");
    match run.kernel.store.start_calls(run.id(), &keys, run.kernel.clock.millis()).await {
        // Another process has requested it, and this one has not looked since.
        Err(StoreError::CancelRequested(_)) => {
            run.stop_handle.request(StopRequest::Cancel);
            return Ok(finished);
        }
        started => started?,
    }
    crash::point("call.intent.after");
    let context = tool_context(run, &to_start[0])?;
    // A run that only waits for others lets them have its slot.
    let tool = |call: &StoredToolCall| run.bounds.tools.find(&call.name);
    let waits =
        to_start.iter().any(|call| tool(call).is_some_and(Tool::is_waiting_call) && !is_background(call));
    if waits {
        run.release_slot();
    }
    let done = perform_all(run, to_start, context, finished).await;
    if waits {
        run.acquire_slot().await;
    }
    done
}

/// Creates the surroundings of a call. The workspace has the rules of the run, of those above it, and of their skills.
fn tool_context(run: &Arc<Run>, call: &StoredToolCall) -> Result<ToolContext, RunError> {
    let seen = run.kernel.store.run(run.id()).seen_files()?;
    let rules: Vec<Arc<PermissionRules>> =
        run.bounds.rules.iter().cloned().chain(skill_limits::rules_above(run)).collect();
    let workspace = Workspace::clone(&run.kernel.workspace);
    let workspace = rules.iter().fold(workspace, |all, rules| all.with_rules(Arc::clone(rules)));
    Ok(ToolContext {
        workspace: Arc::new(workspace),
        seen: Arc::new(seen.into_iter().map(|file| (file.path, file.sha256)).collect()),
        processes: Arc::clone(&run.tree.processes),
        caller: Some(Arc::new(SubAgents(Arc::clone(run)))),
        now: run.kernel.clock.now(),
        // Memory and tasks must be on the disk, even for a fork whose journal is in memory.
        store: run.kernel.store.on_disk(),
        thread: run.row.thread.clone(),
        call: call.key.clone(),
        call_id: call.call.clone(),
        rules: std::iter::once(Arc::clone(&run.kernel.rules)).chain(rules).collect(),
        skills: folder_notes::skills(run)?,
        start_slot: None,
    })
}

/// Makes calls at the same time, and writes each result when it comes.
async fn perform_all(
    run: &Arc<Run>,
    to_start: Vec<StoredToolCall>,
    context: ToolContext,
    mut finished: Vec<StoredToolCall>,
) -> Result<Vec<StoredToolCall>, RunError> {
    let mut running = tokio::task::JoinSet::new();
    let workspace = Arc::clone(&context.workspace);
    let mut slots = start_slots(to_start.iter().filter(|call| starts_runs(run, call)).count());
    for (index, call) in to_start.iter().enumerate() {
        run.emit(EventKind::CallStarted {
            call: call.call.clone(),
            name: call.name.clone(),
            input: String::from_utf8_lossy(&call.input).into_owned(),
        });
        let context = ToolContext {
            call: call.key.clone(),
            call_id: call.call.clone(),
            start_slot: if starts_runs(run, call) { slots.next().map(Arc::new) } else { None },
            ..context.clone()
        };
        let work = perform(run, call, context);
        running.spawn(async move { (index, work.await) });
    }
    let mut to_start: Vec<Option<StoredToolCall>> = to_start.into_iter().map(Some).collect();
    loop {
        let ended = tokio::select! {
            ended = running.join_next() => ended,
            () = run.stop.wait_for(StopRequest::Cancel) => break, // the remaining results are dropped
        };
        let Some(ended) = ended else { return Ok(finished) };
        let (index, (output, took, timed_out)) = ended.map_err(|_| RunError::ToolTaskLost)?;
        let Some(call) = to_start[index].take() else { continue };
        crash::note(&format!("effect {}", call.call));
        crash::point("call.effect.after");
        let status = match output.is_error {
            // The effect may still happen.
            true if (timed_out || output.is_uncertain) && call.policy != Policy::Pure => {
                CallStatus::MayHaveRun
            }
            true => CallStatus::Failed,
            false => CallStatus::Done,
        };
        let ToolOutput { mut blocks, is_error, seen, fetches, .. } = output;
        let disarmed = run.emit_disarmed();
        blocks.extend(disarmed.iter().map(|text| text_block(&format!("\n[{}]", fence::fenced(text)))));
        let blocks = picture::for_model(&run.row.model, blocks);
        let result = ToolResult { call: call.call.clone(), blocks, is_error, server: false };
        let id = call.call.clone();
        let folders = folder_notes::of_files(run, &workspace, &seen)?;
        finished.push(finish_with(run, call, (status, None), result, (seen, fetches), folders, took).await?);
        crash::note(&format!("recorded {id}"));
        crash::point("call.commit.after");
    }
    drop(running);
    for mut call in to_start.into_iter().flatten() {
        call.status = CallStatus::Running;
        finished.push(abandon_call(run, call).await?);
    }
    Ok(finished)
}

/// Denies a call. One that an earlier process started may have had an effect, and the run that it started continues.
async fn deny(run: &Arc<Run>, call: StoredToolCall, why: String) -> Result<StoredToolCall, RunError> {
    let store = &run.kernel.store;
    let is_started = call.status == CallStatus::Running && call.policy != Policy::Pure;
    if !is_started || starts_runs(run, &call) && started_run(store, &call)?.is_none() {
        let result = placeholder(&call, &prompts::denied(&why));
        return finish(run, call, CallStatus::Denied, Some(why), result).await;
    }
    let continues =
        started_run(store, &call)?.filter(|row| starts_runs(run, &call) && is_unfinished(row.status));
    let call = abandon_call(run, call).await?;
    if let Some(child) = continues {
        jobs::resume_child(run, &child.id, true).await?;
    }
    Ok(call)
}

fn starts_runs(run: &Run, call: &StoredToolCall) -> bool {
    open_calls::starts_runs(&run.kernel.tools, call)
}

/// Returns whether a call starts a sub-agent and does not wait for it.
fn is_background(call: &StoredToolCall) -> bool {
    let input: serde_json::Value = serde_json::from_slice(&call.input).unwrap_or_default();
    input["run_in_background"] == true
}

/// Returns whether an earlier process has started a call that must not be made twice.
fn may_have_run(call: &StoredToolCall) -> bool {
    call.policy == Policy::Unsafe && call.status == CallStatus::Running
}

/// Returns the work of one call, for a task of its own: its output, its duration, and whether it timed out. A panic is an
/// output, too.
fn perform(
    run: &Arc<Run>,
    call: &StoredToolCall,
    context: ToolContext,
) -> impl Future<Output = (ToolOutput, Duration, bool)> + Send + use<> {
    let tools = Arc::clone(&run.bounds.tools);
    let (name, input) = (call.name.clone(), call.input.clone());
    let deadline = tools.deadline(&name);
    async move {
        let started = Instant::now();
        let tool = name.clone();
        // A task in a set ends with the set, so that a tool that timed out does nothing more.
        let mut work = tokio::task::JoinSet::new();
        work.spawn(async move { tools.call(&name, &input, &context).await });
        let (output, timed_out) = match tokio::time::timeout(deadline, work.join_next()).await {
            Ok(Some(Ok(output))) => (output, false),
            Ok(_) => {
                let text = format!("`{tool}` crashed; this is a bug in the tool, not in your call");
                (ToolOutput::error(text), false)
            }
            Err(_) => {
                let text = format!("`{tool}` was stopped: it took longer than {} s", deadline.as_secs());
                (ToolOutput::error(text), true)
            }
        };
        (output, started.elapsed(), timed_out)
    }
}

/// Writes the result of a call that was not made, with the reason if it was denied.
async fn finish(
    run: &Arc<Run>,
    call: StoredToolCall,
    status: CallStatus,
    reason: Option<String>,
    result: ToolResult,
) -> Result<StoredToolCall, RunError> {
    finish_with(run, call, (status, reason), result, (Vec::new(), None), Vec::new(), Duration::ZERO).await
}

/// Writes a result, with the files that the agent knows from it, and the job whose end it reports.
async fn finish_with(
    run: &Arc<Run>,
    mut call: StoredToolCall,
    (status, reason): (CallStatus, Option<String>),
    result: ToolResult,
    (seen, fetches): (Vec<SeenFile>, Option<RunId>),
    folders: Vec<FolderText>,
    took: Duration,
) -> Result<StoredToolCall, RunError> {
    let preview = preview::decide(&result);
    let at = run.kernel.clock.millis();
    let (key, kept) = (call.key.clone(), preview.clone());
    let finished = FinishedCall { key, status, result: result.clone(), preview: kept, seen, folders, at };
    match fetches {
        Some(job) => {
            crash::point("fetch.before");
            run.kernel.store.consume_job(&job, finished).await?;
            crash::point("fetch.after");
        }
        None => run.kernel.store.finish_call(finished).await?,
    }
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    run.log_call(&call, status, ms);
    let text = preview.clone().unwrap_or_else(|| preview::text_of(&result));
    // Events begin with the loop. Calls that were settled before it are in the journal.
    if run.has_events() {
        let input = String::from_utf8_lossy(&call.input).into_owned();
        let (id, name) = (call.call.clone(), call.name.clone());
        run.emit(EventKind::CallFinished { call: id, name, input, status, text, reason, ms });
        if status == CallStatus::Done && call.name == MANAGE_TASKS {
            let tasks = run.kernel.store.on_disk().main().tasks(&run.row.thread)?;
            let tasks =
                tasks.iter().map(|task| (tasks::display_name(task), task.status, task.subject.clone()));
            run.emit(EventKind::TasksChanged { tasks: tasks.collect() });
        }
    }
    (call.status, call.result, call.preview, call.ended_at) = (status, Some(result), preview, Some(at));
    Ok(call)
}

/// Gives a result to a call that is not made, or not awaited, any more.
async fn abandon_call(run: &Arc<Run>, call: StoredToolCall) -> Result<StoredToolCall, RunError> {
    if call.status == CallStatus::Running && starts_runs(run, &call) {
        return detach_child(run, call).await;
    }
    let (status, result) = open_calls::no_result(&run.kernel.tools, &call);
    finish(run, call, status, None, result).await
}

/// Gives a result to a call that does not wait for its sub-agent any more: the answer if there is one. A sub-agent that
/// still works continues as a job.
async fn detach_child(run: &Arc<Run>, call: StoredToolCall) -> Result<StoredToolCall, RunError> {
    let child = open_calls::started_id(&run.kernel.store, &call.key)?;
    // Before its row is read: a run that is at work here ends by itself.
    let is_here = run.tree.member(&child).is_some();
    let output = match started_run(&run.kernel.store, &call)? {
        None => ToolOutput::error(prompts::NO_RESULT),
        Some(row) if run.stop.requested() == StopRequest::Cancel => {
            if !is_here && is_unfinished(row.status) {
                // It gets its parent's cancel, writes its own end, and cancels the runs below it.
                jobs::resume_child(run, &child, false).await?;
            }
            let status = run.cancel_status()?;
            ToolOutput::error(unfinished_output(&child, status, prompts::ENDED_WITH_YOU))
        }
        Some(row) if is_unfinished(row.status) => {
            jobs::promote_to_job(run, &child).await?;
            ToolOutput::error(unfinished_output(&child, RunStatus::Paused, prompts::CONTINUES_AS_JOB))
        }
        Some(row) => sub_agent_output(&RunOutcome::of(row), None),
    };
    let (status, result) = as_result(&call, output);
    finish(run, call, status, None, result).await
}
