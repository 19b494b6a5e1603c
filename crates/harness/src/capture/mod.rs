//! Captures one run of one harness.
//!
//! Start at [`capture`]. The request is checked completely before the recording starts. After that,
//! everything that happens is kept. An incomplete recording stays unsealed and names the reason.

mod copy;
mod model_server;
mod output;
mod prepared;
mod request;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proxy::{BoundProxy, RecordingProxy, UpstreamStatus};
use recording::{
    Command, Counts, FinishedRecording, FolderDisk, Loss, Manifest, Network, NetworkIsolation, ProxyBypass,
    Recorder, RecordingOptions, SealError, iso,
};

use crate::adapter::{HarnessAdapter, Plan, RipgrepUse};
use crate::bypass::BypassMonitor;
use crate::error::HarnessError;
use crate::install::Progress;
use crate::launch::Launch;
use crate::meter::Meter;
use crate::sandbox::Sandbox;
use crate::spending::SpendingLimit;
use crate::supervisor::{NamespaceSockets, PROXY_PORT, ProgramExit, Supervisor};
use copy::Snapshot;
use model_server::ModelServer;
use output::OutputReaders;
pub use prepared::PreparedHarness;
use request::PreparedCapture;
pub use request::{
    CaptureFolders, CaptureRequest, ModelSource, ReplaySource, RepliesRequest, ScenarioOverrides,
};

/// Time to wait for open calls after the harness has ended.
const DRAIN: Duration = Duration::from_secs(10);
/// Time for writing the remaining data to the disk.
const DISK_DEADLINE: Duration = Duration::from_secs(30);
/// Time for the exports of a harness.
const EXPORT_DEADLINE: Duration = Duration::from_secs(180);

/// A recording and information about it.
#[derive(Debug)]
pub struct CaptureOutcome {
    /// The recording's folder.
    pub dir: PathBuf,
    /// Numbers of exchanges and bytes.
    pub counts: Counts,
    /// The reason why it is not sealed.
    pub unsealed_because: Option<String>,
    /// A failure outside offshoot, such as the harness or the provider.
    pub failure: Option<CaptureFailure>,
    /// Data that could not be kept.
    pub losses: Vec<Loss>,
    /// Warnings, such as exports that failed.
    pub warnings: Vec<String>,
    /// Parts that were not searched for secrets.
    pub unsearched: Vec<String>,
    /// Files that look random enough to be an unknown secret.
    pub suspicious: Vec<String>,
    /// Calls that bypassed the proxy.
    pub round: Vec<ProxyBypass>,
    /// Cost of the model calls, if a real provider answered.
    pub spent_usd: Option<f64>,
    /// The isolation of the harness from the network.
    pub network: NetworkIsolation,
    /// Report of the replay, if a recording answered.
    pub replayed: Option<proxy::replay::ReplayReport>,
}

/// A failure outside offshoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureFailure {
    /// The message.
    pub what: String,
    /// Advice.
    pub hint: String,
}

/// The end of the harness's run.
#[derive(Debug)]
enum Outcome {
    ProgramExit(ProgramExit),
    NotStarted(HarnessError),
    Failed(HarnessError),
    Timeout(Duration),
    Budget(f64),
    Unpriced(String),
    Interrupted,
}

/// Runs a harness with a scenario and returns the recording. `stop` ends it early; `tell` receives progress
/// messages.
pub async fn capture(
    request: CaptureRequest,
    tell: Progress<'_>,
    stop: impl Future<Output = ()>,
) -> Result<CaptureOutcome, HarnessError> {
    let planned = PreparedCapture::of(request, tell).await?;
    let sandbox = Sandbox::take(&planned.folders.slots)?;
    let stage = Setup::set(&planned, sandbox, tell).await?;
    let mut show = stage.open(planned).await?;
    tell(&format!("running {}", show.label()));
    let outcome = show.run(stop).await;
    tell("saving the results");
    show.close(outcome).await
}

/// Everything that is set up before the recording starts.
struct Setup {
    sandbox: Sandbox,
    supervisor: Supervisor,
    bound: BoundProxy,
    watch: BypassMonitor,
    network: Network,
    answering: ModelServer,
    pipes: output::Pipes,
}

