//! What a request says about itself, read without understanding it.

use wire::Header;
use wire::dialect::Dialect;

/// Headers in which harnesses name their session and agent, by lower-case name.
const SESSION_HEADERS: &[&str] = &["x-claude-code-session-id", "x-session-id", "x-session-affinity"];
const AGENT_HEADERS: &[&str] = &["x-claude-code-agent-id", "x-agent-id"];
const MESSAGE_HEADERS: &[&str] = &["x-message-id"];

/// What both dumps of an exchange say about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) message: Option<String>,
}

impl Hints {
    /// From the (redacted) address, headers and body of a request.
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

/// Whose dialect it is; others speak them too.
fn provider(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages => "anthropic",
        Dialect::OpenAiChat | Dialect::OpenAiResponses => "openai",
    }
}

fn first(headers: &[Header], names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| header(headers, name)).map(str::to_owned)
}

/// The value of the first header of that name.
pub(crate) fn header<'h>(headers: &'h [Header], name: &str) -> Option<&'h str> {
    headers.iter().find(|header| header.name().eq_ignore_ascii_case(name)).and_then(Header::value)
}

/// All values of a list header, joined as one line would have them.
pub(crate) fn list_header(headers: &[Header], name: &str) -> Option<String> {
    let named = headers.iter().filter(|header| header.name().eq_ignore_ascii_case(name));
    let values: Vec<&str> = named.filter_map(Header::value).collect();
    (!values.is_empty()).then(|| values.join(", "))
}
