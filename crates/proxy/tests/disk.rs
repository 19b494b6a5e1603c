//! The traffic never waits for a blocked disk, and lost records are reported.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use common::*;
use recording::{Disk, FolderDisk, Loss};
use wire::{Body, Ending};

/// A disk that can be blocked and can be full.
struct Faulty {
    folder: FolderDisk,
    gate: Arc<Gate>,
    room: Arc<Mutex<u64>>,
}

#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.changed.wait(open).unwrap();
        }
    }
}

impl Faulty {
    fn take(&self, bytes: &[u8]) -> io::Result<()> {
        self.gate.pass();
        let mut room = self.room.lock().unwrap();
        match room.checked_sub(bytes.len() as u64) {
            Some(left) => {
                *room = left;
                Ok(())
            }
            None => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }
}

impl Disk for Faulty {
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.take(bytes)?;
        self.folder.append(name, bytes)
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.take(bytes)?;
        self.folder.write(name, bytes)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }
}

/// Answers each request with this number of bytes.
fn generous_provider(bytes: usize) -> std::net::SocketAddr {
    let answer: Vec<u8> = (0..bytes).map(|n| b'a' + (n % 23) as u8).collect();
    provider(move |mut tcp| {
        read_until(&mut tcp, b"end");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n");
        tcp.write_all(head.as_bytes()).unwrap();
        tcp.write_all(&answer).unwrap();
    })
}

