//! Limits for the size and depth of a server's output. Beyond them, the output counts as ended.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::MAX_OUTPUT;

/// Maximum depth of a message. The parser refuses deeper ones, and the caller would wait in vain.
const MAX_DEPTH: usize = 127;

/// Remaining output that a server may send until the next request.
#[derive(Debug)]
pub(super) struct OutputMeter {
    remaining: AtomicUsize,
    is_deep: AtomicBool,
}

impl OutputMeter {
    pub(super) fn new() -> Self {
        Self { remaining: AtomicUsize::new(MAX_OUTPUT), is_deep: AtomicBool::new(false) }
    }

    /// Restores the full limit for a new request.
    pub(super) fn reset(&self) {
        self.remaining.store(MAX_OUTPUT, Ordering::Relaxed);
    }

    /// Returns why the output was cut off, if it was.
    pub(super) fn cut_off_reason(&self) -> Option<String> {
        if self.is_deep.load(Ordering::Relaxed) {
            return Some(format!("its answer is nested deeper than {MAX_DEPTH} levels"));
        }
        let is_spent = self.remaining.load(Ordering::Relaxed) == 0;
        is_spent.then(|| format!("it sent more than {MAX_OUTPUT} bytes in one answer and was cut off"))
    }

    /// Counts output, and returns true if the limit is reached.
    fn count(&self, said: usize) -> bool {
        let spent = |remaining: usize| Some(remaining.saturating_sub(said));
        self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).unwrap_or_default() <= said
    }
}

/// Reader that ends when the output is too long or too deep.
pub(super) struct MeteredReader<R> {
    inner: R,
    meter: Arc<OutputMeter>,
    depth: DepthCounter,
}

impl<R> MeteredReader<R> {
    pub(super) fn new(inner: R, meter: Arc<OutputMeter>) -> Self {
        Self { inner, meter, depth: DepthCounter::default() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MeteredReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let said = &buffer.filled()[before..];
        let is_deep = said.iter().any(|byte| self.depth.goes_too_deep(*byte));
        self.meter.is_deep.fetch_or(is_deep, Ordering::Relaxed);
        if self.meter.count(said.len()) || is_deep {
            buffer.set_filled(before); // looks like the end; the meter knows the reason
        }
        Poll::Ready(Ok(()))
    }
}

/// Nesting depth of a message while it arrives.
#[derive(Default)]
struct DepthCounter {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    /// True for a line that does not begin like a message.
    is_noise: bool,
}

impl DepthCounter {
    fn goes_too_deep(&mut self, byte: u8) -> bool {
        match byte {
            b'\n' => *self = Self::default(),
            _ if self.is_noise => {}
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_text => self.is_escaped = true,
            b'"' if self.depth > 0 => self.is_text = !self.is_text,
            _ if self.is_text => {}
            b'{' => self.depth += 1,
            b'[' if self.depth > 0 => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            byte => self.is_noise = self.depth == 0 && !byte.is_ascii_whitespace(),
        }
        self.depth > MAX_DEPTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_can_be_too_deep() {
        let deep = |text: &str| {
            let mut line = DepthCounter::default();
            text.bytes().any(|byte| line.goes_too_deep(byte))
        };
        let nested = |sign: &str, count: usize| sign.repeat(count);
        for (text, expected) in [
            (format!("{{\"a\":{}", nested("[", 126)), false),
            (format!("{{\"a\":{}", nested("[", 127)), true),
            (format!("{{\"a\":{}", nested("{\"a\":", 127)), true),
            (format!("{{\"a\":\"\\\"{}", nested("[", 200)), false),
            (format!("{{\"a\":{}", nested("[],", 200)), false),
            (format!("progress {}", nested("[", 200)), false),
            (nested("{\n", 200), false),
        ] {
            assert_eq!(deep(&text), expected, "{text}");
        }
    }
}
