//! Finding the files: which there are, which of them count, and why the others do not.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::agent::Agent;
use super::front::{DefinitionError, Front};
use super::keys::UnusedKey;
use super::skill::Skill;
use crate::trust::Trust;

/// How much a file may hold, how deep folders may lie, and how many files are looked at.
const MAX_BYTES: u64 = 256 << 10;
const MAX_DEPTH: usize = 4;
const MAX_FILES: usize = 1000;

/// What a file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    /// An agent.
    Agent,
    /// A skill.
    Skill,
    /// A command.
    Command,
}

impl DefinitionKind {
    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Skill => "skill",
            Self::Command => "command",
        }
    }
}

/// Where a project may have them, the first before the others.
const PROJECT: &[(DefinitionKind, &str)] = &[
    (DefinitionKind::Agent, ".offshoot/agents"),
    (DefinitionKind::Agent, ".claude/agents"),
    (DefinitionKind::Agent, ".opencode/agent"),
    (DefinitionKind::Agent, ".opencode/agents"),
    (DefinitionKind::Skill, ".offshoot/skills"),
    (DefinitionKind::Skill, ".claude/skills"),
    (DefinitionKind::Command, ".offshoot/commands"),
    (DefinitionKind::Command, ".claude/commands"),
    (DefinitionKind::Command, ".opencode/command"),
    (DefinitionKind::Command, ".opencode/commands"),
];

/// Where the user has their own.
const USER: &[(DefinitionKind, &str)] = &[
    (DefinitionKind::Agent, "agents"),
    (DefinitionKind::Skill, "skills"),
    (DefinitionKind::Command, "commands"),
];

/// Where to look.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionFolders<'a> {
    /// The project's folder, without links in its path: accepted files are known by it.
    pub project: &'a Path,
    /// The user's configuration folder.
    pub user: &'a Path,
}

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    /// The agents that count, those before others that win over them.
    pub agents: Vec<Agent>,
    /// The skills.
    pub skills: Vec<Skill>,
    /// The commands.
    pub commands: Vec<Skill>,
    /// Every file.
    pub files: Vec<DefinitionFile>,
}

/// One file.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it describes.
    pub kind: DefinitionKind,
    /// What that is called, where it can be read.
    pub name: Option<String>,
    /// It is the project's and not the user's.
    pub is_project: bool,
    /// Whether it counts.
    pub state: DefinitionState,
    /// What in it has no effect.
    pub unused: Vec<UnusedKey>,
}

/// Whether a file counts.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionState {
    /// It does.
    Used,
    /// It cannot be read.
    Invalid(DefinitionError),
    /// The user has not accepted it, or not as it is now.
    NotAccepted,
    /// Another one of the same name comes before it.
    Hidden {
        /// That one.
        by: PathBuf,
    },
    /// It is none of these files.
    Ignored(&'static str),
}

impl Definitions {
    /// Reads all there are. `tools` are the names of the tools, for saying which named ones do not exist.
    pub fn load(places: DefinitionFolders<'_>, trust: &Trust, tools: &[String]) -> Self {
        let mut all = Self::default();
        let project = PROJECT.iter().map(|(kind, folder)| (*kind, places.project.join(folder), true));
        let user = USER.iter().map(|(kind, folder)| (*kind, places.user.join(folder), false));
        for (kind, folder, is_project) in project.chain(user) {
            // Claude Code puts a colon between the folders of a name.
            let between = if folder.to_string_lossy().contains(".claude") { ":" } else { "/" };
            for found in files(kind, &folder, between) {
                if all.files.len() == MAX_FILES {
                    all.files.push(too_many(kind, &folder, is_project));
                    return all;
                }
                all.take(kind, found, is_project, trust, tools);
            }
        }
        all
    }

    fn take(
        &mut self,
        kind: DefinitionKind,
        found: Found,
        is_project: bool,
        trust: &Trust,
        tools: &[String],
    ) {
        let Found { path, name, ignored } = found;
        let mut file = DefinitionFile {
            path: path.clone(),
            kind,
            name: None,
            is_project,
            state: DefinitionState::Used,
            unused: Vec::new(),
        };
        if let Some(why) = ignored {
            file.state = DefinitionState::Ignored(why);
            return self.files.push(file);
        }
        let read = read(&path).and_then(|bytes| Ok((Front::read(&bytes)?, bytes)));
        let (front, bytes) = match read {
            Ok(read) => read,
            Err(broken) => {
                file.state = DefinitionState::Invalid(broken);
                return self.files.push(file);
            }
        };
        let is_accepted = !is_project || trust.accepts(&path, &bytes);
        let described = match kind {
            DefinitionKind::Agent => {
                Agent::read(front, &name, tools).map(|(agent, unused)| (One::Agent(agent), unused))
            }
            _ => Skill::read(kind, front, &name, tools).map(|(skill, unused)| (One::Skill(skill), unused)),
        };
        match described {
            Err(broken) => file.state = DefinitionState::Invalid(broken),
            Ok((one, unused)) => {
                let name = one.name().to_owned();
                let before = self.named(kind, &name);
                file.unused = unused;
                file.state = match before {
                    _ if !is_accepted => DefinitionState::NotAccepted,
                    Some(by) => DefinitionState::Hidden { by },
                    None => {
                        self.add(kind, one, &path, is_project);
                        DefinitionState::Used
                    }
                };
                file.name = Some(name);
            }
        }
        self.files.push(file);
    }

