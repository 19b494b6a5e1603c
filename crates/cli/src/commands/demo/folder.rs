//! Folder of a demo: a sample project, scripts, and an environment for typed commands.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use crate::failure::{ExitKind, OrFail, classify, write_error_kind};

/// Id of the main run in all journals of a demo, so that they can be compared.
pub(super) const RUN_ID: &str = "demo";
/// Time that all agents see.
const CLOCK: &str = "2026-01-01T12:00:00+00:00[UTC]";
/// File that marks a folder as made by a demo. Only such a folder is replaced.
const MARKER: &str = ".offshoot-demo";

/// Project that the agents work on.
const SAMPLE: [(&str, &str); 5] = [
    ("README.md", include_str!("sample/README.md")),
    ("notes/monday.txt", include_str!("sample/notes/monday.txt")),
    ("notes/tuesday.txt", include_str!("sample/notes/tuesday.txt")),
    ("src/dusk.py", include_str!("sample/src/dusk.py")),
    ("src/lamps.py", include_str!("sample/src/lamps.py")),
];
/// Folder of the workspace that the agents write to.
const RESULTS: &str = "found";
/// Entries that a demo creates in its folder.
const CREATED: [&str; 14] = [
    MARKER,
    ".gitignore",
    "again",
    "bin",
    "config",
    "env",
    "journal",
    "killed",
    "recording",
    "replayed",
    "report.html",
    "script.yaml",
    "slow.yaml",
    "workspace",
];
/// Script of the model.
const SCRIPT: &str = include_str!("script.yaml");
/// Word of the script that is replaced by the delay of one reply.
const DELAY: &str = "THINKS_MS";
/// Scripts with their delays in milliseconds. The second one is killed during its delay.
const SCRIPTS: [(&str, &str); 2] = [("script.yaml", "200"), ("slow.yaml", "60000")];

/// The folder of a demo.
pub(super) struct DemoFolder {
    /// Path as the user gave it.
    given: PathBuf,
    dir: PathBuf,
    /// Address for all requests of a demo, because the requests contain it.
    listen: SocketAddr,
}

/// Range of ports to try. It is below the ports that systems assign to connections (32768 and up on Linux), so that the
/// port stays free between two steps.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Finds a free address. The search starts at a port that depends on the process id, so that two demos do not collide.
fn free_address() -> io::Result<SocketAddr> {
    let begin = std::process::id() as usize * 7 % PORTS.len();
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in PORTS.cycle().skip(begin).take(PORTS.len()) {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return listener.local_addr(),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl DemoFolder {
    /// Creates or replaces the folder. A folder with other files is refused.
    pub(super) fn create(given: &Path) -> anyhow::Result<Self> {
        if fs::symlink_metadata(given).is_ok() && !given.join(MARKER).is_file() {
            let error = anyhow::anyhow!("`{}` exists and was not made by a demo", given.display());
            return Err(error).or_fail_with(ExitKind::Usage, || another_folder(given));
        }
        if let Some(foreign) = foreign_file(given) {
            let error = anyhow::anyhow!("`{}` was not made by a demo and would be lost", foreign.display());
            return Err(error).or_fail_with(ExitKind::Usage, || another_folder(given));
        }
        Self::fill(given).map_err(|error| {
            let kind = write_error_kind(&error);
            let error = anyhow::Error::new(error).context(format!("cannot create `{}`", given.display()));
            classify(kind, Some("offshoot demo --dir /tmp/offshoot-demo".to_owned()), error)
        })
    }

    fn fill(given: &Path) -> io::Result<Self> {
        fs::create_dir_all(given)?;
        let dir = given.canonicalize()?;
        clear(&dir)?;
        let listen = free_address()?;
        let folder = Self { given: given.to_owned(), dir, listen };
        folder.write(MARKER, "Made by `offshoot demo`, which replaces this folder when it runs again.\n")?;
        folder.write(".gitignore", "*\n")?;
        for (name, text) in SAMPLE {
            folder.write(&format!("workspace/{name}"), text)?;
        }
        for (name, delay) in SCRIPTS {
            folder.write(name, &SCRIPT.replace(DELAY, delay))?;
        }
        folder.write("env", &folder.env_file())?;
        for name in ["bin", "config"] {
            fs::create_dir_all(folder.path(name))?;
        }
        std::os::unix::fs::symlink(std::env::current_exe()?, folder.path("bin/offshoot"))?;
        Ok(folder)
    }

    /// Returns the path as the user gave it.
    pub(super) fn shown(&self) -> String {
        self.given.display().to_string()
    }

    /// Returns the path of an entry.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the address for requests.
    pub(super) fn listen(&self) -> String {
        self.listen.to_string()
    }

    /// Returns the variables that the commands of the demo get in addition.
    pub(super) fn env(&self) -> BTreeMap<&'static str, String> {
        let path = |name: &str| self.path(name).display().to_string();
        BTreeMap::from([
            ("OFFSHOOT_CLOCK", CLOCK.to_owned()),
            ("OFFSHOOT_CONFIG_DIR", path("config")),
            ("OFFSHOOT_DATA_DIR", path("journal")),
        ])
    }

    /// Returns the search path, with this program first.
    pub(super) fn search_path(&self) -> std::ffi::OsString {
        let mut path = self.path("bin").into_os_string();
        if let Some(own) = std::env::var_os("PATH") {
            path.push(":");
            path.push(own);
        }
        path
    }

    fn env_file(&self) -> String {
        let mut text = "# Makes this shell use the demo: `. env`\n\
             # Separate journal and settings, and a fixed clock, so that two runs can be\n\
             # byte-equal.\n"
            .to_owned();
        for (name, value) in self.env() {
            text += &format!("export {name}={}\n", crate::paths::shell_word(&value));
        }
        text + &format!(
            "export PATH={}:\"$PATH\"\n",
            crate::paths::shell_word(&self.path("bin").display().to_string())
        )
    }

    /// Removes an entry if it exists.
    pub(super) fn remove(&self, name: &str) -> anyhow::Result<()> {
        match fs::remove_dir_all(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).or_fail(ExitKind::Outside),
            _ => Ok(()),
        }
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("the path is inside the folder"))?;
        fs::write(path, text)
    }
}

