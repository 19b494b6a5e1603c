//! Finds definition files, and decides which of them are used.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::agent::Agent;
use super::front::{DefinitionError, Front};
use super::keys::UnusedKey;
use super::kind::DefinitionKind;
use super::skill::Skill;
use crate::trust::Trust;

/// Maximum size of a file, depth of folders, and number of files.
const MAX_BYTES: u64 = 256 << 10;
const MAX_DEPTH: usize = 4;
const MAX_FILES: usize = 1000;

/// Folders in a project. Earlier ones win.
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

/// Folders in the user's configuration folder.
const USER: &[(DefinitionKind, &str)] = &[
    (DefinitionKind::Agent, "agents"),
    (DefinitionKind::Skill, "skills"),
    (DefinitionKind::Command, "commands"),
];

/// The folders with definitions.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionFolders<'a> {
    /// The project's folder, with links resolved, because accepted files are stored by path.
    pub project: &'a Path,
    /// The user's configuration folder.
    pub user: &'a Path,
}

/// All definitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    /// The agents that are used.
    pub agents: Vec<Agent>,
    /// The skills that are used.
    pub skills: Vec<Skill>,
    /// The slash commands that are used.
    pub commands: Vec<Skill>,
    /// All files.
    pub files: Vec<DefinitionFile>,
}

/// A file.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionFile {
    /// Its path.
    pub path: PathBuf,
    /// Its kind.
    pub kind: DefinitionKind,
    /// The name of its definition, if it can be read.
    pub name: Option<String>,
    /// True if it belongs to the project, not to the user.
    pub is_project: bool,
    /// True if it is used.
    pub state: DefinitionState,
    /// The keys without effect.
    pub unused: Vec<UnusedKey>,
}

/// The state of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionState {
    /// It is used.
    Used,
    /// It is invalid.
    Invalid(DefinitionError),
    /// The user has not accepted its current content.
    NotAccepted,
    /// An earlier file has a definition of the same name.
    Hidden {
        /// The earlier file.
        by: PathBuf,
    },
    /// It is not a definition file.
    Ignored(&'static str),
}

