//! What a scripted model says: read from YAML, served like a provider.
//!
//! Start at [`Script`] and [`ScriptedModel`]. Lanes and turns are found by the one lane tracker; what
//! to say is decided without IO in `play`, and `docs/reference/script.md` describes the format. Nothing here
//! knows a harness.

mod agent;
mod ask;
mod check;
mod cycle;
mod endpoint;
mod format;
mod line;
mod play;
mod report;
mod resumed;
mod server;
mod stage;
mod template;
mod values;

use std::path::{Path, PathBuf};

use thiserror::Error;

use format::Lane;

pub use report::{ScriptReport, UnusedTurn};
pub use server::{PriorConversation, ScriptedModel};

/// A script that cannot be used.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// It cannot be read.
    #[error("cannot read the script `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not what a script should be.
    #[error("`{}` is not a script: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected, and the line and column.
        reason: String,
    },
}

/// What a scripted model says, lane by lane; checked.
#[derive(Clone, Debug)]
pub struct Script {
    lanes: Vec<Lane>,
    /// It reports the usage that a prompt cache would come to which knows these requests.
    cache: Option<Vec<crate::CachedRequest>>,
}

impl Script {
    /// Reads a script from a file.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Io { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// A script from its text; `path` is what mistakes in it are reported under.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScriptError> {
        let malformed = |reason: String| ScriptError::Malformed { path: path.to_owned(), reason };
        // `no`, `on` and `y` are words here, as in YAML 1.2.
        let options = serde_saphyr::options! { strict_booleans: true };
        let file: format::File = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| malformed(error.without_snippet().to_string()))?;
        check::check(&file).map_err(|mistake| malformed(mistake.to_string()))?;
        Ok(Self { lanes: file.lanes.value, cache: None })
    }

    /// The same, and its usage is what the provider's prompt cache would come to, whatever the script says of it.
    pub fn with_cache(self) -> Self {
        self.with_warm_cache(Vec::new())
    }

    /// The same for a cache that others have used before.
    pub fn with_warm_cache(self, known: Vec<crate::CachedRequest>) -> Self {
        Self { cache: Some(known), ..self }
    }
}

#[cfg(test)]
mod tests;
