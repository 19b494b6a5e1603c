//! One connection of a harness, and the connections to providers that mirror it.
//!
//! They live and die together: a harness sees its connection close when the provider's does, just
//! as if nobody stood between them.

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

use crate::capture::Shared;
use crate::exchange::{Buffer, Exchange, Outcome, Silence, fill, until_the_harness_leaves};
use crate::h1::{BodyDecoder, RequestHead};
use crate::hangup::Ends;
use crate::refusal;
use crate::upstream::UpstreamIo;

/// How long the body of a request that cannot be forwarded is waited for.
const LISTEN_TO_THE_END: Duration = Duration::from_secs(30);

/// One connection of a harness.
pub(crate) struct Connection<H> {
    harness: H,
    ends: Option<Ends>,
    from_harness: Buffer,
    upstreams: HashMap<usize, (UpstreamIo, Buffer)>,
    shared: Arc<Shared>,
}

/// What a connection does next.
enum Next {
    Request,
    Close,
    /// Lets the harness read an error instead of an end.
    Reset,
    /// Passes everything on between the harness and this upstream, whatever it is.
    Tunnel(usize),
}

impl<H: AsyncRead + AsyncWrite + Unpin> Connection<H> {
    pub(crate) fn new(harness: H, ends: Option<Ends>, shared: Arc<Shared>) -> Self {
        Self { harness, ends, from_harness: Buffer::new(), upstreams: HashMap::new(), shared }
    }

