//! The commands that a simple command runs besides its own program.
//!
//! Start at [`analyze`]. Programs are in tables by what they do with their words: [`table`] lists those that take them as
//! data, [`code`] the interpreters, [`wrappers`] the ones that run another command. Of any other program nothing is known:
//! its words may be run, so unknown words, and words that would hide a command from a reader, make the line unresolved.

mod builtins;
mod code;
mod sed;
mod shells;
mod table;
mod wrappers;

use super::line::{Content, EXPANSION, ScriptKind, UnknownWord, Word, base};
use super::token::{POSITIONAL, Scan, Token, is_in};

pub(super) use code::check as check_code;
pub(super) use table::{copies_input, output};

/// The source of a command's input.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Input {
    /// A pipe, a file, or the input of the line.
    #[default]
    Elsewhere,
    /// Names of files from a program that lists them.
    Names,
    /// A text in the line: a here-string (unknown if it has expansions), or a here-document, which the reader follows.
    Text(Option<Option<String>>),
}

/// Finds what a command runs. Returns the kind of script that it takes its input for.
pub(super) fn analyze(
    scan: &mut Scan,
    words: &[Word],
    tokens: &[Token],
    input: &Input,
    depth: usize,
) -> Option<ScriptKind> {
    let Some(first) = words.first().and_then(Word::plain) else {
        scan.line.set_unresolved("the program is unknown before the line runs");
        return None;
    };
    let prefix = builtins::prefix(words);
    let inner = words.get(prefix).and_then(Word::plain).unwrap_or(first);
    let rest = words.get(prefix + 1..).unwrap_or_default();
    if builtins::built_in(scan, inner, rest, tokens.get(prefix..).unwrap_or_default(), depth) {
        return None;
    }
    let mut command = Command { scan, input, depth, runs_input: None };
    command.run(words);
    command.runs_input
}

/// A command, or one that another command runs.
struct Command<'s, 'i> {
    scan: &'s mut Scan,
    input: &'i Input,
    depth: usize,
    runs_input: Option<ScriptKind>,
}

impl Command<'_, '_> {
    fn unresolved(&mut self, reason: impl Into<String>) {
        self.scan.line.set_unresolved(reason);
    }

    fn script(&mut self, text: &str) {
        self.scan.script(text, self.depth + 1);
    }

    /// Handles a command from its program on.
    fn run(&mut self, words: &[Word]) {
        let Some(first) = words.first() else { return };
        let Some(program) = first.plain() else {
            return self.unresolved("the program is unknown before the line runs");
        };
        if program.contains('=') {
            return self.unresolved("an assignment that is none");
        }
        let (name, rest) = (base(program), &words[1..]);
        if program.contains('/') {
            self.scan.facts.run.push(name.to_owned());
        } else {
            self.scan.facts.named.push(name.to_owned());
        }
        if is_in(table::MAKERS, name) {
            self.makes(rest);
        }
        if is_in(table::SHELLS, name) {
            return self.shell(name, rest);
        }
        if is_in(table::OPAQUE, name)
            && !matches!(rest, [Word::Plain(word)] if is_in("--version --help", word))
        {
            self.words_as_scripts(rest);
            return self.unresolved(format!("`{name}` runs commands that are not in the line"));
        }
        match name {
            "eval" => self.eval(rest),
            "." | "source" => self.source(rest),
            "exec" => self.exec(rest),
            "command" | "builtin" => match rest.first().and_then(Word::plain) {
                Some("-v" | "-V") => {}
                _ => self.run_inner(&rest[builtins::options(rest)..]),
            },
            "xargs" => self.xargs(rest),
            "find" => self.find(rest),
            "git" => self.git(rest),
            "flock" => {
                self.words_as_scripts(rest);
                self.any(name, rest);
            }
            _ => {
                if let Some(runners) = table::runners(name) {
                    self.data(name, runners, rest);
                } else if let Some(language) = code::language(name) {
                    self.code(language, rest);
                } else if let Some(wrapper) = wrappers::named(name) {
                    self.wrapped(wrapper, rest);
                } else {
                    self.any(name, rest);
                }
            }
        }
        self.check_config(name);
    }

