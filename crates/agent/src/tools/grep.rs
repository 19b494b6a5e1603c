//! `grep`: searches files for lines that match.

mod lines;

use std::ops::ControlFlow;
use std::path::Path;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use serde::Deserialize;
use serde_json::Value;

use self::lines::{FileMatches, LineSearcher, SearchLimit};
use super::path_glob::PathGlob;
use super::walk::walk;
use super::{CancelFlag, Refusal, run};
use crate::workspace::{DeniedHardLinks, EntryKind, display_path};
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput, Workspace, WorkspaceError};

/// Default number of results.
const DEFAULT_RESULTS: usize = 200;
/// Maximum size of an answer in bytes.
const MAX_ANSWER: usize = 256 << 10;
/// Largest file that is searched along with others.
const MAX_FILE: u64 = 64 << 20;
/// Maximum number of bytes in one search.
const MAX_BYTES: u64 = 2 << 30;
/// Maximum size of a compiled pattern.
const MAX_PATTERN: usize = 10 << 20;

/// The tool `grep`.
pub(super) struct GrepTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    output: ResultKind,
    #[serde(default)]
    case_insensitive: bool,
    context: Option<usize>,
    limit: Option<usize>,
}

/// Form of the results.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum ResultKind {
    #[default]
    Content,
    Files,
    Count,
}

impl Tool for GrepTool {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn description(&self) -> &'static str {
        "Searches files line by line for a regular expression (Rust's syntax) and shows `path:line:text`. Binary \
         files and what `.gitignore` names are left out."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""pattern":{"type":"string","description":"The regular expression; it is matched within a line."},"#,
            r#""path":{"type":"string","description":"The folder or file to search; the default is the workspace."},"#,
            r#""glob":{"type":"string","description":"Search only files with such names, as in `*.rs` or `src/**/*.ts`."},"#,
            r#""output":{"type":"string","enum":["content","files","count"],"#,
            r#""description":"Matching lines, only the files, or the number of matching lines in each; the default is the lines."},"#,
            r#""case_insensitive":{"type":"boolean","description":"Ignore case."},"#,
            r#""context":{"type":"integer","minimum":0,"maximum":20,"#,
            r#""description":"Number of lines to show before and after each match."},"#,
            r#""limit":{"type":"integer","minimum":1,"maximum":2000,"#,
            r#""description":"Maximum number of matching lines or files; the default is 200."}"#,
            r#"},"required":["pattern"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run(self, input, context, grep)
    }
}