impl Setup {
    async fn set(
        planned: &PreparedCapture,
        sandbox: Sandbox,
        tell: Progress<'_>,
    ) -> Result<Self, HarnessError> {
        prepare_workspace(planned, &sandbox, tell).await?;
        let answering =
            ModelServer::start(&planned.model_source, planned.harness.providers(), &sandbox.workspace())
                .await?;
        let (pipes, outputs) = output::pipes().map_err(HarnessError::io("open", "a pipe"))?;
        let (supervisor, sealed) = Supervisor::start(planned.sealed, outputs, sandbox.lock()).await?;
        let (bound, watch, network) = bind_sockets(sealed, sandbox.slot()).await?;
        Ok(Self { sandbox, supervisor, bound, watch, network, answering, pipes })
    }

    /// Writes the harness's settings and starts the recording.
    async fn open(self, planned: PreparedCapture) -> Result<RunningCapture, HarnessError> {
        let Self { sandbox, mut supervisor, bound, watch, network, answering, pipes } = self;
        let started_at = SystemTime::now();
        let plan = planned.plan(answering.endpoints(bound.addr()), started_at);
        let mut launch = planned.harness.prepare(&plan, &sandbox)?;
        launch.env.extend(plan.env.clone());
        sandbox.settle_times()?;
        let snapshot = Snapshot::of(&sandbox.workspace())?;
        let mut env = sandbox.env();
        env.extend(proxy_variables(watch.refuser));
        supervisor.settle(sandbox.workspace(), env);
        let dir = planned.dir(started_at);
        let manifest = Manifest {
            harness: Some(planned.describe(&plan)),
            command: Some(command(&launch, &sandbox)),
            listen: vec![bound.addr().to_string()],
            upstreams: answering.upstreams.iter().map(|up| (up.prefix.clone(), up.url())).collect(),
            session_header: planned.session_header.clone(),
            script: planned.model_source.script_name(),
            replay: planned.model_source.replay(),
            clock: Some(plan.clock.clone()),
            network: Some(network),
            ..Manifest::default()
        };
        let mut settings = RecordingOptions { dir: dir.clone(), started_at, manifest };
        let redactor = planned.redactor(&plan, &launch)?;
        let recorder = Recorder::create(&mut settings, redactor, |dir| Box::new(FolderDisk::new(dir)))
            .map_err(HarnessError::Create)?;
        let listening =
            pipes.start_reading(&recorder).map_err(HarnessError::io("read", "the harness's output"))?;
        let limit = planned.budget.map(|budget| Arc::new(SpendingLimit::new(budget)));
        let upstreams = answering.upstreams.clone();
        let capture = match limit.clone() {
            Some(limit) => bound.start_gated(upstreams, recorder.clone(), limit),
            None => bound.start(upstreams, recorder.clone()),
        };
        let meter = Meter::new(&dir, limit);
        Ok(RunningCapture {
            planned,
            plan,
            launch,
            sandbox,
            supervisor,
            watch,
            answering,
            listening,
            recorder,
            capture,
            meter,
            snapshot,
            settings,
            exit_code: None,
        })
    }
}

/// Fills the workspace and provides ripgrep.
async fn prepare_workspace(
    planned: &PreparedCapture,
    sandbox: &Sandbox,
    tell: Progress<'_>,
) -> Result<(), HarnessError> {
    sandbox.fill(&planned.files)?;
    let cache = &planned.folders.cache;
    let ripgrep = match planned.harness.ripgrep() {
        RipgrepUse::Never => None,
        RipgrepUse::IfPresent => crate::install::find_ripgrep(cache),
        RipgrepUse::Required => Some(crate::install::install_ripgrep(cache, tell).await?),
        RipgrepUse::Installed => match crate::install::install_ripgrep(cache, tell).await {
            Ok(ripgrep) => Some(ripgrep),
            Err(error) => {
                tell(&format!("continues without ripgrep: {error}"));
                None
            }
        },
    };
    ripgrep.map_or(Ok(()), |ripgrep| sandbox.sort_ripgrep(&ripgrep))
}

