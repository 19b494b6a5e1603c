//! HTTP/2 from the harness is recorded like HTTP/1.1.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::future::poll_fn;
use std::io::Write as _;
use std::net::SocketAddr;

use common::*;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use wire::Ending;

#[test]
fn streams_of_one_connection_are_exchanges_of_their_own() {
    let provider = provider(|mut tcp| {
        let request = String::from_utf8(read_until(&mut tcp, b"end")).unwrap();
        let line = request.lines().next().unwrap().to_owned();
        let body = format!("data: {line}\n\n");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        tcp.write_all(format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes()).unwrap();
        read_to_close(&mut tcp);
    });
    let station = Station::before(provider);
    let addr = station.addr;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tcp = tokio::net::TcpStream::connect(addr).await.unwrap();
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tcp)).await.unwrap();
        tokio::spawn(connection);
        let asking = (0..4).map(|n| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let request = http::Request::post(format!("http://{addr}/v1/{n}"))
                    .header("x-test", n)
                    .body(Full::new(Bytes::from(format!("body {n} end"))))
                    .unwrap();
                let response = sender.send_request(request).await.unwrap();
                assert_eq!(response.status(), 200);
                let body = response.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(body, format!("data: POST /v1/{n} HTTP/1.1\n\n"));
            })
        });
        for asked in asking.collect::<Vec<_>>() {
            asked.await.unwrap();
        }
    });
    let opened = station.seal();
    let exchanges = opened.exchanges();
    let mut bodies: Vec<_> = exchanges.iter().map(|exchange| opened.request_body(exchange)).collect();
    bodies.sort();
    assert_eq!(bodies, ["body 0 end", "body 1 end", "body 2 end", "body 3 end"].map(str::as_bytes));
    assert!(exchanges.iter().all(|exchange| exchange.ending == Ending::Complete));
}

/// The behaviour of a harness on one stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sends {
    /// Sends everything at once, followed by a trailer.
    All,
    /// Sends the body after `100 Continue`.
    WhenAllowed,
    /// Sends the body after the response.
    Late,
    /// Leaves after the first bytes of the response.
    Leaves,
}

/// Sends one request with cookies in two fields. Returns the interim responses, and the response with its ending.
async fn ask(addr: SocketAddr, sends: Sends) -> (Vec<u16>, String) {
    let tcp = tokio::net::TcpStream::connect(addr).await.unwrap();
    let (mut client, connection) = h2::client::handshake(tcp).await.unwrap();
    tokio::spawn(connection);
    let mut request =
        http::Request::post(format!("http://{addr}/v1")).header("cookie", "a=1").header("cookie", "b=2");
    if sends == Sends::WhenAllowed {
        request = request.header("expect", "100-continue");
    }
    let (mut answering, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let mut interim = Vec::new();
    let send = |body: &mut h2::SendStream<Bytes>| {
        body.send_data("{}".into(), false).unwrap();
        body.send_trailers([("x-sum".parse().unwrap(), "7".parse().unwrap())].into_iter().collect()).unwrap();
    };
    if !matches!(sends, Sends::WhenAllowed | Sends::Late) {
        send(&mut body);
    }
    while let Some(Ok(response)) = poll_fn(|cx| answering.poll_informational(cx)).await {
        interim.push(response.status().as_u16());
        if response.status() == 100 {
            send(&mut body);
        }
    }
    let response = match answering.await {
        Ok(response) => response,
        Err(error) => return (interim, error.to_string()),
    };
    let mut said = response.status().as_u16().to_string();
    let mut answer = response.into_body();
    while let Some(data) = answer.data().await {
        match data {
            Ok(data) if data.is_empty() => {}
            Ok(data) => said.push_str(&format!(" {}", String::from_utf8_lossy(&data))),
            Err(error) => return (interim, format!("{said} {error}")),
        }
        if sends == Sends::Leaves {
            body.send_reset(h2::Reason::CANCEL);
            return (interim, said);
        }
    }
    if sends == Sends::Late {
        send(&mut body);
    }
    for (name, value) in answer.trailers().await.unwrap().unwrap_or_default() {
        said.push_str(&format!(" {}={}", name.unwrap(), value.to_str().unwrap()));
    }
    (interim, said)
}

#[test]
fn features_of_one_protocol_are_translated() {
    const WHOLE: &str =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-End: 1\r\n\r\n";
    let hints = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n{WHOLE}");
    let half = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n";
    let broken = "stream error received: unexpected internal error encountered";
    for (sends, answer, breaks, expected, ending) in [
        (Sends::All, WHOLE, false, (vec![], "200 ok x-end=1".to_owned()), Ending::Complete),
        (Sends::All, &hints, false, (vec![103], "200 ok x-end=1".to_owned()), Ending::Complete),
        (Sends::WhenAllowed, WHOLE, false, (vec![100], "200 ok x-end=1".to_owned()), Ending::Complete),
        (Sends::WhenAllowed, &hints, false, (vec![100, 103], "200 ok x-end=1".to_owned()), Ending::Complete),
        (Sends::All, "HTTP/1.1 200 OK\r\n\r\nok", false, (vec![], "200 ok".to_owned()), Ending::Complete),
        (
            Sends::All,
            "HTTP/1.1 200 OK\r\n\r\nok",
            true,
            (vec![], format!("200 ok {broken}")),
            Ending::CutByUpstream,
        ),
        (Sends::All, half, false, (vec![], format!("200 ok {broken}")), Ending::CutByUpstream),
        (Sends::All, "", false, (vec![], broken.to_owned()), Ending::NoResponse),
        (Sends::Late, WHOLE, false, (vec![], "200 ok x-end=1".to_owned()), Ending::Complete),
        (Sends::Leaves, half, false, (vec![], "200 ok".to_owned()), Ending::CutByHarness),
    ] {
        let answer = answer.to_owned();
        let (provider, serving) = provider_once(move |mut tcp| {
            let mut request = Vec::new();
            if sends == Sends::Late {
                request = read_until(&mut tcp, b"\r\n\r\n");
                tcp.write_all(answer.as_bytes()).unwrap();
            }
            request.extend(read_until(&mut tcp, b"\r\n0\r\nx-sum: 7\r\n\r\n"));
            let request = String::from_utf8(request).unwrap();
            if sends != Sends::Late {
                tcp.write_all(answer.as_bytes()).unwrap();
            }
            if sends == Sends::Leaves {
                read_to_close(&mut tcp);
            } else if breaks {
                std::thread::sleep(std::time::Duration::from_millis(50));
                reset(tcp);
            }
            request
        });
        let station = Station::before(provider);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let asking = async { tokio::time::timeout(PATIENCE, ask(station.addr, sends)).await };
        let found = runtime.block_on(asking).expect("no request hangs");
        assert_eq!(found, expected, "{sends:?}");
        let request = serving.join().unwrap();
        drop(runtime);
        assert!(request.contains("\r\ncookie: a=1; b=2\r\n"), "{request}");
        assert!(!request.contains("expect"), "{request}");
        let opened = station.seal();
        assert_eq!(opened.only().ending, ending, "{sends:?}");
        assert_eq!(opened.request_body(&opened.only()), b"{}");
    }
}
