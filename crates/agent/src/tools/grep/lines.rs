//! One file's lines that match, as they are shown.

use std::fs::File;
use std::io;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};

use super::super::cut;

/// How many characters of a line are shown.
const LINE: usize = 400;
/// How many of them may come before the match.
const BEFORE: usize = 100;
/// The longest line that is looked at.
const MAX_LINE: usize = 32 << 20;

/// What is searched for, and how.
pub(super) struct Searching {
    matcher: RegexMatcher,
    searcher: Searcher,
    context: usize,
}

/// How much of a file is shown.
pub(super) enum Wanted {
    /// So many matching lines, while what is shown has no more than so many bytes.
    Lines { count: usize, bytes: usize },
    /// None: they are counted.
    Count,
}

/// What was found in a file.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) matches: usize,
    /// The matches and the lines round them, ready to be shown.
    pub(super) shown: Vec<String>,
    /// Their bytes.
    pub(super) size: usize,
    /// There are more matches than were wanted.
    pub(super) more: bool,
    /// It is no text.
    pub(super) binary: bool,
}

impl Searching {
    pub(super) fn new(matcher: RegexMatcher, context: usize) -> Self {
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_LINE))
            .build();
        Self { matcher, searcher, context }
    }

    pub(super) fn has_context(&self) -> bool {
        self.context > 0
    }

    /// Searches a file for what is wanted of it.
    pub(super) fn search(&mut self, path: &str, file: &File, wanted: Wanted) -> io::Result<Lines> {
        let mut sink = Collect { path, matcher: &self.matcher, wanted, lines: Lines::default() };
        self.searcher.search_file(&self.matcher, file, &mut sink)?;
        Ok(sink.lines)
    }
}

struct Collect<'a> {
    path: &'a str,
    matcher: &'a RegexMatcher,
    wanted: Wanted,
    lines: Lines,
}

impl Collect<'_> {
    fn keep(&mut self, number: Option<u64>, sign: char, bytes: &[u8]) {
        if matches!(self.wanted, Wanted::Count) {
            return;
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        // A cut line still shows what was looked for.
        let at = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
        let before = String::from_utf8_lossy(&bytes[..at]).chars().count();
        let line = cut(&String::from_utf8_lossy(bytes), before.saturating_sub(BEFORE), LINE);
        let line = format!("{}{sign}{}{sign}{line}", self.path, number.unwrap_or(0));
        self.lines.size += line.len() + 1;
        self.lines.shown.push(line);
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if let Wanted::Lines { count, bytes } = self.wanted
            && (self.lines.matches == count || self.lines.size > bytes)
        {
            self.lines.more = true;
            return Ok(false);
        }
        self.lines.matches += 1;
        self.keep(found.line_number(), ':', found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        self.keep(line.line_number(), '-', line.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if let Wanted::Lines { .. } = self.wanted {
            self.lines.shown.push("--".to_owned());
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.lines.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}
