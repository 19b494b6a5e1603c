//! The commands that a simple command runs besides its own program.
//!
//! Start at [`analyze`]. Built-ins of the shell, shells, programs that run their words, and programs that never do are
//! tables. Of any other program, nothing is known: its words may be run, so unknown words make the line unresolved.

use super::line::{Word, base};
use super::token::{Scan, Token, is_in, is_name};
use super::variables;

/// The source of a command's input.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Input {
    /// A pipe, a file, or the input of the line.
    #[default]
    Elsewhere,
    /// A text in the line: a here-string (unknown if it has expansions), or a here-document, which the reader follows.
    Text(Option<Option<String>>),
}

const SHELLS: &str = "sh bash rbash dash zsh ksh mksh ash fish csh tcsh yash";

/// Programs that take commands from elsewhere, and built-ins that give programs other names.
const OPAQUE: &str = "su runuser sg newgrp login ssh script unshare nsenter chroot fakeroot setarch linux32 linux64 \
    parallel sem at batch crontab socat tmux screen alias enable history fc run-parts systemd-run expect \
    bind complete compgen coproc watch gdb ex ed m4";

/// Programs and built-ins that never run their words, and have no option that names a program. Of interpreters and `make`,
/// docs/reference/permissions.md says that their own programs are not visible.
const PLAIN: &str = ": true false echo cd pushd popd dirs pwd type exit return break continue shift umask ulimit kill \
    times suspend disown fg bg ls cat head tail wc rm rmdir mkdir touch cp mv ln chmod chown stat file \
    du df diff cmp comm cut paste tr uniq nl tac rev fold fmt column join tee dd sponge basename dirname \
    realpath readlink mktemp grep egrep fgrep sed jq yq tree which truncate shred sync patch od xxd \
    hexdump strings base64 base32 md5sum sha1sum sha256sum sha512sum cksum iconv expand gzip gunzip zcat \
    bzip2 xz zstd seq printenv date sleep yes expr factor uname hostname whoami id groups nproc free \
    uptime ps pgrep pkill killall lsof curl ping host dig clear tput test [ cargo rustfmt make gofmt \
    node tsc eslint prettier jest vitest python python2 python3 pytest ruff black mypy ruby perl php \
    javac redis-cli";

/// Subcommands of git that never run their words.
const PLAIN_GIT: &str = "status log diff show add rm mv commit branch checkout switch restore reset blame tag rev-parse \
    rev-list ls-files ls-tree cat-file describe merge-base stash init merge cherry-pick revert shortlog \
    reflog worktree";

/// Settings of git that run nothing.
const PLAIN_GIT_SETTINGS: &[&str] =
    &["user.", "color.", "advice.", "init.", "safe.", "column.", "commit.", "log."];

/// Programs that run the command behind their options.
struct Wrapper {
    name: &'static str,
    /// Options with a value of their own.
    values: &'static [&'static str],
    /// Number of operands before the command.
    operands: usize,
}

