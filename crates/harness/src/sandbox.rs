//! Folders at stable paths for one run at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folders a harness lives in while it is recorded. All of it is wiped when the next run begins.
#[derive(Debug)]
pub struct Sandbox {
    root: PathBuf,
}

impl Sandbox {
    /// Its HOME.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The folder it works in, filled with the scenario's fixture.
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// Its folder for temporary files.
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// A folder that the harness does not look into: for what we make of it, as exports.
    pub fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// `XDG_CONFIG_HOME`, below its HOME.
    pub fn config(&self) -> PathBuf {
        self.home().join(".config")
    }

    /// `XDG_DATA_HOME`, below its HOME.
    pub fn data(&self) -> PathBuf {
        self.home().join(".local/share")
    }

    /// The whole environment a program has here, before a launch adds to it.
    pub fn env(&self) -> BTreeMap<String, String> {
        let text = |path: &Path| path.display().to_string();
        BTreeMap::from([
            ("HOME".to_owned(), text(&self.home())),
            ("XDG_CONFIG_HOME".to_owned(), text(&self.config())),
            ("XDG_DATA_HOME".to_owned(), text(&self.data())),
            ("XDG_CACHE_HOME".to_owned(), text(&self.home().join(".cache"))),
            ("XDG_STATE_HOME".to_owned(), text(&self.home().join(".local/state"))),
            ("TMPDIR".to_owned(), text(&self.tmp())),
        ])
    }
}
