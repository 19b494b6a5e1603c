//! OpenCode's settings, files and environment.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::model::{Dialect, Model};
use crate::adapter::Plan;
use crate::error::HarnessError;
use crate::sandbox::Sandbox;

/// The package that OpenCode installs beside settings for plugins.
pub(super) const PLUGIN_API: &str = "@opencode-ai/plugin";

/// Settings that turn off downloads, updates and sharing. Without the fourth, old versions wait for the
/// network forever.
const QUIET: &[&str] = &[
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_SHARE",
    "OPENCODE_DISABLE_TERMINAL_TITLE",
];

/// A loopback port without a listener.
const NOWHERE: &str = "http://127.0.0.1:9/";

/// Returns the environment of OpenCode.
pub(super) fn env(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let mut env: BTreeMap<_, _> = QUIET.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
    // Everything it needs from the registry is installed; the rest must not be fetched during a recording.
    env.insert("npm_config_registry".into(), NOWHERE.into());
    // Some versions ship without a model list and always fetch one.
    env.insert("OPENCODE_MODELS_URL".into(), format!("file://{}", models_folder(sandbox).display()));
    env
}

fn models_folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.scratch().join("models")
}

/// Writes `opencode.json`, including `more`.
pub(super) fn write(
    plan: &Plan,
    sandbox: &Sandbox,
    model: &Model,
    more: Map<String, Value>,
) -> Result<(), HarnessError> {
    let folder = sandbox.config().join("opencode");
    fs::create_dir_all(&folder).map_err(HarnessError::io("make", &folder))?;
    write_json(&folder.join("opencode.json"), &settings(plan, model, more))?;
    install_files(&folder, &plan.prefix)?;
    let models = models_folder(sandbox);
    fs::create_dir_all(&models).map_err(HarnessError::io("make", &models))?;
    write_json(&models.join("api.json"), &model.list())?;
    // The project may have such a folder with agents.
    let project = sandbox.workspace().join(".opencode");
    if project.is_dir() { install_files(&project, &plan.prefix) } else { Ok(()) }
}

fn settings(plan: &Plan, model: &Model, more: Map<String, Value>) -> Value {
    let mut settings = json!({
        "share": "disabled",
        "autoupdate": false,
        // It would commit a copy of the workspace to Git after every step.
        "snapshot": false,
        "model": model.name(),
        "provider": { &model.provider: model.provider_settings(&plan.endpoints) },
        // No one can answer questions.
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
        // Without a small model of the same provider, old versions send titles to OpenCode's own server.
        all.insert("small_model".into(), model.name().into());
    }
    all.extend(more);
    settings
}

/// Makes a settings folder look as if the plugin API were installed in it. Newer versions check a lock file
/// and wait for the registry if it is missing.
fn install_files(folder: &Path, prefix: &Path) -> Result<(), HarnessError> {
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

/// Returns the version in a `package.json`.
pub(crate) fn version_of(package_json: &Path) -> Option<String> {
    let package: Value = serde_json::from_slice(&fs::read(package_json).ok()?).ok()?;
    Some(package.get("version")?.as_str()?.to_owned())
}

/// Writes a JSON file.
pub(crate) fn write_json(path: &Path, value: &Value) -> Result<(), HarnessError> {
    fs::write(path, format!("{value:#}\n")).map_err(HarnessError::io("write", path))
}
