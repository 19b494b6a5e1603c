//! Starts the recorded command, forwards its output, and waits for it.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use recording::{OutputStream, Recorder};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::failure::{ExitKind, classify};
use crate::signals::Signals;

/// Maximum wait for output of the command's own children after it has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// A running command, and the threads that forward its output.
pub(crate) struct RunningCommand {
    child: Child,
    outputs: Vec<oneshot::Receiver<()>>,
}

/// Finds the file that would be started for `program`.
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

/// Returns `true` if output goes to a terminal. The command then writes to it directly, and nothing is kept.
pub(crate) fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Starts the command with our own output streams.
pub(crate) fn start_unrecorded(argv: &[String], env: &[(String, String)]) -> std::io::Result<RunningCommand> {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).envs(env.iter().cloned()).kill_on_drop(true);
    Ok(RunningCommand { child: command.spawn()?, outputs: Vec::new() })
}

/// Starts the command. Its output is forwarded at once and recorded.
pub(crate) fn start(
    argv: &[String],
    env: &[(String, String)],
    recorder: &Recorder,
) -> std::io::Result<RunningCommand> {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).envs(env.iter().cloned()).kill_on_drop(true);
    let mut outputs = Vec::new();
    if !on_terminal() {
        let (reader, writer) = std::io::pipe()?;
        command.stdout(writer);
        outputs.push(forward(reader, std::io::stdout(), OutputStream::Stdout, recorder.clone())?);
        let (reader, writer) = std::io::pipe()?;
        command.stderr(writer);
        outputs.push(forward(reader, std::io::stderr(), OutputStream::Stderr, recorder.clone())?);
    }
    let child = command.spawn()?;
    Ok(RunningCommand { child, outputs })
}

/// Explains why a command that exists cannot be started.
pub(crate) fn start_error(argv: &[String], error: std::io::Error) -> anyhow::Error {
    let program = &argv[0];
    let hint = match error.raw_os_error() {
        Some(libc::ENOEXEC) => format!("begin the file with `#!/bin/sh`, or give `sh {program}`"),
        // The file exists, so its interpreter is missing.
        Some(libc::ENOENT) => {
            format!("install its interpreter: `head -1 $(command -v {program})` names it")
        }
        _ => format!("try `ls -l $(command -v {program})`"),
    };
    let error = anyhow::Error::from(error).context(format!("cannot start the command `{program}`"));
    classify(ExitKind::Usage, Some(hint), error)
}

/// Forwards and records an output on a thread of its own, so that a slow reader holds back only the command. The receiver
/// is notified when the output has ended.
fn forward(
    mut from: impl std::io::Read + Send + 'static,
    mut to: impl std::io::Write + Send + 'static,
    output: OutputStream,
    recorder: Recorder,
) -> std::io::Result<oneshot::Receiver<()>> {
    let (sender, receiver) = oneshot::channel();
    let copy = move || {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            recorder.record_output(output, buffer[..read].to_vec());
            // The recording continues when the reader of our output has closed it.
            let _ = to.write_all(&buffer[..read]).and_then(|()| to.flush());
            recorder.block_until_room();
        }
        let _ = sender.send(()); // the receiver may have timed out
    };
    std::thread::Builder::new().name("output".into()).spawn(copy)?;
    Ok(receiver)
}

impl RunningCommand {
    /// Returns the id of its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for the command to end, and forwards signals to it.
    pub(crate) async fn wait(mut self, signals: &mut Signals) -> std::io::Result<ExitStatus> {
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status?,
                signal = signals.next() => {
                    // A terminal sends Ctrl-C to the command, too.
                    if signal != libc::SIGINT || !std::io::stdin().is_terminal() {
                        self.send_signal(signal);
                    }
                }
            }
        };
        for output in self.outputs {
            // A child of the command may still hold the output open.
            let _ = tokio::time::timeout(OUTPUT_TIMEOUT, output).await;
        }
        Ok(status)
    }

    #[allow(unsafe_code, reason = "kill(2) has no safe wrapper in std")]
    fn send_signal(&self, signal: i32) {
        if let Some(pid) = self.child.id() {
            // SAFETY: kill takes no pointers; the child has not been waited for, so the pid is its own.
            unsafe { libc::kill(pid as i32, signal) };
        }
    }
}

/// Returns the exit code as shells do: 128 plus the signal for a killed command.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
