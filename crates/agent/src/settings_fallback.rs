//! Requests without thinking and effort, after a provider has rejected them.
//!
//! The first request without them is in the journal with its own head, so a resumed run continues without them. In its run
//! tree, other runs of the same model start without them.

use session::model::Model;
use store::{Digest, Head, RunSnapshot};
use wire::dialect::Dialect;

use crate::conversation::Conversation;
use crate::error::RunError;
use crate::event::EventKind;
use crate::head;
use crate::provider::{FailureKind, ProviderFailure, RetryAdvice};
use crate::run::Run;

/// Words of a refusal that is about thinking or effort.
const SETTINGS: &[&str] = &["thinking", "effort", "output_config", "reasoning", "adaptive", "summarized"];

/// Removes thinking and effort from the run's requests if the provider has rejected them. Returns whether the request is to
/// be sent again.
pub(crate) fn drop_rejected(run: &Run, conversation: &mut Conversation, failure: &ProviderFailure) -> bool {
    if !is_rejection(&run.row.model, failure) {
        return false;
    }
    let Some((bytes, settings)) =
        head::without_model_settings(conversation.dialect, conversation.head.bytes())
    else {
        return false;
    };
    conversation.head = Head::new(bytes);
    run.tree.set_without_settings(&run.row.model);
    let (model, error) = (run.row.model.clone(), failure.message.clone());
    tracing::warn!(run = %run.id(), model, error, ?settings, "continuing without rejected settings");
    run.emit(EventKind::SettingsDropped { model, settings, error });
    true
}

/// Returns whether a failure rejects the settings: it names them, or the table does not have the model.
fn is_rejection(model: &str, failure: &ProviderFailure) -> bool {
    let is_refused =
        matches!(failure.kind, FailureKind::Status(400 | 422)) && failure.retry == RetryAdvice::No;
    let words = failure.message.to_lowercase();
    // A refusal with advice has another cause, such as a missing payment.
    let is_unknown = !Model::find(model).is_some_and(Model::is_exact) && failure.hint.is_none();
    is_refused && (is_unknown || SETTINGS.iter().any(|name| words.contains(name)))
}

/// Returns the head for the next request of a run: without the settings if its last request had none, or if the provider
/// has rejected them for another run of its tree.
pub(crate) fn head_of(
    run: &Run,
    journal: &RunSnapshot,
    first: Head,
    is_fork: bool,
) -> Result<Head, RunError> {
    let dialect = run.settings.dialect();
    let Some((without, _)) = head::without_model_settings(dialect, first.bytes()) else { return Ok(first) };
    let dropped = match &journal.last_call {
        Some(call) => call.head != first.hash() && lacks_settings(run, dialect, call.head)?,
        None => !is_fork && run.tree.is_without_settings(&run.row.model),
    };
    if dropped {
        run.tree.set_without_settings(&run.row.model);
    }
    Ok(if dropped { Head::new(without) } else { first })
}

fn lacks_settings(run: &Run, dialect: Dialect, hash: Digest) -> Result<bool, RunError> {
    let sent = run.kernel.store.run(run.id()).head(hash)?;
    Ok(sent.is_some_and(|head| head::without_model_settings(dialect, &head).is_none()))
}
