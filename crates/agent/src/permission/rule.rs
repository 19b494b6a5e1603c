//! One rule: `TOOL`, or `TOOL(PATTERN)`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobMatcher};

use super::line::{Line, Word, base};
use crate::tool_names::{BUILTIN, canonical};

/// A permission rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The rule as written.
    pub(crate) text: String,
    tool: GlobMatcher,
    about: Option<Pattern>,
    /// It comes from settings of a project that the user has not accepted.
    pub(super) is_project: bool,
}

/// The part of a rule in brackets.
#[derive(Clone, Debug)]
enum Pattern {
    /// Paths in the workspace.
    Path(GlobMatcher),
    /// Words of a command, whether more words may follow, and the words without stars.
    Command(Vec<GlobMatcher>, bool, Vec<String>),
    /// Hosts.
    Host(GlobMatcher),
    /// A name, such as that of a skill.
    Name(GlobMatcher),
    /// An argument of a server's tool, by name.
    Argument(String, GlobMatcher),
}

/// The result of matching a rule against a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    No,
    /// Unknown before the call runs.
    Maybe,
    Yes,
}

/// The subject of a call, as rules see it.
#[derive(Debug)]
pub(crate) enum Subject {
    /// Nothing that rules can match.
    Nothing,
    /// A relative path in the workspace, with links followed.
    Path(std::path::PathBuf),
    /// A command line.
    Command(Line),
    /// A host.
    Host(String),
    /// A name.
    Name(String),
    /// Arguments of a server's tool by name; each element of a list.
    Arguments(BTreeMap<String, Vec<Argument>>),
}

/// An argument of a server's tool.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    /// Its text.
    pub(crate) text: String,
    /// The path in the workspace that it may be, with links followed.
    pub(crate) path: Option<PathBuf>,
    /// Other paths in the workspace that a server may resolve it to.
    pub(crate) guesses: Vec<PathBuf>,
    /// It may be any path.
    pub(crate) is_unknown: bool,
    /// It is nested in another argument.
    pub(crate) is_nested: bool,
}

impl Argument {
    /// Matches it against a forbidden pattern, in every reading.
    fn matches_any(&self, glob: &GlobMatcher) -> Match {
        let mut paths = self.path.iter().chain(&self.guesses);
        let is_it = glob.is_match(&self.text)
            || glob.is_match(self.text.trim())
            || paths.any(|path| glob.is_match(path));
        match (is_it, self.is_unknown) {
            (true, _) => Match::Yes,
            (false, true) => Match::Maybe,
            (false, false) => Match::No,
        }
    }

    /// Returns whether an allowed pattern matches it in every reading.
    fn matches_all(&self, glob: &GlobMatcher) -> bool {
        match &self.path {
            _ if self.is_nested => false,
            Some(path) => glob.is_match(path),
            None => glob.is_match(&self.text) && !self.text.split(['/', '\\']).any(|part| part == ".."),
        }
    }
}

/// Tools with a path in the workspace.
pub(crate) const FILES: &[&str] = &["read", "write", "edit", "list", "glob", "grep"];

