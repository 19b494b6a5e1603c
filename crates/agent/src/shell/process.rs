//! Our side of a command's processes: starts them, reads their events, ends them.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use session::RunId;
use store::{Lease, Millis, Store};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStderr, ChildStdout, Command};
use tokio::sync::{oneshot, watch};

use super::watcher::WorkspaceWatcher;
use super::{
    ARGUMENT, DisarmedList, DisarmedPlace, HOME_FOLDER, KillSwitch, SandboxEvent, SandboxSpec, ShellConfig,
    WorkspaceGuard, outer, plan, rights,
};
use crate::process::{is_lease_holder_alive, started};

/// Maximum time for a command's processes to end and for its changes to be scanned.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(45);
/// Maximum number of scans if protected places move before they are mounted.
const MAX_SCANS: usize = 10;

/// Running commands of one run tree.
pub struct Processes {
    shell: ShellConfig,
    tmp: PathBuf,
    journal: Option<(Store, RunId)>,
    /// Number of commands with processes that still run.
    live: watch::Sender<usize>,
    /// Background commands by run. A command ends when its entry is dropped.
    background: Mutex<Vec<(RunId, KillOnDrop)>>,
    /// Protected places that background commands have created, also those that have ended.
    noted: Mutex<Vec<BackgroundCommand>>,
}

/// Protected places of one background command, and how many of them were reported.
struct BackgroundCommand {
    name: String,
    workspace: PathBuf,
    made: DisarmedList,
    reported: usize,
}

/// A running command. It ends when this is dropped.
pub(crate) struct RunningCommand {
    /// The process that all others of the command descend from.
    pub(crate) process: Lease,
    pub(crate) kill_on_drop: KillOnDrop,
    news: Lines<BufReader<ChildStdout>>,
    pub(crate) output: ChildStderr,
    made: DisarmedList,
    /// Receives the protected places that the command has created, after all its processes have ended.
    pub(crate) disarmed: oneshot::Receiver<Vec<DisarmedPlace>>,
}

/// The command of a hook.
pub(crate) struct HookCommand {
    pub(crate) script: String,
    /// Standard input.
    pub(crate) input: String,
    /// Variables: all of them outside of the sandbox, otherwise beside those of every command.
    pub(crate) env: BTreeMap<String, String>,
    /// The folder to run in without the sandbox, with the user's rights. `None` is the sandbox, and the workspace.
    pub(crate) outside: Option<PathBuf>,
}

/// Ends a command when dropped.
pub(crate) struct KillOnDrop(KillSwitch);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Way in which a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    /// Exited by itself. Signals count from 128.
    Exited(i32),
    /// Ended because it had too many processes.
    TooMany(usize),
    /// Did not run.
    Refused(String),
    /// Its processes ended for an unknown reason.
    Lost,
}

impl Processes {
    /// Creates an empty set for a run tree.
    pub(crate) fn new(shell: ShellConfig, root: &RunId, store: &Store) -> Self {
        let tmp = std::env::temp_dir().join(format!("offshoot-{root}"));
        let journal = Some((store.clone(), root.clone()));
        Self { journal, ..Self::without_journal(shell, tmp) }
    }

    /// Creates an empty set that records no processes in a journal.
    pub(crate) fn without_journal(shell: ShellConfig, tmp: PathBuf) -> Self {
        let live = watch::Sender::new(0);
        Self { shell, tmp, journal: None, live, background: Mutex::default(), noted: Mutex::default() }
    }

    /// Returns true if commands run without a sandbox.
    pub(crate) fn is_unsandboxed(&self) -> bool {
        self.shell.without_sandbox
    }

