//! One harness, one scenario, one recording.
//!
//! Start at [`capture`]. Everything that can be wrong with what was asked is found before anything is recorded; from
//! then on whatever happens is kept, and what is not whole stays unsealed and says why.

mod copy;
mod model;
mod output;
mod plan;
mod ready;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proxy::{BoundProxy, RecordingProxy, UpstreamStatus};
use recording::{
    Command, Counts, FinishedRecording, FolderDisk, Loss, Manifest, Network, NetworkIsolation, ProxyBypass,
    Recorder, RecordingOptions, SealError, iso,
};

use crate::adapter::{Harness, Launch, Plan};
use crate::error::HarnessError;
use crate::install::Tell;
use crate::meter::Meter;
use crate::round::Watch;
use crate::sandbox::Sandbox;
use crate::warden::{Ended, PROXY_PORT, Sealed, Warden};
use copy::Snapshot;
use model::Answering;
use output::Listening;
use plan::Planned;
pub(crate) use plan::given_program;
pub use plan::{Asked, Places, Replaying, Speaker};
pub use ready::Ready;

/// How long calls in flight are waited for when the harness has ended.
const DRAIN: Duration = Duration::from_secs(10);
/// How long the disk may take to swallow what is left.
const DISK_DEADLINE: Duration = Duration::from_secs(30);
/// How long a harness may take to export what it has.
const EXPORT_DEADLINE: Duration = Duration::from_secs(180);

/// A recording, and what is to be said of it.
#[derive(Debug)]
pub struct Captured {
    /// The recording's folder.
    pub dir: PathBuf,
    /// How much it holds.
    pub counts: Counts,
    /// Why it is not sealed, where it is not.
    pub unsealed_because: Option<String>,
    /// What went wrong outside of us, where something did.
    pub failure: Option<Failure>,
    /// What could not be kept.
    pub losses: Vec<Loss>,
    /// What people should know: bodies that were not searched, exports that failed.
    pub warnings: Vec<String>,
    /// Files that look random enough to be a secret that no rule knows.
    pub suspicious: Vec<String>,
    /// Calls that went round the proxy.
    pub round: Vec<ProxyBypass>,
    /// What the model calls cost, where a real provider answered.
    pub spent_usd: Option<f64>,
    /// What kept the harness from the world outside.
    pub network: NetworkIsolation,
    /// How the replay went, where a recording answered.
    pub replayed: Option<proxy::replay::ReplayReport>,
}

/// Something outside of us went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

/// How the harness's run came to its end.
#[derive(Debug)]
enum Outcome {
    Ended(Ended),
    NotStarted(HarnessError),
    Failed(HarnessError),
    Timeout(Duration),
    Budget(f64),
    Unpriced(String),
    Interrupted,
}

/// Runs a harness through a scenario and brings back the recording. `stop` ends it early; `tell` hears what is being
/// done.
pub async fn capture(
    asked: Asked,
    tell: Tell<'_>,
    stop: impl Future<Output = ()>,
) -> Result<Captured, HarnessError> {
    let planned = Planned::of(asked, tell).await?;
    let sandbox = Sandbox::take(&planned.places.slots)?;
    let stage = Stage::set(&planned, sandbox, tell).await?;
    let mut show = stage.open(planned).await?;
    tell(&format!("running {}", show.label()));
    let outcome = show.run(stop).await;
    tell("keeping what it left");
    show.close(outcome).await
}

/// Everything that stands ready before the first byte is recorded.
struct Stage {
    sandbox: Sandbox,
    warden: Warden,
    bound: BoundProxy,
    watch: Watch,
    network: Network,
    answering: Answering,
    pipes: output::Pipes,
}

impl Stage {
    async fn set(planned: &Planned, sandbox: Sandbox, tell: Tell<'_>) -> Result<Self, HarnessError> {
        furnish(planned, &sandbox, tell).await?;
        let answering =
            Answering::start(&planned.speaker, planned.harness.providers(), &sandbox.workspace()).await?;
        let (pipes, outputs) = output::pipes().map_err(HarnessError::io("open", "a pipe"))?;
        let (warden, sealed) = Warden::start(planned.sealed, outputs, sandbox.lock()).await?;
        let (bound, watch, network) = stand(sealed, sandbox.slot()).await?;
        Ok(Self { sandbox, warden, bound, watch, network, answering, pipes })
    }

