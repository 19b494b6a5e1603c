//! The agents, skills and commands of a folder, as commands find them.

use std::path::{Path, PathBuf};

use agent::Ground;
use agent::definition::{Definitions, Places, State, Trust, TrustError};

use crate::commands::run::check_settings;
use crate::failure::{Kind, OrFail, marked};
use crate::paths;

/// Everything that is described for agents here.
pub(crate) struct Described {
    /// What was found.
    pub(crate) all: Definitions,
    /// The folder, without links in its path.
    pub(crate) project: PathBuf,
    /// What the user has accepted.
    pub(crate) trust: Trust,
}

impl Described {
    /// What is described in that folder, and by the user.
    pub(crate) fn load(folder: &Path) -> anyhow::Result<Self> {
        let project = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let user = paths::config_dir().or_fail_with(Kind::Usage, || "export HOME=/home/you".into())?;
        let trust = Trust::read(&trust_path()?).map_err(failure)?;
        let mut tools: Vec<String> =
            agent::tools::builtin().iter().map(|tool| tool.name().to_owned()).collect();
        // Settings that cannot be read name no servers, and are told of where they matter.
        if let Ok(settings) = check_settings(&project) {
            tools.extend(settings.mcp.iter().map(|server| format!("{}_*", server.name)));
        }
        let all = Definitions::load(Places { project: &project, user: &user }, &trust, &tools);
        Ok(Self { all, project, trust })
    }

    /// A path as it is typed here.
    pub(crate) fn typed(&self, path: &Path) -> String {
        path.strip_prefix(&self.project).unwrap_or(path).display().to_string()
    }

    /// The command that accepts a file.
    pub(crate) fn accept(&self, path: &Path) -> String {
        format!("offshoot agents accept {}", paths::word(&self.typed(path)))
    }

    /// How many files wait for the user's word.
    pub(crate) fn waiting(&self) -> usize {
        self.all.files.iter().filter(|file| file.state == State::NotAccepted).count()
    }
}

/// Where it is kept what the user has accepted.
pub(crate) fn trust_path() -> anyhow::Result<PathBuf> {
    Ok(data_dir()?.join("trust.json"))
}

/// Where the servers of a run in that folder stand.
pub(crate) fn ground(workspace: &Path) -> anyhow::Result<Ground> {
    Ok(Ground { workspace: workspace.to_owned(), own: data_dir()?.join("mcp"), trust: trust_path()? })
}

fn data_dir() -> anyhow::Result<PathBuf> {
    paths::data_dir().or_fail_with(Kind::Usage, || "export HOME=/home/you".into())
}

/// Whose turn it is when that cannot be read or written.
pub(crate) fn failure(error: TrustError) -> anyhow::Error {
    let (kind, hint) = match &error {
        TrustError::Io { path, .. } => (Kind::Outside, format!("ls -l {}", path.display())),
        TrustError::Format { path, .. } => (Kind::Usage, format!("mv {0} {0}.bad", path.display())),
    };
    marked(kind, Some(hint), error.into())
}