    /// Creates and returns the run tree's folder for temporary files, which only its commands may write.
    pub(crate) fn temp_folder(&self) -> io::Result<&Path> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.tmp.join(HOME_FOLDER))?;
        let found = std::fs::symlink_metadata(&self.tmp)?;
        let ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        // In a folder that everyone can write, another user may have created it first.
        if ours && found.mode() & 0o077 == 0 {
            Ok(&self.tmp)
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// Starts a command. An error says why it did not run.
    pub(crate) async fn start(&self, command: &str, workspace: &Path) -> Result<RunningCommand, String> {
        self.start_with(command, workspace, None).await
    }

    /// Starts the command of a hook. An error says why it did not run.
    pub(crate) async fn start_hook(
        &self,
        hook: &HookCommand,
        workspace: &Path,
    ) -> Result<RunningCommand, String> {
        self.start_with(&hook.script, workspace, Some(hook)).await
    }

    async fn start_with(
        &self,
        command: &str,
        workspace: &Path,
        hook: Option<&HookCommand>,
    ) -> Result<RunningCommand, String> {
        let tmp = self.temp_folder().map_err(|error| format!("no folder for temporary files: {error}"))?;
        let outside = hook.and_then(|hook| hook.outside.as_ref());
        let is_sandboxed = outside.is_none() && !self.is_unsandboxed();
        if is_sandboxed && !rights::is_available() {
            return Err(rights::NO_LANDLOCK.to_owned());
        }
        let mut guard = if is_sandboxed { self.scan(workspace).await? } else { None };
        let places = |guard: &Option<Arc<WorkspaceGuard>>| {
            guard.as_ref().map(|guard| guard.places.clone()).unwrap_or_default()
        };
        let mut order = plan::sandbox_spec(&self.shell, command, workspace, tmp, places(&guard));
        if let Some(hook) = hook {
            order.input = Some(hook.input.clone());
            if let Some(folder) = outside {
                (order.sandbox, order.namespaces) = (false, false);
                (order.workspace, order.env) = (folder.clone(), BTreeMap::new());
            }
            order.env.extend(hook.env.clone());
        }
        let mut scans = 1;
        loop {
            let mut started = self.spawn(&order, guard.clone()).await.map_err(|error| error.to_string())?;
            match started.next_event().await {
                Some(SandboxEvent::Begun) => return Ok(started),
                Some(SandboxEvent::NoNamespaces { why }) if order.namespaces => {
                    tracing::info!(why, "commands go without namespaces");
                    order.namespaces = false;
                }
                Some(SandboxEvent::Moved { .. }) if scans < MAX_SCANS => {
                    scans += 1;
                    guard = self.scan(workspace).await?;
                    order.protected = places(&guard);
                }
                Some(SandboxEvent::Moved { path }) => {
                    return Err(format!("cannot protect `{}`: it is moved again and again", path.display()));
                }
                Some(SandboxEvent::Refused { why }) => return Err(why),
                other => return Err(format!("it failed to start: {other:?}")),
            }
        }
    }

    /// Finds the protected places of a workspace, unless commands run without a sandbox.
    async fn scan(&self, workspace: &Path) -> Result<Option<Arc<WorkspaceGuard>>, String> {
        if self.is_unsandboxed() {
            return Ok(None);
        }
        let workspace = workspace.to_owned();
        let scan = tokio::task::spawn_blocking(move || WorkspaceGuard::scan(&workspace)).await;
        Ok(Some(Arc::new(scan.map_err(|_| "the workspace cannot be scanned; this is a bug")?)))
    }

    async fn spawn(
        &self,
        order: &SandboxSpec,
        guard: Option<Arc<WorkspaceGuard>>,
    ) -> io::Result<RunningCommand> {
        let launcher = self.shell.launcher.as_ref().ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, "this program has no launcher for commands")
        })?;
        let (kill_switch, made, mut watch) = (KillSwitch::default(), DisarmedList::default(), None);
        if let Some(guard) = guard.clone() {
            let (kill_switch, made) = (kill_switch.clone(), made.clone());
            watch = tokio::task::spawn_blocking(move || WorkspaceWatcher::start(guard, kill_switch, made))
                .await?;
        }
        // Uses its own process group, so that Ctrl-C reaches only us.
        let mut child = Command::new(launcher)
            .args([ARGUMENT, "outer"])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pid = child.id().unwrap_or_default();
        let process = Lease { pid, start: started(pid).unwrap_or_default() };
        let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(news), Some(output)) = taken else { unreachable!("they were asked for") };
        self.live.send_modify(|live| *live += 1);
        let live = self.live.clone();
        let (report, disarmed) = oneshot::channel();
        let all = made.clone();
        tokio::spawn(async move {
            let _ = child.wait().await; // it has ended either way
            // Runs also if the caller has stopped waiting.
            let look = move || {
                if let Some(watch) = watch {
                    watch.stop();
                }
                all.add(guard.map(|guard| guard.disarm()).unwrap_or_default());
                all.since(0)
            };
            let _ = report.send(tokio::task::spawn_blocking(look).await.unwrap_or_default());
            live.send_modify(|live| *live -= 1);
        });
        // A path that is not UTF-8 cannot be sent, and so not be protected.
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        stdin.write_all(&line).await?;
        kill_switch.0.lock().expect("lock is not poisoned").replace(stdin);
        let kill_on_drop = KillOnDrop(kill_switch);
        Ok(RunningCommand {
            process,
            kill_on_drop,
            news: BufReader::new(news).lines(),
            output,
            made,
            disarmed,
        })
    }

    /// Keeps a command running after its call, until the tree's root ends. Its output goes to `log`, up to
    /// `most` bytes.
    pub(crate) async fn run_in_background(
        self: &Arc<Self>,
        of: RunId,
        (name, workspace): (&str, &Path),
        started: RunningCommand,
        log: tokio::fs::File,
        most: u64,
        at: Millis,
    ) -> Result<(), String> {
        let RunningCommand { process, kill_on_drop, mut news, output, made, disarmed } = started;
        if let Some((store, root)) = &self.journal {
            store.record_process(root, process, at).await.map_err(|error| error.to_string())?;
        }
        self.background.lock().expect("lock is not poisoned").push((of, kill_on_drop));
        let workspace = workspace.to_owned();
        let noted =
            BackgroundCommand { name: name.to_owned(), workspace: workspace.clone(), made, reported: 0 };
        self.noted.lock().expect("lock is not poisoned").push(noted);
        self.live.send_modify(|live| *live += 1);
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let mut log = log;
            let mut kept = output.take(most);
            let _ = tokio::io::copy(&mut kept, &mut log).await; // a full disk ends the log only
            let _ = tokio::io::copy(&mut kept.into_inner(), &mut tokio::io::sink()).await;
            let ending = read_end(&mut news).await;
            let made = disarmed.await.unwrap_or_default();
            let made = made.iter().map(|made| format!("\n[{}]\n", made.describe(&workspace)));
            let last = format!("\n[{}]\n", ending.describe());
            let _ = log.write_all((made.collect::<String>() + &last).as_bytes()).await;
            let _ = log.flush().await;
            if let Some((store, root)) = &this.journal {
                let _ = store.remove_process(root, process).await; // otherwise the next start finds no such process
            }
            this.live.send_modify(|live| *live -= 1);
        });
        Ok(())
    }

    /// Returns descriptions of protected places that background commands have created, each once.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        let mut noted = self.noted.lock().expect("lock is not poisoned");
        let unsaid = noted.iter_mut().flat_map(|BackgroundCommand { name, workspace, made, reported }| {
            let made = made.since(*reported);
            *reported += made.len();
            let words =
                |made: &DisarmedPlace| format!("`{name}`, in the background: {}", made.describe(workspace));
            made.iter().map(words).collect::<Vec<_>>()
        });
        unsaid.collect()
    }

    /// Returns true if a command runs in the background.
    pub(crate) fn has_background(&self) -> bool {
        !self.background.lock().expect("lock is not poisoned").is_empty()
    }

    /// Ends processes that an earlier process of ours left behind.
    pub(crate) async fn end_leftovers(&self) -> Result<(), store::StoreError> {
        let Some((store, root)) = &self.journal else { return Ok(()) };
        for process in store.run(root).processes()? {
            if is_lease_holder_alive(process) {
                outer::kill_tree(process.pid);
            }
            store.remove_process(root, process).await?;
        }
        Ok(())
    }

    /// Ends the background commands of a run.
    pub(crate) fn end_background_of(&self, run: &RunId) {
        self.background.lock().expect("lock is not poisoned").retain(|(of, _)| of != run);
    }

    /// Ends all commands, and waits until they are gone.
    pub(crate) async fn end_all(&self) {
        self.background.lock().expect("lock is not poisoned").clear();
        let mut live = self.live.subscribe();
        let gone = live.wait_for(|live| *live == 0);
        if tokio::time::timeout(CLEANUP_TIMEOUT, gone).await.is_err() {
            tracing::warn!("a command's processes do not end");
        }
        let _ = std::fs::remove_dir_all(&self.tmp); // it may not exist
    }
}

