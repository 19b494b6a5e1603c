//! Checks and completes a capture request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proxy::Script;
use proxy::replay::{RecordedTraffic, ReplaySettings};
use recording::scenario::{Expectations, Fallback};
use recording::{Clock, iso};
use redact::Redactor;
use serde::Serialize;
use session::model::price;

use crate::adapter::{Endpoints, HarnessAdapter, Plan, Release};
use crate::error::HarnessError;
use crate::install::{Installation, Progress, install, release};
use crate::launch::Launch;
use crate::sandbox::TIME_ZONE;
use crate::scenario::{Files, Scenario};

/// A capture request.
pub struct CaptureRequest {
    /// The harness.
    pub harness: Box<dyn HarnessAdapter>,
    /// Its version; by default the newest tested one.
    pub version: Option<String>,
    /// The version of its host, for a plugin.
    pub host_version: Option<String>,
    /// The scenario.
    pub scenario: Scenario,
    /// Replacements for parts of the scenario.
    pub overrides: ScenarioOverrides,
    /// The requested source of the model's replies.
    pub replies: RepliesRequest,
    /// The recording's folder; by default below `./recordings`.
    pub out: Option<PathBuf>,
    /// Arguments of the harness; for `command` the command itself.
    pub arguments: Vec<String>,
    /// Variables for the harness.
    pub env: BTreeMap<String, String>,
    /// Header in which the harness sends the id of its conversation, if the user named one.
    pub session_header: Option<String>,
    /// The clock of the recording that is replayed, for a harness that takes its clock from us.
    pub clock: Option<Clock>,
    /// True if to seal the network if the system allows it.
    pub sealed: bool,
    /// Our own folders.
    pub folders: CaptureFolders,
    /// The user's environment: keys and addresses of providers, and the secrets to redact.
    pub user_env: BTreeMap<String, String>,
}

/// Replacements for parts of a scenario.
#[derive(Clone, Debug, Default)]
pub struct ScenarioOverrides {
    /// The prompt.
    pub prompt: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The mode of the harness.
    pub mode: Option<String>,
    /// The folder with the workspace.
    pub fixture_dir: Option<PathBuf>,
    /// The timeout.
    pub timeout: Option<Duration>,
}

/// The requested source of the model's replies. The default is the scenario's script.
#[derive(Clone, Debug, Default)]
pub struct RepliesRequest {
    /// A script that replaces the scenario's.
    pub script: Option<PathBuf>,
    /// True if the script reports the usage that the provider's prompt cache would give.
    pub cache_sim: bool,
    /// True to use the real provider.
    pub live: bool,
    /// A recording that answers.
    pub replay: Option<ReplaySource>,
    /// Cost limit in dollars.
    pub max_budget_usd: Option<f64>,
}

/// Our own folders.
#[derive(Clone, Debug)]
pub struct CaptureFolders {
    /// The folder of the redaction key.
    pub data: PathBuf,
    /// The folder of installed harnesses.
    pub cache: PathBuf,
    /// The folder of the slots.
    pub slots: PathBuf,
}

/// A recording that answers a harness.
#[derive(Clone, Debug)]
pub struct ReplaySource {
    /// Its folder, as the user named it.
    pub name: String,
    /// The recorded traffic.
    pub traffic: Arc<RecordedTraffic>,
    /// The settings of the replay.
    pub settings: ReplaySettings,
}

/// The source of the model's replies.
#[derive(Clone, Debug)]
pub enum ModelSource {
    /// A script.
    Script {
        /// The name in the manifest.
        name: String,
        /// The text of the file.
        text: String,
        /// The parsed script.
        script: Script,
    },
    /// A recording.
    Replay(ReplaySource),
    /// The real provider. Its addresses and keys are in these variables of the user's environment.
    Live(BTreeMap<String, String>),
}

impl ModelSource {
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    pub(super) fn script_name(&self) -> Option<String> {
        match self {
            Self::Script { name, .. } => Some(name.clone()),
            Self::Replay(_) | Self::Live(_) => None,
        }
    }

