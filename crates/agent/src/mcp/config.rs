//! The `[mcp]` of an `offshoot.toml`: which servers there are and how they are reached.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde::Deserialize;
use toml::Spanned;

use super::ground::{PACKAGES, name};

/// How long a call may take unless something else is said.
const USUAL: u64 = 60;
/// A call that takes longer is given up by whoever made it.
const LONGEST: u64 = 110;
/// And to start.
const LONGEST_START: u64 = 600;

/// One server, as the user described it. Shown without the values of its environment and headers: they may be keys.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// What it is called here; its tools' names begin with it.
    pub name: String,
    /// How it is reached.
    pub(crate) at: At,
    /// How long a call may take.
    pub(crate) timeout: Duration,
    /// How long it may take to start, where somebody says so.
    pub(crate) start: Option<Duration>,
    /// The tools that are wanted, by their own names; all of them where nothing is said.
    pub(crate) tools: Option<Vec<String>>,
}

/// Where a server is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum At {
    /// A program that is started, and spoken to over its standard input and output.
    /// Its folder is one of its own, unless `cwd` names another, relative to the workspace.
    Command { command: Vec<String>, env: BTreeMap<String, String>, cwd: Option<String> },
    /// A server that runs elsewhere.
    Url { url: Uri, headers: HeaderMap },
}

impl ServerConfig {
    /// Whether its program may have to be fetched before it can start.
    pub(super) fn fetches(&self) -> bool {
        let At::Command { command, .. } = &self.at else { return false };
        command.first().is_some_and(|program| PACKAGES.contains(&name(program)))
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at: &dyn fmt::Debug = match &self.at {
            At::Command { command, .. } => command,
            At::Url { url, .. } => url,
        };
        f.debug_struct("ServerConfig").field("name", &self.name).field("at", at).finish_non_exhaustive()
    }
}

/// All servers, as the file has them.
pub(crate) type Tables = BTreeMap<Spanned<String>, Table>;

/// One server, as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
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

/// Where in the text, and what.
type Mistake = (usize, String);

/// The servers that are switched on, by name.
pub(crate) fn read(tables: Tables) -> Result<Vec<ServerConfig>, Mistake> {
    let mut servers = Vec::new();
    for (name, table) in tables {
        let (at, name) = (name.span().start, name.into_inner());
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(is_word) {
            let why = format!("`{name}` cannot name an MCP server: at most 32 letters, digits, `-` and `_`");
            return Err((at, why));
        }
        let is_on = table.enabled.unwrap_or(true);
        let server = table.server(name, at)?;
        servers.extend(is_on.then_some(server));
    }
    Ok(servers)
}

/// Why two servers cannot be told apart: the tools of `a_b` would be among `a_*`, and under the rules for `a`.
pub(crate) fn confused(servers: &[ServerConfig]) -> Option<String> {
    let pairs = servers.iter().flat_map(|one| servers.iter().map(move |other| (&one.name, &other.name)));
    let mut inside = pairs
        .filter(|(one, other)| other.strip_prefix(one.as_str()).is_some_and(|rest| rest.starts_with('_')));
    inside.next().map(|(one, other)| {
        format!("the tools of MCP server `{other}` would fall under the rules for `{one}`; let its name not begin with `{one}_`")
    })
}

impl Table {
    fn server(self, name: String, at: usize) -> Result<ServerConfig, Mistake> {
        let timeout = match self.timeout_s {
            Some(seconds) if !(1..=LONGEST).contains(seconds.get_ref()) => {
                return Err((seconds.span().start, format!("`timeout_s` is from 1 to {LONGEST}")));
            }
            seconds => Duration::from_secs(seconds.map_or(USUAL, Spanned::into_inner)),
        };
        let start = match self.start_timeout_s {
            Some(seconds) if !(1..=LONGEST_START).contains(seconds.get_ref()) => {
                let why = format!("`start_timeout_s` is from 1 to {LONGEST_START}");
                return Err((seconds.span().start, why));
            }
            seconds => seconds.map(|seconds| Duration::from_secs(seconds.into_inner())),
        };
        let place = match (self.command, self.url) {
            (Some(command), None) => {
                if let Some(headers) = self.headers {
                    return Err((headers.span().start, "`headers` belong to a `url`".to_owned()));
                }
                let (at, command) = (command.span().start, command.into_inner());
                if command.first().is_none_or(String::is_empty) {
                    return Err((
                        at,
                        "`command` is empty; write it as in `[\"npx\", \"-y\", \"server\"]`".to_owned(),
                    ));
                }
                let env = self.env.map(Spanned::into_inner).unwrap_or_default();
                At::Command { command, env, cwd: self.cwd.map(Spanned::into_inner) }
            }
            (None, Some(url)) => {
                if let Some(env) = self.env {
                    return Err((env.span().start, "`env` belongs to a `command`".to_owned()));
                }
                if let Some(cwd) = self.cwd {
                    return Err((cwd.span().start, "`cwd` belongs to a `command`".to_owned()));
                }
                At::Url { url: address(&url)?, headers: headers(self.headers)? }
            }
            (Some(_), Some(url)) => {
                return Err((url.span().start, "`url` beside `command`: only one can be meant".to_owned()));
            }
            (None, None) => return Err((at, format!("MCP server `{name}` needs a `command` or a `url`"))),
        };
        Ok(ServerConfig { name, at: place, timeout, start, tools: self.tools })
    }
}

fn address(url: &Spanned<String>) -> Result<Uri, Mistake> {
    let parsed = url.get_ref().parse::<Uri>().ok().filter(|url| {
        let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some() && !has_user
    });
    parsed.ok_or_else(|| {
        (url.span().start, "`url` is an address with http or https, and no user in it".to_owned())
    })
}

fn headers(table: Option<Spanned<BTreeMap<String, String>>>) -> Result<HeaderMap, Mistake> {
    let mut headers = HeaderMap::new();
    let Some(table) = table else { return Ok(headers) };
    let at = table.span().start;
    for (name, value) in table.into_inner() {
        let header =
            HeaderName::try_from(&name).map_err(|_| (at, format!("`{name}` cannot name a header")))?;
        // The value stays unsaid: it may be a key.
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| (at, format!("no header can carry the value of `{name}`")))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}
