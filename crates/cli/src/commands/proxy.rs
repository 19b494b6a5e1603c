//! `offshoot proxy`: record whatever speaks to a provider.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use proxy::{Capture, Reach, Script, ScriptReport, ScriptedModel, Upstream, Upstreams};
use recording::{
    Command, CreateError, Finished, Folder, Manifest, Recorder, SealError, Settings, iso, load_or_create_key,
};
use wire::redact::Redactor;

use crate::failure::{Kind, OrFail};
use crate::signals::Signals;
use crate::{child, paths};

/// How long the disk may take to swallow what is left.
const DISK_DEADLINE: Duration = Duration::from_secs(30);

/// Record what a harness and its provider say to each other, with the secrets gone
///
/// Point the harness's base URL at the address that is printed, or give its command behind `--`:
/// then ANTHROPIC_BASE_URL and OPENAI_BASE_URL are set for it, its output and exit code are passed
/// through, and the recording is sealed when it ends. Output that goes to a terminal is the command's own
/// and is not kept. Without a command, Ctrl-C seals.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("model").required(true))]
#[command(after_help = "Examples:
  offshoot proxy --upstream https://api.anthropic.com --out rec -- claude -p hello
  offshoot proxy --script examples/hello.yaml --out rec -- claude -p hello
  offshoot proxy --upstream anthropic=https://api.anthropic.com \\
                 --upstream openai=https://api.openai.com/v1 --out rec

Exit codes: the command's own when that is not 0; else 1 the recording was not
sealed because it still holds what looks like a secret, 2 you can fix it,
3 the provider or the disk failed.")]
pub(crate) struct Arguments {
    /// Where requests go; with a PREFIX only those whose path begins with it (repeatable)
    #[arg(long, value_name = "[PREFIX=]URL", group = "model")]
    upstream: Vec<String>,
    /// A script that answers in a model's stead; see docs/script.md
    #[arg(long, value_name = "FILE", group = "model")]
    script: Option<PathBuf>,
    /// The recording's own folder; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The loopback address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Seconds to wait for calls in flight when the command has ended; Ctrl-C ends the wait
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain: u64,
    /// The command to record, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    // One thread passes the bytes on: to wake others for it costs more than it is worth, and those
    // that search and write are beside it.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .or_fail(Kind::Outside)?;
    runtime.block_on(record(arguments))
}

async fn record(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().or_fail(Kind::Outside)?;
    let scripted = scripted_model(arguments.script.as_deref()).await?;
    let upstreams = match &scripted {
        Some(model) => upstreams(&[format!("http://{}", model.addr())])?,
        None => upstreams(&arguments.upstream)?,
    };
    if let Some(program) = arguments.command.first().filter(|program| child::find(program).is_none()) {
        Err(anyhow::anyhow!("cannot find the command `{program}`"))
            .or_fail_with(Kind::Usage, || format!("try `command -v {program}`"))?;
    }
    let data_dir = paths::data_dir().or_fail_with(Kind::Usage, || "export HOME=/home/you".into())?;
    let key = load_or_create_key(&data_dir)
        .or_fail_with(Kind::Usage, || "set OFFSHOOT_DATA_DIR to a folder that you can write".into())?;
    let mut redactor = Redactor::new(key);
    redactor
        .learn_env(std::env::vars_os().map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        }));

    let bound = Capture::bind(arguments.listen).await.or_fail_with(Kind::Usage, || {
        format!(
            "leave `--listen` out to take any free port, or try `ss -ltnp 'sport = :{}'`",
            arguments.listen.port()
        )
    })?;
    let addr = bound.addr();
    let mut settings = settings(&arguments, &upstreams, addr);
    let recorder = Recorder::create(&mut settings, redactor, |dir| Box::new(Folder::new(dir)))
        .map_err(|error| create_failure(error, &arguments.out))?;
    let base_urls = base_urls(&upstreams, addr);
    let capture = bound.start(upstreams, recorder.clone());

    let code = if arguments.command.is_empty() {
        println!("http://{addr}");
        eprintln!("recording to `{}`; Ctrl-C seals it", arguments.out.display());
        signals.next().await;
        None
    } else {
        let running = child::start(&arguments.command, &base_urls, &recorder).or_fail(Kind::Usage)?;
        Some(child::code(running.wait(&mut signals).await.or_fail(Kind::Outside)?))
    };

    let patience = async {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(arguments.drain)) => {}
            _ = signals.next() => {} // whoever asks twice does not want to wait
        }
    };
    let reach = capture.stop(patience).await;
    if let Some(model) = &scripted {
        tell_unanswered(&model.report());
    }
    let finished = recorder
        .finish(DISK_DEADLINE)
        .ok_or_else(|| anyhow::anyhow!("the recorder stopped by itself"))
        .or_fail(Kind::Bug)?;
    let mut manifest = settings.manifest;
    manifest.started_at = iso(settings.started_at);
    manifest.ended_at = Some(iso(SystemTime::now()));
    if let Some(command) = &mut manifest.command {
        command.exit_code = code;
    }
    conclude(finished, &arguments.out, manifest, &reach, code)
}

