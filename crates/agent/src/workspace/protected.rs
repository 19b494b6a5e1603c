//! Files that no tool may write, because a program executes or trusts them later.
//!
//! A name counts anywhere in a path, whether something exists there or not. A folder that git takes for a
//! repository counts whatever its name is.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// A protected name, with the reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProtectedName {
    /// Name in lower case.
    pub(crate) name: &'static str,
    /// Consequence of a write.
    pub(crate) why: &'static str,
}

/// All protected names.
pub(super) const PROTECTED_NAMES: &[ProtectedName] = &[
    ProtectedName { name: ".git", why: "git runs hooks and programs that are configured there" },
    ProtectedName { name: ".offshoot", why: "offshoot reads agents, rules and servers from there" },
    ProtectedName { name: ".claude", why: "Claude Code reads hooks and permissions from there" },
    ProtectedName { name: ".opencode", why: "OpenCode reads plugins and permissions from there" },
    ProtectedName { name: ".mcp.json", why: "it names programs that are started as tool servers" },
    ProtectedName { name: "opencode.json", why: "it configures programs and permissions of OpenCode" },
    ProtectedName { name: "opencode.jsonc", why: "it configures programs and permissions of OpenCode" },
    ProtectedName { name: "offshoot.toml", why: "it sets offshoot's permissions" },
    ProtectedName { name: ".envrc", why: "direnv runs it in every shell that enters the folder" },
    ProtectedName { name: ".vscode", why: "editors run tasks and programs that are configured there" },
    ProtectedName { name: ".husky", why: "git runs the hooks in it" },
    ProtectedName { name: ".githooks", why: "git runs the hooks in it" },
];

/// A repository without a `.git` around it. Git looks for repositories in all folders above, and follows their
/// settings.
pub(crate) const REPOSITORY: ProtectedName = ProtectedName {
    name: "HEAD",
    why: "git takes a folder with `HEAD`, `objects` and `refs` for a repository, and runs programs that are configured there",
};

/// A part of a repository that is the whole workspace.
pub(crate) const REPOSITORY_PART: ProtectedName = ProtectedName { name: "hooks", ..REPOSITORY };

/// A path that a repository's settings refer to.
pub(crate) const GIT_TARGET: ProtectedName =
    ProtectedName { name: "core.hooksPath", why: "git's settings refer to it, and git runs what is there" };

/// Names in a repository. If the workspace is a repository, these are protected and nothing else.
pub(crate) const REPOSITORY_NAMES: &[&str] = &[
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

/// Names in a repository that make git run programs, and that may be missing.
pub(crate) const PROGRAM_NAMES: &[&str] = &["config", "config.worktree", "commondir", "hooks"];

/// Returns true if a name is one of these. Ignores case, because some file systems do.
pub(crate) fn is_one_of(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns true if git takes a folder with these names for a repository. A link without a target counts, too.
pub(crate) fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

/// Returns the protection of a name. Some file systems treat `.GIT`, `git~1` or `.git.` as the same name.
pub(crate) fn protected_name(name: &OsStr) -> Option<&'static ProtectedName> {
    let name = name.to_string_lossy().to_lowercase();
    let name = name.trim_end_matches(['.', ' ']);
    let name = if name == "git~1" { ".git" } else { name };
    PROTECTED_NAMES.iter().find(|known| known.name == name)
}

/// Returns the protection of a path in the workspace, by a name in it.
pub(crate) fn protected_in(place: &Path) -> Option<&'static ProtectedName> {
    place.components().find_map(|part| match part {
        Component::Normal(part) => protected_name(part),
        _ => None,
    })
}
