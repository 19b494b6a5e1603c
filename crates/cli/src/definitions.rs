//! The agents, skills and commands of a folder, as commands find them.

use std::path::{Path, PathBuf};

use agent::ServerPaths;
use agent::definition::{DefinitionFolders, DefinitionState, Definitions, Trust};

use crate::failure::{Kind, OrFail};
use crate::{paths, settings};

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
        let trust = Trust::read(&settings::trust_path()?).map_err(settings::trust_failure)?;
        let mut tools: Vec<String> =
            agent::tools::builtin().iter().map(|tool| tool.name().to_owned()).collect();
        // Settings that cannot be read name no servers, and are told of where they matter.
        if let Ok(settings) = settings::check_settings(&project) {
            tools.extend(settings.mcp.iter().map(|server| format!("{}_*", server.name)));
        }
        let all = Definitions::load(DefinitionFolders { project: &project, user: &user }, &trust, &tools);
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
        self.all.files.iter().filter(|file| file.state == DefinitionState::NotAccepted).count()
    }
}

/// Where the servers of a run in that folder stand.
pub(crate) fn server_paths(workspace: &Path) -> anyhow::Result<ServerPaths> {
    Ok(ServerPaths {
        workspace: workspace.to_owned(),
        own: settings::data_dir()?.join("mcp"),
        trust: settings::trust_path()?,
    })
}
