//! Whether a harness that sends no more still listens.
//!
//! A connection that was closed and one whose sending side was shut look the same from here until we
//! send something. But we serve loopback alone, so the harness's socket is on this machine, and Linux
//! says whether anybody holds it.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

/// A socket that is being closed is held until just after its last packet.
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// How soon we hear that a harness which only listened is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// The kernel's table is long where many connections come and go, and is not read more often than this.
const APART: Duration = Duration::from_millis(100);

/// Both ends of a harness's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    harness: SocketAddr,
    ours: SocketAddr,
}

impl Ends {
    pub(crate) fn of(tcp: &TcpStream) -> Option<Self> {
        Some(Self { harness: tcp.peer_addr().ok()?, ours: tcp.local_addr().ok()? })
    }

    /// Comes back when nobody holds the harness's end any more, or nobody can say.
    pub(crate) async fn let_go(self) {
        sleep(FIRST_LOOK).await;
        while self.is_held().await {
            sleep(LOOK_AGAIN).await;
        }
    }

    async fn is_held(self) -> bool {
        static V4: Table = Table::new("/proc/net/tcp");
        static V6: Table = Table::new("/proc/net/tcp6");
        let table = if self.harness.is_ipv4() { &V4 } else { &V6 };
        table.not_older_than_now().await.is_some_and(|table| self.is_held_in(&table))
    }

    /// Whether a line of the kernel's table has these ends and a socket's number behind them.
    fn is_held_in(self, table: &str) -> bool {
        let (harness, ours) = (in_table(self.harness), in_table(self.ours));
        let inode = table.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let ends = words.next()? == harness && words.next()? == ours;
            words.nth(6).filter(|_| ends)
        });
        inode.is_some_and(|inode| inode != "0")
    }
}

/// One of the kernel's tables, read once for all who want to look at it, and never on a thread that others wait for.
struct Table {
    path: &'static str,
    /// What it said, and when that was asked for.
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Table {
    const fn new(path: &'static str) -> Self {
        Self { path, last: Mutex::const_new(None) }
    }

    /// What it says now, or a moment later; `None` where it cannot be read. What was read before a connection was made
    /// would say that nobody holds it.
    async fn not_older_than_now(&self) -> Option<Arc<str>> {
        let now = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((_, table)) = last.as_ref().filter(|(asked, _)| *asked >= now) {
            return Some(table.clone());
        }
        if let Some((asked, _)) = *last {
            sleep_until(asked + APART).await;
        }
        let (asked, path) = (Instant::now(), self.path);
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
        let table: Arc<str> = read.ok()?.ok()?.into();
        *last = Some((asked, table.clone()));
        Some(table)
    }
}

/// An address as the kernel's table has it: words in the machine's own order.
fn in_table(addr: SocketAddr) -> String {
    let octets = match addr.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let mut text = String::new();
    for word in octets.as_chunks::<4>().0 {
        write!(text, "{:08X}", u32::from_ne_bytes(*word)).expect("a string takes all");
    }
    write!(text, ":{:04X}", addr.port()).expect("a string takes all");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_without_a_number_is_held_by_nobody() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1F90 0100007F:C350 08 00000000:00000000 00:00000000 00000000     0        0 111 1 0\n   \
                     1: 0100007F:C350 0100007F:1F90 05 00000000:00000000 00:00000000 00000000     0        0 222 1 0\n   \
                     2: 0100007F:C351 0100007F:1F90 05 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n";
        let ours = SocketAddr::from(([127, 0, 0, 1], 8080));
        let held = |port| Ends { harness: ([127, 0, 0, 1], port).into(), ours }.is_held_in(table);
        assert_eq!([50000, 50001, 50002].map(held), [true, false, false]);
    }
}
