//! What harnesses leave behind, read as a session: Claude Code's transcripts, OpenCode's exports.
//!
//! Start at [`import`]. The parsers ([`claude`], [`opencode`]) are pure: named bytes in, a session out. Nothing in
//! these files stops them: what they do not know is skipped, counted and named.

mod claude;
mod find;
mod opencode;
mod told;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use recording::normalize::Envelope;
use serde::Serialize;

use crate::error::HarnessError;

pub use find::import;

/// What a session is imported from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// What `opencode export` prints, a file for each session.
    OpencodeExport,
    /// What Claude Code keeps below `.claude/projects`.
    ClaudeTranscript,
}

impl Leaving {
    /// As the command line and the session's `source` name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpencodeExport => "opencode-export",
            Self::ClaudeTranscript => "claude-transcript",
        }
    }

    /// As errors speak of it.
    fn called(self) -> &'static str {
        match self {
            Self::OpencodeExport => "an export of OpenCode",
            Self::ClaudeTranscript => "a transcript of Claude Code",
        }
    }

    fn read(self, files: &[Piece]) -> Imported {
        match self {
            Self::OpencodeExport => opencode::read(files),
            Self::ClaudeTranscript => claude::read(files),
        }
    }
}

/// A session, as the harness itself tells it.
#[derive(Debug, Default)]
pub struct Imported {
    /// The session.
    pub envelope: Envelope,
    /// What was not understood, or could not be placed.
    pub skipped: Vec<Skipped>,
    /// Entries that no model ever saw, and that are known as such.
    pub bookkeeping: usize,
}

/// Something that is not in the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// What it is.
    pub what: String,
    /// How often it was there.
    pub count: usize,
    /// Where it was first.
    pub first: String,
}

/// A file, as the parsers see it.
struct Piece {
    /// Where it is, as people know it.
    name: String,
    bytes: Vec<u8>,
}

/// Counts what is passed over.
#[derive(Debug, Default)]
struct Skips {
    bookkeeping: usize,
    others: BTreeMap<String, (usize, String)>,
}

impl Skips {
    fn add(&mut self, what: impl Into<String>, place: impl FnOnce() -> String) {
        self.others.entry(what.into()).or_insert_with(|| (0, place())).0 += 1;
    }

    fn finish(self, envelope: Envelope) -> Imported {
        let skipped = self.others.into_iter().map(|(what, (count, first))| Skipped { what, count, first });
        Imported { envelope, skipped: skipped.collect(), bookkeeping: self.bookkeeping }
    }
}

/// The session as the exports in a recording tell it; `None` where there are none that can be read.
pub fn from_exports(recording: &Path) -> Option<Envelope> {
    let exports = recording.join("exports");
    let sources = [Leaving::ClaudeTranscript, Leaving::OpencodeExport];
    let read = |source: &Leaving| -> Result<Imported, HarnessError> { import(*source, &[&exports]) };
    sources.iter().find_map(|source| read(source).ok()).map(|imported| imported.envelope)
}
