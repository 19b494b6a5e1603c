//! Serves HTTP in place of a provider: connections, requests, and responses as bytes.

mod client;
pub(crate) mod http;

use std::time::Duration;

use recording::lanes::Identity;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use wire::dialect::Prompt;

pub(crate) use client::{Client, Request};

/// Reads the identity of the sender from a request.
pub(crate) fn identity(headers: &[(String, Vec<u8>)], body: &[u8], prompt: &Prompt) -> Identity {
    let text =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), std::str::from_utf8(value).ok()?)));
    Identity::of(text, body, Some(prompt))
}

/// Serves connections. Dropping the future drops them.
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
                    // Usually too many open files: other programs may close some.
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
