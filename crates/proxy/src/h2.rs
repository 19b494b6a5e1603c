//! HTTP/2 from the harness: each stream becomes an HTTP/1.1 request on a pipe of its own.
//!
//! Behind the pipe stands the same [`Connection`] that serves HTTP/1.1, so there is one way to
//! record an exchange.

use std::sync::Arc;

use http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::capture::Shared;
use crate::connection::Connection;

const PIPE: usize = 64 << 10;

pub(crate) async fn serve(tcp: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| bridge(request, shared.clone()));
    let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .auto_date_header(false)
        .serve_connection(TokioIo::new(tcp), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("an HTTP/2 connection ended: {error}");
    }
}

async fn bridge(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Incoming>, hyper::Error> {
    let (near, far) = tokio::io::duplex(PIPE);
    tokio::spawn(Connection::new(far, None, shared).run());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
    tokio::spawn(connection);
    let mut response = sender.send_request(as_http1(request)).await?;
    // These speak of one connection, and HTTP/2 has no such words.
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE] {
        response.headers_mut().remove(name);
    }
    response.headers_mut().remove("keep-alive");
    Ok(response)
}

/// The same request with its authority in `Host` and only path and query in its address.
fn as_http1(mut request: Request<Incoming>) -> Request<Incoming> {
    let uri = request.uri().clone();
    if let Some(Ok(host)) = uri.authority().map(|authority| HeaderValue::from_str(authority.as_str())) {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
    *request.version_mut() = http::Version::HTTP_11;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse::<Uri>().unwrap_or_default();
    request
}
