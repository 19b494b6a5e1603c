//! Errors about paths, in words that a model can act on.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use thiserror::Error;

/// Reason why a file or folder of a workspace cannot be used. Paths are as requested, escaped for display.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// The path leads out of the workspace, by itself or through a link.
    #[error("`{path}` is outside the workspace `{workspace}`")]
    Outside {
        /// Requested path.
        path: String,
        /// Path of the workspace.
        workspace: String,
    },
    /// Nothing exists at the path.
    #[error("`{0}` does not exist")]
    Missing(String),
    /// The workspace itself was deleted.
    #[error("the workspace `{0}` was deleted")]
    Deleted(String),
    /// The workspace was moved, and another folder has its name.
    #[error("the workspace `{0}` was moved, and another folder has its name; ask the user to move it back")]
    Replaced(String),
    /// The path is a folder, but a file is needed.
    #[error("`{0}` is a folder")]
    IsFolder(String),
    /// A part of the path is not a folder.
    #[error("`{0}` is not a folder, or a part of the path is a file")]
    NotFolder(String),
    /// Reading it could block or have an effect.
    #[error("`{0}` is a pipe, socket or device, not a file")]
    NotFile(String),
    /// A circle of links, or a link of `/proc`, which can lead anywhere.
    #[error("`{0}` contains a symlink loop, or a symlink that cannot be followed")]
    LinkLoop(String),
    /// The path is malformed.
    #[error("the path `{path}` {why}")]
    BadPath {
        /// Requested path.
        path: String,
        /// Description of the mistake.
        why: &'static str,
    },
    /// The file is larger than the caller accepts.
    #[error("`{path}` is larger than {limit} bytes")]
    TooLarge {
        /// Requested path.
        path: String,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// A program executes or trusts the file later.
    #[error("`{path}` is protected: {why}; ask the user to change it")]
    Protected {
        /// Requested path.
        path: String,
        /// Reason for the protection.
        why: &'static str,
    },
    /// No tool may access the path.
    #[error("`{path}` is closed to tools: {why}")]
    Denied {
        /// Requested path.
        path: String,
        /// Reason for the denial.
        why: String,
    },
    /// Another process is writing the same file.
    #[error("another process is writing `{0}` right now")]
    Busy(String),
    /// The system cannot keep paths inside the workspace, so nothing is opened.
    #[error("this system cannot keep paths inside a workspace: it has no `openat2` (needs Linux 5.6)")]
    Unsupported,
    /// Any other error of the system.
    #[error("cannot {doing} `{path}`")]
    Io {
        /// Attempted action.
        doing: &'static str,
        /// Path of the action.
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
}

/// Formats a path as one line of text. A name can contain a line break, which must not look like two paths.
pub(crate) fn display_path(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() { text.extend(letter.escape_default()) } else { text.push(letter) }
        }
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("a string takes whatever is written to it");
        }
    }
    text
}
