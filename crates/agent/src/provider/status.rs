//! Refusals: statuses, the provider's words, and the requested delay.

use std::time::{Duration, SystemTime};

use http::header::{DATE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use wire::dialect::{DecodedResponse, Dialect, ProviderError};

use super::failure::{
    FailureKind, ProviderFailure, RetryAdvice, describe, is_hopeless_kind, is_too_long, is_unpaid, plain,
};

/// Returns the failure for a status that is not a success.
pub(super) fn refused(
    dialect: Dialect,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
) -> ProviderFailure {
    let code = status.as_u16();
    if status.is_redirection() {
        return redirected(code, headers);
    }
    let error = words(dialect, code, body);
    let message = format!("the provider answered {code}: {}", describe(&error));
    let after = retry_after(headers, now);
    let (kind, worth_it) = match code {
        401 | 403 => (FailureKind::Auth, false),
        404 => (FailureKind::NotFound, false),
        413 => (FailureKind::RequestTooLarge, false),
        400..500 if code != 429 && is_too_long(&error) => (FailureKind::RequestTooLarge, false),
        429 => (FailureKind::RateLimited, !is_hopeless_kind(&error)),
        503 | 529 => (FailureKind::Overloaded, true),
        408 | 409 | 425 | 500.. => (FailureKind::Status(code), true),
        _ => (FailureKind::Status(code), false),
    };
    // Anthropic and OpenAI send this header. A replay uses it to say that it has no answer.
    let worth_it = match headers.get("x-should-retry").and_then(|value| value.to_str().ok()) {
        Some("true") => true,
        Some("false") => false,
        _ => worth_it,
    };
    let retry = match (worth_it, after) {
        (false, _) => RetryAdvice::No,
        (true, Some(after)) => RetryAdvice::After(after),
        (true, None) => RetryAdvice::Yes,
    };
    let failure = ProviderFailure::new(kind, message, retry);
    match kind {
        FailureKind::NotFound if dialect == Dialect::OpenAiResponses => failure.hinted(
            "check the model's name and the base URL; a server that has only Chat Completions needs `dialect = \"openai-chat\"`",
        ),
        FailureKind::NotFound => failure.hinted("check the model's name and the base URL"),
        _ if retry == RetryAdvice::No && is_unpaid(&error) => failure.hinted("add credit to the account at the provider, or use another key"),
        _ => failure,
    }
}

fn redirected(code: u16, headers: &HeaderMap) -> ProviderFailure {
    let to = headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
    let to = plain(to.split(['?', '#']).next().unwrap_or_default());
    let message = format!(
        "the provider answered {code}, a redirect to `{to}`, which is not followed: the key would go along"
    );
    ProviderFailure::new(FailureKind::Redirect, message, RetryAdvice::No)
        .hinted("set the provider's `base_url` to where it lives now")
}

/// Returns the provider's error, in any format.
fn words(dialect: Dialect, code: u16, body: &[u8]) -> ProviderError {
    match dialect.decode_reply(body) {
        Ok(DecodedResponse::Error(error)) => error,
        _ => ProviderError::new(dialect.error_kind(code), String::from_utf8_lossy(body)),
    }
}

/// Returns the requested delay: in milliseconds, in seconds, or as a date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str, unit: f64| {
        let number: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| number(text, 1e-3)) {
        return Some(wait);
    }
    let after = text(RETRY_AFTER.as_str())?;
    // The provider's own clock is used if it is sent, because ours may be wrong.
    let now = text(DATE.as_str()).and_then(http_date).unwrap_or(now);
    number(after, 1.0).or_else(|| Some(http_date(after)?.duration_since(now).unwrap_or_default()))
}

/// Parses a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<SystemTime> {
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(date.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn every_form_of_retry_after() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777); // Sun, 06 Nov 1994 08:49:37 GMT
        type Case = (&'static [(&'static str, &'static str)], Option<f64>);
        let cases: &[Case] = &[
            (&[("retry-after", "7")], Some(7.0)),
            (&[("retry-after", " 1.5 ")], Some(1.5)),
            (&[("retry-after", "0")], Some(0.0)),
            (&[("retry-after-ms", "250"), ("retry-after", "1")], Some(0.25)),
            (&[("retry-after-ms", "soon"), ("retry-after", "1")], Some(1.0)),
            (&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], Some(30.0)),
            (&[("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT")], Some(0.0)),
            (
                &[
                    ("retry-after", "Sun, 06 Nov 1994 10:00:10 GMT"),
                    ("date", "Sun, 06 Nov 1994 10:00:00 GMT"),
                ],
                Some(10.0),
            ),
            (&[("retry-after", "-3")], None),
            (&[("retry-after", "1e300")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "tomorrow")], None),
            (&[], None),
        ];
        for (list, seconds) in cases {
            assert_eq!(retry_after(&headers(list), now), seconds.map(Duration::from_secs_f64), "{list:?}");
        }
    }

    #[test]
    fn a_low_credit_balance_gets_a_hint_and_no_retry() {
        let body = br#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#;
        let now = SystemTime::UNIX_EPOCH;
        let failure =
            refused(Dialect::AnthropicMessages, StatusCode::BAD_REQUEST, &HeaderMap::new(), body, now);
        assert_eq!((failure.kind, failure.retry), (FailureKind::Status(400), RetryAdvice::No));
        assert!(failure.hint.is_some_and(|hint| hint.starts_with("add credit")));
    }
}
