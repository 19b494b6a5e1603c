//! Errors of opening and sealing recordings.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::log::LogError;

/// Error when opening a folder as a recording.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The folder does not exist.
    #[error("no folder `{}`", dir.display())]
    Missing {
        /// Folder.
        dir: PathBuf,
    },
    /// The path is not a folder.
    #[error("`{}` is a file; a recording is a folder", path.display())]
    NotAFolder {
        /// Path.
        path: PathBuf,
    },
    /// The folder has neither a manifest nor a log.
    #[error("`{}` is not a recording: it has neither `recording.json` nor `exchanges.log`", dir.display())]
    NotARecording {
        /// Folder.
        dir: PathBuf,
    },
    /// The recording was written by a newer version.
    #[error("`{}` was written by a newer version of offshoot (format {format})", dir.display())]
    Newer {
        /// Folder.
        dir: PathBuf,
        /// Format of the recording.
        format: u32,
    },
    /// The log cannot be read.
    #[error("cannot read `{}`", path.display())]
    Log {
        /// Log file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: LogError,
    },
    /// The manifest is invalid.
    #[error("`{}` is not a valid manifest: {why}", path.display())]
    Manifest {
        /// Manifest file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A file differs from its description in the log.
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged {
        /// File.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A sealed file is missing.
    #[error("`{}` is missing but was sealed", path.display())]
    Gone {
        /// File.
        path: PathBuf,
    },
    /// A name or link leads out of the folder.
    #[error("`{}` leads out of the recording's folder", path.display())]
    Outside {
        /// Path.
        path: PathBuf,
    },
    /// An entry is neither file nor folder.
    #[error("`{}` is neither a file nor a folder", path.display())]
    NotAFile {
        /// Path.
        path: PathBuf,
    },
    /// A file is longer than its kind allows.
    #[error("`{}` is longer than {longest} bytes", path.display())]
    TooLong {
        /// File.
        path: PathBuf,
        /// Maximum length in bytes.
        longest: u64,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Error when sealing. The recording itself is kept.
#[derive(Debug, Error)]
pub enum SealError {
    /// A leftover secret was found.
    #[error("`{}` is not sealed because it may still hold secrets: {}", dir.display(), found.join(", "))]
    Residue {
        /// Folder of the recording.
        dir: PathBuf,
        /// Places and rules, never the value.
        found: Vec<String>,
    },
    /// A file cannot be read or written.
    #[error("cannot seal `{}`", dir.display())]
    Io {
        /// Folder of the recording.
        dir: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The recording cannot be read back.
    #[error("cannot seal `{}`: cannot read back the recording", dir.display())]
    Unreadable {
        /// Folder of the recording.
        dir: PathBuf,
        /// Cause.
        #[source]
        source: OpenError,
    },
    /// The log cannot be read back.
    #[error("cannot seal `{}`: cannot read back its log", dir.display())]
    Log {
        /// Folder of the recording.
        dir: PathBuf,
        /// Cause.
        #[source]
        source: LogError,
    },
}