    /// The file that the thing of that name comes from.
    fn named(&self, kind: DefinitionKind, name: &str) -> Option<PathBuf> {
        let skill = |skills: &[Skill]| skills.iter().find(|s| s.name == name).and_then(|s| s.file.clone());
        match kind {
            DefinitionKind::Agent => self.agents.iter().find(|a| a.name == name).and_then(|a| a.file.clone()),
            DefinitionKind::Skill => skill(&self.skills),
            DefinitionKind::Command => skill(&self.commands),
        }
    }

    fn add(&mut self, kind: DefinitionKind, one: One, path: &Path, is_project: bool) {
        let file = Some(path.to_owned());
        match one {
            One::Agent(agent) => self.agents.push(Agent { file, ..agent }),
            One::Skill(skill) if kind == DefinitionKind::Skill => {
                // An agent reads what is in its workspace, and nothing in the user's own folder.
                let folder = path.parent().filter(|_| is_project).map(Path::to_owned);
                self.skills.push(Skill { file, folder, ..skill });
            }
            One::Skill(command) => self.commands.push(Skill { file, ..command }),
        }
    }

    /// Whether nothing is broken.
    pub fn is_sound(&self) -> bool {
        !self.files.iter().any(|file| matches!(file.state, DefinitionState::Invalid(_)))
    }
}

enum One {
    Agent(Agent),
    Skill(Skill),
}

impl One {
    fn name(&self) -> &str {
        match self {
            Self::Agent(agent) => &agent.name,
            Self::Skill(skill) => &skill.name,
        }
    }
}

/// What stands for all files from there on.
fn too_many(kind: DefinitionKind, folder: &Path, is_project: bool) -> DefinitionFile {
    let state =
        DefinitionState::Ignored("there are more than 1000 files, and from here on none is looked at");
    DefinitionFile { path: folder.to_owned(), kind, name: None, is_project, state, unused: Vec::new() }
}

/// What a name in a folder stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Folder,
    /// A link to one, which is not followed: what is accepted would lie elsewhere.
    Link,
    File,
}

const LINK: &str = "it is a link to a folder, and those are not followed";

/// A file that lies where one could count.
struct Found {
    path: PathBuf,
    /// What it is called after its place.
    name: String,
    /// Why it is none.
    ignored: Option<&'static str>,
}

/// The files of a folder by name, those below it included.
fn files(kind: DefinitionKind, folder: &Path, between: &str) -> Vec<Found> {
    let mut found = Vec::new();
    match kind {
        DefinitionKind::Skill => {
            for (path, name, entry) in entries(folder) {
                let file = path.join("SKILL.md");
                let (path, ignored) = match entry {
                    Entry::Folder if file.is_file() => (file, None),
                    Entry::Folder => (path, Some("there is no `SKILL.md` in it")),
                    Entry::Link => (path, Some(LINK)),
                    Entry::File => (path, Some("a skill is a folder with a `SKILL.md` in it")),
                };
                found.push(Found { path, name, ignored });
            }
        }
        _ => walk(folder, "", between, MAX_DEPTH, &mut found),
    }
    found
}

fn walk(folder: &Path, before: &str, between: &str, depth: usize, found: &mut Vec<Found>) {
    for (path, name, entry) in entries(folder) {
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        if entry == Entry::Link {
            found.push(Found { path, name, ignored: Some(LINK) });
        } else if entry == Entry::Folder {
            match depth {
                0 => found.push(Found { path, name, ignored: Some("it lies too deep") }),
                _ => walk(&path, &format!("{before}{name}{between}"), between, depth - 1, found),
            }
        } else if is_markdown {
            let name = format!("{before}{}", name.strip_suffix(".md").unwrap_or(&name));
            found.push(Found { path, name, ignored: None });
        } else {
            found.push(Found { path, name, ignored: Some("its name does not end in `.md`") });
        }
    }
}

/// What is in a folder, by name; of too many so many that this is seen.
fn entries(folder: &Path) -> Vec<(PathBuf, String, Entry)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut all: Vec<_> = entries
        .flatten()
        .take(MAX_FILES + 1)
        .map(|entry| {
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_dir() => Entry::Folder,
                Ok(kind) if kind.is_symlink() && entry.path().is_dir() => Entry::Link,
                _ => Entry::File,
            };
            (entry.path(), entry.file_name().to_string_lossy().into_owned(), kind)
        })
        .collect();
    all.sort();
    all
}

/// A file's bytes, read once: what is accepted is what is used.
fn read(path: &Path) -> Result<Vec<u8>, DefinitionError> {
    let cannot = |error: std::io::Error| DefinitionError::at(1, format!("it cannot be read: {error}"));
    // What is no plain file could keep us waiting for ever.
    let about = std::fs::metadata(path).map_err(cannot)?;
    if !about.is_file() {
        return Err(DefinitionError::at(1, "it is not a file"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(DefinitionError::at(1, format!("it has more than {MAX_BYTES} bytes"))),
        false => Ok(bytes),
    }
}
