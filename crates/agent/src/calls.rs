//! The tool calls of one reply: started when they are written down, run beside each other where they may, and each
//! result written down before anything else happens with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use session::{RunId, ToolResult};
use store::{
    CallStatus, FinishedCall, Millis, Policy, RunStatus, SeenFile, Store, StoreError, StoredToolCall,
};

use crate::conversation::{Conversation, placeholder};
use crate::crash;
use crate::error::RunError;
use crate::event::EventKind;
use crate::fork;
use crate::jobs;
use crate::narrow;
use crate::permission::{Answer, Judgement, Question, Rules};
use crate::picture;
use crate::preview;
use crate::run::Run;
use crate::spawn;
use crate::stop::StopRequest;
use crate::tool::{ToolContext, ToolOutput, text};
use crate::tools::{CANCELLING, STARTING, outcome_of, sub_agent_output, unfinished_output};
use crate::turns::turns;
use crate::words;

/// Calls what has no result yet. Ends early, between two batches, where the run is told to stop.
pub(crate) async fn all(run: &Arc<Run>, talk: &mut Conversation) -> Result<(), RunError> {
    let open: Vec<StoredToolCall> =
        talk.calls().iter().filter(|call| call.status.is_open()).cloned().collect();
    for batch in batches(run, open) {
        if run.stop.requested() > StopRequest::None {
            return Ok(());
        }
        run.save_calls(talk.calls());
        for finished in together(run, batch).await? {
            talk.finished(finished);
        }
    }
    Ok(())
}

/// Gives each call that has no result yet one that says so.
pub(crate) async fn none(run: &Arc<Run>, talk: &mut Conversation) -> Result<(), RunError> {
    let open: Vec<StoredToolCall> =
        talk.calls().iter().filter(|call| call.status.is_open()).cloned().collect();
    for call in open {
        talk.finished(give_up(run, call).await?);
    }
    Ok(())
}

/// Answers the calls that an earlier process had begun, where the run is cancelled before it could take them up again.
pub(crate) async fn end_begun(run: &Arc<Run>, talk: &mut Conversation) -> Result<(), RunError> {
    let begun = talk.calls().iter().filter(|call| call.status == CallStatus::Running);
    let begun: Vec<StoredToolCall> = begun.cloned().collect();
    for call in begun {
        talk.finished(give_up(run, call).await?);
    }
    Ok(())
}

/// Calls that change nothing, or wait for others that work by themselves, run together; each other one has its turn
/// alone, so that what comes behind it sees what it did.
fn batches(run: &Run, calls: Vec<StoredToolCall>) -> Vec<Vec<StoredToolCall>> {
    // What ends another is seen by what comes behind it.
    let together = |call: &StoredToolCall| {
        call.policy == Policy::Pure || run.tools.waits(&call.name) && call.name != CANCELLING
    };
    let mut batches: Vec<Vec<StoredToolCall>> = Vec::new();
    for call in calls {
        match batches.last_mut() {
            Some(batch) if together(&call) && together(&batch[0]) => batch.push(call),
            _ => batches.push(vec![call]),
        }
    }
    batches
}

async fn together(run: &Arc<Run>, batch: Vec<StoredToolCall>) -> Result<Vec<StoredToolCall>, RunError> {
    let (lost, to_start): (Vec<_>, Vec<_>) = batch.into_iter().partition(may_have_run);
    let mut finished = Vec::new();
    for call in lost {
        let result = placeholder(&call, words::MAY_HAVE_RUN);
        finished.push(finish(run, call, CallStatus::MayHaveRun, None, result).await?);
    }
    let Some((to_start, refused)) = judged(run, to_start).await? else { return Ok(finished) };
    for (call, why) in refused {
        finished.push(refuse(run, call, why).await?);
    }
    if to_start.is_empty() {
        return Ok(finished);
    }
    let keys: Vec<_> = to_start.iter().map(|call| call.key.clone()).collect();
    crash::point("call.intent.before");
    match run.kernel.store.start_calls(&run.id, &keys, run.kernel.clock.millis()).await {
        // Another process asked for it, and nobody has looked for that yet.
        Err(StoreError::CancelRequested(_)) => {
            run.stop_handle.request(StopRequest::Cancel);
            return Ok(finished);
        }
        started => started?,
    }
    crash::point("call.intent.after");
    let context = run.context(&to_start[0])?;
    // Who only waits for others leaves them its place.
    let waits = to_start.iter().any(|call| run.tools.waits(&call.name) && !is_launch(call));
    if waits {
        run.leave_place();
    }
    let done = perform_all(run, to_start, context, finished).await;
    if waits {
        run.take_place().await;
    }
    done
}

