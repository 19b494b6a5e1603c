//! The command that is recorded: started, listened to, waited for.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use recording::{Output, Recorder};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::failure::{Kind, marked};
use crate::signals::Signals;

/// How long output of the command's own children is waited for after it has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running command and whoever passes its output on.
pub(crate) struct Running {
    child: Child,
    outputs: Vec<oneshot::Receiver<()>>,
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

/// Starts the command with our own output.
pub(crate) fn start_unrecorded(argv: &[String], env: &[(String, String)]) -> std::io::Result<Running> {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).envs(env.iter().cloned()).kill_on_drop(true);
    Ok(Running { child: command.spawn()?, outputs: Vec::new() })
}

/// Starts the command; what it prints is passed on at once, and told to the recorder.
pub(crate) fn start(
    argv: &[String],
    env: &[(String, String)],
    recorder: &Recorder,
) -> std::io::Result<Running> {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).envs(env.iter().cloned()).kill_on_drop(true);
    let mut outputs = Vec::new();
    if !on_terminal() {
        let (reader, writer) = std::io::pipe()?;
        command.stdout(writer);
        outputs.push(pass_on(reader, std::io::stdout(), Output::Stdout, recorder.clone())?);
        let (reader, writer) = std::io::pipe()?;
        command.stderr(writer);
        outputs.push(pass_on(reader, std::io::stderr(), Output::Stderr, recorder.clone())?);
    }
    let child = command.spawn()?;
    Ok(Running { child, outputs })
}

/// Why a command that is there cannot be started, in words.
pub(crate) fn not_started(argv: &[String], error: std::io::Error) -> anyhow::Error {
    let program = &argv[0];
    let hint = match error.raw_os_error() {
        Some(libc::ENOEXEC) => format!("it is no program: begin it with `#!/bin/sh`, or give `sh {program}`"),
        // The file was found: what is missing is what its first line names.
        Some(libc::ENOENT) => {
            format!("its interpreter is missing: `head -1 $(command -v {program})` names it")
        }
        _ => format!("try `ls -l $(command -v {program})`"),
    };
    let error = anyhow::Error::from(error).context(format!("cannot start the command `{program}`"));
    marked(Kind::Usage, Some(hint), error)
}

/// On a thread of its own: whoever reads our output may stop reading, and only the command's output
/// may wait for that. The receiver hears when the output has ended.
fn pass_on(
    mut from: impl std::io::Read + Send + 'static,
    mut to: impl std::io::Write + Send + 'static,
    output: Output,
    recorder: Recorder,
) -> std::io::Result<oneshot::Receiver<()>> {
    let (over, heard) = oneshot::channel();
    let pass = move || {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            recorder.printed(output, buffer[..read].to_vec());
            // Whoever reads our output may have left; the recording goes on.
            let _ = to.write_all(&buffer[..read]).and_then(|()| to.flush());
            recorder.wait_for_room();
        }
        let _ = over.send(()); // nobody waits for it any more
    };
    std::thread::Builder::new().name("output".into()).spawn(pass)?;
    Ok(heard)
}

impl Running {
    /// Its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

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
            // A child of the command's may live on and hold its output open.
            let _ = tokio::time::timeout(LAST_WORDS, output).await;
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
