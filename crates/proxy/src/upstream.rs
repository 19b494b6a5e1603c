//! Upstreams: routing by the start of the path, and connecting.

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

/// Maximum time to connect to a provider, TLS handshake included.
const CONNECT: Duration = Duration::from_secs(30);

/// An `--upstream` is invalid.
#[derive(Debug, Error)]
pub enum UpstreamError {
    /// The text is not an address.
    #[error("`{0}` is not an http:// or https:// address")]
    NotAnAddress(String),
    /// Two upstreams have the same prefix.
    #[error("two upstreams have the prefix `{0}`")]
    Duplicate(String),
    /// The system has no usable certificates.
    #[error("cannot read the system's certificates")]
    Certificates(#[source] io::Error),
}

/// One upstream, usually a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Start of the paths that it serves; empty for all others.
    pub prefix: String,
    tls: bool,
    host: String,
    port: u16,
    /// Path of the address, without a slash at the end.
    base_path: String,
}

impl Upstream {
    /// Parses `[PREFIX=]URL`.
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

    /// Returns the value of `Host` for this upstream.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// Returns scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Returns the address.
    pub fn url(&self) -> String {
        format!("{}{}", self.origin(), self.base_path)
    }

    /// Returns whether the address ends in a version, such as `/v1`.
    pub fn is_versioned(&self) -> bool {
        let last = self.base_path.rsplit('/').next().unwrap_or_default();
        last.strip_prefix('v')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Translates a request target of the proxy to one of this upstream.
    fn target(&self, target: &str) -> String {
        let rest = &target[self.prefix.len()..];
        let slash = if rest.starts_with('/') { "" } else { "/" };
        format!("{}{slash}{rest}", self.base_path)
    }

    fn serves(&self, target: &str) -> bool {
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

/// All upstreams of one proxy.
#[derive(Clone)]
pub struct Upstreams {
    /// Longest prefix first.
    list: Vec<Upstream>,
    tls: Option<TlsConnector>,
}

/// The destination of one request.
pub(crate) struct Route<'u> {
    pub(crate) index: usize,
    pub(crate) upstream: &'u Upstream,
    pub(crate) target: String,
}

impl Upstreams {
    /// Creates the list. Certificates are read only if an upstream needs TLS.
    pub fn new(mut list: Vec<Upstream>) -> Result<Self, UpstreamError> {
        list.sort_by(|a, b| b.prefix.len().cmp(&a.prefix.len()).then(a.prefix.cmp(&b.prefix)));
        if let Some(pair) = list.windows(2).find(|pair| pair[0].prefix == pair[1].prefix) {
            return Err(UpstreamError::Duplicate(pair[0].prefix.clone()));
        }
        let tls = list.iter().any(|upstream| upstream.tls).then(tls_connector).transpose()?;
        Ok(Self { list, tls })
    }

    /// Returns the upstreams, longest prefix first.
    pub fn iter(&self) -> impl Iterator<Item = &Upstream> {
        self.list.iter()
    }

    pub(crate) fn route(&self, target: &str) -> Option<Route<'_>> {
        let (index, upstream) = self.list.iter().enumerate().find(|(_, upstream)| upstream.serves(target))?;
        Some(Route { index, upstream, target: upstream.target(target) })
    }

    /// Connects to an upstream, within a time limit.
    pub(crate) async fn connect(&self, upstream: &Upstream) -> io::Result<UpstreamIo> {
        let late = || {
            io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {} s", CONNECT.as_secs()))
        };
        tokio::time::timeout(CONNECT, self.connect_unlimited(upstream)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn connect_unlimited(&self, upstream: &Upstream) -> io::Result<UpstreamIo> {
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
        let why = found.errors.into_iter().next().map_or("none found".to_owned(), |error| error.to_string());
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

/// A connection to an upstream.
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
    async fn a_silent_server_is_not_connected() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}", silent.local_addr().expect("bound"));
        let list = vec![Upstream::parse(&url).expect("good")];
        let tls = trusting(rustls::RootCertStore::empty()).expect("no roots are needed");
        let upstreams = Upstreams { list, tls: Some(tls) };
        let error = upstreams.connect(&upstreams.list[0]).await.err().expect("the server is silent");
        assert_eq!(error.to_string(), "no connection within 30 s");
    }

    #[test]
    fn an_invalid_address_is_refused_without_repeating_its_password() {
        for text in ["ftp://a", "a.test", "http://", "http://a?x=1", ""] {
            assert!(Upstream::parse(text).is_err(), "{text}");
        }
        let error = Upstream::parse("http://me:hunter2@a.test").expect_err("userinfo").to_string();
        assert_eq!(error, "`http://…@a.test` is not an http:// or https:// address");
        let twice =
            vec![Upstream::parse("http://a").expect("good"), Upstream::parse("http://b").expect("good")];
        assert!(matches!(Upstreams::new(twice), Err(UpstreamError::Duplicate(_))));
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