/// Makes calls beside each other, and writes each result down as it comes.
async fn perform_all(
    run: &Arc<Run>,
    to_start: Vec<StoredToolCall>,
    context: ToolContext,
    mut finished: Vec<StoredToolCall>,
) -> Result<Vec<StoredToolCall>, RunError> {
    let mut running = tokio::task::JoinSet::new();
    let mut turns = turns(to_start.iter().filter(|call| starts(call)).count());
    for (index, call) in to_start.iter().enumerate() {
        run.tell(EventKind::CallStarted {
            call: call.call.clone(),
            name: call.name.clone(),
            input: String::from_utf8_lossy(&call.input).into_owned(),
        });
        let context = ToolContext {
            call: call.key.clone(),
            call_id: call.call.clone(),
            turn: if starts(call) { turns.next().map(Arc::new) } else { None },
            ..context.clone()
        };
        let work = perform(run, call, context);
        running.spawn(async move { (index, work.await) });
    }
    let mut to_start: Vec<Option<StoredToolCall>> = to_start.into_iter().map(Some).collect();
    loop {
        let ended = tokio::select! {
            ended = running.join_next() => ended,
            () = run.stop.wait_for(StopRequest::Cancel) => break, // whose result nobody wants is dropped with the others
        };
        let Some(ended) = ended else { return Ok(finished) };
        let (index, (output, took, given_up)) = ended.map_err(|_| RunError::ToolTaskLost)?;
        let Some(call) = to_start[index].take() else { continue };
        crash::note(&format!("effect {}", call.call));
        crash::point("call.effect.after");
        let status = match output.is_error {
            // Nobody waits for it any more, and it may still happen.
            true if (given_up || output.is_uncertain) && call.policy != Policy::Pure => {
                CallStatus::MayHaveRun
            }
            true => CallStatus::Failed,
            false => CallStatus::Done,
        };
        let ToolOutput { mut blocks, is_error, seen, fetches, .. } = output;
        blocks.extend(run.tell_made().iter().map(|made| text(&format!("\n[{made}]"))));
        let blocks = picture::for_eyes_of(&run.model, blocks);
        let result = ToolResult { call: call.call.clone(), blocks, is_error, server: false };
        let id = call.call.clone();
        finished.push(finish_with(run, call, (status, None), result, (seen, fetches), took).await?);
        crash::note(&format!("recorded {id}"));
        crash::point("call.commit.after");
    }
    drop(running);
    for mut call in to_start.into_iter().flatten() {
        call.status = CallStatus::Running;
        finished.push(give_up(run, call).await?);
    }
    Ok(finished)
}

/// Those that may be made, and those that may not with the reason. Nothing where the run was told to stop while somebody
/// was asked.
async fn judged(
    run: &Arc<Run>,
    calls: Vec<StoredToolCall>,
) -> Result<Option<(Vec<StoredToolCall>, Vec<(StoredToolCall, String)>)>, RunError> {
    let kernel = &run.kernel;
    let skills = narrow::skills_in_use(run)?;
    let base = match &run.allowed {
        None => Arc::clone(&kernel.rules),
        Some(allowed) => {
            let mut rules = Rules::clone(&kernel.rules);
            rules.lend(allowed);
            Arc::new(rules)
        }
    };
    let (mut may, mut may_not) = (Vec::new(), Vec::new());
    for call in calls {
        // What is no JSON is refused by the tool, with better words.
        let input = serde_json::from_slice(&call.input).unwrap_or_default();
        let judged = |rules: &Rules| rules.judge(&call.name, &input, &kernel.workspace);
        let all = run.rules.iter().fold(judged(&base), |known, rules| known.and(judged(rules)));
        let by_skills = narrow::judge(&skills, &call.name, &input, &kernel.workspace);
        let all = fork::judge(run, &call.name, all.and(by_skills));
        let why = match all {
            Judgement::Allow => None,
            Judgement::Deny(why) => Some(why),
            Judgement::Ask(why) => {
                let question = Question {
                    agent: run.name(),
                    tool: call.name.clone(),
                    input: String::from_utf8_lossy(&call.input).into_owned(),
                    why,
                };
                let answer = tokio::select! {
                    answer = run.ask(&question) => answer,
                    () = run.stop.wait_for(StopRequest::Pause) => return Ok(None),
                };
                match answer {
                    Answer::Yes => None,
                    Answer::No(why) => Some(why),
                }
            }
        };
        match why {
            None => may.push(call),
            Some(why) => may_not.push((call, why)),
        }
    }
    Ok(Some((may, may_not)))
}

