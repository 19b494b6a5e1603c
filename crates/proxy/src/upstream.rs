//! Where requests go, by the beginning of their path, and how one gets there.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long a provider may take to be connected to, greetings and all.
const REACH: Duration = Duration::from_secs(30);

/// An `--upstream` that cannot be used.
#[derive(Debug, Error)]
pub enum UpstreamError {
    /// It is not an address.
    #[error("`{0}` is not an http:// or https:// address")]
    NotAnAddress(String),
    /// Two of them claim the same paths.
    #[error("two upstreams are given for the prefix `{0}`")]
    Twice(String),
    /// The system's certificates cannot be read.
    #[error("cannot read the system's certificates")]
    Certificates(#[source] io::Error),
}

/// One provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Requests whose path begins with this go there; empty for all others.
    pub prefix: String,
    tls: bool,
    host: String,
    port: u16,
    /// What the address says behind its host, without a slash at the end.
    base_path: String,
}

impl Upstream {
    /// Reads `[PREFIX=]URL`.
    pub fn parse(text: &str) -> Result<Self, UpstreamError> {
        let (prefix, url) = match text.split_once('=') {
            Some((prefix, url)) if !prefix.contains(':') => (prefix, url),
            _ => ("", text),
        };
        let bad = || UpstreamError::NotAnAddress(without_userinfo(url));
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?;
        if authority.as_str().contains('@') || uri.query().is_some() || authority.host().is_empty() {
            return Err(bad());
        }
        let prefix = match prefix.trim_matches('/') {
            "" => String::new(),
            name => format!("/{name}"),
        };
        Ok(Self {
            prefix,
            tls,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            base_path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// The value of `Host` there.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// The address as it was given.
    pub fn url(&self) -> String {
        format!("{}{}", self.origin(), self.base_path)
    }

    /// Whether its address already ends in a version, as in `/v1`.
    pub fn is_versioned(&self) -> bool {
        let last = self.base_path.rsplit('/').next().unwrap_or_default();
        last.strip_prefix('v')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    }

    /// The target there of a request for `target` here.
    fn target(&self, target: &str) -> String {
        let rest = &target[self.prefix.len()..];
        let slash = if rest.starts_with('/') { "" } else { "/" };
        format!("{}{slash}{rest}", self.base_path)
    }

    fn takes(&self, target: &str) -> bool {
        target
            .strip_prefix(self.prefix.as_str())
            .is_some_and(|rest| self.prefix.is_empty() || rest.is_empty() || rest.starts_with(['/', '?']))
    }
}

fn without_userinfo(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 < at => format!("{}…{}", &url[..scheme + 3], &url[at..]),
        _ => url.to_owned(),
    }
}

/// All providers of one proxy.
#[derive(Clone)]
pub struct Upstreams {
    /// Longest prefix first.
    list: Vec<Upstream>,
    tls: Option<TlsConnector>,
}

/// Where one request goes.
pub(crate) struct Route<'u> {
    pub(crate) index: usize,
    pub(crate) upstream: &'u Upstream,
    pub(crate) target: String,
}

impl Upstreams {
    /// Takes them all; certificates are read only where one of them needs TLS.
    pub fn new(mut list: Vec<Upstream>) -> Result<Self, UpstreamError> {
        list.sort_by(|a, b| b.prefix.len().cmp(&a.prefix.len()).then(a.prefix.cmp(&b.prefix)));
        if let Some(pair) = list.windows(2).find(|pair| pair[0].prefix == pair[1].prefix) {
            return Err(UpstreamError::Twice(pair[0].prefix.clone()));
        }
        let tls = list.iter().any(|upstream| upstream.tls).then(tls_connector).transpose()?;
        Ok(Self { list, tls })
    }

    /// The providers, longest prefix first.
    pub fn iter(&self) -> impl Iterator<Item = &Upstream> {
        self.list.iter()
    }

