//! Accepts connections and finds out which HTTP they speak.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::capture::{Phase, Shared};
use crate::connection::Connection;
use crate::h2;
use crate::hangup::Ends;

/// How HTTP/2 begins when both sides know that it will be spoken.
const PREFACE: &[u8] = b"PRI ";

/// Accepts until told to stop; then only the connections that are there go on, until they are cut.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>, mut told: watch::Receiver<Phase>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    connections.spawn(connection(tcp, shared.clone()));
                }
                Err(error) => {
                    // Too many open files, as a rule: others may close some.
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = told_to(Phase::Draining, &mut told) => break,
        }
    }
    drop(listener);
    told_to(Phase::Cutting, &mut told).await;
    connections.shutdown().await;
}

async fn told_to(phase: Phase, told: &mut watch::Receiver<Phase>) {
    let _ = told.wait_for(|told| *told >= phase).await; // a sender that is gone says the same
}

async fn connection(tcp: TcpStream, shared: Arc<Shared>) {
    let _ = tcp.set_nodelay(true); // slower without, not wrong
    match speaks_http2(&tcp).await {
        Ok(true) => h2::serve(tcp, shared).await,
        Ok(false) => {
            let ends = Ends::of(&tcp);
            if let Some(tcp) = Connection::new(tcp, ends, shared).run().await {
                let _ = tcp.set_zero_linger(); // closed the usual way without
            }
        }
        Err(error) => tracing::debug!("a connection ended before it said anything: {error}"),
    }
}

async fn speaks_http2(tcp: &TcpStream) -> std::io::Result<bool> {
    let mut start = [0; PREFACE.len()];
    loop {
        let seen = tcp.peek(&mut start).await?;
        if seen == 0 || start[..seen] != PREFACE[..seen] {
            return Ok(false);
        }
        if seen == PREFACE.len() {
            return Ok(true);
        }
        // A first packet of one to three bytes that could still become either.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
