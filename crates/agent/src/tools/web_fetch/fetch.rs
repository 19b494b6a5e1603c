//! One page from the web: checked, asked, followed, and taken in within limits.

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

use super::network::{Stream, World};
use super::target::{Allowed, Target};
use crate::Judgement;
use crate::tools::Refusal;

/// The most that a body may hold, as it comes and unpacked.
pub(super) const MAX_BYTES: usize = 5 << 20;
/// How many redirects are followed.
const REDIRECTS: usize = 5;
/// How many of a name's addresses are tried.
const ADDRESSES: usize = 4;

/// What was found.
#[derive(Debug)]
pub(super) struct Page {
    /// Where, after all redirects.
    pub(super) url: Url,
    pub(super) status: StatusCode,
    /// As the server calls it, in small letters.
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

/// Gets a page. Every hop is checked before anything is sent to it, and asked at the address that was checked. `judge` says
/// what the rules say of it; whether the first address may be asked was decided before, and that holds for its whole host.
pub(super) async fn fetch(
    url: &str,
    allowed: &Allowed,
    world: &dyn World,
    judge: &(dyn Fn(&str) -> Judgement + Sync),
) -> Result<Page, Refusal> {
    let first = Target::parse(url, allowed)?;
    let mut target = first.clone();
    for _ in 0..=REDIRECTS {
        let stream = connect(&target, world).await?;
        // What drives the connection ends with the set.
        let mut driver = JoinSet::new();
        let response = ask(&target, stream, &mut driver).await?;
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        match location {
            Some(location) if response.status().is_redirection() => {
                target = target.follow(location, allowed)?;
                let to = target.url.as_str();
                match judge(to) {
                    Judgement::Allow => {}
                    Judgement::Ask(_) if target.is_beside(&first) => {}
                    Judgement::Ask(why) => {
                        return Err(Refusal(format!(
                            "it redirects to `{to}`, and {why}: fetch that URL by a call of its own"
                        )));
                    }
                    Judgement::Deny(why) => {
                        return Err(Refusal(format!("it redirects to `{to}`, and {why}")));
                    }
                }
            }
            _ => return take_in(target, response).await,
        }
    }
    Err(Refusal(format!("`{url}` redirects more than {REDIRECTS} times")))
}

async fn connect(target: &Target, world: &dyn World) -> Result<Box<dyn Stream>, Refusal> {
    let found = match &target.host {
        Host::Domain(name) => world
            .resolve(name)
            .await
            .map_err(|error| Refusal(format!("`{name}` cannot be found: {error}")))?,
        Host::Ipv4(address) => vec![(*address).into()],
        Host::Ipv6(address) => vec![(*address).into()],
    };
    let name = match &target.host {
        Host::Ipv6(address) => address.to_string(),
        host => host.to_string(),
    };
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in target.checked(found)?.into_iter().take(ADDRESSES) {
        match world.connect(address, target.is_secure().then_some(&name)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(Refusal(format!("cannot connect to `{}`: {failed}", target.authority())))
}

async fn ask(
    target: &Target,
    stream: Box<dyn Stream>,
    driver: &mut JoinSet<()>,
) -> Result<Response<Incoming>, Refusal> {
    let failed = |error: hyper::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Refusal(format!("`{}` gave no answer that can be read: {error}{cause}", target.authority()))
    };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    driver.spawn(async move {
        let _ = connection.await; // what goes wrong is told to whoever waits for the answer
    });
    let request = Request::get(target.path_and_query())
        .header(HOST, target.authority())
        .header(USER_AGENT, concat!("offshoot/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "text/html, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.9, */*;q=0.1")
        .header(ACCEPT_ENCODING, "gzip")
        .body(Empty::<Bytes>::new())
        .map_err(|error| Refusal(format!("`{target}` cannot be asked for: {error}")))?;
    sender.send_request(request).await.map_err(failed)
}

async fn take_in(target: Target, response: Response<Incoming>) -> Result<Page, Refusal> {
    let (head, mut body) = response.into_parts();
    let content_type = text(&head.headers, CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    let announced = text(&head.headers, CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    if head.status.is_success() && !is_readable(&content_type) {
        let kind = if content_type.is_empty() { "of no known type" } else { &content_type };
        let size = announced.map(|length| format!(", {length} bytes")).unwrap_or_default();
        return Err(Refusal(format!("`{target}` is {kind}{size}: only text, HTML, JSON and XML are read")));
    }
    let too_long = |what: String| Refusal(format!("`{target}` {what}; at most {MAX_BYTES} are read"));
    if let Some(length) = announced.filter(|length| *length > MAX_BYTES) {
        return Err(too_long(format!("has {length} bytes")));
    }
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal(format!("`{target}` broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MAX_BYTES {
            return Err(too_long(format!("has more than {MAX_BYTES} bytes")));
        }
        bytes.extend_from_slice(&data);
    }
    let body = match text(&head.headers, CONTENT_ENCODING) {
        Some(coding) => encoding::decode(&coding, &bytes, MAX_BYTES)
            .map_err(|error| Refusal(format!("`{target}` cannot be unpacked: {error}")))?,
        None => bytes.to_vec(),
    };
    Ok(Page { url: target.url, status: head.status, content_type, body })
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(|value| value.trim().to_owned())
}

/// Types that are words.
fn is_readable(content_type: &str) -> bool {
    let kind = essence(content_type);
    kind.starts_with("text/")
        || matches!(kind, "application/json" | "application/xml" | "application/xhtml+xml")
        || (kind.starts_with("application/") && (kind.ends_with("+json") || kind.ends_with("+xml")))
}

/// A type without its parameters.
pub(super) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}
