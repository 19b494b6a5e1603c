//! Why an attempt failed, as data.

use std::time::Duration;

use thiserror::Error;
use wire::dialect::ProviderError;

/// Why an attempt failed. It is part of what happened, so it is kept and shown, not thrown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ProviderFailure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// In words, with the provider's own where it had some; never with a key.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// Whether the same request is worth another attempt.
    pub retry: RetryAdvice,
}

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No connection.
    Connect,
    /// Nothing came for too long.
    Stalled,
    /// The answer ended before its final event.
    Cut,
    /// A status that has no kind of its own.
    Status(u16),
    /// The provider sends us elsewhere, and we do not go.
    Redirect,
    /// An error inside of an answer that had begun well.
    StreamError,
    /// Not an answer in the dialect, or one that nobody can act on.
    Garbage,
    /// The output limit fell into the middle of a call.
    OutputLimit,
    /// The answer is larger than we take.
    TooLarge,
    /// 401, 403, or no usable key.
    Auth,
    /// 404: no such model, or no such address.
    NotFound,
    /// 413, or more than the model's context holds.
    RequestTooLarge,
    /// 503 or 529.
    Overloaded,
    /// 429.
    RateLimited,
}

/// Whether the same request is worth another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// It would fail again.
    No,
    /// After a while of our own choosing.
    Yes,
    /// After that while, the provider says.
    After(Duration),
}

impl ProviderFailure {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>, retry: RetryAdvice) -> Self {
        Self { kind, message: message.into(), hint: None, retry }
    }

    pub(super) fn hinted(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// What came is not an answer; the next may be.
    pub(super) fn garbage(why: impl Into<String>) -> Self {
        Self::new(FailureKind::Garbage, why, RetryAdvice::Yes)
    }

    /// An error inside of an answer whose status was good.
    pub(super) fn in_stream(error: &ProviderError) -> Self {
        let message = format!("the provider broke off with an error: {}", said(error));
        if is_too_long(error) {
            return Self::new(FailureKind::RequestTooLarge, message, RetryAdvice::No);
        }
        if KEY.iter().any(|sign| called(error).contains(sign)) {
            return Self::new(FailureKind::Auth, message, RetryAdvice::No);
        }
        let retry = if is_hopeless(error) { RetryAdvice::No } else { RetryAdvice::Yes };
        Self::new(FailureKind::StreamError, message, retry)
    }
}

/// The kinds of errors that are about the key.
const KEY: &[&str] = &["authentication", "invalid_api_key", "permission"];

/// Signs of an error that the same request meets again. Whatever is not among them may pass.
const HOPELESS: &[&str] = &[
    "authentication",
    "billing",
    "content_policy",
    "context_length",
    "credit balance",
    "insufficient_quota",
    "invalid_api_key",
    "invalid_prompt",
    "invalid_request",
    "model_not_found",
    "not_found_error",
    "permission",
    "request_too_large",
];

/// Whether the provider's words say that trying again is no use.
pub(super) fn is_hopeless(error: &ProviderError) -> bool {
    says(error, HOPELESS)
}

/// Whether one of these signs stands anywhere in what the provider says.
fn says(error: &ProviderError, signs: &[&str]) -> bool {
    let words = format!("{} {}", called(error), error.message).to_lowercase();
    signs.iter().any(|sign| words.contains(sign))
}

/// What the provider calls it, in one word or two.
fn called(error: &ProviderError) -> String {
    error.code.as_ref().map_or_else(|| error.kind.clone(), |code| format!("{}: {code}", error.kind))
}

/// The same by what the error is called alone: many who refuse for a minute write of plans and billing.
pub(super) fn is_hopeless_kind(error: &ProviderError) -> bool {
    let word = called(error).to_lowercase();
    HOPELESS.iter().any(|sign| word.contains(sign))
}

/// Signs that somebody has to pay first.
const UNPAID: &[&str] = &["billing", "credit balance", "insufficient_quota", "payment_required"];

/// Whether the provider's words say that there is no money.
pub(super) fn is_unpaid(error: &ProviderError) -> bool {
    says(error, UNPAID)
}

/// Signs that a request holds more than the model can take.
const TOO_LONG: &[&str] = &[
    "context limit",
    "context size",
    "context window",
    "context_length",
    "maximum context length",
    "model_context_window_exceeded",
    "prompt is too long",
    "request_too_large",
    "too many tokens",
];

/// Whether the provider's words say that a shorter request would do.
pub(super) fn is_too_long(error: &ProviderError) -> bool {
    says(error, TOO_LONG)
}

/// The provider's words, fit for a terminal.
pub(super) fn said(error: &ProviderError) -> String {
    match (plain(&called(error)).as_str(), plain(&error.message).as_str()) {
        ("", "") => "no reason given".to_owned(),
        ("", message) => message.to_owned(),
        (kind, "") => format!("`{kind}`"),
        (kind, message) => format!("{message} (`{kind}`)"),
    }
}

/// The longest that we quote.
const QUOTED: usize = 400;

/// Foreign text on one line, without control characters and not too long.
pub(super) fn plain(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line = shown.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(QUOTED) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_one_harmless_line() {
        assert_eq!(plain("a\x1b[31m\r\n b\u{9b}c"), "a [31m b c");
        assert_eq!(plain(&"é".repeat(500)).chars().count(), QUOTED + 1);
    }

    #[test]
    fn what_comes_again_is_told_from_what_may_pass() {
        let retry =
            |kind: &str, message: &str| ProviderFailure::in_stream(&ProviderError::new(kind, message)).retry;
        assert_eq!(retry("overloaded_error", "Overloaded"), RetryAdvice::Yes);
        assert_eq!(retry("", ""), RetryAdvice::Yes);
        assert_eq!(retry("server_error", "oops"), RetryAdvice::Yes);
        assert_eq!(retry("invalid_request_error", "no such field"), RetryAdvice::No);
        assert_eq!(retry("error", "Your credit balance is too low"), RetryAdvice::No);
    }

    #[test]
    fn what_is_too_long_is_known_by_every_provider_s_words() {
        let kind =
            |kind: &str, message: &str| ProviderFailure::in_stream(&ProviderError::new(kind, message)).kind;
        let mut coded = ProviderError::new("invalid_request_error", "no");
        coded.code = Some("context_length_exceeded".to_owned());
        assert_eq!(ProviderFailure::in_stream(&coded).kind, FailureKind::RequestTooLarge);
        for (word, message) in [
            ("invalid_request_error", "prompt is too long: 212345 tokens > 200000 maximum"),
            (
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
            ),
            ("context_length_exceeded", "Your input exceeds the context window of this model."),
            ("invalid_request_error", "This model's maximum context length is 128000 tokens."),
            ("exceed_context_size_error", "the request exceeds the available context size"),
        ] {
            assert_eq!(kind(word, message), FailureKind::RequestTooLarge, "{message}");
        }
        assert_eq!(kind("invalid_request_error", "max_tokens: too large"), FailureKind::StreamError);
    }
}
