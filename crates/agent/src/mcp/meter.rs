//! How much a server may say, and how deep: beyond that it is taken to have ended.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::MOST;

/// How deep a message may go. One that goes deeper nobody reads, and whoever waits for it would wait in vain.
const DEEPEST: usize = 127;

/// What is left of what a server may say until it is asked something.
#[derive(Debug)]
pub(super) struct Meter {
    left: AtomicUsize,
    is_deep: AtomicBool,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { left: AtomicUsize::new(MOST), is_deep: AtomicBool::new(false) }
    }

    /// It is asked something.
    pub(super) fn begin(&self) {
        self.left.store(MOST, Ordering::Relaxed);
    }

    /// Why it was cut off, where it was.
    pub(super) fn why(&self) -> Option<String> {
        if self.is_deep.load(Ordering::Relaxed) {
            return Some(format!(
                "its answer cannot be read: it goes deeper than {DEEPEST} lists and objects in each other"
            ));
        }
        let is_spent = self.left.load(Ordering::Relaxed) == 0;
        is_spent.then(|| format!("it sent more than {MOST} bytes without an end and was cut off"))
    }

    /// Counts what was said; says whether that was too much.
    fn count(&self, said: usize) -> bool {
        let spent = |left: usize| Some(left.saturating_sub(said));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).unwrap_or_default() <= said
    }
}

/// A reader that takes somebody to have ended who does not stop talking, or says what nobody can read.
pub(super) struct Metered<R> {
    inner: R,
    meter: Arc<Meter>,
    line: Line,
}

impl<R> Metered<R> {
    pub(super) fn new(inner: R, meter: Arc<Meter>) -> Self {
        Self { inner, meter, line: Line::default() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Metered<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let said = &buffer.filled()[before..];
        let is_deep = said.iter().any(|byte| self.line.goes_too_deep(*byte));
        self.meter.is_deep.fetch_or(is_deep, Ordering::Relaxed);
        if self.meter.count(said.len()) || is_deep {
            buffer.set_filled(before); // as if it had ended; who asks why finds it in the meter
        }
        Poll::Ready(Ok(()))
    }
}

/// A message as it comes.
#[derive(Default)]
struct Line {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    /// It does not begin as a message does.
    is_noise: bool,
}

impl Line {
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
        self.depth > DEEPEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_can_be_too_deep() {
        let deep = |text: &str| {
            let mut line = Line::default();
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
