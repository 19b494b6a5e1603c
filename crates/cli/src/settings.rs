//! The settings of a run: the user's `offshoot.toml`, then the project's.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::RunDefaults;
use agent::definition::{Trust, TrustError};
use agent::provider::{ConfigError, ProviderConfig};

use crate::failure::{ExitKind, OrFail, classify};
use crate::paths;

/// Reads the settings of a run in a folder, to report what is wrong with them.
pub(crate) fn check_settings(here: &Path) -> anyhow::Result<RunDefaults> {
    let mut config = ProviderConfig::new(Arc::new(|name: &str| std::env::var(name).ok()));
    read_settings(&mut config, here)
}

/// Reads the user's own settings, then the project's. Until they are accepted, those of a project cannot choose who gets a
/// key, which servers are contacted, or which programs are started.
pub(crate) fn read_settings(config: &mut ProviderConfig, here: &Path) -> anyhow::Result<RunDefaults> {
    let mut defaults = RunDefaults::default();
    let own = own_settings()?;
    if let Some(text) = read_file(&own)? {
        defaults.merge_user_file(&text, &own).map_err(bad_config)?;
        config.read(&text, &own).map_err(bad_config)?;
    }
    // A resumed run reads the settings of its own folder.
    let project = &here.join("offshoot.toml");
    if let Some(text) = read_file(project)? {
        let trust = Trust::read(&trust_path()?).map_err(trust_failure)?;
        // A file is accepted by its path in the project, also if it is a link.
        let real = here.canonicalize().or_fail(ExitKind::Outside)?.join("offshoot.toml");
        // A file that is accepted in its present content has the rights of the user's own.
        if trust.accepts(&real, text.as_bytes()) {
            defaults.merge_accepted_project_file(&text, project).map_err(bad_config)?;
            config.read(&text, project).map_err(bad_config)?;
        } else {
            defaults.merge_project_file(&text, project).map_err(bad_config)?;
        }
    }
    read_claude_hooks(&mut defaults, here, &own)?;
    Ok(defaults)
}

/// Settings of Claude Code in a project.
pub(crate) const CLAUDE_SETTINGS: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

/// Adds the hooks of Claude Code's settings: those that the user's own settings name, and those of the project that the user has
/// accepted.
fn read_claude_hooks(defaults: &mut RunDefaults, here: &Path, own: &Path) -> anyhow::Result<()> {
    for named in std::mem::take(&mut defaults.claude_settings) {
        let path = match named.strip_prefix("~/") {
            Some(rest) => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(rest),
            None => own.parent().unwrap_or(here).join(&named),
        };
        let Some(text) = read_file(&path)? else {
            let error = anyhow::anyhow!("`claude_settings` names `{}`, which does not exist", path.display());
            return Err(error).or_fail_with(ExitKind::Usage, || format!("ls -l {}", path.display()));
        };
        defaults.merge_claude_hooks(&text, &path, false).map_err(bad_config)?;
    }
    let trust = Trust::read(&trust_path()?).map_err(trust_failure)?;
    for name in CLAUDE_SETTINGS {
        let (path, text) = (here.join(name), read_file(&here.join(name)));
        let real = here.canonicalize().or_fail(ExitKind::Outside)?.join(name);
        // A file that is not accepted is not even required to be readable.
        let Ok(Some(text)) = text else { continue };
        if trust.accepts(&real, text.as_bytes()) {
            defaults.merge_claude_hooks(&text, &path, true).map_err(bad_config)?;
        }
    }
    Ok(())
}

/// Adds rules for a workspace to the user's own settings. They are appended, so that nothing in the file changes and
/// several runs can do so at the same time. Returns an error if the file would then be invalid, or is the project's.
pub(crate) fn remember_rules(workspace: &Path, rules: &[String]) -> anyhow::Result<()> {
    let path = own_settings()?;
    if real_path(&path).is_some_and(|own| Some(own) == real_path(&workspace.join("offshoot.toml"))) {
        anyhow::bail!("`{}` is the settings file of this project", path.display());
    }
    let added = agent::workspace_settings(workspace, rules)
        .ok_or_else(|| anyhow::anyhow!("the path `{}` is not UTF-8", workspace.display()))?;
    let before = read_file(&path)?.unwrap_or_default();
    let gap = match before.as_str() {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    RunDefaults::default().merge_user_file(&format!("{before}{gap}{added}"), &path)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
    file.write_all(format!("{gap}{added}").as_bytes())?;
    Ok(())
}

/// Returns the place of a file without links. The file need not exist, only its folder.
fn real_path(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    let folder = path.parent()?;
    // A link to a file that does not exist yet leads to where it would be created.
    let target = std::fs::read_link(path).map_or_else(|_| path.to_owned(), |target| folder.join(target));
    let folder = target.parent()?.canonicalize().ok()?;
    Some(folder.join(target.file_name()?))
}

/// Returns the path of the user's own settings.
pub(crate) fn own_settings() -> anyhow::Result<PathBuf> {
    let folder = paths::config_dir().or_fail_with(ExitKind::Usage, || "export HOME=/home/you".into())?;
    Ok(folder.join("offshoot.toml"))
}

fn read_file(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let error = anyhow::Error::new(error).context(format!("cannot read `{}`", path.display()));
            Err(error).or_fail(ExitKind::Usage)
        }
    }
}

/// Command that prints all settings with a comment on each.
pub(crate) const ALL_SETTINGS: &str = "(cd $(mktemp -d) && offshoot init && cat offshoot.toml)";

pub(crate) fn bad_config(error: ConfigError) -> anyhow::Error {
    let hint = error.hint().unwrap_or_else(|| ALL_SETTINGS.to_owned());
    classify(ExitKind::Usage, Some(hint), error.into())
}

/// Returns the path of the file that lists the accepted files.
pub(crate) fn trust_path() -> anyhow::Result<PathBuf> {
    Ok(data_dir()?.join("trust.json"))
}

/// Returns the data folder, with a hint if there is none.
pub(crate) fn data_dir() -> anyhow::Result<PathBuf> {
    paths::data_dir().or_fail_with(ExitKind::Usage, || "export HOME=/home/you".into())
}

/// Adds the exit code and the hint for a list of accepted files that cannot be read or written.
pub(crate) fn trust_failure(error: TrustError) -> anyhow::Error {
    let (kind, hint) = match &error {
        TrustError::Io { path, .. } => (ExitKind::Outside, format!("ls -l {}", path.display())),
        TrustError::Format { path, .. } => (ExitKind::Usage, format!("mv {0} {0}.bad", path.display())),
    };
    classify(kind, Some(hint), error.into())
}
