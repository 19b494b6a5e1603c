//! Accepts connections and detects their HTTP version.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::h2;
use crate::hangup::SocketAddrs;
use crate::state::{Phase, ProxyState};

/// The start of HTTP/2 with prior knowledge.
const PREFACE: &[u8] = b"PRI ";

/// Accepts connections until the proxy drains, and serves them until it cuts them.
pub(crate) async fn serve(listener: TcpListener, state: Arc<ProxyState>, mut phase: watch::Receiver<Phase>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    connections.spawn(serve_connection(tcp, state.clone()));
                }
                Err(error) => {
                    // Usually too many open files: other programs may close some.
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = wait_for(Phase::Draining, &mut phase) => break,
        }
    }
    drop(listener);
    wait_for(Phase::Cutting, &mut phase).await;
    connections.shutdown().await;
}

async fn wait_for(wanted: Phase, phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase >= wanted).await; // a dropped sender means the same
}

async fn serve_connection(tcp: TcpStream, state: Arc<ProxyState>) {
    let _ = tcp.set_nodelay(true); // only slower without
    match is_http2(&tcp).await {
        Ok(true) => h2::serve(tcp, state).await,
        Ok(false) => {
            let addrs = SocketAddrs::new(&tcp);
            if let Some(tcp) = Connection::new(tcp, addrs, state).run().await {
                let _ = tcp.set_zero_linger(); // without it, closed in the usual way
            }
        }
        Err(error) => tracing::debug!("a connection ended before its first byte: {error}"),
    }
}

async fn is_http2(tcp: &TcpStream) -> std::io::Result<bool> {
    let mut start = [0; PREFACE.len()];
    loop {
        let seen = tcp.peek(&mut start).await?;
        if seen == 0 || start[..seen] != PREFACE[..seen] {
            return Ok(false);
        }
        if seen == PREFACE.len() {
            return Ok(true);
        }
        // The first packet has one to three bytes that may begin either version.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
