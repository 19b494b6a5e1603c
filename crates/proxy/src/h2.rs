//! HTTP/2 from the harness: each stream becomes an HTTP/1.1 request on a pipe of its own.
//!
//! The pipe is served by the same [`Connection`] as HTTP/1.1, so there is one way to record an exchange.

use std::future::poll_fn;
use std::io::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::exchange::{Buffer, fill};
use crate::h1::{BodyDecoder, ResponseHead};
use crate::serve::http::push_chunk;
use crate::state::ProxyState;

const PIPE: usize = 64 << 10;
/// Maximum number of bytes in flight to the proxy.
const WINDOW: u32 = 1 << 20;
/// Time for sent data to leave before a reset, which would overtake it.
const FLUSH: Duration = Duration::from_millis(20);
/// Maximum number of concurrent requests of one connection.
const STREAMS: u32 = 200;

pub(crate) async fn serve(tcp: TcpStream, state: Arc<ProxyState>) {
    let mut settings = h2::server::Builder::new();
    settings
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(STREAMS);
    let mut connection = match settings.handshake::<_, Bytes>(tcp).await {
        Ok(connection) => connection,
        Err(error) => return tracing::debug!("an HTTP/2 handshake failed: {error}"),
    };
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    streams.spawn(bridge(request, respond, state.clone()));
                }
                Some(Err(error)) => {
                    tracing::debug!("an HTTP/2 connection ended: {error}");
                    break;
                }
                None => break,
            },
            Some(_) = streams.join_next() => {}
        }
    }
    // Each stream notices by itself that the harness is gone.
    while streams.join_next().await.is_some() {}
}

async fn bridge(request: Request<RecvStream>, respond: SendResponse<Bytes>, state: Arc<ProxyState>) {
    let (near, far) = tokio::io::duplex(PIPE);
    let has_broken = AtomicBool::new(false);
    let serving = async {
        // Set before the pipe closes, which looks the same as a complete response.
        if let Some(_far) = Connection::new(far, None, state).run().await {
            has_broken.store(true, Ordering::Relaxed);
        }
    };
    tokio::join!(serving, carry(request, respond, near, &has_broken));
}

/// Carries a stream over the pipe in both directions at once, until the response is complete or the harness leaves.
async fn carry(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    pipe: DuplexStream,
    has_broken: &AtomicBool,
) {
    let (mut from, mut to) = tokio::io::split(pipe);
    let (head, body) = request.into_parts();
    if head.headers.contains_key(header::EXPECT) {
        // A provider may never send the permission that the harness waits for.
        let _ = respond.send_informational(empty_response(http::StatusCode::CONTINUE)); // it may have left
    }
    let mut sending = pin!(send_request(&mut to, &head, body));
    let mut is_sent = false;
    let answered = {
        let mut answering = pin!(pass_response(&mut from, &mut respond, head.method.as_str(), has_broken));
        loop {
            tokio::select! {
                answered = &mut answering => break answered,
                sent = &mut sending, if !is_sent => match sent {
                    Ok(()) => is_sent = true,
                    Err(_) => break Err(Reason::CANCEL), // the harness left
                },
            }
        }
    };
    if let Err(reason) = answered {
        tokio::time::sleep(FLUSH).await;
        return respond.send_reset(reason);
    }
    if !is_sent {
        // An early response: the rest of the request is passed on for as long as the provider reads it.
        tokio::select! {
            _ = &mut sending => {}
            _ = from.read_u8() => {}
        }
    }
}

/// Writes the request to the pipe. Fails only if the harness leaves: a closed pipe has its response.
async fn send_request(
    to: &mut (impl AsyncWrite + Unpin),
    head: &Parts,
    mut body: RecvStream,
) -> Result<(), h2::Error> {
    let is_chunked = !body.is_end_stream() && !head.headers.contains_key(header::CONTENT_LENGTH);
    let mut is_open = to.write_all(&request_head(head, is_chunked)).await.is_ok();
    while let Some(data) = body.data().await {
        let data = data?;
        let mut chunk = Vec::new();
        match is_chunked {
            true if data.is_empty() => {} // an empty chunk would end the body
            true => push_chunk(&mut chunk, &data),
            false => chunk.extend_from_slice(&data),
        }
        is_open = is_open && to.write_all(&chunk).await.is_ok();
        body.flow_control().release_capacity(data.len())?;
    }
    let trailers = body.trailers().await?;
    if is_chunked && is_open {
        let mut end = b"0\r\n".to_vec();
        push_lines(&mut end, &trailers.unwrap_or_default());
        end.extend_from_slice(b"\r\n");
        let _ = to.write_all(&end).await; // the response reports a failure
    }
    Ok(())
}

