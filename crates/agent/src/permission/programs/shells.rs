//! Shells, and the built-ins that run a line or a script.

use super::super::line::{Content, ScriptKind, Word, base};
use super::super::token::POSITIONAL;
use super::{Command, Input, is_pipe};

impl Command<'_, '_> {
    /// Handles a shell and its words.
    pub(super) fn shell(&mut self, name: &str, words: &[Word]) {
        let (mut takes_line, mut reads_input) = (false, false);
        let mut rest = words.iter();
        let mut operand = None;
        let mut reads_startup = matches!(name, "zsh" | "fish" | "csh" | "tcsh");
        while let Some(word) = rest.next() {
            match word.plain() {
                None if word.path().is_some() => {
                    operand = Some(word);
                    break;
                }
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
        match operand.map(|word| if takes_line { word.plain() } else { word.path() }) {
            Some(None) => self.unresolved("a shell with an unknown script"),
            Some(Some(line)) if takes_line => {
                if words.iter().filter_map(Word::plain).any(|word| word == "extglob") && line.contains('(') {
                    self.unresolved("patterns with brackets");
                }
                self.script(line);
                self.scan.facts.assign(POSITIONAL, Content::Unknown);
            }
            Some(Some(file)) if !reads_input => self.scan.facts.run.push(base(file).to_owned()),
            _ => match self.input.clone() {
                Input::Elsewhere | Input::Names => self.unresolved("a shell reads commands from its input"),
                Input::Text(Some(Some(text))) => self.script(&text),
                Input::Text(Some(None)) => self.unresolved("a shell reads an unknown text"),
                Input::Text(None) => self.runs_input = Some(ScriptKind::Shell),
            },
        }
    }

    pub(super) fn eval(&mut self, words: &[Word]) {
        let text: Vec<&str> = words.iter().filter_map(Word::plain).collect();
        if text.len() < words.len() {
            self.unresolved("`eval` with unknown words");
        }
        self.script(&text.join(" "));
    }

    pub(super) fn source(&mut self, words: &[Word]) {
        match words.iter().find(|word| word.plain() != Some("--")).map(Word::path) {
            Some(Some(file)) if !is_pipe(file) => self.scan.facts.run.push(base(file).to_owned()),
            _ => self.unresolved("the shell reads commands from an unknown file"),
        }
    }

    pub(super) fn exec(&mut self, words: &[Word]) {
        match words.first().and_then(Word::plain) {
            Some(option) if option.starts_with('-') && option != "--" => {
                self.any("exec", &words[1..]);
                self.unresolved("`exec` with options");
            }
            Some("--") => self.run(&words[1..]),
            _ => self.run(words),
        }
    }
}
