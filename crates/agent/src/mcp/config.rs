//! The `[mcp]` table of an `offshoot.toml`: the user's tool servers and how to reach them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde::Deserialize;
use toml::Spanned;

use super::program::{PACKAGE_RUNNERS, program_name};

/// Default time limit of a call.
const DEFAULT_TIMEOUT_S: u64 = 60;
/// Longest time limit of a call. A caller gives up after a little more.
const MAX_TIMEOUT_S: u64 = 110;
/// Longest time limit of a start.
const MAX_START_TIMEOUT_S: u64 = 600;

/// One server, as the user described it. Its debug output leaves out environment and header values, which may
/// be keys.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Name of the server. Its tools' names begin with it.
    pub name: String,
    /// Program or URL of the server.
    pub(crate) address: ServerAddress,
    /// Time limit of a call.
    pub(crate) timeout: Duration,
    /// Time limit of the start, if the user set one.
    pub(crate) start: Option<Duration>,
    /// Tools to offer, by the server's own names. `None` offers all.
    pub(crate) tools: Option<Vec<String>>,
}

/// Program or URL of a server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum ServerAddress {
    /// A program that is started and used over its standard input and output. It runs in a folder of its own,
    /// unless `cwd` names another, relative to the workspace.
    Command { command: Vec<String>, env: BTreeMap<String, String>, cwd: Option<String> },
    /// A server that runs elsewhere.
    Url { url: Uri, headers: HeaderMap },
}

impl ServerConfig {
    /// Returns true if the program may have to be downloaded before it starts.
    pub(super) fn fetches_program(&self) -> bool {
        let ServerAddress::Command { command, .. } = &self.address else { return false };
        command.first().is_some_and(|program| PACKAGE_RUNNERS.contains(&program_name(program)))
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at: &dyn fmt::Debug = match &self.address {
            ServerAddress::Command { command, .. } => command,
            ServerAddress::Url { url, .. } => url,
        };
        f.debug_struct("ServerConfig").field("name", &self.name).field("at", at).finish_non_exhaustive()
    }
}

/// All servers of a file.
pub(crate) type ServerTables = BTreeMap<Spanned<String>, ServerTable>;

/// One server of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerTable {
    command: Option<Spanned<Vec<String>>>,
    url: Option<Spanned<String>>,
    env: Option<Spanned<BTreeMap<String, String>>>,
    cwd: Option<Spanned<String>>,
    headers: Option<Spanned<BTreeMap<String, String>>>,
    timeout_s: Option<Spanned<u64>>,
    start_timeout_s: Option<Spanned<u64>>,
    tools: Option<Vec<String>>,
    enabled: Option<bool>,
}

/// Position in the text, and description.
type ConfigMistake = (usize, String);

/// Reads the servers that are enabled, sorted by name.
pub(crate) fn read_servers(tables: ServerTables) -> Result<Vec<ServerConfig>, ConfigMistake> {
    let mut servers = Vec::new();
    for (name, table) in tables {
        let (at, name) = (name.span().start, name.into_inner());
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(is_word) {
            let why =
                format!("`{name}` is not a valid server name: use at most 32 letters, digits, `-` and `_`");
            return Err((at, why));
        }
        let is_on = table.enabled.unwrap_or(true);
        let server = table.server(name, at)?;
        servers.extend(is_on.then_some(server));
    }
    Ok(servers)
}

/// Returns an error if two server names are ambiguous: the tools of `a_b` would match `a_*`, and so the rules
/// for `a`.
pub(crate) fn ambiguous_names(servers: &[ServerConfig]) -> Option<String> {
    let pairs = servers.iter().flat_map(|one| servers.iter().map(move |other| (&one.name, &other.name)));
    let mut inside = pairs
        .filter(|(one, other)| other.strip_prefix(one.as_str()).is_some_and(|rest| rest.starts_with('_')));
    inside.next().map(|(one, other)| {
        format!("rules for MCP server `{one}` would also match the tools of `{other}`; choose a name that does not begin with `{one}_`")
    })
}

impl ServerTable {
    fn server(self, name: String, at: usize) -> Result<ServerConfig, ConfigMistake> {
        let timeout = match self.timeout_s {
            Some(seconds) if !(1..=MAX_TIMEOUT_S).contains(seconds.get_ref()) => {
                return Err((seconds.span().start, format!("`timeout_s` must be from 1 to {MAX_TIMEOUT_S}")));
            }
            seconds => Duration::from_secs(seconds.map_or(DEFAULT_TIMEOUT_S, Spanned::into_inner)),
        };
        let start = match self.start_timeout_s {
            Some(seconds) if !(1..=MAX_START_TIMEOUT_S).contains(seconds.get_ref()) => {
                let why = format!("`start_timeout_s` must be from 1 to {MAX_START_TIMEOUT_S}");
                return Err((seconds.span().start, why));
            }
            seconds => seconds.map(|seconds| Duration::from_secs(seconds.into_inner())),
        };
        let address = match (self.command, self.url) {
            (Some(command), None) => {
                if let Some(headers) = self.headers {
                    return Err((headers.span().start, "`headers` need a `url`".to_owned()));
                }
                let (at, command) = (command.span().start, command.into_inner());
                if command.first().is_none_or(String::is_empty) {
                    return Err((
                        at,
                        "`command` is empty; write it as in `[\"npx\", \"-y\", \"server\"]`".to_owned(),
                    ));
                }
                let env = self.env.map(Spanned::into_inner).unwrap_or_default();
                ServerAddress::Command { command, env, cwd: self.cwd.map(Spanned::into_inner) }
            }
            (None, Some(url)) => {
                if let Some(env) = self.env {
                    return Err((env.span().start, "`env` needs a `command`".to_owned()));
                }
                if let Some(cwd) = self.cwd {
                    return Err((cwd.span().start, "`cwd` needs a `command`".to_owned()));
                }
                ServerAddress::Url { url: parse_url(&url)?, headers: parse_headers(self.headers)? }
            }
            (Some(_), Some(url)) => {
                return Err((url.span().start, "use either `url` or `command`, not both".to_owned()));
            }
            (None, None) => return Err((at, format!("MCP server `{name}` needs a `command` or a `url`"))),
        };
        Ok(ServerConfig { name, address, timeout, start, tools: self.tools })
    }
}

fn parse_url(url: &Spanned<String>) -> Result<Uri, ConfigMistake> {
    let parsed = url.get_ref().parse::<Uri>().ok().filter(|url| {
        let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some() && !has_user
    });
    parsed.ok_or_else(|| {
        (url.span().start, "`url` must be an http or https address without a user name".to_owned())
    })
}

fn parse_headers(table: Option<Spanned<BTreeMap<String, String>>>) -> Result<HeaderMap, ConfigMistake> {
    let mut headers = HeaderMap::new();
    let Some(table) = table else { return Ok(headers) };
    let at = table.span().start;
    for (name, value) in table.into_inner() {
        let header =
            HeaderName::try_from(&name).map_err(|_| (at, format!("`{name}` is not a valid header name")))?;
        // The message leaves out the value, which may be a key.
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| (at, format!("the value of header `{name}` is not valid")))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}
