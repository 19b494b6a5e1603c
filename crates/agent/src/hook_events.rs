//! The hooks of a run: asked before and after its calls and at the end of its turns. Their answers are in the journal before they
//! are used, so a resumed run does the same without asking again.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use session::ToolResult;
use store::{CallStatus, HookEvent, NewHookAnswer, Origin, RunKind, Seq, StoredToolCall};

use crate::conversation::Conversation;
use crate::crash;
use crate::error::RunError;
use crate::event::EventKind;
use crate::hooks::{self, CallInput, Hook, HookPoint, HookRecord, HookReply, HookRequest, StoredAnswer};
use crate::permission::Decision;
use crate::preview;
use crate::prompts;
use crate::run::Run;
use crate::stop::StopRequest;

/// Maximum number of times in a row that hooks prevent the end of a turn.
const MAX_BLOCKS: usize = 8;

/// Asks the hooks before calls, and changes the inputs that they change. Returns the decision about each call, or `None` if a
/// stop was requested. A call that an earlier process has started is not asked about.
pub(crate) async fn before_calls(
    run: &Arc<Run>,
    calls: Vec<StoredToolCall>,
) -> Result<Option<Vec<(StoredToolCall, Decision)>>, RunError> {
    let mut judged = Vec::new();
    for mut call in calls {
        let answer = match known(run, call.key.message, Some(call.key.position), HookEvent::PreToolUse)? {
            Some(known) => known,
            None if call.status != CallStatus::Planned => StoredAnswer::default(),
            None => match ask_before(run, &call).await? {
                Some(answer) => answer,
                None => return Ok(None),
            },
        };
        if let Some(input) = &answer.input {
            call.input = input.to_string().into_bytes();
        }
        judged.push((call, decision(answer)));
    }
    Ok(Some(judged))
}

/// Returns what an answer means for a call. It never allows what a rule does not.
fn decision(answer: StoredAnswer) -> Decision {
    let reason = answer.block.or_else(|| answer.stop.map(|why| format!("the run ends: {why}")));
    match (reason, answer.ask) {
        (Some(why), _) => Decision::Deny(format!("a hook denied it: {why}")),
        (None, Some(why)) => Decision::Ask(format!("a hook asks: {why}")),
        (None, None) => Decision::Allow,
    }
}

async fn ask_before(run: &Arc<Run>, call: &StoredToolCall) -> Result<Option<StoredAnswer>, RunError> {
    let server = server_of(run, call);
    let mut answer = StoredAnswer::default();
    let mut input: Value = serde_json::from_slice(&call.input).unwrap_or_default();
    for hook in run.kernel.hooks.of_call(HookPoint::PreToolUse, &call.name, server.as_deref()) {
        let seen =
            CallInput { id: call.call.as_str(), tool: &call.name, server: server.as_deref(), input: &input };
        let request = request(run);
        let Some(reply) = ask(run, hook, Some(call), &request.of_call(hook, seen, None), &mut answer).await
        else {
            return Ok(None);
        };
        let changed = reply.input.map(|changed| request.changed_input(hook, seen, changed));
        let is_last = answer.add(HookReply { input: changed, ..reply });
        input = answer.input.clone().unwrap_or(input);
        if is_last {
            break;
        }
    }
    store(run, (call.key.message, Some(call.key.position)), HookEvent::PreToolUse, &answer).await?;
    Ok(Some(answer))
}

/// Asks the hooks after the calls of the last reply that have ended. Returns early if a stop is requested.
pub(crate) async fn after_calls(run: &Arc<Run>, conversation: &Conversation) -> Result<(), RunError> {
    let is_made = |call: &&StoredToolCall| matches!(call.status, CallStatus::Done | CallStatus::Failed);
    for call in conversation.calls().iter().filter(is_made) {
        let server = server_of(run, call);
        let is_done = call.status == CallStatus::Done;
        // Claude Code asks after successful calls only.
        let hooks = run.kernel.hooks.of_call(HookPoint::PostToolUse, &call.name, server.as_deref());
        let hooks: Vec<&Hook> = hooks.filter(|hook| is_done || !hook.is_claude).collect();
        let place = (call.key.message, Some(call.key.position));
        if hooks.is_empty() || known(run, place.0, place.1, HookEvent::PostToolUse)?.is_some() {
            continue;
        }
        let input: Value = serde_json::from_slice(&call.input).unwrap_or_default();
        let seen =
            CallInput { id: call.call.as_str(), tool: &call.name, server: server.as_deref(), input: &input };
        let text = call.result.as_ref().map(result_text).unwrap_or_default();
        let mut answer = StoredAnswer::default();
        for hook in hooks {
            let asked = request(run).of_call(hook, seen, Some((&text, !is_done)));
            let Some(reply) = ask(run, hook, Some(call), &asked, &mut answer).await else { return Ok(()) };
            if answer.add(reply) {
                break;
            }
        }
        store(run, place, HookEvent::PostToolUse, &answer).await?;
    }
    Ok(())
}

