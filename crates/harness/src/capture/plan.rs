//! What was asked for, checked and completed.

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

use crate::adapter::{Endpoints, Harness, Launch, Plan, Release};
use crate::error::HarnessError;
use crate::install::{Tell, install, on_path, release};
use crate::sandbox::TIME_ZONE;
use crate::scenario::{Files, Scenario};

/// What somebody wants to have captured.
pub struct Asked {
    /// The kind of harness.
    pub harness: Box<dyn Harness>,
    /// Its version; the newest tested one without.
    pub version: Option<String>,
    /// The version of its host, for a plugin.
    pub host_version: Option<String>,
    /// The scenario.
    pub scenario: Scenario,
    /// Another prompt than the scenario's.
    pub prompt: Option<String>,
    /// Another model than the scenario's.
    pub model: Option<String>,
    /// Another way to run than the scenario's.
    pub mode: Option<String>,
    /// Another workspace than the scenario's.
    pub fixture_dir: Option<PathBuf>,
    /// A script that is not the scenario's.
    pub script: Option<PathBuf>,
    /// The script reports the usage that the provider's prompt cache would come to.
    pub cache_sim: bool,
    /// Talk to the real provider.
    pub live: bool,
    /// A recording that answers.
    pub replay: Option<Replaying>,
    /// Where to stop, in dollars.
    pub max_budget_usd: Option<f64>,
    /// Another timeout than the scenario's.
    pub timeout: Option<Duration>,
    /// The recording's folder; `./goldens/…` without.
    pub out: Option<PathBuf>,
    /// Arguments for the harness; for `command` the command itself.
    pub arguments: Vec<String>,
    /// Variables for the harness.
    pub env: BTreeMap<String, String>,
    /// The clock of the recording that is run again, where the harness takes its clock from us.
    pub clock: Option<Clock>,
    /// Seal the network, where the system allows it.
    pub sealed: bool,
    /// The folders that are ours.
    pub places: Places,
    /// The user's own environment: keys and addresses of providers, and what must not be in a recording.
    pub user_env: BTreeMap<String, String>,
}

/// The folders that are ours.
#[derive(Clone, Debug)]
pub struct Places {
    /// The redaction key.
    pub data: PathBuf,
    /// Installed harnesses.
    pub cache: PathBuf,
    /// Where harnesses live while they are recorded.
    pub slots: PathBuf,
}

/// A recording that answers a harness.
#[derive(Clone, Debug)]
pub struct Replaying {
    /// Its folder, as people name it.
    pub name: String,
    /// What it plays.
    pub traffic: Arc<RecordedTraffic>,
    /// How.
    pub settings: ReplaySettings,
}

/// Who answers the harness.
#[derive(Clone, Debug)]
pub enum Speaker {
    /// A script: its name, its text, and what it says.
    Script {
        /// As the manifest names it.
        name: String,
        /// The file.
        text: String,
        /// What it says.
        script: Script,
    },
    /// A recording.
    Replay(Replaying),
    /// The real provider: its addresses and keys, by the variables of the user's environment.
    Live(BTreeMap<String, String>),
}

impl Speaker {
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    pub(super) fn script_name(&self) -> Option<String> {
        match self {
            Self::Script { name, .. } => Some(name.clone()),
            Self::Replay(_) | Self::Live(_) => None,
        }
    }

