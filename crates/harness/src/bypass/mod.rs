//! Detects, names and refuses calls that bypass the proxy.
//!
//! Harnesses get a proxy for other hosts, which answers every request with 403. In a sealed network, a
//! program that ignores this proxy is seen by the name that it looks up, or at the port that it connects to.

mod dns;
mod first_bytes;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use recording::{BypassEvidence, ProxyBypass};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use crate::supervisor::NamespaceSockets;

/// Time in which a connection must name its destination.
const DESTINATION_TIMEOUT: Duration = Duration::from_secs(5);
/// More than the head of any request or ClientHello.
const MAX_FIRST_BYTES: usize = 64 << 10;
const REFUSAL: &[u8] =
    b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\ncontent-length: 46\r\nconnection: close\r\n\r\nthis harness is being recorded without network";

/// Monitors all ways out except the recording proxy.
#[derive(Debug)]
pub(crate) struct BypassMonitor {
    seen: Arc<BypassLog>,
    /// The address of the proxy that refuses.
    pub(crate) refuser: SocketAddr,
    _watching: JoinSet<()>,
}

/// First time and count of each call, by host, port and way of detection.
#[derive(Debug, Default)]
struct BypassLog(Mutex<BTreeMap<BypassKey, (SystemTime, u64)>>);

type BypassKey = (String, Option<u16>, BypassEvidence);

impl BypassMonitor {
    /// Monitors on the machine's own network, where only requests to the refusing proxy are seen.
    pub(crate) async fn unsealed() -> io::Result<Self> {
        let refuser = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Self::start(refuser, Vec::new(), Vec::new())
    }

    /// Monitors a sealed network, where every call is seen.
    pub(crate) fn sealed(sealed: MonitorSockets) -> io::Result<Self> {
        let MonitorSockets { refuser, elsewhere, names } = sealed;
        let elsewhere = elsewhere.into_iter().map(|(port, listener)| Ok((port, tokio_listener(listener)?)));
        let names = names.into_iter().map(|socket| {
            socket.set_nonblocking(true)?;
            UdpSocket::from_std(socket)
        });
        let elsewhere = elsewhere.collect::<io::Result<Vec<_>>>()?;
        Self::start(tokio_listener(refuser)?, elsewhere, names.collect::<io::Result<Vec<_>>>()?)
    }

    fn start(
        listener: TcpListener,
        elsewhere: Vec<(u16, TcpListener)>,
        names: Vec<UdpSocket>,
    ) -> io::Result<Self> {
        let seen = Arc::new(BypassLog::default());
        let refuser = listener.local_addr()?;
        let mut watching = JoinSet::new();
        watching.spawn(accept_calls(listener, seen.clone(), None));
        for (port, listener) in elsewhere {
            watching.spawn(accept_calls(listener, seen.clone(), Some(port)));
        }
        for socket in names {
            watching.spawn(deny_names(socket, seen.clone()));
        }
        Ok(Self { seen, refuser, _watching: watching })
    }

    /// Lists all calls so far.
    pub(crate) fn seen(&self) -> Vec<ProxyBypass> {
        let seen = self.seen.0.lock().expect("lock is not poisoned");
        let mut list: Vec<ProxyBypass> = seen
            .iter()
            .map(|((host, port, by), (at, count))| ProxyBypass {
                host: host.clone(),
                port: *port,
                at: recording::iso(*at),
                seen_by: *by,
                count: *count,
            })
            .collect();
        list.sort_by(|a, b| a.at.cmp(&b.at));
        list
    }
}

/// The sockets of a sealed network except the proxy's.
pub(crate) struct MonitorSockets {
    pub(crate) refuser: std::net::TcpListener,
    pub(crate) elsewhere: Vec<(u16, std::net::TcpListener)>,
    pub(crate) names: Vec<std::net::UdpSocket>,
}

impl NamespaceSockets {
    /// Separates the proxy's socket from the others.
    pub(crate) fn split(self) -> (std::net::TcpListener, MonitorSockets) {
        let Self { proxy, refuser, elsewhere, names } = self;
        (proxy, MonitorSockets { refuser, elsewhere, names })
    }
}

impl BypassLog {
    fn note(&self, host: String, port: Option<u16>, by: BypassEvidence) {
        let mut seen = self.0.lock().expect("lock is not poisoned");
        let (_, count) = seen.entry((host, port, by)).or_insert((SystemTime::now(), 0));
        *count += 1;
    }
}

fn tokio_listener(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts connections to the refusing proxy, or to `port` elsewhere.
async fn accept_calls(listener: TcpListener, seen: Arc<BypassLog>, port: Option<u16>) {
    loop {
        match listener.accept().await {
            Ok((tcp, _)) => {
                let seen = seen.clone();
                tokio::spawn(async move {
                    // A connection without data is recorded as well.
                    let _ = tokio::time::timeout(DESTINATION_TIMEOUT, refuse(tcp, &seen, port)).await;
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await, // usually too many open files
        }
    }
}

async fn refuse(mut tcp: TcpStream, seen: &BypassLog, port: Option<u16>) -> io::Result<()> {
    let mut first = Vec::new();
    let said = loop {
        if let Some(said) = first_bytes::read(&first) {
            break said;
        }
        if first.len() > MAX_FIRST_BYTES || tcp.read_buf(&mut first).await? == 0 {
            break first_bytes::Destination::Unnamed;
        }
    };
    let addressed = tcp.local_addr()?;
    match (said, port) {
        (first_bytes::Destination::Http { host, port: named }, None) => {
            seen.note(host, named, BypassEvidence::Proxy);
            tcp.write_all(REFUSAL).await?;
        }
        (first_bytes::Destination::Http { host, port: named }, Some(port)) => {
            seen.note(host, named.or(Some(port)), BypassEvidence::Connection);
            tcp.write_all(REFUSAL).await?;
        }
        (first_bytes::Destination::Tls { host }, Some(port)) => {
            seen.note(host, Some(port), BypassEvidence::Connection)
        }
        (_, Some(port)) => {
            seen.note(addressed.ip().to_canonical().to_string(), Some(port), BypassEvidence::Connection)
        }
        // A check whether the proxy is reachable is not a call.
        (_, None) => {}
    }
    tcp.shutdown().await
}

/// Answers every query that the name does not exist.
async fn deny_names(socket: UdpSocket, seen: Arc<BypassLog>) {
    let mut question = vec![0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut question).await {
        if let Some(asked) = dns::read(&question[..length]) {
            if let Some(host) = asked.host {
                seen.note(host, None, BypassEvidence::Name);
            }
            let _ = socket.send_to(&asked.no_such_name, from).await; // clients repeat their queries
        }
    }
}