    /// Describes the replayed recording for the manifest.
    pub(super) fn replay(&self) -> Option<recording::Replay> {
        let Self::Replay(replaying) = self else { return None };
        let settings = &replaying.settings;
        Some(recording::Replay {
            of: replaying.name.clone(),
            order: settings.order.to_string(),
            pace: settings.pace.to_string(),
            faults: settings.faults.iter().map(ToString::to_string).collect(),
            sha256: recording::Replay::digest_of(Path::new(&replaying.name)),
        })
    }
}

/// A checked capture request. Only the proxy's port is still missing.
pub(super) struct PreparedCapture {
    pub(super) harness: Box<dyn HarnessAdapter>,
    pub(super) folders: CaptureFolders,
    pub(super) files: Files,
    pub(super) model_source: ModelSource,
    pub(super) sealed: bool,
    pub(super) timeout: Duration,
    pub(super) budget: Option<f64>,
    pub(super) session_header: Option<String>,
    release: Release,
    scenario: Scenario,
    task: Task,
    installation: Installation,
    out: Option<PathBuf>,
    input: HarnessInput,
}

/// Arguments, variables and clock for the harness, and the environment that its secrets come from.
struct HarnessInput {
    env: BTreeMap<String, String>,
    arguments: Vec<String>,
    clock: Option<Clock>,
    user_env: BTreeMap<String, String>,
}

/// The prompt with the model and mode that run it.
struct Task {
    prompt: String,
    model: String,
    mode: Option<String>,
}

impl PreparedCapture {
    pub(super) async fn of(asked: CaptureRequest, tell: Progress<'_>) -> Result<Self, HarnessError> {
        let harness = &*asked.harness;
        let name = harness.name();
        let scenario = &asked.scenario;
        let mode = mode(harness, scenario, asked.overrides.mode.as_deref())?;
        let prompt = match &asked.overrides.prompt {
            Some(prompt) => prompt.clone(),
            None => scenario.prompt(name, mode.as_deref())?,
        };
        let model = asked.overrides.model.clone().or_else(|| scenario.model(name, mode.as_deref()));
        let model = model.unwrap_or_else(|| harness.default_model().to_owned());
        if model.trim().is_empty() {
            let hint = format!("give it as in `--model {}`", harness.default_model());
            return Err(HarnessError::usage("the model has no name", hint));
        }
        let model_source = model_source(&asked, mode.as_deref())?;
        model_source.check_key(harness.providers())?; // before installing anything
        check_budget(asked.replies.max_budget_usd, &model)?;
        let fixture = match &asked.overrides.fixture_dir {
            Some(dir) => {
                Some(Files::read(dir).map_err(|source| HarnessError::Fixture { dir: dir.clone(), source })?)
            }
            None => None,
        };
        let release = release(harness, asked.version.as_deref(), asked.host_version.as_deref())?;
        let installation = match install(harness, &release, &asked.folders.cache, tell).await? {
            Some(installation) => installation,
            None => {
                let program = harness.without_install(&asked.arguments)?;
                Installation { prefix: program.clone(), program }
            }
        };
        let timeout = asked.overrides.timeout.unwrap_or(Duration::from_secs(scenario.text.timeout_s));
        let mut env = scenario.env(name);
        env.extend(asked.env.clone());
        Ok(Self {
            files: scenario.workspace(name, fixture),
            model_source,
            sealed: asked.sealed,
            timeout,
            budget: asked.replies.max_budget_usd,
            session_header: asked.session_header,
            release,
            task: Task { prompt, model, mode },
            installation,
            input: HarnessInput {
                env,
                arguments: asked.arguments,
                clock: asked.clock,
                user_env: asked.user_env,
            },
            scenario: asked.scenario,
            harness: asked.harness,
            folders: asked.folders,
            out: asked.out,
        })
    }