    /// Serves requests until one of the sides closes. Gives the harness's connection back where the provider's broke: it
    /// must not end as if all were well.
    pub(crate) async fn run(mut self) -> Option<H> {
        let mut next = Next::Request;
        while let Next::Request = next {
            let Some(request) = self.next_request().await else { break };
            let _in_flight = self.shared.in_flight();
            next = self.serve(request).await;
        }
        match next {
            Next::Tunnel(index) => self.tunnel(index).await,
            Next::Reset => return Some(self.harness),
            Next::Request | Next::Close => {}
        }
        let _ = self.harness.shutdown().await; // it may be gone already
        None
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
                    self.shared.recorder.lose("a request that could not be forwarded", &message);
                    let _ = self.harness.write_all(&refusal::response(400, "Bad Request", &message)).await;
                    return None;
                }
            }
            let open = tokio::select! {
                read = fill(&mut self.harness, &mut self.from_harness) => matches!(read, Ok(1..)),
                gone = one_closes(&mut self.upstreams) => {
                    self.upstreams.remove(&gone);
                    // The last one takes the harness's connection with it.
                    !self.upstreams.is_empty()
                }
            };
            if !open {
                return None;
            }
        }
    }

    async fn serve(&mut self, request: RequestHead) -> Next {
        let shared = self.shared.clone();
        let target = request.target();
        if !target.starts_with('/') {
            let tap = shared.recorder.arrived(&request.method, &target, request.head.end_to_end());
            self.refuse(&request, tap, 400, "Bad Request", &not_a_forward_proxy(&request.method, &target))
                .await;
            return Next::Close;
        }
        let Some(route) = shared.upstreams.route(&target) else {
            let tap = shared.recorder.arrived(&request.method, &target, request.head.end_to_end());
            let known: Vec<_> =
                shared.upstreams.iter().map(|upstream| format!("`{}`", upstream.prefix)).collect();
            let message = format!("no upstream takes `{target}`; the prefixes are {}", known.join(", "));
            self.refuse(&request, tap, 404, "Not Found", &message).await;
            return Next::Close;
        };
        let authority = route.upstream.authority();
        let scheme_and_host = route.upstream.origin();
        let url = format!("{scheme_and_host}{}", route.target);
        let tap = shared.recorder.arrived(&request.method, &url, request.head.end_to_end());
        let (upstream, from_upstream) = match self.upstreams.entry(route.index) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(none) => match tokio::select! {
                connected = shared.upstreams.connect(route.upstream) => Some(connected),
                () = until_the_harness_leaves(&mut self.harness, &mut self.from_harness, self.ends) => None,
            } {
                Some(Ok(io)) => none.insert((io, Buffer::new())),
                None => {
                    let whole = self.listen(&request, &tap).await;
                    tap.request_ended(whole, Vec::new());
                    let error = "the harness left before the provider was reached".to_owned();
                    tap.ended(Ending::CutByHarness, Some(error), Vec::new());
                    return Next::Close;
                }
                Some(Err(error)) => {
                    let message = format!("cannot reach {scheme_and_host}: {error}");
                    shared.tally.failed(route.index, &message);
                    self.refuse(&request, tap, 502, "Bad Gateway", &message).await;
                    return Next::Close;
                }
            },
        };
        let head_bytes = request.redirected(&route.target, &authority);
        let exchange = Exchange {
            harness: &mut self.harness,
            from_harness: &mut self.from_harness,
            ends: self.ends,
            upstream,
            from_upstream,
        };
        let outcome = exchange.run(&request, &head_bytes, tap).await;
        if let Outcome::Unanswered(Silence { error, garbage, reset }) = outcome {
            shared.tally.failed(route.index, &error);
            if garbage {
                let _ = self.harness.write_all(&refusal::response(502, "Bad Gateway", &error)).await;
            }
            return if reset { Next::Reset } else { Next::Close };
        }
        shared.tally.answered(route.index);
        match outcome {
            Outcome::Reusable => Next::Request,
            Outcome::Upgraded => {
                shared.recorder.lose("what followed an upgrade to another protocol", "only HTTP is recorded");
                Next::Tunnel(route.index)
            }
            Outcome::Reset => Next::Reset,
            Outcome::Close | Outcome::Unanswered(_) => Next::Close,
        }
    }

    /// Answers in the provider's stead, after the harness has said everything.
    async fn refuse(
        &mut self,
        request: &RequestHead,
        tap: ExchangeTap,
        status: u16,
        reason: &str,
        message: &str,
    ) {
        let whole =
            tokio::time::timeout(LISTEN_TO_THE_END, self.listen(request, &tap)).await.unwrap_or(false);
        tap.request_ended(whole, Vec::new());
        tap.ended(Ending::NoResponse, Some(message.to_owned()), Vec::new());
        tap.is_kept().await;
        let _ = self.harness.write_all(&refusal::response(status, reason, message)).await;
    }

    /// Takes the body of a request that goes nowhere; whether all of it came.
    async fn listen(&mut self, request: &RequestHead, tap: &ExchangeTap) -> bool {
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
            tap.recorder().room().await;
        }
        true
    }

    async fn tunnel(&mut self, index: usize) {
        let Some((mut upstream, from_upstream)) = self.upstreams.remove(&index) else { return };
        let ahead = self.harness.write_all(&from_upstream).await.is_ok()
            && upstream.write_all(&self.from_harness).await.is_ok();
        if ahead {
            // Either side may end it in any way it likes.
            let _ = tokio::io::copy_bidirectional(&mut self.harness, &mut upstream).await;
        }
    }
}

/// Says what to do instead to whoever takes us for a proxy that goes where it is told.
fn not_a_forward_proxy(method: &str, target: &str) -> String {
    let asked = match method {
        "CONNECT" => format!("a tunnel to `{target}`"),
        _ => format!("`{method} {target}`"),
    };
    format!(
        "{asked} was asked for, but this proxy only stands in for its upstreams: unset HTTP_PROXY and \
         HTTPS_PROXY, give the harness this address as its base URL, and ask for paths that begin with `/`"
    )
}

/// Comes back with the provider whose idle connection closes, or says something nobody asked for.
async fn one_closes(upstreams: &mut HashMap<usize, (UpstreamIo, Buffer)>) -> usize {
    let mut byte = [0];
    std::future::poll_fn(|cx| {
        for (&index, (io, _)) in upstreams.iter_mut() {
            // Whatever comes, the connection is of no more use.
            if Pin::new(io).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready() {
                return Poll::Ready(index);
            }
        }
        Poll::Pending
    })
    .await
}
