//! One recording from the first byte to the seal: whoever answers, and whatever command asks.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use proxy::{RecordingProxy, Upstream, UpstreamStatus, Upstreams};
use recording::{
    Command, CreateError, Finished, Folder, Manifest, Recorder, SealError, Settings, iso, load_or_create_key,
};
use redact::Redactor;

use crate::failure::{Kind, OrFail};
use crate::signals::Signals;
use crate::terminal::counted;
use crate::{child, paths};

/// How long the disk may take to swallow what is left.
const DISK_DEADLINE: Duration = Duration::from_secs(30);

/// What is to be recorded.
pub(crate) struct Session {
    /// The recording's folder.
    pub(crate) out: PathBuf,
    /// The option that named it.
    pub(crate) flag: &'static str,
    pub(crate) listen: SocketAddr,
    /// How long calls in flight are waited for.
    pub(crate) drain: Duration,
    /// The command; nothing to serve until a signal comes.
    pub(crate) command: Vec<String>,
    /// More variables for the command.
    pub(crate) env: Vec<(String, String)>,
    /// Who answers.
    pub(crate) upstreams: Upstreams,
    /// What else the manifest says.
    pub(crate) about: Manifest,
}

impl Session {
    /// Records. `started` hears of the command's process; `ended` is called when all traffic is over, and may give a file
    /// for the recording.
    pub(crate) async fn record(
        self,
        signals: &mut Signals,
        started: impl FnOnce(u32),
        ended: impl FnOnce() -> Option<(&'static str, Vec<u8>)>,
    ) -> anyhow::Result<ExitCode> {
        check_command(&self.command)?;
        let begun = self.begin().await?;
        let command = &begun.session.command;
        let code = if command.is_empty() {
            crate::terminal::print(&format!("http://{}\n", begun.addr));
            eprintln!("recording to `{}`; Ctrl-C seals it", begun.session.out.display());
            signals.next().await;
            None
        } else {
            let variables = [begun.base_urls(), begun.session.env.clone()].concat();
            let running = match child::start(command, &variables, &begun.recorder) {
                Ok(running) => running,
                Err(error) => {
                    let failure = child::not_started(command, error);
                    begun.abandon().await;
                    return Err(failure);
                }
            };
            running.pid().map(started);
            Some(child::code(running.wait(signals).await.or_fail(Kind::Outside)?))
        };
        begun.finish(code, signals, ended).await
    }

    /// Listens, and keeps what passes.
    pub(crate) async fn begin(self) -> anyhow::Result<Begun> {
        let data_dir = paths::data_dir().or_fail_with(Kind::Usage, || "export HOME=/home/you".into())?;
        let key = load_or_create_key(&data_dir)
            .or_fail_with(Kind::Usage, || "set OFFSHOOT_DATA_DIR to a folder that you can write".into())?;
        let mut redactor = Redactor::new(key);
        redactor.learn_env(std::env::vars_os().map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        }));
        let bound =
            RecordingProxy::bind(self.listen).await.or_fail_with(Kind::Usage, || listen_hint(self.listen))?;
        let addr = bound.addr();
        let mut settings = settings(&self, addr);
        let recorder = Recorder::create(&mut settings, redactor, |dir| Box::new(Folder::new(dir)))
            .map_err(|error| create_failure(error, &self.out, self.flag))?;
        let capture = bound.start(self.upstreams.clone(), recorder.clone());
        Ok(Begun { session: self, addr, settings, recorder, capture })
    }
}

/// A recording that is being made.
pub(crate) struct Begun {
    session: Session,
    addr: SocketAddr,
    settings: Settings,
    recorder: Recorder,
    capture: RecordingProxy,
}

impl Begun {
    /// The variables that lead a command to us.
    pub(crate) fn base_urls(&self) -> Vec<(String, String)> {
        base_urls(&self.session.upstreams, self.addr)
    }