/// Answers a call that may not be made. One that was begun before, in a process that is gone, may have happened all the
/// same, and whom it had started works on.
async fn refuse(run: &Arc<Run>, call: StoredToolCall, why: String) -> Result<StoredToolCall, RunError> {
    let begun = call.status == CallStatus::Running && call.policy != Policy::Pure;
    if !begun || starts(&call) && started(&run.kernel.store, &call)?.is_none() {
        let result = placeholder(&call, &words::refused(&why));
        return finish(run, call, CallStatus::Denied, Some(why), result).await;
    }
    let works_on =
        started(&run.kernel.store, &call)?.filter(|row| starts(&call) && jobs::goes_on(row.status));
    let call = give_up(run, call).await?;
    if let Some(child) = works_on {
        jobs::again(run, &child.id, true).await?;
    }
    Ok(call)
}

/// A run is called after it.
fn starts(call: &StoredToolCall) -> bool {
    STARTING.contains(&call.name.as_str())
}

/// The run that a call has started.
fn started(store: &Store, call: &StoredToolCall) -> Result<Option<store::Run>, StoreError> {
    match store.run(&spawn::id(&call.key)).row() {
        Err(StoreError::NoRun(_)) => Ok(None),
        row => row.map(Some),
    }
}

/// It starts a sub-agent and does not wait for it.
fn is_launch(call: &StoredToolCall) -> bool {
    let input: serde_json::Value = serde_json::from_slice(&call.input).unwrap_or_default();
    input["run_in_background"] == true
}

/// It was started in a process that is gone, and must not be started twice.
fn may_have_run(call: &StoredToolCall) -> bool {
    call.policy == Policy::Unsafe && call.status == CallStatus::Running
}

/// The work of one call, to be done beside others. A tool that breaks or hangs is an answer too.
fn perform(
    run: &Arc<Run>,
    call: &StoredToolCall,
    context: ToolContext,
) -> impl Future<Output = (ToolOutput, Duration, bool)> + Send + use<> {
    let tools = Arc::clone(&run.tools);
    let (name, input) = (call.name.clone(), call.input.clone());
    let deadline = tools.deadline(&name);
    async move {
        let started = Instant::now();
        let broken = name.clone();
        // In a set, since what is in one ends with it: a tool that is given up does nothing more.
        let mut work = tokio::task::JoinSet::new();
        work.spawn(async move { tools.call(&name, &input, &context).await });
        let (output, given_up) = match tokio::time::timeout(deadline, work.join_next()).await {
            Ok(Some(Ok(output))) => (output, false),
            Ok(_) => {
                (ToolOutput::error(format!("`{broken}` broke; that is a bug in it, not in your call")), false)
            }
            Err(_) => {
                let seconds = deadline.as_secs();
                (ToolOutput::error(format!("`{broken}` took longer than {seconds} s and was given up")), true)
            }
        };
        (output, started.elapsed(), given_up)
    }
}

/// Writes down what became of a call that was not made; why, where it was refused.
async fn finish(
    run: &Arc<Run>,
    call: StoredToolCall,
    status: CallStatus,
    reason: Option<String>,
    result: ToolResult,
) -> Result<StoredToolCall, RunError> {
    finish_with(run, call, (status, reason), result, (Vec::new(), None), Duration::ZERO).await
}

