//! Makes one recording, from the first byte to the seal, for any upstream and any command.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use proxy::{BindError, BoundProxy, RecordingProxy, Upstream, UpstreamStatus, Upstreams};
use recording::{
    Command, CreateError, FinishedRecording, FolderDisk, Manifest, Recorder, RecordingOptions, SealError,
    iso, load_or_create_key,
};
use redact::Redactor;

use crate::failure::{ExitKind, OrFail};
use crate::signals::Signals;
use crate::{child, paths};

/// Maximum time to write the rest to the disk.
const DISK_DEADLINE: Duration = Duration::from_secs(30);

/// Plan of one recording.
pub(crate) struct RecordingPlan {
    /// Folder of the recording.
    pub(crate) out: PathBuf,
    /// Option that named the folder.
    pub(crate) flag: &'static str,
    pub(crate) listen: SocketAddr,
    /// True if other machines may reach the address.
    pub(crate) allow_remote: bool,
    /// Maximum wait for calls in flight.
    pub(crate) drain: Duration,
    /// Command to record. Without one, the proxy serves until a signal comes.
    pub(crate) command: Vec<String>,
    /// Additional variables for the command.
    pub(crate) env: Vec<(String, String)>,
    /// Servers that answer.
    pub(crate) upstreams: Upstreams,
    /// Manifest with the fields that the caller knows.
    pub(crate) manifest: Manifest,
}

impl RecordingPlan {
    /// Records. `started` receives the process id of the command. `ended` is called after the last traffic, and may return
    /// a file for the recording.
    pub(crate) async fn record(
        self,
        signals: &mut Signals,
        started: impl FnOnce(u32),
        ended: impl FnOnce() -> Option<(&'static str, Vec<u8>)>,
    ) -> anyhow::Result<ExitCode> {
        check_command(&self.command)?;
        let active = self.start().await?;
        let command = &active.plan.command;
        let code = if command.is_empty() {
            crate::terminal::print(&format!("http://{}\n", active.addr));
            status!("recording to `{}`; Ctrl-C seals it", active.plan.out.display());
            signals.next().await;
            None
        } else {
            let variables = [active.base_urls(), active.plan.env.clone()].concat();
            let running = match child::start(command, &variables, &active.recorder) {
                Ok(running) => running,
                Err(error) => {
                    let failure = child::start_error(command, error);
                    active.discard().await;
                    return Err(failure);
                }
            };
            running.pid().map(started);
            Some(child::exit_code(running.wait(signals).await.or_fail(ExitKind::Outside)?))
        };
        active.finish(code, signals, ended).await
    }

    /// Starts the proxy and the recorder.
    pub(crate) async fn start(self) -> anyhow::Result<ActiveRecording> {
        let data_dir = paths::data_dir().or_fail_with(ExitKind::Usage, || "export HOME=/home/you".into())?;
        let key = load_or_create_key(&data_dir)
            .or_fail_with(ExitKind::Usage, || "set OFFSHOOT_DATA_DIR to a writable folder".into())?;
        let mut redactor = Redactor::new(key);
        redactor.learn_env(std::env::vars_os().map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        }));
        let bound = self.bind().await.or_fail_with(ExitKind::Usage, || listen_hint(self.listen))?;
        let addr = bound.addr();
        let mut settings = settings(&self, addr);
        let recorder = Recorder::create(&mut settings, redactor, |dir| Box::new(FolderDisk::new(dir)))
            .map_err(|error| create_failure(error, &self.out, self.flag))?;
        let capture = bound.start(self.upstreams.clone(), recorder.clone());
        Ok(ActiveRecording { plan: self, addr, settings, recorder, capture })
    }
}

impl RecordingPlan {
    async fn bind(&self) -> Result<BoundProxy, BindError> {
        if !self.allow_remote || self.listen.ip().is_loopback() {
            return RecordingProxy::bind(self.listen).await;
        }
        let failed = |source| BindError::Bind { addr: self.listen, source };
        let listener = TcpListener::bind(self.listen).map_err(failed)?;
        warn_remote(self.listen);
        RecordingProxy::from_listener(listener).map_err(failed)
    }
}

/// Warns that others can reach an address.
pub(crate) fn warn_remote(listen: SocketAddr) {
    warning!("everyone who reaches `{listen}` can use the provider through it; the traffic is not protected");
}

/// A recording in progress.
pub(crate) struct ActiveRecording {
    plan: RecordingPlan,
    addr: SocketAddr,
    settings: RecordingOptions,
    recorder: Recorder,
    capture: RecordingProxy,
}