fn another_folder(given: &Path) -> String {
    format!("offshoot demo --dir {}-2", given.display())
}

/// Finds a file in the folder of an earlier demo that the user has added or changed.
fn foreign_file(dir: &Path) -> Option<PathBuf> {
    let others = |dir: &Path, ours: &dyn Fn(&str) -> bool| -> Option<PathBuf> {
        let entries = fs::read_dir(dir).ok()?.flatten();
        entries.map(|entry| entry.path()).find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !ours(&name)
        })
    };
    let workspace = dir.join("workspace");
    let of_sample = |name: &str| SAMPLE.iter().any(|(path, _)| path.split('/').next() == Some(name));
    let changed = |(name, text): &(&str, &str)| {
        let path = workspace.join(name);
        fs::read(&path).is_ok_and(|found| found != text.as_bytes()).then_some(path)
    };
    let in_sample = |folder: &str| {
        let ours = |name: &str| SAMPLE.iter().any(|(path, _)| *path == format!("{folder}/{name}"));
        others(&workspace.join(folder), &ours)
    };
    others(dir, &|name| CREATED.contains(&name))
        .or_else(|| others(&workspace, &|name| name == RESULTS || of_sample(name)))
        .or_else(|| ["notes", "src"].into_iter().find_map(in_sample))
        .or_else(|| SAMPLE.iter().find_map(changed))
}

/// Removes all entries of a folder. The folder itself stays, because it may be the current folder of a shell. The marker
/// is removed last, so that an interrupted demo can run again.
fn clear(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false if entry.file_name() == MARKER => {}
            false => fs::remove_file(entry.path())?,
        }
    }
    match fs::remove_file(dir.join(MARKER)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_outside_of_the_range_for_connections() {
        let address = free_address().expect("some port is free");
        assert!(PORTS.contains(&address.port()), "{address}");
        let taken = TcpListener::bind(address).expect("it is free");
        assert_ne!(free_address().expect("another is free").port(), address.port());
        drop(taken);
    }

    #[test]
    fn files_of_the_user_are_not_lost() {
        let place = tempfile::tempdir().expect("a folder");
        let dir = place.path().join("demo");
        DemoFolder::create(&dir).expect("it is new");
        fs::create_dir(dir.join("workspace/found")).expect("an agent's");
        fs::write(dir.join("report.html"), "x").expect("a demo's");
        DemoFolder::create(&dir).expect("all files are of the demo");
        for mine in ["mine.txt", "workspace/offshoot.toml", "workspace/notes/mine.txt", "workspace/README.md"]
        {
            fs::write(dir.join(mine), "mine").expect("the user writes a file");
            let error = DemoFolder::create(&dir).err().expect("it would be lost").to_string();
            assert!(error.contains(mine), "{error}");
            assert_eq!(fs::read_to_string(dir.join(mine)).expect("it is there"), "mine");
            fs::remove_file(dir.join(mine)).expect("it is there");
        }
    }
}
