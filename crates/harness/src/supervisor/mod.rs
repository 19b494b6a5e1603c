//! The small process that starts a harness and ends everything it leaves running.
//!
//! A [`Supervisor`] is our handle of it. The process is this same program, started again
//! ([`run_supervisor_if_requested`]). Where the system allows it, it has its own network, in which all
//! destinations lead to our sockets. It adopts orphaned processes of the harness, so that it can end them
//! even when we are killed.

mod message;
mod network;
mod process;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::error::HarnessError;
use crate::launch::{HarnessFuture, Launch};
use message::{ProgramStart, Socket, SupervisorCommand, SupervisorEvent, receive, send};
pub(crate) use network::PROXY_PORT;

/// The argument that makes our program a supervisor.
const ARGUMENT: &str = "__supervisor";
/// Time for a program to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// Time for the supervisor to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the supervisor if this process was started as one. Must come first in `main`, before any thread
/// starts.
pub fn run_supervisor_if_requested() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let asked = arguments.next().is_some_and(|first| first == ARGUMENT);
    asked.then(|| process::run(arguments.next().is_some_and(|seal| seal == "sealed")))
}

/// Tests whether the system allows a network namespace.
pub(crate) fn test_isolation() -> Result<(), String> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| error.to_string())?;
    let mut child = command("sealed")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let heard = receive::<SupervisorEvent>(ours.as_fd());
    drop(ours); // the process ends when its socket is closed
    let _ = child.wait(); // only to remove the zombie
    match heard {
        Ok(Some((SupervisorEvent::Ready { .. }, _))) => Ok(()),
        Ok(Some((SupervisorEvent::CannotSeal { why }, _))) => Err(why),
        _ => Err("it did not answer".to_owned()),
    }
}

