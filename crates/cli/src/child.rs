//! The command that is recorded: started, listened to, waited for.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use recording::{Output, Recorder};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::signals::Signals;

/// How long output of the command's own children is waited for after it has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running command and whoever passes its output on.
pub(crate) struct Running {
    child: Child,
    outputs: Vec<JoinHandle<()>>,
}

/// The file that would be started for `program`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(runs);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(runs)
}

/// Output goes to a terminal: it is the command's own then, and cannot be kept.
pub(crate) fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Starts the command; what it prints is passed on at once, and told to the recorder.
pub(crate) fn start(
    argv: &[String],
    env: &[(String, String)],
    recorder: &Recorder,
) -> std::io::Result<Running> {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).envs(env.iter().cloned()).kill_on_drop(true);
    if !on_terminal() {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = command.spawn()?;
    let mut outputs = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        outputs.push(tokio::spawn(pass_on(stdout, std::io::stdout(), Output::Stdout, recorder.clone())));
    }
    if let Some(stderr) = child.stderr.take() {
        outputs.push(tokio::spawn(pass_on(stderr, std::io::stderr(), Output::Stderr, recorder.clone())));
    }
    Ok(Running { child, outputs })
}

async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl std::io::Write,
    output: Output,
    recorder: Recorder,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        // Whoever reads our output may have left; the recording goes on.
        let _ = to.write_all(&buffer[..read]).and_then(|()| to.flush());
        recorder.printed(output, Bytes::copy_from_slice(&buffer[..read]));
        recorder.room().await;
    }
}

impl Running {
    /// Waits for the command to end; signals that ask us to end are passed on to it.
    pub(crate) async fn wait(mut self, signals: &mut Signals) -> std::io::Result<ExitStatus> {
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status?,
                signal = signals.next() => {
                    // A terminal has told the command of Ctrl-C already.
                    if signal != libc::SIGINT || !std::io::stdin().is_terminal() {
                        self.tell(signal);
                    }
                }
            }
        };
        for output in self.outputs {
            let abort = output.abort_handle();
            if tokio::time::timeout(LAST_WORDS, output).await.is_err() {
                abort.abort(); // a child of the command's lives on and holds its output open
            }
        }
        Ok(status)
    }

    #[allow(unsafe_code, reason = "kill(2) has no safe wrapper in std")]
    fn tell(&self, signal: i32) {
        if let Some(pid) = self.child.id() {
            // SAFETY: kill takes no pointers; the child has not been waited for, so the pid is its own.
            unsafe { libc::kill(pid as i32, signal) };
        }
    }
}

/// The exit code as shells have it: 128 and the signal for a command that was killed.
pub(crate) fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