    /// Completes the plan with the model's addresses.
    pub(super) fn plan(&self, endpoints: Endpoints, started_at: SystemTime) -> Plan {
        let now = || Clock { started_at: iso(started_at), time_zone: TIME_ZONE.to_owned() };
        Plan {
            release: self.release.clone(),
            prefix: self.installation.prefix.clone(),
            program: self.installation.program.clone(),
            prompt: self.task.prompt.clone(),
            model: self.task.model.clone(),
            mode: self.task.mode.clone(),
            endpoints,
            live: self.model_source.is_live(),
            session_id: session_id(&self.scenario.name),
            clock: self.input.clock.clone().unwrap_or_else(now),
            env: self.input.env.clone(),
            arguments: self.input.arguments.clone(),
        }
    }

    /// Returns the recording's folder.
    pub(super) fn dir(&self, at: SystemTime) -> PathBuf {
        let root = if matches!(self.model_source, ModelSource::Replay(_)) { "replays" } else { "recordings" };
        self.out.clone().unwrap_or_else(|| {
            super::default_dir(root, &*self.harness, &self.release.folder(), &self.scenario.name, at)
        })
    }

    /// Describes the harness for the manifest.
    pub(super) fn describe(&self, plan: &Plan) -> recording::HarnessInfo {
        let host = self.release.host.as_ref();
        recording::HarnessInfo {
            name: self.release.name.clone(),
            version: Some(self.release.version.clone()).filter(|version| version != NO_VERSION),
            host: host.map(|(name, version)| recording::PluginHost {
                name: name.clone(),
                version: version.clone(),
            }),
            mode: plan.mode.clone(),
            scenario: self.scenario.name.clone(),
            model: plan.model.clone(),
            live: self.model_source.is_live(),
        }
    }

    /// Creates a redactor that knows all secrets the harness could know.
    pub(super) fn redactor(&self, plan: &Plan, launch: &Launch) -> Result<Redactor, HarnessError> {
        let key = recording::load_or_create_key(&self.folders.data).map_err(HarnessError::Key)?;
        let mut redactor = Redactor::new(key);
        let envs = [&self.input.user_env, &launch.env, &plan.env];
        redactor.learn_env(envs.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        Ok(redactor)
    }

    /// Returns `scenario.json`: the scenario as it runs.
    pub(super) fn as_run(&self, plan: &Plan) -> String {
        #[derive(Serialize)]
        struct RecordedTask<'a> {
            mode: Option<&'a str>,
            prompt: &'a str,
            model: &'a str,
        }
        #[derive(Serialize)]
        struct RecordedScenario<'a> {
            format: u32,
            name: &'a str,
            intent: &'a str,
            harness: &'a str,
            #[serde(flatten)]
            task: RecordedTask<'a>,
            session_id: &'a str,
            timeout_s: u64,
            read_only: bool,
            expects: &'a Expectations,
            stand_in: Vec<&'a Fallback>,
            /// The names of the variables; their values may be secret.
            env: Vec<&'a str>,
            script: Option<&'a str>,
            fixture: Vec<&'a str>,
            arguments: &'a [String],
        }
        let text = &self.scenario.text;
        let script = match &self.model_source {
            ModelSource::Script { text, .. } => Some(text.as_str()),
            ModelSource::Replay(_) | ModelSource::Live(_) => None,
        };
        let name = self.harness.name();
        let version = &plan.release.version;
        let stands_in = |stand_in: &Fallback| {
            stand_in.harness == name
                && stand_in.versions.as_ref().is_none_or(|versions| versions.include(version))
        };
        let as_run = RecordedScenario {
            format: 1,
            name: &self.scenario.name,
            intent: self.scenario.intent(),
            harness: name,
            task: RecordedTask {
                mode: self.task.mode.as_deref(),
                prompt: &self.task.prompt,
                model: &self.task.model,
            },
            session_id: &plan.session_id,
            timeout_s: self.timeout.as_secs(),
            read_only: text.read_only,
            expects: &text.expects,
            stand_in: text.stand_in.iter().filter(|stand_in| stands_in(stand_in)).collect(),
            env: self.input.env.keys().map(String::as_str).collect(),
            script,
            fixture: self.files.iter().map(|(name, _)| name.as_str()).collect(),
            arguments: &self.input.arguments,
        };
        let mut json = serde_json::to_string_pretty(&as_run).expect("it has only string keys");
        json.push('\n');
        json
    }
}