/// Starts this program as a supervisor, even if another file has taken its path meanwhile.
fn command(kind: &str) -> Command {
    let running = Path::new("/proc/self/exe");
    let program =
        if running.exists() { running.to_owned() } else { std::env::current_exe().unwrap_or_default() };
    let mut command = Command::new(program);
    // Ctrl-C must not reach it; we end it ourselves.
    command.args([ARGUMENT, kind]).process_group(0);
    command
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramExit {
    /// Its exit code; 128 plus the signal if a signal ended it.
    pub code: i32,
    /// True if we ended it, because it was finished or took too long. The code then says little.
    pub by_us: bool,
}

/// Our handle of the supervisor process.
#[derive(Debug)]
pub struct Supervisor {
    socket: Arc<OwnedFd>,
    news: mpsc::UnboundedReceiver<(SupervisorEvent, Vec<OwnedFd>)>,
    child: Child,
    /// The environment of all programs, before a launch adds to it.
    env: BTreeMap<String, String>,
    cwd: PathBuf,
    next_id: u32,
    /// Exit codes that have not been awaited.
    ended: BTreeMap<u32, i32>,
}

/// The sockets of a sealed network.
#[derive(Debug)]
pub(crate) struct NamespaceSockets {
    pub(crate) proxy: TcpListener,
    pub(crate) refuser: TcpListener,
    pub(crate) elsewhere: Vec<(u16, TcpListener)>,
    pub(crate) names: Vec<UdpSocket>,
}

/// The writing ends of the two pipes for the harness's output.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// A supervisor with the sockets of its own network, or the reason why it has none.
pub(crate) type Started = (Supervisor, Result<NamespaceSockets, String>);

impl Supervisor {
    /// Its process id. All programs it starts are descendants of it.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts a supervisor, in its own network if `sealed` and the system allows it. `lock` is held while any
    /// process runs.
    pub(crate) async fn start(sealed: bool, outputs: Outputs, lock: &File) -> Result<Started, HarnessError> {
        let mut why = "it was not requested".to_owned();
        if sealed {
            let outputs = Outputs {
                stdout: outputs.stdout.try_clone().map_err(cannot_start)?,
                stderr: outputs.stderr.try_clone().map_err(cannot_start)?,
            };
            match Self::spawn("sealed", outputs, lock).await? {
                Ok((supervisor, sockets)) => match sort_sockets(sockets) {
                    Some(sealed) => return Ok((supervisor, Ok(sealed))),
                    None => why = "a socket is missing".to_owned(),
                },
                Err(refused) => why = refused,
            }
        }
        match Self::spawn("open", outputs, lock).await? {
            Ok((supervisor, _)) => Ok((supervisor, Err(why))),
            Err(refused) => Err(cannot_start(std::io::Error::other(refused))),
        }
    }

    async fn spawn(
        kind: &str,
        outputs: Outputs,
        lock: &File,
    ) -> Result<Result<(Self, Vec<(Socket, OwnedFd)>), String>, HarnessError> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|error| cannot_start(error.into()))?;
        let child = command(kind)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(outputs.stdout))
            .stderr(Stdio::from(outputs.stderr))
            .spawn()
            .map_err(cannot_start)?;
        let socket = Arc::new(ours);
        let mut supervisor = Self {
            news: listen(socket.clone()),
            socket,
            child,
            env: BTreeMap::new(),
            cwd: PathBuf::from("/"),
            next_id: 0,
            ended: BTreeMap::new(),
        };
        let first = tokio::time::timeout(START_TIMEOUT, supervisor.news.recv()).await;
        match first {
            Ok(Some((SupervisorEvent::Ready { sockets }, files))) => {
                send(supervisor.socket.as_fd(), &SupervisorCommand::Hold, &[lock.as_fd()])
                    .map_err(cannot_start)?;
                Ok(Ok((supervisor, sockets.into_iter().zip(files).collect())))
            }
            Ok(Some((SupervisorEvent::CannotSeal { why }, _))) => Ok(Err(why)),
            _ => Ok(Err("it did not answer".to_owned())),
        }
    }

    /// Sets the working folder and the environment of later programs.
    pub(crate) fn settle(&mut self, cwd: PathBuf, env: BTreeMap<String, String>) {
        self.cwd = cwd;
        self.env = env;
    }

    /// Starts the harness.
    pub(crate) async fn launch(&mut self, launch: &Launch) -> Result<(), HarnessError> {
        self.begin(launch, None).await.map(|_| ())
    }

    async fn begin(&mut self, launch: &Launch, stdout: Option<PathBuf>) -> Result<u32, HarnessError> {
        let id = self.next_id;
        self.next_id += 1;
        let mut env = self.env.clone();
        env.extend(launch.env.clone());
        self.order(&SupervisorCommand::Launch(ProgramStart {
            id,
            program: launch.program.clone(),
            args: launch.args.clone(),
            env,
            cwd: self.cwd.clone(),
            stderr: stdout.as_ref().map(|stdout| stdout.with_extension("stderr")),
            stdout,
        }))?;
        loop {
            match self.next().await? {
                (SupervisorEvent::Started { id: which }, _) if which == id => return Ok(id),
                (SupervisorEvent::NotStarted { id: which, why }, _) if which == id => {
                    let program = launch.program.display();
                    return Err(HarnessError::outside(
                        format!("cannot start `{program}`: {why}"),
                        format!("try it by itself: `{program} --version`"),
                    ));
                }
                (other, _) => self.note(&other),
            }
        }
    }

    /// Waits until the harness ends by itself. May be dropped and called again.
    pub fn wait(&mut self) -> HarnessFuture<'_, Result<ProgramExit, HarnessError>> {
        Box::pin(async { Ok(ProgramExit { code: self.exit_of(0).await?, by_us: false }) })
    }

    /// Ends the process group of the harness and waits for it.
    pub fn end(&mut self) -> HarnessFuture<'_, Result<ProgramExit, HarnessError>> {
        Box::pin(async {
            self.order(&SupervisorCommand::End { id: 0, grace_ms: GRACE.as_millis() as u64 })?;
            Ok(ProgramExit { code: self.exit_of(0).await?, by_us: true })
        })
    }

    /// Connects to a port on the harness's loopback.
    pub async fn connect(&mut self, port: u16) -> Result<TcpStream, HarnessError> {
        self.order(&SupervisorCommand::Connect { port })?;
        let failed = |why: String| {
            let what = format!("cannot connect to the harness on port {port}: {why}");
            HarnessError::outside(what, "its `stderr.txt` in the recording may say why")
        };
        loop {
            match self.next().await? {
                (SupervisorEvent::Connected { refused: None }, mut files) => {
                    let file = files.pop().ok_or_else(|| failed("the connection got lost".into()))?;
                    let tcp = std::net::TcpStream::from(file);
                    let tcp = tcp.set_nonblocking(true).and_then(|()| TcpStream::from_std(tcp));
                    return tcp.map_err(|error| failed(error.to_string()));
                }
                (SupervisorEvent::Connected { refused: Some(why) }, _) => return Err(failed(why)),
                (other, _) => self.note(&other),
            }
        }
    }

    /// Runs another program to its end in the same isolation. Writes its output to the file `stdout`, and its
    /// errors to the same path with the extension `stderr`.
    pub async fn run(
        &mut self,
        launch: &Launch,
        stdout: PathBuf,
        deadline: Duration,
    ) -> Result<ProgramExit, HarnessError> {
        let id = self.begin(launch, Some(stdout)).await?;
        if let Ok(code) = tokio::time::timeout(deadline, self.exit_of(id)).await {
            return Ok(ProgramExit { code: code?, by_us: false });
        }
        self.order(&SupervisorCommand::End { id, grace_ms: GRACE.as_millis() as u64 })?;
        Ok(ProgramExit { code: self.exit_of(id).await?, by_us: true })
    }

    /// Ends all remaining processes and the supervisor.
    pub(crate) async fn finish(mut self) {
        let _ = self.order(&SupervisorCommand::Finish { grace_ms: GRACE.as_millis() as u64 }); // it may be gone already
        while self.news.recv().await.is_some() {}
        let _ = self.child.wait(); // its socket is closed, so it ends
    }

    async fn exit_of(&mut self, id: u32) -> Result<i32, HarnessError> {
        loop {
            if let Some(code) = self.ended.get(&id) {
                return Ok(*code);
            }
            let (news, _) = self.next().await?;
            self.note(&news);
        }
    }

    fn note(&mut self, news: &SupervisorEvent) {
        if let SupervisorEvent::Exited { id, code } = news {
            self.ended.insert(*id, *code);
        }
    }

    fn order(&mut self, order: &SupervisorCommand) -> Result<(), HarnessError> {
        send(self.socket.as_fd(), order, &[]).map_err(|source| match source.raw_os_error() {
            Some(code) if code == rustix::io::Errno::MSGSIZE.raw_os_error() => HarnessError::usage(
                "the command line is too long",
                "shorten the prompt, or put it into a file of the workspace",
            ),
            _ => connection_lost(),
        })
    }

    async fn next(&mut self) -> Result<(SupervisorEvent, Vec<OwnedFd>), HarnessError> {
        self.news.recv().await.ok_or_else(connection_lost)
    }
}

