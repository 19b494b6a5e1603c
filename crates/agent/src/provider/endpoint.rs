//! From a base URL to the request address.

use http::Uri;
use thiserror::Error;
use wire::dialect::Dialect;

/// The reason why a base URL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// It is not a URL.
    #[error("`{0}` is not an `http` or `https` URL with a host")]
    NotAUrl(String),
    /// A password in a URL ends up in logs.
    #[error("the URL of `{0}` holds a user name or password; a key belongs into `key_env` or `key_file`")]
    Credentials(String),
}

/// Returns the request address of a dialect below a base URL.
///
/// Anthropic's base has no version and OpenAI's has one, but people write either for both, with and without
/// a trailing slash, and some paste the whole address. A query is kept.
pub fn endpoint(base: &str, dialect: Dialect) -> Result<Uri, EndpointError> {
    let not_a_url = || EndpointError::NotAUrl(without_secrets(base));
    let uri: Uri = base.trim().parse().map_err(|_| not_a_url())?;
    let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(not_a_url());
    };
    if authority.as_str().contains('@') {
        return Err(EndpointError::Credentials(authority.host().to_owned()));
    }
    let path = uri.path().trim_end_matches('/');
    let tail = match dialect {
        Dialect::AnthropicMessages => "/messages",
        Dialect::OpenAiChat => "/chat/completions",
        Dialect::OpenAiResponses => "/responses",
    };
    let versioned = path.rsplit('/').next().is_some_and(is_version);
    let version = match dialect {
        _ if versioned => "",
        Dialect::AnthropicMessages => "/v1",
        // Some servers have another path before `/chat/completions`. A bare host has none.
        _ if path.is_empty() => "/v1",
        _ => "",
    };
    let path = if path.ends_with(tail) { path.to_owned() } else { format!("{path}{version}{tail}") };
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{authority}{path}{query}").parse().map_err(|_| not_a_url())
}

/// Returns whether a path segment is a version: `v1`, `v2`, `v1beta`.
fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the part of an invalid URL that may be shown.
fn without_secrets(base: &str) -> String {
    let end = base.find(['?', '#']).unwrap_or(base.len());
    let shown = super::failure::plain(&base[..end]);
    match shown.rsplit_once('@') {
        Some((_, behind)) => format!("…@{behind}"),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_joined_as_everybody_expects() {
        use Dialect::{AnthropicMessages as A, OpenAiChat as C, OpenAiResponses as R};
        let cases = [
            (A, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            (A, "https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
            (A, "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
            (A, "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
            (A, "https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/messages"),
            (A, "http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/messages"),
            (A, "http://[::1]:8080/", "http://[::1]:8080/v1/messages"),
            (A, "https://example.com/api/anthropic", "https://example.com/api/anthropic/v1/messages"),
            (A, "https://example.com/?beta=true", "https://example.com/v1/messages?beta=true"),
            (C, "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            (C, "https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
            (C, "https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
            (C, "https://example.com/v1/chat/completions/", "https://example.com/v1/chat/completions"),
            (C, "https://example.com/openai", "https://example.com/openai/chat/completions"),
            (C, "https://example.com/v1beta/openai/", "https://example.com/v1beta/openai/chat/completions"),
            (R, "https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
            (R, "http://localhost:11434//", "http://localhost:11434/v1/responses"),
            (
                R,
                "https://example.com/openai?api-version=2",
                "https://example.com/openai/responses?api-version=2",
            ),
        ];
        for (dialect, base, expected) in cases {
            let joined = endpoint(base, dialect).map(|uri| uri.to_string());
            assert_eq!(joined.as_deref(), Ok(expected), "{base}");
        }
    }

    #[test]
    fn invalid_addresses_are_reported_without_secrets() {
        for base in ["", "api.openai.com/v1", "ftp://example.com", "https://", "/v1", "http://a b?k=canary"] {
            let error = endpoint(base, Dialect::OpenAiChat).expect_err(base);
            assert!(matches!(error, EndpointError::NotAUrl(_)), "{base}: {error}");
            assert!(!error.to_string().contains("canary"));
        }
        let error = endpoint("https://me:canary@example.com", Dialect::OpenAiChat).expect_err("a password");
        assert_eq!(error, EndpointError::Credentials("example.com".to_owned()));
        let error = endpoint("https://me:canary@exa mple", Dialect::OpenAiChat).expect_err("no URL");
        assert!(!error.to_string().contains("canary"));
    }
}