/// Runs clients at once, each with its own connection. Returns the number of bytes that each received.
fn clients(station: &Station, count: usize) -> Vec<usize> {
    let addr = station.addr;
    let ask = move |n: usize| {
        let mut harness = connect(addr);
        let body = format!("client {n} {} end", "x".repeat(1000));
        let head = format!("POST /v1/{n} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        harness.write_all((head + &body).as_bytes()).unwrap();
        let start = read_until(&mut harness, b"\r\n\r\n");
        let head = start.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        // Counted and not stored, because the test measures the memory of this process.
        start.len() - head + io::copy(&mut harness, &mut io::sink()).unwrap() as usize
    };
    let threads: Vec<_> = (0..count).map(|n| std::thread::spawn(move || ask(n))).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn station(provider: std::net::SocketAddr, gate: &Arc<Gate>, room: &Arc<Mutex<u64>>) -> Station {
    let (gate, room) = (gate.clone(), room.clone());
    Station::with_disk(&[&format!("http://{provider}")], move |dir: &Path| {
        Box::new(Faulty { folder: FolderDisk::new(dir), gate, room })
    })
}

#[test]
fn sixty_four_clients_finish_while_the_disk_is_blocked() {
    const ANSWER: usize = 4 << 20;
    let gate = Arc::new(Gate::default());
    let station = station(generous_provider(ANSWER), &gate, &Arc::new(Mutex::new(u64::MAX)));
    let before = resident_bytes();
    assert_eq!(clients(&station, 64), [ANSWER; 64], "all of them finished, and the gate is still shut");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 120 << 20, "256 MiB went by and {} MiB stayed", grown >> 20);
    gate.open();
    let opened = station.seal();
    let exchanges = opened.exchanges();
    assert_eq!(exchanges.len(), 64);
    for exchange in &exchanges {
        assert_eq!(exchange.ending, Ending::Complete);
        let kept = exchange.response.as_ref().unwrap().body != Body::Missing;
        let named = opened.sealed.losses.iter().any(|loss| {
            loss.request_id.as_deref() == Some(exchange.id.as_str()) && loss.what == "response body"
        });
        assert!(kept != named, "{}: kept {kept}, named as lost {named}", exchange.id);
        if kept {
            assert_eq!(opened.response_body(exchange).len(), ANSWER);
        }
    }
    let losses = &opened.sealed.losses;
    let expected = |loss: &Loss| {
        loss.reason == "the disk was too slow: 16 MiB were waiting for it"
            && (loss.what.as_str(), loss.bytes) == ("response body", ANSWER as u64)
    };
    assert!(!losses.is_empty(), "the queue was to be too small");
    assert_eq!(losses.iter().filter(|loss| !expected(loss)).collect::<Vec<_>>(), [] as [&Loss; 0]);
}

#[test]
fn a_full_disk_affects_only_the_recording() {
    const ANSWER: usize = 40_000;
    let gate = Arc::new(Gate::default());
    gate.open();
    let room = Arc::new(Mutex::new(300_000));
    let station = station(generous_provider(ANSWER), &gate, &room);
    assert_eq!(clients(&station, 16), [ANSWER; 16]);
    let opened = station.seal();
    let lost = &opened.sealed.losses;
    assert!(lost.iter().all(|loss| loss.reason == "no storage space"), "{lost:?}");
    let named = |id: &str, what: &str| {
        lost.iter().any(|loss| loss.request_id.as_deref() == Some(id) && loss.what == what)
    };
    let mut missing = 0;
    for n in 1..=16 {
        let id = format!("r{n:06}");
        let exchange = opened.exchanges().into_iter().find(|exchange| exchange.id.as_str() == id);
        let Some(exchange) = exchange else {
            assert!(named(&id, "record of it"), "{id} is not there and not named");
            missing += 1;
            continue;
        };
        let response = exchange.response.as_ref().map(|response| &response.body);
        match response {
            Some(Body::Inline(body)) => assert_eq!(body.len(), ANSWER),
            _ => {
                missing += 1;
                assert!(
                    named(&id, "response body") || named(&id, "record of it"),
                    "{id}: {response:?} {lost:?}"
                );
            }
        }
    }
    assert!(missing > 0, "the disk was to be too small");
    assert!(opened.recording.torn_bytes() == 0, "the log stays readable");
}

#[test]
fn a_disk_that_has_room_again_is_used_again() {
    let gate = Arc::new(Gate::default());
    gate.open();
    let room = Arc::new(Mutex::new(u64::MAX));
    let station = station(generous_provider(1000), &gate, &room);
    clients(&station, 1);
    // Wait until the disk has the first exchange.
    let dump = station.dir().join("provider_dumps/r000001_response.json");
    let log = station.dir().join("exchanges.log");
    let ended = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains(r#""type":"ended""#));
    wait_until(|| dump.exists() && ended());
    let full = std::mem::replace(&mut *room.lock().unwrap(), 0);
    clients(&station, 1);
    // Its four records: arrived, asked, answered, ended.
    let records = || station.recorder.losses().iter().filter(|loss| loss.what == "record of it").count();
    wait_until(|| records() == 4);
    *room.lock().unwrap() = full;
    clients(&station, 1);
    let opened = station.seal();
    let ids: Vec<_> = opened.exchanges().iter().map(|exchange| exchange.id.to_string()).collect();
    assert_eq!(ids, ["r000001", "r000003"]);
    let lost: Vec<_> = opened.sealed.losses.iter().map(|loss| loss.request_id.as_deref()).collect();
    assert!(!lost.is_empty() && lost.iter().all(|id| *id == Some("r000002")));
}

#[test]
fn a_body_that_unpacks_to_too_much_is_not_kept_and_named() {
    let bomb = wire::encoding::encode("gzip", &vec![b'a'; 65 << 20]).unwrap();
    let length = bomb.len();
    let provider = provider(move |mut tcp| {
        read_until(&mut tcp, b"end");
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        tcp.write_all(head.as_bytes()).unwrap();
        tcp.write_all(&bomb).unwrap();
    });
    let station = Station::before(provider);
    assert_eq!(clients(&station, 1), [length]);
    let opened = station.seal();
    let loss = &opened.sealed.losses[0];
    assert_eq!((loss.what.as_str(), loss.bytes), ("response body", length as u64));
    assert!(loss.reason.contains("cannot be searched for secrets"), "{loss}");
    assert_eq!(opened.only().response.unwrap().body, Body::Missing);
}

/// A blob is named after its digest, but a failed write does not imply that the next blob with the same bytes fails.
#[test]
fn a_packed_body_that_the_disk_refused_is_kept_when_it_comes_again() {
    let noise: Vec<u8> = (0..2_000_000u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    let packed = [b"\x28\xb5\x2f\xfd", &noise[..]].concat();
    let length = packed.len();
    let answer = packed.clone();
    let provider = provider(move |mut tcp| {
        read_until(&mut tcp, b"end");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        tcp.write_all(head.as_bytes()).unwrap();
        tcp.write_all(&answer).unwrap();
    });
    let gate = Arc::new(Gate::default());
    gate.open();
    let room = Arc::new(Mutex::new(1_000_000));
    let station = station(provider, &gate, &room);
    assert_eq!(clients(&station, 1), [length]);
    wait_until(|| !station.recorder.losses().is_empty());
    *room.lock().unwrap() = u64::MAX;
    assert_eq!((clients(&station, 1), clients(&station, 1)), (vec![length], vec![length]));
    let opened = station.seal();
    let lost: Vec<_> = opened.sealed.losses.iter().map(|loss| loss.request_id.as_deref()).collect();
    assert_eq!(lost, [Some("r000001")]);
    for exchange in &opened.exchanges()[1..] {
        assert_eq!(opened.response_body(exchange), packed, "{}", exchange.id);
    }
}
