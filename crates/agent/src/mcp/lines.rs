//! Transport to a server process: each message is one line.

use std::io;
use std::sync::{Arc, Mutex};

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

use super::{MAX_OUTPUT, message};

/// Transport to one server.
pub(super) struct LineTransport<R, W> {
    read: BufReader<R>,
    /// Beginning of the current line. It is kept here because a read may be cancelled.
    line: Vec<u8>,
    write: Arc<tokio::sync::Mutex<Option<W>>>,
    /// Requests without an answer yet.
    pending: Arc<Mutex<Vec<RequestId>>>,
}

impl<R: AsyncRead, W> LineTransport<R, W> {
    pub(super) fn new(read: R, write: W) -> Self {
        let write = Arc::new(tokio::sync::Mutex::new(Some(write)));
        Self { read: BufReader::new(read), line: Vec::new(), write, pending: Arc::default() }
    }
}

impl<R, W> Transport<RoleClient> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &message {
            self.pending.lock().expect("lock is not poisoned").push(request.id.clone());
        }
        let write = Arc::clone(&self.write);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut write = write.lock().await;
            let write = write.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            write.write_all(&line).await?;
            write.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            self.read_line().await?;
            let message = self.parse_line(self.line.trim_ascii());
            self.line.clear();
            if message.is_some() {
                return message;
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

impl<R: AsyncRead + Unpin, W> LineTransport<R, W> {
    /// Reads until a line is complete. Returns `None` at the end or when a line is too long.
    async fn read_line(&mut self) -> Option<()> {
        loop {
            let there = self.read.fill_buf().await.ok().filter(|there| !there.is_empty())?;
            let end = there.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(there.len(), |at| at + 1);
            self.line.extend_from_slice(&there[..taken]);
            self.read.consume(taken);
            if end.is_some() {
                return Some(());
            }
            if self.line.len() > MAX_OUTPUT {
                return None;
            }
        }
    }

    /// Parses a line. Returns `None` for noise, and an error message for an unreadable answer.
    fn parse_line(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        if line.is_empty() {
            return None;
        }
        let mut pending = self.pending.lock().expect("lock is not poisoned");
        let message = message::read(line).or_else(|error| {
            tracing::debug!(%error, "a line of an MCP server is no message");
            let answered = message::answered_request(line, &pending).ok_or(())?;
            Ok::<_, ()>(message::unreadable_answer(
                answered,
                format!("its answer is not a valid message: {error}"),
            ))
        });
        let message = message.ok()?;
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        pending.retain(|id| Some(id) != answered);
        Some(message)
    }
}
