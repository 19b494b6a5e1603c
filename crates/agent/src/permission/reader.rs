//! Reads a bash line and finds the commands that it runs.
//!
//! Start at [`read`]. The reader knows the part of the language that people write every day. Everything else makes the
//! line unresolved: rules that forbid then ask, and rules that allow do not apply. Nothing is expanded, so a word with an
//! expansion is unknown text.

use super::line::{Content, Facts, Line, ScriptKind, Word, WrittenText, base};
use super::programs::{self, Input};
use super::token::{POSITIONAL, Scan, Token, is_name, is_number};
use super::variables;

/// Maximum depth of commands inside commands.
const DEEPEST: usize = 8;

/// Words that begin or end a compound command. A command may follow them.
const RESERVED: &[&str] =
    &["!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac"];

/// Characters that end a word.
const META: &[char] = &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')'];

/// Reads a command line.
pub(super) fn read(text: &str) -> Line {
    let bare = text.replace("\\\n", "").chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let mut scan = Scan { line: Line { bare, ..Line::default() }, facts: Facts::default() };
    scan.script(text, 0);
    scan.follow_written_texts();
    if let Some(reason) = scan.facts.unresolved_reason() {
        scan.line.set_unresolved(reason);
    }
    scan.line
}

impl Scan {
    /// Reads the commands of a text.
    pub(super) fn script(&mut self, text: &str, depth: usize) {
        if depth > DEEPEST {
            return self.line.set_unresolved("commands are nested too deeply");
        }
        Reader::new(self, text, depth).commands(None);
    }

    /// Notes a file that a redirection writes.
    fn file_is_written(&mut self, path: &str) {
        if path.split('/').any(|part| part == ".git") {
            self.line.set_unresolved("the line writes into git's own folder");
        }
        if base(path).starts_with('-') {
            self.line.set_unresolved("the line writes a file whose name looks like an option");
        }
        self.facts.written.push(base(path).to_owned());
    }

    /// Reads the scripts that the line itself writes and runs.
    fn follow_written_texts(&mut self) {
        let mut followed = 0;
        while followed < DEEPEST {
            let Some((text, kind)) = self.facts.next_written_script() else { return };
            match kind {
                Some(ScriptKind::Shell) => self.script(&text, 1),
                Some(ScriptKind::Code) => programs::check_code(self, &text),
                None => self.line.set_unresolved("the line writes a program and runs it"),
            }
            followed += 1;
        }
        self.line.set_unresolved("scripts are nested too deeply");
    }
}

/// A here-document whose text begins with the next line.
struct Heredoc {
    end: String,
    is_literal: bool,
    strips_tabs: bool,
    /// Its text is run as a script of this kind.
    script: Option<ScriptKind>,
    /// The files that receive its text, without folders.
    files: Vec<String>,
}

struct Reader<'s> {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    heredocs: Vec<Heredoc>,
    /// The output of the last command.
    output: Content,
    /// The next command reads names of files from a pipe.
    reads_names: bool,
    /// More than one pipeline was read.
    is_several: bool,
    scan: &'s mut Scan,
}

impl<'s> Reader<'s> {
    fn new(scan: &'s mut Scan, text: &str, depth: usize) -> Self {
        Self {
            chars: text.chars().collect(),
            at: 0,
            depth,
            heredocs: Vec::new(),
            output: Content::Unknown,
            reads_names: false,
            is_several: false,
            scan,
        }
    }

    /// Returns the next character. A backslash before the end of a line joins it with the next one.
    fn peek(&mut self) -> Option<char> {
        while self.chars[self.at..].starts_with(&['\\', '\n']) {
            self.at += 2;
        }
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        self.peek();
        self.raw()
    }

    /// Returns the next character where lines are not joined.
    fn raw(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied();
        self.at += usize::from(c.is_some());
        c
    }

