//! A conversation that has become too long goes on with a summary of itself.

use session::Role;
use store::{NewMessage, Origin, Seq};

use crate::ask::{self, Asked};
use crate::conversation::{Conversation, Open, Said, Telling};
use crate::crash;
use crate::error::RunError;
use crate::event::EventKind;
use crate::run::Run;
use crate::tool;
use crate::words;

/// Replaces the older messages. What there is to tell is said first: the results that the summary has to know.
///
/// What is in flight stays word for word: the last reply with what was said to it, or the last question.
pub(crate) async fn compact(run: &Run, talk: &mut Conversation, telling: Telling) -> Result<Asked, RunError> {
    let (text, to) = match talk.open() {
        Some(Open::Summary(text, to)) => {
            let known = (text.clone(), Some(*to));
            talk.take_open();
            known
        }
        _ => match asked_for(run, talk, telling).await? {
            Ok(summary) => summary,
            Err(asked) => return Ok(asked),
        },
    };
    let at = run.kernel.clock.millis();
    let mut summary = vec![tool::text(&run.settings.context), tool::text(&words::summary(&text))];
    summary.extend(run.tasks()?);
    summary.extend(run.jobs()?);
    summary.extend(run.remembered()?);
    summary.extend(run.told_as_fork()?);
    let summary = talk.encode(summary).map_err(RunError::Encode)?;
    let carried: Vec<Said> = talk.behind(to).to_vec();
    let mut messages = vec![message(Role::User, Origin::Summary, summary, Some(text), at)];
    messages
        .extend(carried.into_iter().map(|said| message(said.role, Origin::Carried, said.bytes, None, at)));
    let written = |message: &NewMessage| Said {
        seq: Seq::FIRST, // until the journal says which
        role: message.role,
        origin: message.origin,
        bytes: String::from_utf8_lossy(&message.bytes).into_owned(),
    };
    let mut said: Vec<Said> = messages.iter().map(written).collect();
    crash::point("compact.commit.before");
    let first = run.kernel.store.compact_messages(&run.id, messages).await?;
    crash::point("compact.commit.after");
    for (said, seq) in said.iter_mut().zip(first.0..) {
        said.seq = Seq(seq);
    }
    talk.compacted(said);
    run.tell(EventKind::Compacted { seq: first.0 });
    Ok(Asked::Answered)
}

/// How often a model is asked that would rather go on with its work.
const TRIES: usize = 2;

async fn asked_for(
    run: &Run,
    talk: &mut Conversation,
    mut telling: Telling,
) -> Result<Result<(String, Option<Seq>), Asked>, RunError> {
    for _ in 0..TRIES {
        match ask::summary(run, talk, std::mem::take(&mut telling)).await? {
            Ok((Some(text), to)) => return Ok(Ok((text, to))),
            Ok((None, _)) => {}
            Err(asked) => return Ok(Err(asked)),
        }
    }
    Err(RunError::NoSummary)
}

fn message(role: Role, origin: Origin, bytes: String, text: Option<String>, at: store::Millis) -> NewMessage {
    NewMessage { role, origin, bytes: bytes.into_bytes(), text, at }
}