/// Receives events on a thread.
fn listen(socket: Arc<OwnedFd>) -> mpsc::UnboundedReceiver<(SupervisorEvent, Vec<OwnedFd>)> {
    let (tell, news) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(Some(heard)) = receive(socket.as_fd()) {
            if tell.send(heard).is_err() {
                return;
            }
        }
    });
    news
}

/// Sorts sockets by purpose.
fn sort_sockets(sockets: Vec<(Socket, OwnedFd)>) -> Option<NamespaceSockets> {
    let (mut proxy, mut refuser, mut elsewhere, mut names) = (None, None, Vec::new(), Vec::new());
    for (socket, file) in sockets {
        match socket {
            Socket::Proxy => proxy = Some(TcpListener::from(file)),
            Socket::Refuser => refuser = Some(TcpListener::from(file)),
            Socket::Elsewhere { port } => elsewhere.push((port, TcpListener::from(file))),
            Socket::Names => names.push(UdpSocket::from(file)),
        }
    }
    Some(NamespaceSockets { proxy: proxy?, refuser: refuser?, elsewhere, names })
}

fn cannot_start(source: std::io::Error) -> HarnessError {
    let what = format!("cannot start the supervisor process: {source}");
    HarnessError::outside(what, "`ulimit -a` shows what this shell may start and open")
}

fn connection_lost() -> HarnessError {
    let what = "the supervisor process ended unexpectedly";
    HarnessError::outside(what, "was it killed? `dmesg | tail` shows whether memory ran out")
}
