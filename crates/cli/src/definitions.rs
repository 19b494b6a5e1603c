//! Agents, skills and slash commands of a folder.

use std::path::{Path, PathBuf};

use agent::definition::{DefinitionFolders, DefinitionState, Definitions, FolderSkills, Trust};
use agent::{RunDefaults, ServerPaths, UnusedHook};

use crate::failure::{ExitKind, OrFail};
use crate::{paths, settings};

/// Definitions of a folder and of the user.
pub(crate) struct FolderDefinitions {
    /// The definitions.
    pub(crate) all: Definitions,
    /// The folder, with links resolved.
    pub(crate) project: PathBuf,
    /// Files that the user has accepted.
    pub(crate) trust: Trust,
    /// Settings of Claude Code with hooks.
    pub(crate) hook_files: Vec<HookFile>,
    /// Finds the skills of folders below this one.
    pub(crate) folder_skills: FolderSkills,
}

/// Settings of Claude Code in the folder that name hooks.
pub(crate) struct HookFile {
    pub(crate) path: PathBuf,
    pub(crate) is_accepted: bool,
    /// The hooks that are not used, even if the file is accepted.
    pub(crate) unused: Vec<UnusedHook>,
}

impl FolderDefinitions {
    /// Loads the definitions.
    pub(crate) fn load(folder: &Path) -> anyhow::Result<Self> {
        let project = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let user = paths::config_dir().or_fail_with(ExitKind::Usage, || "export HOME=/home/you".into())?;
        let trust = Trust::read(&settings::trust_path()?).map_err(settings::trust_failure)?;
        let mut tools: Vec<String> =
            agent::tools::builtin().iter().map(|tool| tool.name().to_owned()).collect();
        // Unreadable settings name no servers. Commands that need the settings report the error.
        if let Ok(settings) = settings::check_settings(&project) {
            tools.extend(settings.mcp.iter().map(|server| format!("{}_*", server.name)));
        }
        let all = Definitions::load(DefinitionFolders { project: &project, user: &user }, &trust, &tools);
        let hook_files = hook_files(&project, &trust);
        let folder_skills = FolderSkills { project: project.clone(), trust: settings::trust_path()?, tools };
        Ok(Self { all, project, trust, hook_files, folder_skills })
    }

    /// Returns a path relative to the folder.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.project).unwrap_or(path).display().to_string()
    }

    /// Returns the command that accepts a file.
    pub(crate) fn accept_command(&self, path: &Path) -> String {
        format!("offshoot agents accept {}", paths::shell_word(&self.relative(path)))
    }

    /// Counts the files that are not accepted.
    pub(crate) fn unaccepted(&self) -> usize {
        let definitions =
            self.all.files.iter().filter(|file| file.state == DefinitionState::NotAccepted).count();
        definitions + self.hook_files.iter().filter(|file| !file.is_accepted).count()
    }
}

/// Finds the settings of Claude Code that name hooks which could be run.
fn hook_files(project: &Path, trust: &Trust) -> Vec<HookFile> {
    let file = |name: &&str| {
        let path = project.join(name);
        let text = std::fs::read_to_string(&path).ok()?;
        let mut defaults = RunDefaults::default();
        let unused = defaults.merge_claude_hooks(&text, &path, true).ok()?;
        let is_accepted = trust.accepts(&path, text.as_bytes());
        (!defaults.hooks.is_empty()).then_some(HookFile { path, is_accepted, unused })
    };
    settings::CLAUDE_SETTINGS.iter().filter_map(file).collect()
}

/// Returns the folders and the accepted files that the tool servers of a run need.
pub(crate) fn server_paths(workspace: &Path) -> anyhow::Result<ServerPaths> {
    Ok(ServerPaths {
        workspace: workspace.to_owned(),
        own: settings::data_dir()?.join("mcp"),
        trust: settings::trust_path()?,
    })
}
