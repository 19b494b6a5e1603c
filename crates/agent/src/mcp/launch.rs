//! Decides how a server is started: never from files that an agent may have written.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::config::{ServerAddress, ServerConfig};
use super::program::{PACKAGE_RUNNERS, program_name};
use crate::trust::Trust;
use crate::workspace::normalize;

/// Folders for the servers of a run.
#[derive(Clone, Debug)]
pub struct ServerPaths {
    /// The folder that agents work in.
    pub workspace: PathBuf,
    /// Folder with one private folder for each server.
    pub own: PathBuf,
    /// File that records which files the user has accepted.
    pub trust: PathBuf,
}

/// Complete command line of a server.
#[derive(Debug)]
pub(super) struct LaunchCommand {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) folder: PathBuf,
    /// Value of `PATH` for the search of the program and for the server.
    pub(super) path: OsString,
}

/// Other programs whose first argument is a program.
const INTERPRETERS: &[&str] =
    &["node", "python", "pypy", "ruby", "perl", "php", "tsx", "ts-node", "sh", "bash", "zsh", "java", "lua"];

/// Subcommands that come before the program to run.
const SUBCOMMANDS: &[&str] = &["run", "exec", "x", "dlx", "tool", "start"];

/// File in the workspace that an argument refers to.
struct WorkspaceFile {
    /// Path under which the user's acceptance is recorded.
    key: PathBuf,
    real: PathBuf,
}

impl ServerPaths {
    /// Returns how a server is started now. An error says why it may not be.
    pub(super) fn launch_command(
        &self,
        server: &str,
        command: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&str>,
    ) -> Result<LaunchCommand, String> {
        let workspace = self.workspace.canonicalize().unwrap_or_else(|_| self.workspace.clone());
        let (program, arguments) = command.split_first().ok_or("its command is empty")?;
        let folder = match cwd {
            Some(cwd) => workspace.join(cwd),
            None => self.own_folder(server)?,
        };
        if !folder.is_dir() {
            return Err(format!("its `cwd` is not a folder: `{}`", folder.display()));
        }
        let is_inside = folder.canonicalize().is_ok_and(|folder| folder.starts_with(&workspace));
        if is_inside && PACKAGE_RUNNERS.contains(&program_name(program)) {
            return Err(format!(
                "it would start in `{}`, which agents can write, and `{}` runs code that it finds there and in the folders \
                 above: set a `cwd` outside the workspace",
                folder.display(),
                program_name(program)
            ));
        }
        let words = CommandWords {
            workspace: &workspace,
            base: cwd.map_or(&workspace, |_| &folder),
            is_bound: cwd.is_none(),
        };
        let path = words.search_path(env);
        let trust = Trust::read(&self.trust).map_err(|error| error.to_string())?;
        let mut launch =
            LaunchCommand { program: program.into(), arguments: Vec::new(), folder: folder.clone(), path };
        let (passed, place) = words.program(program, &launch.path);
        check_accepted(place, program, &trust, &workspace)?;
        launch.program = passed;
        for (at, argument) in arguments.iter().enumerate() {
            let (passed, place) = words.argument(argument, is_code(program, arguments, at))?;
            check_accepted(place, argument, &trust, &workspace)?;
            launch.arguments.push(passed);
        }
        Ok(launch)
    }

    /// Lists the files of the workspace that servers are started from, and that the user therefore has to
    /// accept.
    pub fn files_to_accept(&self, configs: &[ServerConfig]) -> Vec<PathBuf> {
        let workspace = self.workspace.canonicalize().unwrap_or_else(|_| self.workspace.clone());
        let mut files = Vec::new();
        for config in configs {
            let ServerAddress::Command { command, env, cwd } = &config.address else { continue };
            let folder = cwd.as_ref().map_or(workspace.clone(), |cwd| workspace.join(cwd));
            let words = CommandWords { workspace: &workspace, base: &folder, is_bound: cwd.is_none() };
            let program = words.program(&command[0], &words.search_path(env)).1;
            let arguments = command.iter().skip(1).filter_map(|word| words.argument(word, false).ok()?.1);
            files.extend(program.into_iter().chain(arguments).map(|place| place.key));
        }
        files
    }

    /// Creates and returns the server's private folder.
    fn own_folder(&self, server: &str) -> Result<PathBuf, String> {
        let folder = self.own.join(server);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| format!("cannot create `{}`: {error}", folder.display()))?;
        Ok(folder)
    }
}

