//! Interpreters: programs whose words may be programs in a language of their own.
//!
//! Their code is not followed. It is searched for the usual ways to start another program or to build a name; code with one
//! of these makes the line unresolved.

use super::super::line::{Content, EXPANSION, ScriptKind, Word, base};
use super::super::token::Scan;
use super::table::is_simple;
use super::{Command, Input, is_in, is_pipe, sed};

/// An interpreter.
pub(super) struct Language {
    names: &'static str,
    /// Letters of options with code behind them.
    code: &'static str,
    /// Long options with code behind them.
    long: &'static str,
    /// Letters of options with a value.
    values: &'static str,
    operand: Operand,
    /// Checks a text; returns why it may start a program.
    check: fn(&str) -> Option<String>,
}

/// The meaning of the operands of an interpreter.
#[derive(Clone, Copy, PartialEq)]
enum Operand {
    /// The first is the file with the program, the others belong to the program.
    File,
    /// The first is the program, unless an option has it.
    Code,
    /// All may have commands.
    Text,
}

const LANGUAGES: &[Language] = &[
    interpreter("python python2 python3 pypy pypy3", "c", "", "mWX"),
    interpreter(
        "node nodejs tsx ts-node",
        "ep",
        "--eval --print --import --require --loader --experimental-loader",
        "rC",
    ),
    interpreter("perl", "eE", "", "I"),
    interpreter("ruby irb", "e", "", "rI"),
    interpreter("php", "rRBE", "--run", "cdf"),
    interpreter("lua luajit", "e", "", "l"),
    interpreter("Rscript R julia", "eE", "--eval --print", ""),
    Language {
        operand: Operand::Code,
        check: awk,
        ..interpreter("awk gawk mawk nawk", "e", "--source", "Fvfil")
    },
    Language {
        operand: Operand::Code,
        check: sed::reason,
        ..interpreter("sed gsed", "e", "--expression", "fl")
    },
    Language { operand: Operand::Text, check: sql, ..interpreter("psql", "c", "--command", "dhpUvf") },
    Language { operand: Operand::Text, check: sql, ..interpreter("mysql mariadb", "e", "--execute", "hPuD") },
    Language { operand: Operand::Text, check: sql, ..interpreter("sqlite3", "", "-cmd", "s") },
];

const fn interpreter(
    names: &'static str,
    code: &'static str,
    long: &'static str,
    values: &'static str,
) -> Language {
    Language { names, code, long, values, operand: Operand::File, check: program }
}

/// Returns the interpreter of this name; `python3.12` is one of Python.
pub(super) fn language(name: &str) -> Option<&'static Language> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    LANGUAGES.iter().find(|language| is_in(language.names, name) || is_in(language.names, plain))
}

/// Parts of names with which programs are started, or names are looked up by text.
const STARTERS: &[&str] = &[
    "exec",
    "system",
    "spawn",
    "popen",
    "subprocess",
    "child",
    "eval",
    "compile",
    "__",
    "getattr",
    "attrgetter",
    "methodcaller",
    "globals",
    "vars(",
    "import_module",
    "importlib",
    "runpy",
    "ctypes",
    "cffi",
    "pty",
    "fork",
    "shell",
    "qx",
    "%x",
    "`",
    "passthru",
    "call_user",
    "constructor",
    "function(",
    "globalthis",
    "import(",
    "binding",
    "chr(",
    "fromcharcode",
    "\\x",
    "\\u",
    "\\0",
    "\\1",
    "fromhex",
    "b64",
    "atob",
    "decode",
    "pack(",
    "pickle",
    "marshal",
    "codecs",
    "send(",
    "method(",
    "kernel",
    "open3",
    "pdb",
    "timeit",
    "do '",
    "do \"",
    "&{",
    "->(",
    "&$",
    "require $",
    "invoke",
    "syscall",
    "loadstring",
    "/proc/",
    "/dev/",
];

/// Modules of Python that run their words.
const MODULES: &str = "pdb timeit pty code trace profile cProfile runpy";

