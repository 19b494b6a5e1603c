//! The small process that starts a harness, and lets nothing of it outlive the recording.
//!
//! A [`Warden`] is our end of it. It is this same program, started again ([`serve_if_asked`]): where the system
//! allows it, in a network of its own, where every way out leads to a socket of ours. It adopts whatever
//! the harness leaves behind, so that all of it can be ended, also when we are killed ourselves.

mod inside;
mod message;
mod network;

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

use crate::adapter::{Doing, Launch};
use crate::error::HarnessError;
use message::{News, Order, Socket, Start, receive, send};
pub(crate) use network::PROXY_PORT;

/// What our own program is called with to become a warden.
const ARGUMENT: &str = "__warden";
/// How long a program that was asked to end may take.
const GRACE: Duration = Duration::from_secs(3);
/// How long the warden may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(20);

/// Becomes a warden where this program was started as one. Must come first in `main`, before any thread.
pub fn serve_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let asked = arguments.next().is_some_and(|first| first == ARGUMENT);
    asked.then(|| inside::run(arguments.next().is_some_and(|seal| seal == "sealed")))
}

/// Tries whether the system allows a network of its own.
pub(crate) fn try_seal() -> Result<(), String> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| error.to_string())?;
    let mut child = command("sealed")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let heard = receive::<News>(ours.as_fd());
    drop(ours); // it goes when it is alone
    let _ = child.wait(); // only to be rid of it
    match heard {
        Ok(Some((News::Ready { .. }, _))) => Ok(()),
        Ok(Some((News::CannotSeal { why }, _))) => Err(why),
        _ => Err("it did not answer".to_owned()),
    }
}

/// This program as a warden: the file that we are, even if another one has taken its name by now.
fn command(kind: &str) -> Command {
    let running = Path::new("/proc/self/exe");
    let program =
        if running.exists() { running.to_owned() } else { std::env::current_exe().unwrap_or_default() };
    let mut command = Command::new(program);
    // Ctrl-C is for us; we end it in our own time.
    command.args([ARGUMENT, kind]).process_group(0);
    command
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; more than 128 stands for a signal, as shells have it.
    pub code: i32,
    /// We ended it, because it had done what it was asked or took too long: its code says little.
    pub by_us: bool,
}

/// Our end of the small process.
#[derive(Debug)]
pub struct Warden {
    socket: Arc<OwnedFd>,
    news: mpsc::UnboundedReceiver<(News, Vec<OwnedFd>)>,
    child: Child,
    /// What every program gets, before a launch adds to it.
    env: BTreeMap<String, String>,
    cwd: PathBuf,
    next_id: u32,
    /// How those that nobody waited for have ended.
    ended: BTreeMap<u32, i32>,
}

/// The sockets of a sealed network.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) proxy: TcpListener,
    pub(crate) refuser: TcpListener,
    pub(crate) elsewhere: Vec<(u16, TcpListener)>,
    pub(crate) names: Vec<UdpSocket>,
}

/// Where the harness's output goes: the writing ends of two pipes.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// A warden and the network it is in: ours, with the reason, or one of its own.
pub(crate) type Started = (Warden, Result<Sealed, String>);