/// Writes a result down, with what the agent knows from it: files, and the end of a job, of which it is not told again.
async fn finish_with(
    run: &Arc<Run>,
    mut call: StoredToolCall,
    (status, reason): (CallStatus, Option<String>),
    result: ToolResult,
    (seen, fetches): (Vec<SeenFile>, Option<RunId>),
    took: Duration,
) -> Result<StoredToolCall, RunError> {
    let preview = preview::decide(&result);
    let at = run.kernel.clock.millis();
    let (key, kept) = (call.key.clone(), preview.clone());
    let finished = FinishedCall { key, status, result: result.clone(), preview: kept, seen, at };
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
    let text = preview.clone().unwrap_or_else(|| preview::words(&result));
    // What was settled before the loop began is in the journal; events begin with the loop.
    if run.is_started() {
        let input = String::from_utf8_lossy(&call.input).into_owned();
        let (id, name) = (call.call.clone(), call.name.clone());
        run.tell(EventKind::CallFinished { call: id, name, input, status, text, reason, ms });
    }
    (call.status, call.result, call.preview, call.ended_at) = (status, Some(result), preview, Some(at));
    Ok(call)
}

/// Answers a call that waited for a sub-agent, and will not any more. What that has answered is not lost, and what still
/// works goes on in the background.
async fn leave(run: &Arc<Run>, call: StoredToolCall) -> Result<StoredToolCall, RunError> {
    let child = spawn::id(&call.key);
    // Looked for before its row is read: who is seen at work there ends by itself.
    let is_here = run.tree.member(&child).is_some();
    let output = match started(&run.kernel.store, &call)? {
        None => ToolOutput::error(words::NO_RESULT),
        Some(row) if run.stop.requested() == StopRequest::Cancel => {
            if !is_here && jobs::goes_on(row.status) {
                // Told to stop like its parent, it writes its own end down, and takes along whoever works for it.
                jobs::again(run, &child, false).await?;
            }
            ToolOutput::error(unfinished_output(&child, RunStatus::CancelledByParent, words::ENDED_WITH_YOU))
        }
        Some(row) if jobs::goes_on(row.status) => {
            jobs::make(run, &child).await?;
            ToolOutput::error(unfinished_output(&child, RunStatus::Paused, words::GOES_ON))
        }
        Some(row) => sub_agent_output(&outcome_of(row), None),
    };
    let (status, result) = said(&call, output);
    finish(run, call, status, None, result).await
}

fn said(call: &StoredToolCall, output: ToolOutput) -> (CallStatus, ToolResult) {
    let ToolOutput { blocks, is_error, .. } = output;
    let status = if is_error { CallStatus::Failed } else { CallStatus::Done };
    (status, ToolResult { call: call.call.clone(), blocks, is_error, server: false })
}

/// Gives a call a result that it will never get by being run.
pub(crate) async fn give_up(run: &Arc<Run>, call: StoredToolCall) -> Result<StoredToolCall, RunError> {
    if call.status == CallStatus::Running && starts(&call) {
        return leave(run, call).await;
    }
    let (status, result) = given_up(&call);
    finish(run, call, status, None, result).await
}

/// The results that calls of a run get which is ended while nobody is at work on it, together with all below it.
pub(crate) fn left_open(store: &Store, run: &RunId, at: Millis) -> Result<Vec<FinishedCall>, StoreError> {
    let mut calls = store.run(run).tool_calls()?;
    calls.retain(|call| call.status.is_open());
    let finished = calls.into_iter().map(|call| {
        let row = if starts(&call) { started(store, &call)? } else { None };
        let (status, result) = match row {
            None => given_up(&call),
            Some(row) if jobs::goes_on(row.status) => {
                let with_it = unfinished_output(&row.id, RunStatus::CancelledByParent, words::ENDED_WITH_YOU);
                said(&call, ToolOutput::error(with_it))
            }
            Some(row) => said(&call, sub_agent_output(&outcome_of(row), None)),
        };
        let preview = preview::decide(&result);
        Ok(FinishedCall { key: call.key, status, result, preview, seen: Vec::new(), at })
    });
    finished.collect()
}

fn given_up(call: &StoredToolCall) -> (CallStatus, ToolResult) {
    let (status, sentence) = match (call.status, call.policy) {
        (CallStatus::Running, _) if starts(call) => (CallStatus::Failed, words::NO_RESULT),
        (CallStatus::Running, Policy::Pure) => (CallStatus::Failed, words::NO_RESULT),
        (CallStatus::Running, _) => (CallStatus::MayHaveRun, words::MAY_HAVE_RUN),
        _ => (CallStatus::Failed, words::NO_RESULT),
    };
    (status, placeholder(call, sentence))
}
