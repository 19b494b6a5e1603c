//! Which programs run others, and which of their words are commands.

use super::line::Word;

/// Shells.
const SHELLS: &[&str] =
    &["sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "yash"];

/// Others that read their words as a command line.
const READERS: &[&str] = &["eval", "su", "ssh", "watch", "script"];

/// Others that take some of their words for commands, or for what substitutes.
const EVALUATE: &[&str] = &[
    "trap",
    "alias",
    "let",
    "mapfile",
    "readarray",
    "complete",
    "compgen",
    "bind",
    "env",
    "flock",
    "coproc",
    "runuser",
    "sg",
];

/// Programs that start a shell of their own or take commands from where nobody looks, and what gives programs and
/// built-ins other names.
const OPAQUE: &[&str] = &[
    "su",
    "runuser",
    "sg",
    "newgrp",
    "login",
    "ssh",
    "script",
    "unshare",
    "nsenter",
    "chroot",
    "fakeroot",
    "setarch",
    "linux32",
    "linux64",
    "parallel",
    "sem",
    "at",
    "batch",
    "crontab",
    "socat",
    "tmux",
    "screen",
    "alias",
    "enable",
    "history",
    "fc",
    "run-parts",
    "systemd-run",
    "expect",
];

/// Programs and options that run the program behind them.
pub(super) const WRAPPERS: &[&str] = &[
    "env",
    "command",
    "exec",
    "builtin",
    "nohup",
    "sudo",
    "doas",
    "timeout",
    "nice",
    "ionice",
    "setsid",
    "stdbuf",
    "xargs",
    "parallel",
    "chroot",
    "unshare",
    "flock",
    "strace",
    "chrt",
    "taskset",
    "busybox",
    "toybox",
    "eval",
    "time",
    "jobs",
    "setpriv",
    "prlimit",
    "choom",
    "uclampset",
    "numactl",
    "systemd-run",
    "run-parts",
    "ssh-agent",
    "dbus-run-session",
    "ltrace",
    "catchsegv",
    "gdb",
    "valgrind",
    "perf",
    "pkexec",
    "run0",
    "bwrap",
    "firejail",
    "proot",
    "unbuffer",
    "entr",
    "faketime",
    "eatmydata",
    "cpulimit",
    "ld.so",
    "-exec",
    "-execdir",
    "-ok",
    "-okdir",
];

/// Those of them that are told something else before the program.
const TOLD: &[&str] = &["timeout", "taskset", "chrt", "flock", "faketime"];

/// Programs that put what they are given into the files that they name.
pub(super) const MAKERS: &[&str] =
    &["tee", "dd", "cp", "mv", "ln", "install", "sponge", "sort", "split", "rsync", "patch", "curl", "wget"];

/// Those that put words of their own among those of the program.
const FEEDERS: &[&str] = &["xargs", "parallel", "-exec", "-execdir", "-ok", "-okdir"];

/// Programs that only name, show or look for their words.
pub(super) const PLAIN: &[&str] = &[
    "echo", "printf", "grep", "egrep", "fgrep", "ls", "cat", "cd", "which", "type", "head", "tail", "test",
    "[", "rm", "mkdir", "touch", "wc", "diff", "stat", "file", "cargo", "for", "case", "select",
];

/// What makes more of a word than the letters it has, where somebody reads it as a command.
const SIGNS: &[char] =
    &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', '{', '$', '`', '\'', '"', '\\', '*', '?', '['];

/// What a simple command runs besides its own program.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Words that are command lines.
    pub(super) lines: Vec<String>,
    /// Files that a shell reads commands from, without their folders.
    pub(super) scripts: Vec<String>,
    /// Programs that may be run by their paths, without their folders.
    pub(super) paths: Vec<String>,
    /// It is a shell that reads files of its own first.
    pub(super) greets: bool,
    /// Something is run, and only the shell knows what.
    pub(super) is_unclear: bool,
}

/// Looks at a command. `has_text` says that its input is a text which is looked into anyway.
pub(super) fn find(words: &[Word], has_text: bool) -> Found {
    let words = &filled_in(words);
    let mut found = Found { is_unclear: is_unclear_behind_wrappers(words), ..Found::default() };
    found.paths = paths(words);
    let is_fed = words.iter().any(|word| FEEDERS.contains(&name(word)));
    let has_text = has_text && !is_fed;
    if only_names(words) {
        return found;
    }
    for (at, word) in words.iter().enumerate() {
        let (program, behind) = (name(word), &words[at + 1..]);
        let is_shell = SHELLS.contains(&program);
        if is_shell || READERS.contains(&program) || EVALUATE.contains(&program) {
            found.read_words(&words[1..], program);
        }
        if is_shell {
            found.shell(behind, has_text);
            found.greets |= greets(program, &words[..at], behind);
        }
        // `eval git push` puts its words together and reads them again.
        if program == "eval" {
            found.lines.push(behind.iter().filter_map(Word::plain).collect::<Vec<_>>().join(" "));
        }
        let may_be_run = at == 0 || words[..at].iter().any(is_wrapper);
        if may_be_run && is_opaque(program, behind) {
            found.is_unclear = true;
        }
        let is_built_in =
            words[..at].iter().all(|word| matches!(name(word), "command" | "builtin" | "-p" | "--"));
        if is_built_in && matches!(word.plain(), Some("." | "source")) {
            found.source(behind);
        }
    }
    found
}

impl Found {
    /// Words that somebody may read as lines.
    fn read_words(&mut self, words: &[Word], program: &str) {
        for word in words {
            match word {
                Word::Plain(line) if line.contains(SIGNS) => {
                    // `--command=LINE`
                    let value = line.strip_prefix("--").and_then(|option| option.split_once('='));
                    self.lines.push(value.map_or(line.as_str(), |(_, value)| value).to_owned());
                }
                // `env` is judged as what it wraps, and `flock` names a file before.
                Word::Unclear if !matches!(program, "env" | "flock") => self.is_unclear = true,
                _ => {}
            }
        }
    }

    /// A shell with these words behind it.
    fn shell(&mut self, behind: &[Word], has_text: bool) {
        let is_named = |word: &&[Word]| word[0].plain().is_some_and(|option| READ_FIRST.contains(&option));
        let first = behind.windows(2).filter(is_named).filter_map(|pair| pair[1].plain());
        self.scripts.extend(first.map(|file| base(file).to_owned()));
        match script(behind) {
            Script::Given => {}
            Script::File(file) if is_pipe(file) => self.is_unclear = true,
            Script::File(file) => self.scripts.push(base(file).to_owned()),
            Script::Input => self.is_unclear |= !has_text,
        }
        self.is_unclear |= behind.iter().filter_map(Word::plain).any(is_pipe);
    }

    /// `.` with these words behind it.
    fn source(&mut self, behind: &[Word]) {
        for word in behind {
            match word.plain() {
                Some(file) if !is_pipe(file) => self.scripts.push(base(file).to_owned()),
                _ => self.is_unclear = true,
            }
        }
    }
}

/// Options of a shell that name a file which it reads first.
const READ_FIRST: &[&str] = &["--rcfile", "--init-file", "-rcfile", "-init-file"];

/// The words that may be programs by their paths: the first one, and whatever stands behind one that runs others.
fn paths(words: &[Word]) -> Vec<String> {
    let runs_others =
        |word: &Word| is_wrapper(word) || EVALUATE.contains(&name(word)) || READERS.contains(&name(word));
    let from = words.iter().position(runs_others).map_or(words.len(), |at| at + 1);
    let may_be_run = words.iter().take(1).chain(words.iter().skip(from.max(1)));
    let paths = may_be_run.filter_map(Word::plain).filter(|word| word.contains('/'));
    paths.map(|path| base(path).to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Whether a shell with these words around it reads files of its own first: one that somebody talks to, one that begins
/// a session, and those that always do.
fn greets(program: &str, before: &[Word], behind: &[Word]) -> bool {
    let options = |words: &[Word], letters: &[char]| {
        let mut options = words.iter().filter_map(Word::plain).filter(|word| word.starts_with('-'));
        options.any(|option| option.contains(letters))
    };
    let is_renamed = before.iter().any(|word| name(word) == "exec") && options(before, &['l', 'a']);
    matches!(program, "zsh" | "fish" | "csh" | "tcsh") || is_renamed || options(behind, &['i', 'l'])
}

/// Where a shell has its commands from.
enum Script<'w> {
    /// Behind `-c`.
    Given,
    /// A file.
    File(&'w str),
    /// Its input, or nobody knows.
    Input,
}

/// Reads a shell's options: some have a value, `-c` says that a line follows, and `-s` that none does.
fn script(behind: &[Word]) -> Script<'_> {
    let (mut is_line, mut is_input) = (false, false);
    let mut words = behind.iter();
    let mut operand = None;
    while let Some(word) = words.next() {
        match word.plain() {
            None => return Script::Input,
            Some(";" | "+") => break, // of `find`
            Some("-" | "--") => {
                operand = words.next().and_then(Word::plain);
                break;
            }
            Some(option) if READ_FIRST.contains(&option) => drop(words.next()),
            Some("--command") => is_line = true,
            Some(long) if long.starts_with("--") => is_line |= long.starts_with("--command="),
            Some(options) if options.starts_with(['-', '+']) => {
                is_line |= options.contains('c');
                is_input |= options.contains('s');
                for _ in options.matches(['o', 'O']) {
                    words.next();
                }
            }
            Some(word) => {
                operand = Some(word);
                break;
            }
        }
    }
    match operand {
        Some(_) if is_line => Script::Given,
        Some(file) if !is_input => Script::File(file),
        _ => Script::Input,
    }
}

/// Whether a path may lead to what a program has open: `/dev/stdin`, `/dev/fd/3`, `/proc/self/fd/0`, and what they are
/// called by somebody who stands in such a folder.
fn is_pipe(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let last = base(path);
    parts.any(|part| matches!(part, "dev" | "proc" | "fd" | "stdin" | "tty"))
        || (!last.is_empty() && last.chars().all(|c| c.is_ascii_digit()))
}

/// Whether what a program runs cannot be seen in the line.
fn is_opaque(program: &str, behind: &[Word]) -> bool {
    let has = |wanted: fn(&str) -> bool| behind.iter().filter_map(Word::plain).any(wanted);
    // Up to the program that is wrapped; a word behind an option may be its value.
    let options = || {
        let mut behind_option = false;
        behind.iter().filter_map(Word::plain).take_while(move |word| {
            let is_option = word.starts_with('-') || is_assignment(word);
            std::mem::replace(&mut behind_option, is_option) || is_option
        })
    };
    let short = |word: &str, letters: &[char]| {
        word.starts_with('-') && !word.starts_with("--") && word.contains(letters)
    };
    match program {
        "env" => options().any(|word| short(word, &['S']) || word.starts_with("--sp")),
        "sudo" | "doas" => options()
            .any(|word| short(word, &['s', 'i']) || word.starts_with("--sh") || word.starts_with("--lo")),
        "mapfile" | "readarray" => has(|word| word.starts_with('-') && word.contains('C')),
        "hash" => has(|word| word.starts_with('-') && word.contains('p')),
        "awk" | "gawk" | "mawk" | "nawk" => has(|program| {
            program.contains("system") || program.contains('@') || program.replace("||", "").contains('|')
        }),
        _ => OPAQUE.contains(&program),
    }
}

/// Whether a command only names its words: `which bash` runs none.
fn only_names(words: &[Word]) -> bool {
    let first = words.first().and_then(Word::plain);
    let asks = words.get(1).and_then(Word::plain).is_some_and(|word| matches!(word, "-v" | "-V"));
    first.is_some_and(|first| PLAIN.contains(&first) || (first == "command" && asks))
}

/// The words with those unclear that `xargs` and `find` put others into.
fn filled_in(words: &[Word]) -> Vec<Word> {
    let mut words = words.to_vec();
    let Some(at) = words.iter().position(|word| FEEDERS.contains(&name(word))) else { return words };
    let mut places = vec!["{}".to_owned()];
    let from = match name(&words[at]) {
        "xargs" => xargs(&words, at + 1, &mut places),
        _ => at + 1,
    };
    for word in words.iter_mut().skip(from) {
        if word.plain().is_some_and(|word| places.iter().any(|place| word.contains(place))) {
            *word = Word::Unclear;
        }
    }
    words
}

/// Where the program of an `xargs` stands whose options begin there, and what it puts words in place of.
fn xargs(words: &[Word], mut at: usize, places: &mut Vec<String>) -> usize {
    while let Some(option) = words.get(at).and_then(Word::plain).filter(|word| word.starts_with('-')) {
        at += 1;
        let (letter, value) = match option.strip_prefix("--") {
            Some("") => return at,
            Some(long) => match long.split_once('=') {
                Some((_, value)) => ('i', value), // `--replace=%`, or one that does no harm
                None if ["a", "d", "max-a", "max-c", "max-p", "p"]
                    .iter()
                    .any(|one| long.starts_with(one)) =>
                {
                    ('a', "")
                }
                None => continue,
            },
            None => match option.char_indices().find(|(_, c)| "adEILnPsJRSeil".contains(*c)) {
                Some((place, letter)) => (letter, &option[place + 1..]),
                None => continue,
            },
        };
        let next = words.get(at).and_then(Word::plain);
        let has_next = value.is_empty() && !"eil".contains(letter);
        at += usize::from(has_next);
        if "IJi".contains(letter) {
            let place = if has_next { next.unwrap_or_default() } else { value };
            places.extend((!place.is_empty()).then(|| place.to_owned()));
        }
    }
    at
}

/// Whether the program behind `env`, `xargs` and the like is one that only the shell knows, or whoever writes what
/// `xargs` reads.
fn is_unclear_behind_wrappers(words: &[Word]) -> bool {
    let fed = words.iter().any(|word| name(word) == "xargs");
    words.iter().enumerate().filter(|(_, word)| is_wrapper(word)).any(|(at, wrapper)| {
        if name(wrapper) == "xargs" {
            return words.get(xargs(words, at + 1, &mut Vec::new())) == Some(&Word::Unclear);
        }
        let mut behind_option = false;
        let mut is_told = TOLD.contains(&name(wrapper));
        for word in &words[at + 1..] {
            let Some(word) = word.plain() else { return true };
            let is_option = word.starts_with('-') || is_assignment(word);
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            // What stands behind an option may be its value.
            if !(is_option || is_number || behind_option || is_told) {
                return false;
            }
            is_told &= is_option || (behind_option && !is_number);
            behind_option = is_option;
        }
        fed
    })
}

/// `NAME=value`, `NAME+=value`, `NAME[1]=value`
pub(super) fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.trim_end_matches('+');
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Whether it runs the program behind it. What loads programs has its version in its name.
fn is_wrapper(word: &Word) -> bool {
    let name = name(word);
    WRAPPERS.contains(&name) || name.starts_with("ld-linux") || name.starts_with("ld-musl")
}

/// A word as a program's name.
fn name(word: &Word) -> &str {
    word.plain().map_or("", base)
}

/// A program's name without its folder.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
