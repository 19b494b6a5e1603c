//! What may be asked: an address on the web that leads to nobody's inside.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use url::{Host, Url};

use super::address::not_public;
use crate::tools::Refusal;

/// No browser takes more.
const LONGEST: usize = 8 * 1024;

/// Names that mean the machine, its network or its cloud, whatever they resolve to; a dot in front means all below.
const INNER: &[&str] = &[
    "localhost",
    ".localhost",
    ".local",
    ".internal",
    ".home.arpa",
    ".lan",
    ".intranet",
    ".corp",
    ".private",
    ".cluster.local",
    ".svc",
    "metadata.goog",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
];

/// Hosts that the user has said may be asked although they are inside, as in `127.0.0.1:8080` or `example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    host: Host<String>,
    port: Option<u16>,
}

impl Allowed {
    /// Reads a list of hosts, each with a port or without.
    pub fn parse(list: &[impl AsRef<str>]) -> Result<Self, String> {
        list.iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>().map(Self)
    }

    /// These as well.
    pub(crate) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Without a port, an entry means those that anybody may be asked at.
    fn has(&self, host: &Host<String>, port: u16) -> bool {
        let fits =
            |entry: &Entry| entry.host == *host && entry.port.map_or(is_usual(port), |own| own == port);
        self.0.iter().any(fits)
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no host; write it as in `example.com` or `127.0.0.1:8080`");
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| wrong())?))
            }
            _ => (text, None),
        };
        let host = Host::parse(host).map_err(|_| wrong())?;
        Ok(Self { host: without_dot(host), port })
    }
}

fn is_usual(port: u16) -> bool {
    matches!(port, 80 | 443)
}

/// One request's destination, as the WHATWG reads it: what is checked here is what is asked, whatever was written.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) host: Host<String>,
    pub(super) port: u16,
    is_allowed: bool,
}

impl Target {
    pub(super) fn parse(text: &str, allowed: &Allowed) -> Result<Self, Refusal> {
        if text.len() > LONGEST {
            return Err(Refusal(format!("the URL has {} bytes; at most {LONGEST} are taken", text.len())));
        }
        let url = Url::parse(text).map_err(|error| {
            Refusal(format!(
                "`{}` is no URL: {error}; write it whole, as in `https://example.com/page`",
                brief(text)
            ))
        })?;
        Self::of(url, allowed)
    }

    /// Where a redirect leads. It is checked like any other, and may not leave encryption.
    pub(super) fn follow(&self, location: &str, allowed: &Allowed) -> Result<Self, Refusal> {
        let url = self.url.join(location).map_err(|error| {
            Refusal(format!("`{self}` redirects to `{}`, which is no URL: {error}", brief(location)))
        })?;
        let next = Self::of(url, allowed)
            .map_err(|Refusal(why)| Refusal(format!("`{self}` redirects to where it may not: {why}")))?;
        if self.is_secure() && !next.is_secure() {
            return Err(Refusal(format!(
                "`{self}` redirects to `{next}`, from https to http, which is refused"
            )));
        }
        Ok(next)
    }

    fn of(mut url: Url, allowed: &Allowed) -> Result<Self, Refusal> {
        url.set_fragment(None);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal(format!(
                "`{}` is refused: only http and https are fetched",
                brief(url.as_str())
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal("a URL with a user name or a password in it is refused".to_owned()));
        }
        let no_host = || Refusal(format!("`{}` names no host", brief(url.as_str())));
        let host = without_dot(url.host().ok_or_else(no_host)?.to_owned());
        let port = url.port_or_known_default().ok_or_else(no_host)?;
        let target = Self { is_allowed: allowed.has(&host, port), url, host, port };
        if target.is_allowed {
            return Ok(target);
        }
        if !is_usual(port) {
            return Err(Refusal(format!(
                "`{target}` is refused: only the ports 80 and 443 are asked, not {port}; the user can allow it, with \
                 `allow = [\"{}:{port}\"]` under `[web_fetch]` in their own `offshoot.toml`",
                target.host
            )));
        }
        match &target.host {
            Host::Domain(name) => target.check_name(name)?,
            Host::Ipv4(address) => target.check_address(IpAddr::V4(*address))?,
            Host::Ipv6(address) => target.check_address(IpAddr::V6(*address))?,
        }
        Ok(target)
    }

    fn check_name(&self, name: &str) -> Result<(), Refusal> {
        let is_inner = INNER.iter().any(|inner| match inner.strip_prefix('.') {
            Some(top) => name == top || name.ends_with(inner),
            None => name == *inner,
        });
        if is_inner || !name.contains('.') {
            return Err(Refusal(format!(
                "`{self}` is refused: `{name}` is a name of this machine or network"
            )));
        }
        Ok(())
    }

    fn check_address(&self, address: IpAddr) -> Result<(), Refusal> {
        match not_public(address) {
            Some(what) => Err(Refusal(format!(
                "`{self}` is refused: {address} is not on the public internet, but {what}"
            ))),
            None => Ok(()),
        }
    }

    /// The addresses that may be connected to, out of those that the name has. One that is not public spoils them
    /// all: whoever mixes them means no good.
    pub(super) fn checked(&self, found: Vec<IpAddr>) -> Result<Vec<SocketAddr>, Refusal> {
        if !self.is_allowed {
            found.iter().try_for_each(|address| self.check_address(*address))?;
        }
        if found.is_empty() {
            return Err(Refusal(format!("`{}` has no address", self.host)));
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, self.port)).collect())
    }

    /// Whether it is the same server: the same host at the same port, or at the usual one for encryption.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let is_upgrade = self.is_secure() && is_usual(self.port) && is_usual(other.port);
        self.host == other.host && (self.port == other.port || is_upgrade)
    }

    pub(super) fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// What the request line says.
    pub(super) fn path_and_query(&self) -> String {
        let query = self.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", self.url.path())
    }

    /// What the `Host` header says.
    pub(super) fn authority(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_string(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&brief(self.url.as_str()))
    }
}

/// `example.com.` is `example.com`.
fn without_dot(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').map(str::to_owned).unwrap_or(name)),
        address => address,
    }
}

fn brief(text: &str) -> String {
    const MOST: usize = 200;
    let more = if text.chars().count() > MOST { "…" } else { "" };
    text.chars().take(MOST).chain(more.chars()).collect()
}