impl ActiveRecording {
    /// Returns the variables that direct a command to the proxy.
    pub(crate) fn base_urls(&self) -> Vec<(String, String)> {
        base_urls(&self.plan.upstreams, self.addr)
    }

    /// Returns the address of the proxy.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends without a recording, and removes the folder, which was empty before.
    pub(crate) async fn discard(self) {
        self.capture.stop(std::future::ready(())).await;
        self.recorder.finish(DISK_DEADLINE);
        if let Err(error) = std::fs::remove_dir_all(&self.plan.out) {
            warning!("cannot remove `{}`: {error}", self.plan.out.display());
        }
    }

    /// Waits for calls in flight, and seals.
    pub(crate) async fn finish(
        self,
        code: Option<i32>,
        signals: &mut Signals,
        ended: impl FnOnce() -> Option<(&'static str, Vec<u8>)>,
    ) -> anyhow::Result<ExitCode> {
        let Self { plan, settings, recorder, capture, .. } = self;
        let timeout = async {
            tokio::select! {
                () = tokio::time::sleep(plan.drain) => {}
                _ = signals.next() => {} // a second signal ends the wait
            }
        };
        let upstreams = capture.stop(timeout).await;
        let file = ended();
        let mut finished = recorder
            .finish(DISK_DEADLINE)
            .ok_or_else(|| anyhow::anyhow!("the recorder stopped unexpectedly"))
            .or_fail(ExitKind::Bug)?;
        let mut manifest = settings.manifest;
        manifest.started_at = iso(settings.started_at);
        manifest.ended_at = Some(iso(SystemTime::now()));
        if let Some(command) = &mut manifest.command {
            command.exit_code = code;
        }
        if let Some((name, bytes)) = file {
            finished.write_text(&plan.out, name, &bytes).or_fail(ExitKind::Outside)?;
        }
        seal(finished, &plan.out, manifest, &upstreams, code)
    }
}

/// Variable with the start of the recording that answers a command.
pub(crate) const RECORDED_AT: &str = "OFFSHOOT_RECORDED_AT";

/// Key for a script or a replay, which does not check it.
pub(crate) const NO_KEY: &str = "offshoot-needs-none";

/// Returns keys for a command that has none. The server that answers does not check them.
fn placeholder_keys() -> Vec<(String, String)> {
    let keys = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].into_iter();
    let missing = keys.filter(|name| std::env::var_os(name).is_none());
    missing.map(|name| (name.to_owned(), NO_KEY.to_owned())).collect()
}

/// Returns the variables of a command whose model is replaced by a `script` or a `replay`. It needs no key and costs
/// nothing.
pub(crate) fn substitute_variables(kind: &str) -> Vec<(String, String)> {
    let mut variables = placeholder_keys();
    variables.push(("OFFSHOOT_STAND_IN".to_owned(), kind.to_owned()));
    variables
}

/// Refuses a command that cannot be found.
pub(crate) fn check_command(command: &[String]) -> anyhow::Result<()> {
    match command.first().filter(|program| child::find(program).is_none()) {
        Some(program) if program.contains('/') && Path::new(program).is_file() => {
            Err(anyhow::anyhow!("cannot start the command `{program}`: it is not executable"))
                .or_fail_with(ExitKind::Usage, || format!("chmod +x {program}"))
        }
        Some(program) => Err(anyhow::anyhow!("cannot find the command `{program}`"))
            .or_fail_with(ExitKind::Usage, || format!("command -v {program}")),
        None => Ok(()),
    }
}

/// Returns the hint for an address that cannot be used.
fn listen_hint(listen: SocketAddr) -> String {
    if !listen.ip().is_loopback() {
        let port = listen.port();
        return format!("use `--listen 127.0.0.1:{port}`, or add `--allow-remote` for containers");
    }
    format!("omit `--listen` to use any free port, or see `ss -ltnp 'sport = :{}'`", listen.port())
}

fn settings(plan: &RecordingPlan, addr: SocketAddr) -> RecordingOptions {
    let env = |name: &str| std::env::var(name).ok();
    let cwd = std::env::current_dir().unwrap_or_default().display().to_string();
    let command = (!plan.command.is_empty()).then(|| Command {
        argv: plan.command.clone(),
        cwd,
        home: env("HOME"),
        tmpdir: env("TMPDIR"),
        exit_code: None,
        output_not_kept: child::on_terminal().then(|| "it went to a terminal".to_owned()),
    });
    let manifest = Manifest {
        command,
        listen: vec![addr.to_string()],
        upstreams: plan.upstreams.iter().map(|upstream| (upstream.prefix.clone(), upstream.url())).collect(),
        ..plan.manifest.clone()
    };
    RecordingOptions { dir: plan.out.clone(), started_at: SystemTime::now(), manifest }
}

