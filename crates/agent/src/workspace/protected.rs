//! Files that no tool writes: what is executed, or believed, by somebody later.
//!
//! A name counts wherever it stands on the way to a file, whether anything is there yet or not. A folder that git takes
//! for a repository counts whatever its name is.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// A name that is protected, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Protected {
    /// The name, in small letters.
    pub name: &'static str,
    /// What would happen with what is written there.
    pub why: &'static str,
}

/// All of them.
pub const PROTECTED: &[Protected] = &[
    Protected { name: ".git", why: "git runs the hooks and the programs that are named there" },
    Protected { name: ".offshoot", why: "agents, rules and servers of offshoot are read from there" },
    Protected { name: ".claude", why: "Claude Code runs hooks and takes rights from there" },
    Protected { name: ".opencode", why: "OpenCode runs plugins and takes rights from there" },
    Protected { name: ".mcp.json", why: "it names programs that are started as tool servers" },
    Protected { name: "opencode.json", why: "it names programs and rights for OpenCode" },
    Protected { name: "opencode.jsonc", why: "it names programs and rights for OpenCode" },
    Protected { name: "offshoot.toml", why: "it says what offshoot may do" },
    Protected { name: ".envrc", why: "direnv runs it for whoever enters the folder" },
    Protected { name: ".vscode", why: "editors run the tasks and programs that are named there" },
    Protected { name: ".husky", why: "git runs the hooks in it" },
    Protected { name: ".githooks", why: "git runs the hooks in it" },
];

/// A repository without a `.git` around it: git looks for one in every folder above, and does what its settings say.
pub(crate) const REPOSITORY: Protected = Protected {
    name: "HEAD",
    why: "git takes a folder with `HEAD`, `objects` and `refs` for a repository, and runs the programs that are named there",
};

/// A part of a repository that is the whole workspace.
pub(crate) const PART: Protected = Protected { name: "hooks", ..REPOSITORY };

/// What the settings of a repository lead to.
pub(crate) const LED_TO: Protected =
    Protected { name: "core.hooksPath", why: "the settings of git lead there, and it runs what it finds" };

/// What git keeps in a repository. Where that is the whole workspace, these are protected and nothing else is.
pub(crate) const OF_GIT: &[&str] = &[
    "head",
    "config",
    "config.worktree",
    "commondir",
    "hooks",
    "info",
    "modules",
    "objects",
    "packed-refs",
    "refs",
    "worktrees",
];

/// What of it runs programs, and may be missing.
pub(crate) const RUN_BY_GIT: &[&str] = &["config", "config.worktree", "commondir", "hooks"];

/// Whether a name is one of these, on file systems that do not tell letters apart as well.
pub(crate) fn is_one_of(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether git takes a folder for a repository, by the names in it. A link that leads nowhere yet counts, too.
pub(crate) fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

/// What a name is protected as. Some file systems take `.GIT`, `git~1` or `.git.` for the same.
pub(crate) fn name(name: &OsStr) -> Option<&'static Protected> {
    let name = name.to_string_lossy().to_lowercase();
    let name = name.trim_end_matches(['.', ' ']);
    let name = if name == "git~1" { ".git" } else { name };
    PROTECTED.iter().find(|known| known.name == name)
}

/// What a path in the workspace is protected by, by a name in it.
pub(crate) fn place(place: &Path) -> Option<&'static Protected> {
    place.components().find_map(|part| match part {
        Component::Normal(part) => name(part),
        _ => None,
    })
}
