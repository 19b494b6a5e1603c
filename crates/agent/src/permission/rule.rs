//! One rule: `TOOL`, or `TOOL(PATTERN)`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobMatcher};

use super::line::{Line, Word};
use super::programs::base;
use crate::tool_names::{BUILTIN, canonical};

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// As it was written.
    pub(crate) text: String,
    tool: GlobMatcher,
    about: Option<About>,
    /// A project's settings have it, which the user has not accepted.
    pub(super) is_project: bool,
}

/// What a rule is about, besides the tool.
#[derive(Clone, Debug)]
enum About {
    /// Files, by their path in the workspace.
    Path(GlobMatcher),
    /// Commands, word by word; whether more words may follow; and the words without their stars.
    Command(Vec<GlobMatcher>, bool, Vec<String>),
    /// Hosts.
    Host(GlobMatcher),
    /// A name, of a skill for instance.
    Name(GlobMatcher),
    /// An argument of a server's tool, by its name.
    Argument(String, GlobMatcher),
}

/// Whether a rule covers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Covers {
    No,
    /// Nobody can tell before it runs.
    Maybe,
    Yes,
}

/// What a call is about, as rules see it.
#[derive(Debug)]
pub(crate) enum Subject {
    /// Nothing that rules know of.
    Nothing,
    /// A file or folder of the workspace, relative, with its links followed.
    Path(std::path::PathBuf),
    /// A command line.
    Command(Line),
    /// A host.
    Host(String),
    /// A name.
    Name(String),
    /// What a server's tool is given, by name; of a list each.
    Arguments(BTreeMap<String, Vec<Given>>),
}

/// An argument, as the rules see it.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// As it was written.
    pub(crate) text: String,
    /// As a path in the workspace, with its links followed, where it can be one.
    pub(crate) path: Option<PathBuf>,
    /// Where else in the workspace it may lead, for one who reads paths in another way.
    pub(crate) guesses: Vec<PathBuf>,
    /// It may lead anywhere.
    pub(crate) is_unsure: bool,
    /// It stands in another argument.
    pub(crate) is_deep: bool,
}

impl Given {
    /// Whether it means what is forbidden.
    fn covers(&self, glob: &GlobMatcher) -> Covers {
        let mut paths = self.path.iter().chain(&self.guesses);
        let is_it = glob.is_match(&self.text)
            || glob.is_match(self.text.trim())
            || paths.any(|path| glob.is_match(path));
        match (is_it, self.is_unsure) {
            (true, _) => Covers::Yes,
            (false, true) => Covers::Maybe,
            (false, false) => Covers::No,
        }
    }

    /// Whether it can only mean what is allowed: not what `..` and links make of it.
    fn is(&self, glob: &GlobMatcher) -> bool {
        match &self.path {
            _ if self.is_deep => false,
            Some(path) => glob.is_match(path),
            None => glob.is_match(&self.text) && !self.text.split(['/', '\\']).any(|part| part == ".."),
        }
    }
}

/// The tools that work on files of the workspace.
pub(crate) const FILES: &[&str] = &["read", "write", "edit", "list", "glob", "grep"];

