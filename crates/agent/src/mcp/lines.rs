//! A server that is a program: each message is a line.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

use super::{MOST, message};

/// Speaks to one server.
pub(super) struct Lines<R, W> {
    read: BufReader<R>,
    /// What has come of a line. It is kept here, since whoever waits for its end may be called away.
    line: Vec<u8>,
    write: Arc<tokio::sync::Mutex<Option<W>>>,
    /// What was asked and is not answered.
    asked: Arc<Mutex<Vec<RequestId>>>,
}

impl<R: AsyncRead, W> Lines<R, W> {
    pub(super) fn new(read: R, write: W) -> Self {
        let write = Arc::new(tokio::sync::Mutex::new(Some(write)));
        Self { read: BufReader::new(read), line: Vec::new(), write, asked: Arc::default() }
    }
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
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
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(request.id.clone());
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
            let heard = self.heard(self.line.trim_ascii());
            self.line.clear();
            if heard.is_some() {
                return heard;
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    /// Reads on until a line is whole; nothing where none will be.
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
            if self.line.len() > MOST {
                return None;
            }
        }
    }

    /// The message of a line. Noise is none; an answer that cannot be read is an answer too.
    fn heard(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        if line.is_empty() {
            return None;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let message = message::read(line).or_else(|error| {
            tracing::debug!(%error, "a line of an MCP server is no message");
            let answered = message::answers(line, &asked).ok_or(())?;
            Ok::<_, ()>(message::unread(answered, format!("its answer is no message: {error}")))
        });
        let message = message.ok()?;
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        asked.retain(|id| Some(id) != answered);
        Some(message)
    }
}
