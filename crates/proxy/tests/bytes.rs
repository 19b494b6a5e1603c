//! Bytes arrive unchanged at the other side and on disk.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::Write as _;

use common::*;
use wire::Ending;

/// A request and the body it carries, a response and the body it carries.
struct Case {
    name: &'static str,
    request: Vec<u8>,
    request_body: Vec<u8>,
    response: Vec<u8>,
    response_body: Vec<u8>,
}

fn with_length(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{line}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn chunked(line: &str, headers: &str, pieces: &[&[u8]], end: &str) -> Vec<u8> {
    let mut wire = format!("{line}\r\n{headers}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in pieces {
        wire.extend_from_slice(format!("{:X};note=\"x\"\r\n", piece.len()).as_bytes());
        wire.extend_from_slice(piece);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(end.as_bytes());
    wire
}

const POST: &str = "POST /v1/messages?beta=true HTTP/1.1";
const OK: &str = "HTTP/1.1 200 Fine By Me";

fn cases(host: &str) -> Vec<Case> {
    let host = format!("hOsT: {host}\r\nX-Two: a\r\nx-two:  b \r\n");
    let odd = "{ \"b\" :1e3,\t\"a\":\"\\u00e9\\/\",\n\"a\":0.10, \"a\":[ ] }\r\n ".as_bytes();
    let not_utf8 = b"\x00\xff\xfe{\"half\":\"\xc3\"}\r\n\r\n0\r\n\r\n";
    let stream: &[&[u8]] = &[
        b": a comment\n\nevent: brand_new\ndata: {\"x\":1}\n\n",
        b"data: caf\xc3",
        b"\xa9\r\n\r\nid: 7\rretry: 5\r\r",
    ];
    let all: Vec<u8> = stream.concat();
    let plain = with_length(OK, "Set-This: 1\r\n", b"ok");
    vec![
        Case {
            name: "odd spelling, fixed length",
            request: with_length(POST, &host, odd),
            request_body: odd.to_vec(),
            response: plain.clone(),
            response_body: b"ok".to_vec(),
        },
        Case {
            name: "not UTF-8, in chunks of odd sizes with extensions",
            request: chunked(POST, &host, &[&not_utf8[..1], &not_utf8[1..9], &not_utf8[9..]], "000\r\n\r\n"),
            request_body: not_utf8.to_vec(),
            response: plain.clone(),
            response_body: b"ok".to_vec(),
        },
        Case {
            name: "a stream with comments, unknown events, odd line ends and trailers",
            request: with_length(POST, &host, b"{}"),
            request_body: b"{}".to_vec(),
            response: chunked(
                OK,
                "Content-Type: text/event-stream\r\nTrailer: X-Sum\r\n",
                stream,
                "0\r\nX-Sum: 42\r\n\r\n",
            ),
            response_body: all.clone(),
        },
        Case {
            name: "until the connection closes",
            request: with_length(POST, &host, b"{}"),
            request_body: b"{}".to_vec(),
            response: [format!("{OK}\r\nContent-Type: text/event-stream\r\n\r\n").as_bytes(), &all].concat(),
            response_body: all.clone(),
        },
        Case {
            name: "no body at all, after interim answers",
            request: format!("GET /v1/models HTTP/1.1\r\n{host}\r\n").into_bytes(),
            request_body: Vec::new(),
            response: b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\nX-Odd-Case: y\r\n\r\n".to_vec(),
            response_body: Vec::new(),
        },
        Case {
            name: "an unknown dialect",
            request: with_length("PUT /anything/else HTTP/1.1", &host, b"\x1f\x8bnot really gzip"),
            request_body: b"\x1f\x8bnot really gzip".to_vec(),
            response: with_length("HTTP/1.1 418 I'm a teapot", "", b"<html>"),
            response_body: b"<html>".to_vec(),
        },
    ]
}

#[test]
fn both_sides_and_the_disk_have_the_same_bytes() {
    for at in 0..cases("").len() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let provider = listener.local_addr().unwrap();
        let case = cases(&provider.to_string()).remove(at);
        let (request_length, response) = (case.request.len(), case.response.clone());
        let serving = std::thread::spawn(move || {
            let (mut tcp, _) = listener.accept().unwrap();
            let request = read_exactly(&mut tcp, request_length);
            // In small pieces, so that heads and chunks are split at arbitrary positions.
            response.chunks(7).for_each(|piece| tcp.write_all(piece).unwrap());
            request
        });
        let station = Station::before(provider);
        let mut harness = connect(station.addr);
        case.request.chunks(11).for_each(|piece| harness.write_all(piece).unwrap());
        let received = read_exactly(&mut harness, case.response.len());
        assert_eq!(serving.join().unwrap(), case.request, "{}: at the provider", case.name);
        assert_eq!(received, case.response, "{}: at the harness", case.name);
        assert_eq!(read_to_close(&mut harness), b"", "{}: the provider closed", case.name);
        let opened = station.seal();
        let exchange = opened.only();
        assert_eq!(exchange.ending, Ending::Complete, "{}", case.name);
        assert_eq!(opened.request_body(&exchange), case.request_body, "{}: on disk", case.name);
        assert_eq!(opened.response_body(&exchange), case.response_body, "{}: on disk", case.name);
        let two: Vec<_> =
            exchange.request.headers.iter().filter(|h| h.name().eq_ignore_ascii_case("x-two")).collect();
        let two: Vec<_> = two.iter().map(|header| (header.name(), header.value().unwrap())).collect();
        assert_eq!(two, [("X-Two", "a"), ("x-two", "b")], "{}", case.name);
    }
}

#[test]
fn trailers_and_header_case_are_recorded() {
    let response = chunked(OK, "X-ReQ-Id: 1\r\n", &[b"data: x\n\n"], "0\r\nX-Sum: 42\r\n\r\n");
    let (provider, _) = provider_once(move |mut tcp| {
        read_until(&mut tcp, b"\r\n\r\n");
        tcp.write_all(&response).unwrap();
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    read_to_close(&mut harness);
    let response = station.seal().only().response.unwrap();
    assert_eq!(response.headers[0].name(), "X-ReQ-Id");
    assert_eq!(response.trailers[0].value(), Some("42"));
}

#[test]
fn trailers_of_a_request_reach_the_provider_and_the_disk() {
    let (provider, serving) = provider_once(|mut tcp| {
        let request = read_until(&mut tcp, b"X-Sum: 9\r\n\r\n");
        tcp.write_all(&with_length("HTTP/1.1 200 OK", "", b"ok")).unwrap();
        request
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    let request = chunked("POST / HTTP/1.1", "Host: x\r\n", &[b"body"], "0\r\nX-Sum: 9\r\n\r\n");
    harness.write_all(&request).unwrap();
    read_to_close(&mut harness);
    assert!(serving.join().unwrap().ends_with(b"0\r\nX-Sum: 9\r\n\r\n"));
    let trailers = station.seal().only().request.trailers;
    assert_eq!((trailers[0].name(), trailers[0].value()), ("X-Sum", Some("9")));
}

#[test]
fn an_idle_provider_that_closes_is_connected_to_anew() {
    let lasting = provider(|mut tcp| {
        while !read_until(&mut tcp, b"\r\n\r\n").is_empty() {
            tcp.write_all(&with_length("HTTP/1.1 200 OK", "", b"lasting")).unwrap();
        }
    });
    let brief = provider(|mut tcp| {
        read_until(&mut tcp, b"\r\n\r\n");
        tcp.write_all(&with_length("HTTP/1.1 200 OK", "", b"brief")).unwrap();
    });
    let station = Station::new(&[&format!("/a=http://{lasting}"), &format!("/b=http://{brief}")]);
    let mut harness = connect(station.addr);
    for _ in 0..4 {
        harness.write_all(b"GET /a/x HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        read_until(&mut harness, b"lasting");
        harness.write_all(b"GET /b/x HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(read_until(&mut harness, b"brief").ends_with(b"brief"));
        // The close of the brief connection must have arrived, which nothing on the wire shows.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(harness);
    let endings: Vec<_> = station.seal().exchanges().iter().map(|exchange| exchange.ending).collect();
    assert_eq!(endings, [Ending::Complete; 8]);
}

#[test]
fn one_connection_carries_many_exchanges_and_mirrors_the_providers() {
    let connections = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = connections.clone();
    let provider = provider(move |mut tcp| {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        for n in 0..5 {
            let request = read_until(&mut tcp, b"end");
            assert!(request.starts_with(b"POST /"));
            let body = format!("answer {n}");
            tcp.write_all(&with_length("HTTP/1.1 200 OK", "", body.as_bytes())).unwrap();
        }
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    for n in 0..5 {
        harness.write_all(&with_length("POST /a HTTP/1.1", "Host: x\r\n", b"the end")).unwrap();
        let answer = read_until(&mut harness, format!("answer {n}").as_bytes());
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
    }
    assert_eq!(read_to_close(&mut harness), b"", "the provider closed, so the proxy did");
    let opened = station.seal();
    let answers: Vec<_> = opened.exchanges().iter().map(|exchange| opened.response_body(exchange)).collect();
    assert_eq!(answers, ["answer 0", "answer 1", "answer 2", "answer 3", "answer 4"].map(str::as_bytes));
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn permission_to_send_is_the_providers_to_give() {
    let (provider, serving) = provider_once(|mut tcp| {
        let head = read_until(&mut tcp, b"\r\n\r\n");
        assert!(String::from_utf8(head).unwrap().contains("Expect: 100-continue"));
        tcp.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let body = read_exactly(&mut tcp, 5);
        tcp.write_all(&with_length("HTTP/1.1 200 OK", "", b"thanks")).unwrap();
        body
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        .unwrap();
    assert_eq!(read_exactly(&mut harness, 25), b"HTTP/1.1 100 Continue\r\n\r\n");
    harness.write_all(b"hello").unwrap();
    assert!(read_until(&mut harness, b"thanks").starts_with(b"HTTP/1.1 200"));
    assert_eq!(serving.join().unwrap(), b"hello");
    let opened = station.seal();
    assert_eq!(opened.request_body(&opened.only()), b"hello");
}

#[test]
fn a_hundred_megabytes_both_ways() {
    const SIZE: usize = 100_000_000;
    // A pattern that does not repeat near a chunk border.
    let pattern = |n: usize| b"abcdefghij klmnop\n"[n % 17 + (n / 1_000_003) % 2];
    let body: Vec<u8> = (0..SIZE).map(pattern).collect();
    let sent = body.clone();
    let (provider, serving) = provider_once(move |mut tcp| {
        let mut head = read_until(&mut tcp, b"\r\n\r\n");
        let mut request = head.split_off(head.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4);
        let rest = read_exactly(&mut tcp, SIZE - request.len());
        request.extend_from_slice(&rest);
        let mut response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in request.chunks(70_001) {
            response.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            response.extend_from_slice(piece);
            response.extend_from_slice(b"\r\n");
        }
        response.extend_from_slice(b"0\r\n\r\n");
        tcp.write_all(&response).unwrap();
        (request == sent, response)
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness
        .write_all(&with_length("POST /v1/files HTTP/1.1", "Host: x\r\nConnection: close\r\n", &body))
        .unwrap();
    let received = read_to_close(&mut harness);
    let (same, response) = serving.join().unwrap();
    assert!(same, "the provider got the same bytes");
    assert!(received == response, "the harness got the same bytes");
    let opened = station.seal();
    let exchange = opened.only();
    assert_eq!(opened.sealed.losses, []);
    assert!(opened.request_body(&exchange) == body, "the request is on disk");
    assert!(opened.response_body(&exchange) == body, "the response is on disk");
    let reads = exchange.response.unwrap().reads;
    assert!(reads.len() > 100 && reads.windows(2).all(|pair| pair[0].offset < pair[1].offset));
}

/// The number of headers is limited by the length of a head only.
#[test]
fn thousands_of_headers_are_passed_on_and_recorded() {
    let headers: String = (0..3_000).map(|n| format!("x-{n}: value {n}\r\n")).collect();
    let response = format!("HTTP/1.1 200 OK\r\n{headers}content-length: 2\r\nconnection: close\r\n\r\nok");
    let sent = response.clone();
    let (provider, serving) = provider_once(move |mut tcp| {
        let request = read_until(&mut tcp, b"\r\n\r\n");
        tcp.write_all(sent.as_bytes()).unwrap();
        request
    });
    let station = Station::before(provider);
    let mut harness = connect(station.addr);
    harness.write_all(format!("GET /v1/models HTTP/1.1\r\nhost: x\r\n{headers}\r\n").as_bytes()).unwrap();
    let received = String::from_utf8(read_to_close(&mut harness)).unwrap();
    assert!(received == response, "{}", &received[..received.len().min(200)]);
    let forwarded = String::from_utf8(serving.join().unwrap()).unwrap();
    assert!(forwarded.ends_with(&format!("{headers}\r\n")), "{} bytes", forwarded.len());
    let exchange = station.seal().only();
    assert_eq!(exchange.request.headers.len(), 3_001);
    assert_eq!(exchange.response.unwrap().headers.len(), 3_001);
}
