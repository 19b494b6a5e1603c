//! Whatever goes wrong is passed on as it is, and recorded as what it is.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::mpsc;

use common::*;
use recording::Recording;
use wire::Ending;

const REQUEST: &[u8] = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n";

/// A provider that answers the request by `serve`; what the harness received, and the recording.
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

#[test]
fn a_stream_that_is_reset() {
    let (received, opened) = after(|mut tcp| {
        tcp.write_all(STREAM).unwrap();
        // The reset must not overtake the bytes.
        std::thread::sleep(std::time::Duration::from_millis(50));
        reset(tcp);
    });
    assert_eq!(received, STREAM);
    assert_eq!(opened.only().ending, Ending::CutByUpstream);
}

#[test]
fn no_answer_at_all() {
    let (received, opened) = after(|tcp| close(&tcp));
    assert_eq!(received, b"", "the connection closed, as it would have without us");
    assert_eq!(opened.only().ending, Ending::NoResponse);
    assert_eq!(opened.request_body(&opened.only()), b"{}");
    assert_eq!(error_of(&opened), "the provider closed the connection without an answer");
}

#[test]
fn an_answer_that_is_not_http() {
    let (received, opened) = after(|mut tcp| tcp.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap());
    let received = String::from_utf8(received).unwrap();
    assert!(received.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{received}");
    assert!(received.contains("the provider's answer is not HTTP"), "{received}");
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
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let station = Station::before(nobody);
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
    assert!(received.contains("no upstream takes `/c`; the prefixes are `/a`, `/b`"), "{received}");
    assert_eq!(station.seal().only().ending, Ending::NoResponse);
}

#[test]
fn whoever_takes_us_for_a_forward_proxy_is_told_what_to_do() {
    for line in ["GET http://api.test/v1/models", "CONNECT api.test:443", "OPTIONS *"] {
        let (provider, _) = provider_once(|_| panic!("nothing goes to the provider"));
        let station = Station::before(provider);
        let mut harness = connect(station.addr);
        harness.write_all(format!("{line} HTTP/1.1\r\nHost: api.test\r\n\r\n").as_bytes()).unwrap();
        let received = String::from_utf8(read_to_close(&mut harness)).unwrap();
        assert!(received.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{received}");
        assert!(received.contains("give the harness this address as its base URL"), "{received}");
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
fn a_harness_that_leaves_closes_the_call_and_keeps_what_came() {
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
        // Long enough for us to take it for gone, if we did.
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
fn what_is_in_flight_at_the_deadline_is_cut_and_kept() {
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
    // A tunnel is not waited for: the harness still holds it.
    let opened = station.seal();
    assert_eq!(opened.only().response.unwrap().status, 101);
    assert_eq!(opened.sealed.losses[0].what, "what followed an upgrade to another protocol");
}

#[test]
fn the_same_address_cannot_be_taken_twice_nor_a_public_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let first = proxy::Capture::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let second = proxy::Capture::bind(first.addr()).await.unwrap_err();
        assert_eq!(second.to_string(), format!("cannot listen on `{}`", first.addr()));
        let public = proxy::Capture::bind("0.0.0.0:0".parse().unwrap()).await.unwrap_err();
        assert_eq!(public.to_string(), "`0.0.0.0:0` is not a loopback address");
    });
}

#[test]
fn an_unsealed_recording_opens_and_says_so() {
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
    let because = "the recorder has not ended it".to_owned();
    assert_eq!(recording.state(), &recording::State::Unsealed { because });
    assert_eq!(recording.exchanges().next().unwrap().unwrap().ending, Ending::Complete);
}
