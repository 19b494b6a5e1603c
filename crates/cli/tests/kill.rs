//! Killed at any moment, the recording opens, says that it is unsealed, and holds what had ended.
//!
//! The bound is one of events: the harness reads the last byte of an answer when the exchange is on the
//! disk. Nothing here depends on how fast the machine is.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::*;
use wire::Ending;

/// A stream of ten events, each on its own, as the provider sends it and as the recording has it.
fn events() -> Vec<String> {
    (0..10).map(|n| format!("data: {{\"n\":{n},\"text\":\"{}\"}}\n\n", "word ".repeat(40))).collect()
}

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const END: &[u8] = b"0\r\n\r\n";

/// A provider whose connections stay open; it takes its time between events where it is `slow`.
fn streaming_provider(slow: bool) -> SocketAddr {
    provider(move |_, mut tcp| {
        tcp.set_nodelay(true).unwrap();
        loop {
            let mut sent = tcp.write_all(HEAD);
            for event in events() {
                sent =
                    sent.and_then(|()| tcp.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()));
                if slow {
                    std::thread::sleep(Duration::from_millis(1)); // the pace of a stream
                }
            }
            if sent.and_then(|()| tcp.write_all(END)).is_err() || read_request(&mut tcp).is_empty() {
                return;
            }
        }
    })
}

/// Sends a request over a connection that stays open, and reads until `end` has come.
fn call(tcp: &mut TcpStream, body: &str, end: &[u8]) -> std::io::Result<()> {
    let head = format!("POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    tcp.write_all((head + body).as_bytes())?;
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !seen.ends_with(end) {
        match tcp.read(&mut buffer)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => seen.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(())
}

fn connect(addr: SocketAddr) -> TcpStream {
    let tcp = TcpStream::connect(addr).unwrap();
    tcp.set_nodelay(true).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp
}

/// Checks the recording of a killed recorder. It has all complete requests, and every exchange that ended can be read to
/// its last byte.
fn left_by_the_dead(env: &TestEnv, when: &str) -> HashSet<String> {
    assert_eq!(env.show("rec")["sealed"], false, "{when}");
    let text = env.run(&["show", "rec"]).stdout;
    assert!(text.starts_with("unsealed, "), "{when}: {text}");
    let opened = recording::Recording::open(&env.path("rec")).unwrap();
    let whole = opened.exchanges().map(|exchange| exchange.unwrap());
    let whole = whole.filter(|exchange| exchange.ending == Ending::Complete);
    whole
        .map(|exchange| {
            let response = opened.bytes_of(&exchange.response.unwrap().body).unwrap().unwrap();
            assert_eq!(String::from_utf8(response).unwrap(), events().concat(), "{when}");
            String::from_utf8(opened.bytes_of(&exchange.request.body).unwrap().unwrap()).unwrap()
        })
        .collect()
}

#[test]
fn in_the_middle_of_a_stream_all_that_ended_is_there() {
    let upstream = format!("http://{}", streaming_provider(true));
    // The moment is given by how much of the last stream the harness has seen.
    for bytes_seen in [0, 1, 100, 400, 900, 1500, 2100] {
        let env = TestEnv::new();
        let proxy = Proxy::start(&env, &["proxy", "--upstream", &upstream, "--out", "rec"]);
        let mut tcp = connect(proxy.addr);
        (0..4).for_each(|n| call(&mut tcp, &format!("request {n}"), END).unwrap());
        let complete = || {
            let shown = env.show("rec");
            shown["exchanges"].as_array().unwrap().iter().filter(|e| e["ending"] == "complete").count()
        };
        let until = Instant::now() + PATIENCE;
        while complete() < 4 {
            assert!(Instant::now() < until, "they never came to the disk");
        }
        let head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nthe last";
        tcp.write_all(head).unwrap();
        tcp.read_exact(&mut vec![0; bytes_seen]).unwrap();
        proxy.kill();
        let left = left_by_the_dead(&env, &format!("killed after {bytes_seen} bytes"));
        (0..4).for_each(|n| assert!(left.contains(&format!("request {n}")), "{n} of {left:?}"));
    }
}

#[test]
fn in_the_instant_of_the_last_byte_the_exchange_is_there() {
    let upstream = format!("http://{}", streaming_provider(false));
    for round in 0..10 {
        let env = TestEnv::in_memory(); // it is the recorder that dies here, not the disk
        let proxy = Proxy::start(&env, &["proxy", "--upstream", &upstream, "--out", "rec"]);
        let mut tcp = connect(proxy.addr);
        // Long enough to be searched for a while.
        let bodies: Vec<String> =
            (0..=round % 3).map(|n| format!("call {n} {}", "word ".repeat(40_000))).collect();
        bodies.iter().for_each(|body| call(&mut tcp, body, END).unwrap());
        proxy.kill();
        let left = left_by_the_dead(&env, &format!("round {round}"));
        let missing = bodies.iter().filter(|body| !left.contains(*body)).count();
        assert_eq!(missing, 0, "round {round}: of {}", bodies.len());
    }
}

/// Calls one after the other until the proxy is gone, and says which have ended.
fn call_until_killed(mut tcp: TcpStream, client: u64, ended: &Mutex<HashSet<String>>) {
    for n in 0.. {
        let body = format!("client {client} call {n}");
        if call(&mut tcp, &body, END).is_err() {
            return;
        }
        ended.lock().unwrap().insert(body);
    }
}

/// A number from a seed: splitmix64.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn at_any_moment_all_that_ended_is_there() {
    let upstream = format!("http://{}", streaming_provider(false));
    let mut seed = 20_261_115;
    for round in 0..12 {
        let env = TestEnv::in_memory(); // it is the recorder that dies here, not the disk
        let proxy = Proxy::start(&env, &["proxy", "--upstream", &upstream, "--out", "rec"]);
        let clients = 1 + random(&mut seed) % 4;
        let delay = Duration::from_micros(random(&mut seed) % 40_000);
        let ended = Arc::new(Mutex::new(HashSet::new()));
        let calling: Vec<_> = (0..clients)
            .map(|client| {
                let (tcp, ended) = (connect(proxy.addr), ended.clone());
                std::thread::spawn(move || call_until_killed(tcp, client, &ended))
            })
            .collect();
        std::thread::sleep(delay); // any moment is as good as any other
        proxy.kill();
        calling.into_iter().for_each(|client| client.join().unwrap());
        let when = format!("round {round}, {clients} clients, killed after {delay:?}");
        let left = left_by_the_dead(&env, &when);
        let missing: Vec<_> = ended.lock().unwrap().difference(&left).cloned().collect();
        assert_eq!(missing, [] as [String; 0], "{when}");
    }
}
