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
    /// Nobody: the answer is no.
    Verdict,
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
    /// A scenario is not what it should be.
    #[error("`{}` is not a scenario: {reason}", path.display())]
    Scenario {
        /// Its `scenario.yaml`.
        path: PathBuf,
        /// What was expected, and the line.
        reason: String,
    },
    /// A script is not what it should be.
    #[error(transparent)]
    Script(proxy::ScriptError),
    /// The workspace to start from cannot be read.
    #[error("cannot read the fixture `{}`", dir.display())]
    Fixture {
        /// The folder.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The redaction key could not be had.
    #[error(transparent)]
    Key(recording::KeyError),
    /// A provider's address cannot be used.
    #[error(transparent)]
    Upstream(proxy::UpstreamError),
    /// No port could be had.
    #[error(transparent)]
    Bind(proxy::BindError),
    /// The recording could not be begun.
    #[error(transparent)]
    Create(recording::CreateError),
    /// The recording still holds what looks like a secret.
    #[error(transparent)]
    Residue(recording::SealError),
    /// The recording could not be sealed.
    #[error(transparent)]
    Seal(recording::SealError),
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
            Self::Scenario { .. } | Self::Script(_) | Self::Fixture { .. } => Blame::You,
            Self::Key(_) | Self::Upstream(_) | Self::Create(_) => Blame::You,
            Self::Bind(_) | Self::Seal(_) | Self::Io { .. } => Blame::Outside,
            Self::Residue(_) => Blame::Verdict,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Said { hint, .. } => hint.as_deref(),
            Self::Scenario { .. } => Some("docs/reference/scenarios.md describes the format"),
            Self::Script(_) => Some("docs/reference/script.md describes the format"),
            Self::Fixture { .. } => Some("give a folder that exists, as in `--fixture-dir ./fixture`"),
            Self::Key(_) => Some("set OFFSHOOT_DATA_DIR to a folder that you can write"),
            Self::Upstream(_) => Some("give it as in `export ANTHROPIC_BASE_URL=https://api.anthropic.com`"),
            Self::Create(_) => Some("give a folder that is empty and that you can write with `--out`"),
            Self::Residue(_) | Self::Seal(_) => Some("`offshoot show` lists what the recording holds"),
            Self::Bind(_) | Self::Io { .. } => None,
        }
    }
}