    pub(crate) fn route(&self, target: &str) -> Option<Route<'_>> {
        let (index, upstream) = self.list.iter().enumerate().find(|(_, upstream)| upstream.takes(target))?;
        Some(Route { index, upstream, target: upstream.target(target) })
    }

    /// Connects; who does not answer within a while counts as out of reach.
    pub(crate) async fn connect(&self, upstream: &Upstream) -> io::Result<UpstreamIo> {
        let late =
            || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", REACH.as_secs()));
        tokio::time::timeout(REACH, self.reach(upstream)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn reach(&self, upstream: &Upstream) -> io::Result<UpstreamIo> {
        let tcp = TcpStream::connect((upstream.host.as_str(), upstream.port)).await?;
        tcp.set_nodelay(true)?;
        let Some(connector) = self.tls.as_ref().filter(|_| upstream.tls) else {
            return Ok(UpstreamIo::Plain(tcp));
        };
        let name = ServerName::try_from(upstream.host.clone()).map_err(io::Error::other)?;
        Ok(UpstreamIo::Tls(Box::new(connector.connect(name, tcp).await?)))
    }
}

fn tls_connector() -> Result<TlsConnector, UpstreamError> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why =
            found.errors.into_iter().next().map_or("there are none".to_owned(), |error| error.to_string());
        return Err(UpstreamError::Certificates(io::Error::other(why)));
    }
    trusting(roots)
}

fn trusting(roots: rustls::RootCertStore) -> Result<TlsConnector, UpstreamError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| UpstreamError::Certificates(io::Error::other(error)))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// A connection to a provider.
pub(crate) enum UpstreamIo {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for UpstreamIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(upstreams: &[&str], target: &str) -> Option<String> {
        let list = upstreams.iter().map(|text| Upstream::parse(text).expect("an address")).collect();
        let upstreams = Upstreams::new(list).expect("plain ones need no certificates");
        let route = upstreams.route(target)?;
        Some(format!("{} {}", route.upstream.authority(), route.target))
    }

    #[test]
    fn the_longest_prefix_takes_the_request() {
        let both = ["http://a.test", "/openai=http://b.test:81/v1/", "openai/x=http://[::1]:8"];
        for (target, goes) in [
            ("/v1/messages?beta=true", "a.test /v1/messages?beta=true"),
            ("/openai/responses", "b.test:81 /v1/responses"),
            ("/openai", "b.test:81 /v1/"),
            ("/openai?q", "b.test:81 /v1/?q"),
            ("/openaix", "a.test /openaix"),
            ("/openai/x/y", "[::1]:8 /y"),
        ] {
            assert_eq!(routed(&both, target).as_deref(), Some(goes));
        }
        assert_eq!(routed(&["/p=http://a.test"], "/q"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_greets_is_out_of_reach() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}", silent.local_addr().expect("bound"));
        let list = vec![Upstream::parse(&url).expect("good")];
        let tls = trusting(rustls::RootCertStore::empty()).expect("nobody is trusted");
        let upstreams = Upstreams { list, tls: Some(tls) };
        let error = upstreams.connect(&upstreams.list[0]).await.err().expect("nobody greets");
        assert_eq!(error.to_string(), "no answer within 30 s");
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_its_password() {
        for text in ["ftp://a", "a.test", "http://", "http://a?x=1", ""] {
            assert!(Upstream::parse(text).is_err(), "{text}");
        }
        let error = Upstream::parse("http://me:hunter2@a.test").expect_err("userinfo").to_string();
        assert_eq!(error, "`http://…@a.test` is not an http:// or https:// address");
        let twice =
            vec![Upstream::parse("http://a").expect("good"), Upstream::parse("http://b").expect("good")];
        assert!(matches!(Upstreams::new(twice), Err(UpstreamError::Twice(_))));
    }

    #[test]
    fn a_version_at_the_end_is_seen() {
        let versioned = |url| Upstream::parse(url).expect("good").is_versioned();
        assert!(
            versioned("https://a.test/v1/")
                && !versioned("https://a.test")
                && !versioned("https://a.test/vx")
        );
    }
}
