//! One connection of a harness, and the connections to providers that mirror it.
//!
//! They close together: a harness sees its connection close when the provider's does, as without a proxy. Requests are
//! forwarded one after the other, see `docs/design/pipelined-requests.md`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Buf as _;
use recording::ExchangeTap;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use wire::Ending;

use crate::exchange::{Buffer, Exchange, ExchangeOutcome, NoResponse, fill, wait_until_harness_leaves};
use crate::gate::GatedRequest;
use crate::h1::{BodyDecoder, RequestHead};
use crate::hangup::SocketAddrs;
use crate::refusal;
use crate::state::ProxyState;
use crate::upstream::UpstreamIo;

/// Maximum time for the body of a request that cannot be forwarded.
const REFUSED_BODY: Duration = Duration::from_secs(30);

/// One connection of a harness.
pub(crate) struct Connection<H> {
    harness: H,
    addrs: Option<SocketAddrs>,
    from_harness: Buffer,
    upstreams: HashMap<usize, (UpstreamIo, Buffer)>,
    state: Arc<ProxyState>,
}

/// The next action of a connection.
enum NextAction {
    ServeRequest,
    Close,
    /// Resets the harness's connection, so that it does not see an ordinary end.
    Reset,
    /// Passes all bytes on between the harness and this upstream.
    Tunnel(usize),
}

impl<H: AsyncRead + AsyncWrite + Unpin> Connection<H> {
    pub(crate) fn new(harness: H, addrs: Option<SocketAddrs>, state: Arc<ProxyState>) -> Self {
        Self { harness, addrs, from_harness: Buffer::new(), upstreams: HashMap::new(), state }
    }

    /// Serves requests until one side closes. Returns the harness's connection if the provider's broke, because it must not
    /// end in the usual way.
    pub(crate) async fn run(mut self) -> Option<H> {
        let mut next = NextAction::ServeRequest;
        while let NextAction::ServeRequest = next {
            let Some(request) = self.next_request().await else { break };
            let _in_flight = self.state.begin_exchange();
            next = self.serve(request).await;
        }
        if matches!(next, NextAction::Close | NextAction::Reset) {
            self.report_pipelined();
        }
        match next {
            NextAction::Tunnel(index) => self.tunnel(index).await,
            NextAction::Reset => return Some(self.harness),
            NextAction::ServeRequest | NextAction::Close => {}
        }
        let _ = self.harness.shutdown().await; // it may be gone already
        None
    }

    /// Reports a request that the harness sent ahead and that is not forwarded any more.
    fn report_pipelined(&self) {
        if let Ok(Some(_)) = RequestHead::parse(&self.from_harness) {
            let reason = "the connection closed before the previous request was complete";
            self.state.recorder.record_loss("a pipelined request that was not forwarded", reason);
        }
    }

    async fn next_request(&mut self) -> Option<RequestHead> {
        loop {
            match RequestHead::parse(&self.from_harness) {
                Ok(Some((head, length))) => {
                    let _ = self.from_harness.split_to(length);
                    return Some(head);
                }
                Ok(None) => {}
                Err(error) => {
                    let message = format!("the request is {error}");
                    self.state.recorder.record_loss("a request that could not be forwarded", &message);
                    let _ = self.harness.write_all(&refusal::response(400, "Bad Request", &message)).await;
                    return None;
                }
            }
            let open = tokio::select! {
                read = fill(&mut self.harness, &mut self.from_harness) => matches!(read, Ok(1..)),
                gone = any_closed(&mut self.upstreams) => {
                    self.upstreams.remove(&gone);
                    // The last one closes the harness's connection, too.
                    !self.upstreams.is_empty()
                }
            };
            if !open {
                return None;
            }
        }
    }

