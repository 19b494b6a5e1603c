//! The settings of a run: the user's `offshoot.toml`, then the project's.

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
    let own = paths::config_dir().or_fail_with(ExitKind::Usage, || "export HOME=/home/you".into())?;
    let own = own.join("offshoot.toml");
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
    Ok(defaults)
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
