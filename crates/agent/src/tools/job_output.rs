//! `job_output`: reports the status, answer and transcript of a job.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::RunId;
use store::{CallStatus, Origin, Seq, StoreError, StoredMessage, StoredToolCall};

use super::spawn_sub_agent::{calling_run, stored_outcome, to_json};
use super::{Refusal, input};
use crate::outcome::is_unfinished;
use crate::tool::CallingRun;
use crate::{BoxFuture, NO_FINAL_TEXT, Policy, Tool, ToolContext, ToolOutput, preview, prompts};

/// Default and maximum time to wait.
const DEFAULT_WAIT_MS: u64 = 30_000;
const MAX_WAIT_MS: u64 = 600_000;
/// Maximum size of an answer in one result, and of its beginning beside a transcript.
const MAX_ANSWER: usize = 48 << 10;
const ANSWER_BESIDE_TRANSCRIPT: usize = 1 << 10;
/// Maximum size of a transcript in one result, and of one call in it.
const MAX_TRANSCRIPT: usize = 16 << 10;
const MAX_CALL: usize = 400;

/// The tool `job_output`.
pub(super) struct JobOutputTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    job_id: String,
    #[serde(default)]
    block: bool,
    timeout_ms: Option<u64>,
    cursor: Option<u64>,
    #[serde(default)]
    offset: usize,
}

#[derive(Serialize)]
struct JobReport<'a> {
    job_id: &'a RunId,
    run_id: &'a RunId,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transcript: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

impl Tool for JobOutputTool {
    fn name(&self) -> &'static str {
        "job_output"
    }

    fn description(&self) -> &'static str {
        "Reports the status of a job that `spawn_sub_agent` started in the background, and its answer once it has \
         ended; the end is then not reported to you again. With `block` it waits for the end, up to `timeout_ms`. With \
         `cursor` it also shows what the job has done, from that message on; 0 is the beginning, and `next_cursor` continues. \
         Long texts come in parts: `next_offset` continues in the middle of the answer, or of a message."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""job_id":{"type":"string","description":"The job."},"#,
            r#""block":{"type":"boolean","description":"Wait until it has ended."},"#,
            r#""timeout_ms":{"type":"integer","minimum":0,"maximum":600000,"description":"Time to wait; the default is 30000."},"#,
            r#""cursor":{"type":"integer","minimum":0,"description":"Also show what it did after this message; 0 is the beginning."},"#,
            r#""offset":{"type":"integer","minimum":0,"description":"Continue at this byte of the answer, or with `cursor`, of the message after it."}"#,
            r#"},"required":["job_id"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn deadline(&self) -> Duration {
        Duration::from_millis(MAX_WAIT_MS) + Duration::from_secs(30)
    }

    fn is_waiting_call(&self) -> bool {
        true
    }

    fn needs_sub_agents(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let done = async { report(input::parse(self, input)?, context).await };
            done.await.unwrap_or_else(Refusal::into)
        })
    }
}

async fn report(args: Args, context: &ToolContext) -> Result<ToolOutput, Refusal> {
    let run = calling_run(context)?;
    let job = &find_job(run, &args.job_id)?;
    if args.block {
        let most = Duration::from_millis(args.timeout_ms.unwrap_or(DEFAULT_WAIT_MS).min(MAX_WAIT_MS));
        run.wait_for(job, most).await;
    }
    // The journal decides, whatever ended the wait.
    let ended = stored_outcome(run, job)?;
    let has_ended =
        !is_unfinished(ended.status) || run.store().run(run.id()).job_owes_result(job)? == Some(false);
    let has_answer = ended.partial_text.is_none();
    let answer = ended.final_text.as_deref().or(ended.partial_text.as_deref()).unwrap_or(NO_FINAL_TEXT);
    // Beside a transcript, only the beginning of the answer is shown.
    let is_beside = args.cursor.is_some() && answer.len() > ANSWER_BESIDE_TRANSCRIPT;
    let (text, transcript, next_cursor, next_offset) = match args.cursor {
        // A shortened answer comes first, but not all of it with every part of the transcript.
        Some(from) => {
            let (text, next, offset) = transcript(run, job, from, args.offset)?;
            let shown = match prompts::cut(answer, ANSWER_BESIDE_TRANSCRIPT) {
                cut if is_beside => {
                    format!("{cut}\n[{} bytes in all: without `cursor` you get them]", answer.len())
                }
                whole => whole.into_owned(),
            };
            (shown, Some(text), Some(next), offset)
        }
        None => {
            let (text, offset) = slice(answer, args.offset, MAX_ANSWER);
            (text, None, None, offset.filter(|_| has_ended))
        }
    };
    let is_paused = ended.status == store::RunStatus::Paused;
    let answer = JobReport {
        job_id: job,
        run_id: job,
        status: if has_ended || is_paused { ended.status.as_str() } else { "running" },
        error: ended.error.filter(|_| has_ended),
        final_text: (has_ended && has_answer).then(|| text.clone()),
        partial_text: (has_ended && !has_answer).then_some(text),
        transcript,
        next_cursor,
        next_offset,
    };
    let output = ToolOutput::text(to_json(&answer));
    // An answer that was shown only in part still has to be reported.
    Ok(if has_ended && !is_beside { output.fetching(job.clone()) } else { output })
}