/// Checks a program in a language with strings.
pub(super) fn program(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    if let Some(found) = STARTERS.iter().find(|starter| lower.contains(*starter)) {
        return Some(format!("its code has `{found}`"));
    }
    // Other letters may be read as Latin ones.
    if !text.is_ascii() {
        return Some("its code has letters other than English ones".to_owned());
    }
    if lower.contains("open") && lower.contains('|') {
        return Some("its code may open a pipe".to_owned());
    }
    joins_texts(text).then(|| "its code joins texts".to_owned())
}

/// Returns whether two literal texts are joined, as in `'pu' + 'sh'`.
fn joins_texts(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let is_quote = |c: &char| matches!(c, '\'' | '"');
    chars.iter().enumerate().filter(|(at, c)| is_quote(c) && *at > 0 && chars[at - 1].is_alphanumeric()).any(
        |(at, _)| {
            let between = chars[at + 1..].iter().take_while(|c| matches!(c, ' ' | '+' | '.' | '\n')).count();
            chars.get(at + 1 + between).is_some_and(is_quote)
                && chars.get(at + 2 + between).is_some_and(|c| c.is_alphanumeric())
        },
    )
}

/// Checks a program of `awk`.
fn awk(text: &str) -> Option<String> {
    let runs = text.contains("system")
        || text.contains('@')
        || text.replace("||", "").contains('|')
        || text.contains("getline");
    runs.then(|| "a program of `awk` that may run commands".to_owned())
}

/// Checks commands of a database's client.
fn sql(text: &str) -> Option<String> {
    let lower = text.to_lowercase().replace("||", "");
    let runs = ["|", "program", "system", "edit(", "load_extension"];
    let found =
        runs.iter().find(|part| lower.contains(**part)).map(|part| format!("its commands have `{part}`"));
    // `\d`, `\l`, `\x` and the like of `psql`.
    let is_meta = |part: &str| !part.starts_with(['d', 'l', 'x', 't', 'c', 'z']);
    if lower.split('\\').skip(1).any(is_meta) {
        return Some("a command of a database's client".to_owned());
    }
    let harmless = [".tables", ".schema", ".headers", ".mode", ".quit"];
    let is_odd = |line: &str| line.starts_with('.') && !harmless.iter().any(|known| line.starts_with(known));
    found.or_else(|| {
        lower.lines().map(str::trim_start).any(is_odd).then(|| "a command of a database's client".into())
    })
}

/// Checks the text of a program that is a file or an input.
pub(in super::super) fn check(scan: &mut Scan, text: &str) {
    if let Some(reason) = program(text) {
        scan.line.set_unresolved(reason);
    }
    scan.facts.mention(text);
}

impl Command<'_, '_> {
    /// Handles an interpreter and its words.
    pub(super) fn code(&mut self, language: &Language, words: &[Word]) {
        let mut rest = words.iter();
        let mut operands = 0;
        let (mut has_code, mut is_informing) = (false, false);
        while let Some(word) = rest.next() {
            let text = word.text();
            if text == "--" {
                continue;
            }
            if text == "-" || !text.starts_with('-') {
                operands += 1;
                match language.operand {
                    Operand::Code if !has_code => self.code_word(language, word, text),
                    Operand::Text if word.plain().is_some() => self.code_word(language, word, text),
                    Operand::File if !has_code => return self.program_file(language, word),
                    _ => self.operand_of_code(language, word),
                }
                has_code |= language.operand == Operand::Code || operands > 1;
                continue;
            }
            is_informing |= matches!(text, "--version" | "-V" | "-v" | "--help" | "-h" | "--test");
            let option = language.option(text);
            if language.operand == Operand::File {
                self.code_word(language, word, text);
            }
            match option {
                LanguageOption::Code(attached) => {
                    has_code = true;
                    match (attached, rest.as_slice()) {
                        (Some(code), _) => self.code_word(language, word, code),
                        (None, [next, ..]) => {
                            self.code_word(language, next, next.text());
                            rest.next();
                        }
                        (None, []) => {}
                    }
                }
                LanguageOption::Value(letter, attached) => {
                    let next = if attached.is_none() { rest.next() } else { None };
                    let attached = attached.map(|text| word.with_text(text));
                    let value = attached.as_ref().or(next).cloned().unwrap_or(Word::anything());
                    has_code |= matches!(letter, 'm' | 'f');
                    match letter {
                        'f' => self.program_file(language, &value),
                        'm' if is_in(MODULES, value.text()) => self.unresolved("a module that runs code"),
                        _ => self.operand_of_code(language, &value),
                    }
                }
                LanguageOption::Other => {}
            }
        }
        if !has_code && !is_informing {
            self.code_from_input(language);
        }
    }

