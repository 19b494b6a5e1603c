//! The project files that the user has accepted, by digest.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use store::Digest;

/// The format version.
const FORMAT: u32 = 1;

/// The accepted files, by path, with the digest of their content. A file that has changed is not accepted any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    format: u32,
    files: BTreeMap<String, String>,
}

/// Errors of the list of accepted files.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The list cannot be read or written.
    #[error("`{path}` cannot be {doing}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The list has another format.
    #[error("`{path}` is not a list of accepted files")]
    Format {
        /// The file.
        path: PathBuf,
        /// The cause.
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
    /// Reads the list. A missing file is an empty list.
    pub fn read(path: &Path) -> Result<Self, TrustError> {
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| TrustError::Format { path: path.to_owned(), source }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(TrustError::Io { path: path.to_owned(), doing: "read", source }),
        }
    }

    /// Returns whether a file with that content was accepted.
    pub fn accepts(&self, file: &Path, bytes: &[u8]) -> bool {
        let kept = file.to_str().and_then(|file| self.files.get(file));
        kept.is_some_and(|kept| *kept == Digest::of(bytes).to_string())
    }

    /// Accepts a file with that content. Returns whether that is possible: the path must be UTF-8.
    pub fn accept(&mut self, file: &Path, bytes: &[u8]) -> bool {
        let Some(file) = file.to_str() else { return false };
        self.files.insert(file.to_owned(), Digest::of(bytes).to_string());
        true
    }

    /// Writes the list atomically, readable only by the user.
    pub fn write(&self, path: &Path) -> Result<(), TrustError> {
        let failed = |source| TrustError::Io { path: path.to_owned(), doing: "written", source };
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(failed)?;
        let new = path.with_extension(format!("json.{}", std::process::id()));
        let text = serde_json::to_string_pretty(self).expect("strings are always JSON");
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
