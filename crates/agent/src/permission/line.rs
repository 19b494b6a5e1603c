//! A command line as rules see it: the commands that it runs, or the reason why they are not known.

use std::collections::{BTreeMap, BTreeSet};

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
    /// A word with expansions or patterns, such as `"$x"` or `*.rs`.
    Unknown(UnknownWord),
}

/// Place of an expansion in the text of a word.
pub(super) const EXPANSION: char = '\u{fffc}';

/// A word whose text is not known before the line runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UnknownWord {
    /// Its text, with [`EXPANSION`] in place of each expansion.
    pub(super) text: String,
    /// It is exactly one word.
    pub(super) is_one: bool,
    /// The variables in it.
    pub(super) variables: Vec<String>,
    /// It has more than variables and names of files: output of commands, for example.
    pub(super) is_other: bool,
}

/// Possible content of a variable, from harmless to dangerous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    /// A number: may be used in arithmetic, which evaluates names and subscripts.
    Number,
    /// A word without special characters: may be used without quotes.
    Simple,
    /// Names of files, from a pattern or a program that lists files.
    Names,
    /// Anything.
    Unknown,
}

/// Variables in a value, with what they must hold so that the value hides nothing. `None` if it may hide something anyway.
pub(super) type Needs = Option<Vec<(String, Content)>>;

/// Facts about a whole line that single commands depend on.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The variables that the line assigns.
    pub(super) variables: BTreeMap<String, Content>,
    /// The variables that the line assigns, once for each of their values.
    pub(super) values: Vec<(String, Needs)>,
    /// The variables that programs see, without harmless ones.
    pub(super) exported: BTreeSet<String>,
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
    /// Literal texts that the line writes into files.
    pub(super) texts: Vec<WrittenText>,
    /// Names in code that an interpreter runs: files that it may write.
    pub(super) mentioned: Vec<String>,
    /// Names of files that a program of the line takes its commands from without a word about them.
    pub(super) configured: Vec<String>,
    /// Names of files that an interpreter runs as its program, without folders.
    pub(super) run_as_code: Vec<String>,
}

/// A kind of script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptKind {
    /// Commands of a shell.
    Shell,
    /// A program of an interpreter, such as Python.
    Code,
}

/// A literal text that the line writes into a file.
#[derive(Debug)]
pub(super) struct WrittenText {
    /// The file, without folders.
    pub(super) name: String,
    pub(super) text: String,
    /// Its commands are part of the line already.
    pub(super) is_read: bool,
}

/// Returns the kind of script that has this first line.
fn script_kind(first: &str) -> Option<ScriptKind> {
    let words = first[2..].split_whitespace().map(base).filter(|word| *word != "env");
    match words.collect::<Vec<_>>()[..] {
        ["sh" | "bash" | "dash"] => Some(ScriptKind::Shell),
        ["python" | "python3" | "node"] => Some(ScriptKind::Code),
        _ => None,
    }
}

impl Word {
    /// Returns the text of a literal word.
    pub(super) fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(word) => Some(word),
            Self::Unknown(_) => None,
        }
    }

    /// Returns the text of a word, with [`EXPANSION`] in place of each expansion.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Unknown(word) => &word.text,
        }
    }

    /// Returns the path of a file whose name is literal, although its folder may be unknown.
    pub(super) fn path(&self) -> Option<&str> {
        let Self::Unknown(word) = self else { return self.plain() };
        let (folder, name) = word.text.rsplit_once('/')?;
        let is_literal = !name.is_empty() && !name.contains([EXPANSION, '*', '?', '[', '{']);
        (word.is_one && is_literal && !folder.starts_with('-')).then_some(&word.text)
    }

    /// Returns a part of a word as a word.
    pub(super) fn with_text(&self, text: &str) -> Self {
        match self {
            Self::Plain(_) => Self::Plain(text.to_owned()),
            Self::Unknown(word) => Self::Unknown(UnknownWord { text: text.to_owned(), ..word.clone() }),
        }
    }

    /// Returns words of which nothing is known.
    pub(super) fn anything() -> Self {
        Self::Unknown(UnknownWord { text: EXPANSION.into(), is_other: true, ..UnknownWord::default() })
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

    /// Notes the names in a piece of code.
    pub(super) fn mention(&mut self, code: &str) {
        let names = code.split(|c: char| !(c.is_alphanumeric() || "_.-".contains(c)));
        self.mentioned.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
    }

    /// Notes that a variable must hold nothing worse than `content`.
    pub(super) fn need(&mut self, name: &str, content: Content) {
        let known = self.needs.entry(name.to_owned()).or_insert(content);
        *known = (*known).min(content);
    }

    /// Returns the text of a file, if it is all that the line writes into it.
    fn only_text(&self, name: &str) -> Option<usize> {
        let writes = self.written.iter().chain(&self.made).filter(|written| *written == name).count();
        let mut texts = (0..self.texts.len()).filter(|at| self.texts[*at].name == name);
        texts.next().filter(|_| writes == 1 && texts.next().is_none())
    }

    /// Returns the next script that the line writes and runs, and its kind, if that is known.
    pub(super) fn next_written_script(&mut self) -> Option<(String, Option<ScriptKind>)> {
        let shell = self.run.iter().map(|name| (name, ScriptKind::Shell));
        let code = self.run_as_code.iter().map(|name| (name, ScriptKind::Code));
        let mut found = shell.chain(code).filter_map(|(name, kind)| Some((self.only_text(name)?, kind)));
        let (at, kind) = found.find(|(at, _)| !self.texts[*at].is_read)?;
        let written = &mut self.texts[at];
        written.is_read = true;
        let kind = match written.text.lines().next().filter(|first| first.starts_with("#!")) {
            Some(first) if kind == ScriptKind::Shell => script_kind(first),
            _ => Some(kind),
        };
        Some((written.text.clone(), kind))
    }

    /// Returns why the commands of the line may differ from what they look like.
    pub(super) fn unresolved_reason(&self) -> Option<String> {
        let is_worse =
            |name: &String, need: &Content| self.variables.get(name).is_some_and(|content| content > need);
        let is_hidden = |needs: &Needs| {
            needs.as_ref().is_none_or(|needs| needs.iter().any(|(name, need)| is_worse(name, need)))
        };
        let mut values = self.values.iter().filter(|(name, _)| self.exported.contains(name));
        if let Some((name, _)) = values.find(|(_, needs)| is_hidden(needs)) {
            return Some(format!("a program may run the value of `{name}`, which is not known"));
        }
        for (name, need) in &self.needs {
            if is_worse(name, need) {
                return Some(format!("the shell evaluates `{name}`, whose value is unknown"));
            }
        }
        let is_written = |name: &String| self.written.contains(name) || self.made.contains(name);
        let is_startup = |name: &String| STARTUP.contains(&name.as_str());
        let mut programs = self.run.iter().chain(&self.run_as_code);
        let is_unknown = |name: &String| {
            (is_written(name) && self.only_text(name).is_none()) || self.mentioned.contains(name)
        };
        if let Some(name) = programs.find(|name| is_unknown(name)) {
            return Some(format!("the line writes `{name}` and runs it"));
        }
        if let Some(name) = self.configured.iter().find(|name| is_written(name)) {
            return Some(format!("the line writes `{name}` and runs what it says"));
        }
        if self.writes_unknown && !(self.run.is_empty() && self.run_as_code.is_empty()) {
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