async fn scripted_model(path: Option<&Path>) -> anyhow::Result<Option<ScriptedModel>> {
    let Some(path) = path else { return Ok(None) };
    let hint = || "docs/script.md describes the format, and examples/hello.yaml is one".to_owned();
    let script = Script::read(path).or_fail_with(Kind::Usage, hint)?;
    let workspace = std::env::current_dir().or_fail(Kind::Usage)?;
    Ok(Some(ScriptedModel::start(script, &workspace).await.or_fail(Kind::Outside)?))
}

/// Says what the script had no answer to.
fn tell_unanswered(report: &ScriptReport) {
    let Some(first) = &report.first_unanswered else { return };
    let requests = if report.unanswered == 1 { "request" } else { "requests" };
    eprintln!("warning: the script has no answer to {} {requests}; the first: {first}", report.unanswered);
    if let Some(unused) = report.unused.first() {
        let more = match report.unused.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        eprintln!("hint: never used: turn {} of lane `{}`{more}", unused.turn, unused.lane);
    }
}

fn upstreams(given: &[String]) -> anyhow::Result<Upstreams> {
    let hint = || {
        "give it as in `--upstream https://api.anthropic.com` or `--upstream openai=https://api.openai.com/v1`".into()
    };
    let list = given.iter().map(|text| Upstream::parse(text)).collect::<Result<Vec<_>, _>>();
    list.and_then(Upstreams::new).or_fail_with(Kind::Usage, hint)
}

fn settings(arguments: &Arguments, upstreams: &Upstreams, addr: SocketAddr) -> Settings {
    let env = |name: &str| std::env::var(name).ok();
    let cwd = std::env::current_dir().unwrap_or_default().display().to_string();
    let command = (!arguments.command.is_empty()).then(|| Command {
        argv: arguments.command.clone(),
        cwd,
        home: env("HOME"),
        tmpdir: env("TMPDIR"),
        exit_code: None,
        output_not_kept: child::on_terminal().then(|| "it went to a terminal".to_owned()),
    });
    let manifest = Manifest {
        command,
        listen: vec![addr.to_string()],
        script: arguments.script.as_ref().map(|script| script.display().to_string()),
        upstreams: upstreams.iter().map(|upstream| (upstream.prefix.clone(), upstream.url())).collect(),
        ..Manifest::default()
    };
    Settings { dir: arguments.out.clone(), started_at: SystemTime::now(), manifest }
}

fn create_failure(error: CreateError, out: &Path) -> anyhow::Error {
    let hint = match &error {
        CreateError::NotEmpty { .. } => format!("give another folder, as in `--out {}-2`", out.display()),
        CreateError::Io { .. } => "give a folder that you can write, as in `--out /tmp/recording`".to_owned(),
    };
    Err::<(), _>(error).or_fail_with(Kind::Usage, || hint).expect_err("it is one")
}

/// The variables that lead a command to us. A provider is recognised by its prefix or host; a lone
/// upstream serves for both.
fn base_urls(upstreams: &Upstreams, addr: SocketAddr) -> Vec<(String, String)> {
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

/// As in `3 exchanges`.
pub(crate) fn counted(exchanges: u64) -> String {
    if exchanges == 1 { "1 exchange".to_owned() } else { format!("{exchanges} exchanges") }
}

/// Seals, says what happened, and finds the exit code.
fn conclude(
    finished: Finished,
    out: &Path,
    manifest: Manifest,
    reach: &[Reach],
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
            if let Some(first) = sealed.suspicious.first() {
                let more = sealed.suspicious.len() - 1;
                eprintln!(
                    "warning: `{first}` and {more} more files hold something random that no rule knows"
                );
                eprintln!("hint: `suspicious` in `{}/recording.json` lists them", out.display());
            }
            eprintln!("recorded {} in `{}`", counted(counts.exchanges), out.display());
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