    /// Handles the command behind another one, which may be a built-in.
    fn run_inner(&mut self, words: &[Word]) {
        if let Some(name) = words.first().and_then(Word::plain)
            && is_in(builtins::EVALUATING, name)
            && words.len() > 1
        {
            self.words_as_scripts(&words[1..]);
            return self.unresolved(format!("`{name}` behind another command"));
        }
        self.run(words);
    }

    /// Handles a program that takes its words as data, unless one of them is in `runners`.
    fn data(&mut self, name: &str, runners: &str, words: &[Word]) {
        if runners.is_empty() {
            return;
        }
        if let Some(runner) = words.iter().find_map(|word| table::opaque_runner(runners, word)) {
            return self.unresolved(format!("`{name}` with `{runner}` may run a program"));
        }
        let mut runner_words = words.iter().filter(|word| table::is_runner(runners, word)).peekable();
        if runner_words.peek().is_some() {
            if runner_words.any(|word| word.plain().is_none()) {
                self.unresolved(format!("`{name}` runs an unknown program"));
            }
            // An allowed command may not run another one.
            self.scan.line.is_more = true;
            return self.any(name, words);
        }
        for word in words {
            if let Word::Unknown(word) = word {
                self.operand(name, word);
            }
        }
    }

    /// Handles an unknown word that must not become an option, of a program some of whose options run commands.
    fn operand(&mut self, name: &str, word: &UnknownWord) {
        let first = word.text.chars().next();
        let is_fixed = !matches!(first, None | Some('-' | '{' | EXPANSION));
        let is_value =
            first == Some('-') && word.text.split(EXPANSION).next().is_some_and(|text| text.contains('='));
        if word.is_one && (is_fixed || is_value) {
            return;
        }
        if word.is_other || first == Some('{') {
            return self.unresolved(format!("`{name}` may run its words, which are not all known"));
        }
        for variable in &word.variables {
            self.scan.facts.need(variable, Content::Names);
        }
    }

    /// Handles a program that is not known. Any of its words may be a command.
    fn any(&mut self, name: &str, words: &[Word]) {
        for (at, word) in words.iter().enumerate() {
            let Some(text) = word.plain() else { continue };
            if text.contains('/') {
                self.scan.facts.run.push(base(text).to_owned());
            }
            let inner = base(text);
            let is_interpreter = code::language(inner).is_some() && words.len() > at + 1;
            if is_in(table::RUN_ANYWHERE, inner) || is_in(table::SHELLS, inner) || is_interpreter {
                self.run(&words[at..]);
            }
            // `--command=…`: the value may be the command.
            let values = text.match_indices('=').map(|(at, _)| &text[at + 1..]);
            for value in std::iter::once(text).chain(values).filter(|value| table::may_hide(value)) {
                self.script(value);
            }
            let is_behind_eval = at > 0 && is_in("-e --eval eval", words[at - 1].text());
            if is_behind_eval && let Some(reason) = code::program(text) {
                self.unresolved(reason);
            }
            if text.starts_with("ext::") {
                self.unresolved("an address that names a command");
            }
            if text == "-" || (text.contains('/') && is_pipe(text)) {
                self.unresolved(format!("`{name}` may read commands from its input"));
            }
        }
        if let Input::Text(Some(Some(text))) = self.input
            && table::may_hide(text)
        {
            self.script(text);
        }
        for word in words {
            if let Word::Unknown(word) = word {
                self.unknown_word(name, word);
            }
        }
    }

    /// Handles an unknown word that a program may run.
    fn unknown_word(&mut self, name: &str, word: &UnknownWord) {
        let is_set_by_system =
            word.variables.first().is_some_and(|name| is_in(table::SYSTEM_VARIABLES, name));
        let is_begun = !word.text.starts_with(EXPANSION) || is_set_by_system;
        // Without `set --` and functions, these are empty.
        let is_positional =
            self.depth == 0 && word.variables == [POSITIONAL] && word.text == EXPANSION.to_string();
        if is_positional && !word.is_other {
            return self.scan.facts.need(POSITIONAL, Content::Simple);
        }
        if word.is_other || !word.is_one || !is_begun || word.text.starts_with('{') {
            return self.unresolved(format!("`{name}` may run its words, which are not all known"));
        }
        for variable in &word.variables {
            self.scan.facts.need(variable, Content::Simple);
        }
    }

