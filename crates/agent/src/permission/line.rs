//! A command line as rules see it: the commands that it runs, or the reason why they are not known.

use std::collections::BTreeMap;

/// Files that shells read when they start or end.
const STARTUP: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".yashrc",
    ".yash_profile",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    "config.fish",
];

/// A command line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Line {
    /// Its simple commands, in the order in which they begin.
    pub(super) commands: Vec<Vec<Word>>,
    /// Its text without quotes and line continuations.
    pub(super) bare: String,
    /// It does more than run the commands: it substitutes, loops, assigns, or writes files.
    pub(super) is_more: bool,
    /// The first reason why the commands are not all known.
    pub(super) unresolved: Option<String>,
}

/// One word of a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// A literal word.
    Plain(String),
    /// Exactly one word with unknown text, such as `"$x"`.
    Value,
    /// Any number of words with unknown text, such as `$x` or `*.rs`.
    Unclear,
}

/// Possible content of a variable, from harmless to dangerous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    /// A number: may be used in arithmetic, which evaluates names and subscripts.
    Number,
    /// A word without special characters: may be used without quotes.
    Simple,
    /// Anything.
    Unknown,
}

/// Facts about a whole line that single commands depend on.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The variables that the line assigns.
    pub(super) variables: BTreeMap<String, Content>,
    /// Variables that are used where only the given content is harmless.
    pub(super) needs: BTreeMap<String, Content>,
    /// Names of the files that the line writes, without folders.
    pub(super) written: Vec<String>,
    /// Names of files that a program of the line writes, without folders.
    pub(super) made: Vec<String>,
    /// The line writes a file with an unknown name.
    pub(super) writes_unknown: bool,
    /// Names of the programs and scripts that the line runs by path, without folders.
    pub(super) run: Vec<String>,
    /// Names of the programs that the line may find through `PATH`.
    pub(super) named: Vec<String>,
    /// The line starts a shell that reads startup files.
    pub(super) reads_startup: bool,
    /// The line changes `PATH`.
    pub(super) changes_path: bool,
}

impl Word {
    /// Returns the text of a literal word.
    pub(super) fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(word) => Some(word),
            Self::Value | Self::Unclear => None,
        }
    }
}

impl Line {
    /// Notes that some command is unknown; the first reason counts.
    pub(super) fn set_unresolved(&mut self, reason: impl Into<String>) {
        self.is_more = true;
        self.unresolved.get_or_insert_with(|| reason.into());
    }

    /// Returns whether these words occur in the text in this order, whatever is between them.
    pub(super) fn holds(&self, words: &[String]) -> bool {
        let mut rest = self.bare.as_str();
        !words.is_empty()
            && words.iter().all(|word| match find_word(rest, word) {
                Some(end) => {
                    rest = &rest[end..];
                    true
                }
                None => false,
            })
    }
}

impl Facts {
    /// Notes an assignment.
    pub(super) fn assign(&mut self, name: &str, content: Content) {
        let known = self.variables.entry(name.to_owned()).or_insert(content);
        *known = (*known).max(content);
    }

    /// Notes that a variable must hold nothing worse than `content`.
    pub(super) fn need(&mut self, name: &str, content: Content) {
        let known = self.needs.entry(name.to_owned()).or_insert(content);
        *known = (*known).min(content);
    }

    /// Returns why the commands of the line may differ from what they look like.
    pub(super) fn unresolved_reason(&self) -> Option<String> {
        for (name, need) in &self.needs {
            if self.variables.get(name).is_some_and(|content| content > need) {
                return Some(format!("the shell evaluates `{name}`, whose value is unknown"));
            }
        }
        let is_written = |name: &String| self.written.contains(name) || self.made.contains(name);
        let is_startup = |name: &String| STARTUP.contains(&name.as_str());
        if let Some(name) = self.run.iter().find(|name| is_written(name)) {
            return Some(format!("the line writes `{name}` and runs it"));
        }
        if self.writes_unknown && !self.run.is_empty() {
            return Some("the line writes a file with an unknown name and runs a file".to_owned());
        }
        // Into which folder a program puts a file is unknown.
        let writes_startup =
            self.writes_unknown || !self.made.is_empty() || self.written.iter().any(is_startup);
        if self.reads_startup && writes_startup {
            return Some("the line writes a file and starts a shell that reads startup files".to_owned());
        }
        (self.changes_path && (self.writes_unknown || self.named.iter().any(is_written)))
            .then(|| "the line changes `PATH` and writes a file".to_owned())
    }
}

/// Returns where a whole word ends in a text.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| (at, at + word.len())).find_map(|(at, end)| {
        let alone = !text[..at].ends_with(is_part) && !text[end..].starts_with(is_part);
        alone.then_some(end)
    })
}

/// Returns a program's name without its folder.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