/// Decision at the end of a turn.
pub(crate) enum TurnEnd {
    /// The run ends with its answer.
    Complete,
    /// The agent continues: a hook prevents the end, or a stop was requested.
    Continue,
    /// A hook ends the run, for this reason.
    Stop(String),
}

impl TurnEnd {
    /// Returns what the answer of the hooks means. A text for the model without a reason to continue means nothing.
    fn of(answer: StoredAnswer) -> Self {
        match answer {
            StoredAnswer { stop: Some(why), .. } => Self::Stop(why),
            StoredAnswer { block: Some(_), .. } => Self::Continue,
            _ => Self::Complete,
        }
    }
}

/// Asks the hooks at the end of a turn, unless an earlier process has stored their answer.
pub(crate) async fn at_end(run: &Arc<Run>, conversation: &Conversation) -> Result<TurnEnd, RunError> {
    let point = if run.row.kind == RunKind::Main { HookPoint::Stop } else { HookPoint::SubagentStop };
    let Some(reply) = conversation.last_reply() else { return Ok(TurnEnd::Complete) };
    if let Some(known) = known(run, reply, None, HookEvent::Stop)? {
        return Ok(TurnEnd::of(known));
    }
    if run.kernel.hooks.of(point).next().is_none() {
        return Ok(TurnEnd::Complete);
    }
    let blocks = blocks_since_prompt(run)?;
    let mut answer = StoredAnswer::default();
    for hook in run.kernel.hooks.of(point) {
        let asked = request(run).of_end(point, conversation.final_text.last(), blocks > 0);
        let Some(reply) = ask(run, hook, None, &asked, &mut answer).await else {
            return Ok(TurnEnd::Continue);
        };
        if answer.add(reply) {
            break;
        }
    }
    if blocks >= MAX_BLOCKS && answer.block.take().is_some() {
        let text = format!("hooks prevented the end {MAX_BLOCKS} times in a row; the turn ends");
        emit(run, point.name(), (None, ""), ("ignored", Some(text)), 0);
    }
    store(run, (reply, None), HookEvent::Stop, &answer).await?;
    Ok(TurnEnd::of(answer))
}

/// The answers of hooks about the last reply: texts for the model, and the reason to end the run.
#[derive(Default)]
pub(crate) struct HookNotes {
    pub(crate) texts: Vec<String>,
    pub(crate) stop: Option<String>,
}

/// Reads what hooks have said about the last reply from the journal.
pub(crate) fn notes(run: &Run, conversation: &Conversation) -> Result<HookNotes, RunError> {
    let Some(reply) = conversation.last_reply() else { return Ok(HookNotes::default()) };
    let mut notes = HookNotes::default();
    for stored in run.kernel.store.run(run.id()).hook_answers(reply)? {
        let answer = read(&stored.answer);
        let (event, tool) = match stored.event {
            HookEvent::Stop => ("end of the turn", None),
            HookEvent::PreToolUse => ("before the call", name_of(conversation, stored.position)),
            HookEvent::PostToolUse => ("after the call", name_of(conversation, stored.position)),
        };
        let block = answer.block.filter(|_| stored.event != HookEvent::PreToolUse);
        // At an end, only a reason to continue leads to one more turn.
        if stored.event != HookEvent::Stop || block.is_some() {
            let texts = block.into_iter().chain(answer.context);
            notes.texts.extend(texts.map(|text| prompts::hook(event, tool, &text)));
        }
        notes.stop = notes.stop.take().or(answer.stop);
    }
    Ok(notes)
}

fn name_of(conversation: &Conversation, position: Option<u32>) -> Option<&str> {
    let call = conversation.calls().iter().find(|call| Some(call.key.position) == position)?;
    Some(&call.name)
}

