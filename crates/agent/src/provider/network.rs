//! Connections that all providers share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use super::failure::{FailureKind, ProviderFailure, RetryAdvice};

pub(crate) type Client = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A pool of connections. Clones are cheap and share it.
///
/// Only HTTP/1.1: each connection carries one response, so responses do not block each other, and dropping a
/// response closes its connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPool(Arc<Clients>);

#[derive(Debug, Default)]
struct Clients {
    plain: OnceLock<Client>,
    secure: OnceLock<Client>,
}

/// Maximum time to connect.
const CONNECT: Duration = Duration::from_secs(15);
/// Maximum time that an idle connection is kept.
const KEPT: Duration = Duration::from_secs(60);

impl ConnectionPool {
    /// Creates an empty pool. The machine's certificates are read with the first request that needs them, because
    /// loopback does not.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn client(&self, secure: bool) -> Result<&Client, ProviderFailure> {
        let slot = if secure { &self.0.secure } else { &self.0.plain };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let client = build(secure).map_err(|why| {
            let message = format!("cannot check the provider's certificate: {why}");
            ProviderFailure::new(FailureKind::Connect, message, RetryAdvice::No)
                .hinted("install the system's certificates, as in `apt install ca-certificates`")
        })?;
        Ok(slot.get_or_init(|| client))
    }
}

fn build(secure: bool) -> Result<Client, String> {
    let ring = rustls::crypto::ring::default_provider();
    let builder = HttpsConnectorBuilder::new();
    let builder = if secure {
        builder.with_provider_and_native_roots(ring).map_err(|error| error.to_string())?.https_only()
    } else {
        let config = ClientConfig::builder_with_provider(Arc::new(ring))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let trusts_nobody = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        builder.with_tls_config(trusts_nobody).https_or_http()
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEPT));
    Ok(legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(KEPT)
        .build(builder.enable_http1().wrap_connector(tcp)))
}