const fn wrapper(name: &'static str, values: &'static [&'static str], operands: usize) -> Wrapper {
    Wrapper { name, values, operands }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("nohup", &[], 0),
    wrapper("setsid", &[], 0),
    wrapper("time", &["-f", "-o", "--format", "--output"], 0),
    wrapper("timeout", &["-k", "-s", "--kill-after", "--signal"], 1),
    wrapper("nice", &["-n", "--adjustment"], 0),
    wrapper("ionice", &["-c", "-n", "--class", "--classdata"], 0),
    wrapper("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    wrapper("taskset", &[], 1),
    wrapper("chrt", &[], 1),
    wrapper("unbuffer", &[], 0),
    wrapper("doas", &["-u", "-C"], 0),
    wrapper("sudo", &["-u", "-g", "-h", "-p", "-C", "-T", "-D", "--user", "--group"], 0),
    wrapper("env", &["-u", "-C", "--unset", "--chdir"], 0),
];

/// Programs that write the files they are given.
const MAKERS: &str = "tee dd cp mv ln install sponge sort split rsync patch curl wget";

/// Finds what a command runs. Returns whether it runs its input as a script.
pub(super) fn analyze(
    scan: &mut Scan,
    words: &[Word],
    tokens: &[Token],
    input: &Input,
    depth: usize,
) -> bool {
    let Some(first) = words.first().and_then(Word::plain) else {
        scan.line.set_unresolved("the program is unknown before the line runs");
        return false;
    };
    if built_in(scan, first, &words[1..], tokens, depth) {
        return false;
    }
    let mut command = Command { scan, input, depth, runs_input: false };
    command.run(words);
    command.runs_input
}

/// Handles built-ins that set variables or evaluate words. Returns whether it was one.
fn built_in(scan: &mut Scan, name: &str, words: &[Word], tokens: &[Token], depth: usize) -> bool {
    let tokens = tokens.get(1..).unwrap_or_default();
    match name {
        "export" | "declare" | "typeset" | "readonly" | "local" => declare(scan, tokens, depth),
        "getopts" => variables::set_named(scan, words.get(1).unwrap_or(&Word::Unclear)),
        "read" | "unset" | "mapfile" | "readarray" | "wait" => named(scan, name, words),
        "printf" => match words.first().map(Word::plain) {
            Some(Some("-v")) => variables::set_named(scan, words.get(1).unwrap_or(&Word::Unclear)),
            Some(Some(format)) if format.starts_with("-v") => scan.line.set_unresolved("`printf -v`"),
            Some(None) => scan.line.set_unresolved("`printf` with an unknown format"),
            _ => {}
        },
        "let" => {
            for word in words {
                match word.plain() {
                    Some(text) => variables::arithmetic(scan, text, depth),
                    None => scan.line.set_unresolved("`let` evaluates an unknown text"),
                }
            }
        }
        "test" | "[" => {
            let end = tokens.len() - usize::from(tokens.last().is_some_and(|last| last.text == "]"));
            variables::condition(scan, &tokens[..end], false);
        }
        "set" => set(scan, words),
        "shopt" => {
            let harmless = ["-s", "-u", "-q", "nullglob", "globstar", "dotglob", "failglob", "nocaseglob"];
            if !words.iter().all(|word| word.plain().is_some_and(|word| harmless.contains(&word))) {
                scan.line.set_unresolved("`shopt` changes how the line is read");
            }
        }
        "hash" | "jobs" => {
            if words.iter().any(|word| word.plain().is_none_or(|word| word.starts_with('-'))) {
                scan.line.set_unresolved(format!("`{name}` with options"));
            }
        }
        "trap" => match words.iter().find(|word| word.plain() != Some("--")).map(Word::plain) {
            Some(Some(line)) => scan.script(line, depth + 1),
            Some(None) => scan.line.set_unresolved("`trap` runs an unknown text"),
            None => {}
        },
        _ => return false,
    }
    true
}

/// Handles `export NAME=VALUE` and the like.
fn declare(scan: &mut Scan, tokens: &[Token], depth: usize) {
    scan.line.is_more = true;
    for token in tokens {
        // Quotes around the name change nothing here.
        let literal = if token.is_literal() { token.text.split_once('=') } else { None };
        if let Some((name, value)) = literal.or_else(|| token.assignment()) {
            let name = name.strip_suffix('+').unwrap_or(name);
            variables::assign(scan, name, value, token, depth);
        } else if !token.is_literal() {
            scan.line.set_unresolved("a variable without a fixed name is set");
        } else if token.text.starts_with(['-', '+']) && token.text.contains(['i', 'n']) {
            scan.line.set_unresolved("an attribute that evaluates values");
        }
    }
}

/// Handles built-ins whose words are names of variables.
fn named(scan: &mut Scan, name: &str, words: &[Word]) {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.plain() {
            Some(option) if option.starts_with('-') && option.len() > 1 => {
                if option.contains(['C', 'c']) && matches!(name, "mapfile" | "readarray") {
                    scan.line.set_unresolved(format!("`{name}` runs a command"));
                    for text in words.clone().filter_map(Word::plain) {
                        scan.script(text, 8);
                    }
                }
                // Options of `read` with a value.
                if name == "read" && option.ends_with(['d', 'i', 'n', 'N', 'p', 't', 'u']) {
                    words.next();
                }
            }
            Some(number)
                if matches!(name, "wait") && number.starts_with(|c: char| c.is_ascii_digit() || c == '%') => {
            }
            None if name == "wait" => {}
            _ => variables::set_named(scan, word),
        }
    }
}

/// Handles `set`, some of whose options change how the line is read.
fn set(scan: &mut Scan, words: &[Word]) {
    let mut is_name = false;
    for word in words {
        match word.plain() {
            Some("--" | "-") => return,
            Some(name) if is_name => {
                let harmless = [
                    "pipefail",
                    "errexit",
                    "nounset",
                    "xtrace",
                    "noglob",
                    "noclobber",
                    "verbose",
                    "errtrace",
                ];
                if !harmless.contains(&name) {
                    scan.line.set_unresolved("`set` changes how the line is read");
                }
                is_name = false;
            }
            Some(letters) if letters.starts_with(['-', '+']) => {
                if !letters[1..].chars().all(|c| "euxvfCEo".contains(c)) {
                    scan.line.set_unresolved("`set` changes how the line is read");
                }
                is_name = letters.ends_with('o');
            }
            Some(_) => return,
            None => return scan.line.set_unresolved("`set` with unknown options"),
        }
    }
}

/// A command, or one that another command runs.
struct Command<'s, 'i> {
    scan: &'s mut Scan,
    input: &'i Input,
    depth: usize,
    runs_input: bool,
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
        if is_in(MAKERS, name) {
            self.makes(rest);
        }
        if is_in(SHELLS, name) {
            return self.shell(name, rest);
        }
        if is_in(OPAQUE, name) {
            self.words_as_scripts(rest);
            return self.unresolved(format!("`{name}` runs commands that are not in the line"));
        }
        match name {
            "eval" => self.eval(rest),
            "." | "source" => self.source(rest),
            "exec" => self.exec(rest),
            "command" | "builtin" => match rest.first().and_then(Word::plain) {
                Some("-v" | "-V") => {}
                Some("-p" | "--") => self.run_inner(&rest[1..]),
                _ => self.run_inner(rest),
            },
            "xargs" => self.xargs(rest),
            "find" => self.find(rest),
            "flock" => {
                self.words_as_scripts(rest);
                self.any(name, rest);
            }
            "git" => self.git(rest),
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(rest),
            _ if is_in(PLAIN, name) => {}
            _ => match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
                Some(wrapper) => self.wrapped(wrapper, rest),
                None => self.any(name, rest),
            },
        }
    }

    /// Handles the command behind another one, which may be a built-in.
    fn run_inner(&mut self, words: &[Word]) {
        if let Some(name) = words.first().and_then(Word::plain)
            && [
                "export",
                "declare",
                "typeset",
                "readonly",
                "local",
                "read",
                "printf",
                "let",
                "trap",
                "set",
                "shopt",
                "test",
                "[",
                "mapfile",
                "readarray",
            ]
            .contains(&name)
            && words.len() > 1
            && name != "printf"
        {
            self.words_as_scripts(&words[1..]);
            return self.unresolved(format!("`{name}` behind another command"));
        }
        self.run(words);
    }

    /// Handles a program that is not known. Any of its words may be a command.
    fn any(&mut self, name: &str, words: &[Word]) {
        for (at, word) in words.iter().enumerate() {
            let Some(text) = word.plain() else { continue };
            if text.contains('/') {
                self.scan.facts.run.push(base(text).to_owned());
            }
            let inner = base(text);
            if is_in(SHELLS, inner) || inner == "xargs" || inner == "env" || inner == "eval" {
                self.run(&words[at..]);
            }
        }
        if words.iter().any(|word| word.plain().is_none()) {
            self.unresolved(format!("`{name}` may run its words, which are not all known"));
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

    fn makes(&mut self, words: &[Word]) {
        for word in words {
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

    /// Handles a shell and its words.
    fn shell(&mut self, name: &str, words: &[Word]) {
        let (mut takes_line, mut reads_input) = (false, false);
        let mut rest = words.iter();
        let mut operand = None;
        let mut reads_startup = matches!(name, "zsh" | "fish" | "csh" | "tcsh");
        while let Some(word) = rest.next() {
            match word.plain() {
                None => return self.unresolved("a shell with unknown words"),
                Some(";" | "+") => break, // of `find`
                Some("-" | "--") => {
                    operand = rest.next();
                    break;
                }
                Some("--rcfile" | "--init-file" | "-rcfile" | "-init-file") => {
                    reads_startup = true;
                    match rest.next().and_then(Word::plain) {
                        Some(file) if !is_pipe(file) => self.scan.facts.run.push(base(file).to_owned()),
                        _ => self.unresolved("a shell reads an unknown file"),
                    }
                }
                Some(long) if long.starts_with("--") => {
                    takes_line |= long.starts_with("--command");
                    reads_startup |= long == "--login";
                    if let Some((_, line)) = long.split_once('=') {
                        return self.script(line);
                    }
                }
                Some(options) if options.starts_with(['-', '+']) => {
                    takes_line |= options.contains('c');
                    reads_input |= options.contains('s');
                    reads_startup |= options.contains(['i', 'l']);
                    for _ in options.matches(['o', 'O']) {
                        if rest.next().and_then(Word::plain) == Some("extglob") && takes_line {
                            reads_startup = true;
                        }
                    }
                }
                Some(_) => {
                    operand = Some(word);
                    break;
                }
            }
        }
        self.scan.facts.reads_startup |= reads_startup;
        if words.iter().filter_map(Word::plain).any(is_pipe) {
            self.unresolved("a shell reads commands from a pipe");
        }
        match operand.map(Word::plain) {
            Some(None) => self.unresolved("a shell with an unknown script"),
            Some(Some(line)) if takes_line => {
                if words.iter().filter_map(Word::plain).any(|word| word == "extglob") && line.contains('(') {
                    self.unresolved("patterns with brackets");
                }
                self.script(line);
            }
            Some(Some(file)) if !reads_input => self.scan.facts.run.push(base(file).to_owned()),
            _ => match self.input.clone() {
                Input::Elsewhere => self.unresolved("a shell reads commands from its input"),
                Input::Text(Some(Some(text))) => self.script(&text),
                Input::Text(Some(None)) => self.unresolved("a shell reads an unknown text"),
                Input::Text(None) => self.runs_input = true,
            },
        }
    }

    fn eval(&mut self, words: &[Word]) {
        let text: Vec<&str> = words.iter().filter_map(Word::plain).collect();
        if text.len() < words.len() {
            self.unresolved("`eval` with unknown words");
        }
        self.script(&text.join(" "));
    }

    fn source(&mut self, words: &[Word]) {
        match words.iter().find(|word| word.plain() != Some("--")).map(Word::plain) {
            Some(Some(file)) if !is_pipe(file) => self.scan.facts.run.push(base(file).to_owned()),
            _ => self.unresolved("the shell reads commands from an unknown file"),
        }
    }

    fn exec(&mut self, words: &[Word]) {
        match words.first().and_then(Word::plain) {
            Some(option) if option.starts_with('-') && option != "--" => {
                self.any("exec", &words[1..]);
                self.unresolved("`exec` with options");
            }
            Some("--") => self.run(&words[1..]),
            _ => self.run(words),
        }
    }

    fn wrapped(&mut self, wrapper: &Wrapper, words: &[Word]) {
        let mut operands = wrapper.operands;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let Some(text) = word.plain() else {
                return self.unresolved(format!("`{}` runs an unknown program", wrapper.name));
            };
            at += 1;
            if text == "--" {
                break;
            }
            if text.starts_with('-') && text.len() > 1 {
                if self.opens_shell(wrapper.name, text, &words[at..]) {
                    return;
                }
                // An option with a value of its own, or with the value in the same word.
                at += usize::from(wrapper.values.contains(&text));
                let name = text.split('=').next().unwrap_or(text);
                let is_number = text[1..].chars().all(|c| c.is_ascii_digit());
                let is_short = text.len() == 2
                    || wrapper.values.iter().any(|value| value.len() == 2 && text.starts_with(value));
                let is_known =
                    is_number || is_short || text.starts_with("--") || wrapper.values.contains(&name);
                if !is_known && !text[1..].chars().all(|c| c.is_ascii_lowercase()) {
                    return self.any(wrapper.name, words);
                }
            } else if matches!(wrapper.name, "env" | "sudo" | "doas") && is_assignment(text) {
                let (name, value) = text.split_once('=').expect("an assignment has one");
                let token = Token::from_text(text);
                variables::assign(self.scan, name, value, &token, self.depth);
            } else if operands > 0 {
                operands -= 1;
            } else {
                at -= 1;
                break;
            }
        }
        self.run_inner(&words[at.min(words.len())..]);
    }

    /// Handles options that read a text as a command, or start a shell.
    fn opens_shell(&mut self, name: &str, option: &str, rest: &[Word]) -> bool {
        let has = |letters: &[char]| !option.starts_with("--") && option.contains(letters);
        let opens = match name {
            "env" => has(&['S']) || option.starts_with("--sp"),
            "sudo" | "doas" => has(&['s', 'i']) || option.starts_with("--sh") || option.starts_with("--lo"),
            _ => false,
        };
        if opens {
            let text = option.split_once('=').map(|(_, text)| text.to_owned());
            let text = text.or_else(|| option.split_once('S').map(|(_, text)| text.to_owned()));
            self.script(&text.unwrap_or_default());
            self.words_as_scripts(rest);
            self.any(name, rest);
            self.unresolved(format!("`{name} {option}` reads a text as a command"));
        }
        opens
    }

    /// Handles `xargs`, which adds unknown words to a command.
    fn xargs(&mut self, words: &[Word]) {
        let mut places = vec!["{}".to_owned()];
        let mut at = 0;
        while let Some(option) = words.get(at).and_then(Word::plain).filter(|word| word.starts_with('-')) {
            at += 1;
            if option == "--" {
                break;
            }
            if let Some(long) = option.strip_prefix("--") {
                match long.split_once('=') {
                    Some((_, value)) => places.push(value.to_owned()),
                    None if [
                        "arg-file",
                        "delimiter",
                        "max-args",
                        "max-chars",
                        "max-procs",
                        "process-slot-var",
                    ]
                    .contains(&long) =>
                    {
                        at += 1
                    }
                    None => {}
                }
                continue;
            }
            let Some((place, letter)) = option.char_indices().find(|(_, c)| "adEILnPsJRSeil".contains(*c))
            else {
                continue;
            };
            let value = &option[place + letter.len_utf8()..];
            let has_next = value.is_empty() && !"eil".contains(letter);
            if "IJi".contains(letter) {
                let next = words.get(at).and_then(Word::plain).unwrap_or_default();
                places.push(if has_next { next } else { value }.to_owned());
            }
            at += usize::from(has_next);
        }
        let mut command: Vec<Word> = words[at.min(words.len())..].to_vec();
        for word in &mut command {
            if word
                .plain()
                .is_some_and(|text| places.iter().any(|place| !place.is_empty() && text.contains(place)))
            {
                *word = Word::Unclear;
            }
        }
        if command.is_empty() {
            return;
        }
        command.push(Word::Unclear);
        self.scan.line.commands.push(command.clone());
        self.run_inner(&command);
    }

    /// Handles `find`, which runs the words behind `-exec`.
    fn find(&mut self, words: &[Word]) {
        let unknown = words.iter().filter(|word| word.plain().is_none()).count();
        if unknown > 1 {
            self.unresolved("`find` with several unknown words");
        }
        for (at, word) in words.iter().enumerate() {
            if matches!(word.plain(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
                let command =
                    words[at + 1..].iter().take_while(|word| !matches!(word.plain(), Some(";" | "+")));
                let command: Vec<Word> = command
                    .map(|word| match word.plain() {
                        Some(text) if text.contains("{}") => Word::Unclear,
                        _ => word.clone(),
                    })
                    .collect();
                self.scan.line.commands.push(command.clone());
                self.run_inner(&command);
            }
        }
    }

    /// Handles `git`, whose settings can name programs.
    fn git(&mut self, words: &[Word]) {
        let mut at = 0;
        while let Some(option) = words.get(at).and_then(Word::plain).filter(|word| word.starts_with('-')) {
            at += 1;
            match option {
                "-c" => {
                    let setting = words.get(at).and_then(Word::plain).unwrap_or_default();
                    if !PLAIN_GIT_SETTINGS.iter().any(|plain| setting.starts_with(plain)) {
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
        let subcommand = words.get(at).map(Word::plain);
        match subcommand {
            Some(None) => self.unresolved("an unknown command of git"),
            Some(Some(name)) if is_in(PLAIN_GIT, name) => {}
            _ => self.any("git", words.get(at..).unwrap_or_default()),
        }
    }

    /// Handles `awk`, whose program can run commands.
    fn awk(&mut self, words: &[Word]) {
        let runs = |text: &str| {
            text.contains("system")
                || text.contains('@')
                || text.replace("||", "").contains('|')
                || text.contains("getline")
        };
        if words.iter().filter_map(Word::plain).any(runs) {
            self.words_as_scripts(words);
            self.unresolved("a program of `awk` that may run commands");
        }
    }
}

/// Returns whether a word has the form `NAME=value`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Returns whether a path may lead to an open file: `/dev/stdin`, `/dev/fd/3`, `/proc/self/fd/0`, or a part of them.
fn is_pipe(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let last = base(path);
    parts.any(|part| matches!(part, "dev" | "proc" | "fd" | "stdin" | "tty"))
        || (!last.is_empty() && last.chars().all(|c| c.is_ascii_digit()))
}
