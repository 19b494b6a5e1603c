//! Where a server is started, and with what: not by files that an agent may have written.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use super::config::{At, ServerConfig};
use crate::definition::Trust;

/// Where the servers of a run stand.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The folder that agents work in.
    pub workspace: PathBuf,
    /// Where each server has a folder of its own.
    pub own: PathBuf,
    /// Where it is kept which files the user has accepted.
    pub trust: PathBuf,
}

/// How a server is started.
#[derive(Debug)]
pub(super) struct Stand {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) folder: PathBuf,
    /// Where programs are looked for.
    pub(super) path: OsString,
}

/// Programs that run what they find in the folder they stand in, and in those above it.
pub(super) const PACKAGES: &[&str] = &[
    "npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "uv", "uvx", "pipx", "deno", "poetry", "cargo",
    "make",
];

/// Others whose first word is a program.
const INTERPRETERS: &[&str] =
    &["node", "python", "pypy", "ruby", "perl", "php", "tsx", "ts-node", "sh", "bash", "zsh", "java", "lua"];

/// Words behind which the program stands that such a one runs.
const VERBS: &[&str] = &["run", "exec", "x", "dlx", "tool", "start"];

/// What a word of a command leads to in the workspace.
struct Place {
    /// Where the user's word for it is kept.
    key: PathBuf,
    real: PathBuf,
}

impl Ground {
    /// How a server is started, as things are now. An error says why it is not.
    pub(super) fn stand(
        &self,
        server: &str,
        command: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&str>,
    ) -> Result<Stand, String> {
        let workspace = self.workspace.canonicalize().unwrap_or_else(|_| self.workspace.clone());
        let (program, arguments) = command.split_first().ok_or("its command is empty")?;
        let folder = match cwd {
            Some(cwd) => workspace.join(cwd),
            None => self.own_folder(server)?,
        };
        if !folder.is_dir() {
            return Err(format!("its `cwd` is no folder: `{}`", folder.display()));
        }
        let is_inside = folder.canonicalize().is_ok_and(|folder| folder.starts_with(&workspace));
        if is_inside && PACKAGES.contains(&name(program)) {
            return Err(format!(
                "it would be started in `{}`, where agents can write, and `{}` runs what it finds there and in the folders \
                 above: give it a `cwd` outside of the workspace",
                folder.display(),
                name(program)
            ));
        }
        let words = Words {
            workspace: &workspace,
            base: cwd.map_or(&workspace, |_| &folder),
            is_bound: cwd.is_none(),
        };
        let path = words.search_path(env);
        let trust = Trust::read(&self.trust).map_err(|error| error.to_string())?;
        let mut stand =
            Stand { program: program.into(), arguments: Vec::new(), folder: folder.clone(), path };
        let (handed, place) = words.program(program, &stand.path);
        check(place, program, &trust, &workspace)?;
        stand.program = handed;
        for (at, argument) in arguments.iter().enumerate() {
            let (handed, place) = words.argument(argument, is_code(program, arguments, at))?;
            check(place, argument, &trust, &workspace)?;
            stand.arguments.push(handed);
        }
        Ok(stand)
    }

    /// The files of the workspace that servers are started from, and which the user therefore has to accept.
    pub fn files(&self, configs: &[ServerConfig]) -> Vec<PathBuf> {
        let workspace = self.workspace.canonicalize().unwrap_or_else(|_| self.workspace.clone());
        let mut files = Vec::new();
        for config in configs {
            let At::Command { command, env, cwd } = &config.at else { continue };
            let folder = cwd.as_ref().map_or(workspace.clone(), |cwd| workspace.join(cwd));
            let words = Words { workspace: &workspace, base: &folder, is_bound: cwd.is_none() };
            let program = words.program(&command[0], &words.search_path(env)).1;
            let arguments = command.iter().skip(1).filter_map(|word| words.argument(word, false).ok()?.1);
            files.extend(program.into_iter().chain(arguments).map(|place| place.key));
        }
        files
    }

    /// A folder that only this server has.
    fn own_folder(&self, server: &str) -> Result<PathBuf, String> {
        let folder = self.own.join(server);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| format!("`{}` cannot be made: {error}", folder.display()))?;
        Ok(folder)
    }
}

