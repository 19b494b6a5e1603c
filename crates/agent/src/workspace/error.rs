//! What goes wrong with paths, in words that a model can act on.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use thiserror::Error;

/// Why a file or folder of a workspace could not be had. Paths are as they were asked for, ready to be shown.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// It leads out, by itself or through a link.
    #[error("`{path}` is outside the workspace `{workspace}`")]
    Outside {
        /// What was asked for.
        path: String,
        /// Where the workspace is.
        workspace: String,
    },
    /// Nothing is there.
    #[error("`{0}` does not exist")]
    Missing(String),
    /// The workspace itself was deleted.
    #[error("the workspace `{0}` is gone")]
    Gone(String),
    /// The workspace was moved, and something else has its name.
    #[error(
        "the workspace `{0}` was moved away, and another folder is in its place; ask the user to put it back"
    )]
    Replaced(String),
    /// A file was expected.
    #[error("`{0}` is a folder")]
    IsFolder(String),
    /// A folder was expected, here or on the way.
    #[error("`{0}` is not a folder, or has a file where a folder is needed")]
    NoFolder(String),
    /// Reading it could block, or do something.
    #[error("`{0}` is a pipe, socket or device, not a file")]
    NoFile(String),
    /// Links that lead in circles, or those of `/proc`, which lead anywhere.
    #[error("`{0}` leads through a circle of symlinks, or one that cannot be followed")]
    Links(String),
    /// No path can look like this.
    #[error("the path `{path}` {why}")]
    BadPath {
        /// What was asked for.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More than the caller can use.
    #[error("`{path}` is larger than {limit} bytes")]
    TooLarge {
        /// What was asked for.
        path: String,
        /// How many bytes it may have.
        limit: u64,
    },
    /// It is executed or believed by somebody later.
    #[error("`{path}` is protected: {why}; ask the user to change it")]
    Protected {
        /// What was asked for.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// No tool may reach it.
    #[error("`{path}` is closed to tools: {why}")]
    Closed {
        /// What was asked for.
        path: String,
        /// Why.
        why: String,
    },
    /// Another process is in the middle of the same write.
    #[error("somebody else is writing `{0}` right now")]
    Busy(String),
    /// Nothing would hold a path inside, so nothing is opened.
    #[error("this system cannot keep paths inside a workspace: it has no `openat2` (Linux 5.6)")]
    Unsupported,
    /// Whatever else the system says.
    #[error("cannot {doing} `{path}`")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
}

/// A path as one line of text. A name may hold anything but `/`, a line break too, and must not be taken for two.
pub(crate) fn shown(path: &Path) -> String {
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