    /// What the manifest says of the recording that answers.
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

/// What was asked for, with everything decided that can be before a port is known.
pub(super) struct Planned {
    pub(super) harness: Box<dyn Harness>,
    pub(super) places: Places,
    pub(super) files: Files,
    pub(super) speaker: Speaker,
    pub(super) sealed: bool,
    pub(super) timeout: Duration,
    pub(super) budget: Option<f64>,
    release: Release,
    scenario: Scenario,
    prompt: String,
    model: String,
    mode: Option<String>,
    prefix: PathBuf,
    program: PathBuf,
    out: Option<PathBuf>,
    env: BTreeMap<String, String>,
    arguments: Vec<String>,
    clock: Option<Clock>,
    user_env: BTreeMap<String, String>,
}

impl Planned {
    pub(super) async fn of(asked: Asked, tell: Tell<'_>) -> Result<Self, HarnessError> {
        let harness = &*asked.harness;
        let name = harness.name();
        let scenario = &asked.scenario;
        let mode = mode(harness, scenario, asked.mode.as_deref())?;
        let prompt = match &asked.prompt {
            Some(prompt) => prompt.clone(),
            None => scenario.prompt(name, mode.as_deref())?,
        };
        let model = asked.model.clone().or_else(|| scenario.model(name, mode.as_deref()));
        let model = model.unwrap_or_else(|| harness.default_model().to_owned());
        if model.trim().is_empty() {
            let hint = format!("give it as in `--model {}`", harness.default_model());
            return Err(HarnessError::you("the model has no name", hint));
        }
        let speaker = speaker(&asked, mode.as_deref())?;
        speaker.check_key(harness.providers())?; // before anything is installed
        check_budget(asked.max_budget_usd, &model)?;
        let fixture = match &asked.fixture_dir {
            Some(dir) => {
                Some(Files::read(dir).map_err(|source| HarnessError::Fixture { dir: dir.clone(), source })?)
            }
            None => None,
        };
        let release = release(harness, asked.version.as_deref(), asked.host_version.as_deref())?;
        let (prefix, program) = match install(harness, &release, &asked.places.cache, tell).await? {
            Some(installed) => (installed.prefix, installed.program),
            None => {
                let program = harness.without_install(&asked.arguments)?;
                (program.clone(), program)
            }
        };
        let timeout = asked.timeout.unwrap_or(Duration::from_secs(scenario.text.timeout_s));
        let mut env = scenario.env(name);
        env.extend(asked.env.clone());
        Ok(Self {
            files: scenario.workspace(name, fixture),
            speaker,
            sealed: asked.sealed,
            timeout,
            budget: asked.max_budget_usd,
            release,
            prompt,
            model,
            mode,
            prefix,
            program,
            env,
            scenario: asked.scenario,
            harness: asked.harness,
            places: asked.places,
            out: asked.out,
            arguments: asked.arguments,
            clock: asked.clock,
            user_env: asked.user_env,
        })
    }

    /// The plan, now that it is known where the model is.
    pub(super) fn plan(&self, endpoints: Endpoints, started_at: SystemTime) -> Plan {
        let now = || Clock { started_at: iso(started_at), time_zone: TIME_ZONE.to_owned() };
        Plan {
            release: self.release.clone(),
            prefix: self.prefix.clone(),
            program: self.program.clone(),
            prompt: self.prompt.clone(),
            model: self.model.clone(),
            mode: self.mode.clone(),
            endpoints,
            live: self.speaker.is_live(),
            session_id: session_id(&self.scenario.name),
            clock: self.clock.clone().unwrap_or_else(now),
            env: self.env.clone(),
            arguments: self.arguments.clone(),
        }
    }

    /// The recording's folder.
    pub(super) fn dir(&self, at: SystemTime) -> PathBuf {
        let root = if matches!(self.speaker, Speaker::Replay(_)) { "replays" } else { "goldens" };
        self.out.clone().unwrap_or_else(|| {
            super::default_dir(root, &*self.harness, &self.release.folder(), &self.scenario.name, at)
        })
    }

