//! A recorded harness, started again with its recording in the model's place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use recording::Recording;

use crate::capture::{Asked, Places, Replaying};
use crate::error::HarnessError;
use crate::scenario::{AsRun, find as find_scenario};

/// What has to be captured to run the harness of a recording again. `version` is another version than the recorded
/// one; `env` is what the harness is given beside the scenario's.
#[allow(clippy::too_many_arguments, reason = "they are a capture's own, taken over one by one")]
pub fn again(
    dir: &Path,
    replaying: Replaying,
    version: Option<String>,
    config_dir: Option<&Path>,
    places: Places,
    out: Option<PathBuf>,
    env: BTreeMap<String, String>,
    user_env: BTreeMap<String, String>,
) -> Result<Asked, HarnessError> {
    let recording = Recording::open(dir).map_err(|error| {
        HarnessError::you(error.to_string(), "give the folder of a recording that `capture` made")
    })?;
    let by_hand =
        || format!("give the command to replay it to, as in `offshoot replay {} -- COMMAND`", dir.display());
    let manifest = recording.manifest();
    let Some((manifest, recorded)) =
        manifest.and_then(|manifest| Some((manifest, manifest.harness.as_ref()?)))
    else {
        return Err(HarnessError::you(
            format!("`{}` does not say which harness it is of", dir.display()),
            by_hand(),
        ));
    };
    let harness = crate::find(&recorded.name).filter(|harness| harness.name() != "command");
    let Some(harness) = harness else {
        return Err(HarnessError::you(
            format!(
                "`{}` is a recording of `{}`, which cannot be started from it",
                dir.display(),
                recorded.name
            ),
            by_hand(),
        ));
    };
    let as_run = AsRun::read(dir)?;
    let known = find_scenario(as_run.name(), config_dir).ok();
    let scenario = as_run.scenario(dir, manifest, known.as_ref(), &env)?;
    Ok(Asked {
        harness,
        version: version.or_else(|| recorded.version.clone()),
        host_version: recorded.host.as_ref().map(|host| host.version.clone()),
        scenario,
        prompt: None,
        model: None,
        mode: recorded.mode.clone(),
        fixture_dir: None,
        script: None,
        cache_sim: false,
        live: false,
        replay: Some(replaying),
        max_budget_usd: None,
        timeout: None,
        out,
        arguments: as_run.arguments,
        env,
        clock: manifest.clock.clone().filter(|_| recorded.name == "offshoot"),
        sealed: manifest.network.as_ref().is_none_or(|network| network.because.is_none()),
        places,
        user_env,
    })
}
