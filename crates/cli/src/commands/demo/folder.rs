//! The folder that a demo is made in: a sample to work on, scripts, and what leads typed commands there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use crate::failure::{Kind, OrFail, marked, of_writing};

/// What the main run is called in all journals of a demo, so that they can be compared.
pub(super) const RUN: &str = "demo";
/// The time that all its agents see.
const CLOCK: &str = "2026-01-01T12:00:00+00:00[UTC]";
/// Whoever has this file was made by a demo, and may be replaced by one.
const MARKER: &str = ".offshoot-demo";

/// What the agents work on.
const SAMPLE: [(&str, &str); 5] = [
    ("README.md", include_str!("sample/README.md")),
    ("notes/monday.txt", include_str!("sample/notes/monday.txt")),
    ("notes/tuesday.txt", include_str!("sample/notes/tuesday.txt")),
    ("src/dusk.py", include_str!("sample/src/dusk.py")),
    ("src/lamps.py", include_str!("sample/src/lamps.py")),
];
/// Where the agents write, in the workspace.
const FOUND: &str = "found";
/// Everything that a demo puts into its folder.
const MADE: [&str; 14] = [
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
/// What the model says, and how long it takes to think once: hardly, or for longer than anybody waits.
const SCRIPT: &str = include_str!("script.yaml");
const THINKS: &str = "THINKS_MS";
const SCRIPTS: [(&str, &str); 2] = [("script.yaml", "200"), ("slow.yaml", "60000")];

pub(super) struct Folder {
    given: PathBuf,
    dir: PathBuf,
    /// A demo's requests go to one address throughout: it is part of them.
    listen: SocketAddr,
}

/// Where ports are looked for: below those that systems hand out by themselves (32768 and up on Linux), or somebody's
/// connection would take it between two steps.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// An address that nobody listens on. Where the search begins depends on the process, so that two demos do not meet.
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

impl Folder {
    /// Makes it anew. What is there and was not made by a demo stays as it is.
    pub(super) fn make(given: &Path) -> anyhow::Result<Self> {
        if fs::symlink_metadata(given).is_ok() && !given.join(MARKER).is_file() {
            let error = anyhow::anyhow!("`{}` is there, and was not made by a demo", given.display());
            return Err(error).or_fail_with(Kind::Usage, || beside(given));
        }
        if let Some(foreign) = foreign(given) {
            let error = anyhow::anyhow!(
                "`{}` is of no demo's making, and would be lost if `{}` were made anew",
                foreign.display(),
                given.display()
            );
            return Err(error).or_fail_with(Kind::Usage, || beside(given));
        }
        let made = Self::fill(given);
        made.map_err(|error| {
            let kind = of_writing(&error);
            let error = anyhow::Error::new(error).context(format!("cannot make `{}`", given.display()));
            marked(kind, Some("offshoot demo --dir /tmp/offshoot-demo".to_owned()), error)
        })
    }

    fn fill(given: &Path) -> io::Result<Self> {
        fs::create_dir_all(given)?;
        let dir = given.canonicalize()?;
        empty(&dir)?;
        let listen = free_address()?;
        let folder = Self { given: given.to_owned(), dir, listen };
        folder.write(MARKER, "Made by `offshoot demo`, which replaces this folder the next time.\n")?;
        folder.write(".gitignore", "*\n")?;
        for (name, text) in SAMPLE {
            folder.write(&format!("workspace/{name}"), text)?;
        }
        for (name, thinks) in SCRIPTS {
            folder.write(name, &SCRIPT.replace(THINKS, thinks))?;
        }
        folder.write("env", &folder.env_file())?;
        for name in ["bin", "config"] {
            fs::create_dir_all(folder.path(name))?;
        }
        std::os::unix::fs::symlink(std::env::current_exe()?, folder.path("bin/offshoot"))?;
        Ok(folder)
    }

    /// As the user wrote it.
    pub(super) fn shown(&self) -> String {
        self.given.display().to_string()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn listen(&self) -> String {
        self.listen.to_string()
    }

    /// What every command of the demo sees in its environment besides the user's own.
    pub(super) fn env(&self) -> BTreeMap<&'static str, String> {
        let path = |name: &str| self.path(name).display().to_string();
        BTreeMap::from([
            ("OFFSHOOT_CLOCK", CLOCK.to_owned()),
            ("OFFSHOOT_CONFIG_DIR", path("config")),
            ("OFFSHOOT_DATA_DIR", path("journal")),
        ])
    }

    /// The user's own path behind the program that made the demo.
    pub(super) fn search_path(&self) -> std::ffi::OsString {
        let mut path = self.path("bin").into_os_string();
        if let Some(own) = std::env::var_os("PATH") {
            path.push(":");
            path.push(own);
        }
        path
    }

    fn env_file(&self) -> String {
        let mut text = "# Leads commands to this demo, in this shell only: `. env`\n\
             # A journal and settings of its own, and a stopped clock, so that two runs can be\n\
             # equal to the byte.\n"
            .to_owned();
        for (name, value) in self.env() {
            text += &format!("export {name}={}\n", crate::paths::word(&value));
        }
        text + &format!(
            "export PATH={}:\"$PATH\"\n",
            crate::paths::word(&self.path("bin").display().to_string())
        )
    }

    pub(super) fn remove(&self, name: &str) -> anyhow::Result<()> {
        match fs::remove_dir_all(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).or_fail(Kind::Outside),
            _ => Ok(()),
        }
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in the folder"))?;
        fs::write(path, text)
    }
}

fn beside(given: &Path) -> String {
    format!("offshoot demo --dir {}-2", given.display())
}

/// Something in the folder of an earlier demo that somebody else has made or changed since.
fn foreign(dir: &Path) -> Option<PathBuf> {
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
    others(dir, &|name| MADE.contains(&name))
        .or_else(|| others(&workspace, &|name| name == FOUND || of_sample(name)))
        .or_else(|| ["notes", "src"].into_iter().find_map(in_sample))
        .or_else(|| SAMPLE.iter().find_map(changed))
}

/// Takes everything out of a folder; the folder stays, since somebody may stand in it. The marker goes last: what was
/// broken off can be done again.
fn empty(dir: &Path) -> io::Result<()> {
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
    fn a_port_is_one_that_no_connection_gets_by_chance() {
        let address = free_address().expect("some port is free");
        assert!(PORTS.contains(&address.port()), "{address}");
        let taken = TcpListener::bind(address).expect("it is free");
        assert_ne!(free_address().expect("another is free").port(), address.port());
        drop(taken);
    }

    #[test]
    fn what_somebody_else_made_is_not_lost() {
        let place = tempfile::tempdir().expect("a folder");
        let dir = place.path().join("demo");
        Folder::make(&dir).expect("it is new");
        fs::create_dir(dir.join("workspace/found")).expect("an agent's");
        fs::write(dir.join("report.html"), "x").expect("a demo's");
        Folder::make(&dir).expect("all of it is a demo's");
        for mine in ["mine.txt", "workspace/offshoot.toml", "workspace/notes/mine.txt", "workspace/README.md"]
        {
            fs::write(dir.join(mine), "mine").expect("somebody writes");
            let said = Folder::make(&dir).err().expect("it would be lost").to_string();
            assert!(said.contains(mine), "{said}");
            assert_eq!(fs::read_to_string(dir.join(mine)).expect("it is there"), "mine");
            fs::remove_file(dir.join(mine)).expect("it is there");
        }
    }
}
