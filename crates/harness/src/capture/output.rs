//! Records the output of the harness.

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read as _};
use std::time::Duration;

use recording::{OutputStream, Recorder};
use tokio::sync::oneshot;

use crate::supervisor::Outputs;

/// Bytes at the end of the output that are kept for error messages.
const TAIL: usize = 2 << 10;
/// Lines of those that are shown.
const LINES: usize = 5;
/// Time to wait for output after all processes have ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// The reading ends of the pipes.
pub(super) struct Pipes {
    stdout: PipeReader,
    stderr: PipeReader,
}

/// Creates two pipes: reading ends for us, writing ends for the harness.
pub(super) fn pipes() -> io::Result<(Pipes, Outputs)> {
    let (stdout, out) = io::pipe()?;
    let (stderr, err) = io::pipe()?;
    Ok((Pipes { stdout, stderr }, Outputs { stdout: out.into(), stderr: err.into() }))
}

impl Pipes {
    /// Passes the output to the recorder, on threads that end with it.
    pub(super) fn start_reading(self, recorder: &Recorder) -> io::Result<OutputReaders> {
        let stdout = read_output(self.stdout, OutputStream::Stdout, recorder.clone())?;
        let stderr = read_output(self.stderr, OutputStream::Stderr, recorder.clone())?;
        Ok(OutputReaders { stdout, stderr })
    }
}

/// The threads that read both outputs.
pub(super) struct OutputReaders {
    stdout: oneshot::Receiver<String>,
    stderr: oneshot::Receiver<String>,
}

impl OutputReaders {
    /// Waits for the end of both. Returns the last lines of standard error as one line.
    pub(super) async fn finish(self) -> String {
        let _ = tokio::time::timeout(OUTPUT_TIMEOUT, self.stdout).await; // no process can write to it any more
        let tail = tokio::time::timeout(OUTPUT_TIMEOUT, self.stderr).await;
        tail.ok().and_then(Result::ok).unwrap_or_default()
    }
}

fn read_output(
    mut from: PipeReader,
    output: OutputStream,
    recorder: Recorder,
) -> io::Result<oneshot::Receiver<String>> {
    let (over, heard) = oneshot::channel();
    let read_output = move || {
        let mut tail = VecDeque::new();
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            recorder.record_output(output, buffer[..read].to_vec());
            tail.extend(&buffer[..read]);
            tail.drain(..tail.len().saturating_sub(TAIL));
            recorder.block_until_room();
        }
        let _ = over.send(last_lines(&Vec::from(tail))); // the receiver may be gone
    };
    std::thread::Builder::new().name("output".into()).spawn(read_output)?;
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