/// Words of a command, and what they are relative to.
struct Words<'g> {
    workspace: &'g Path,
    base: &'g Path,
    /// They are relative to the workspace, and the server stands elsewhere.
    is_bound: bool,
}

impl Words<'_> {
    /// The folders that programs are looked for in: not those that an agent can write to, unless the user names them.
    fn search_path(&self, env: &BTreeMap<String, String>) -> OsString {
        if let Some(path) = env.get("PATH") {
            return path.into();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_sound = |folder: &PathBuf| folder.is_absolute() && self.place(folder).is_none();
        std::env::join_paths(std::env::split_paths(&path).filter(is_sound)).unwrap_or_default()
    }

    fn program(&self, word: &str, path: &OsString) -> (OsString, Option<Place>) {
        let found = match word.contains('/') {
            true => Some(self.base.join(word)),
            false => std::env::split_paths(path).map(|folder| folder.join(word)).find(|file| file.is_file()),
        };
        let place = found.as_deref().and_then(|found| self.place(found)).filter(|place| place.real.is_file());
        let handed = match (&place, word.contains('/')) {
            (Some(place), _) => place.real.clone().into(),
            (None, true) => self.base.join(word).into(),
            (None, false) => word.into(),
        };
        (handed, place)
    }

    /// An argument as it is handed over, and the file of the workspace that it is, if it is one.
    fn argument(&self, word: &str, is_code: bool) -> Result<(OsString, Option<Place>), String> {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if word.starts_with('-') => (format!("{option}="), value),
            _ => (String::new(), word),
        };
        let as_it_is = (OsString::from(word), None);
        if value.is_empty() || value.starts_with('-') {
            return Ok(as_it_is);
        }
        let says_path =
            matches!(value, "." | "..") || ["/", "./", "../"].iter().any(|sign| value.starts_with(sign));
        let Some(place) = self.place(&self.base.join(value)) else {
            let is_bound = says_path && self.is_bound;
            let handed = if is_bound { self.base.join(value).into() } else { OsString::from(value) };
            return Ok((joined(option, handed), None));
        };
        let is_file = place.real.is_file();
        if !is_file && is_code {
            // A package may be called like a folder that somebody has made.
            return if says_path {
                Err(format!(
                    "`{word}` is a folder of the workspace, and agents can write to what would be run there"
                ))
            } else {
                Ok(as_it_is)
            };
        }
        if !self.is_bound {
            return Ok((OsString::from(word), is_file.then_some(place)));
        }
        Ok((joined(option, place.real.clone().into()), is_file.then_some(place)))
    }

    /// What there is at a path, where an agent could have put it there.
    fn place(&self, path: &Path) -> Option<Place> {
        let real = path.canonicalize().ok()?;
        let plain = plain(path);
        if real.starts_with(self.workspace) {
            return Some(Place { key: real.clone(), real });
        }
        plain.starts_with(self.workspace).then_some(Place { key: plain, real })
    }
}

/// Refuses a file of the workspace that the user has not accepted as it is.
fn check(place: Option<Place>, word: &str, trust: &Trust, workspace: &Path) -> Result<(), String> {
    let Some(place) = place else { return Ok(()) };
    let bytes = std::fs::read(&place.real).map_err(|error| format!("`{word}` cannot be read: {error}"))?;
    if trust.accepts(&place.key, &bytes) {
        return Ok(());
    }
    let shown = place.key.strip_prefix(workspace).unwrap_or(&place.key).display();
    Err(format!(
        "`{word}` is a file of the workspace, where agents can change it, and not accepted as it is; read it, then: \
         offshoot agents accept {shown}"
    ))
}

/// Whether an argument is what such a program runs.
fn is_code(program: &str, arguments: &[String], at: usize) -> bool {
    let program = name(program);
    let runs = PACKAGES.contains(&program)
        || INTERPRETERS.contains(&program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'));
    let mut words = arguments.iter().enumerate().filter(|(_, word)| !word.starts_with('-'));
    let first = words.by_ref().find(|(_, word)| !VERBS.contains(&word.as_str()));
    runs && first.is_some_and(|(first, _)| first == at)
}

fn joined(option: String, value: OsString) -> OsString {
    let mut word = OsString::from(option);
    word.push(value);
    word
}

/// A path without `.` and `..`, whatever links there are.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// A program's name without its folder.
pub(super) fn name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