    /// Handles a word that contains this code.
    fn code_word(&mut self, language: &Language, word: &Word, code: &str) {
        self.search_code(language.check, code);
        if let Word::Unknown(word) = word {
            // A variable may be empty.
            self.search_code(language.check, &code.replace(EXPANSION, ""));
            if word.is_other || code.chars().all(|c| c == EXPANSION) {
                self.unresolved("a program with unknown parts");
            }
            for variable in &word.variables {
                self.scan.facts.need(variable, Content::Number);
            }
        }
    }

    fn search_code(&mut self, check: fn(&str) -> Option<String>, code: &str) {
        if let Some(reason) = check(code) {
            self.unresolved(reason);
        }
        self.scan.facts.mention(code);
    }

    /// Handles a word behind the code.
    fn operand_of_code(&mut self, language: &Language, word: &Word) {
        match word {
            // `sed -i` and the like write it.
            Word::Plain(text) if text.chars().all(is_simple) => self.scan.facts.mention(base(text)),
            Word::Plain(text) if language.operand == Operand::File => self.search_code(language.check, text),
            Word::Plain(_) => {}
            Word::Unknown(word) => self.operand("an interpreter", word),
        }
    }

    /// Handles the file that has the program.
    fn program_file(&mut self, language: &Language, word: &Word) {
        match word {
            Word::Plain(file) if file == "-" => self.code_from_input(language),
            Word::Plain(file) if is_pipe(file) => {
                self.unresolved("a program is read from a pipe");
            }
            Word::Plain(file) => self.scan.facts.run_as_code.push(base(file).to_owned()),
            Word::Unknown(word) => self.operand("an interpreter", word),
        }
    }

    /// Handles code that is read from the input.
    fn code_from_input(&mut self, language: &Language) {
        match self.input.clone() {
            Input::Elsewhere | Input::Names => self.unresolved("a program is read from the input"),
            Input::Text(Some(Some(text))) => self.search_code(language.check, &text),
            Input::Text(Some(None)) => self.unresolved("a program with unknown parts"),
            Input::Text(None) => self.runs_input = Some(ScriptKind::Code),
        }
    }
}

/// An option of an interpreter; a value that is not in the same word is the next one.
enum LanguageOption<'t> {
    Code(Option<&'t str>),
    Value(char, Option<&'t str>),
    Other,
}

impl Language {
    fn option<'t>(&self, text: &'t str) -> LanguageOption<'t> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        if is_in(self.long, name) {
            return LanguageOption::Code(value);
        }
        if text.starts_with("--") {
            // Programs accept abbreviations of long options.
            let is_code = name.len() > 3 && self.long.split(' ').any(|long| long.starts_with(name));
            return if is_code { LanguageOption::Code(value) } else { LanguageOption::Other };
        }
        let has_meaning = |c: &(usize, char)| self.code.contains(c.1) || self.values.contains(c.1);
        let Some((at, letter)) = text.char_indices().skip(1).find(has_meaning) else {
            return LanguageOption::Other;
        };
        let attached = Some(&text[at + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
        match self.code.contains(letter) {
            true => LanguageOption::Code(attached),
            false => LanguageOption::Value(letter, attached),
        }
    }
}
