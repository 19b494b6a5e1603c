//! Imports sessions from other harnesses: Claude Code transcripts, OpenCode exports.
//!
//! Start at [`import`]. The parsers ([`claude`], [`opencode`]) are pure: they take named bytes and return a
//! session. Unknown content is never an error: it is skipped, counted and named.

mod agents;
mod claude;
mod find;
mod opencode;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use recording::normalize::Envelope;
use serde::Serialize;

use crate::error::HarnessError;

pub use find::import;

/// The format of the files to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportSource {
    /// The output of `opencode export`, one file per session.
    OpencodeExport,
    /// Files that Claude Code keeps below `.claude/projects`.
    ClaudeTranscript,
}

impl ImportSource {
    /// The name on the command line and in the session's `source`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpencodeExport => "opencode-export",
            Self::ClaudeTranscript => "claude-transcript",
        }
    }

    /// The name in error messages.
    fn description(self) -> &'static str {
        match self {
            Self::OpencodeExport => "an export of OpenCode",
            Self::ClaudeTranscript => "a transcript of Claude Code",
        }
    }

    fn read(self, files: &[SourceFile]) -> ImportedSession {
        match self {
            Self::OpencodeExport => opencode::read(files),
            Self::ClaudeTranscript => claude::read(files),
        }
    }
}

/// An imported session.
#[derive(Debug, Default)]
pub struct ImportedSession {
    /// The session.
    pub envelope: Envelope,
    /// Content that was not understood or could not be assigned.
    pub skipped: Vec<SkippedContent>,
    /// Number of known entries that no model saw.
    pub bookkeeping: usize,
}

/// A kind of content that is not in the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedContent {
    /// Its description.
    pub what: String,
    /// Number of occurrences.
    pub count: usize,
    /// Place of the first occurrence.
    pub first: String,
}

/// A file to parse.
struct SourceFile {
    /// Its path, for messages.
    name: String,
    bytes: Vec<u8>,
}

/// Counts skipped content.
#[derive(Debug, Default)]
struct SkipCounter {
    bookkeeping: usize,
    others: BTreeMap<String, (usize, String)>,
}

impl SkipCounter {
    fn add(&mut self, what: impl Into<String>, place: impl FnOnce() -> String) {
        self.others.entry(what.into()).or_insert_with(|| (0, place())).0 += 1;
    }

    fn finish(self, envelope: Envelope) -> ImportedSession {
        let skipped =
            self.others.into_iter().map(|(what, (count, first))| SkippedContent { what, count, first });
        ImportedSession { envelope, skipped: skipped.collect(), bookkeeping: self.bookkeeping }
    }
}

/// Imports the session from the exports in a recording; `None` if there are no readable ones.
pub fn from_exports(recording: &Path) -> Option<Envelope> {
    let exports = recording.join("exports");
    let sources = [ImportSource::ClaudeTranscript, ImportSource::OpencodeExport];
    let read =
        |source: &ImportSource| -> Result<ImportedSession, HarnessError> { import(*source, &[&exports]) };
    sources.iter().find_map(|source| read(source).ok()).map(|imported| imported.envelope)
}
