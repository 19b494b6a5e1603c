//! Name resolution and connections.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::BoxFuture;

/// Time limit for connecting to one address. Then the next is tried.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection in both directions.
pub(super) trait NetStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> NetStream for S {}

/// Access to the network, which tests replace.
pub(super) trait NetworkAccess: Send + Sync {
    /// Resolves all addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;

    /// Connects to exactly this address. With a name, uses TLS and checks the certificate for it.
    fn connect<'a>(
        &'a self,
        to: SocketAddr,
        tls: Option<&'a str>,
    ) -> BoxFuture<'a, io::Result<Box<dyn NetStream>>>;
}

/// The system's network. Proxies from the environment are ignored, since a proxy resolves names itself.
#[derive(Default)]
pub(super) struct SystemNetwork {
    /// The machine's certificates, loaded on first use.
    trust: OnceLock<Arc<ClientConfig>>,
}

impl NetworkAccess for SystemNetwork {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
            addresses.dedup();
            Ok(addresses)
        })
    }

    fn connect<'a>(
        &'a self,
        to: SocketAddr,
        tls: Option<&'a str>,
    ) -> BoxFuture<'a, io::Result<Box<dyn NetStream>>> {
        Box::pin(async move {
            let tcp = tokio::time::timeout(CONNECT, TcpStream::connect(to)).await;
            let tcp = tcp.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let Some(name) = tls else { return Ok(Box::new(tcp) as Box<dyn NetStream>) };
            let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
            let tls = TlsConnector::from(self.trust()?).connect(name, tcp).await?;
            Ok(Box::new(tls) as Box<dyn NetStream>)
        })
    }
}

impl SystemNetwork {
    fn trust(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.trust.get() {
            return Ok(Arc::clone(config));
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(io::Error::other("this machine has no certificates to trust"));
        }
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
        let config = builder.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
        Ok(Arc::clone(self.trust.get_or_init(|| Arc::new(config))))
    }
}