    /// Where we listen.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Nothing was recorded after all: the folder, which was empty, goes.
    pub(crate) async fn abandon(self) {
        self.capture.stop(std::future::ready(())).await;
        self.recorder.finish(DISK_DEADLINE);
        if let Err(error) = std::fs::remove_dir_all(&self.session.out) {
            eprintln!("warning: `{}` is left over: {error}", self.session.out.display());
        }
    }

    /// Waits for what is under way, and seals.
    pub(crate) async fn finish(
        self,
        code: Option<i32>,
        signals: &mut Signals,
        ended: impl FnOnce() -> Option<(&'static str, Vec<u8>)>,
    ) -> anyhow::Result<ExitCode> {
        let Self { session, settings, recorder, capture, .. } = self;
        let patience = async {
            tokio::select! {
                () = tokio::time::sleep(session.drain) => {}
                _ = signals.next() => {} // whoever asks twice does not want to wait
            }
        };
        let reach = capture.stop(patience).await;
        let file = ended();
        let mut finished = recorder
            .finish(DISK_DEADLINE)
            .ok_or_else(|| anyhow::anyhow!("the recorder stopped by itself"))
            .or_fail(Kind::Bug)?;
        let mut manifest = settings.manifest;
        manifest.started_at = iso(settings.started_at);
        manifest.ended_at = Some(iso(SystemTime::now()));
        if let Some(command) = &mut manifest.command {
            command.exit_code = code;
        }
        if let Some((name, bytes)) = file {
            finished.bring_text(&session.out, name, &bytes).or_fail(Kind::Outside)?;
        }
        conclude(finished, &session.out, manifest, &reach, code)
    }
}

/// Keys for a command that has none and will not need any: whoever answers does not look at them.
fn spare_keys() -> Vec<(String, String)> {
    let keys = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].into_iter();
    let missing = keys.filter(|name| std::env::var_os(name).is_none());
    missing.map(|name| (name.to_owned(), "offshoot-needs-none".to_owned())).collect()
}

/// What a command is told of whoever stands in for its model: `script` or `replay`. No key is needed, and nobody pays.
pub(crate) fn stand_in(kind: &str) -> Vec<(String, String)> {
    let mut variables = spare_keys();
    variables.push(("OFFSHOOT_STAND_IN".to_owned(), kind.to_owned()));
    variables
}

/// Says at once where a command cannot be found.
pub(crate) fn check_command(command: &[String]) -> anyhow::Result<()> {
    match command.first().filter(|program| child::find(program).is_none()) {
        Some(program) if program.contains('/') && Path::new(program).is_file() => {
            Err(anyhow::anyhow!("cannot start the command `{program}`: it is not executable"))
                .or_fail_with(Kind::Usage, || format!("try `chmod +x {program}`"))
        }
        Some(program) => Err(anyhow::anyhow!("cannot find the command `{program}`"))
            .or_fail_with(Kind::Usage, || format!("try `command -v {program}`")),
        None => Ok(()),
    }
}

/// What to do where a port is taken.
fn listen_hint(listen: SocketAddr) -> String {
    if !listen.ip().is_loopback() {
        let port = listen.port();
        return format!(
            "only loopback is listened on, since nothing protects what passes: `--listen 127.0.0.1:{port}`"
        );
    }
    format!("leave `--listen` out to take any free port, or try `ss -ltnp 'sport = :{}'`", listen.port())
}

fn settings(session: &Session, addr: SocketAddr) -> Settings {
    let env = |name: &str| std::env::var(name).ok();
    let cwd = std::env::current_dir().unwrap_or_default().display().to_string();
    let command = (!session.command.is_empty()).then(|| Command {
        argv: session.command.clone(),
        cwd,
        home: env("HOME"),
        tmpdir: env("TMPDIR"),
        exit_code: None,
        output_not_kept: child::on_terminal().then(|| "it went to a terminal".to_owned()),
    });
    let manifest = Manifest {
        command,
        listen: vec![addr.to_string()],
        upstreams: session
            .upstreams
            .iter()
            .map(|upstream| (upstream.prefix.clone(), upstream.url()))
            .collect(),
        ..session.about.clone()
    };
    Settings { dir: session.out.clone(), started_at: SystemTime::now(), manifest }
}

