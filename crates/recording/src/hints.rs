//! Ids and model of a request, read without decoding it.

use wire::Header;
use wire::dialect::Dialect;

/// Headers in which harnesses send their session and agent ids, in lower case.
const SESSION_HEADERS: &[&str] = &["x-claude-code-session-id", "x-session-id", "x-session-affinity"];
const AGENT_HEADERS: &[&str] = &["x-claude-code-agent-id", "x-agent-id"];
const MESSAGE_HEADERS: &[&str] = &["x-message-id"];

/// Fields that both dumps of an exchange share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) message: Option<String>,
}

impl Hints {
    /// Reads the hints from the redacted address, headers and body of a request.
    pub(crate) fn of(url: &str, headers: &[Header], body: &[u8]) -> Self {
        Self {
            provider: Dialect::detect(url, body).map(|dialect| provider(dialect).to_owned()),
            model: wire::json::peek_string(body, "model"),
            session: first(headers, SESSION_HEADERS),
            agent: first(headers, AGENT_HEADERS),
            message: first(headers, MESSAGE_HEADERS),
        }
    }
}

/// Returns the provider that defined the dialect. Others use it, too.
fn provider(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages => "anthropic",
        Dialect::OpenAiChat | Dialect::OpenAiResponses => "openai",
    }
}

fn first(headers: &[Header], names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| header(headers, name)).map(str::to_owned)
}

/// Returns the value of the first header with that name.
pub(crate) fn header<'h>(headers: &'h [Header], name: &str) -> Option<&'h str> {
    headers.iter().find(|header| header.name().eq_ignore_ascii_case(name)).and_then(Header::value)
}

/// Returns all values of a list header, joined with commas.
pub(crate) fn list_header(headers: &[Header], name: &str) -> Option<String> {
    let named = headers.iter().filter(|header| header.name().eq_ignore_ascii_case(name));
    let values: Vec<&str> = named.filter_map(Header::value).collect();
    (!values.is_empty()).then(|| values.join(", "))
}
