//! Replays a recording to the harness that made it.

use std::collections::BTreeMap;
use std::path::Path;

use recording::Recording;

use crate::capture::{CaptureFolders, CaptureRequest, ReplaySource, RepliesRequest, ScenarioOverrides};
use crate::error::HarnessError;
use crate::scenario::{RecordedScenario, find as find_scenario};

/// Creates the request to run a recording's harness again. `version` overrides the recorded version; `env`
/// adds to the scenario's variables.
pub fn replay_request(
    dir: &Path,
    replaying: ReplaySource,
    version: Option<String>,
    config_dir: Option<&Path>,
    folders: CaptureFolders,
    env: BTreeMap<String, String>,
    user_env: BTreeMap<String, String>,
) -> Result<CaptureRequest, HarnessError> {
    let recording = Recording::open(dir).map_err(|error| {
        HarnessError::usage(error.to_string(), "name the folder of a recording that `capture` made")
    })?;
    let manual_hint = || format!("append the command: `offshoot replay {} -- COMMAND`", dir.display());
    let manifest = recording.manifest();
    let Some((manifest, recorded)) =
        manifest.and_then(|manifest| Some((manifest, manifest.harness.as_ref()?)))
    else {
        return Err(HarnessError::usage(
            format!("`{}` does not name its harness", dir.display()),
            manual_hint(),
        ));
    };
    let harness = crate::find(&recorded.name).filter(|harness| harness.name() != "command");
    let Some(harness) = harness else {
        return Err(HarnessError::usage(
            format!(
                "`{}` is a recording of `{}`, which cannot be started from a recording",
                dir.display(),
                recorded.name
            ),
            manual_hint(),
        ));
    };
    let as_run = RecordedScenario::read(dir)?;
    let known = find_scenario(as_run.name(), config_dir).ok();
    let scenario = as_run.scenario(dir, manifest, known.as_ref(), &env)?;
    Ok(CaptureRequest {
        harness,
        version: version.or_else(|| recorded.version.clone()),
        host_version: recorded.host.as_ref().map(|host| host.version.clone()),
        scenario,
        overrides: ScenarioOverrides { mode: recorded.mode.clone(), ..ScenarioOverrides::default() },
        replies: RepliesRequest { replay: Some(replaying), ..RepliesRequest::default() },
        out: None,
        arguments: as_run.arguments,
        env,
        session_header: manifest.session_header.clone(),
        clock: manifest.clock.clone().filter(|_| recorded.name == "offshoot"),
        sealed: manifest.network.as_ref().is_none_or(|network| network.because.is_none()),
        folders,
        user_env,
    })
}