/// Returns one part of a text, with the offset of the next part.
fn slice(text: &str, from: usize, most: usize) -> (String, Option<usize>) {
    let rest = &text[text.ceil_char_boundary(from.min(text.len()))..];
    match rest.floor_char_boundary(most) {
        end if end < rest.len() => {
            let next = text.len() - rest.len() + end;
            let left = text.len() - next;
            (format!("{}\n[{left} more bytes: continue at offset {next}]", &rest[..end]), Some(next))
        }
        _ => (rest.to_owned(), None),
    }
}

/// Finds a job of this agent by its id.
pub(super) fn find_job(run: &dyn CallingRun, id: &str) -> Result<RunId, Refusal> {
    let wanted = RunId::new(id.trim());
    let own = run.store().run(run.id());
    if own.job_owes_result(&wanted)?.is_some() {
        return Ok(wanted);
    }
    let jobs = own.jobs()?;
    let known: Vec<&str> = jobs.iter().rev().take(20).map(|job| job.run.as_str()).collect();
    let known = match known.is_empty() {
        true => "you have started none".to_owned(),
        false => format!("yours are: {}", known.join(", ")),
    };
    let why = if wanted == *run.id() {
        format!("`{wanted}` is your own run: you can neither wait for it nor cancel it")
    } else if is_below(run, &wanted)? {
        format!("`{wanted}` is the run that you work for: it is not yours to wait for or to cancel")
    } else {
        match run.store().run(&wanted).row() {
            Ok(row) if row.parent.as_ref() == Some(run.id()) => {
                format!("`{wanted}` was no job: its answer came with the call that started it")
            }
            Ok(_) => format!("`{wanted}` is not a job of yours"),
            Err(_) => format!("no job `{wanted}`"),
        }
    };
    Err(Refusal(format!("{why}; {known}")))
}

/// Returns whether a run is below another one.
fn is_below(run: &dyn CallingRun, other: &RunId) -> Result<bool, StoreError> {
    let mut above = run.store().run(run.id()).row()?.parent;
    while let Some(run_above) = above {
        if run_above == *other {
            return Ok(true);
        }
        above = run.store().run(&run_above).row()?.parent;
    }
    Ok(false)
}

/// Formats a run's actions from a message on, with the cursor and offset to continue.
fn transcript(
    run: &dyn CallingRun,
    job: &RunId,
    from: u64,
    offset: usize,
) -> Result<(String, i64, Option<usize>), Refusal> {
    let reads = run.store().run(job);
    let (messages, calls) = (reads.messages()?, reads.tool_calls()?);
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let (mut text, mut next) = (String::new(), from);
    let mut messages = messages.iter().filter(|message| message.seq.0 > from).peekable();
    while let Some(message) = messages.peek() {
        let seq = message.seq;
        let part = transcript_entry(message, calls.iter().filter(|call| call.key.message == seq));
        if next == from {
            let (piece, offset) = slice(&part, offset, MAX_TRANSCRIPT);
            if offset.is_some() {
                return Ok((piece, next, offset));
            }
            text = piece;
        } else if text.len() + part.len() > MAX_TRANSCRIPT {
            break;
        } else {
            text += &part;
        }
        next = seq.0;
        messages.next();
    }
    match messages.count() {
        0 => {}
        1 => text += &format!("\n[1 more message: continue at cursor {next}]"),
        more => text += &format!("\n[{more} more messages: continue at cursor {next}]"),
    }
    Ok((text, next, None))
}

fn transcript_entry<'a>(message: &StoredMessage, calls: impl Iterator<Item = &'a StoredToolCall>) -> String {
    let Seq(seq) = message.seq;
    let mut text = match (message.origin, &message.text) {
        (Origin::Results | Origin::Context | Origin::Carried, _) | (_, None) => String::new(),
        (origin, Some(said)) => format!("[{seq}] {origin}: {said}\n"),
    };
    for call in calls {
        let input = String::from_utf8_lossy(&call.input);
        let answer = call.result.as_ref().map(preview::text_of).unwrap_or_default();
        let status =
            if call.status == CallStatus::Done { String::new() } else { format!(" ({})", call.status) };
        text += &format!("[{seq}] {} {}{status} -> {}\n", call.name, shorten(&input), shorten(&answer));
    }
    text
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_CALL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
