//! What OpenCode finds in its folders, and around it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::model::{Dialect, Model};
use crate::adapter::Plan;
use crate::error::HarnessError;
use crate::sandbox::Sandbox;

/// The package that OpenCode installs beside settings, so that plugins find it.
pub(super) const PLUGIN_API: &str = "@opencode-ai/plugin";

/// Nothing is fetched, updated or shared. Without the fourth, old versions wait for the network for ever.
const QUIET: &[&str] = &[
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_SHARE",
    "OPENCODE_DISABLE_TERMINAL_TITLE",
];

/// A port of loopback that nobody listens on.
const NOWHERE: &str = "http://127.0.0.1:9/";

/// The variables it is started with.
pub(super) fn env(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let mut env: BTreeMap<_, _> = QUIET.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
    // What it wants from the registry is there already, or must not be fetched in the middle of a recording.
    env.insert("npm_config_registry".into(), NOWHERE.into());
    // Some versions were published without a list of models, and must fetch one whatever they are told.
    env.insert("OPENCODE_MODELS_URL".into(), format!("file://{}", models_folder(sandbox).display()));
    env
}

fn models_folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.scratch().join("models")
}

/// Writes `opencode.json`, with `more` in it.
pub(super) fn write(
    plan: &Plan,
    sandbox: &Sandbox,
    model: &Model,
    more: Map<String, Value>,
) -> Result<(), HarnessError> {
    let folder = sandbox.config().join("opencode");
    fs::create_dir_all(&folder).map_err(HarnessError::io("make", &folder))?;
    write_json(&folder.join("opencode.json"), &settings(plan, model, more))?;
    furnish(&folder, &plan.prefix)?;
    let models = models_folder(sandbox);
    fs::create_dir_all(&models).map_err(HarnessError::io("make", &models))?;
    write_json(&models.join("api.json"), &model.list())?;
    // A project may have such a folder too, and agents in it.
    let project = sandbox.workspace().join(".opencode");
    if project.is_dir() { furnish(&project, &plan.prefix) } else { Ok(()) }
}

fn settings(plan: &Plan, model: &Model, more: Map<String, Value>) -> Value {
    let mut settings = json!({
        "share": "disabled",
        "autoupdate": false,
        // It would keep a copy of the workspace in Git after every step.
        "snapshot": false,
        "model": model.name(),
        "provider": { &model.provider: model.provider_settings(&plan.endpoints) },
        // Nobody is there to be asked.
        "permission": {
            "edit": "allow",
            "bash": "allow",
            "webfetch": "allow",
            "doom_loop": "deny",
            "external_directory": "deny",
        },
    });
    let all = settings.as_object_mut().expect("it is one");
    if model.dialect == Dialect::Compatible {
        // Without a small model of the same provider, old versions send titles to their maker's.
        all.insert("small_model".into(), model.name().into());
    }
    all.extend(more);
    settings
}

/// Makes a folder of settings look as if the plugin API had been installed into it. Newer versions look for a
/// lock file that has it, and wait for the registry where there is none.
fn furnish(folder: &Path, prefix: &Path) -> Result<(), HarnessError> {
    let installed = prefix.join("node_modules");
    let package = installed.join(PLUGIN_API).join("package.json");
    let Some(version) = version_of(&package) else { return Ok(()) };
    let wanted = json!({ PLUGIN_API: version });
    let lock = json!({
        "name": "opencode",
        "lockfileVersion": 3,
        "requires": true,
        "packages": { "": { "dependencies": wanted } },
    });
    write_json(&folder.join("package.json"), &json!({ "dependencies": wanted }))?;
    write_json(&folder.join("package-lock.json"), &lock)?;
    let ignored = folder.join(".gitignore");
    let names = "node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore\n";
    fs::write(&ignored, names).map_err(HarnessError::io("write", &ignored))?;
    let link = folder.join("node_modules");
    if link.exists() {
        return Ok(());
    }
    symlink(&installed, &link).map_err(HarnessError::io("make", &link))
}

/// What a `package.json` says of its version.
pub(crate) fn version_of(package_json: &Path) -> Option<String> {
    let package: Value = serde_json::from_slice(&fs::read(package_json).ok()?).ok()?;
    Some(package.get("version")?.as_str()?.to_owned())
}

/// Writes a file of JSON.
pub(crate) fn write_json(path: &Path, value: &Value) -> Result<(), HarnessError> {
    fs::write(path, format!("{value:#}\n")).map_err(HarnessError::io("write", path))
}
