//! A command line that was read, and what can be told of it as a whole.

use super::programs::{MAKERS, PLAIN, WRAPPERS, base};

/// Variables whose values some shell or `git` runs.
const HOOKS: &[&str] = &[
    "BASH_ENV",
    "PROMPT_COMMAND",
    "BASH_FUNC_",
    "BASH_CMDS",
    "BASH_ALIASES",
    "GIT_CONFIG_KEY",
    "GIT_CONFIG_VALUE",
    "GIT_CONFIG_PARAMETERS",
];

/// Others, whose names are words that may mean something else unless they are assigned to.
const PROMPTS: &[&str] = &["ENV", "PS0", "PS1", "PS2", "PS4"];

/// Files that shells read when they begin or end.
const GREETINGS: &[&str] = &[
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
    /// Its text without quotes and what joins lines.
    pub(super) bare: String,
    /// It does more than run them: it substitutes, loops, assigns, or writes to files.
    pub(super) is_more: bool,
    /// The files that it runs as scripts, each with the number of the command that does so.
    pub(super) scripts: Vec<(usize, String)>,
    /// The programs that it may run by their paths, each with the number of the command that does so.
    pub(super) paths: Vec<(usize, String)>,
    /// The files that it writes.
    pub(super) written: Vec<String>,
    /// It writes a file of which only the shell knows the name.
    pub(super) writes_somewhere: bool,
    /// It starts a shell that reads files of its own before anything else.
    pub(super) greets: bool,
}

/// One word of a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// This word.
    Plain(String),
    /// Only the shell knows.
    Unclear,
}

impl Line {
    /// Something is run, and only the shell knows what.
    pub(super) fn doubt(&mut self) {
        self.commands.push(vec![Word::Unclear]);
        self.is_more = true;
    }

    /// Whether it runs a file that it writes, or one that may be a pipe by another name.
    pub(super) fn runs_what_it_makes(&self) -> bool {
        let pipes = ["/dev/stdin", "/dev/fd", "/proc/"];
        if !self.scripts.is_empty() && pipes.iter().any(|pipe| self.bare.contains(pipe)) {
            return true;
        }
        let is_named = |at: usize, script: &str| {
            let others = self.commands.iter().enumerate().filter(|(other, _)| {
                !self.scripts.iter().any(|(runs, name)| runs == other && name == script) && *other != at
            });
            let mut words = others.map(|(_, words)| words).filter(|words| {
                let first = words.first().and_then(Word::plain).map(base);
                !first.is_some_and(|first| PLAIN.contains(&first) || first == "chmod")
            });
            words.any(|words| words.iter().filter_map(Word::plain).any(|word| base(word) == script))
        };
        let made = self.made();
        let is_made = |name: &str| made.iter().any(|(_, made)| *made == name);
        // What a program writes itself it does not run as well.
        let by_others =
            |at: usize, name: &str| made.iter().any(|(by, made)| *made == name && *by != Some(at));
        self.paths.iter().any(|(at, path)| by_others(*at, path))
            || (self.greets
                && (self.writes_somewhere || made.iter().any(|(by, name)| is_greeting(*by, name))))
            || (is_changed(&self.bare, "PATH") && self.commands.iter().any(|words| may_run(words, is_made)))
            || self.scripts.iter().any(|(at, name)| self.written.contains(name) || is_named(*at, name))
    }

    /// The files that it writes, or has written by a program that does only that, with the number of that command.
    fn made(&self) -> Vec<(Option<usize>, &str)> {
        let makes =
            |words: &[Word]| words.iter().filter_map(Word::plain).any(|word| MAKERS.contains(&base(word)));
        let makers = self.commands.iter().enumerate().filter(|(_, words)| makes(words));
        let words =
            makers.flat_map(|(at, words)| words.iter().filter_map(move |word| Some((at, word.plain()?))));
        // `of=x` and `--output=x`
        let named = words.map(|(at, word)| (Some(at), base(word.rsplit('=').next().unwrap_or(word))));
        let named = named.filter(|(_, name)| !name.is_empty());
        self.written.iter().map(|name| (None, name.as_str())).chain(named).collect()
    }

    /// Whether these words stand in its text one after the other, whatever else there is.
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

/// Whether a shell may read that file when it begins; into which folder a program puts what it is given, nobody knows.
fn is_greeting(by: Option<usize>, name: &str) -> bool {
    by.is_some() || GREETINGS.contains(&name)
}

/// Whether one of the words may be a program that is run by that name.
fn may_run(words: &[Word], is_it: impl Fn(&str) -> bool) -> bool {
    let mut words = words.iter().filter_map(Word::plain);
    match words.next() {
        Some(first) if MAKERS.contains(&base(first)) => false,
        Some(first) => is_it(first) || (WRAPPERS.contains(&base(first)) && words.any(is_it)),
        None => false,
    }
}

/// Where a word ends that stands by itself; what joins it to others is no letter and no digit.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| (at, at + word.len())).find_map(|(at, end)| {
        let alone = !text[..at].ends_with(is_part) && !text[end..].starts_with(is_part);
        alone.then_some(end)
    })
}

impl Word {
    pub(super) fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(word) => Some(word),
            Self::Unclear => None,
        }
    }
}

/// Whether a text says what `~` stands for.
pub(super) fn moves_home(bare: &str) -> bool {
    ["HOME", "PWD", "OLDPWD"].iter().any(|name| is_changed(bare, name))
}

/// Whether a variable is named in a text other than to be put there: assigned, read into, or unset.
fn is_changed(bare: &str, name: &str) -> bool {
    let mut rest = bare;
    while let Some(end) = find_word(rest, name) {
        let (before, behind) = (&rest[..end - name.len()], rest[end..].trim_start_matches([':', '+']));
        let is_put = before.ends_with('$') || before.ends_with("${");
        if !is_put || (before.ends_with('{') && behind.starts_with('=')) {
            return true;
        }
        rest = &rest[end..];
    }
    false
}

/// Whether a text names a variable that is run.
pub(super) fn names_hook(bare: &str) -> bool {
    let is_assigned = |name: &str| {
        let behind = find_word(bare, name).map(|end| bare[end..].trim_start_matches([':', '+']));
        behind.is_some_and(|behind| behind.starts_with('='))
    };
    HOOKS.iter().any(|name| bare.contains(name)) || PROMPTS.iter().any(|name| is_assigned(name))
}
