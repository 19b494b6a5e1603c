//! Calls that go round the proxy: seen, named, and refused.
//!
//! A harness is told of a proxy for the world outside, which answers 403 to everybody. In a sealed network, whoever
//! does not ask that proxy is seen by the name it wants resolved, or at the port it connects to.

mod dns;
mod hello;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use recording::{BypassEvidence, ProxyBypass};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use crate::warden::Sealed;

/// How long somebody may take to say where they want to go.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any request's head or first words of TLS.
const MOST: usize = 64 << 10;
const REFUSAL: &[u8] =
    b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\ncontent-length: 46\r\nconnection: close\r\n\r\nthis harness is being recorded without network";

/// Watches every way out that is not the proxy.
#[derive(Debug)]
pub(crate) struct Watch {
    seen: Arc<Seen>,
    /// Where the proxy that refuses listens.
    pub(crate) refuser: SocketAddr,
    _watching: JoinSet<()>,
}

/// By host, port and how it was seen: when for the first time, and how often.
#[derive(Debug, Default)]
struct Seen(Mutex<BTreeMap<Way, (SystemTime, u64)>>);

type Way = (String, Option<u16>, BypassEvidence);

impl Watch {
    /// On the machine's own network: only those who ask the proxy are seen.
    pub(crate) async fn in_the_open() -> io::Result<Self> {
        let refuser = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Self::start(refuser, Vec::new(), Vec::new())
    }

    /// In a sealed network: nobody gets past us.
    pub(crate) fn sealed(sealed: Ways) -> io::Result<Self> {
        let Ways { refuser, elsewhere, names } = sealed;
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
        let seen = Arc::new(Seen::default());
        let refuser = listener.local_addr()?;
        let mut watching = JoinSet::new();
        watching.spawn(take(listener, seen.clone(), None));
        for (port, listener) in elsewhere {
            watching.spawn(take(listener, seen.clone(), Some(port)));
        }
        for socket in names {
            watching.spawn(answer_names(socket, seen.clone()));
        }
        Ok(Self { seen, refuser, _watching: watching })
    }

    /// Everyone who went round until now.
    pub(crate) fn seen(&self) -> Vec<ProxyBypass> {
        let seen = self.seen.0.lock().expect("nobody panics with it");
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

/// The sockets of a sealed network, but for the proxy's.
pub(crate) struct Ways {
    pub(crate) refuser: std::net::TcpListener,
    pub(crate) elsewhere: Vec<(u16, std::net::TcpListener)>,
    pub(crate) names: Vec<std::net::UdpSocket>,
}

impl Sealed {
    /// The proxy's socket, and all the others.
    pub(crate) fn split(self) -> (std::net::TcpListener, Ways) {
        let Self { proxy, refuser, elsewhere, names } = self;
        (proxy, Ways { refuser, elsewhere, names })
    }
}

impl Seen {
    fn note(&self, host: String, port: Option<u16>, by: BypassEvidence) {
        let mut seen = self.0.lock().expect("nobody panics with it");
        let (_, count) = seen.entry((host, port, by)).or_insert((SystemTime::now(), 0));
        *count += 1;
    }
}

fn tokio_listener(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Takes connections, to the proxy that refuses or to `port` elsewhere.
async fn take(listener: TcpListener, seen: Arc<Seen>, port: Option<u16>) {
    loop {
        match listener.accept().await {
            Ok((tcp, _)) => {
                let seen = seen.clone();
                tokio::spawn(async move {
                    // Somebody who says nothing is noted all the same.
                    let _ = tokio::time::timeout(PATIENCE, refuse(tcp, &seen, port)).await;
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await, // too many open files, as a rule
        }
    }
}

async fn refuse(mut tcp: TcpStream, seen: &Seen, port: Option<u16>) -> io::Result<()> {
    let mut first = Vec::new();
    let said = loop {
        if let Some(said) = hello::read(&first) {
            break said;
        }
        if first.len() > MOST || tcp.read_buf(&mut first).await? == 0 {
            break hello::Said::Nothing;
        }
    };
    let addressed = tcp.local_addr()?;
    match (said, port) {
        (hello::Said::Http { host, port: named }, None) => {
            seen.note(host, named, BypassEvidence::Proxy);
            tcp.write_all(REFUSAL).await?;
        }
        (hello::Said::Http { host, port: named }, Some(port)) => {
            seen.note(host, named.or(Some(port)), BypassEvidence::Connection);
            tcp.write_all(REFUSAL).await?;
        }
        (hello::Said::Tls { host }, Some(port)) => seen.note(host, Some(port), BypassEvidence::Connection),
        (_, Some(port)) => {
            seen.note(addressed.ip().to_canonical().to_string(), Some(port), BypassEvidence::Connection)
        }
        // Somebody looks whether the proxy is there: that is no call.
        (_, None) => {}
    }
    tcp.shutdown().await
}

/// Says of every name that it does not exist.
async fn answer_names(socket: UdpSocket, seen: Arc<Seen>) {
    let mut question = vec![0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut question).await {
        if let Some(asked) = dns::read(&question[..length]) {
            if let Some(host) = asked.host {
                seen.note(host, None, BypassEvidence::Name);
            }
            let _ = socket.send_to(&asked.no_such_name, from).await; // they will ask again
        }
    }
}
