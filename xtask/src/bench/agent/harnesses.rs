//! Twenty reads by our kernel and by other harnesses, one by one, with a scripted model in its own process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{CaptureFolders, CaptureRequest, PreparedHarness, RepliesRequest, ScenarioOverrides};

use super::sample::{HarnessRow, HarnessSample};
use crate::bench::process;
use crate::bench::server::{Server, StopSignal};
use crate::cache;

const SCENARIO: &str = "single-agent-20-reads";
/// Twenty reads and the final reply.
const MIN_REQUESTS: usize = 21;
/// Ours is first, because the table compares the others with it.
const HARNESSES: [&str; 3] = ["offshoot", "claude-code", "opencode"];
const PATIENCE: Duration = Duration::from_secs(180);

/// One harness with a persistent HOME.
struct HarnessTarget {
    name: String,
    program: Option<PathBuf>,
    ready: PreparedHarness,
    script: PathBuf,
    folder: PathBuf,
}

/// Measures each harness in turn, in an order that rotates from round to round, after a warm-up.
pub(super) fn measure(offshoot: &Path, folder: &Path, rounds: u16) -> Result<Vec<HarnessRow>> {
    // Not in our own folders, because harnesses read files in all folders above their workspace.
    let slots = tempfile::Builder::new().prefix("offshoot-bench-").tempdir_in("/var/tmp")?;
    let mut targets = Vec::new();
    for name in HARNESSES {
        let folder = folder.join(name);
        targets.push(HarnessTarget::prepare(name, offshoot, folder, slots.path())?);
    }
    let mut rows: Vec<HarnessRow> =
        targets.iter().map(|target| HarnessRow { name: target.name.clone(), samples: Vec::new() }).collect();
    for round in 0..=rounds {
        for turn in 0..targets.len() {
            let at = (turn + usize::from(round)) % targets.len();
            let target = &targets[at];
            let sample =
                target.measure(offshoot, round).with_context(|| format!("cannot measure {}", target.name))?;
            let HarnessSample { seconds, megabytes, .. } = sample;
            let which = if round == 0 { "warm-up".to_owned() } else { format!("round {round}") };
            eprintln!("{which}, {}: {seconds:.3} s, {megabytes:.0} MB", target.name);
            if round > 0 {
                rows[at].samples.push(sample);
            }
        }
    }
    Ok(rows)
}

impl HarnessTarget {
    fn prepare(name: &str, offshoot: &Path, folder: PathBuf, slots: &Path) -> Result<HarnessTarget> {
        fs::create_dir(&folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        let harness = harness::find(name).with_context(|| format!("unknown harness `{name}`"))?;
        let version = harness.versions().last().context("a harness has a version")?;
        let label = format!("{name} {version}");
        let asked = CaptureRequest {
            harness,
            version: None,
            host_version: None,
            scenario: harness::find_scenario(SCENARIO, None)?,
            overrides: ScenarioOverrides::default(),
            replies: RepliesRequest::default(),
            out: None,
            arguments: Vec::new(),
            session_header: None,
            clock: None,
            env: BTreeMap::new(),
            sealed: false,
            folders: CaptureFolders {
                data: folder.join("data"),
                cache: cache::folder()?,
                slots: slots.to_owned(),
            },
            user_env: BTreeMap::new(),
        };
        let ready = crate::bench::on_runtime(async {
            Ok(PreparedHarness::take(asked, &|what: &str| eprintln!("{what}")).await?)
        })?;
        let script = folder.join("script.yaml");
        fs::write(&script, ready.script().context("the scenario has a script")?)?;
        // `PreparedHarness` would use the running program, which is `xtask`.
        let program = (name == "offshoot").then(|| offshoot.to_owned());
        Ok(HarnessTarget { name: label, program, ready, script, folder })
    }

    /// Measures one start with a new model, because an old one would use other ids for a second conversation.
    fn measure(&self, offshoot: &Path, round: u16) -> Result<HarnessSample> {
        let place = self.folder.join(round.to_string());
        fs::create_dir(&place)?;
        let (model, address) = self.model(offshoot, &place)?;
        let launch = self.ready.launch(address, round)?;
        let (stdout, stderr) = (place.join("stdout"), place.join("stderr"));
        let mut command = Command::new(self.program.as_ref().unwrap_or(&launch.program));
        command
            .args(&launch.args)
            .current_dir(self.ready.workspace())
            .env_clear()
            .envs(&launch.env)
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?);
        let used = process::run_tree(&mut command, PATIENCE)?;
        let errors = || fs::read_to_string(&stderr).unwrap_or_default();
        ensure!(used.status.success(), "it ended with {}\n{}", used.status, errors());
        let (status, log) = model.stop()?;
        // A harness without replies would do less work.
        ensure!(status.success() && !log.contains("no answer"), "the model ended with {status}\n{log}");
        let requests = fs::read_dir(place.join("recording/provider_dumps"))?
            .flatten()
            .filter(|file| file.file_name().to_string_lossy().ends_with("_request.json"))
            .count();
        ensure!(
            requests >= MIN_REQUESTS,
            "it sent {requests} requests, expected {MIN_REQUESTS}\n{}",
            errors()
        );
        Ok(HarnessSample {
            seconds: used.took.as_secs_f64(),
            cpu: used.cpu.as_secs_f64(),
            megabytes: used.memory as f64 / 1e6,
            requests,
        })
    }

    /// Starts the scripted model with a recorder.
    fn model(&self, offshoot: &Path, place: &Path) -> Result<(Server, SocketAddr)> {
        let mut command = Command::new(offshoot);
        command
            .args(["proxy", "--script"])
            .arg(&self.script)
            .arg("--out")
            .arg(place.join("recording"))
            .current_dir(self.ready.workspace())
            .env("OFFSHOOT_DATA_DIR", self.folder.join("data"));
        let mut server = Server::start(&mut command, &place.join("model.log"), StopSignal::Interrupt)?;
        let address = server.wait_until(|log| {
            log.lines().find_map(|line| line.trim().strip_prefix("http://")?.parse().ok())
        })?;
        Ok((server, address))
    }
}
