//! Detects whether a harness that sends no more still reads.
//!
//! A closed connection and one whose sending side was shut look the same to the receiver until it sends something. But only
//! loopback is served, so the harness's socket is on this machine, and Linux lists whether a process holds it.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

/// Time before the first check. A socket that is being closed is held until just after its last packet.
const FIRST_CHECK: Duration = Duration::from_millis(20);
/// Time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum time between two reads of the kernel's table, which is long on a machine with many connections.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Both addresses of a harness's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketAddrs {
    harness: SocketAddr,
    local: SocketAddr,
}

impl SocketAddrs {
    pub(crate) fn new(tcp: &TcpStream) -> Option<Self> {
        Some(Self { harness: tcp.peer_addr().ok()?, local: tcp.local_addr().ok()? })
    }

    /// Waits until no process holds the harness's socket, or until this cannot be determined.
    pub(crate) async fn wait_until_closed(self) {
        sleep(FIRST_CHECK).await;
        while self.is_held().await {
            sleep(CHECK_INTERVAL).await;
        }
    }

    async fn is_held(self) -> bool {
        static V4: KernelTable = KernelTable::new("/proc/net/tcp");
        static V6: KernelTable = KernelTable::new("/proc/net/tcp6");
        let table = if self.harness.is_ipv4() { &V4 } else { &V6 };
        table.read_fresh().await.is_some_and(|table| self.is_held_in(&table))
    }

    /// Returns whether a line of the kernel's table has these addresses and an inode.
    fn is_held_in(self, table: &str) -> bool {
        let (harness, local) = (in_table_format(self.harness), in_table_format(self.local));
        let inode = table.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let is_ours = words.next()? == harness && words.next()? == local;
            words.nth(6).filter(|_| is_ours)
        });
        inode.is_some_and(|inode| inode != "0")
    }
}

/// A table of the kernel. It is read once for all concurrent checks, outside the threads that serve connections.
struct KernelTable {
    path: &'static str,
    /// Its text, and the time at which the read began.
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl KernelTable {
    const fn new(path: &'static str) -> Self {
        Self { path, last: Mutex::const_new(None) }
    }

    /// Returns the text as of now or later; `None` if it cannot be read. An older text would lack new connections.
    async fn read_fresh(&self) -> Option<Arc<str>> {
        let now = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((_, table)) = last.as_ref().filter(|(begun, _)| *begun >= now) {
            return Some(table.clone());
        }
        if let Some((begun, _)) = *last {
            sleep_until(begun + READ_INTERVAL).await;
        }
        let (begun, path) = (Instant::now(), self.path);
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
        let table: Arc<str> = read.ok()?.ok()?.into();
        *last = Some((begun, table.clone()));
        Some(table)
    }
}

/// Formats an address as in the kernel's table: words in native byte order.
fn in_table_format(addr: SocketAddr) -> String {
    let octets = match addr.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let mut text = String::new();
    for word in octets.as_chunks::<4>().0 {
        write!(text, "{:08X}", u32::from_ne_bytes(*word)).expect("a string accepts all text");
    }
    write!(text, ":{:04X}", addr.port()).expect("a string accepts all text");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_without_an_inode_is_not_held() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1F90 0100007F:C350 08 00000000:00000000 00:00000000 00000000     0        0 111 1 0\n   \
                     1: 0100007F:C350 0100007F:1F90 05 00000000:00000000 00:00000000 00000000     0        0 222 1 0\n   \
                     2: 0100007F:C351 0100007F:1F90 05 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n";
        let local = SocketAddr::from(([127, 0, 0, 1], 8080));
        let held = |port| SocketAddrs { harness: ([127, 0, 0, 1], port).into(), local }.is_held_in(table);
        assert_eq!([50000, 50001, 50002].map(held), [true, false, false]);
    }
}