fn grep(args: &Args, workspace: &Workspace, stop: &CancelFlag) -> Result<ToolOutput, Refusal> {
    if args.context.is_some_and(|lines| lines > 0) && args.output != ResultKind::Content {
        return Err(Refusal("`context` needs `output` to be \"content\"".to_owned()));
    }
    let only = args.glob.as_deref().map(|glob| PathGlob::new("glob", glob)).transpose()?;
    let mut search = GrepSearch::new(args, matcher(args)?);
    let start = Path::new(args.path.as_deref().unwrap_or("."));
    let notes = match workspace.open_file(start) {
        Ok(file) => {
            search.search_file(start, &file, MAX_BYTES);
            if search.too_large > 0 {
                return Err(Refusal(format!("`{}` is larger than {MAX_BYTES} bytes", display_path(start))));
            }
            if search.binary > 0 {
                return Err(Refusal(format!(
                    "`{}` is a binary file; it is not searched",
                    display_path(start)
                )));
            }
            Vec::new()
        }
        Err(WorkspaceError::IsFolder(_)) => {
            let hard_links = DeniedHardLinks::new(workspace);
            let omissions = walk(workspace, start, stop, &mut |found| {
                if found.kind != EntryKind::File
                    || only.as_ref().is_some_and(|only| !only.matches(found.below))
                {
                    return ControlFlow::Continue(());
                }
                match found.folder.open_file(found.name) {
                    Ok(file) if hard_links.denial_reason(&file).is_some() => {}
                    Ok(file) => search.search_file(found.path, &file, MAX_FILE),
                    Err(_) => search.unreadable += 1,
                }
                if search.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            omissions.notes()
        }
        Err(error) => return Err(error.into()),
    };
    Ok(search.answer(&args.pattern, notes))
}

fn matcher(args: &Args) -> Result<RegexMatcher, Refusal> {
    RegexMatcherBuilder::new()
        .case_insensitive(args.case_insensitive)
        // `^` and `$` match at the ends of a line, whatever ends it.
        .multi_line(true)
        .crlf(true)
        .size_limit(MAX_PATTERN)
        .dfa_size_limit(MAX_PATTERN)
        .build(&args.pattern)
        .map_err(|error| Refusal(format!("`pattern` is not a regular expression: {error}")))
}

/// A search through several files.
struct GrepSearch {
    searcher: LineSearcher,
    output: ResultKind,
    limit: usize,
    answer: Vec<String>,
    /// Size of the answer in bytes.
    size: usize,
    /// Number of lines for `content`, otherwise of files.
    results: usize,
    /// Number of bytes searched so far.
    bytes: u64,
    more: bool,
    binary: usize,
    too_large: usize,
    unreadable: usize,
}

impl GrepSearch {
    fn new(args: &Args, matcher: RegexMatcher) -> Self {
        Self {
            searcher: LineSearcher::new(matcher, args.context.unwrap_or(0)),
            output: args.output,
            limit: args.limit.unwrap_or(DEFAULT_RESULTS),
            answer: Vec::new(),
            size: 0,
            results: 0,
            bytes: 0,
            more: false,
            binary: 0,
            too_large: 0,
            unreadable: 0,
        }
    }

    /// Searches a file, unless it is larger than `largest`.
    fn search_file(&mut self, path: &Path, file: &std::fs::File, largest: u64) {
        let size = file.metadata().map_or(0, |about| about.len());
        if size > largest {
            self.too_large += 1;
            return;
        }
        self.bytes += size;
        let wanted = match self.output {
            ResultKind::Content => SearchLimit::Lines {
                count: self.limit - self.results,
                bytes: MAX_ANSWER.saturating_sub(self.size),
            },
            ResultKind::Files | ResultKind::Count => SearchLimit::Count,
        };
        let path = display_path(path);
        match self.searcher.search(&path, file, wanted) {
            Err(_) => self.unreadable += 1,
            Ok(lines) if lines.binary => self.binary += 1,
            Ok(lines) if lines.matches == 0 && !lines.more => {}
            Ok(lines) => self.take(path, lines),
        }
    }

    fn take(&mut self, path: String, lines: FileMatches) {
        if self.results == self.limit {
            self.more = true;
            return;
        }
        let (results, shown) = match self.output {
            ResultKind::Content => (lines.matches, lines.shown),
            ResultKind::Files => (1, vec![path]),
            ResultKind::Count => (1, vec![format!("{path}:{}", lines.matches)]),
        };
        self.results += results;
        self.more |= lines.more;
        if self.searcher.has_context() && !self.answer.is_empty() {
            self.answer.push("--".to_owned());
        }
        self.size += shown.iter().map(|line| line.len() + 1).sum::<usize>();
        self.answer.extend(shown);
    }

    /// Returns true if nothing more can be shown or searched. Beyond the limit, the search continues until one
    /// more result is found.
    fn is_full(&self) -> bool {
        self.more || self.size > MAX_ANSWER || self.bytes > MAX_BYTES
    }

    fn answer(mut self, pattern: &str, notes: Vec<String>) -> ToolOutput {
        if self.answer.is_empty() {
            self.answer.push(format!("nothing matches `{pattern}`"));
        }
        if self.more || self.size > MAX_ANSWER {
            self.answer.push("[there is more; narrow the search to see it]".to_owned());
        }
        if self.bytes > MAX_BYTES {
            self.answer
                .push(format!("[stopped after {MAX_BYTES} bytes; choose a `path` to search the rest]"));
        }
        if self.too_large > 0 {
            self.answer.push(format!(
                "[{} files larger than {MAX_FILE} bytes were not searched: name one as `path` to search it]",
                self.too_large
            ));
        }
        if self.unreadable > 0 {
            self.answer.push(format!("[{} files could not be searched]", self.unreadable));
        }
        self.answer.extend(notes);
        ToolOutput::text(self.answer.join("\n"))
    }
}

#[cfg(test)]
mod tests;