impl Rule {
    /// Reads a rule; an error says what is wrong with it.
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
                // `secrets` is the folder with all that is in it, and so is `secrets/**`.
                let pattern = pattern.trim_end_matches('/');
                let pattern =
                    pattern.strip_suffix("/**").filter(|folder| !folder.is_empty()).unwrap_or(pattern);
                Some(About::Path(glob(&format!("{{{pattern},{pattern}/**}}"), true)?))
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
                Some(About::Command(words, more, plain))
            }
            Some(pattern) if tool == "web_fetch" => {
                Some(About::Host(glob(&pattern.to_ascii_lowercase(), false)?))
            }
            Some(pattern) if tool == "skill" => Some(About::Name(glob(pattern, false)?)),
            Some(pattern) => {
                let named = Glob::new(tool).map_err(|error| format!("`{text}`: {}", error.kind()))?;
                let named = named.compile_matcher();
                if BUILTIN.iter().any(|known| named.is_match(known)) {
                    return Err(format!(
                        "`{text}`: only files, commands, hosts, skills and tools of MCP servers have patterns; write \
                         `{tool}`"
                    ));
                }
                // The name of a server's tool has the server's before it.
                if !tool.contains(['_', '*']) {
                    return Err(format!("`{text}`: there is no tool `{tool}`"));
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
                Some(About::Argument(name.to_owned(), glob(pattern, false)?))
            }
        };
        let tool = Glob::new(tool).map_err(|error| format!("`{text}`: {}", error.kind()))?.compile_matcher();
        Ok(Self { text: text.to_owned(), tool, about, is_project: false })
    }

    /// Whether it forbids the call, or makes it a question: in doubt, maybe.
    pub(crate) fn forbids(&self, tool: &str, subject: &Subject) -> Covers {
        if !self.tool.is_match(tool) {
            return Covers::No;
        }
        match (&self.about, subject) {
            (None, _) => Covers::Yes,
            (Some(About::Path(glob)), Subject::Path(path)) => covers(glob.is_match(path)),
            (Some(About::Host(glob)), Subject::Host(host)) => covers(glob.is_match(host)),
            (Some(About::Name(glob)), Subject::Name(name)) => covers(glob.is_match(name)),
            (Some(About::Command(words, _, plain)), Subject::Command(line)) => {
                let read = line.commands.iter().map(|command| hidden_in(command, words)).max();
                // Whatever the reader made of it: where its words stand in the text, somebody should look.
                let stand = if line.holds(plain) { Covers::Maybe } else { Covers::No };
                read.unwrap_or(Covers::No).max(stand)
            }
            (Some(About::Argument(name, glob)), Subject::Arguments(given)) => {
                let given = given.get(name).map(Vec::as_slice).unwrap_or_default();
                given.iter().map(|given| given.covers(glob)).max().unwrap_or(Covers::No)
            }
            // What a rule is about cannot be found in the call: then nobody can tell.
            (Some(_), _) => Covers::Maybe,
        }
    }

    /// Whether it allows the call: in doubt, no. Of a command line, only what one of its commands needs.
    pub(crate) fn allows(&self, tool: &str, subject: &Subject, command: Option<&[Word]>) -> bool {
        if !self.tool.is_match(tool) {
            return false;
        }
        match (&self.about, subject) {
            (None, _) => true,
            (Some(About::Path(glob)), Subject::Path(path)) => glob.is_match(path),
            (Some(About::Host(glob)), Subject::Host(host)) => glob.is_match(host),
            (Some(About::Name(glob)), Subject::Name(name)) => glob.is_match(name),
            (Some(About::Argument(name, glob)), Subject::Arguments(given)) => {
                let given = given.get(name).map(Vec::as_slice).unwrap_or_default();
                !given.is_empty() && given.iter().all(|given| given.is(glob))
            }
            (Some(About::Command(words, more, _)), Subject::Command(_)) => {
                command.is_some_and(|command| is_it(command, words, *more))
            }
            _ => false,
        }
    }

    /// Whether it is about that tool.
    pub(crate) fn names(&self, tool: &str) -> bool {
        self.tool.is_match(tool)
    }

    /// Whether it is about that tool and some places, that one among them.
    pub(crate) fn closes_place(&self, tool: &str, place: &Path) -> bool {
        matches!(&self.about, Some(About::Path(glob)) if glob.is_match(place)) && self.tool.is_match(tool)
    }

    /// Whether it is about that tool and that very place.
    pub(crate) fn closes(&self, tool: &str, place: &Path) -> bool {
        let covers = match &self.about {
            None => true,
            Some(About::Path(glob)) => glob.is_match(place),
            Some(_) => false,
        };
        covers && self.tool.is_match(tool)
    }
}

fn covers(yes: bool) -> Covers {
    if yes { Covers::Yes } else { Covers::No }
}

/// Whether the words stand in a command in their order, wherever they begin and whatever stands between them: programs
/// start programs, and options stand where they like.
fn hidden_in(command: &[Word], wanted: &[GlobMatcher]) -> Covers {
    // Nobody knows what it runs.
    if command.first() == Some(&Word::Unclear) {
        return Covers::Maybe;
    }
    let Some((program, rest)) = wanted.split_first() else { return Covers::No };
    let mut found = Covers::No;
    for (at, word) in command.iter().enumerate() {
        let Some(word) = word.plain() else { continue };
        if !program.is_match(base(word)) && !program.is_match(word) {
            continue;
        }
        let mut behind = command[at + 1..].iter();
        let all = rest
            .iter()
            .all(|wanted| behind.any(|word| word.plain().is_some_and(|word| wanted.is_match(word))));
        // `xargs` gives it more words.
        let fed = command[..at]
            .iter()
            .filter_map(Word::plain)
            .any(|word| ["xargs", "parallel"].contains(&base(word)));
        let unclear = fed || command[at + 1..].contains(&Word::Unclear);
        found = found.max(match (all, unclear) {
            (true, _) => Covers::Yes,
            (false, true) => Covers::Maybe,
            (false, false) => Covers::No,
        });
    }
    found
}

/// Whether a command is the one that was meant, word by word.
fn is_it(command: &[Word], wanted: &[GlobMatcher], more: bool) -> bool {
    let fits = command.len() == wanted.len() || (more && command.len() > wanted.len());
    fits && wanted
        .iter()
        .zip(command)
        .all(|(wanted, word)| word.plain().is_some_and(|word| wanted.is_match(word)))
}
