//! One intent: what a harness is asked, in which workspace, and what the scripted model says.
//!
//! A scenario is a folder; `docs/scenarios.md` describes it. The shipped ones are carried by the program.

mod files;
mod find;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use proxy::Script;
use serde::{Deserialize, Serialize};

use crate::error::HarnessError;
pub use files::{Files, FixtureFile};
pub use find::{find, shipped};

const FORMAT: u32 = 1;
/// How long a harness may take where the scenario does not say.
const USUAL_TIMEOUT: u64 = 300;

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its folder's name.
    pub name: String,
    /// Where it lies, as errors name it.
    pub(crate) place: PathBuf,
    pub(crate) text: Text,
    files: Files,
}

/// `scenario.yaml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    pub(crate) format: u32,
    /// What it is for.
    pub(crate) intent: String,
    /// A folder with a `workspace` and a `harness` folder that this scenario's own are laid over.
    pub(crate) base: Option<String>,
    /// For every harness that has none of its own.
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
    #[serde(default = "usual_timeout")]
    pub(crate) timeout_s: u64,
    #[serde(default)]
    pub(crate) read_only: bool,
    #[serde(default)]
    pub(crate) expects: Expects,
    #[serde(default)]
    pub(crate) stand_in: Vec<StandIn>,
}

fn usual_timeout() -> u64 {
    USUAL_TIMEOUT
}

/// The same for every mode of a harness, or one for each.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum PerMode {
    Same(String),
    Each(BTreeMap<String, String>),
}

/// What a recording of the scenario should show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expects {
    /// At least so many sub-agents are launched by one reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawns_in_one_turn: Option<u32>,
    /// They are launched in the background.
    pub background: bool,
    /// Main asks for their results.
    pub polling: bool,
    /// Main is told of their results.
    pub wakeup: bool,
    /// A running one is cancelled.
    pub cancel: bool,
    /// One is asked for that does not exist.
    pub unknown_job: bool,
    /// A sub-agent tries to write, and may not.
    pub denied_write: bool,
}

/// An expectation by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "they are those of `Expects`")]
pub enum Surface {
    SpawnsInOneTurn,
    Background,
    Polling,
    Wakeup,
    Cancel,
    UnknownJob,
    DeniedWrite,
}

/// What stands in for a surface that a harness, or a version of it, does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandIn {
    /// The harness.
    pub harness: String,
    /// The expectations that it stands in for, by their names.
    #[serde(default, rename = "for")]
    pub surfaces: Vec<Surface>,
    /// Which versions, for people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<String>,
    /// What is different there.
    pub note: String,
}

impl Scenario {
    /// What it is for.
    pub fn intent(&self) -> &str {
        self.text.intent.trim()
    }

    /// The way that a harness should be run in, where the scenario says.
    pub(crate) fn mode(&self, harness: &str) -> Option<&str> {
        self.text.modes.get(harness).map(String::as_str)
    }

    /// What a harness is asked.
    pub(crate) fn prompt(&self, harness: &str, mode: Option<&str>) -> Result<String, HarnessError> {
        let own = self.text.prompts.get(harness).and_then(|prompt| prompt.of(mode));
        own.or(self.text.prompt.as_deref()).map(|prompt| prompt.trim().to_owned()).ok_or_else(|| {
            HarnessError::you(
                format!("the scenario `{}` has no prompt for `{harness}`", self.name),
                format!("add one under `prompts` in `{}`, or give `--prompt`", self.yaml().display()),
            )
        })
    }

    /// The model for a harness, where the scenario says.
    pub(crate) fn model(&self, harness: &str, mode: Option<&str>) -> Option<String> {
        let own = self.text.models.get(harness).and_then(|model| model.of(mode));
        own.or(self.text.model.as_deref()).map(str::to_owned)
    }

    /// Variables for a harness.
    pub(crate) fn env(&self, harness: &str) -> BTreeMap<String, String> {
        self.text.env.get(harness).cloned().unwrap_or_default()
    }

    /// The script for a harness and its text: the most special one that there is.
    pub(crate) fn script(&self, harness: &str, mode: Option<&str>) -> Result<(String, Script), HarnessError> {
        let with_mode = mode.map(|mode| format!("script.{harness}.{mode}.yaml"));
        let names = with_mode.into_iter().chain([format!("script.{harness}.yaml"), "script.yaml".to_owned()]);
        let found = names.filter_map(|name| self.files.get(&name).map(|file| (name, file))).next();
        let Some((name, file)) = found else {
            return Err(HarnessError::you(
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

    /// The workspace for a harness: the fixture, and what belongs to the harness over it.
    pub(crate) fn workspace(&self, harness: &str, fixture: Option<Files>) -> Files {
        let mut files = fixture.unwrap_or_else(|| self.files.below("workspace"));
        files.lay_over(self.files.below(&format!("harness/{harness}")));
        files
    }

    /// Whether it brings a fixture of its own.
    pub(crate) fn has_workspace(&self) -> bool {
        !self.files.below("workspace").is_empty()
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