impl Rule {
    /// Parses a rule, or returns what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (tool, pattern) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => {
                let pattern =
                    rest.strip_suffix(')').ok_or_else(|| format!("`{text}` does not end with `)`"))?;
                (tool, Some(pattern.trim()))
            }
        };
        let tool = &*canonical(tool);
        if tool.is_empty() || !tool.chars().all(|c| c.is_alphanumeric() || "_-*".contains(c)) {
            return Err(format!("`{text}` does not begin with a tool's name"));
        }
        let glob = |pattern: &str, of_path: bool| {
            let glob = GlobBuilder::new(pattern).literal_separator(of_path).backslash_escape(true).build();
            glob.map(|glob| glob.compile_matcher()).map_err(|error| format!("`{text}`: {}", error.kind()))
        };
        let about = match pattern {
            None => None,
            Some("") => {
                return Err(format!("`{text}` has an empty pattern; `{tool}` alone is for all its calls"));
            }
            Some(pattern) if FILES.contains(&tool) => {
                let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
                if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
                    return Err(format!(
                        "`{text}`: paths are those of the workspace, without `/` before them and `..`"
                    ));
                }
                // `secrets` and `secrets/**` both mean the folder and everything in it.
                let pattern = pattern.trim_end_matches('/');
                let pattern =
                    pattern.strip_suffix("/**").filter(|folder| !folder.is_empty()).unwrap_or(pattern);
                Some(Pattern::Path(glob(&format!("{{{pattern},{pattern}/**}}"), true)?))
            }
            Some(pattern) if tool == "bash" => {
                let pattern =
                    pattern.strip_suffix(":*").map_or(pattern.to_owned(), |words| format!("{words} *"));
                let mut words: Vec<&str> = pattern.split_whitespace().collect();
                let more = words.last().is_some_and(|last| last.ends_with('*'));
                if words.len() > 1 && words.last() == Some(&"*") {
                    words.pop();
                }
                let plain =
                    words.iter().map(|word| base(word).replace('*', "")).filter(|word| !word.is_empty());
                let plain = plain.collect();
                let words = words.into_iter().map(|word| glob(word, false)).collect::<Result<_, _>>()?;
                Some(Pattern::Command(words, more, plain))
            }
            Some(pattern) if tool == "web_fetch" => {
                Some(Pattern::Host(glob(&pattern.to_ascii_lowercase(), false)?))
            }
            Some(pattern) if tool == "skill" => Some(Pattern::Name(glob(pattern, false)?)),
            Some(pattern) => {
                let named = Glob::new(tool).map_err(|error| format!("`{text}`: {}", error.kind()))?;
                let named = named.compile_matcher();
                if BUILTIN.iter().any(|known| named.is_match(known)) {
                    return Err(format!(
                        "`{text}`: only files, commands, hosts, skills and tools of MCP servers have patterns; write \
                         `{tool}`"
                    ));
                }
                // The name of a server's tool starts with the server's name.
                if !tool.contains(['_', '*']) {
                    return Err(format!("`{text}`: no tool `{tool}`"));
                }
                let argument = pattern.split_once('=').map(|(name, pattern)| (name.trim(), pattern.trim()));
                let Some((name, pattern)) = argument.filter(|(name, pattern)| {
                    let is_name = name.chars().all(|c| c.is_alphanumeric() || "_.-".contains(c));
                    is_name && !name.is_empty() && !pattern.is_empty()
                }) else {
                    return Err(format!(
                        "`{text}`: for a tool of an MCP server, name an argument, as in `{tool}(path=docs/*)`"
                    ));
                };
                let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
                Some(Pattern::Argument(name.to_owned(), glob(pattern, false)?))
            }
        };
        let tool = Glob::new(tool).map_err(|error| format!("`{text}`: {}", error.kind()))?.compile_matcher();
        Ok(Self { text: text.to_owned(), tool, about, is_project: false })
    }

    /// Matches a deny or ask rule against a call. An unknown command may match.
    pub(crate) fn restricts(&self, tool: &str, subject: &Subject) -> Match {
        if !self.tool.is_match(tool) {
            return Match::No;
        }
        match (&self.about, subject) {
            (None, _) => Match::Yes,
            (Some(Pattern::Path(glob)), Subject::Path(path)) => certain(glob.is_match(path)),
            (Some(Pattern::Host(glob)), Subject::Host(host)) => certain(glob.is_match(host)),
            (Some(Pattern::Name(glob)), Subject::Name(name)) => certain(glob.is_match(name)),
            (Some(Pattern::Command(words, _, plain)), Subject::Command(line)) => {
                let read = line.commands.iter().map(|command| find_in(command, words)).max();
                // The words in the text of the line are reason enough for a question.
                let is_doubtful = line.unresolved.is_some() || line.holds(plain);
                let doubt = if is_doubtful { Match::Maybe } else { Match::No };
                read.unwrap_or(Match::No).max(doubt)
            }
            (Some(Pattern::Argument(name, glob)), Subject::Arguments(given)) => {
                let given = given.get(name).map(Vec::as_slice).unwrap_or_default();
                given.iter().map(|given| given.matches_any(glob)).max().unwrap_or(Match::No)
            }
            // The call lacks what the rule is about.
            (Some(_), _) => Match::Maybe,
        }
    }

    /// Returns whether the rule surely allows the call; of a command line, the given command.
    pub(crate) fn allows(&self, tool: &str, subject: &Subject, command: Option<&[Word]>) -> bool {
        if !self.tool.is_match(tool) {
            return false;
        }
        match (&self.about, subject) {
            (None, _) => true,
            (Some(Pattern::Path(glob)), Subject::Path(path)) => glob.is_match(path),
            (Some(Pattern::Host(glob)), Subject::Host(host)) => glob.is_match(host),
            (Some(Pattern::Name(glob)), Subject::Name(name)) => glob.is_match(name),
            (Some(Pattern::Argument(name, glob)), Subject::Arguments(given)) => {
                let given = given.get(name).map(Vec::as_slice).unwrap_or_default();
                !given.is_empty() && given.iter().all(|given| given.matches_all(glob))
            }
            (Some(Pattern::Command(words, more, _)), Subject::Command(_)) => {
                command.is_some_and(|command| is_command(command, words, *more))
            }
            _ => false,
        }
    }

    /// Returns whether the rule is about a tool.
    pub(crate) fn names(&self, tool: &str) -> bool {
        self.tool.is_match(tool)
    }

    /// Returns whether the rule names paths of a tool, and this path is one of them.
    pub(crate) fn names_path(&self, tool: &str, place: &Path) -> bool {
        matches!(&self.about, Some(Pattern::Path(glob)) if glob.is_match(place)) && self.tool.is_match(tool)
    }

    /// Returns whether the rule is about a tool and this path.
    pub(crate) fn covers_path(&self, tool: &str, place: &Path) -> bool {
        let covers = match &self.about {
            None => true,
            Some(Pattern::Path(glob)) => glob.is_match(place),
            Some(_) => false,
        };
        covers && self.tool.is_match(tool)
    }
}

