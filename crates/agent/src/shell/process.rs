//! Our side of a command's processes: started, heard, ended.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use session::RunId;
use store::{Lease, Millis, Store};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{oneshot, watch};

use super::watch::Watch;
use super::{ARGUMENT, Disarmed, Guard, MAKE_HOME, Made, News, Order, Shell, outer, plan, rights};
use crate::process::{is_lease_holder_alive, started};

/// How long everything of a command may take to be gone, and what it made to be looked through.
const BURIAL: Duration = Duration::from_secs(45);

/// The processes of one tree of runs.
pub struct Processes {
    shell: Shell,
    tmp: PathBuf,
    journal: Option<(Store, RunId)>,
    /// How many commands have something that still runs.
    live: watch::Sender<usize>,
    /// Those that outlive their call; they end when these are closed.
    background: Mutex<Vec<(RunId, Lifeline)>>,
    /// What they made that is protected; also those that have ended.
    noted: Mutex<Vec<Noted>>,
}

/// What a command in the background made, and how much of that was told.
struct Noted {
    name: String,
    workspace: PathBuf,
    made: Made,
    told: usize,
}

/// A command that was started. It ends when this is dropped.
pub(crate) struct Started {
    /// The process that all others of it descend from.
    pub(crate) process: Lease,
    pub(crate) lifeline: Lifeline,
    news: Lines<BufReader<ChildStdout>>,
    pub(crate) output: ChildStderr,
    made: Made,
    /// What it made that is protected, when all of it is gone.
    pub(crate) disarmed: oneshot::Receiver<Vec<Disarmed>>,
}

/// A command ends when this is dropped.
pub(crate) struct Lifeline(Cut);

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.0.cut();
    }
}

/// Ends a command that somebody else holds.
#[derive(Clone, Default)]
pub(crate) struct Cut(Arc<Mutex<Option<ChildStdin>>>);

impl Cut {
    pub(crate) fn cut(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself; a signal counts from 128 on.
    Exited(i32),
    /// It had too many processes.
    TooMany(usize),
    /// It was not run.
    Refused(String),
    /// Its processes are gone, and nobody knows why.
    Lost,
}

impl Processes {
    /// None yet.
    pub(crate) fn new(shell: Shell, root: &RunId, store: &Store) -> Self {
        let tmp = std::env::temp_dir().join(format!("offshoot-{root}"));
        let journal = Some((store.clone(), root.clone()));
        Self { journal, ..Self::apart(shell, tmp) }
    }

    /// Processes that no journal knows of.
    pub(crate) fn apart(shell: Shell, tmp: PathBuf) -> Self {
        let live = watch::Sender::new(0);
        Self { shell, tmp, journal: None, live, background: Mutex::default(), noted: Mutex::default() }
    }

    /// Whether commands run without a box.
    pub(crate) fn are_free(&self) -> bool {
        self.shell.without_sandbox
    }

