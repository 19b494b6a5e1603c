//! Programs that run the command behind their options: `env`, `xargs`, `find` and the like.

use super::super::line::{EXPANSION, UnknownWord, Word, base};
use super::super::token::{Token, is_name};
use super::super::variables;
use super::{Command, Input};

/// Programs that run the command behind their options.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
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
    wrapper("busybox", &[], 0),
    wrapper("toybox", &[], 0),
    wrapper("eatmydata", &[], 0),
    wrapper("chronic", &[], 0),
    wrapper("caffeinate", &[], 0),
    wrapper("env", &["-u", "-C", "--unset", "--chdir"], 0),
];

/// Returns the wrapper of this name.
pub(super) fn named(name: &str) -> Option<&'static Wrapper> {
    WRAPPERS.iter().find(|wrapper| wrapper.name == name)
}

impl Command<'_, '_> {
    pub(super) fn wrapped(&mut self, wrapper: &Wrapper, words: &[Word]) {
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
                variables::export(self.scan, name, value, &token, self.depth);
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
    pub(super) fn xargs(&mut self, words: &[Word]) {
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
            let mut text = word.plain().unwrap_or_default().to_owned();
            for place in places.iter().filter(|place| !place.is_empty()) {
                text = text.replace(place.as_str(), &EXPANSION.to_string());
            }
            if text.contains(EXPANSION) {
                *word = self.fed_word(text);
            }
        }
        if command.is_empty() {
            return;
        }
        command.push(self.fed_word(EXPANSION.into()));
        self.scan.line.commands.push(command.clone());
        self.run_inner(&command);
    }

    /// Returns a word that `xargs` reads from its input.
    fn fed_word(&self, text: String) -> Word {
        let is_other = *self.input != Input::Names;
        Word::Unknown(UnknownWord { text, is_other, ..UnknownWord::default() })
    }

    /// Handles `find`, which runs the words behind `-exec`.
    pub(super) fn find(&mut self, words: &[Word]) {
        let unknown = words.iter().filter(|word| word.plain().is_none()).count();
        if unknown > 1 {
            self.unresolved("`find` with several unknown words");
        }
        for pair in words.windows(2).filter(|pair| pair[0].text().starts_with("-fprint")) {
            self.scan.facts.mention(base(pair[1].text()));
        }
        for (at, word) in words.iter().enumerate() {
            if matches!(word.plain(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
                let command =
                    words[at + 1..].iter().take_while(|word| !matches!(word.plain(), Some(";" | "+")));
                let command: Vec<Word> = command
                    .map(|word| match word.plain() {
                        Some(text) if text.contains("{}") => {
                            // Found names begin with the folder in which they are found.
                            let text = text.replace("{}", "./{}");
                            Word::Unknown(UnknownWord { text, is_one: true, ..UnknownWord::default() })
                        }
                        _ => word.clone(),
                    })
                    .collect();
                self.scan.line.commands.push(command.clone());
                self.run_inner(&command);
            }
        }
    }
}

/// Returns whether a word has the form `NAME=value`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}