fn certain(yes: bool) -> Match {
    if yes { Match::Yes } else { Match::No }
}

/// Matches the words of a rule against a command, wherever they begin and whatever is between them: programs start other
/// programs, and options may be anywhere.
fn find_in(command: &[Word], wanted: &[GlobMatcher]) -> Match {
    if command.first().is_some_and(|first| first.plain().is_none()) {
        return Match::Maybe;
    }
    let Some((program, rest)) = wanted.split_first() else { return Match::No };
    let mut found = Match::No;
    for (at, word) in command.iter().enumerate() {
        let Some(word) = word.plain() else { continue };
        if !program.is_match(base(word)) && !program.is_match(word) {
            continue;
        }
        let mut behind = command[at + 1..].iter();
        let all = rest
            .iter()
            .all(|wanted| behind.any(|word| word.plain().is_some_and(|word| wanted.is_match(word))));
        let is_unknown = command[at + 1..].iter().any(|word| word.plain().is_none());
        found = found.max(match (all, is_unknown) {
            (true, _) => Match::Yes,
            (false, true) => Match::Maybe,
            (false, false) => Match::No,
        });
    }
    found
}

/// Returns whether a command has exactly these words.
fn is_command(command: &[Word], wanted: &[GlobMatcher], more: bool) -> bool {
    let fits = command.len() == wanted.len() || (more && command.len() > wanted.len());
    fits && wanted
        .iter()
        .zip(command)
        .all(|(wanted, word)| word.plain().is_some_and(|word| wanted.is_match(word)))
}