/// Encodes the request in HTTP/1.1, with its authority in `Host` and only path and query as target.
fn request_head(head: &Parts, is_chunked: bool) -> Vec<u8> {
    let authority = head.uri.authority().map(|authority| authority.as_str());
    let path = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let target = if head.method == Method::CONNECT { authority.unwrap_or(path) } else { path };
    let mut bytes = format!("{} {target} HTTP/1.1\r\n", head.method).into_bytes();
    if let Some(host) = authority.filter(|_| !head.headers.contains_key(header::HOST)) {
        write!(bytes, "host: {host}\r\n").expect("a vector accepts all bytes");
    }
    let mut headers = head.headers.clone();
    headers.remove(header::EXPECT);
    // HTTP/2 may send cookies in separate headers, HTTP/1.1 must not.
    let cookies: Vec<&[u8]> =
        head.headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let (2.., Ok(cookie)) = (cookies.len(), HeaderValue::from_bytes(&cookies.join(&b"; "[..]))) {
        headers.insert(header::COOKIE, cookie);
    }
    push_lines(&mut bytes, &headers);
    if is_chunked {
        bytes.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

fn push_lines(bytes: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        bytes.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
}

/// Passes the response from the pipe on. On failure, returns the reason for the reset of the stream.
async fn pass_response(
    from: &mut (impl AsyncRead + Unpin),
    respond: &mut SendResponse<Bytes>,
    method: &str,
    has_broken: &AtomicBool,
) -> Result<(), Reason> {
    const BROKEN: Reason = Reason::INTERNAL_ERROR;
    let mut buffer = Buffer::new();
    let head = loop {
        match ResponseHead::parse(&buffer, method) {
            Ok(Some((head, length))) => {
                buffer.advance(length);
                match head.status {
                    _ if !head.is_interim() => break head,
                    100 => {} // sent already
                    _ => respond.send_informational(response(&head)).map_err(|_| Reason::CANCEL)?,
                }
            }
            Ok(None) if read_more(from, &mut buffer, |cx| respond.poll_reset(cx)).await? > 0 => {}
            _ => return Err(BROKEN),
        }
    };
    let mut decoder = BodyDecoder::new(head.framing);
    let mut stream = respond.send_response(response(&head), decoder.is_done()).map_err(|_| Reason::CANCEL)?;
    while !decoder.is_done() {
        let mut data = BytesMut::new();
        let taken = decoder.push(&buffer, &mut |part| data.extend_from_slice(part)).map_err(|_| BROKEN)?;
        buffer.advance(taken);
        send(&mut stream, data.freeze()).await?;
        if decoder.is_done() {
            let trailers = header_map(decoder.take_trailers());
            return match trailers.is_empty() {
                true => stream.send_data(Bytes::new(), true),
                false => stream.send_trailers(trailers),
            }
            .map_err(|_| Reason::CANCEL);
        }
        if read_more(from, &mut buffer, |cx| stream.poll_reset(cx)).await? == 0 {
            let is_complete = decoder.may_end_at_close() && !has_broken.load(Ordering::Relaxed);
            return match is_complete {
                true => stream.send_data(Bytes::new(), true).map_err(|_| Reason::CANCEL),
                false => Err(BROKEN),
            };
        }
    }
    Ok(())
}

/// Reads more, unless the harness resets the stream.
async fn read_more(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut Buffer,
    mut poll_reset: impl FnMut(&mut Context<'_>) -> Poll<Result<Reason, h2::Error>>,
) -> Result<usize, Reason> {
    tokio::select! {
        read = fill(from, buffer) => Ok(read.unwrap_or_default()),
        _ = poll_fn(|cx| poll_reset(cx)) => Err(Reason::CANCEL),
    }
}

/// Sends data as the flow control of the harness allows.
async fn send(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), Reason> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let Some(Ok(room)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return Err(Reason::CANCEL) };
        let part = data.split_to(room.min(data.len()));
        stream.send_data(part, false).map_err(|_| Reason::CANCEL)?;
    }
    Ok(())
}

fn response(head: &ResponseHead) -> Response<()> {
    let mut response = empty_response(http::StatusCode::from_u16(head.status).unwrap_or_default());
    *response.headers_mut() = header_map(head.head.end_to_end());
    response
}

fn empty_response(status: http::StatusCode) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    response
}

fn header_map(headers: Vec<(String, Vec<u8>)>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(&value))
            && map.try_append(name, value).is_err()
        {
            tracing::warn!("an HTTP/2 response has more headers than can be passed on: only {}", map.len());
            break;
        }
    }
    map
}