    async fn serve(&mut self, request: RequestHead) -> NextAction {
        let state = self.state.clone();
        let target = request.target();
        if !target.starts_with('/') {
            let tap = state.recorder.begin_exchange(&request.method, &target, request.head.end_to_end());
            self.refuse(&request, tap, 400, "Bad Request", &not_a_forward_proxy(&request.method, &target))
                .await;
            return NextAction::Close;
        }
        let Some(route) = state.upstreams.route(&target) else {
            let tap = state.recorder.begin_exchange(&request.method, &target, request.head.end_to_end());
            let known: Vec<_> =
                state.upstreams.iter().map(|upstream| format!("`{}`", upstream.prefix)).collect();
            let message = format!("no upstream for `{target}`; the prefixes are {}", known.join(", "));
            self.refuse(&request, tap, 404, "Not Found", &message).await;
            return NextAction::Close;
        };
        let authority = route.upstream.authority();
        let scheme_and_host = route.upstream.origin();
        let url = format!("{scheme_and_host}{}", route.target);
        let tap = state.recorder.begin_exchange(&request.method, &url, request.head.end_to_end());
        if let Some(gate) = &state.gate.0 {
            let Some(body) = self.buffer_body(&request).await else {
                let error = "the harness left before the request was complete".to_owned();
                tap.end_request(false, Vec::new());
                tap.end(Ending::CutByHarness, Some(error), Vec::new());
                return NextAction::Close;
            };
            let coding = request.head.value("content-encoding");
            let gated =
                GatedRequest { id: tap.id(), method: &request.method, url: &url, coding, body: &body };
            let admitted = tokio::select! {
                admitted = gate.admit(gated) => Some(admitted),
                () = wait_until_harness_leaves(&mut self.harness, &mut self.from_harness, self.addrs) => None,
            };
            match admitted {
                Some(Ok(())) => {}
                Some(Err(message)) => {
                    self.refuse(&request, tap, 402, "Payment Required", &message).await;
                    return NextAction::Close;
                }
                None => {
                    self.leave_unsent(&request, &tap, "the harness left before the request was admitted")
                        .await;
                    return NextAction::Close;
                }
            }
        }
        let (upstream, from_upstream) = match self.upstreams.entry(route.index) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(none) => match tokio::select! {
                connected = state.upstreams.connect(route.upstream) => Some(connected),
                () = wait_until_harness_leaves(&mut self.harness, &mut self.from_harness, self.addrs) => None,
            } {
                Some(Ok(io)) => none.insert((io, Buffer::new())),
                None => {
                    state.gate.not_sent(&tap.id());
                    self.leave_unsent(&request, &tap, "the harness left before the provider was connected")
                        .await;
                    return NextAction::Close;
                }
                Some(Err(error)) => {
                    state.gate.not_sent(&tap.id());
                    let message = format!("cannot reach {scheme_and_host}: {error}");
                    state.stats.set_error(route.index, &message);
                    self.refuse(&request, tap, 502, "Bad Gateway", &message).await;
                    return NextAction::Close;
                }
            },
        };
        let head_bytes = request.redirected(&route.target, &authority);
        let exchange = Exchange {
            harness: &mut self.harness,
            from_harness: &mut self.from_harness,
            addrs: self.addrs,
            upstream,
            from_upstream,
        };
        let outcome = exchange.run(&request, &head_bytes, tap).await;
        if let ExchangeOutcome::NoResponse(NoResponse { error, is_garbage, is_reset }) = outcome {
            state.stats.set_error(route.index, &error);
            if is_garbage {
                let _ = self.harness.write_all(&refusal::response(502, "Bad Gateway", &error)).await;
            }
            return if is_reset { NextAction::Reset } else { NextAction::Close };
        }
        state.stats.add_response(route.index);
        match outcome {
            ExchangeOutcome::Reusable => NextAction::ServeRequest,
            ExchangeOutcome::Upgraded => {
                state
                    .recorder
                    .record_loss("what followed an upgrade to another protocol", "only HTTP is recorded");
                NextAction::Tunnel(route.index)
            }
            ExchangeOutcome::Reset => NextAction::Reset,
            ExchangeOutcome::Close | ExchangeOutcome::NoResponse(_) => NextAction::Close,
        }
    }

    /// Reads the whole body of a request into the buffer, and returns its content. The buffer is forwarded later.
    async fn buffer_body(&mut self, request: &RequestHead) -> Option<Vec<u8>> {
        let (mut decoder, mut body, mut at) = (BodyDecoder::new(request.framing), Vec::new(), 0);
        if request.head.has_token("expect", "100-continue") && !decoder.is_done() {
            self.harness.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
        }
        while !decoder.is_done() {
            if at == self.from_harness.len()
                && !matches!(fill(&mut self.harness, &mut self.from_harness).await, Ok(1..))
            {
                return None;
            }
            let taken = decoder.push(&self.from_harness[at..], &mut |part| body.extend_from_slice(part));
            at += taken.ok()?;
        }
        Some(body)
    }

    /// Ends the exchange of a harness that left before its request was sent.
    async fn leave_unsent(&mut self, request: &RequestHead, tap: &ExchangeTap, error: &str) {
        let whole = self.read_body(request, tap).await;
        tap.end_request(whole, Vec::new());
        tap.end(Ending::CutByHarness, Some(error.to_owned()), Vec::new());
    }

    /// Answers with an error after the whole request was read.
    async fn refuse(
        &mut self,
        request: &RequestHead,
        tap: ExchangeTap,
        status: u16,
        reason: &str,
        message: &str,
    ) {
        let whole = tokio::time::timeout(REFUSED_BODY, self.read_body(request, &tap)).await.unwrap_or(false);
        tap.end_request(whole, Vec::new());
        tap.end(Ending::NoResponse, Some(message.to_owned()), Vec::new());
        tap.wait_until_stored().await;
        let _ = self.harness.write_all(&refusal::response(status, reason, message)).await;
    }

    /// Reads the body of a request that is not forwarded. Returns whether it is complete.
    async fn read_body(&mut self, request: &RequestHead, tap: &ExchangeTap) -> bool {
        let mut body = BodyDecoder::new(request.framing);
        while !body.is_done() {
            let awaits_permission = request.head.has_token("expect", "100-continue");
            if self.from_harness.is_empty()
                && (awaits_permission
                    || !matches!(fill(&mut self.harness, &mut self.from_harness).await, Ok(1..)))
            {
                return false;
            }
            let Ok(taken) = tap.request_data(|keep| body.push(&self.from_harness, keep)) else {
                return false;
            };
            self.from_harness.advance(taken);
            tap.recorder().wait_for_room().await;
        }
        true
    }

    async fn tunnel(&mut self, index: usize) {
        let Some((mut upstream, from_upstream)) = self.upstreams.remove(&index) else { return };
        let ahead = self.harness.write_all(&from_upstream).await.is_ok()
            && upstream.write_all(&self.from_harness).await.is_ok();
        if ahead {
            // Either side may end it in any way.
            let _ = tokio::io::copy_bidirectional(&mut self.harness, &mut upstream).await;
        }
    }
}

/// Explains how to use this proxy to a client that uses it as a forward proxy.
fn not_a_forward_proxy(method: &str, target: &str) -> String {
    let request = match method {
        "CONNECT" => format!("a tunnel to `{target}`"),
        _ => format!("`{method} {target}`"),
    };
    format!(
        "cannot serve {request}: this is not a forward proxy; unset HTTP_PROXY and HTTPS_PROXY, use this address as \
         the harness's base URL, and request paths that begin with `/`"
    )
}

/// Waits until an idle connection to a provider closes, or receives bytes without a request. Returns its index.
async fn any_closed(upstreams: &mut HashMap<usize, (UpstreamIo, Buffer)>) -> usize {
    let mut byte = [0];
    std::future::poll_fn(|cx| {
        for (&index, (io, _)) in upstreams.iter_mut() {
            // In any case, the connection cannot be used any more.
            if Pin::new(io).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready() {
                return Poll::Ready(index);
            }
        }
        Poll::Pending
    })
    .await
}