fn create_failure(error: CreateError, out: &Path, flag: &str) -> anyhow::Error {
    let hint = match &error {
        CreateError::NotEmpty { .. } => format!("give another folder, as in `{flag} {}-2`", out.display()),
        CreateError::Io { .. } => format!("give a folder that you can write, as in `{flag} /tmp/recording`"),
    };
    Err::<(), _>(error).or_fail_with(Kind::Usage, || hint).expect_err("it is one")
}

/// The variables that lead a command to us. A provider is recognised by its prefix or host; a lone
/// upstream serves for both.
pub(crate) fn base_urls(upstreams: &Upstreams, addr: SocketAddr) -> Vec<(String, String)> {
    let mut variables = vec![("OFFSHOOT_PROXY_URL".to_owned(), format!("http://{addr}"))];
    let alone = upstreams.iter().count() == 1;
    for (name, variable) in [("anthropic", "ANTHROPIC_BASE_URL"), ("openai", "OPENAI_BASE_URL")] {
        let is_it = |upstream: &&Upstream| {
            alone || upstream.prefix.contains(name) || upstream.authority().contains(name)
        };
        let Some(upstream) = upstreams.iter().find(is_it) else { continue };
        // OpenAI's clients expect the version in the base URL, Anthropic's add it themselves.
        let version = if name == "openai" && !upstream.is_versioned() { "/v1" } else { "" };
        variables.push((variable.to_owned(), format!("http://{addr}{}{version}", upstream.prefix)));
    }
    variables
}

/// Names what may be a secret that no rule knows.
pub(crate) fn tell_suspicious(files: &[String], dir: &Path) {
    let Some(first) = files.first() else { return };
    let more = match files.len() - 1 {
        0 => "holds".to_owned(),
        more => format!("and {} hold", counted(more as u64, "more file")),
    };
    eprintln!("warning: `{first}` {more} something random that no rule knows");
    eprintln!("hint: `suspicious` in `{}/recording.json` lists them", dir.display());
}

/// Seals, says what happened, and finds the exit code.
fn conclude(
    finished: Finished,
    out: &Path,
    manifest: Manifest,
    reach: &[UpstreamStatus],
    code: Option<i32>,
) -> anyhow::Result<ExitCode> {
    let counts = finished.counts;
    let losses = finished.losses.clone();
    let sealed = finished.seal(out, manifest);
    let losses = sealed.as_ref().map_or(losses, |sealed| sealed.losses.clone());
    for loss in &losses {
        eprintln!("not kept: {loss}");
    }
    let unreachable =
        reach.iter().filter(|reach| reach.answered == 0).filter_map(|reach| reach.last_error.as_ref());
    for error in unreachable.clone() {
        eprintln!("error: {error}");
        eprintln!("hint: check the address given with `--upstream`");
    }
    let failed = match sealed {
        Ok(sealed) => {
            for body in &sealed.unsearched {
                eprintln!("warning: not searched for secrets: {body}");
            }
            tell_suspicious(&sealed.suspicious, out);
            eprintln!("recorded {} in `{}`", counted(counts.exchanges, "exchange"), out.display());
            if counts.exchanges == 0 && code.is_some() {
                eprintln!(
                    "hint: the command sent nothing; does it read ANTHROPIC_BASE_URL or OPENAI_BASE_URL?"
                );
            }
            if losses.is_empty() && unreachable.count() == 0 {
                None
            } else {
                Some(ExitCode::from(Kind::Outside as u8))
            }
        }
        Err(error) => {
            let kind = if matches!(error, SealError::Residue { .. }) { Kind::Verdict } else { Kind::Outside };
            let hint = || format!("`offshoot show {}` lists what is there", out.display());
            Some(crate::failure::print(&Err::<(), _>(error).or_fail_with(kind, hint).expect_err("it is one")))
        }
    };
    match (code, failed) {
        // The command's own verdict comes first.
        (Some(code @ 1..), _) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        (_, Some(failed)) => Ok(failed),
        _ => Ok(ExitCode::SUCCESS),
    }
}
