//! Files and environment that a command gets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{SandboxSpec, ShellConfig};
use crate::workspace::resolve_existing;

/// The system's programs, libraries and settings. All of it may be read and executed.
const SYSTEM_PATHS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/etc",
    "/proc",
    "/run/current-system",
    "/home/linuxbrew/.linuxbrew",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
];

/// System files that stay hidden, also from root.
const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
];

/// Tools in the user's HOME. Cargo's credentials are not among them.
const HOME_TOOLS: &[&str] = &[
    ".cargo/bin",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/config.toml",
    ".cargo/env",
    ".rustup",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".asdf",
    ".sdkman",
    ".volta",
    ".bun/bin",
    ".deno/bin",
    ".local/bin",
    ".local/lib",
    ".local/share/mise",
    "go/bin",
    "go/pkg",
];

/// Files that stay hidden if the workspace is a HOME or above one.
const HOME_SECRETS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config",
    ".docker",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".password-store",
    ".mozilla",
    ".local/share/keyrings",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude",
    ".claude.json",
    ".bash_history",
    ".zsh_history",
];

/// Variables that are passed on unchanged. All others are dropped, since keys are kept there.
const PASSED_VARIABLES: &[&str] =
    &["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "RUSTUP_TOOLCHAIN"];

/// Folders in the real HOME that tools look for in theirs.
const TOOL_HOMES: &[(&str, &str)] =
    &[("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv"), ("NVM_DIR", ".nvm")];

/// HOME of a command, in its folder for temporary files.
pub(crate) const HOME_FOLDER: &str = "home";

pub(super) fn sandbox_spec(
    shell: &ShellConfig,
    command: &str,
    workspace: &Path,
    tmp: &Path,
    protected: Vec<PathBuf>,
) -> SandboxSpec {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let below_home = |names: &[&str]| -> Vec<PathBuf> {
        home.iter().flat_map(|home| names.iter().map(|name| home.join(name))).collect()
    };
    let env = environment(home.as_deref(), tmp);
    let mut read: Vec<PathBuf> = SYSTEM_PATHS.iter().map(PathBuf::from).collect();
    read.extend(below_home(HOME_TOOLS));
    for (variable, parts) in
        [("CARGO_HOME", &["bin", "registry", "git", "config.toml"][..]), ("RUSTUP_HOME", &[""])]
    {
        read.extend(
            env.get(variable)
                .into_iter()
                .flat_map(|at| parts.iter().map(move |part| Path::new(at).join(part))),
        );
    }
    let mut hidden: Vec<PathBuf> = SYSTEM_SECRETS.iter().map(PathBuf::from).collect();
    hidden.extend(below_home(HOME_SECRETS));
    hidden.extend(shell.hidden.iter().cloned());
    // Rights apply to real paths, whatever links lead to them.
    let real: Vec<PathBuf> = hidden.iter().filter_map(|path| real_path(path)).collect();
    hidden.extend(real);
    // The workspace may be inside a folder that is hidden otherwise.
    hidden.retain(|path| !workspace.starts_with(path));
    SandboxSpec {
        command: command.to_owned(),
        workspace: workspace.to_owned(),
        env,
        sandbox: !shell.without_sandbox,
        namespaces: !shell.without_sandbox,
        read,
        write: vec![workspace.to_owned(), tmp.to_owned()],
        hidden,
        protected,
        input: None,
    }
}

/// Returns the real path of a path that contains links.
fn real_path(path: &Path) -> Option<PathBuf> {
    resolve_existing(path).filter(|real| real != path)
}

fn environment(home: Option<&Path>, tmp: &Path) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let mut set = |name: &str, value: &str| env.insert(name.to_owned(), value.to_owned());
    set("PATH", "/usr/local/bin:/usr/bin:/bin");
    set("LANG", "C.UTF-8");
    for name in PASSED_VARIABLES {
        if let Ok(value) = std::env::var(name) {
            set(name, &value);
        }
    }
    for (name, below) in TOOL_HOMES {
        let own = std::env::var_os(name).map(PathBuf::from);
        let found = own.or_else(|| home.map(|home| home.join(below))).filter(|path| path.is_dir());
        if let Some(found) = found {
            set(name, &found.to_string_lossy());
        }
    }
    set("HOME", &tmp.join(HOME_FOLDER).to_string_lossy());
    set("TMPDIR", &tmp.to_string_lossy());
    for (name, value) in [
        ("TERM", "dumb"),
        ("SHELL", "/bin/bash"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("NO_COLOR", "1"),
        // The sandbox has no network, and waiting for it takes time.
        ("CARGO_NET_OFFLINE", "true"),
    ] {
        set(name, value);
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_folders_are_hidden_at_their_real_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        std::fs::create_dir_all(root.join("real/dotfiles/ssh")).expect("folders");
        std::os::unix::fs::symlink("real", root.join("home")).expect("a link");
        std::os::unix::fs::symlink("dotfiles/ssh", root.join("real/.ssh")).expect("a link");
        assert_eq!(real_path(&root.join("home/.ssh")), Some(root.join("real/dotfiles/ssh")));
        assert_eq!(real_path(&root.join("home/.aws/config")), Some(root.join("real/.aws/config")));
        assert_eq!(real_path(&root.join("real/.aws")), None);
        let shell = ShellConfig { hidden: vec![root.join("home/.data")], ..ShellConfig::default() };
        let order = sandbox_spec(&shell, "true", &root.join("real"), &root.join("tmp"), Vec::new());
        assert!(order.hidden.contains(&root.join("real/.data")), "{:?}", order.hidden);
    }
}