    /// The folder for a tree's temporary files; only its commands may write there.
    pub(crate) fn tmp(&self) -> io::Result<&Path> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.tmp.join(MAKE_HOME))?;
        let found = std::fs::symlink_metadata(&self.tmp)?;
        let ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        // Somebody else may have been faster, in a folder that everybody can write.
        if ours && found.mode() & 0o077 == 0 {
            Ok(&self.tmp)
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// Starts a command; why not, where it cannot.
    pub(crate) async fn start(
        &self,
        command: &str,
        workspace: &Path,
        guard: Option<Arc<Guard>>,
    ) -> Result<Started, String> {
        let tmp = self.tmp().map_err(|error| format!("there is no folder for temporary files: {error}"))?;
        if !self.are_free() && !rights::are_there() {
            return Err(rights::NO_LANDLOCK.to_owned());
        }
        let protected = guard.as_ref().map(|guard| guard.places.clone()).unwrap_or_default();
        let mut order = plan::order(&self.shell, command, workspace, tmp, protected);
        loop {
            let mut started = self.spawn(&order, guard.clone()).await.map_err(|error| error.to_string())?;
            match started.hear().await {
                Some(News::Begun) => return Ok(started),
                Some(News::NoNamespaces { why }) if order.namespaces => {
                    tracing::info!(why, "commands go without namespaces");
                    order.namespaces = false;
                }
                Some(News::Refused { why }) => return Err(why),
                other => return Err(format!("it broke off at its start: {other:?}")),
            }
        }
    }

    async fn spawn(&self, order: &Order, guard: Option<Arc<Guard>>) -> io::Result<Started> {
        let launcher = self.shell.launcher.as_ref().ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, "this program has no launcher for commands")
        })?;
        let (cut, made, mut watch) = (Cut::default(), Made::default(), None);
        if let Some(guard) = guard.clone() {
            let (cut, made) = (cut.clone(), made.clone());
            watch = tokio::task::spawn_blocking(move || Watch::begin(guard, cut, made)).await?;
        }
        // In a group of its own: Ctrl-C at our terminal is for us to act on.
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
        let (tell, disarmed) = oneshot::channel();
        let all = made.clone();
        tokio::spawn(async move {
            let _ = child.wait().await; // it is gone either way
            // Also where nobody waits for it any more.
            let look = move || {
                if let Some(watch) = watch {
                    watch.end();
                }
                all.add(guard.map(|guard| guard.disarm()).unwrap_or_default());
                all.since(0)
            };
            let _ = tell.send(tokio::task::spawn_blocking(look).await.unwrap_or_default());
            live.send_modify(|live| *live -= 1);
        });
        // A path that is not text cannot be handed on, and so not be protected.
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        stdin.write_all(&line).await?;
        cut.0.lock().unwrap_or_else(PoisonError::into_inner).replace(stdin);
        let lifeline = Lifeline(cut);
        Ok(Started { process, lifeline, news: BufReader::new(news).lines(), output, made, disarmed })
    }

    /// Lets a command go on after its call, under a name: what it says goes to `log`, up to `most` bytes, until the tree's
    /// root ends.
    pub(crate) async fn keep(
        self: &Arc<Self>,
        of: RunId,
        (name, workspace): (&str, &Path),
        started: Started,
        log: tokio::fs::File,
        most: u64,
        at: Millis,
    ) -> Result<(), String> {
        let Started { process, lifeline, mut news, output, made, disarmed } = started;
        if let Some((store, root)) = &self.journal {
            store.process_started(root, process, at).await.map_err(|error| error.to_string())?;
        }
        self.background.lock().unwrap_or_else(PoisonError::into_inner).push((of, lifeline));
        let workspace = workspace.to_owned();
        let noted = Noted { name: name.to_owned(), workspace: workspace.clone(), made, told: 0 };
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
        self.live.send_modify(|live| *live += 1);
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let mut log = log;
            let mut kept = output.take(most);
            let _ = tokio::io::copy(&mut kept, &mut log).await; // a full disk is the command's bad luck
            let _ = tokio::io::copy(&mut kept.into_inner(), &mut tokio::io::sink()).await;
            let ending = hear_end(&mut news).await;
            let made = disarmed.await.unwrap_or_default();
            let made = made.iter().map(|made| format!("\n[{}]\n", made.in_words(&workspace)));
            let last = format!("\n[{}]\n", ending.in_words());
            let _ = log.write_all((made.collect::<String>() + &last).as_bytes()).await;
            let _ = log.flush().await;
            if let Some((store, root)) = &this.journal {
                let _ = store.process_gone(root, process).await; // the next sweep finds nothing under its number
            }
            this.live.send_modify(|live| *live -= 1);
        });
        Ok(())
    }

    /// What commands in the background made that is protected, and nobody was told of yet.
    pub(crate) fn unsaid(&self) -> Vec<String> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let unsaid = noted.iter_mut().flat_map(|Noted { name, workspace, made, told }| {
            let made = made.since(*told);
            *told += made.len();
            let words =
                |made: &Disarmed| format!("`{name}`, in the background: {}", made.in_words(workspace));
            made.iter().map(words).collect::<Vec<_>>()
        });
        unsaid.collect()
    }

    /// Whether something runs in the background.
    pub(crate) fn have_background(&self) -> bool {
        !self.background.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Ends what an earlier process of ours left, should anything have survived it.
    pub(crate) async fn sweep(&self) -> Result<(), store::StoreError> {
        let Some((store, root)) = &self.journal else { return Ok(()) };
        for process in store.run(root).processes()? {
            if is_lease_holder_alive(process) {
                outer::end_tree(process.pid);
            }
            store.process_gone(root, process).await?;
        }
        Ok(())
    }

    /// Ends what a run has left in the background.
    pub(crate) fn end_of(&self, run: &RunId) {
        self.background.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _)| of != run);
    }

    /// Ends everything, and waits until it is gone.
    pub(crate) async fn end(&self) {
        self.background.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut live = self.live.subscribe();
        let gone = live.wait_for(|live| *live == 0);
        if tokio::time::timeout(BURIAL, gone).await.is_err() {
            tracing::warn!("a command's processes do not end");
        }
        let _ = std::fs::remove_dir_all(&self.tmp); // it may never have been made
    }
}

impl Shell {
    /// Runs a command that does nothing, as any other is run; why not, where that cannot be.
    pub async fn check(self) -> Result<(), String> {
        let tmp = std::env::temp_dir().join(format!("offshoot-check-{}", std::process::id()));
        let processes = Processes::apart(self, tmp);
        let workspace = processes.tmp().map_err(|error| error.to_string())?.join(MAKE_HOME);
        let ended = match processes.start("true", &workspace, None).await {
            Ok(mut started) => match started.finish(|_| {}).await {
                Ending::Exited(0) => Ok(()),
                ending => Err(ending.in_words()),
            },
            Err(why) => Err(why),
        };
        processes.end().await;
        ended
    }
}

impl Started {
    /// The next thing that its processes say.
    async fn hear(&mut self) -> Option<News> {
        let line = self.news.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    /// Waits until all of it is gone, and takes what it says meanwhile.
    pub(crate) async fn finish(&mut self, mut take: impl FnMut(&[u8])) -> Ending {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = self.output.read(&mut buffer).await {
            take(&buffer[..read]);
        }
        hear_end(&mut self.news).await
    }
}

async fn hear_end(news: &mut Lines<BufReader<ChildStdout>>) -> Ending {
    let mut ending = Ending::Lost;
    while let Ok(Some(line)) = news.next_line().await {
        match serde_json::from_str(&line) {
            Ok(News::Exited { code }) if ending == Ending::Lost => ending = Ending::Exited(code),
            Ok(News::TooMany { processes }) => ending = Ending::TooMany(processes),
            Ok(News::Refused { why }) => ending = Ending::Refused(why),
            _ => {}
        }
    }
    ending
}

impl Ending {
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Exited(0) => "it ended well".to_owned(),
            // `git` ends with 129 by itself.
            Self::Exited(code @ 129..=192) => {
                format!("exit code {code}, as after signal {}", code - 128)
            }
            Self::Exited(code) => format!("exit code {code}"),
            Self::TooMany(processes) => {
                format!("it had {processes} processes and was ended with all of them")
            }
            Self::Refused(why) => format!("it was not run: {why}"),
            Self::Lost => "it was ended".to_owned(),
        }
    }
}