    /// What the manifest says of the harness.
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
            live: self.speaker.is_live(),
        }
    }

    /// A redactor that knows every secret that the harness could know.
    pub(super) fn redactor(&self, plan: &Plan, launch: &Launch) -> Result<Redactor, HarnessError> {
        let key = recording::load_or_create_key(&self.places.data).map_err(HarnessError::Key)?;
        let mut redactor = Redactor::new(key);
        let envs = [&self.user_env, &launch.env, &plan.env];
        redactor.learn_env(envs.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        Ok(redactor)
    }

    /// `scenario.json`: the scenario as it was run.
    pub(super) fn as_run(&self, plan: &Plan) -> String {
        #[derive(Serialize)]
        struct AsRun<'a> {
            format: u32,
            name: &'a str,
            intent: &'a str,
            harness: &'a str,
            mode: Option<&'a str>,
            prompt: &'a str,
            model: &'a str,
            session_id: &'a str,
            timeout_s: u64,
            read_only: bool,
            expects: &'a Expectations,
            stand_in: Vec<&'a Fallback>,
            /// The variables' names: their values are in nobody's interest.
            env: Vec<&'a str>,
            script: Option<&'a str>,
            fixture: Vec<&'a str>,
            arguments: &'a [String],
        }
        let text = &self.scenario.text;
        let script = match &self.speaker {
            Speaker::Script { text, .. } => Some(text.as_str()),
            Speaker::Replay(_) | Speaker::Live(_) => None,
        };
        let name = self.harness.name();
        let version = &plan.release.version;
        let stands_in = |stand_in: &Fallback| {
            stand_in.harness == name
                && stand_in.versions.as_ref().is_none_or(|versions| versions.include(version))
        };
        let as_run = AsRun {
            format: 1,
            name: &self.scenario.name,
            intent: self.scenario.intent(),
            harness: name,
            mode: self.mode.as_deref(),
            prompt: &self.prompt,
            model: &self.model,
            session_id: &plan.session_id,
            timeout_s: self.timeout.as_secs(),
            read_only: text.read_only,
            expects: &text.expects,
            stand_in: text.stand_in.iter().filter(|stand_in| stands_in(stand_in)).collect(),
            env: self.env.keys().map(String::as_str).collect(),
            script,
            fixture: self.files.iter().map(|(name, _)| name.as_str()).collect(),
            arguments: &self.arguments,
        };
        let mut json = serde_json::to_string_pretty(&as_run).expect("it has only string keys");
        json.push('\n');
        json
    }
}

/// The version of a harness that has none.
pub(super) const NO_VERSION: &str = "none";

fn mode(
    harness: &dyn Harness,
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
    Err(HarnessError::you(
        format!("`{}` has no mode `{wanted}`", harness.name()),
        format!("its modes: {known}"),
    ))
}

fn speaker(asked: &Asked, mode: Option<&str>) -> Result<Speaker, HarnessError> {
    if let Some(replaying) = &asked.replay {
        return Ok(Speaker::Replay(replaying.clone()));
    }
    if asked.live {
        return Ok(Speaker::Live(asked.user_env.clone()));
    }
    let cached = |script: Script| if asked.cache_sim { script.with_cache() } else { script };
    if let Some(path) = &asked.script {
        let text = std::fs::read_to_string(path)
            .map_err(|source| HarnessError::Script(proxy::ScriptError::Io { path: path.clone(), source }))?;
        let script = Script::parse(&text, path).map_err(HarnessError::Script)?;
        return Ok(Speaker::Script { name: path.display().to_string(), text, script: cached(script) });
    }
    let (text, script) = asked.scenario.script(asked.harness.name(), mode)?;
    let name = format!("scenario {}", asked.scenario.name);
    Ok(Speaker::Script { name, text, script: cached(script) })
}

/// A budget needs prices.
fn check_budget(budget: Option<f64>, model: &str) -> Result<(), HarnessError> {
    match budget {
        None => Ok(()),
        Some(budget) if !budget.is_finite() || budget <= 0.0 => Err(HarnessError::you(
            format!("a budget of {budget} dollars buys nothing"),
            "give it as in `--max-budget-usd 0.50`",
        )),
        Some(_) if price(model).is_some() => Ok(()),
        Some(_) => Err(HarnessError::you(
            format!("the price of the model `{model}` is not known, so no budget can be kept"),
            "use another `--model`, or leave `--max-budget-usd` out",
        )),
    }
}

/// The program behind `--`: by its path from here, or on the PATH.
pub(crate) fn given_program(arguments: &[String]) -> Result<PathBuf, HarnessError> {
    let Some(program) = arguments.first() else {
        return Err(HarnessError::you(
            "there is no command to capture",
            "give it behind `--`, as in `offshoot capture command --scenario S -- ./agent {prompt}`",
        ));
    };
    let found = match program.contains('/') {
        true => Path::new(program).canonicalize().ok().filter(|path| path.is_file()),
        false => on_path(program),
    };
    found.ok_or_else(|| {
        HarnessError::you(
            format!("cannot find the command `{program}`"),
            format!("try `command -v {program}`"),
        )
    })
}

/// A UUID that is the same in every run of a scenario.
fn session_id(scenario: &str) -> String {
    // FNV-1a: stable over versions, which the standard library's hashers do not promise.
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
