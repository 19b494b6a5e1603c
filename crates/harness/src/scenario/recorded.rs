//! The scenario that a recording contains.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use recording::scenario::{Expectations, Fallback};
use recording::{Manifest, WorkspaceChanges};
use serde::Deserialize;

use super::{FORMAT, Files, PerMode, Scenario, ScenarioFile};
use crate::error::HarnessError;

/// The part of `scenario.json` that a replay needs.
#[derive(Debug, Deserialize)]
pub(crate) struct RecordedScenario {
    name: String,
    intent: String,
    harness: String,
    prompt: String,
    model: String,
    timeout_s: u64,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    expects: Expectations,
    #[serde(default)]
    stand_in: Vec<Fallback>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    fixture: Vec<String>,
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
}

impl RecordedScenario {
    /// Reads the scenario of a recording.
    pub(crate) fn read(recording: &Path) -> Result<Self, HarnessError> {
        let path = recording.join("scenario.json");
        let bytes = fs::read(&path).map_err(|error| {
            HarnessError::usage(
                format!("cannot read `{}`: {error}", path.display()),
                format!(
                    "only sealed recordings of `capture` can start their harness; for others, append the command: \
                     `offshoot replay {} -- COMMAND`",
                    recording.display()
                ),
            )
        })?;
        serde_json::from_slice(&bytes)
            .map_err(|error| HarnessError::Scenario { path, reason: error.to_string() })
    }

    /// Restores the scenario with the workspace from before the run. Files that the run changed come from
    /// `known`, the scenario with that name.
    pub(crate) fn scenario(
        &self,
        recording: &Path,
        manifest: &Manifest,
        known: Option<&Scenario>,
        given: &BTreeMap<String, String>,
    ) -> Result<Scenario, HarnessError> {
        let known_files = known.map(|known| known.workspace(&self.harness, None)).unwrap_or_default();
        let left = recording.join("workspace");
        // Git does not keep empty folders, so a clone may lack it.
        let left = match left.exists() {
            true => Files::read(&left).map_err(HarnessError::io("read", &left))?,
            false => Files::default(),
        };
        let changes = manifest.workspace.clone().unwrap_or_default();
        let WorkspaceChanges { changed, removed, .. } = &changes;
        let mut files = Vec::new();
        for name in &self.fixture {
            let was_changed = changed.contains(name) || removed.contains(name);
            let file = if was_changed { known_files.get(name) } else { left.get(name) };
            let Some(file) = file else {
                return Err(HarnessError::usage(
                    format!("the recording lacks the version of `{name}` from before the run"),
                    "name the workspace with `--fixture-dir DIR`",
                ));
            };
            files.push((format!("workspace/{name}"), file.clone()));
        }
        let env: BTreeMap<String, String> = known.map(|known| known.env(&self.harness)).unwrap_or_default();
        let is_missing = |name: &&String| !env.contains_key(*name) && !given.contains_key(*name);
        if let Some(missing) = self.env.iter().find(is_missing) {
            return Err(HarnessError::usage(
                format!("the harness needs the variable `{missing}`, whose value is not recorded"),
                format!("set it with `--env {missing}=value`"),
            ));
        }
        Ok(Scenario {
            name: self.name.clone(),
            place: recording.to_owned(),
            text: ScenarioFile {
                format: FORMAT,
                intent: self.intent.clone(),
                base: None,
                prompt: Some(self.prompt.clone()),
                prompts: BTreeMap::new(),
                model: None,
                models: BTreeMap::from([(self.harness.clone(), PerMode::Same(self.model.clone()))]),
                modes: BTreeMap::new(),
                env: BTreeMap::from([(self.harness.clone(), env)]),
                timeout_s: self.timeout_s,
                read_only: self.read_only,
                expects: self.expects.clone(),
                stand_in: self.stand_in.clone(),
            },
            files: files.into_iter().collect(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
