//! Compaction: replaces the older part of a long conversation by a summary.

use session::Role;
use store::{NewMessage, Origin, Seq};

use crate::conversation::{Conversation, NextMessage, OpenRequest, WireMessage};
use crate::crash;
use crate::error::RunError;
use crate::event::EventKind;
use crate::folder_notes;
use crate::model_call::{self, CallOutcome};
use crate::prompts::{self, text_block};
use crate::reminders;
use crate::run::Run;

/// Replaces the older messages by a summary. `next` is sent with its request, because the summary has to cover results.
///
/// The last reply with its results, or the last prompt, is kept word for word.
pub(crate) async fn compact(
    run: &Run,
    conversation: &mut Conversation,
    next: NextMessage,
) -> Result<CallOutcome, RunError> {
    let (text, to) = match conversation.open() {
        Some(OpenRequest::Summary(text, to)) => {
            let known = (text.clone(), Some(*to));
            conversation.take_open();
            known
        }
        _ => match request_summary(run, conversation, next).await? {
            Ok(summary) => summary,
            Err(outcome) => return Ok(outcome),
        },
    };
    let at = run.kernel.clock.millis();
    let mut summary = vec![text_block(&run.settings.context), text_block(&prompts::summary(&text))];
    summary.extend(reminders::tasks(run)?);
    summary.extend(reminders::jobs(run)?);
    summary.extend(reminders::thread_memory(run)?);
    summary.extend(reminders::fork_prompt(run)?);
    let carried: Vec<WireMessage> = conversation.after_summary(to).to_vec();
    // Those that came with a message that stays are in that message.
    let folders = folder_notes::before(run, carried.first().map(|kept| kept.seq))?;
    summary.extend(folders.iter().map(|text| text_block(text)));
    let summary = conversation.encode(summary).map_err(RunError::Encode)?;
    let mut messages = vec![message(Role::User, Origin::Summary, summary, Some(text), at)];
    messages
        .extend(carried.into_iter().map(|kept| message(kept.role, Origin::Carried, kept.bytes, None, at)));
    let on_wire = |message: &NewMessage| WireMessage {
        seq: Seq::FIRST, // replaced below
        role: message.role,
        origin: message.origin,
        bytes: String::from_utf8_lossy(&message.bytes).into_owned(),
    };
    let mut compacted: Vec<WireMessage> = messages.iter().map(on_wire).collect();
    crash::point("compact.commit.before");
    let first = run.kernel.store.compact_messages(run.id(), messages).await?;
    crash::point("compact.commit.after");
    for (message, seq) in compacted.iter_mut().zip(first.0..) {
        message.seq = Seq(seq);
    }
    conversation.compacted(compacted);
    run.emit(EventKind::Compacted { seq: first.0 });
    Ok(CallOutcome::Answered)
}

/// Number of requests to a model that continues its work instead of summarizing.
const TRIES: usize = 2;

async fn request_summary(
    run: &Run,
    conversation: &mut Conversation,
    mut next: NextMessage,
) -> Result<Result<(String, Option<Seq>), CallOutcome>, RunError> {
    for _ in 0..TRIES {
        match model_call::summary(run, conversation, std::mem::take(&mut next)).await? {
            Ok((Some(text), to)) => return Ok(Ok((text, to))),
            Ok((None, _)) => {}
            Err(outcome) => return Ok(Err(outcome)),
        }
    }
    Err(RunError::NoSummary)
}

fn message(role: Role, origin: Origin, bytes: String, text: Option<String>, at: store::Millis) -> NewMessage {
    NewMessage { role, origin, bytes: bytes.into_bytes(), text, at }
}
