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
    for tail in tails(dialect, call.purpose) {
        let tail = tail.map_err(RunError::Encode)?;
        let sent = sent.iter().map(|(seq, bytes)| (*seq, bytes.as_ref()));
        let body = body(dialect, &head, sent, &marked, tail.as_deref());
        if Digest::of(&body) == call.request_sha256 {
            return Ok(body);
        }
    }
    Err(RunError::RequestMismatch { step: call.step })
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
    tails(dialect, purpose).next().expect("each purpose has a tail")
}

/// Returns the last messages that any version of this program has sent for a purpose, the newest first.
fn tails(dialect: Dialect, purpose: Purpose) -> impl Iterator<Item = Result<Option<String>, EncodeError>> {
    let texts: Vec<Option<&str>> = match purpose {
        Purpose::Turn => vec![None],
        Purpose::Summary => prompts::SUMMARY_PROMPTS.map(Some).to_vec(),
    };
    texts.into_iter().map(move |text| {
        let Some(text) = text else { return Ok(None) };
        let blocks = vec![prompts::text_block(text)];
        dialect.encode_message(&Message { role: Role::User, blocks }).map(Some)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_requests_of_older_journals_can_be_rebuilt() {
        let tails: Vec<_> = tails(Dialect::AnthropicMessages, Purpose::Summary).flatten().flatten().collect();
        assert_eq!(tails.len(), prompts::SUMMARY_PROMPTS.len());
        assert!(tails[0].contains("Write a summary for an agent"), "{}", tails[0]);
        // The exact text of the first version, by its digest.
        let first = prompts::SUMMARY_PROMPTS[1];
        assert_eq!(
            Digest::of(first.as_bytes()).to_string(),
            "23a9aa8fdbef71835dcc7b79ed9606268a70ed12edebc39acd850028d7e8a200"
        );
        assert!(tails[1].contains(first), "{}", tails[1]);
    }
}
