//! What a command gets to see, and with which environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Order, Shell};

/// The system: programs, libraries, settings. All of it may be read, and run.
const SYSTEM: &[&str] = &[
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

/// What is nobody's business, also where the user is root.
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

/// Tools that people keep in their HOME. Cargo's without its credentials.
const TOOLS: &[&str] = &[
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

/// What stays hidden where the workspace is a HOME, or above one.
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

/// Variables that are passed on as they are. Nothing else of our environment is: keys are kept there.
const PASSED_ON: &[&str] =
    &["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "RUSTUP_TOOLCHAIN"];

/// Folders in the real HOME that tools look for in theirs.
const TOOL_HOMES: &[(&str, &str)] =
    &[("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv"), ("NVM_DIR", ".nvm")];

/// The HOME of a command, in its folder for temporary files.
pub(crate) const MAKE_HOME: &str = "home";

pub(super) fn order(
    shell: &Shell,
    command: &str,
    workspace: &Path,
    tmp: &Path,
    protected: Vec<PathBuf>,
) -> Order {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let below_home = |names: &[&str]| -> Vec<PathBuf> {
        home.iter().flat_map(|home| names.iter().map(|name| home.join(name))).collect()
    };
    let env = environment(home.as_deref(), tmp);
    let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    read.extend(below_home(TOOLS));
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
    // Rights are given on what is really there, whatever links lead to it.
    let real: Vec<PathBuf> = hidden.iter().filter_map(|path| really(path)).collect();
    hidden.extend(real);
    // A workspace may well be somewhere that is hidden otherwise.
    hidden.retain(|path| !workspace.starts_with(path));
    Order {
        command: command.to_owned(),
        workspace: workspace.to_owned(),
        env,
        sandbox: !shell.without_sandbox,
        namespaces: !shell.without_sandbox,
        read,
        write: vec![workspace.to_owned(), tmp.to_owned()],
        hidden,
        protected,
    }
}

/// Where a path leads, as far as anything is there; nothing where it says so itself.
fn really(path: &Path) -> Option<PathBuf> {
    let found = path.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)));
    let (there, real) = found?;
    // An empty rest would leave a slash behind, and only folders have that.
    let rest = path.strip_prefix(there).ok()?;
    let real = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
    (real != path).then_some(real)
}

fn environment(home: Option<&Path>, tmp: &Path) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let mut set = |name: &str, value: &str| env.insert(name.to_owned(), value.to_owned());
    set("PATH", "/usr/local/bin:/usr/bin:/bin");
    set("LANG", "C.UTF-8");
    for name in PASSED_ON {
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
    set("HOME", &tmp.join(MAKE_HOME).to_string_lossy());
    set("TMPDIR", &tmp.to_string_lossy());
    for (name, value) in [
        ("TERM", "dumb"),
        ("SHELL", "/bin/bash"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("NO_COLOR", "1"),
        // There is no network, and asking for it takes time.
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
    fn what_is_hidden_is_hidden_where_it_really_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        std::fs::create_dir_all(root.join("real/dotfiles/ssh")).expect("folders");
        std::os::unix::fs::symlink("real", root.join("home")).expect("a link");
        std::os::unix::fs::symlink("dotfiles/ssh", root.join("real/.ssh")).expect("a link");
        assert_eq!(really(&root.join("home/.ssh")), Some(root.join("real/dotfiles/ssh")));
        assert_eq!(really(&root.join("home/.aws/config")), Some(root.join("real/.aws/config")));
        assert_eq!(really(&root.join("real/.aws")), None);
        let shell = Shell { hidden: vec![root.join("home/.data")], ..Shell::default() };
        let order = order(&shell, "true", &root.join("real"), &root.join("tmp"), Vec::new());
        assert!(order.hidden.contains(&root.join("real/.data")), "{:?}", order.hidden);
    }
}
