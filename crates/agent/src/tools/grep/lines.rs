//! Matching lines of one file, formatted for the answer.

use std::fs::File;
use std::io;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};

use super::super::cut;

/// Maximum number of characters of a line in an answer.
const MAX_LINE_CHARS: usize = 400;
/// Number of them that may come before the match.
const CHARS_BEFORE_MATCH: usize = 100;
/// Longest line that is searched.
const MAX_LINE_BYTES: usize = 32 << 20;

/// Line search with its settings.
pub(super) struct LineSearcher {
    matcher: RegexMatcher,
    searcher: Searcher,
    context: usize,
}

/// Amount of results to collect from one file.
pub(super) enum SearchLimit {
    /// Up to `count` matching lines, as long as the results have no more than `bytes` bytes.
    Lines { count: usize, bytes: usize },
    /// Only the number of matching lines.
    Count,
}

/// Results from one file.
#[derive(Default)]
pub(super) struct FileMatches {
    pub(super) matches: usize,
    /// Matches and context lines, formatted.
    pub(super) shown: Vec<String>,
    /// Their size in bytes.
    pub(super) size: usize,
    /// True if there are more matches.
    pub(super) more: bool,
    /// True for a binary file.
    pub(super) binary: bool,
}

impl LineSearcher {
    pub(super) fn new(matcher: RegexMatcher, context: usize) -> Self {
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_LINE_BYTES))
            .build();
        Self { matcher, searcher, context }
    }

    pub(super) fn has_context(&self) -> bool {
        self.context > 0
    }

    /// Searches a file.
    pub(super) fn search(&mut self, path: &str, file: &File, wanted: SearchLimit) -> io::Result<FileMatches> {
        let mut sink = MatchCollector { path, matcher: &self.matcher, wanted, lines: FileMatches::default() };
        self.searcher.search_file(&self.matcher, file, &mut sink)?;
        Ok(sink.lines)
    }
}

struct MatchCollector<'a> {
    path: &'a str,
    matcher: &'a RegexMatcher,
    wanted: SearchLimit,
    lines: FileMatches,
}

impl MatchCollector<'_> {
    fn add_line(&mut self, number: Option<u64>, sign: char, bytes: &[u8]) {
        if matches!(self.wanted, SearchLimit::Count) {
            return;
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        // A shortened line still shows the match.
        let at = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
        let before = String::from_utf8_lossy(&bytes[..at]).chars().count();
        let line =
            cut(&String::from_utf8_lossy(bytes), before.saturating_sub(CHARS_BEFORE_MATCH), MAX_LINE_CHARS);
        let line = format!("{}{sign}{}{sign}{line}", self.path, number.unwrap_or(0));
        self.lines.size += line.len() + 1;
        self.lines.shown.push(line);
    }
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if let SearchLimit::Lines { count, bytes } = self.wanted
            && (self.lines.matches == count || self.lines.size > bytes)
        {
            self.lines.more = true;
            return Ok(false);
        }
        self.lines.matches += 1;
        self.add_line(found.line_number(), ':', found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        self.add_line(line.line_number(), '-', line.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if let SearchLimit::Lines { .. } = self.wanted {
            self.lines.shown.push("--".to_owned());
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.lines.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}