/// Opens the proxy and the monitor, in the sealed network or on the machine's.
async fn bind_sockets(
    sealed: Result<NamespaceSockets, String>,
    slot: usize,
) -> Result<(BoundProxy, BypassMonitor, Network), HarnessError> {
    let failed = || HarnessError::io("listen on", "loopback");
    let (bound, watch, seal, because) = match sealed {
        Ok(sealed) => {
            let (proxy, ways) = sealed.split();
            let bound = RecordingProxy::from_listener(proxy).map_err(failed())?;
            (bound, BypassMonitor::sealed(ways).map_err(failed())?, NetworkIsolation::Namespace, None)
        }
        Err(why) => {
            let bound = bind(slot).await?;
            let watch = BypassMonitor::unsealed().await.map_err(failed())?;
            (bound, watch, NetworkIsolation::Environment, Some(why))
        }
    };
    let proxy_port = bound.addr().port();
    Ok((bound, watch, Network { seal, because, proxy_port }))
}

/// Binds the slot's own port, so that runs see the same one, or any port if it is in use.
async fn bind(slot: usize) -> Result<BoundProxy, HarnessError> {
    let own = PROXY_PORT + 2 * slot as u16;
    let addr = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    match RecordingProxy::bind(addr(own)).await {
        Ok(bound) => Ok(bound),
        Err(_) => RecordingProxy::bind(addr(0)).await.map_err(HarnessError::Bind),
    }
}

/// Returns the variables that lead programs to the refusing proxy.
fn proxy_variables(refuser: std::net::SocketAddr) -> Vec<(String, String)> {
    let url = format!("http://{refuser}");
    let none = "localhost,127.0.0.1,::1".to_owned();
    let ways = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, url.clone()));
    let both =
        |(name, value): (&str, String)| [(name.to_owned(), value.clone()), (name.to_lowercase(), value)];
    ways.into_iter().chain([("NO_PROXY", none)]).flat_map(both).collect()
}

fn command(launch: &Launch, sandbox: &Sandbox) -> Command {
    let program = launch.program.display().to_string();
    Command {
        argv: std::iter::once(program).chain(launch.args.iter().cloned()).collect(),
        cwd: sandbox.workspace().display().to_string(),
        home: Some(sandbox.home().display().to_string()),
        tmpdir: Some(sandbox.tmp().display().to_string()),
        exit_code: None,
        output_not_kept: None,
    }
}

/// A running capture.
struct RunningCapture {
    planned: PreparedCapture,
    plan: Plan,
    launch: Launch,
    sandbox: Sandbox,
    supervisor: Supervisor,
    watch: BypassMonitor,
    answering: ModelServer,
    listening: OutputReaders,
    recorder: Recorder,
    capture: RecordingProxy,
    meter: Meter,
    snapshot: Snapshot,
    settings: RecordingOptions,
    exit_code: Option<i32>,
}

impl RunningCapture {
    fn label(&self) -> String {
        let release = &self.plan.release;
        match release.version.as_str() {
            request::NO_VERSION => format!("`{}`", self.launch.program.display()),
            version => format!("{} {version}", release.name),
        }
    }

    /// Starts the harness and waits for its end, or ends it early.
    async fn run(&mut self, stop: impl Future<Output = ()>) -> Outcome {
        self.answering.watch_process(self.supervisor.pid());
        if let Err(error) = self.supervisor.launch(&self.launch).await {
            return Outcome::NotStarted(error);
        }
        let timeout = self.planned.timeout;
        let budget = self.planned.budget;
        let drive = self.planned.harness.drive(&self.plan, &self.sandbox, &mut self.supervisor);
        let early = tokio::select! {
            done = drive => match done {
                Ok(ended) => {
                    self.exit_code = Some(ended.code);
                    return Outcome::ProgramExit(ended);
                }
                Err(error) => Outcome::Failed(error),
            },
            () = tokio::time::sleep(timeout) => Outcome::Timeout(timeout),
            () = self.meter.exceed(budget) => match self.meter.unknown.take() {
                Some(model) => Outcome::Unpriced(model),
                None => Outcome::Budget(self.meter.spent),
            },
            () = stop => Outcome::Interrupted,
        };
        // Without a report of its end, the supervisor still ends all remaining processes.
        self.exit_code = self.supervisor.end().await.ok().map(|ended| ended.code);
        early
    }