    /// Writes the harness's settings and begins to record.
    async fn open(self, planned: Planned) -> Result<Show, HarnessError> {
        let Self { sandbox, mut warden, bound, watch, network, answering, pipes } = self;
        let started_at = SystemTime::now();
        let plan = planned.plan(answering.endpoints(bound.addr()), started_at);
        let mut launch = planned.harness.prepare(&plan, &sandbox)?;
        launch.env.extend(plan.env.clone());
        sandbox.settle_times()?;
        let snapshot = Snapshot::of(&sandbox.workspace())?;
        let mut env = sandbox.env();
        env.extend(proxy_variables(watch.refuser));
        warden.settle(sandbox.workspace(), env);
        let dir = planned.dir(started_at);
        let manifest = Manifest {
            harness: Some(planned.describe(&plan)),
            command: Some(command(&launch, &sandbox)),
            listen: vec![bound.addr().to_string()],
            upstreams: answering.upstreams.iter().map(|up| (up.prefix.clone(), up.url())).collect(),
            script: planned.speaker.script_name(),
            replay: planned.speaker.replay(),
            clock: Some(plan.clock.clone()),
            network: Some(network),
            ..Manifest::default()
        };
        let mut settings = RecordingOptions { dir: dir.clone(), started_at, manifest };
        let redactor = planned.redactor(&plan, &launch)?;
        let recorder = Recorder::create(&mut settings, redactor, |dir| Box::new(FolderDisk::new(dir)))
            .map_err(HarnessError::Create)?;
        let listening = pipes.listen(&recorder).map_err(HarnessError::io("read", "the harness's output"))?;
        let capture = bound.start(answering.upstreams.clone(), recorder.clone());
        let meter = Meter::new(&dir);
        Ok(Show {
            planned,
            plan,
            launch,
            sandbox,
            warden,
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

/// Fills the workspace, and gives the harness the programs it expects.
async fn furnish(planned: &Planned, sandbox: &Sandbox, tell: Tell<'_>) -> Result<(), HarnessError> {
    sandbox.fill(&planned.files)?;
    if !planned.harness.uses_ripgrep() {
        return Ok(());
    }
    match crate::install::install_ripgrep(&planned.places.cache, tell).await {
        Ok(ripgrep) => sandbox.sort_ripgrep(&ripgrep),
        Err(error) if planned.harness.needs_ripgrep() => Err(error),
        Err(_) => Ok(()),
    }
}

/// Where the proxy and the watchers stand: in the sealed network, or in the machine's.
async fn stand(
    sealed: Result<Sealed, String>,
    slot: usize,
) -> Result<(BoundProxy, Watch, Network), HarnessError> {
    let failed = || HarnessError::io("listen on", "loopback");
    let (bound, watch, seal, because) = match sealed {
        Ok(sealed) => {
            let (proxy, ways) = sealed.split();
            let bound = RecordingProxy::from_listener(proxy).map_err(failed())?;
            (bound, Watch::sealed(ways).map_err(failed())?, NetworkIsolation::Namespace, None)
        }
        Err(why) => {
            let bound = bind(slot).await?;
            let watch = Watch::in_the_open().await.map_err(failed())?;
            (bound, watch, NetworkIsolation::Environment, Some(why))
        }
    };
    let proxy_port = bound.addr().port();
    Ok((bound, watch, Network { seal, because, proxy_port }))
}

/// The slot's own port where it is free, so that runs see the same one; else any.
async fn bind(slot: usize) -> Result<BoundProxy, HarnessError> {
    let own = PROXY_PORT + 2 * slot as u16;
    let addr = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    match RecordingProxy::bind(addr(own)).await {
        Ok(bound) => Ok(bound),
        Err(_) => RecordingProxy::bind(addr(0)).await.map_err(HarnessError::Bind),
    }
}

/// What leads well-behaved programs to the proxy that refuses.
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

/// A recording that goes on.
struct Show {
    planned: Planned,
    plan: Plan,
    launch: Launch,
    sandbox: Sandbox,
    warden: Warden,
    watch: Watch,
    answering: Answering,
    listening: Listening,
    recorder: Recorder,
    capture: RecordingProxy,
    meter: Meter,
    snapshot: Snapshot,
    settings: RecordingOptions,
    exit_code: Option<i32>,
}

impl Show {
    fn label(&self) -> String {
        let release = &self.plan.release;
        match release.version.as_str() {
            plan::NO_VERSION => format!("`{}`", self.launch.program.display()),
            version => format!("{} {version}", release.name),
        }
    }

    /// Starts the harness and waits until it is done, or has to be.
    async fn run(&mut self, stop: impl Future<Output = ()>) -> Outcome {
        self.answering.watch_process(self.warden.pid());
        if let Err(error) = self.warden.launch(&self.launch).await {
            return Outcome::NotStarted(error);
        }
        let timeout = self.planned.timeout;
        let budget = self.planned.budget;
        let drive = self.planned.harness.drive(&self.plan, &self.sandbox, &mut self.warden);
        let early = tokio::select! {
            done = drive => match done {
                Ok(ended) => {
                    self.exit_code = Some(ended.code);
                    return Outcome::Ended(ended);
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
        // Where nobody says how it ended, the warden still ends all that is left.
        self.exit_code = self.warden.end().await.ok().map(|ended| ended.code);
        early
    }

    /// Keeps what there is, and seals it if it is whole.
    async fn close(mut self, outcome: Outcome) -> Result<Captured, HarnessError> {
        let reach = self.capture.stop(tokio::time::sleep(DRAIN)).await;
        let mut warnings = Vec::new();
        // Whoever interrupts does not want to wait for a harness to tell its story.
        let patience = if matches!(outcome, Outcome::Interrupted) { Duration::ZERO } else { EXPORT_DEADLINE };
        let exports = self.planned.harness.exports(&self.plan, &self.sandbox, &mut self.warden);
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
        self.warden.finish().await;
        let stderr_tail = self.listening.finish().await;
        warnings.extend(self.answering.unanswered());
        let replayed = self.answering.replayed();
        let mut finished = self.recorder.finish(DISK_DEADLINE).ok_or_else(|| {
            HarnessError::outside("the recorder stopped by itself", "please report it: this is our mistake")
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
            // Also where nothing is in them; an error comes again with the first file.
            let _ = std::fs::create_dir(dir.join(folder));
        }
        let copied = finished.write_text(&dir, "scenario.json", scenario.as_bytes());
        let copied = copied.and(match &replayed {
            Some(report) => finished.write_text(&dir, "replay.json", &report.to_json()),
            None => Ok(()),
        });
        let copied = copied.and(incoming).and_then(|incoming| finished.import_files(&dir, &incoming));
        if let Err(error) = copied {
            manifest.unsealed_because =
                Some(format!("the workspace or the exports could not be copied: {error}"));
        }
        manifest.workspace = Some(self.snapshot.compare(&self.sandbox.workspace())?);
        if let Some(command) = &mut manifest.command {
            command.exit_code = self.exit_code;
        }
        let verdict = Verdict::of(outcome, finished.counts, &self.meter, &stderr_tail, &self.plan);
        if manifest.unsealed_because.is_none() {
            manifest.unsealed_because = verdict.unsealed_because;
        }
        let spent = self.planned.speaker.is_live().then_some(self.meter.spent);
        let failure = verdict.failure.or_else(|| unreachable(&reach));
        // Why a harness gave up is to be found with whoever did not answer it.
        let because = match &replayed {
            Some(report) if !report.faults.is_empty() => {
                Some("a fault was asked for; the report above says what happened".to_owned())
            }
            Some(report) if !report.misses.is_empty() => {
                Some("the report above says what was not recorded".to_owned())
            }
            _ => self
                .answering
                .unanswered()
                .map(|_| "mend the script; the warning above says what it has no answer to".to_owned()),
        };
        let failure = failure.map(|failure| Failure { hint: because.unwrap_or(failure.hint), ..failure });
        let captured = seal(finished, dir, manifest, failure, warnings, spent)?;
        Ok(Captured { replayed, ..captured })
    }
}

fn seal(
    finished: FinishedRecording,
    dir: PathBuf,
    manifest: Manifest,
    failure: Option<Failure>,
    warnings: Vec<String>,
    spent_usd: Option<f64>,
) -> Result<Captured, HarnessError> {
    let counts = finished.counts;
    let losses = finished.losses.clone();
    let mut captured = Captured {
        unsealed_because: manifest.unsealed_because.clone(),
        round: manifest.round_the_proxy.clone(),
        network: manifest.network.as_ref().map_or(NetworkIsolation::Environment, |network| network.seal),
        dir: dir.clone(),
        counts,
        failure,
        losses,
        warnings,
        suspicious: Vec::new(),
        spent_usd,
        replayed: None,
    };
    match finished.seal(&dir, manifest) {
        Ok(sealed) => {
            captured.losses = sealed.losses;
            captured.suspicious = sealed.suspicious;
            captured
                .warnings
                .extend(sealed.unsearched.iter().map(|body| format!("not searched for secrets: {body}")));
            Ok(captured)
        }
        Err(error @ SealError::Residue { .. }) => Err(HarnessError::Residue(error)),
        Err(error) => Err(HarnessError::Seal(error)),
    }
}

/// A provider that never answered.
fn unreachable(reach: &[UpstreamStatus]) -> Option<Failure> {
    let silent = reach.iter().find(|reach| reach.answered == 0 && reach.last_error.is_some())?;
    Some(Failure {
        what: silent.last_error.clone().unwrap_or_default(),
        hint: format!("check that `{}` can be reached from here", silent.url),
    })
}

/// What a run's end means for the recording and for whoever asked for it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    unsealed_because: Option<String>,
    failure: Option<Failure>,
}

impl Verdict {
    fn of(outcome: Outcome, counts: Counts, meter: &Meter, stderr: &str, plan: &Plan) -> Self {
        let name = &plan.release.name;
        let program = plan.program.display();
        let read = format!("read `stderr.txt` in the recording, or try `{program} --version`");
        if let Some(words) = &meter.refusal {
            // A harness that gave up by itself has left a whole recording; one that we had to end has not.
            let ended = matches!(outcome, Outcome::Ended(_));
            return Self {
                unsealed_because: (!ended)
                    .then(|| format!("`{name}` did not end after the provider refused")),
                failure: Some(Failure {
                    what: format!("the provider refused: {words}"),
                    hint: "check the key in the environment and the account's credit".to_owned(),
                }),
            };
        }
        match outcome {
            Outcome::Ended(Ended { code: 0, .. } | Ended { by_us: true, .. }) => Self::default(),
            Outcome::Ended(Ended { code, .. }) => {
                let said = if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
                // A run that failed is a run; one that never asked anything is none.
                let nothing = (counts.exchanges == 0)
                    .then(|| format!("`{name}` ended with code {code} before it asked anything"));
                let what = nothing.clone().unwrap_or_else(|| format!("`{name}` ended with code {code}"));
                Self { unsealed_because: nothing, failure: Some(Failure { what: what + &said, hint: read }) }
            }
            Outcome::NotStarted(error) | Outcome::Failed(error) => {
                Self::not_whole(error.to_string(), error.hint().map_or(read, str::to_owned))
            }
            Outcome::Timeout(after) => Self::not_whole(
                format!("`{name}` was still running after {} s and was ended", after.as_secs()),
                "`--timeout SECONDS` gives it longer".to_owned(),
            ),
            Outcome::Budget(spent) => Self::not_whole(
                format!("`{name}` was ended at its budget, after ${spent:.4}"),
                "`--max-budget-usd` sets the limit".to_owned(),
            ),
            Outcome::Unpriced(model) => Self::not_whole(
                format!("`{name}` used the model `{model}`, whose price is not known, and was ended"),
                "use another `--model`, or leave `--max-budget-usd` out".to_owned(),
            ),
            Outcome::Interrupted => {
                Self::not_whole(format!("`{name}` was interrupted"), "start it again".to_owned())
            }
        }
    }

    fn not_whole(what: String, hint: String) -> Self {
        Self { unsealed_because: Some(what.clone()), failure: Some(Failure { what, hint }) }
    }
}

/// The default folder of a recording: `goldens/HARNESS/VERSION/SCENARIO/runs/RUN`. Replays are no candidates for goldens
/// and have a root of their own.
pub(crate) fn default_dir(
    root: &str,
    harness: &dyn Harness,
    folder: &str,
    scenario: &str,
    at: SystemTime,
) -> PathBuf {
    let run: String = iso(at).chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    Path::new(root).join(harness.name()).join(folder).join(scenario).join("runs").join(run)
}
