//! Ids and model of a request, read without decoding it.

use wire::Header;
use wire::dialect::Dialect;

use crate::lanes::Identity;
use crate::provider_host::provider_of;

/// Headers in which harnesses send the id of a message, in lower case.
const MESSAGE_HEADERS: &[&str] = &["x-message-id", "x-opencode-request"];

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
    /// Reads the hints from the redacted address, headers and body of a request. `session_header` is the header that the
    /// user named.
    pub(crate) fn of(url: &str, headers: &[Header], body: &[u8], session_header: Option<&str>) -> Self {
        let named = || headers.iter().filter_map(|header| Some((header.name(), header.value()?)));
        let identity = Identity::of(named(), b"", None).with_session_header(session_header, named());
        Self {
            provider: Dialect::detect(url, body).map(|_| provider_of(url)),
            model: wire::json::peek_string(body, "model"),
            session: identity.session,
            agent: identity.agent,
            message: first(headers, MESSAGE_HEADERS),
        }
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