    /// Stores the results and seals the recording if it is complete.
    async fn close(mut self, outcome: Outcome) -> Result<CaptureOutcome, HarnessError> {
        let reach = self.capture.stop(tokio::time::sleep(DRAIN)).await;
        let mut warnings = Vec::new();
        // After an interruption, the user does not want to wait for exports.
        let patience = if matches!(outcome, Outcome::Interrupted) { Duration::ZERO } else { EXPORT_DEADLINE };
        let exports = self.planned.harness.exports(&self.plan, &self.sandbox, &mut self.supervisor);
        let exports = match tokio::time::timeout(patience, exports).await {
            Ok(Ok(exports)) => exports,
            Ok(Err(error)) => {
                warnings.push(format!("not exported: {error}"));
                Vec::new()
            }
            Err(_) => {
                warnings.push(match patience.is_zero() {
                    true => "not exported: it was interrupted".to_owned(),
                    false => "not exported: the harness took too long".to_owned(),
                });
                Vec::new()
            }
        };
        self.supervisor.finish().await;
        let stderr_tail = self.listening.finish().await;
        warnings.extend(self.answering.unanswered());
        let replayed = self.answering.replayed();
        let mut finished = self.recorder.finish(DISK_DEADLINE).ok_or_else(|| {
            HarnessError::outside("the recorder stopped by itself", "please report this bug")
        })?;
        self.meter.read();
        let dir = self.settings.dir.clone();
        let mut manifest = self.settings.manifest;
        manifest.started_at = iso(self.settings.started_at);
        manifest.ended_at = Some(iso(SystemTime::now()));
        manifest.round_the_proxy = self.watch.seen();
        let incoming = copy::incoming(&self.sandbox.workspace(), &exports);
        let scenario = self.planned.as_run(&self.plan);
        for folder in ["workspace", "exports"] {
            // Created even if empty. An error shows again with the first file.
            let _ = std::fs::create_dir(dir.join(folder));
        }
        let report = replayed.as_ref().map(|report| ("replay.json", report.to_json()));
        let texts: Vec<_> = [("scenario.json", scenario.into_bytes())].into_iter().chain(report).collect();
        // All secrets are known before the first file is written.
        texts.iter().for_each(|(name, text)| finished.learn_text(name, text));
        let copied = incoming.and_then(|incoming| finished.import_files(&dir, &incoming));
        let written = texts.iter().try_for_each(|(name, text)| finished.write_text(&dir, name, text));
        let copied = copied.and(written);
        if let Err(error) = copied {
            manifest.unsealed_because =
                Some(format!("the workspace or the exports could not be copied: {error}"));
        }
        manifest.workspace = Some(self.snapshot.compare(&self.sandbox.workspace())?);
        if let Some(command) = &mut manifest.command {
            command.exit_code = self.exit_code;
        }
        let verdict = RunResult::of(outcome, finished.counts, &self.meter, &stderr_tail, &self.plan);
        if manifest.unsealed_because.is_none() {
            manifest.unsealed_because = verdict.unsealed_because;
        }
        let spent = self.planned.model_source.is_live().then_some(self.meter.spent);
        let failure = verdict.failure.or_else(|| unreachable(&reach));
        // The reason for giving up is in the report of the model's replies.
        let because = match &replayed {
            Some(report) if !report.faults.is_empty() => {
                Some("a fault was requested; the report above says what happened".to_owned())
            }
            Some(report) if !report.misses.is_empty() => {
                Some("the report above says what was not recorded".to_owned())
            }
            _ => self
                .answering
                .unanswered()
                .map(|_| "fix the script; the warning above names the request without an answer".to_owned()),
        };
        let failure =
            failure.map(|failure| CaptureFailure { hint: because.unwrap_or(failure.hint), ..failure });
        let captured = seal(finished, dir, manifest, failure, warnings, spent)?;
        Ok(CaptureOutcome { replayed, ..captured })
    }
}

fn seal(
    finished: FinishedRecording,
    dir: PathBuf,
    manifest: Manifest,
    failure: Option<CaptureFailure>,
    warnings: Vec<String>,
    spent_usd: Option<f64>,
) -> Result<CaptureOutcome, HarnessError> {
    let counts = finished.counts;
    let losses = finished.losses.clone();
    let mut captured = CaptureOutcome {
        unsealed_because: manifest.unsealed_because.clone(),
        round: manifest.round_the_proxy.clone(),
        network: manifest.network.as_ref().map_or(NetworkIsolation::Environment, |network| network.seal),
        dir: dir.clone(),
        counts,
        failure,
        losses,
        warnings,
        unsearched: Vec::new(),
        suspicious: Vec::new(),
        spent_usd,
        replayed: None,
    };
    match finished.seal(&dir, manifest) {
        Ok(sealed) => {
            captured.losses = sealed.losses;
            captured.suspicious = sealed.suspicious;
            captured.unsearched = sealed.unsearched;
            Ok(captured)
        }
        Err(error @ SealError::Residue { .. }) => Err(HarnessError::Residue(error)),
        Err(error) => Err(HarnessError::Seal(error)),
    }
}

