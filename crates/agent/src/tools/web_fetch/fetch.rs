//! Fetches one page: checks each address, connects, follows redirects, and reads the body within limits.

use std::io;

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, LOCATION, USER_AGENT,
};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use url::{Host, Url};
use wire::encoding;

use super::network::{NetStream, NetworkAccess};
use super::target::{AllowedHosts, FetchTarget};
use crate::Decision;
use crate::tools::Refusal;

/// Maximum size of a body, compressed and decompressed.
pub(super) const MAX_BYTES: usize = 5 << 20;
/// Maximum number of redirects.
const REDIRECTS: usize = 5;
/// Maximum number of a name's addresses to try.
const ADDRESSES: usize = 4;

/// A fetched page.
#[derive(Debug)]
pub(super) struct FetchedPage {
    /// Final URL, after all redirects.
    pub(super) url: Url,
    pub(super) status: StatusCode,
    /// Content type from the server, in lower case.
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

/// Fetches a page. Every hop is checked before anything is sent, and the connection goes to the checked
/// address. `judge` applies the permission rules to redirects. The first URL was judged before the call, and
/// that decision holds for its whole host.
pub(super) async fn fetch(
    url: &str,
    allowed: &AllowedHosts,
    network: &dyn NetworkAccess,
    judge: &(dyn Fn(&str) -> Decision + Sync),
) -> Result<FetchedPage, Refusal> {
    let first = FetchTarget::parse(url, allowed)?;
    let mut target = first.clone();
    for _ in 0..=REDIRECTS {
        let stream = connect(&target, network).await?;
        // Dropping the set ends the connection's task.
        let mut driver = JoinSet::new();
        let response = ask(&target, stream, &mut driver).await?;
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        match location {
            Some(location) if response.status().is_redirection() => {
                target = target.follow(location, allowed)?;
                let to = target.url.as_str();
                match judge(to) {
                    Decision::Allow => {}
                    Decision::Ask(_) if target.is_same_server(&first) => {}
                    Decision::Ask(why) => {
                        return Err(Refusal(format!(
                            "it redirects to `{to}`, and {why}: fetch that URL by a call of its own"
                        )));
                    }
                    Decision::Deny(why) => {
                        return Err(Refusal(format!("it redirects to `{to}`, and {why}")));
                    }
                }
            }
            _ => return read_page(target, response).await,
        }
    }
    Err(Refusal(format!("`{url}` redirects more than {REDIRECTS} times")))
}

async fn connect(target: &FetchTarget, network: &dyn NetworkAccess) -> Result<Box<dyn NetStream>, Refusal> {
    let found = match &target.host {
        Host::Domain(name) => {
            network.resolve(name).await.map_err(|error| Refusal(format!("cannot find `{name}`: {error}")))?
        }
        Host::Ipv4(address) => vec![(*address).into()],
        Host::Ipv6(address) => vec![(*address).into()],
    };
    let name = match &target.host {
        Host::Ipv6(address) => address.to_string(),
        host => host.to_string(),
    };
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in target.check_addresses(found)?.into_iter().take(ADDRESSES) {
        match network.connect(address, target.is_secure().then_some(&name)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(Refusal(format!("cannot connect to `{}`: {failed}", target.authority())))
}

async fn ask(
    target: &FetchTarget,
    stream: Box<dyn NetStream>,
    driver: &mut JoinSet<()>,
) -> Result<Response<Incoming>, Refusal> {
    let failed = |error: hyper::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Refusal(format!("`{}` gave no readable answer: {error}{cause}", target.authority()))
    };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    driver.spawn(async move {
        let _ = connection.await; // the request reports the error
    });
    let request = Request::get(target.path_and_query())
        .header(HOST, target.authority())
        .header(USER_AGENT, concat!("offshoot/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "text/html, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.9, */*;q=0.1")
        .header(ACCEPT_ENCODING, "gzip")
        .body(Empty::<Bytes>::new())
        .map_err(|error| Refusal(format!("cannot request `{target}`: {error}")))?;
    sender.send_request(request).await.map_err(failed)
}

async fn read_page(target: FetchTarget, response: Response<Incoming>) -> Result<FetchedPage, Refusal> {
    let (head, mut body) = response.into_parts();
    let content_type = text(&head.headers, CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    let announced = text(&head.headers, CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    if head.status.is_success() && !is_readable(&content_type) {
        let kind = if content_type.is_empty() { "of unknown type" } else { &content_type };
        let size = announced.map(|length| format!(", {length} bytes")).unwrap_or_default();
        return Err(Refusal(format!("`{target}` is {kind}{size}: only text, HTML, JSON and XML are read")));
    }
    let too_long = |what: String| Refusal(format!("`{target}` {what}; at most {MAX_BYTES} are read"));
    if let Some(length) = announced.filter(|length| *length > MAX_BYTES) {
        return Err(too_long(format!("has {length} bytes")));
    }
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal(format!("`{target}` was interrupted: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MAX_BYTES {
            return Err(too_long(format!("has more than {MAX_BYTES} bytes")));
        }
        bytes.extend_from_slice(&data);
    }
    let body = match text(&head.headers, CONTENT_ENCODING) {
        Some(coding) => encoding::decode(&coding, &bytes, MAX_BYTES)
            .map_err(|error| Refusal(format!("cannot decompress `{target}`: {error}")))?,
        None => bytes.to_vec(),
    };
    Ok(FetchedPage { url: target.url, status: head.status, content_type, body })
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(|value| value.trim().to_owned())
}

/// Returns true for types that are text.
fn is_readable(content_type: &str) -> bool {
    let kind = essence(content_type);
    kind.starts_with("text/")
        || matches!(kind, "application/json" | "application/xml" | "application/xhtml+xml")
        || (kind.starts_with("application/") && (kind.ends_with("+json") || kind.ends_with("+xml")))
}

/// Returns a content type without parameters.
pub(super) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}