    /// Reads literal words as command lines, so that what they name is found.
    fn words_as_scripts(&mut self, words: &[Word]) {
        for text in
            words.iter().filter_map(Word::plain).filter(|text| text.contains([' ', ';', '$', '`', '|']))
        {
            self.script(text);
        }
    }

    /// Notes the files that a program writes.
    fn makes(&mut self, words: &[Word]) {
        let mut is_operand = false;
        for word in words {
            let text = word.text();
            if (is_operand && text.starts_with('-')) || text.contains("/-") {
                self.unresolved("the line writes a file whose name looks like an option");
            }
            is_operand |= text == "--";
            match word.plain() {
                // `of=x` and `--output=x`
                Some(text) => {
                    let name = base(text.rsplit('=').next().unwrap_or(text));
                    self.scan.facts.made.extend((!name.is_empty()).then(|| name.to_owned()));
                }
                None => self.scan.facts.writes_unknown = true,
            }
        }
    }

    /// Notes the files that a program takes its commands from without a word about them.
    fn check_config(&mut self, name: &str) {
        let files = table::CONFIGURED.iter().filter(|(programs, _)| is_in(programs, name));
        let files = files.flat_map(|(_, files)| files.split_ascii_whitespace());
        self.scan.facts.configured.extend(files.map(str::to_owned));
    }

    /// Handles `git`, whose settings can name programs.
    fn git(&mut self, words: &[Word]) {
        let mut at = 0;
        while let Some(option) = words.get(at).and_then(Word::plain).filter(|word| word.starts_with('-')) {
            at += 1;
            match option {
                "-c" => {
                    let setting = words.get(at).map(Word::text).unwrap_or_default();
                    if !table::PLAIN_GIT_SETTINGS.iter().any(|plain| setting.starts_with(plain)) {
                        self.unresolved("a setting of git that may run a program");
                    }
                    at += 1;
                }
                "-C" | "--git-dir" | "--work-tree" | "--namespace" => at += 1,
                "--no-pager" | "-P" | "-p" | "--paginate" | "--version" | "--help" | "--bare" => {}
                long if long.starts_with("--git-dir=") || long.starts_with("--work-tree=") => {}
                _ => self.unresolved("an option of git that may run a program"),
            }
        }
        let rest = words.get(at + 1..).unwrap_or_default();
        // `--output=x` and `-o x` write a file.
        for pair in rest.windows(2).filter(|pair| is_in("-o --output", pair[0].text())) {
            self.scan.facts.mention(base(pair[1].text()));
        }
        for file in rest.iter().filter_map(|word| word.text().strip_prefix("--output=")) {
            self.scan.facts.mention(base(file));
        }
        if words.get(at).and_then(Word::plain) == Some("config") {
            self.git_config(rest);
        }
        match words.get(at).map(Word::plain) {
            None => {}
            Some(None) => self.unresolved("an unknown command of git"),
            Some(Some(name)) => match table::git_runners(name) {
                Some(runners) => self.data("git", runners, rest),
                None => self.any("git", &words[at..]),
            },
        }
    }

    /// Handles `git config`, which may set a program.
    fn git_config(&mut self, words: &[Word]) {
        let is_reading =
            |word: &Word| word.text().starts_with("--get") || matches!(word.text(), "-l" | "--list");
        let is_plain =
            |word: &Word| table::PLAIN_GIT_SETTINGS.iter().any(|plain| word.text().starts_with(plain));
        let mut operands = words.iter().filter(|word| !word.text().starts_with('-'));
        let is_first_plain = operands.next().is_none_or(is_plain);
        if !is_first_plain && !words.iter().any(is_reading) && operands.next().is_some() {
            self.unresolved("a setting of git that may run a program");
        }
    }
}

/// Returns whether a path may lead to an open file: `/dev/stdin`, `/dev/fd/3`, `/proc/self/fd/0`, or a part of them.
fn is_pipe(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let last = base(path);
    parts.any(|part| matches!(part, "dev" | "proc" | "fd" | "stdin" | "tty"))
        || (!last.is_empty() && last.chars().all(|c| c.is_ascii_digit()))
}