impl Warden {
    /// Its process: everything it starts is below.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts one. `sealed` where the system allows it; `lock` is held for as long as anything runs.
    pub(crate) async fn start(sealed: bool, outputs: Outputs, lock: &File) -> Result<Started, HarnessError> {
        let mut why = "it was not asked for".to_owned();
        if sealed {
            let outputs = Outputs {
                stdout: outputs.stdout.try_clone().map_err(cannot_start)?,
                stderr: outputs.stderr.try_clone().map_err(cannot_start)?,
            };
            match Self::spawn("sealed", outputs, lock).await? {
                Ok((warden, sockets)) => match arrange(sockets) {
                    Some(sealed) => return Ok((warden, Ok(sealed))),
                    None => why = "a socket is missing".to_owned(),
                },
                Err(refused) => why = refused,
            }
        }
        match Self::spawn("open", outputs, lock).await? {
            Ok((warden, _)) => Ok((warden, Err(why))),
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
        let mut warden = Self {
            news: listen(socket.clone()),
            socket,
            child,
            env: BTreeMap::new(),
            cwd: PathBuf::from("/"),
            next_id: 0,
            ended: BTreeMap::new(),
        };
        let first = tokio::time::timeout(PATIENCE, warden.news.recv()).await;
        match first {
            Ok(Some((News::Ready { sockets }, files))) => {
                send(warden.socket.as_fd(), &Order::Hold, &[lock.as_fd()]).map_err(cannot_start)?;
                Ok(Ok((warden, sockets.into_iter().zip(files).collect())))
            }
            Ok(Some((News::CannotSeal { why }, _))) => Ok(Err(why)),
            _ => Ok(Err("it did not answer".to_owned())),
        }
    }

    /// Where programs are started from now on, and with what around them.
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
        self.order(&Order::Launch(Start {
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
                (News::Started { id: which }, _) if which == id => return Ok(id),
                (News::NotStarted { id: which, why }, _) if which == id => {
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

    /// Waits for the harness to end by itself. May be dropped and called again.
    pub fn wait(&mut self) -> Doing<'_, Result<Ended, HarnessError>> {
        Box::pin(async { Ok(Ended { code: self.exit_of(0).await?, by_us: false }) })
    }

    /// Asks the harness to end, its whole process group, and sees to it that it does.
    pub fn end(&mut self) -> Doing<'_, Result<Ended, HarnessError>> {
        Box::pin(async {
            self.order(&Order::End { id: 0, grace_ms: GRACE.as_millis() as u64 })?;
            Ok(Ended { code: self.exit_of(0).await?, by_us: true })
        })
    }

    /// Connects to a port that the harness listens on, on its own loopback.
    pub async fn connect(&mut self, port: u16) -> Result<TcpStream, HarnessError> {
        self.order(&Order::Connect { port })?;
        let failed = |why: String| {
            let what = format!("cannot connect to the harness on port {port}: {why}");
            HarnessError::outside(what, "its `stderr.txt` in the recording may say why")
        };
        loop {
            match self.next().await? {
                (News::Connected { refused: None }, mut files) => {
                    let file = files.pop().ok_or_else(|| failed("the connection got lost".into()))?;
                    let tcp = std::net::TcpStream::from(file);
                    let tcp = tcp.set_nonblocking(true).and_then(|()| TcpStream::from_std(tcp));
                    return tcp.map_err(|error| failed(error.to_string()));
                }
                (News::Connected { refused: Some(why) }, _) => return Err(failed(why)),
                (other, _) => self.note(&other),
            }
        }
    }

    /// Runs another program to its end, sealed like the first; what it prints goes to the file `stdout`, what
    /// it complains to the same with the extension `stderr`.
    pub async fn run(
        &mut self,
        launch: &Launch,
        stdout: PathBuf,
        deadline: Duration,
    ) -> Result<Ended, HarnessError> {
        let id = self.begin(launch, Some(stdout)).await?;
        if let Ok(code) = tokio::time::timeout(deadline, self.exit_of(id)).await {
            return Ok(Ended { code: code?, by_us: false });
        }
        self.order(&Order::End { id, grace_ms: GRACE.as_millis() as u64 })?;
        Ok(Ended { code: self.exit_of(id).await?, by_us: true })
    }

    /// Ends everything that is left, and the warden.
    pub(crate) async fn finish(mut self) {
        let _ = self.order(&Order::Finish { grace_ms: GRACE.as_millis() as u64 }); // it may be gone already
        while self.news.recv().await.is_some() {}
        let _ = self.child.wait(); // its socket is closed, so it is gone or about to be
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

    fn note(&mut self, news: &News) {
        if let News::Exited { id, code } = news {
            self.ended.insert(*id, *code);
        }
    }

    fn order(&mut self, order: &Order) -> Result<(), HarnessError> {
        send(self.socket.as_fd(), order, &[]).map_err(|source| match source.raw_os_error() {
            Some(code) if code == rustix::io::Errno::MSGSIZE.raw_os_error() => HarnessError::you(
                "the command line is too long",
                "shorten the prompt, or put it into a file of the workspace",
            ),
            _ => lost(),
        })
    }

    async fn next(&mut self) -> Result<(News, Vec<OwnedFd>), HarnessError> {
        self.news.recv().await.ok_or_else(lost)
    }
}

/// Hears the warden on a thread of its own.
fn listen(socket: Arc<OwnedFd>) -> mpsc::UnboundedReceiver<(News, Vec<OwnedFd>)> {
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

/// Sockets by what they are for.
fn arrange(sockets: Vec<(Socket, OwnedFd)>) -> Option<Sealed> {
    let (mut proxy, mut refuser, mut elsewhere, mut names) = (None, None, Vec::new(), Vec::new());
    for (socket, file) in sockets {
        match socket {
            Socket::Proxy => proxy = Some(TcpListener::from(file)),
            Socket::Refuser => refuser = Some(TcpListener::from(file)),
            Socket::Elsewhere { port } => elsewhere.push((port, TcpListener::from(file))),
            Socket::Names => names.push(UdpSocket::from(file)),
        }
    }
    Some(Sealed { proxy: proxy?, refuser: refuser?, elsewhere, names })
}

fn cannot_start(source: std::io::Error) -> HarnessError {
    let what = format!("cannot start the process that would watch the harness: {source}");
    HarnessError::outside(what, "`ulimit -a` shows what this shell may start and open")
}

fn lost() -> HarnessError {
    let what = "the process that watched the harness is gone";
    HarnessError::outside(what, "was it killed? `dmesg | tail` shows whether memory ran out")
}
