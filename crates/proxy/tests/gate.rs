//! Requests that wait for admission.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::Write as _;
use std::pin::Pin;
use std::sync::{Arc, mpsc};

use common::*;
use proxy::{GatedRequest, RequestGate};
use session::RequestId;
use wire::Ending;

/// A gate that reports what happens, and admits every request or decides about none.
struct ReportingGate {
    admits: bool,
    events: mpsc::Sender<&'static str>,
}

/// Reports that a decision is not awaited any more.
struct Abandoned(mpsc::Sender<&'static str>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        let _ = self.0.send("abandoned"); // the test may have ended
    }
}

impl RequestGate for ReportingGate {
    fn admit<'a>(
        &'a self,
        _: GatedRequest<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async move {
            self.events.send("asked").unwrap();
            if self.admits {
                return Ok(());
            }
            let _abandoned = Abandoned(self.events.clone());
            std::future::pending().await
        })
    }

    fn not_sent(&self, id: &RequestId) {
        assert_eq!(*id, RequestId::nth(1));
        self.events.send("not sent").unwrap();
    }
}

fn gate(admits: bool) -> (Arc<ReportingGate>, mpsc::Receiver<&'static str>) {
    let (events, received) = mpsc::channel();
    (Arc::new(ReportingGate { admits, events }), received)
}

/// Harnesses send whole conversations, which are longer than what is read ahead of a usual connection.
#[test]
fn a_harness_that_leaves_while_its_request_waits_is_not_forwarded() {
    for length in [2, 300_000] {
        let (gate, events) = gate(false);
        let provider = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let station = Station::gated(&[&format!("http://{}", provider.local_addr().unwrap())], gate);
        let mut harness = connect(station.addr);
        let head = format!("POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        harness.write_all(head.as_bytes()).unwrap();
        harness.write_all(&vec![b'x'; length]).unwrap();
        assert_eq!(events.recv_timeout(PATIENCE), Ok("asked"));
        drop(harness);
        assert_eq!(events.recv_timeout(PATIENCE), Ok("abandoned"), "{length}");
        let opened = station.seal();
        let exchange = opened.only();
        assert_eq!(exchange.ending, Ending::CutByHarness);
        assert_eq!(opened.request_body(&exchange).len(), length);
        let dump = opened.folder.path().join("recording/provider_dumps/r000001_response.json");
        let dump = recording::ResponseDump::read(&std::fs::read(dump).unwrap()).unwrap();
        assert_eq!(dump.error.unwrap(), "the harness left before the request was admitted");
        provider.set_nonblocking(true).unwrap();
        assert!(provider.accept().is_err(), "the provider was never connected");
    }
}

#[test]
fn a_gate_learns_that_an_admitted_request_was_not_sent() {
    let (gate, events) = gate(true);
    let unreachable = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let station = Station::gated(&[&format!("http://{unreachable}")], gate);
    let mut harness = connect(station.addr);
    harness.write_all(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}").unwrap();
    assert!(read_to_close(&mut harness).starts_with(b"HTTP/1.1 502 Bad Gateway"));
    assert_eq!(events.try_iter().collect::<Vec<_>>(), ["asked", "not sent"]);
    assert_eq!(station.seal().only().ending, Ending::NoResponse);
}
