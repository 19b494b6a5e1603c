//! The failure of an attempt, as data.

use std::time::Duration;

use thiserror::Error;
use wire::dialect::ProviderError;

/// The failure of an attempt. It is stored and shown like any other result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ProviderFailure {
    /// The kind.
    pub kind: FailureKind,
    /// A message, with the provider's words if there are any, and never with a key.
    pub message: String,
    /// Advice for the user.
    pub hint: Option<String>,
    /// Advice on a retry of the same request.
    pub retry: RetryAdvice,
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No connection.
    Connect,
    /// A timeout.
    Stalled,
    /// The response ended before its final event.
    Cut,
    /// A status without a kind of its own.
    Status(u16),
    /// A redirect, which is not followed.
    Redirect,
    /// An error inside a response that began well.
    StreamError,
    /// Not a response in the dialect, or one that cannot be acted on.
    Garbage,
    /// The output limit cut a call.
    OutputLimit,
    /// The response is larger than the limit.
    TooLarge,
    /// 401, 403, or no usable key.
    Auth,
    /// 404: unknown model or address.
    NotFound,
    /// 413, or more than the model's context holds.
    RequestTooLarge,
    /// 503 or 529.
    Overloaded,
    /// 429.
    RateLimited,
}

/// Advice on a retry of the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// It would fail again.
    No,
    /// Retry after a pause of our own choice.
    Yes,
    /// Retry after the pause that the provider requested.
    After(Duration),
}

impl ProviderFailure {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>, retry: RetryAdvice) -> Self {
        Self { kind, message: message.into(), hint: None, retry }
    }

    pub(super) fn hinted(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Creates a failure for an invalid response. The next one may be valid.
    pub(super) fn garbage(why: impl Into<String>) -> Self {
        Self::new(FailureKind::Garbage, why, RetryAdvice::Yes)
    }

    /// Creates a failure for an error inside a response with a good status.
    pub(super) fn in_stream(error: &ProviderError) -> Self {
        let message = format!("the provider broke off with an error: {}", describe(error));
        if is_too_long(error) {
            return Self::new(FailureKind::RequestTooLarge, message, RetryAdvice::No);
        }
        if KEY.iter().any(|sign| error_name(error).contains(sign)) {
            return Self::new(FailureKind::Auth, message, RetryAdvice::No);
        }
        let retry = if is_hopeless(error) { RetryAdvice::No } else { RetryAdvice::Yes };
        Self::new(FailureKind::StreamError, message, retry)
    }
}

/// Kinds of errors about the key.
const KEY: &[&str] = &["authentication", "invalid_api_key", "permission"];

/// Signs of an error that the same request meets again. All other errors may pass.
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

/// Returns whether the provider's words say that a retry is useless.
pub(super) fn is_hopeless(error: &ProviderError) -> bool {
    contains_any(error, HOPELESS)
}

/// Returns whether one of these signs occurs in the provider's error.
fn contains_any(error: &ProviderError, signs: &[&str]) -> bool {
    let words = format!("{} {}", error_name(error), error.message).to_lowercase();
    signs.iter().any(|sign| words.contains(sign))
}

/// Returns the provider's names for the error.
fn error_name(error: &ProviderError) -> String {
    error.code.as_ref().map_or_else(|| error.kind.clone(), |code| format!("{}: {code}", error.kind))
}

/// Returns the same by the error's name alone. Rate limit messages often mention plans and billing.
pub(super) fn is_hopeless_kind(error: &ProviderError) -> bool {
    let word = error_name(error).to_lowercase();
    HOPELESS.iter().any(|sign| word.contains(sign))
}

/// Signs of a missing payment.
const UNPAID: &[&str] = &["billing", "credit balance", "insufficient_quota", "payment_required"];

/// Returns whether the provider's words say that the account has no credit.
pub(super) fn is_unpaid(error: &ProviderError) -> bool {
    contains_any(error, UNPAID)
}

/// Signs of a request that exceeds the model's context.
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

/// Returns whether the provider's words say that a shorter request would succeed.
pub(super) fn is_too_long(error: &ProviderError) -> bool {
    contains_any(error, TOO_LONG)
}

/// Returns the provider's words, safe for a terminal.
pub(super) fn describe(error: &ProviderError) -> String {
    match (plain(&error_name(error)).as_str(), plain(&error.message).as_str()) {
        ("", "") => "no reason given".to_owned(),
        ("", message) => message.to_owned(),
        (kind, "") => format!("`{kind}`"),
        (kind, message) => format!("{message} (`{kind}`)"),
    }
}

/// Maximum length of a quotation.
const QUOTED: usize = 400;

/// Returns foreign text as one short line without control characters.
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
    fn permanent_failures_differ_from_temporary_ones() {
        let retry =
            |kind: &str, message: &str| ProviderFailure::in_stream(&ProviderError::new(kind, message)).retry;
        assert_eq!(retry("overloaded_error", "Overloaded"), RetryAdvice::Yes);
        assert_eq!(retry("", ""), RetryAdvice::Yes);
        assert_eq!(retry("server_error", "oops"), RetryAdvice::Yes);
        assert_eq!(retry("invalid_request_error", "no such field"), RetryAdvice::No);
        assert_eq!(retry("error", "Your credit balance is too low"), RetryAdvice::No);
    }

    #[test]
    fn too_long_prompts_are_recognized_for_every_provider() {
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