    fn takes(&mut self, text: &str) -> bool {
        let before = self.at;
        let found = text.chars().all(|c| self.next() == Some(c));
        if !found {
            self.at = before;
        }
        found
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    fn unresolved(&mut self, reason: &str) {
        self.scan.line.set_unresolved(reason);
    }

    /// Reads commands up to the closing bracket, or to the end of the text.
    fn commands(&mut self, closing: Option<char>) {
        loop {
            self.blanks();
            match self.peek() {
                None => break,
                Some('\n') => self.newline(),
                Some(';' | '&' | '|') if !self.chars[self.at..].starts_with(&['&', '>']) => self.separator(),
                Some('#') => self.comment(),
                Some(')') => {
                    self.at += 1;
                    if closing == Some(')') {
                        return;
                    }
                    self.unresolved("a bracket closes nothing");
                }
                Some('(') => {
                    self.at += 1;
                    self.scan.line.is_more = true;
                    match self.peek() {
                        Some('(') => self.arithmetic_command(),
                        _ => self.commands(Some(')')),
                    }
                    self.compound();
                }
                Some(_) => self.simple(),
            }
        }
        if closing.is_some() {
            self.unresolved("a bracket is not closed");
        }
        if !self.heredocs.is_empty() {
            self.heredocs.clear();
            self.unresolved("a here-document has no text");
        }
    }

    /// Reads `|` or another separator of commands.
    fn separator(&mut self) {
        let is_pipe = self.peek() == Some('|') && !self.takes("||");
        self.at += usize::from(is_pipe);
        if is_pipe {
            self.reads_names = self.output <= Content::Names;
        } else {
            self.takes("&&");
            self.at += usize::from(matches!(self.peek(), Some(';' | '&')));
            self.compound();
        }
    }

    /// Notes that the output is more than that of one pipeline.
    fn compound(&mut self) {
        (self.reads_names, self.output, self.is_several) = (false, Content::Unknown, true);
    }

    fn newline(&mut self) {
        self.compound();
        self.at += 1;
        for heredoc in std::mem::take(&mut self.heredocs) {
            self.heredoc_text(&heredoc);
        }
    }

    fn comment(&mut self) {
        while self.chars.get(self.at).is_some_and(|c| *c != '\n') {
            self.at += 1;
        }
    }

    /// Reads a simple command, or the head of a compound one.
    fn simple(&mut self) {
        let mut tokens: Vec<Token> = Vec::new();
        let reads_names = std::mem::take(&mut self.reads_names);
        let mut input = if reads_names { Input::Names } else { Input::Elsewhere };
        let (written, made) = (self.scan.facts.written.len(), self.scan.facts.made.len());
        let first_heredoc = self.heredocs.len();
        let mut stdin_heredoc = None;
        let mut settings: Vec<Token> = Vec::new();
        loop {
            self.blanks();
            let start = self.at;
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')') => break,
                Some('&') if self.chars.get(self.at + 1) != Some(&'>') => break,
                Some('(') if tokens.is_empty() => break,
                Some('(') => {
                    if !self.function(&tokens) {
                        self.unresolved("a bracket in an unusual place");
                        self.at += 1;
                    }
                    tokens.clear();
                    continue;
                }
                Some('#') => {
                    self.comment();
                    continue;
                }
                _ => {}
            }
            if self.is_redirection() {
                self.redirection(None, &mut input, &mut stdin_heredoc);
                continue;
            }
            let token = self.word();
            if self.at == start {
                self.unresolved("a character in an unusual place");
                self.at += 1;
                continue;
            }
            let is_fd = token.is_literal()
                && !token.quoted
                && (token.text.chars().all(|c| c.is_ascii_digit()) || is_fd_variable(&token.text));
            if is_fd && self.is_redirection() {
                self.redirection(Some(&token.text), &mut input, &mut stdin_heredoc);
                continue;
            }
            if tokens.is_empty() && self.head(&token) {
                settings.extend(token.assignment().is_some().then_some(token));
                continue;
            }
            tokens.push(token);
        }
        self.settings(&settings, !tokens.is_empty());
        if tokens.is_empty() {
            return;
        }
        self.scan.line.is_more |= tokens.iter().any(|token| token.value);
        let mut words: Vec<Word> = tokens.iter().map(Token::word).collect();
        // `"$HOME/bin/tool"` is a program with a known name.
        if let Some(path) = words[0].path() {
            words[0] = Word::Plain(path.to_owned());
        }
        self.scan.line.commands.push(words.clone());
        let script = programs::analyze(self.scan, &words, &tokens, &input, self.depth);
        self.output = programs::output(&words, reads_names);
        if let Some(at) = stdin_heredoc.filter(|at| *at >= first_heredoc) {
            let facts = &self.scan.facts;
            let new = facts.written[written..].iter().chain(&facts.made[made..]).cloned();
            self.heredocs[at].files = if programs::copies_input(&words) { new.collect() } else { Vec::new() };
            self.heredocs[at].script = script;
        }
    }

    /// Handles the assignments of a command. A program behind them sees them.
    fn settings(&mut self, tokens: &[Token], is_before_program: bool) {
        for token in tokens {
            let Some((name, value)) = token.assignment() else { continue };
            match is_before_program {
                true => variables::export(self.scan, name, value, token, self.depth),
                false => variables::assign(self.scan, name, value, token, self.depth),
            }
        }
    }

    /// Handles a word at the beginning of a command that is no program. Returns whether it is one.
    fn head(&mut self, token: &Token) -> bool {
        if let Some((name, value)) = token.assignment() {
            if value.is_empty() && self.peek() == Some('(') {
                self.array(name);
            }
            self.scan.line.is_more = true;
            return true;
        }
        if !token.is_literal() || token.quoted {
            return false;
        }
        let before = (self.output, self.is_several);
        self.compound();
        match token.text.as_str() {
            word if RESERVED.contains(&word) => {}
            "time" => {
                for option in ["-p", "--"] {
                    self.blanks();
                    let before = self.at;
                    if !(self.takes(option) && self.peek().is_none_or(|c| META.contains(&c))) {
                        self.at = before;
                    }
                }
            }
            "for" => self.for_head(),
            "case" => self.case_body(),
            "function" => {
                self.scan.facts.assign(POSITIONAL, Content::Unknown);
                self.blanks();
                self.word();
                self.blanks();
                if self.takes("(") && !self.takes(")") {
                    self.unresolved("an unusual function");
                }
            }
            "[[" => self.condition(),
            "select" | "coproc" => self.unresolved(&format!("`{}` is not followed", token.text)),
            _ => {
                (self.output, self.is_several) = before;
                return false;
            }
        }
        self.scan.line.is_more = true;
        true
    }

    /// Reads `()` behind the name of a function. Returns whether it is there.
    fn function(&mut self, tokens: &[Token]) -> bool {
        let is_named = matches!(tokens, [token] if token.is_literal() && !token.quoted);
        let touches = self.at > 0 && !META.contains(&self.chars[self.at - 1]);
        let pattern = matches!(tokens, [token] if token.text.ends_with(['?', '*', '+', '@', '!']));
        let before = self.at;
        self.at += 1;
        self.blanks();
        if is_named && !(touches && pattern) && self.peek() == Some(')') {
            self.at += 1;
            self.scan.line.is_more = true;
            self.scan.facts.assign(POSITIONAL, Content::Unknown);
            self.compound();
            return true;
        }
        self.at = before;
        false
    }

    /// Reads `NAME in WORDS` of a `for`, or its arithmetic form.
    fn for_head(&mut self) {
        self.blanks();
        if self.takes("((") {
            self.at -= 1;
            return self.arithmetic_command();
        }
        let name = self.word();
        if !name.is_literal() || !is_name(&name.text) {
            return self.unresolved("an unusual `for`");
        }
        let mut content = Content::Number;
        self.blanks();
        while matches!(self.peek(), Some('\n')) {
            self.newline();
            self.blanks();
        }
        if self.takes("in") && self.peek().is_none_or(|c| META.contains(&c)) {
            loop {
                self.blanks();
                match self.peek() {
                    None | Some('\n' | ';') => break,
                    Some('#') => self.comment(),
                    Some(c) if META.contains(&c) && !self.is_process_substitution() => {
                        self.unresolved("an unusual `for`");
                        break;
                    }
                    Some(_) => {
                        let word = self.word();
                        content = content.max(word.content(&word.text));
                    }
                }
            }
        } else {
            content = Content::Unknown;
        }
        match content {
            Content::Unknown => variables::set_named(self.scan, &name.word()),
            content => variables::set(self.scan, &name.text, content),
        }
    }

    /// Reads a `case` up to its `esac`.
    fn case_body(&mut self) {
        self.blanks();
        self.word();
        self.spaces();
        if !self.takes("in") {
            return self.unresolved("an unusual `case`");
        }
        loop {
            self.spaces();
            if self.peek() == Some('#') {
                self.comment();
                continue;
            }
            self.takes("(");
            self.blanks();
            // The patterns of one branch.
            loop {
                let pattern = self.word();
                if pattern.is_literal() && !pattern.quoted && pattern.text == "esac" {
                    return;
                }
                self.blanks();
                match self.next() {
                    Some('|') => self.blanks(),
                    Some(')') => break,
                    _ => return self.unresolved("an unusual `case`"),
                }
            }
            self.branch();
            if self.chars.get(self.at).is_none() {
                return self.unresolved("`case` has no `esac`");
            }
            if self.takes("esac") {
                return;
            }
        }
    }

    /// Reads the commands of a branch of a `case`, up to and with its end.
    fn branch(&mut self) {
        loop {
            self.spaces();
            if self.takes(";;&") || self.takes(";;") || self.takes(";&") {
                return;
            }
            match self.peek() {
                None => return,
                Some('#') => self.comment(),
                Some(';' | '&' | '|') if !self.chars[self.at..].starts_with(&['&', '>']) => self.separator(),
                Some('e') if self.is_word("esac") => return,
                Some('(') => {
                    self.at += 1;
                    match self.peek() {
                        Some('(') => self.arithmetic_command(),
                        _ => self.commands(Some(')')),
                    }
                }
                Some(')') => {
                    self.at += 1;
                    self.unresolved("a bracket closes nothing");
                }
                Some(_) => self.simple(),
            }
        }
    }

    fn is_word(&mut self, word: &str) -> bool {
        let before = self.at;
        let found = self.takes(word) && self.peek().is_none_or(|c| META.contains(&c));
        self.at = before;
        found
    }

    /// Skips blanks and ends of lines.
    fn spaces(&mut self) {
        loop {
            self.blanks();
            match self.peek() {
                Some('\n') => self.newline(),
                _ => return,
            }
        }
    }

    /// Reads `[[ … ]]`.
    fn condition(&mut self) {
        let mut tokens: Vec<Token> = Vec::new();
        loop {
            self.spaces();
            match self.peek() {
                None => return self.unresolved("`[[` is not closed"),
                Some('&' | '|' | '<' | '>' | ';' | '(' | ')' | '#') if !self.is_process_substitution() => {
                    let is_and = self.takes("&&") || self.takes("||") || self.takes("<") || self.takes(">");
                    if !is_and {
                        self.at += 1;
                        self.unresolved("an unusual condition");
                    }
                    tokens.push(Token::from_text("="));
                }
                Some(_) => {
                    let token = self.word();
                    if token.is_literal() && !token.quoted && token.text == "]]" {
                        break;
                    }
                    tokens.push(token);
                }
            }
        }
        variables::condition(self.scan, &tokens, true);
    }

    /// Reads the words of an array behind `NAME=`.
    fn array(&mut self, name: &str) {
        self.at += 1;
        loop {
            self.spaces();
            match self.peek() {
                None => return self.unresolved("an array is not closed"),
                Some(')') => {
                    self.at += 1;
                    break;
                }
                Some('#' | '[') => return self.unresolved("an unusual array"),
                Some(c) if META.contains(&c) && !self.is_process_substitution() => {
                    return self.unresolved("an unusual array");
                }
                Some(_) => drop(self.word()),
            }
        }
        variables::set(self.scan, name, Content::Unknown);
    }

    /// Reads `((…))` from its second bracket on.
    fn arithmetic_command(&mut self) {
        self.at += 1;
        self.scan.line.is_more = true;
        self.arithmetic();
    }

    /// Reads arithmetic up to `))`.
    fn arithmetic(&mut self) {
        let mut text = String::new();
        let mut open = 0_usize;
        while let Some(c) = self.next() {
            match c {
                '(' => open += 1,
                ')' if open > 0 => open -= 1,
                ')' => {
                    if !self.takes(")") {
                        self.unresolved("brackets that are no arithmetic");
                        self.scan.script(&text, self.depth + 1);
                    }
                    return variables::arithmetic(self.scan, &text, self.depth);
                }
                _ => {}
            }
            text.push(c);
        }
        self.unresolved("arithmetic is not closed");
    }

    fn is_process_substitution(&mut self) -> bool {
        matches!(self.peek(), Some('<' | '>')) && self.chars.get(self.at + 1) == Some(&'(')
    }

    fn is_redirection(&mut self) -> bool {
        match self.peek() {
            Some('<' | '>') => !self.is_process_substitution(),
            Some('&') => self.chars.get(self.at + 1) == Some(&'>'),
            _ => false,
        }
    }

    /// Reads a redirection of the file descriptor `fd`.
    fn redirection(&mut self, fd: Option<&str>, input: &mut Input, heredoc: &mut Option<usize>) {
        let operators = ["&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">"];
        let found = operators.into_iter().find(|operator| self.takes(operator));
        let operator = found.expect("`is_redirection` has seen one");
        let is_stdin = fd.is_none_or(|fd| fd.trim_start_matches('0').is_empty());
        self.blanks();
        if matches!(operator, "<<" | "<<-") {
            let end = self.word();
            if !end.is_literal() {
                self.unresolved("a here-document with an unknown end");
            }
            self.scan.line.is_more = true;
            self.heredocs.push(Heredoc {
                end: end.text,
                is_literal: end.quoted,
                strips_tabs: operator == "<<-",
                script: None,
                files: Vec::new(),
            });
            if is_stdin {
                *input = Input::Text(None);
                *heredoc = Some(self.heredocs.len() - 1);
            }
            return;
        }
        let target = self.word();
        let text = target.is_literal().then_some(target.text.as_str());
        let copies_fd = text.is_some_and(|text| {
            !text.is_empty() && text.trim_end_matches('-').chars().all(|c| c.is_ascii_digit())
        });
        match operator {
            "<<<" => {
                self.scan.line.is_more = true;
                if is_stdin {
                    *input = Input::Text(Some(text.map(str::to_owned)));
                }
            }
            "<" | "<&" | "<>" => {
                if is_stdin {
                    *input = Input::Elsewhere;
                }
                if operator == "<>" {
                    self.writes(text);
                }
            }
            ">&" if copies_fd => {}
            _ => self.writes(text),
        }
    }

    /// Notes a file that the line writes.
    fn writes(&mut self, name: Option<&str>) {
        match name {
            Some("/dev/null" | "/dev/stdout" | "/dev/stderr") => {}
            Some(name) => {
                self.scan.line.is_more = true;
                self.scan.file_is_written(name);
            }
            None => {
                self.scan.line.is_more = true;
                self.scan.facts.writes_unknown = true;
            }
        }
    }

    fn heredoc_text(&mut self, heredoc: &Heredoc) {
        let mut text = String::new();
        loop {
            if self.at >= self.chars.len() {
                break;
            }
            let mut line = String::new();
            while let Some(c) = self.raw().filter(|c| *c != '\n') {
                line.push(c);
                // In a text with expansions, lines are joined.
                if !heredoc.is_literal && c == '\\' {
                    match self.raw() {
                        Some('\n') => drop(line.pop()),
                        Some(c) => line.push(c),
                        None => {}
                    }
                }
            }
            let bare = if heredoc.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if bare == heredoc.end {
                break;
            }
            text.push_str(&line);
            text.push('\n');
        }
        if !heredoc.is_literal {
            // Only expansions count here; quotes do not.
            if Reader::new(self.scan, &text, self.depth + 1).expansions() {
                if heredoc.script.is_some() {
                    self.unresolved("a program reads a script with unknown parts");
                }
                return;
            }
        }
        match heredoc.script {
            Some(ScriptKind::Shell) => self.scan.script(&text, self.depth + 1),
            Some(ScriptKind::Code) => programs::check_code(self.scan, &text),
            None => {}
        }
        let text_of = |name: &String| WrittenText { name: name.clone(), text: text.clone(), is_read: false };
        self.scan.facts.texts.extend(heredoc.files.iter().map(text_of));
    }

    /// Reads the expansions of a text without quotes. Returns whether there are any.
    fn expansions(&mut self) -> bool {
        let mut token = Token::new();
        while let Some(c) = self.raw() {
            match c {
                '\\' => drop(self.raw()),
                '$' => self.dollar(&mut token, true),
                '`' => self.backticks(&mut token, true),
                _ => {}
            }
        }
        token.value || token.unclear
    }

    /// Reads a word; it is empty if none is there.
    fn word(&mut self) -> Token {
        let mut token = Token::new();
        while let Some(c) = self.peek() {
            if self.is_process_substitution() {
                self.at += 2;
                token.expand(true, false);
                self.inside();
                continue;
            }
            if META.contains(&c) {
                break;
            }
            self.at += 1;
            match c {
                '\\' => {
                    token.quote();
                    match self.raw() {
                        Some(c) => token.push(c),
                        None => self.unresolved("a backslash at the end"),
                    }
                }
                '\'' => {
                    token.quote();
                    loop {
                        match self.raw() {
                            Some('\'') => break,
                            Some(c) => token.push(c),
                            None => return self.open_quote(token),
                        }
                    }
                }
                '"' => {
                    token.quote();
                    if !self.double_quoted(&mut token) {
                        return self.open_quote(token);
                    }
                }
                '$' => self.dollar(&mut token, false),
                '`' => self.backticks(&mut token, false),
                '*' | '?' => {
                    token.push(c);
                    token.unclear = true;
                    token.number = false;
                }
                '[' => {
                    token.push(c);
                    token.bracket = true;
                    token.number = false;
                }
                '{' | '}' => {
                    token.push(c);
                    token.brace |= c == '{';
                }
                c => token.push(c),
            }
        }
        token.unclear |= token.brace && (token.text.contains(',') || token.text.contains(".."));
        // `[` and `[[` are programs, and `name[1]=x` is an assignment. Everything else is a pattern.
        let is_assignment = token.assignment().is_some_and(|(name, _)| name.contains('['));
        token.unclear |= token.bracket && !matches!(token.text.as_str(), "[" | "[[") && !is_assignment;
        token
    }

    fn open_quote(&mut self, token: Token) -> Token {
        self.unresolved("a quote is not closed");
        token
    }

    /// Reads up to the closing quote. Returns whether there is one.
    fn double_quoted(&mut self, token: &mut Token) -> bool {
        while let Some(c) = self.next() {
            match c {
                '"' => return true,
                '\\' => match self.raw() {
                    Some(c @ ('$' | '`' | '"' | '\\')) => token.push(c),
                    Some(c) => {
                        token.push('\\');
                        token.push(c);
                    }
                    None => return false,
                },
                '`' => self.backticks(token, true),
                '$' => self.dollar(token, true),
                c => token.push(c),
            }
        }
        false
    }

    /// Reads commands up to the closing bracket of a substitution. Returns its output.
    fn inside(&mut self) -> Content {
        self.scan.line.is_more = true;
        if self.depth >= DEEPEST {
            self.at = self.chars.len();
            self.unresolved("commands are nested too deeply");
            return Content::Unknown;
        }
        self.depth += 1;
        let heredocs = std::mem::take(&mut self.heredocs);
        let before = (self.reads_names, self.output, self.is_several);
        (self.reads_names, self.output, self.is_several) = (false, Content::Unknown, false);
        self.commands(Some(')'));
        let output = if self.is_several { Content::Unknown } else { self.output };
        (self.reads_names, self.output, self.is_several) = before;
        self.heredocs = heredocs;
        self.depth -= 1;
        output
    }

    fn backticks(&mut self, token: &mut Token, in_quotes: bool) {
        token.expand(in_quotes, false);
        let mut text = String::new();
        loop {
            match self.raw() {
                None => return self.unresolved("a backtick is not closed"),
                Some('`') => break,
                Some('\\') => {
                    // How often a backslash is read depends on the quotes around.
                    self.unresolved("a backslash in backticks");
                    text.extend(self.raw());
                }
                Some(c) => text.push(c),
            }
        }
        self.scan.line.is_more = true;
        self.scan.script(&text, self.depth + 1);
    }

    /// Reads an expansion behind its `$`.
    fn dollar(&mut self, token: &mut Token, in_quotes: bool) {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                if self.peek() == Some('(') {
                    self.at += 1;
                    token.expand(in_quotes, true);
                    self.arithmetic();
                } else {
                    let output = self.inside();
                    token.expand_known(in_quotes, output == Content::Number);
                    token.other |= output == Content::Unknown;
                }
            }
            Some('{') => {
                self.at += 1;
                self.braces(token, in_quotes);
            }
            Some('\'') if !in_quotes => {
                self.at += 1;
                token.quote();
                self.escaped(token);
            }
            Some('"') if !in_quotes => self.unresolved("a translated text"),
            Some('[') => {
                self.unresolved("arithmetic in square brackets");
                token.expand(in_quotes, false);
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let mut name = String::new();
                while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                    self.at += 1;
                }
                self.variable(token, name, in_quotes);
            }
            Some('#' | '?' | '$') => {
                self.at += 1;
                token.expand(in_quotes, true);
            }
            Some('@' | '*') => {
                self.at += 1;
                token.expand_known(false, false);
                token.variables.push(POSITIONAL.to_owned());
            }
            Some(c) if c.is_ascii_digit() || c == '!' || c == '-' => {
                self.at += 1;
                token.expand_known(in_quotes, c == '!');
                token.variables.push(POSITIONAL.to_owned());
            }
            _ => token.push('$'),
        }
    }

    fn variable(&mut self, token: &mut Token, name: String, in_quotes: bool) {
        let is_first = token.text.is_empty() && !token.value;
        token.expand_known(in_quotes, false);
        token.variables.push(name.clone());
        token.variable = is_first.then_some(name);
    }

    /// Reads `$'…'`, whose escapes are only followed where they are common.
    fn escaped(&mut self, token: &mut Token) {
        while let Some(c) = self.raw() {
            match c {
                '\'' => return,
                '\\' => match self.raw() {
                    Some('n') => token.push('\n'),
                    Some('t') => token.push('\t'),
                    Some(c @ ('\\' | '\'' | '"')) => token.push(c),
                    _ => {
                        self.unresolved("an escape in `$'…'`");
                        token.expand(true, false);
                    }
                },
                c => token.push(c),
            }
        }
        self.unresolved("a quote is not closed");
    }

    /// Reads `${…}` behind its bracket.
    fn braces(&mut self, token: &mut Token, in_quotes: bool) {
        self.scan.line.is_more = true;
        let is_length = self.peek() == Some('#') && self.chars.get(self.at + 1) != Some(&'}');
        if is_length {
            self.at += 1;
        }
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
            self.at += 1;
        }
        if name.is_empty() {
            match self.peek() {
                Some('@' | '*' | '#' | '?' | '$' | '-') => self.at += 1,
                _ => self.unresolved("an unusual `${…}`"),
            }
        }
        let mut many = false;
        if self.takes("[") {
            let mut subscript = String::new();
            while let Some(c) = self.peek().filter(|c| !"]}$`'\"\\\n".contains(*c)) {
                subscript.push(c);
                self.at += 1;
            }
            many = subscript == "@" || subscript == "*";
            if !self.takes("]") || !(many || is_number(&subscript)) {
                self.unresolved("an unusual subscript");
            }
        }
        if self.takes("}") {
            if is_length {
                return token.expand(in_quotes, true);
            }
            let is_one = in_quotes && !(many || name.is_empty());
            return match is_name(&name) && !many {
                true => self.variable(token, name, is_one),
                false => token.expand(is_one, false),
            };
        }
        let operators = [
            ":-", ":=", ":+", ":?", "-", "=", "+", "?", "%%", "%", "##", "#", "//", "/", "^^", "^", ",,", ",",
        ];
        match operators.into_iter().find(|operator| self.takes(operator)) {
            Some(":=" | "=") => {
                variables::set(self.scan, &name, Content::Unknown);
                self.operand(token, in_quotes);
            }
            Some(_) => self.operand(token, in_quotes),
            None => {
                // `${x:1:2}`
                let mut slice = String::new();
                while let Some(c) = self.peek().filter(|c| c.is_ascii_digit() || ": -".contains(*c)) {
                    slice.push(c);
                    self.at += 1;
                }
                if slice.is_empty() || self.peek() != Some('}') {
                    self.unresolved("an unusual `${…}`");
                }
                self.operand(token, in_quotes);
            }
        }
        token.expand(in_quotes && !many, false);
    }

    /// Reads the operand of `${…}` and its closing bracket.
    fn operand(&mut self, token: &mut Token, in_quotes: bool) {
        while let Some(c) = self.next() {
            match c {
                '}' => return,
                '$' => self.dollar(&mut Token::new(), in_quotes),
                '`' => self.backticks(&mut Token::new(), in_quotes),
                '\\' => drop(self.raw()),
                '"' => {
                    let is_simple = |c: &char| c.is_alphanumeric() || " _./:,+-".contains(*c);
                    while self.peek().as_ref().is_some_and(is_simple) {
                        self.at += 1;
                    }
                    if self.next() != Some('"') {
                        self.unresolved("quotes in `${…}`");
                    }
                }
                '\'' | '{' => self.unresolved("a quote or bracket in `${…}`"),
                '<' | '>' if self.peek() == Some('(') => self.unresolved("a substitution in `${…}`"),
                _ => {}
            }
        }
        self.unresolved("`${` is not closed");
        token.unclear = true;
    }
}

/// Returns whether a word is `{name}`, which a redirection fills with a file descriptor.
fn is_fd_variable(text: &str) -> bool {
    text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(is_name)
}