impl ShellConfig {
    /// Runs a command that does nothing, to check that the sandbox works. An error says why it does not.
    pub async fn check(self) -> Result<(), String> {
        let tmp = std::env::temp_dir().join(format!("offshoot-check-{}", std::process::id()));
        let processes = Processes::without_journal(self, tmp);
        let workspace = processes.temp_folder().map_err(|error| error.to_string())?.join(HOME_FOLDER);
        let ended = match processes.start("true", &workspace).await {
            Ok(mut started) => match started.finish(|_| {}).await {
                CommandEnd::Exited(0) => Ok(()),
                ending => Err(ending.describe()),
            },
            Err(why) => Err(why),
        };
        processes.end_all().await;
        ended
    }
}

impl RunningCommand {
    /// Reads the next event of the sandbox processes.
    async fn next_event(&mut self) -> Option<SandboxEvent> {
        let line = self.news.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    /// Waits until all processes are gone, and passes the output to `take`.
    pub(crate) async fn finish(&mut self, mut take: impl FnMut(&[u8])) -> CommandEnd {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = self.output.read(&mut buffer).await {
            take(&buffer[..read]);
        }
        read_end(&mut self.news).await
    }
}

async fn read_end(news: &mut Lines<BufReader<ChildStdout>>) -> CommandEnd {
    let mut ending = CommandEnd::Lost;
    while let Ok(Some(line)) = news.next_line().await {
        match serde_json::from_str(&line) {
            Ok(SandboxEvent::Exited { code }) if ending == CommandEnd::Lost => {
                ending = CommandEnd::Exited(code)
            }
            Ok(SandboxEvent::TooMany { processes }) => ending = CommandEnd::TooMany(processes),
            Ok(SandboxEvent::Refused { why }) => ending = CommandEnd::Refused(why),
            _ => {}
        }
    }
    ending
}

impl CommandEnd {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Exited(0) => "it succeeded".to_owned(),
            // `git` itself exits with 129.
            Self::Exited(code @ 129..=192) => {
                format!("exit code {code} (as after signal {})", code - 128)
            }
            Self::Exited(code) => format!("exit code {code}"),
            Self::TooMany(processes) => {
                format!("it started {processes} processes and was ended")
            }
            Self::Refused(why) => format!("it was not run: {why}"),
            Self::Lost => "it was ended".to_owned(),
        }
    }
}
