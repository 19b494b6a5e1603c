//! Errors, the party that can fix them, and hints.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The party that can fix an error. It decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The user can fix it.
    User,
    /// The outside world failed: a registry, a harness, the disk.
    Outside,
    /// Not a fault: the result is negative.
    Verdict,
}

/// An error while installing, preparing or driving a harness.
#[derive(Debug, Error)]
pub enum HarnessError {
    /// An error with its own message.
    #[error("{what}")]
    Message {
        /// The party that can fix it.
        blame: Blame,
        /// The failed action and its object.
        what: String,
        /// A command to paste, or other advice.
        hint: Option<String>,
    },
    /// A scenario is malformed.
    #[error("`{}` is not a scenario: {reason}", path.display())]
    Scenario {
        /// Its `scenario.yaml`.
        path: PathBuf,
        /// The expected format, with the line.
        reason: String,
    },
    /// A script is malformed.
    #[error(transparent)]
    Script(proxy::ScriptError),
    /// The workspace to start from cannot be read.
    #[error("cannot read the fixture `{}`", dir.display())]
    Fixture {
        /// The folder.
        dir: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The redaction key could not be read or created.
    #[error(transparent)]
    Key(recording::KeyError),
    /// A provider's address cannot be used.
    #[error(transparent)]
    Upstream(proxy::UpstreamError),
    /// No port could be opened.
    #[error(transparent)]
    Bind(proxy::BindError),
    /// The recording could not be started.
    #[error(transparent)]
    Create(recording::CreateError),
    /// The recording still contains something that looks like a secret.
    #[error(transparent)]
    Residue(recording::SealError),
    /// The recording could not be sealed.
    #[error(transparent)]
    Seal(recording::SealError),
    /// A file or folder could not be used.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// A verb, such as `write`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl HarnessError {
    /// Creates an error that the user can fix.
    pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Message { blame: Blame::User, what: what.into(), hint: Some(hint.into()) }
    }

    /// Creates an error of the outside world.
    pub fn outside(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Message { blame: Blame::Outside, what: what.into(), hint: Some(hint.into()) }
    }

    /// Creates an error about a file or folder; `doing` is a verb such as `write`.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// Returns the party that can fix the error.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Message { blame, .. } => *blame,
            Self::Scenario { .. } | Self::Script(_) | Self::Fixture { .. } => Blame::User,
            Self::Key(_) | Self::Upstream(_) | Self::Create(_) => Blame::User,
            Self::Bind(_) | Self::Seal(_) | Self::Io { .. } => Blame::Outside,
            Self::Residue(_) => Blame::Verdict,
        }
    }

    /// Returns advice.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Message { hint, .. } => hint.as_deref(),
            Self::Scenario { .. } => Some("docs/reference/scenarios.md describes the format"),
            Self::Script(_) => Some("docs/reference/script.md describes the format"),
            Self::Fixture { .. } => Some("name an existing folder, such as `--fixture-dir ./fixture`"),
            Self::Key(_) => Some("set OFFSHOOT_DATA_DIR to a writable folder"),
            Self::Upstream(_) => Some("export ANTHROPIC_BASE_URL=https://api.anthropic.com"),
            Self::Create(_) => Some("name an empty, writable folder with `--out`"),
            Self::Residue(_) | Self::Seal(_) => Some("`offshoot show` lists the recording's content"),
            Self::Bind(_) | Self::Io { .. } => None,
        }
    }
}
