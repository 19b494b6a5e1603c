//! Scenarios: prompt, workspace, and replies of the scripted model for one test case.
//!
//! A scenario is a folder; `docs/reference/scenarios.md` describes it. The program contains the shipped ones.

mod files;
mod find;
mod recorded;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use proxy::Script;
use serde::Deserialize;

use recording::scenario::{Expectations, Fallback};

use crate::error::HarnessError;
pub use files::{Files, FixtureFile};
pub use find::{find, shipped};
pub(crate) use recorded::RecordedScenario;

const FORMAT: u32 = 1;
/// Default timeout of a scenario in seconds.
const DEFAULT_TIMEOUT_S: u64 = 300;

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name of its folder.
    pub name: String,
    /// Its path, for error messages.
    pub(crate) place: PathBuf,
    pub(crate) text: ScenarioFile,
    files: Files,
}

/// `scenario.yaml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioFile {
    pub(crate) format: u32,
    /// Its purpose.
    pub(crate) intent: String,
    /// A folder whose `workspace` and `harness` folders this scenario extends.
    pub(crate) base: Option<String>,
    /// The prompt for harnesses without their own.
    pub(crate) prompt: Option<String>,
    #[serde(default)]
    pub(crate) prompts: BTreeMap<String, PerMode>,
    pub(crate) model: Option<String>,
    #[serde(default)]
    pub(crate) models: BTreeMap<String, PerMode>,
    #[serde(default)]
    pub(crate) modes: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default = "default_timeout")]
    pub(crate) timeout_s: u64,
    #[serde(default)]
    pub(crate) read_only: bool,
    #[serde(default)]
    pub(crate) expects: Expectations,
    #[serde(default)]
    pub(crate) stand_in: Vec<Fallback>,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT_S
}

/// One value for all modes of a harness, or one for each.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum PerMode {
    Same(String),
    Each(BTreeMap<String, String>),
}

impl Scenario {
    /// Its purpose.
    pub fn intent(&self) -> &str {
        self.text.intent.trim()
    }

    /// The mode that the scenario selects for a harness.
    pub(crate) fn mode(&self, harness: &str) -> Option<&str> {
        self.text.modes.get(harness).map(String::as_str)
    }

    /// The prompt for a harness.
    pub(crate) fn prompt(&self, harness: &str, mode: Option<&str>) -> Result<String, HarnessError> {
        let own = self.text.prompts.get(harness).and_then(|prompt| prompt.of(mode));
        own.or(self.text.prompt.as_deref()).map(|prompt| prompt.trim().to_owned()).ok_or_else(|| {
            HarnessError::usage(
                format!("the scenario `{}` has no prompt for `{harness}`", self.name),
                format!("add one under `prompts` in `{}`, or give `--prompt`", self.yaml().display()),
            )
        })
    }

    /// The model that the scenario selects for a harness.
    pub(crate) fn model(&self, harness: &str, mode: Option<&str>) -> Option<String> {
        let own = self.text.models.get(harness).and_then(|model| model.of(mode));
        own.or(self.text.model.as_deref()).map(str::to_owned)
    }

    /// The variables for a harness.
    pub(crate) fn env(&self, harness: &str) -> BTreeMap<String, String> {
        self.text.env.get(harness).cloned().unwrap_or_default()
    }

    /// The script for a harness, with its text. The most specific script applies.
    pub(crate) fn script(&self, harness: &str, mode: Option<&str>) -> Result<(String, Script), HarnessError> {
        let with_mode = mode.map(|mode| format!("script.{harness}.{mode}.yaml"));
        let names = with_mode.into_iter().chain([format!("script.{harness}.yaml"), "script.yaml".to_owned()]);
        let found = names.filter_map(|name| self.files.get(&name).map(|file| (name, file))).next();
        let Some((name, file)) = found else {
            return Err(HarnessError::usage(
                format!("the scenario `{}` has no script for `{harness}`", self.name),
                format!(
                    "write `{}`, give `--script FILE`, or use a real model with `--live`",
                    self.place.join("script.yaml").display()
                ),
            ));
        };
        let text = String::from_utf8_lossy(&file.bytes).into_owned();
        let script = Script::parse(&text, &self.place.join(name)).map_err(HarnessError::Script)?;
        Ok((text, script))
    }

    /// The workspace for a harness: the fixture with the files for the harness on top.
    pub(crate) fn workspace(&self, harness: &str, fixture: Option<Files>) -> Files {
        let mut files = fixture.unwrap_or_else(|| self.files.below("workspace"));
        files.overlay(self.files.below(&format!("harness/{harness}")));
        files
    }

    fn yaml(&self) -> PathBuf {
        self.place.join("scenario.yaml")
    }
}

impl PerMode {
    fn of(&self, mode: Option<&str>) -> Option<&str> {
        match self {
            Self::Same(text) => Some(text),
            Self::Each(texts) => texts.get(mode?).map(String::as_str),
        }
    }
}