impl Definitions {
    /// Reads all definitions. `tools` are the names of the available tools.
    pub fn load(places: DefinitionFolders<'_>, trust: &Trust, tools: &[String]) -> Self {
        let mut all = Self::default();
        let project = PROJECT.iter().map(|(kind, folder)| (*kind, places.project.join(folder), true));
        let user = USER.iter().map(|(kind, folder)| (*kind, places.user.join(folder), false));
        for (kind, folder, is_project) in project.chain(user) {
            // Claude Code separates the folders of a name by colons.
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

    /// Reads the skills of a folder in a project.
    fn skills_in(folder: &Path, trust: &Trust, tools: &[String]) -> Self {
        let mut all = Self::default();
        for (kind, place) in PROJECT.iter().filter(|(kind, _)| *kind == DefinitionKind::Skill) {
            for found in files(*kind, &folder.join(place), ":").into_iter().take(MAX_FILES) {
                all.take(*kind, found, true, trust, tools);
            }
        }
        all
    }

    fn take(
        &mut self,
        kind: DefinitionKind,
        found: Candidate,
        is_project: bool,
        trust: &Trust,
        tools: &[String],
    ) {
        let Candidate { path, name, ignored } = found;
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
            DefinitionKind::Agent => Agent::read(front, &name, tools)
                .map(|(agent, unused)| (ParsedDefinition::Agent(agent), unused)),
            _ => Skill::read(kind, front, &name, tools)
                .map(|(skill, unused)| (ParsedDefinition::Skill(skill), unused)),
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

    /// Returns the file of the definition with that name.
    fn named(&self, kind: DefinitionKind, name: &str) -> Option<PathBuf> {
        let skill = |skills: &[Skill]| skills.iter().find(|s| s.name == name).and_then(|s| s.file.clone());
        match kind {
            DefinitionKind::Agent => self.agents.iter().find(|a| a.name == name).and_then(|a| a.file.clone()),
            DefinitionKind::Skill => skill(&self.skills),
            DefinitionKind::Command => skill(&self.commands),
        }
    }

    fn add(&mut self, kind: DefinitionKind, one: ParsedDefinition, path: &Path, is_project: bool) {
        let file = Some(path.to_owned());
        match one {
            ParsedDefinition::Agent(agent) => self.agents.push(Agent { file, ..agent }),
            ParsedDefinition::Skill(skill) if kind == DefinitionKind::Skill => {
                // Agents can read files in their workspace, but none in the user's configuration folder.
                let folder = path.parent().filter(|_| is_project).map(Path::to_owned);
                self.skills.push(Skill { file, folder, ..skill });
            }
            ParsedDefinition::Skill(command) => self.commands.push(Skill { file, ..command }),
        }
    }

    /// Returns whether no file is invalid.
    pub fn is_sound(&self) -> bool {
        !self.files.iter().any(|file| matches!(file.state, DefinitionState::Invalid(_)))
    }
}

/// Finds the skills of folders in a project.
#[derive(Clone, Debug)]
pub struct FolderSkills {
    /// The project's folder, with links resolved.
    pub project: PathBuf,
    /// File that lists the accepted files.
    pub trust: PathBuf,
    /// The names of the available tools.
    pub tools: Vec<String>,
}

impl FolderSkills {
    /// Returns the accepted skills of a folder, given by its path in the project.
    pub(crate) fn in_folder(&self, folder: &Path) -> Vec<Skill> {
        let Ok(trust) = Trust::read(&self.trust) else { return Vec::new() };
        Definitions::skills_in(&self.project.join(folder), &trust, &self.tools).skills
    }

    /// Returns the file of a skill of a folder in the project, so that it can be accepted. `path` has no links.
    pub fn skill_file(&self, path: &Path) -> Option<PathBuf> {
        let skills = path.parent()?.parent()?;
        let folder = PROJECT
            .iter()
            .filter(|(kind, _)| *kind == DefinitionKind::Skill)
            .find_map(|(_, place)| skills.ends_with(place).then(|| skills.ancestors().nth(2)).flatten())?;
        folder.strip_prefix(&self.project).ok()?;
        let found = Definitions::skills_in(folder, &Trust::default(), &self.tools);
        let is_sound =
            |file: &&DefinitionFile| file.path == path && file.state == DefinitionState::NotAccepted;
        found.files.iter().find(is_sound).map(|file| file.path.clone())
    }
}

enum ParsedDefinition {
    Agent(Agent),
    Skill(Skill),
}

impl ParsedDefinition {
    fn name(&self) -> &str {
        match self {
            Self::Agent(agent) => &agent.name,
            Self::Skill(skill) => &skill.name,
        }
    }
}

/// Creates the entry for all files after the limit.
fn too_many(kind: DefinitionKind, folder: &Path, is_project: bool) -> DefinitionFile {
    let state = DefinitionState::Ignored("more than 1000 files; the rest is ignored");
    DefinitionFile { path: folder.to_owned(), kind, name: None, is_project, state, unused: Vec::new() }
}

/// The kind of a folder entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Folder,
    /// A link to a folder. It is not followed, because accepted files would lie elsewhere.
    Link,
    File,
}

const LINK: &str = "links to folders are not followed";

/// A file in one of the folders.
struct Candidate {
    path: PathBuf,
    /// Its name by its path.
    name: String,
    /// The reason if it is ignored.
    ignored: Option<&'static str>,
}

/// Returns the files of a folder and of the folders below it, by name.
fn files(kind: DefinitionKind, folder: &Path, between: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    match kind {
        DefinitionKind::Skill => {
            for (path, name, entry) in entries(folder) {
                let file = path.join("SKILL.md");
                let (path, ignored) = match entry {
                    Entry::Folder if file.is_file() => (file, None),
                    Entry::Folder => (path, Some("it contains no `SKILL.md`")),
                    Entry::Link => (path, Some(LINK)),
                    Entry::File => (path, Some("a skill is a folder that contains a `SKILL.md`")),
                };
                found.push(Candidate { path, name, ignored });
            }
        }
        _ => walk(folder, "", between, MAX_DEPTH, &mut found),
    }
    found
}

fn walk(folder: &Path, before: &str, between: &str, depth: usize, found: &mut Vec<Candidate>) {
    for (path, name, entry) in entries(folder) {
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        if entry == Entry::Link {
            found.push(Candidate { path, name, ignored: Some(LINK) });
        } else if entry == Entry::Folder {
            match depth {
                0 => found.push(Candidate { path, name, ignored: Some("it is nested too deep") }),
                _ => walk(&path, &format!("{before}{name}{between}"), between, depth - 1, found),
            }
        } else if is_markdown {
            let name = format!("{before}{}", name.strip_suffix(".md").unwrap_or(&name));
            found.push(Candidate { path, name, ignored: None });
        } else {
            found.push(Candidate { path, name, ignored: Some("its name does not end in `.md`") });
        }
    }
}

/// Returns the entries of a folder by name, at most one more than the limit.
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

/// Reads a file. It is read only once, so that the content that is checked is the content that is used.
fn read(path: &Path) -> Result<Vec<u8>, DefinitionError> {
    let cannot = |error: std::io::Error| DefinitionError::at(1, format!("cannot read the file: {error}"));
    // Opening a pipe could block forever.
    let about = std::fs::metadata(path).map_err(cannot)?;
    if !about.is_file() {
        return Err(DefinitionError::at(1, "it is not a file"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(DefinitionError::at(1, format!("the file is larger than {MAX_BYTES} bytes"))),
        false => Ok(bytes),
    }
}
