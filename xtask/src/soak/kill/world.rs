//! The environment of a killed run or tree: a journal, a workspace and a model.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use store::{Options, Store};

use super::tree::{self, TreeProvider};
use super::verdict::{KillMoment, RunSnapshot, RunSnapshots};
use crate::command::wait;

/// A run with all kinds of stored steps: parallel calls, calls that change files, two unsafe calls, a failing call, and slow
/// replies.
pub(super) const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: main
    match: { tools_include: [get_time] }
    pace: { event_ms: 1 }
    turns:
      - reply:
          - thinking: "two independent looks"
          - text: "I look at both."
          - call: { tool: read, id: toolu_a, input: { path: "a.txt" } }
          - call: { tool: list, id: toolu_b, input: {} }
        usage: { input: 100, output: 20 }
      - reply:
          - call: { tool: write, id: toolu_c, input: { path: "out/c.txt", content: "written once" } }
          - call: { tool: stamp, id: toolu_d, input: { path: "stamps.txt" } }
          - call: { tool: read, id: toolu_e, input: { path: "missing.txt" } }
        usage: { input: 200, output: 20 }
      - reply:
          - text: "Where is it said?"
          - call: { tool: grep, id: toolu_f, input: { pattern: "beta" } }
          - call: { tool: glob, id: toolu_g, input: { pattern: "out/*.txt" } }
        usage: { input: 250, output: 20 }
      - reply:
          - call: { tool: stamp, id: toolu_h, input: { path: "stamps.txt" } }
          - call: { tool: write, id: toolu_i, input: { path: "out/i.txt", content: "and another" } }
        usage: { input: 280, output: 20 }
      - reply:
          - text: "Now the time."
          - call: { tool: get_time, id: toolu_j, input: {} }
        usage: { input: 300, output: 20 }
      - reply: [ { text: "All done." } ]
        usage: { input: 400, output: 20 }
"#;

