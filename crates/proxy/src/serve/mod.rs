//! What a stand-in for a provider needs: connections, requests, and responses as bytes.

mod client;
pub(crate) mod http;

use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(crate) use client::{Client, Request};

/// Serves every connection until this is dropped, and all of them with it.
pub(crate) async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    connections.spawn(serve(tcp));
                }
                Err(error) => {
                    // Too many open files, as a rule: others may close some.
                    tracing::warn!("a connection cannot be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