/// Returns a provider that never answered as a failure.
fn unreachable(reach: &[UpstreamStatus]) -> Option<CaptureFailure> {
    let silent = reach.iter().find(|reach| reach.answered == 0 && reach.last_error.is_some())?;
    Some(CaptureFailure {
        what: silent.last_error.clone().unwrap_or_default(),
        hint: format!("check that `{}` can be reached from here", silent.url),
    })
}

/// The consequences of a run's end for the recording and the user.
#[derive(Debug, Default, PartialEq, Eq)]
struct RunResult {
    unsealed_because: Option<String>,
    failure: Option<CaptureFailure>,
}

impl RunResult {
    fn of(outcome: Outcome, counts: Counts, meter: &Meter, stderr: &str, plan: &Plan) -> Self {
        let name = &plan.release.name;
        let program = plan.program.display();
        let read = format!("read `stderr.txt` in the recording, or try `{program} --version`");
        if let Some(words) = &meter.refusal {
            // If the harness ended by itself, its recording is complete; if we ended it, it is not.
            let ended = matches!(outcome, Outcome::ProgramExit(_));
            return Self {
                unsealed_because: (!ended)
                    .then(|| format!("`{name}` did not end after the provider refused")),
                failure: Some(CaptureFailure {
                    what: format!("the provider refused: {words}"),
                    hint: "check the key in the environment and the account's credit".to_owned(),
                }),
            };
        }
        match outcome {
            // What it did after the refusal says nothing about the scenario.
            Outcome::ProgramExit(_) if meter.has_refused() => {
                Self::of(Outcome::Budget(meter.spent), counts, meter, stderr, plan)
            }
            Outcome::ProgramExit(ProgramExit { code: 0, .. } | ProgramExit { by_us: true, .. }) => {
                Self::default()
            }
            Outcome::ProgramExit(ProgramExit { code, .. }) => {
                let said = if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
                // A failed run is a valid recording. A run without any request is not.
                let nothing = (counts.exchanges == 0)
                    .then(|| format!("`{name}` ended with code {code} before it sent a request"));
                let what = nothing.clone().unwrap_or_else(|| format!("`{name}` ended with code {code}"));
                Self {
                    unsealed_because: nothing,
                    failure: Some(CaptureFailure { what: what + &said, hint: read }),
                }
            }
            Outcome::NotStarted(error) | Outcome::Failed(error) => {
                Self::incomplete(error.to_string(), error.hint().map_or(read, str::to_owned))
            }
            Outcome::Timeout(after) => Self::incomplete(
                format!("`{name}` was still running after {} s and was stopped", after.as_secs()),
                "use a longer `--timeout SECONDS`".to_owned(),
            ),
            Outcome::Budget(spent) => Self::incomplete(
                format!("`{name}` was stopped at its budget, after ${spent:.4}"),
                "`--max-budget-usd` sets the limit".to_owned(),
            ),
            Outcome::Unpriced(model) => Self::incomplete(
                format!("`{name}` used the model `{model}`, which has no known price, and was stopped"),
                "use another `--model`, or omit `--max-budget-usd`".to_owned(),
            ),
            Outcome::Interrupted => {
                Self::incomplete(format!("`{name}` was interrupted"), "start it again".to_owned())
            }
        }
    }

    fn incomplete(what: String, hint: String) -> Self {
        Self { unsealed_because: Some(what.clone()), failure: Some(CaptureFailure { what, hint }) }
    }
}

/// Returns the default folder of a recording: `recordings/HARNESS/VERSION/SCENARIO/RUN`, or `replays/…` for a replay.
pub(crate) fn default_dir(
    root: &str,
    harness: &dyn HarnessAdapter,
    folder: &str,
    scenario: &str,
    at: SystemTime,
) -> PathBuf {
    let run: String = iso(at).chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    Path::new(root).join(harness.name()).join(folder).join(scenario).join(run)
}
