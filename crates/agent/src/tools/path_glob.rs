//! Globs for paths below a folder.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::Refusal;

/// A glob below a folder. Without a `/` it matches names at any depth, as in `.gitignore`.
pub(super) struct PathGlob {
    matcher: GlobMatcher,
    names_only: bool,
}

impl PathGlob {
    /// Parses a glob. `field` is the name of the input.
    pub(super) fn new(field: &str, glob: &str) -> Result<Self, Refusal> {
        if glob.is_empty() {
            return Err(Refusal(format!("`{field}` is empty; `*` means every file")));
        }
        if glob.starts_with('/') || glob.split('/').any(|part| part == "..") {
            return Err(Refusal(format!(
                "`{field}` is matched below `path`, so it cannot start with `/` or contain `..`: {glob}"
            )));
        }
        let names_only = !glob.contains('/');
        let matcher = GlobBuilder::new(glob.strip_prefix("./").unwrap_or(glob))
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| Refusal(format!("`{field}` is not a glob: {error}")))?
            .compile_matcher();
        Ok(Self { matcher, names_only })
    }

    /// Returns true if a path relative to the folder matches.
    pub(super) fn matches(&self, below: &Path) -> bool {
        match below.file_name() {
            Some(name) if self.names_only => self.matcher.is_match(name),
            _ => self.matcher.is_match(below),
        }
    }
}