/// Returns the script with a conversation that is compacted before its end.
pub(super) fn long_script() -> String {
    let long = SCRIPT.replace("usage: { input: 300, output: 20 }", "usage: { input: 900000, output: 20 }");
    let summary = r#"      - when: { text_contains: "has become too long to continue" }
        reply: [ { text: "It was all about alpha." } ]
        usage: { input: 900000, output: 9 }
      - reply: [ { text: "All done." } ]"#;
    long.replacen(r#"      - reply: [ { text: "All done." } ]"#, summary, 1)
}

/// Maximum time of an attempt that is not killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The kind of run.
#[derive(Clone)]
pub(super) enum RunScenario {
    /// One run, and the script of its model.
    Alone(String),
    /// A tree of runs.
    Tree,
}

/// The source of replies.
enum ModelSource {
    /// A new process for each attempt; the number of attempts so far.
    Scripted(u32),
    /// A provider without state.
    Tree(TreeProvider),
}

pub(super) struct KillWorld {
    program: PathBuf,
    place: tempfile::TempDir,
    models: ModelSource,
    /// Number of requests so far.
    pub(super) requests: usize,
}

impl KillWorld {
    pub(super) fn new(program: &Path, scene: &RunScenario) -> Result<KillWorld> {
        let place = tempfile::tempdir()?;
        fs::create_dir(place.path().join("w"))?;
        fs::write(place.path().join("w/a.txt"), "alpha\nbeta\n")?;
        let models = match scene {
            RunScenario::Alone(script) => {
                fs::write(place.path().join("script.yaml"), script)?;
                ModelSource::Scripted(0)
            }
            RunScenario::Tree => ModelSource::Tree(TreeProvider::start(place.path().join("data/store.db"))?),
        };
        Ok(KillWorld { program: program.to_owned(), place, models, requests: 0 })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn offshoot(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("OFFSHOOT_DATA_DIR", self.path("data"))
            .stdin(Stdio::null());
        command
    }

    /// Starts or resumes the run with a new model. Kills it after `kill_after` unless it has ended.
    pub(super) fn attempt(&mut self, resume: Option<&str>, kill_after: Option<Duration>) -> Result<Attempt> {
        if let ModelSource::Tree(lines) = &self.models {
            let (answered, before) = (lines.answered()?, lines.requests());
            let attempt = self.attempt_with(lines.address(), resume, kill_after)?;
            lines.check_not_repeated(&answered, &before)?;
            self.requests = lines.requests().values().sum();
            return Ok(attempt);
        }
        let model = self.model()?;
        let attempt = self.attempt_with(model.address, resume, kill_after)?;
        self.requests += model.stop()?;
        Ok(attempt)
    }

    fn attempt_with(
        &self,
        model: SocketAddr,
        resume: Option<&str>,
        kill_after: Option<Duration>,
    ) -> Result<Attempt> {
        let (stdout, stderr) = (self.path("stdout"), self.path("stderr"));
        let mut command = self.offshoot();
        if let ModelSource::Tree(_) = self.models {
            command.env("OFFSHOOT_RUN_ID", tree::ROOT);
        }
        command
            .args(["run", "--json", "--events", "all"])
            .args(match resume {
                Some(run) => ["--resume", run].to_vec(),
                None => ["--model", "sonnet", tree::PROMPT].to_vec(),
            })
            .current_dir(self.path("w"))
            .env("ANTHROPIC_BASE_URL", format!("http://{model}"))
            .env("ANTHROPIC_API_KEY", "sk-test-0123456789")
            .env("OFFSHOOT_CLOCK", "2026-01-01T12:00:00+00:00[UTC]")
            .env("OFFSHOOT_TEST_TOOLS", "1")
            .env("OFFSHOOT_CRASH_LOG", self.path("points"))
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?);
        let begin = Instant::now();
        let mut child = command.spawn().context("cannot start `offshoot run`")?;
        let status = match kill_after {
            Some(moment) => {
                thread::sleep(moment.saturating_sub(begin.elapsed()));
                child.kill()?; // no effect if it has ended
                child.wait()?
            }
            None => wait(&mut child, begin + PATIENCE, "a run that was not killed did not end")?,
        };
        let took = begin.elapsed();
        let lines = fs::read_to_string(&stdout)?;
        Ok(Attempt {
            status,
            took,
            // A line that was cut by the kill is ignored.
            events: lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
            stderr: fs::read_to_string(&stderr)?,
        })
    }

    fn model(&mut self) -> Result<ScriptedModelProcess> {
        if let ModelSource::Scripted(models) = &mut self.models {
            *models += 1;
        }
        let ModelSource::Scripted(nth) = self.models else { bail!("this scenario has no script") };
        let recording = self.path(&format!("rec-{nth}"));
        let mut command = self.offshoot();
        command.args(["proxy", "--script"]).arg(self.path("script.yaml")).arg("--out").arg(&recording);
        command.stdout(Stdio::piped()).stderr(File::create(self.path("model.log"))?);
        let mut child = command.spawn().context("cannot start the model")?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line)?;
        let mut model =
            ScriptedModelProcess { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), recording };
        let address = line.trim().strip_prefix("http://").and_then(|address| address.parse().ok());
        model.address = address.with_context(|| format!("the model printed no address: {line:?}"))?;
        Ok(model)
    }

    /// Returns all runs in the journal, as `show` prints them.
    pub(super) fn shown(&self) -> Result<BTreeMap<String, Value>> {
        let ps = self.json(&["ps", "--all"])?;
        let runs = ps["runs"].as_array().context("`ps` lists no runs")?;
        let ids = runs.iter().filter_map(|run| run["run"].as_str());
        let shown: BTreeMap<String, Value> =
            ids.map(|id| Ok((id.to_owned(), self.json(&["show", id])?))).collect::<Result<_>>()?;
        let roots = shown.values().filter(|run| run["run"]["parent"].is_null()).count();
        ensure!(roots < 2, "there are {roots} roots");
        Ok(shown)
    }

    /// Returns the parts of all runs that must be equal.
    pub(super) fn snapshots(&self) -> Result<RunSnapshots> {
        self.shown()?.iter().map(|(id, run)| Ok((id.clone(), RunSnapshot::new(run)?))).collect()
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        let out = self.offshoot().args(arguments).args(["--format", "json"]).output()?;
        let stderr = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "`offshoot {}` ended with {}: {stderr}", arguments[0], out.status);
        serde_json::from_slice(&out.stdout)
            .with_context(|| format!("`offshoot {}` printed no JSON", arguments[0]))
    }

    /// Checks the whole journal.
    pub(super) fn check(&self) -> Result<()> {
        let health = Store::open(self.path("data/store.db"), Options::default())?.check()?;
        ensure!(health.problems.is_empty(), "the journal is damaged: {:?}", health.problems);
        Ok(())
    }

    /// Returns the log of effects and stored results, in order.
    pub(super) fn points(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("points")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Returns the traces of unsafe calls.
    pub(super) fn stamps(&self) -> String {
        fs::read_to_string(self.path("w/stamps.txt")).unwrap_or_default()
    }
}

