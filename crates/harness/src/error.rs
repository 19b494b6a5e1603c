//! What can go wrong, whose turn it is then, and what to do.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The user can fix it.
    You,
    /// The outside world failed: a registry, a harness, the disk.
    Outside,
}

/// A harness could not be installed, prepared or driven.
#[derive(Debug, Error)]
pub enum HarnessError {
    /// Anything that an adapter wants to say itself.
    #[error("{what}")]
    Said {
        /// Whose turn it is.
        blame: Blame,
        /// What could not be done, to which noun.
        what: String,
        /// A command one can paste, or what else to do.
        hint: Option<String>,
    },
    /// A file or folder could not be used.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// As in `write`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl HarnessError {
    /// The user can fix it.
    pub fn you(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Said { blame: Blame::You, what: what.into(), hint: Some(hint.into()) }
    }

    /// The outside world failed.
    pub fn outside(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Said { blame: Blame::Outside, what: what.into(), hint: Some(hint.into()) }
    }

    /// A file or folder could not be used; `doing` as in `write`.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// Whose turn it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Said { blame, .. } => *blame,
            Self::Io { .. } => Blame::Outside,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Said { hint, .. } => hint.as_deref(),
            Self::Io { .. } => None,
        }
    }
}
