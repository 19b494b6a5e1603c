//! What the harness prints.

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read as _};
use std::time::Duration;

use recording::{OutputStream, Recorder};
use tokio::sync::oneshot;

use crate::warden::Outputs;

/// How much of the end is remembered, to be shown when something goes wrong.
const TAIL: usize = 2 << 10;
/// How many lines of that are shown.
const LINES: usize = 5;
/// How long output is waited for after everything has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The reading ends.
pub(super) struct Pipes {
    stdout: PipeReader,
    stderr: PipeReader,
}

/// Two pipes: their reading ends for us, their writing ends for the harness.
pub(super) fn pipes() -> io::Result<(Pipes, Outputs)> {
    let (stdout, out) = io::pipe()?;
    let (stderr, err) = io::pipe()?;
    Ok((Pipes { stdout, stderr }, Outputs { stdout: out.into(), stderr: err.into() }))
}

impl Pipes {
    /// Hands what comes to the recorder, on threads that end with the output.
    pub(super) fn listen(self, recorder: &Recorder) -> io::Result<Listening> {
        let stdout = hear(self.stdout, OutputStream::Stdout, recorder.clone())?;
        let stderr = hear(self.stderr, OutputStream::Stderr, recorder.clone())?;
        Ok(Listening { stdout, stderr })
    }
}

/// Both outputs, being heard.
pub(super) struct Listening {
    stdout: oneshot::Receiver<String>,
    stderr: oneshot::Receiver<String>,
}

impl Listening {
    /// Waits for the end of both; returns the last lines of standard error, in one.
    pub(super) async fn finish(self) -> String {
        let _ = tokio::time::timeout(LAST_WORDS, self.stdout).await; // nobody can write to it any more
        let tail = tokio::time::timeout(LAST_WORDS, self.stderr).await;
        tail.ok().and_then(Result::ok).unwrap_or_default()
    }
}

fn hear(
    mut from: PipeReader,
    output: OutputStream,
    recorder: Recorder,
) -> io::Result<oneshot::Receiver<String>> {
    let (over, heard) = oneshot::channel();
    let hear = move || {
        let mut tail = VecDeque::new();
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            recorder.record_output(output, buffer[..read].to_vec());
            tail.extend(&buffer[..read]);
            tail.drain(..tail.len().saturating_sub(TAIL));
            recorder.block_until_room();
        }
        let _ = over.send(last_lines(&Vec::from(tail))); // nobody may wait for it any more
    };
    std::thread::Builder::new().name("output".into()).spawn(hear)?;
    Ok(heard)
}

fn last_lines(tail: &[u8]) -> String {
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_with_words() {
        assert_eq!(last_lines(b"a\n\nb\nc\nd\n \ne\nf\n"), "b / c / d / e / f");
        assert_eq!(last_lines(b""), "");
    }
}