/// A scripted model in a process of its own.
struct ScriptedModelProcess {
    child: Child,
    address: SocketAddr,
    recording: PathBuf,
}

impl ScriptedModelProcess {
    /// Stops it. Returns the number of its requests.
    fn stop(mut self) -> Result<usize> {
        ensure!(Command::new("kill").args(["-INT", &self.child.id().to_string()]).status()?.success());
        let status = self.child.wait()?;
        ensure!(status.success(), "the model ended with {status}");
        let dumps = fs::read_dir(self.recording.join("provider_dumps")).into_iter().flatten().flatten();
        Ok(dumps.filter(|file| file.file_name().to_string_lossy().ends_with("_request.json")).count())
    }
}

impl Drop for ScriptedModelProcess {
    fn drop(&mut self) {
        let _ = self.child.kill(); // usually it has ended
        let _ = self.child.wait();
    }
}

/// One process and its output.
pub(super) struct Attempt {
    status: ExitStatus,
    pub(super) took: Duration,
    events: Vec<Value>,
    stderr: String,
}

impl Attempt {
    pub(super) fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    pub(super) fn check_success(&self) -> Result<()> {
        ensure!(self.status.success(), "`offshoot run` ended with {}: {}", self.status, self.stderr);
        let last = self.events.last().context("it printed no event")?;
        ensure!(last["status"] == "completed" && last["final_text"] == "All done.", "it ended with {last}");
        Ok(())
    }

    /// Returns whether the resume failed because the run was completed.
    pub(super) fn was_completed(&self) -> bool {
        self.status.code() == Some(2) && self.stderr.contains("is completed and has nothing to continue")
    }

    /// Returns the run id, if it was printed.
    pub(super) fn run(&self) -> Option<String> {
        Some(self.events.first()?["run"].as_str()?.to_owned())
    }

    /// Returns its moment, by the last printed event.
    pub(super) fn moment(&self) -> KillMoment {
        KillMoment::after(self.events.last().and_then(|event| event["type"].as_str()))
    }

    /// Checks that all printed events are in the journal.
    pub(super) fn check_stored(&self, runs: &BTreeMap<String, Value>) -> Result<()> {
        for event in &self.events {
            let shown = event["run"].as_str().and_then(|run| runs.get(run));
            let shown = shown.with_context(|| format!("its run is not in the journal: {event}"))?;
            let has = |list: &str, key: &str, value: &Value, fits: fn(&Value) -> bool| {
                shown[list].as_array().into_iter().flatten().any(|it| it[key] == *value && fits(it))
            };
            let is_stored = match event["type"].as_str() {
                Some("message" | "compacted") => has("messages", "seq", &event["message"], |_| true),
                Some("tool_finished") => {
                    has("tool_calls", "id", &event["call"], |call| !call["result"].is_null())
                }
                Some("run_finished") => shown["run"]["status"] == event["status"],
                _ => true,
            };
            ensure!(is_stored, "a printed event is not in the journal: {event}");
        }
        Ok(())
    }
}