/// Arguments of a command, and the folder that they are relative to.
struct CommandWords<'g> {
    workspace: &'g Path,
    base: &'g Path,
    /// True if the arguments are relative to the workspace although the server runs elsewhere.
    is_bound: bool,
}

impl CommandWords<'_> {
    /// Returns the folders to search for programs. Folders that an agent can write are left out, unless the
    /// user names them.
    fn search_path(&self, env: &BTreeMap<String, String>) -> OsString {
        if let Some(path) = env.get("PATH") {
            return path.into();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_sound = |folder: &PathBuf| folder.is_absolute() && self.place(folder).is_none();
        std::env::join_paths(std::env::split_paths(&path).filter(is_sound)).unwrap_or_default()
    }

    fn program(&self, word: &str, path: &OsString) -> (OsString, Option<WorkspaceFile>) {
        let found = match word.contains('/') {
            true => Some(self.base.join(word)),
            false => std::env::split_paths(path).map(|folder| folder.join(word)).find(|file| file.is_file()),
        };
        let place = found.as_deref().and_then(|found| self.place(found)).filter(|place| place.real.is_file());
        let passed = match (&place, word.contains('/')) {
            (Some(place), _) => place.real.clone().into(),
            (None, true) => self.base.join(word).into(),
            (None, false) => word.into(),
        };
        (passed, place)
    }

    /// Returns an argument as it is passed on, and the file of the workspace that it refers to, if any.
    fn argument(&self, word: &str, is_code: bool) -> Result<(OsString, Option<WorkspaceFile>), String> {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if word.starts_with('-') => (format!("{option}="), value),
            _ => (String::new(), word),
        };
        let unchanged = (OsString::from(word), None);
        if value.is_empty() || value.starts_with('-') {
            return Ok(unchanged);
        }
        let says_path =
            matches!(value, "." | "..") || ["/", "./", "../"].iter().any(|sign| value.starts_with(sign));
        let Some(place) = self.place(&self.base.join(value)) else {
            let is_bound = says_path && self.is_bound;
            let passed = if is_bound { self.base.join(value).into() } else { OsString::from(value) };
            return Ok((join(option, passed), None));
        };
        let is_file = place.real.is_file();
        if !is_file && is_code {
            // A package may have the same name as an existing folder.
            return if says_path {
                Err(format!("`{word}` is a folder of the workspace, and agents can change the code in it"))
            } else {
                Ok(unchanged)
            };
        }
        if !self.is_bound {
            return Ok((OsString::from(word), is_file.then_some(place)));
        }
        Ok((join(option, place.real.clone().into()), is_file.then_some(place)))
    }

    /// Returns the file or folder at a path if an agent could have created it.
    fn place(&self, path: &Path) -> Option<WorkspaceFile> {
        let real = path.canonicalize().ok()?;
        let plain = normalize(path);
        if real.starts_with(self.workspace) {
            return Some(WorkspaceFile { key: real.clone(), real });
        }
        plain.starts_with(self.workspace).then_some(WorkspaceFile { key: plain, real })
    }
}

/// Refuses a file of the workspace unless the user has accepted its current content.
fn check_accepted(
    place: Option<WorkspaceFile>,
    word: &str,
    trust: &Trust,
    workspace: &Path,
) -> Result<(), String> {
    let Some(place) = place else { return Ok(()) };
    let bytes = std::fs::read(&place.real).map_err(|error| format!("cannot read `{word}`: {error}"))?;
    if trust.accepts(&place.key, &bytes) {
        return Ok(());
    }
    let shown = place.key.strip_prefix(workspace).unwrap_or(&place.key).display();
    Err(format!(
        "`{word}` is a file of the workspace that agents can change, and its current content is not accepted; read it, then run: \
         offshoot agents accept {shown}"
    ))
}

/// Returns true if an argument names what the program runs.
fn is_code(program: &str, arguments: &[String], at: usize) -> bool {
    let program = program_name(program);
    let runs = PACKAGE_RUNNERS.contains(&program)
        || INTERPRETERS.contains(&program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'));
    let mut words = arguments.iter().enumerate().filter(|(_, word)| !word.starts_with('-'));
    let first = words.by_ref().find(|(_, word)| !SUBCOMMANDS.contains(&word.as_str()));
    runs && first.is_some_and(|(first, _)| first == at)
}

fn join(option: String, value: OsString) -> OsString {
    let mut word = OsString::from(option);
    word.push(value);
    word
}