/// Counts how often hooks have prevented the end since the last message from outside.
fn blocks_since_prompt(run: &Run) -> Result<usize, RunError> {
    let reads = run.kernel.store.run(run.id());
    let answers = reads.all_hook_answers()?;
    if answers.is_empty() {
        return Ok(0);
    }
    let outside = |origin| matches!(origin, Origin::Prompt | Origin::Inbox);
    let messages = reads.messages()?;
    let prompt = messages.iter().rev().find(|message| outside(message.origin)).map(|message| message.seq);
    let since =
        answers.iter().filter(|answer| answer.event == HookEvent::Stop && Some(answer.message) > prompt);
    Ok(since.filter(|answer| read(&answer.answer).block.is_some()).count())
}

/// Asks one hook, and adds a record of it. A failure is an answer, too. Returns `None` if a stop was requested meanwhile; the
/// hook has been ended then, and its answer is not known.
async fn ask(
    run: &Arc<Run>,
    hook: &Hook,
    call: Option<&StoredToolCall>,
    request: &Value,
    answer: &mut StoredAnswer,
) -> Option<HookReply> {
    let began = Instant::now();
    let reply = tokio::select! {
        reply = hooks::ask(hook, request, &run.tree.processes, run.kernel.workspace.path()) => reply,
        () = run.stop.wait_for(StopRequest::Pause) => return None,
    };
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (outcome, text) = match &reply {
        Err(why) => ("failed", Some(why.clone())),
        Ok(HookReply { block: Some(why), .. }) => ("blocked", Some(why.clone())),
        Ok(HookReply { stop: Some(why), .. }) => ("stopped", Some(why.clone())),
        Ok(HookReply { ask: Some(why), .. }) => ("asked", Some(why.clone())),
        Ok(HookReply { input: Some(_), message, .. }) => ("changed", message.clone()),
        Ok(HookReply { message, .. }) => ("passed", message.clone()),
    };
    emit(run, hook.point.name(), (call, &hook.command), (outcome, text), ms);
    answer.hooks.push(HookRecord { command: hook.command.clone(), outcome: outcome.to_owned(), ms });
    Some(reply.unwrap_or_else(|why| match hook.point == HookPoint::PreToolUse && hook.fails_closed {
        true => HookReply { block: Some(format!("it could not be asked: {why}")), ..HookReply::default() },
        false => HookReply::default(),
    }))
}

fn emit(
    run: &Run,
    event: &'static str,
    (call, command): (Option<&StoredToolCall>, &str),
    (outcome, text): (&'static str, Option<String>),
    ms: u64,
) {
    run.emit(EventKind::Hook {
        event,
        command: command.to_owned(),
        call: call.map(|call| call.call.clone()),
        tool: call.map(|call| call.name.clone()),
        outcome,
        text,
        ms,
    });
}

fn request(run: &Run) -> HookRequest<'_> {
    HookRequest {
        thread: run.row.thread.as_str(),
        run: run.id().as_str(),
        agent: (&run.row.agent, run.row.kind == RunKind::Main),
        workspace: run.kernel.workspace.path(),
    }
}

fn server_of(run: &Run, call: &StoredToolCall) -> Option<String> {
    run.bounds.tools.find(&call.name).and_then(|tool| tool.server()).map(str::to_owned)
}

fn result_text(result: &ToolResult) -> String {
    preview::text_of(result)
}

/// Returns the stored answer of an event.
fn known(
    run: &Run,
    message: Seq,
    position: Option<u32>,
    event: HookEvent,
) -> Result<Option<StoredAnswer>, RunError> {
    let answers = run.kernel.store.run(run.id()).hook_answers(message)?;
    let found = answers.iter().find(|answer| answer.position == position && answer.event == event);
    Ok(found.map(|found| read(&found.answer)))
}

/// Reads a stored answer. One that cannot be read, for example of a newer version, denies.
fn read(answer: &[u8]) -> StoredAnswer {
    serde_json::from_slice(answer).unwrap_or_else(|_| StoredAnswer {
        block: Some("its stored answer cannot be read".to_owned()),
        ..StoredAnswer::default()
    })
}

/// Stores the answer of an event, if a hook was asked.
async fn store(
    run: &Run,
    (message, position): (Seq, Option<u32>),
    event: HookEvent,
    answer: &StoredAnswer,
) -> Result<(), RunError> {
    if answer.hooks.is_empty() {
        return Ok(());
    }
    crash::point("hook.answer.before");
    let stored = NewHookAnswer {
        run: run.id().clone(),
        message,
        position,
        event,
        answer: serde_json::to_vec(answer).expect("strings are always JSON"),
        input: answer.input.as_ref().map(|input| input.to_string().into_bytes()),
        at: run.kernel.clock.millis(),
    };
    run.kernel.store.record_hook_answer(stored).await?;
    crash::point("hook.answer.after");
    Ok(())
}