/// The version of a harness without versions.
pub(super) const NO_VERSION: &str = "none";

fn mode(
    harness: &dyn HarnessAdapter,
    scenario: &Scenario,
    asked: Option<&str>,
) -> Result<Option<String>, HarnessError> {
    let modes = harness.modes();
    let Some(wanted) = asked.or_else(|| scenario.mode(harness.name())) else {
        return Ok(modes.first().map(|mode| mode.name.to_owned()));
    };
    if modes.iter().any(|mode| mode.name == wanted) {
        return Ok(Some(wanted.to_owned()));
    }
    let known: Vec<&str> = modes.iter().map(|mode| mode.name).collect();
    let known = if known.is_empty() { "it has only one".to_owned() } else { known.join(", ") };
    Err(HarnessError::usage(
        format!("`{}` has no mode `{wanted}`", harness.name()),
        format!("its modes: {known}"),
    ))
}

fn model_source(asked: &CaptureRequest, mode: Option<&str>) -> Result<ModelSource, HarnessError> {
    if let Some(replaying) = &asked.replies.replay {
        return Ok(ModelSource::Replay(replaying.clone()));
    }
    if asked.replies.live {
        return Ok(ModelSource::Live(asked.user_env.clone()));
    }
    let cached = |script: Script| if asked.replies.cache_sim { script.with_cache() } else { script };
    if let Some(path) = &asked.replies.script {
        let text = std::fs::read_to_string(path)
            .map_err(|source| HarnessError::Script(proxy::ScriptError::Io { path: path.clone(), source }))?;
        let script = Script::parse(&text, path).map_err(HarnessError::Script)?;
        return Ok(ModelSource::Script { name: path.display().to_string(), text, script: cached(script) });
    }
    let (text, script) = asked.scenario.script(asked.harness.name(), mode)?;
    let name = format!("scenario {}", asked.scenario.name);
    Ok(ModelSource::Script { name, text, script: cached(script) })
}

/// Checks that the budget is valid and the model has a price.
fn check_budget(budget: Option<f64>, model: &str) -> Result<(), HarnessError> {
    match budget {
        None => Ok(()),
        Some(budget) if !budget.is_finite() || budget <= 0.0 => Err(HarnessError::usage(
            format!("a budget of {budget} dollars is not positive"),
            "give it as in `--max-budget-usd 0.50`",
        )),
        Some(_) if price(model).is_some() => Ok(()),
        Some(_) => Err(HarnessError::usage(
            format!("no price known for model `{model}`; cannot enforce the budget"),
            "use another `--model`, or omit `--max-budget-usd`",
        )),
    }
}

/// Returns a UUID that is the same in each run of a scenario.
fn session_id(scenario: &str) -> String {
    // FNV-1a is stable across versions; the standard library's hashers need not be.
    let hash = scenario.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("0ff54007-0000-4000-8000-{:012x}", hash & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_the_same_uuid_every_time() {
        assert_eq!(session_id("async-subagents"), session_id("async-subagents"));
        assert_ne!(session_id("async-subagents"), session_id("cancel"));
        assert_eq!(session_id("x").len(), 36);
    }

    #[test]
    fn a_budget_needs_a_price() {
        assert!(check_budget(Some(1.0), "haiku").is_ok());
        assert!(check_budget(None, "mystery").is_ok());
        assert!(check_budget(Some(1.0), "mystery").is_err());
        assert!(check_budget(Some(f64::NAN), "haiku").is_err());
        assert!(check_budget(Some(-1.0), "haiku").is_err());
    }
}
