//! HTTP/2 from the harness is recorded like HTTP/1.1.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::Write as _;

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
