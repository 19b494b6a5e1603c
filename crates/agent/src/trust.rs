//! Which files of projects the user has accepted, each as it was then.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use store::Digest;

/// The format that is written here.
const FORMAT: u32 = 1;

/// The accepted files, by path, with the digest of what was in them. A file that has changed is not accepted any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    format: u32,
    files: BTreeMap<String, String>,
}

/// Why it is not known what was accepted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It cannot be read or written.
    #[error("`{path}` cannot be {doing}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Somebody else wrote it.
    #[error("`{path}` is not what offshoot writes there")]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

impl Default for Trust {
    fn default() -> Self {
        Self { format: FORMAT, files: BTreeMap::new() }
    }
}

impl Trust {
    /// What was accepted so far; nothing where the file is not there.
    pub fn read(path: &Path) -> Result<Self, TrustError> {
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| TrustError::Format { path: path.to_owned(), source }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(TrustError::Io { path: path.to_owned(), doing: "read", source }),
        }
    }

    /// Whether a file with that in it was accepted.
    pub fn accepts(&self, file: &Path, bytes: &[u8]) -> bool {
        let kept = file.to_str().and_then(|file| self.files.get(file));
        kept.is_some_and(|kept| *kept == Digest::of(bytes).to_string())
    }

    /// Accepts a file with that in it; says whether that could be written down, which takes a path in UTF-8.
    pub fn accept(&mut self, file: &Path, bytes: &[u8]) -> bool {
        let Some(file) = file.to_str() else { return false };
        self.files.insert(file.to_owned(), Digest::of(bytes).to_string());
        true
    }

    /// Keeps it, readable by the user alone; whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), TrustError> {
        let failed = |source| TrustError::Io { path: path.to_owned(), doing: "written", source };
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(failed)?;
        let new = path.with_extension(format!("json.{}", std::process::id()));
        let text = serde_json::to_string_pretty(self).expect("words are always JSON");
        let written = || {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, path)
        };
        written().map_err(|source| {
            let _ = std::fs::remove_file(&new);
            failed(source)
        })
    }
}
