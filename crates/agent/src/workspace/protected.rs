//! Files that no tool writes: what is executed, or believed, by somebody later.
//!
//! A name counts wherever it stands in the path that a file really has, whether anything is there yet or not.

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
];

/// What a name is protected as. Some file systems take `.GIT`, `git~1` or `.git.` for the same.
pub(crate) fn name(name: &OsStr) -> Option<&'static Protected> {
    let name = name.to_string_lossy().to_lowercase();
    let name = name.trim_end_matches(['.', ' ']);
    let name = if name == "git~1" { ".git" } else { name };
    PROTECTED.iter().find(|known| known.name == name)
}

/// What a path in the workspace, without links, is protected by.
pub(crate) fn place(place: &Path) -> Option<&'static Protected> {
    place.components().find_map(|part| match part {
        Component::Normal(part) => name(part),
        _ => None,
    })
}
