//! Bodies of requests, for sending and rebuilt from the journal.

use std::borrow::Cow;

use session::{Message, Role, RunId};
use store::{Digest, ModelCall, Purpose, Seq, Store, StoreError};
use wire::dialect::{Dialect, EncodeError, join_request};

use crate::error::RunError;
use crate::prompts;
use crate::settings::RunSettings;

/// Rebuilds the body of a request from the journal, byte for byte as it was sent.
pub fn rebuild_request(store: &Store, run: &RunId, call: &ModelCall) -> Result<Vec<u8>, RunError> {
    let reads = store.run(run);
    let dialect = RunSettings::of(&reads.row()?)?.dialect();
    let head = reads.head(call.head)?.ok_or(StoreError::NoModelCall(call.id))?;
    let messages = reads.messages_between(call.from, call.to)?;
    let sent: Vec<_> =
        messages.iter().map(|message| (message.seq, String::from_utf8_lossy(&message.bytes))).collect();
    let marked: Vec<Seq> = call.marks.split(',').filter_map(|seq| seq.parse().ok()).map(Seq).collect();
    let tail = tail(dialect, call.purpose).map_err(RunError::Encode)?;
    let sent = sent.iter().map(|(seq, bytes)| (*seq, bytes.as_ref()));
    let body = body(dialect, &head, sent, &marked, tail.as_deref());
    match Digest::of(&body) == call.request_sha256 {
        true => Ok(body),
        false => Err(RunError::RequestMismatch { step: call.step }),
    }
}

/// Builds the body of a request: the head, the messages, some of them with a cache marker, and a last message that is not
/// stored.
pub(crate) fn body<'a>(
    dialect: Dialect,
    head: &[u8],
    messages: impl Iterator<Item = (Seq, &'a str)>,
    marked: &[Seq],
    tail: Option<&str>,
) -> Vec<u8> {
    // Messages without a marker are copied only once.
    let marked = |(seq, bytes): (Seq, &'a str)| match marked.contains(&seq) {
        true => Cow::Owned(dialect.mark(bytes, None)),
        false => Cow::Borrowed(bytes),
    };
    let messages: Vec<Cow<'_, str>> = messages.map(marked).chain(tail.map(Cow::Borrowed)).collect();
    join_request(head, messages.iter().map(AsRef::as_ref))
}

/// Formats the list of markers for the journal. The newest is the last.
pub(crate) fn marks(newest_first: &[Seq]) -> String {
    newest_first.iter().rev().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the last message for a purpose.
pub(crate) fn tail(dialect: Dialect, purpose: Purpose) -> Result<Option<String>, EncodeError> {
    match purpose {
        Purpose::Turn => Ok(None),
        Purpose::Summary => {
            let blocks = vec![prompts::text_block(prompts::SUMMARIZE)];
            dialect.encode_message(&Message { role: Role::User, blocks }).map(Some)
        }
    }
}
