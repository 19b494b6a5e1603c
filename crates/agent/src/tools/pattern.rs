//! Which paths a glob means.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::Refusal;

/// A glob below a folder. Without a `/` it means names at any depth, as in `.gitignore`.
pub(super) struct Pattern {
    matcher: GlobMatcher,
    names_only: bool,
}

impl Pattern {
    /// Reads a glob; `field` is the input that it came in.
    pub(super) fn new(field: &str, glob: &str) -> Result<Self, Refusal> {
        if glob.is_empty() {
            return Err(Refusal(format!("`{field}` is empty; `*` means every file")));
        }
        if glob.starts_with('/') || glob.split('/').any(|part| part == "..") {
            return Err(Refusal(format!(
                "`{field}` is matched below `path`, so it cannot start with `/` or hold `..`: {glob}"
            )));
        }
        let names_only = !glob.contains('/');
        let matcher = GlobBuilder::new(glob.strip_prefix("./").unwrap_or(glob))
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| Refusal(format!("`{field}` is no glob: {error}")))?
            .compile_matcher();
        Ok(Self { matcher, names_only })
    }

    /// Whether it means this path, which is seen from the folder.
    pub(super) fn means(&self, below: &Path) -> bool {
        match below.file_name() {
            Some(name) if self.names_only => self.matcher.is_match(name),
            _ => self.matcher.is_match(below),
        }
    }
}
