//! Failures are passed on unchanged and recorded as what they are.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;

use common::*;
use recording::Recording;
use wire::Ending;

const REQUEST: &[u8] = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n";

/// Sends a request to a provider that answers with `serve`. Returns what the harness received, and the recording.
fn after(serve: impl FnOnce(TcpStream) + Send + 'static) -> (Vec<u8>, Opened) {
    let (provider, _) = provider_once(move |mut tcp| {
        read_until(&mut tcp, b"{}");
        serve(tcp);
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(REQUEST).unwrap();
    let received = read_to_close(&mut harness);
    (received, station.seal())
}

fn error_of(opened: &Opened) -> String {
    let dump = opened.folder.path().join("recording/provider_dumps/r000001_response.json");
    let dump = recording::ResponseDump::read(&std::fs::read(dump).unwrap()).unwrap();
    dump.error.unwrap_or_default()
}

#[test]
fn a_stream_that_stops_in_the_middle() {
    let (received, opened) = after(|mut tcp| tcp.write_all(STREAM).unwrap());
    assert_eq!(received, STREAM, "what came was passed on, and no end was made up");
    let exchange = opened.only();
    assert_eq!(exchange.ending, Ending::CutByUpstream);
    assert_eq!(opened.response_body(&exchange), b"data: a\n\n");
    assert_eq!(error_of(&opened), "the provider closed the connection in the middle");
}

/// Without the proxy, the harness would have read an error, not an end.
#[test]
fn a_reset_is_passed_on_as_one() {
    const UNTIL_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\n\r\ndata: a\n\n";
    for (answer, ending) in [
        (STREAM, Ending::CutByUpstream),
        (UNTIL_CLOSE, Ending::CutByUpstream),
        (b"HTTP/1.1 2".as_slice(), Ending::NoResponse),
        (b"", Ending::NoResponse),
    ] {
        let (provider, _) = provider_once(move |mut tcp| {
            read_until(&mut tcp, b"{}");
            tcp.write_all(answer).unwrap();
            // The reset must not overtake the bytes.
            std::thread::sleep(std::time::Duration::from_millis(50));
            reset(tcp);
        });
        let station = Station::before(provider);
        let mut harness = connect(station.addr);
        harness.write_all(REQUEST).unwrap();
        let mut received = Vec::new();
        let error = harness.read_to_end(&mut received).expect_err("no end as if all were well");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let expected = if ending == Ending::NoResponse { b"" } else { answer };
        assert_eq!(received, expected, "what came was passed on");
        assert_eq!(station.seal().only().ending, ending);
    }
}

#[test]
fn no_answer_at_all() {
    let (received, opened) = after(|tcp| close(&tcp));
    assert_eq!(received, b"", "the connection closed, as it would have without us");
    assert_eq!(opened.only().ending, Ending::NoResponse);
    assert_eq!(opened.request_body(&opened.only()), b"{}");
    assert_eq!(error_of(&opened), "the provider closed the connection without a response");
}

#[test]
fn an_answer_that_is_not_http() {
    let (received, opened) = after(|mut tcp| tcp.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap());
    let received = String::from_utf8(received).unwrap();
    assert!(received.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{received}");
    assert!(received.contains("the provider's response is not HTTP"), "{received}");
    assert_eq!(opened.only().ending, Ending::NoResponse);
}

#[test]
fn broken_chunks_end_the_answer_there() {
    let (received, opened) = after(|mut tcp| {
        tcp.write_all(STREAM).unwrap();
        tcp.write_all(b"oops\r\n").unwrap();
        read_to_close(&mut tcp);
    });
    assert!(received.starts_with(STREAM));
    assert_eq!(opened.only().ending, Ending::CutByUpstream);
    assert_eq!(error_of(&opened), "a chunked body with a broken size");
}

#[test]
fn a_provider_that_is_not_there() {
    let unreachable = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let station = Station::before(unreachable);
    let mut harness = connect(station.addr);
    harness.write_all(REQUEST).unwrap();
    let received = String::from_utf8(read_to_close(&mut harness)).unwrap();
    assert!(received.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{received}");
    let stopped = station.stop();
    assert_eq!(stopped.reach[0].answered, 0);
    assert!(stopped.reach[0].last_error.as_deref().unwrap().contains("cannot reach http://127.0.0.1:"));
    let opened = stopped.seal();
    assert_eq!(opened.only().ending, Ending::NoResponse);
    assert_eq!(opened.request_body(&opened.only()), b"{}", "what was asked is kept all the same");
}

#[test]
fn a_path_that_no_upstream_takes() {
    let station = Station::new(&["/a=http://127.0.0.1:1", "/b=http://127.0.0.1:1"]);
    let mut harness = connect(station.addr);
    harness.write_all(b"GET /c HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let received = String::from_utf8(read_to_close(&mut harness)).unwrap();
    assert!(received.contains("no upstream for `/c`; the prefixes are `/a`, `/b`"), "{received}");
    assert_eq!(station.seal().only().ending, Ending::NoResponse);
}

#[test]
fn a_client_that_uses_it_as_a_forward_proxy_gets_an_explanation() {
    for line in ["GET http://api.test/v1/models", "CONNECT api.test:443", "OPTIONS *"] {
        let (provider, _) = provider_once(|_| panic!("nothing goes to the provider"));
        let station = Station::before(provider);
        let mut harness = connect(station.addr);
        harness.write_all(format!("{line} HTTP/1.1\r\nHost: api.test\r\n\r\n").as_bytes()).unwrap();
        let received = String::from_utf8(read_to_close(&mut harness)).unwrap();
        assert!(received.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{received}");
        assert!(received.contains("use this address as the harness's base URL"), "{received}");
        assert_eq!(station.seal().only().ending, Ending::NoResponse);
    }
}

#[test]
fn a_request_that_is_not_http_gets_an_answer() {
    let station = Station::new(&["http://127.0.0.1:1"]);
    let mut harness = connect(station.addr);
    harness.write_all(b"\x16\x03\x01 hello\r\n\r\n").unwrap();
    assert!(read_to_close(&mut harness).starts_with(b"HTTP/1.1 400 Bad Request"));
    assert!(station.seal().recording.is_empty());
}

#[test]
fn a_disconnected_harness_closes_the_call_and_keeps_the_bytes() {
    let (left, harness_left) = mpsc::channel();
    let (provider, serving) = provider_once(move |mut tcp| {
        read_until(&mut tcp, b"{}");
        tcp.write_all(STREAM).unwrap();
        harness_left.recv().unwrap();
        read_to_close(&mut tcp).len()
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(REQUEST).unwrap();
    assert_eq!(read_exactly(&mut harness, STREAM.len()), STREAM);
    drop(harness);
    left.send(()).unwrap();
    assert_eq!(serving.join().unwrap(), 0, "the provider saw the connection close");
    let opened = station.seal();
    let exchange = opened.only();
    assert_eq!(exchange.ending, Ending::CutByHarness);
    assert_eq!(opened.response_body(&exchange), b"data: a\n\n");
}

#[test]
fn a_harness_that_only_stops_sending_gets_its_answer() {
    let (provider, _) = provider_once(|mut tcp| {
        read_until(&mut tcp, b"{}");
        tcp.write_all(STREAM).unwrap();
        // Long enough for the proxy to notice an end.
        std::thread::sleep(std::time::Duration::from_millis(300));
        tcp.write_all(b"0\r\n\r\n").unwrap();
        read_to_close(&mut tcp);
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(REQUEST).unwrap();
    harness.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_to_close(&mut harness), [STREAM, b"0\r\n\r\n"].concat());
    let opened = station.seal();
    assert_eq!(opened.only().ending, Ending::Complete);
    assert_eq!(opened.response_body(&opened.only()), b"data: a\n\n");
}

#[test]
fn a_harness_that_only_listened_and_leaves_closes_the_call() {
    let (provider, serving) = provider_once(|mut tcp| {
        read_until(&mut tcp, b"{}");
        tcp.write_all(STREAM).unwrap();
        read_to_close(&mut tcp).len()
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(REQUEST).unwrap();
    harness.shutdown(std::net::Shutdown::Write).unwrap();
    read_exactly(&mut harness, STREAM.len());
    drop(harness);
    assert_eq!(serving.join().unwrap(), 0, "the provider saw the connection close");
    assert_eq!(station.seal().only().ending, Ending::CutByHarness);
}

#[test]
fn a_harness_that_leaves_in_the_middle_of_its_request() {
    let (provider, serving) = provider_once(|mut tcp| read_to_close(&mut tcp));
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
    drop(harness);
    assert!(serving.join().unwrap().ends_with(b"half"));
    let opened = station.seal();
    let exchange = opened.only();
    assert_eq!(exchange.ending, Ending::CutByHarness);
    assert_eq!(opened.request_body(&exchange), b"half");
}

#[test]
fn a_harness_that_leaves_while_the_provider_is_not_reached() {
    // The kernel accepts connections, and no TLS handshake follows.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for (request, body) in [(REQUEST, b"{}".as_slice()), (&REQUEST[..REQUEST.len() - 1], b"{")] {
        let station = Station::new(&[&format!("https://{}", silent.local_addr().unwrap())]);
        let mut harness = connect(station.addr);
        harness.write_all(request).unwrap();
        let (tcp, _) = silent.accept().unwrap();
        drop(harness);
        read_to_close(&mut { tcp });
        let opened = station.seal();
        assert_eq!(opened.only().ending, Ending::CutByHarness);
        assert_eq!(error_of(&opened), "the harness left before the provider was connected");
        assert_eq!(opened.request_body(&opened.only()), body);
    }
}

/// A provider may refuse early and still read everything. The request is recorded in full.
#[test]
fn an_early_answer_does_not_cut_the_request() {
    const ANSWER: &[u8] = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";
    const LENGTH: usize = 8 << 20;
    let (provider, serving) = provider_once(|mut tcp| {
        let head = read_until(&mut tcp, b"\r\n\r\n");
        tcp.write_all(ANSWER).unwrap();
        let body = head.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        read_exactly(&mut tcp, LENGTH - (head.len() - body));
        read_until(&mut tcp, b"{}");
        tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        read_to_close(&mut tcp);
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness
        .write_all(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {LENGTH}\r\n\r\n").as_bytes())
        .unwrap();
    assert_eq!(read_exactly(&mut harness, ANSWER.len()), ANSWER);
    harness.write_all(&vec![b'x'; LENGTH]).unwrap();
    harness.write_all(REQUEST).unwrap();
    assert!(read_until(&mut harness, b"ok").ends_with(b"ok"), "the connection is still of use");
    drop(harness);
    serving.join().unwrap();
    let opened = station.seal();
    let exchanges = opened.exchanges();
    assert_eq!(opened.request_body(&exchanges[0]).len(), LENGTH);
    assert!(exchanges.iter().all(|exchange| exchange.ending == Ending::Complete));
}

/// The proxy does not wait for the rest of a request that cannot be passed on.
#[test]
fn after_an_early_answer_either_side_ends_the_exchange() {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf";
    const ASKS: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n";
    const ANSWER: &[u8] = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";
    for (request, provider_closes) in [(HEAD, true), (HEAD, false), (ASKS, false)] {
        let (provider, serving) = provider_once(move |mut tcp| {
            read_until(&mut tcp, &request[request.len() - 4..]);
            tcp.write_all(ANSWER).unwrap();
            if !provider_closes {
                read_to_close(&mut tcp);
            }
        });
        let begun = std::time::Instant::now();
        let station = Station::before(provider);
        let mut harness = connect(station.addr);
        harness.write_all(request).unwrap();
        assert_eq!(read_exactly(&mut harness, ANSWER.len()), ANSWER);
        if !provider_closes && request == HEAD {
            drop(harness);
        } else {
            assert_eq!(read_to_close(&mut harness), b"");
        }
        serving.join().unwrap();
        assert_eq!(station.seal().only().ending, Ending::Complete);
        assert!(begun.elapsed().as_secs() < 20, "the proxy did not wait for the rest");
    }
}

#[test]
fn open_exchanges_are_cut_and_kept_at_the_deadline() {
    let (provider, _) = provider_once(|mut tcp| {
        read_until(&mut tcp, b"{}");
        tcp.write_all(STREAM).unwrap();
        read_to_close(&mut tcp);
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(REQUEST).unwrap();
    read_exactly(&mut harness, STREAM.len());
    let opened = station.stop_within(std::time::Duration::from_millis(50)).seal();
    assert_eq!(opened.only().ending, Ending::CutByHarness);
    assert_eq!(opened.response_body(&opened.only()), b"data: a\n\n");
}

#[test]
fn another_protocol_passes_through_and_is_named_as_not_kept() {
    let (provider, _) = provider_once(|mut tcp| {
        read_until(&mut tcp, b"\r\n\r\n");
        tcp.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nhello").unwrap();
        assert_eq!(read_exactly(&mut tcp, 4), b"ping");
        tcp.write_all(b"pong").unwrap();
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        .unwrap();
    read_until(&mut harness, b"hello");
    harness.write_all(b"ping").unwrap();
    assert_eq!(read_to_close(&mut harness), b"pong");
    // Stopping does not wait for a tunnel that the harness still holds.
    let opened = station.seal();
    assert_eq!(opened.only().response.unwrap().status, 101);
    assert_eq!(opened.sealed.losses[0].what, "what followed an upgrade to another protocol");
}

#[test]
fn the_same_address_cannot_be_taken_twice_nor_a_public_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let first = proxy::RecordingProxy::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let second = proxy::RecordingProxy::bind(first.addr()).await.unwrap_err();
        assert_eq!(second.to_string(), format!("cannot listen on `{}`", first.addr()));
        let public = proxy::RecordingProxy::bind("0.0.0.0:0".parse().unwrap()).await.unwrap_err();
        assert_eq!(public.to_string(), "`0.0.0.0:0` is not a loopback address");
    });
}

#[test]
fn an_unsealed_recording_opens_with_its_reason() {
    let (provider, _) = provider_once(|mut tcp| {
        read_until(&mut tcp, b"{}");
        tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(REQUEST).unwrap();
    read_to_close(&mut harness);
    let stopped = station.stop();
    let recording = Recording::open(&stopped.dir()).unwrap();
    let because = "the recorder did not finish it".to_owned();
    assert_eq!(recording.state(), &recording::SealState::Unsealed { because });
    assert_eq!(recording.exchanges().next().unwrap().unwrap().ending, Ending::Complete);
}

/// An exchange that the harness has seen end is on the disk, whatever its ending.
#[test]
fn an_ended_exchange_is_stored_before_the_harness_sees_the_end() {
    let cases: [(&str, &[u8]); 4] = [
        ("whole", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ("cut", STREAM),
        ("nothing", b""),
        ("garbage", b"what is this\r\n\r\n"),
    ];
    for (case, said) in cases.into_iter().cycle().take(12) {
        let (provider, _) = provider_once(move |mut tcp| {
            read_until(&mut tcp, b"{}");
            tcp.write_all(said).unwrap();
        });
        kept_at_its_end(case, &Station::before(provider), REQUEST);
    }
    for _ in 0..3 {
        let unreachable = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        kept_at_its_end("unreachable", &Station::before(unreachable), REQUEST);
        let station = Station::new(&["/a=http://127.0.0.1:1", "/b=http://127.0.0.1:1"]);
        kept_at_its_end("no prefix", &station, b"GET /c HTTP/1.1\r\nHost: x\r\n\r\n");
    }
}

fn kept_at_its_end(case: &str, station: &Station, request: &[u8]) {
    let mut harness = connect(station.addr);
    harness.write_all(request).unwrap();
    harness.shutdown(std::net::Shutdown::Write).unwrap();
    read_to_close(&mut harness);
    let log = std::fs::read_to_string(station.dir().join("exchanges.log")).unwrap();
    assert!(log.contains(r#""type":"ended""#), "{case}: {log}");
}

/// `docs/design/pipelined-requests.md` explains why they are not forwarded at once.
#[test]
fn pipelined_requests_are_forwarded_one_after_the_other() {
    let (provider, serving) = provider_once(|mut tcp| {
        let first = read_until(&mut tcp, b"{}");
        tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none").unwrap();
        let second = read_until(&mut tcp, b"{}");
        tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\ntwo").unwrap();
        [first, second].map(|request| request.windows(4).filter(|window| window == b"POST").count())
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(&[REQUEST, REQUEST].concat()).unwrap();
    let received = String::from_utf8(read_to_close(&mut harness)).unwrap();
    assert!(received.contains("one") && received.ends_with("two"), "{received}");
    assert_eq!(serving.join().unwrap(), [1, 1]);
    let opened = station.seal();
    assert_eq!(opened.exchanges().len(), 2);
    assert_eq!(opened.sealed.losses.len(), 0);
}

#[test]
fn a_pipelined_request_that_was_not_forwarded_is_reported_as_lost() {
    let (provider, _) = provider_once(|mut tcp| {
        read_until(&mut tcp, b"{}");
        tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\none").unwrap();
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(&[REQUEST, b"\r\n", REQUEST].concat()).unwrap();
    assert!(read_to_close(&mut harness).ends_with(b"one"));
    let opened = station.seal();
    assert_eq!(opened.only().ending, Ending::Complete);
    let lost: Vec<_> = opened.sealed.losses.iter().map(|loss| loss.what.as_str()).collect();
    assert_eq!(lost, ["a pipelined request that was not forwarded"]);
}
