//! Killed at any moment, the recording opens and holds every exchange that had ended.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use common::*;

/// A stream of ten events, each on its own, as the provider sends it and as the recording has it.
fn events() -> Vec<String> {
    (0..10).map(|n| format!("data: {{\"n\":{n},\"text\":\"{}\"}}\n\n", "word ".repeat(40))).collect()
}

fn slow_provider() -> SocketAddr {
    provider(|_, mut tcp| {
        tcp.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )
        .unwrap();
        for event in events() {
            if tcp.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1)); // the pace of a stream, not a wait for something
        }
        let _ = tcp.write_all(b"0\r\n\r\n");
    })
}

fn wait_until(happened: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < until, "it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn whatever_the_moment_nothing_that_ended_is_lost() {
    let upstream = format!("http://{}", slow_provider());
    // The moment is given by how much of the last stream the harness has seen.
    for bytes_seen in [0, 1, 100, 400, 900, 1500, 2100] {
        let env = TestEnv::new();
        let proxy = Proxy::start(&env, &["proxy", "--upstream", &upstream, "--out", "rec"]);
        let addr = proxy.addr;
        let asking: Vec<_> = (0..4)
            .map(|n| {
                std::thread::spawn(move || ask(addr, &post("/v1/messages", "", &format!("request {n}"))))
            })
            .collect();
        asking.into_iter().for_each(|asked| assert!(asked.join().unwrap().ends_with(b"0\r\n\r\n")));
        wait_until(|| {
            env.show("rec")["exchanges"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|e| e["ending"] == "complete")
                .count()
                == 4
        });
        let mut last = TcpStream::connect(addr).unwrap();
        last.set_read_timeout(Some(PATIENCE)).unwrap();
        last.write_all(&post("/v1/messages", "", "the last")).unwrap();
        last.read_exact(&mut vec![0; bytes_seen]).unwrap();
        proxy.kill();

        let shown = env.show("rec");
        assert_eq!(shown["sealed"], false, "killed after {bytes_seen} bytes");
        let text = env.run(&["show", "rec"]).stdout;
        assert!(text.starts_with("unsealed, "), "{text}");
        let exchanges = shown["exchanges"].as_array().unwrap();
        let whole: usize = events().iter().map(String::len).sum();
        let complete = exchanges.iter().filter(|exchange| exchange["ending"] == "complete");
        let complete: Vec<_> =
            complete.map(|exchange| exchange["response_bytes"].as_u64().unwrap()).collect();
        assert!(complete.len() >= 4, "killed after {bytes_seen} bytes: {exchanges:?}");
        assert!(complete.iter().all(|bytes| *bytes == whole as u64));
        // What the log says has ended can be read to the last byte.
        let opened = recording::Recording::open(&env.path("rec")).unwrap();
        let mut asked = Vec::new();
        for exchange in opened.exchanges().map(|exchange| exchange.unwrap()) {
            if exchange.ending == wire::Ending::Complete {
                let response = opened.bytes_of(&exchange.response.unwrap().body).unwrap().unwrap();
                assert_eq!(String::from_utf8(response).unwrap(), events().concat());
                asked.push(opened.bytes_of(&exchange.request.body).unwrap().unwrap());
            }
        }
        (0..4).for_each(|n| assert!(asked.contains(&format!("request {n}").into_bytes())));
    }
}
