//! The scripted model: replies from a YAML script, served like those of a provider.
//!
//! Start at [`Script`] and [`ScriptedModel`]. The lane tracker of `recording` finds lane and turn of a request. `player`
//! chooses the reply without IO. `docs/reference/script.md` describes the format. Nothing here knows a harness.

mod agent;
mod captures;
mod check;
mod compose;
mod endpoint;
mod format;
mod mistake;
mod player;
mod prompt_text;
mod report;
mod resumed;
mod server;
mod shared;
mod template;
mod wait_cycles;

use std::path::{Path, PathBuf};

use thiserror::Error;

use format::Lane;

pub use report::{ScriptReport, UnusedTurn};
pub use server::ScriptedModel;
pub use shared::PriorConversation;

/// A script cannot be used.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The text is not a valid script.
    #[error("`{}` is not a script: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The problem, with line and column.
        reason: String,
    },
}

/// A valid script: the replies of a scripted model, lane by lane.
#[derive(Clone, Debug)]
pub struct Script {
    lanes: Vec<Lane>,
    /// Earlier requests for a simulated prompt cache, if the model reports simulated usage.
    cache: Option<Vec<crate::CachedRequest>>,
}

impl Script {
    /// Reads a script from a file.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Io { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Parses a script. Errors name `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScriptError> {
        let malformed = |reason: String| ScriptError::Malformed { path: path.to_owned(), reason };
        // `no`, `on` and `y` are texts, as in YAML 1.2.
        let options = serde_saphyr::options! { strict_booleans: true };
        let file: format::ScriptFile = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| malformed(error.without_snippet().to_string()))?;
        check::check(&file).map_err(|mistake| malformed(mistake.to_string()))?;
        Ok(Self { lanes: file.lanes.value, cache: None })
    }

    /// Reports the usage of a simulated prompt cache instead of the scripted usage.
    pub fn with_cache(self) -> Self {
        self.with_warm_cache(Vec::new())
    }

    /// Reports the usage of a simulated prompt cache that has these earlier requests.
    pub fn with_warm_cache(self, known: Vec<crate::CachedRequest>) -> Self {
        Self { cache: Some(known), ..self }
    }
}

#[cfg(test)]
mod tests;