fn create_failure(error: CreateError, out: &Path, flag: &str) -> anyhow::Error {
    let hint = match &error {
        CreateError::NotEmpty { .. } => format!("give another folder: `{flag} {}-2`", out.display()),
        CreateError::Io { .. } => format!("give a writable folder: `{flag} /tmp/recording`"),
    };
    Err::<(), _>(error).or_fail_with(ExitKind::Usage, || hint).expect_err("it is one")
}

/// Returns the variables that direct a command to the proxy. A provider is recognised by its prefix or host. A single
/// upstream serves all providers.
pub(crate) fn base_urls(upstreams: &Upstreams, addr: SocketAddr) -> Vec<(String, String)> {
    let addr = local(addr);
    let mut variables = vec![("OFFSHOOT_PROXY_URL".to_owned(), format!("http://{addr}"))];
    let is_single = upstreams.iter().count() == 1;
    for (name, variable) in [("anthropic", "ANTHROPIC_BASE_URL"), ("openai", "OPENAI_BASE_URL")] {
        let is_it = |upstream: &&Upstream| {
            is_single || upstream.prefix.contains(name) || upstream.authority().contains(name)
        };
        let Some(upstream) = upstreams.iter().find(is_it) else { continue };
        // OpenAI's clients expect the version in the base URL, Anthropic's add it themselves.
        let version = if name == "openai" && !upstream.is_versioned() { "/v1" } else { "" };
        variables.push((variable.to_owned(), format!("http://{addr}{}{version}", upstream.prefix)));
    }
    variables
}

/// Warns of parts that were not searched for secrets.
pub(crate) fn warn_unsearched(parts: &[String], dir: &Path) {
    const SHOWN: usize = 3;
    for part in parts.iter().take(SHOWN) {
        warning!("not searched for secrets: {part}");
    }
    if parts.len() > SHOWN {
        warning!("not searched for secrets: {}", report::counted((parts.len() - SHOWN) as u64, "more part"));
        hint!("see `unsearched` in `{}/recording.json`", dir.display());
    }
}

/// Returns the address at which this machine reaches a listener.
fn local(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}

/// Warns of files that may hold a secret that no rule knows.
pub(crate) fn warn_suspicious(files: &[String], dir: &Path) {
    let Some(first) = files.first() else { return };
    let more = match files.len() - 1 {
        0 => "holds".to_owned(),
        more => format!("and {} hold", report::counted(more as u64, "more file")),
    };
    warning!("`{first}` {more} random text that may be a secret");
    hint!("see `suspicious` in `{}/recording.json`", dir.display());
}

/// Seals the recording, prints the result, and returns the exit code.
fn seal(
    finished: FinishedRecording,
    out: &Path,
    manifest: Manifest,
    upstreams: &[UpstreamStatus],
    code: Option<i32>,
) -> anyhow::Result<ExitCode> {
    let counts = finished.counts;
    let losses = finished.losses.clone();
    let sealed = finished.seal(out, manifest);
    let losses = sealed.as_ref().map_or(losses, |sealed| sealed.losses.clone());
    for loss in &losses {
        status!("not kept: {loss}");
    }
    let unreachable = upstreams.iter().filter(|it| it.answered == 0).filter_map(|it| it.last_error.as_ref());
    for error in unreachable.clone() {
        error!("{error}");
        hint!("check the address of `--upstream`");
    }
    let failed = match sealed {
        Ok(sealed) => {
            warn_unsearched(&sealed.unsearched, out);
            warn_suspicious(&sealed.suspicious, out);
            status!("recorded {} in `{}`", report::counted(counts.exchanges, "exchange"), out.display());
            if counts.exchanges == 0 && code.is_some() {
                hint!("the command sent nothing; make it read ANTHROPIC_BASE_URL or OPENAI_BASE_URL");
            }
            if losses.is_empty() && unreachable.count() == 0 {
                None
            } else {
                Some(ExitCode::from(ExitKind::Outside as u8))
            }
        }
        Err(error) => {
            let kind = if matches!(error, SealError::Residue { .. }) {
                ExitKind::Verdict
            } else {
                ExitKind::Outside
            };
            let hint = || format!("offshoot show {}", out.display());
            Some(crate::failure::print(&Err::<(), _>(error).or_fail_with(kind, hint).expect_err("it is one")))
        }
    };
    match (code, failed) {
        // The exit code of the command takes precedence.
        (Some(code @ 1..), _) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        (_, Some(failed)) => Ok(failed),
        _ => Ok(ExitCode::SUCCESS),
    }
}
