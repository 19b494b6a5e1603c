//! Validation of URLs: only the public web may be fetched.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use url::{Host, Url};

use super::address::non_public_kind;
use crate::tools::Refusal;

/// Longest URL. Browsers do not accept more.
const LONGEST: usize = 8 * 1024;

/// Names of the machine, its network or its cloud, whatever they resolve to. A leading dot means all
/// subdomains.
const INTERNAL_NAMES: &[&str] = &[
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

/// Internal hosts that the user allows, such as `127.0.0.1:8080` or `example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<AllowedHost>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct AllowedHost {
    host: Host<String>,
    port: Option<u16>,
}

impl AllowedHosts {
    /// Parses a list of hosts, each with or without a port.
    pub fn parse(list: &[impl AsRef<str>]) -> Result<Self, String> {
        list.iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>().map(Self)
    }

    /// Adds more hosts.
    pub(crate) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Returns true if a host is allowed. An entry without a port allows the usual ports.
    fn has(&self, host: &Host<String>, port: u16) -> bool {
        let fits =
            |entry: &AllowedHost| entry.host == *host && entry.port.map_or(is_usual(port), |own| own == port);
        self.0.iter().any(fits)
    }
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a host; write it as in `example.com` or `127.0.0.1:8080`");
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

/// Destination of one request, parsed by the WHATWG rules. The checked URL is the requested one, whatever the
/// input looked like.
#[derive(Clone, Debug)]
pub(super) struct FetchTarget {
    pub(super) url: Url,
    pub(super) host: Host<String>,
    pub(super) port: u16,
    is_allowed: bool,
}

impl FetchTarget {
    pub(super) fn parse(text: &str, allowed: &AllowedHosts) -> Result<Self, Refusal> {
        if text.len() > LONGEST {
            return Err(Refusal(format!("the URL has {} bytes; at most {LONGEST} are taken", text.len())));
        }
        let url = Url::parse(text).map_err(|error| {
            Refusal(format!(
                "`{}` is not a URL: {error}; write it in full, as in `https://example.com/page`",
                shorten_url(text)
            ))
        })?;
        Self::of(url, allowed)
    }

    /// Resolves a redirect. It is checked like any other target, and may not go from https to http.
    pub(super) fn follow(&self, location: &str, allowed: &AllowedHosts) -> Result<Self, Refusal> {
        let url = self.url.join(location).map_err(|error| {
            Refusal(format!("`{self}` redirects to `{}`, which is not a URL: {error}", shorten_url(location)))
        })?;
        let next = Self::of(url, allowed)
            .map_err(|Refusal(why)| Refusal(format!("`{self}` redirects to a refused address: {why}")))?;
        if self.is_secure() && !next.is_secure() {
            return Err(Refusal(format!(
                "`{self}` redirects to `{next}`, from https to http, which is refused"
            )));
        }
        Ok(next)
    }

    fn of(mut url: Url, allowed: &AllowedHosts) -> Result<Self, Refusal> {
        url.set_fragment(None);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal(format!(
                "`{}` is refused: only http and https are fetched",
                shorten_url(url.as_str())
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal("URLs with a user name or password are refused".to_owned()));
        }
        let no_host = || Refusal(format!("`{}` names no host", shorten_url(url.as_str())));
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
        let is_inner = INTERNAL_NAMES.iter().any(|inner| match inner.strip_prefix('.') {
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
        match non_public_kind(address) {
            Some(what) => {
                Err(Refusal(format!("`{self}` is refused: {address} is not a public address ({what})")))
            }
            None => Ok(()),
        }
    }

    /// Returns the addresses to connect to. One non-public address makes the whole name untrusted.
    pub(super) fn check_addresses(&self, found: Vec<IpAddr>) -> Result<Vec<SocketAddr>, Refusal> {
        if !self.is_allowed {
            found.iter().try_for_each(|address| self.check_address(*address))?;
        }
        if found.is_empty() {
            return Err(Refusal(format!("`{}` has no address", self.host)));
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, self.port)).collect())
    }

    /// Returns true for the same server: the same host and port, or an upgrade to https on the usual ports.
    pub(super) fn is_same_server(&self, other: &Self) -> bool {
        let is_upgrade = self.is_secure() && is_usual(self.port) && is_usual(other.port);
        self.host == other.host && (self.port == other.port || is_upgrade)
    }

    pub(super) fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the target of the request line.
    pub(super) fn path_and_query(&self) -> String {
        let query = self.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", self.url.path())
    }

    /// Returns the value of the `Host` header.
    pub(super) fn authority(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_string(),
        }
    }
}

impl fmt::Display for FetchTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shorten_url(self.url.as_str()))
    }
}

/// Removes the trailing dot of a name.
fn without_dot(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').map(str::to_owned).unwrap_or(name)),
        address => address,
    }
}

fn shorten_url(text: &str) -> String {
    const MOST: usize = 200;
    let more = if text.chars().count() > MOST { "…" } else { "" };
    text.chars().take(MOST).chain(more.chars()).collect()
}
