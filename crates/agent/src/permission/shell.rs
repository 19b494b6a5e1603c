//! What a command line would run, as far as that can be told without running it.
//!
//! This is no shell. It finds the simple commands of a line, those in substitutions and in `sh -c` included, and says of
//! every word whether it is what it looks like. Where it is in doubt, a word is unclear: rules that forbid take that as
//! "maybe", and rules that allow as "no".

use super::line::{Line, Word, moves_home, names_hook};
use super::programs::{self, base, is_assignment};

/// How deep lines may stand in lines.
const DEEP: usize = 8;

/// Reads a command line.
pub(super) fn read(text: &str) -> Line {
    let bare: String = text.replace("\\\n", "").chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let mut line = Line { bare: String::new(), ..read_at(text, 0, moves_home(&bare)) };
    line.bare = bare;
    if names_hook(&line.bare) || line.runs_what_it_makes() {
        line.doubt();
    }
    line
}

/// Variables whose values are command lines.
const LINES: &[&str] = &[
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "LESSOPEN",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    "GIT_ASKPASS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
];

/// What assigns to the names that it is given.
const ASSIGN: &[&str] =
    &["export", "declare", "typeset", "readonly", "local", "read", "mapfile", "readarray", "getopts"];

fn read_at(text: &str, depth: usize, home_moves: bool) -> Line {
    let mut reader = Reader {
        chars: text.chars().collect(),
        at: 0,
        line: Line::default(),
        depth,
        input: Input::Elsewhere,
        names: false,
        is_timed: false,
        home_moves,
        odd: Odd::default(),
    };
    if depth > DEEP {
        reader.line.commands.push(vec![Word::Unclear]);
        reader.line.is_more = true;
        return reader.line;
    }
    reader.commands();
    reader.line
}

/// Words that may stand where a command is expected and are none.
const RESERVED: &[&str] = &[
    "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "select", "function", "coproc", "time", "[[", "]]",
];

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: Line,
    depth: usize,
    /// Where the command that is read now gets its input from.
    input: Input,
    /// The word that is read now names a function, and what stands behind it is run.
    names: bool,
    /// It stands behind `time`, which has options of its own.
    is_timed: bool,
    /// What `~` stands for is said in the line.
    home_moves: bool,
    /// Whether a `#` may be something else than the beginning of a comment.
    odd: Odd,
}

/// What is open in which a `#` need not begin a comment: `((1 # 2))`, `[[ a =~ ( # ) ]]`, `x=([ # ]=1)`, `x[ # ]=1`.
#[derive(Default)]
struct Odd {
    round: usize,
    square: usize,
    is_test: bool,
    /// Something of that sort began on this line. Where it ends is for the shell to know.
    is_line: bool,
}

/// Where a command reads from.
#[derive(Clone, Copy, Default, PartialEq)]
enum Input {
    /// A pipe, a file, or what everybody reads from.
    #[default]
    Elsewhere,
    /// A text in the line, which is looked into.
    Here,
}

/// A word as it is read.
#[derive(Default)]
struct Open {
    text: String,
    began: bool,
    quoted: bool,
    unclear: bool,
    /// How much of it is known to be its beginning.
    known: Option<usize>,
    /// It has a brace that may make several words of it.
    brace: bool,
    /// It begins with the sign for somebody's folder.
    tilde: bool,
}

impl Reader {
    /// The next character. A backslash before the end of a line joins it with the next one, wherever it stands; only in
    /// single quotes, in comments and behind another backslash it does not, and there [`raw`](Self::raw) reads.
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

    fn commands(&mut self) {
        let mut words: Vec<Word> = Vec::new();
        let mut word = Open::default();
        // Here-documents whose text begins with the next line.
        let mut here: Vec<Here> = Vec::new();
        while let Some(c) = self.next() {
            match c {
                '\\' | '\'' | '"' | '`' | '$' => self.marked(c, &mut word),
                '#' if !word.began => {
                    if self.odd.is_line {
                        self.line.doubt();
                    }
                    while self.chars.get(self.at).is_some_and(|c| *c != '\n') {
                        self.at += 1;
                    }
                }
                '<' | '>' => {
                    if self.peek() == Some('(') {
                        self.at += 1;
                        let inner = self.up_to(Bracket::Round, false);
                        self.inside(&inner);
                        word.unclear();
                        continue;
                    }
                    let number = word.take_number();
                    self.end_word(&mut word, &mut words);
                    self.redirection(c, number.as_deref(), &mut here);
                }
                '\n' => {
                    self.end_command(&mut word, &mut words);
                    self.odd.end_line();
                    for end in std::mem::take(&mut here) {
                        self.skip_here(&end);
                    }
                }
                '&' if self.peek() == Some('>') => {
                    self.end_word(&mut word, &mut words);
                    self.at += 1;
                    self.redirection('>', None, &mut here);
                }
                ';' | '&' | '|' => self.end_command(&mut word, &mut words),
                '(' | ')' => {
                    self.bracket(c, &word, &words);
                    self.end_command(&mut word, &mut words);
                }
                ' ' | '\t' => self.end_word(&mut word, &mut words),
                // What files and braces make of it is the shell's to know.
                '*' | '?' | '[' | ']' | '{' | '}' | '~' => {
                    self.odd.square(c, &word);
                    word.tilde |= c == '~' && !word.began;
                    word.push(c, false);
                    word.brace |= c == '{';
                    if "*?[".contains(c) {
                        word.unclear();
                    }
                }
                c => word.push(c, false),
            }
        }
        self.end_command(&mut word, &mut words);
    }

    /// At a round bracket, with what stands before it.
    fn bracket(&mut self, c: char, word: &Open, words: &[Word]) {
        if c == ')' {
            self.odd.round = self.odd.round.saturating_sub(1);
            return;
        }
        // `@(a)` is a pattern where the shell is told so.
        if word.text.ends_with(['?', '*', '+', '@', '!']) {
            self.line.doubt();
        }
        let is_behind = word.began || !words.is_empty();
        let is_function = is_behind && self.is_closed_at_once();
        if is_behind || self.peek() == Some('(') {
            self.line.is_more = true; // a function, an array, arithmetic, or something that this is no reader for
        }
        if self.odd.is_open() || (is_behind && !is_function) || self.peek() == Some('(') {
            self.odd.round += 1;
            self.odd.is_line = true;
        }
    }

    /// Whether nothing stands in the bracket that was opened.
    fn is_closed_at_once(&self) -> bool {
        self.chars[self.at..].iter().find(|c| !matches!(c, ' ' | '\t')) == Some(&')')
    }

    fn end_word(&mut self, word: &mut Open, words: &mut Vec<Word>) {
        let mut word = std::mem::take(word);
        if !word.began {
            return;
        }
        word.unclear |= word.brace && (word.text.contains(',') || word.text.contains(".."));
        if word.tilde && self.home_moves {
            word.unclear();
        }
        // What substitutes there when somebody evaluates the word, as arithmetic does with the values of names.
        if word.quoted && (word.text.contains("$(") || word.text.contains('`')) {
            self.inside(&word.text);
        }
        self.assigned(&word, words);
        self.odd.test(&word);
        if self.is_name(&word, words) {
            words.clear();
        }
        if words.is_empty() && !word.quoted {
            // `{` alone is a bracket, and no expansion.
            if RESERVED.contains(&word.text.as_str()) {
                self.line.is_more = true;
                self.names |= matches!(word.text.as_str(), "function" | "coproc");
                self.is_timed = word.text == "time";
                if matches!(word.text.as_str(), "for" | "case" | "select") {
                    words.push(Word::Plain(word.text)); // what stands behind it is not run
                }
                return;
            }
            if is_assignment(&word.text) || (self.is_timed && matches!(word.text.as_str(), "-p" | "--")) {
                self.line.is_more = true;
                return;
            }
        }
        let is_plain = !word.unclear || word.text == "[";
        words.push(if is_plain { Word::Plain(word.text) } else { Word::Unclear });
    }

    /// Whether what was read so far is a name, of a function or behind `for`, and the word begins what is run.
    fn is_name(&self, word: &Open, words: &[Word]) -> bool {
        let is_reserved = !word.quoted && RESERVED.contains(&word.text.as_str());
        let loops = words.first().is_some_and(|first| matches!(first.plain(), Some("for" | "select")));
        is_reserved && ((self.names && words.len() == 1) || (loops && words.len() == 2))
    }

    /// Looks at what a word assigns, if it does: a value may be run, and so may one under a name that is not known.
    fn assigned(&mut self, word: &Open, words: &[Word]) {
        let known = &word.text[..word.known.unwrap_or(word.text.len())];
        if is_assignment(known) {
            let (name, value) = word.text.split_once('=').expect("an assignment has one");
            match LINES.contains(&name.trim_end_matches('+')) {
                true if word.unclear => self.line.doubt(),
                true => self.inside(value),
                false => {}
            }
        } else if word.unclear {
            let first = words.first().and_then(Word::plain);
            let second = words.get(1).and_then(Word::plain);
            if first.is_some_and(|first| ASSIGN.contains(&first))
                || (first, second, words.len()) == (Some("printf"), Some("-v"), 2)
            {
                self.line.doubt();
            }
        }
    }

    fn end_command(&mut self, word: &mut Open, words: &mut Vec<Word>) {
        self.end_word(word, words);
        let words = std::mem::take(words);
        let input = std::mem::take(&mut self.input);
        (self.names, self.is_timed) = (false, false);
        if words.is_empty() {
            return;
        }
        let found = programs::find(&words, input == Input::Here);
        for line in &found.lines {
            self.inside(line);
        }
        if found.is_unclear {
            self.line.doubt();
        }
        let at = self.line.commands.len();
        self.line.scripts.extend(found.scripts.into_iter().map(|script| (at, script)));
        self.line.paths.extend(found.paths.into_iter().map(|path| (at, path)));
        self.line.greets |= found.greets;
        self.line.commands.push(words);
    }

    /// A line within this one.
    fn inside(&mut self, text: &str) {
        // Where brackets in it may not be what they look like, its end may be elsewhere.
        if ["#", "<<", "$'", "case"].iter().any(|sign| text.contains(sign)) {
            self.line.doubt();
        }
        let inner = read_at(text, self.depth + 1, self.home_moves);
        let before = self.line.commands.len();
        self.line.commands.extend(inner.commands);
        self.line.scripts.extend(inner.scripts.into_iter().map(|(at, name)| (before + at, name)));
        self.line.paths.extend(inner.paths.into_iter().map(|(at, name)| (before + at, name)));
        self.line.written.extend(inner.written);
        self.line.greets |= inner.greets;
        self.line.writes_somewhere |= inner.writes_somewhere;
        self.line.is_more = true;
    }

    /// Behind a sign that makes something else of what follows.
    fn marked(&mut self, sign: char, word: &mut Open) {
        match sign {
            '\\' => match self.raw() {
                Some('\n') | None => {}
                Some(c) => word.push(c, true),
            },
            '\'' => {
                word.quote();
                while let Some(c) = self.raw().filter(|c| *c != '\'') {
                    word.push(c, true);
                }
            }
            '"' => self.double_quoted(word),
            '`' => self.backticks(word),
            _ => self.dollar(word, false),
        }
    }

    fn backticks(&mut self, word: &mut Open) {
        let inner = self.up_to_backtick();
        self.inside(&inner);
        word.unclear();
    }

    fn double_quoted(&mut self, word: &mut Open) {
        word.quote();
        while let Some(c) = self.next() {
            match c {
                '"' => return,
                '\\' => match self.raw() {
                    Some(c @ ('$' | '`' | '"' | '\\')) => word.push(c, true),
                    Some('\n') | None => {}
                    Some(c) => {
                        word.push('\\', true);
                        word.push(c, true);
                    }
                },
                '`' => self.backticks(word),
                '$' => self.dollar(word, true),
                c => word.push(c, true),
            }
        }
    }

    /// Behind a `$`.
    fn dollar(&mut self, word: &mut Open, quoted: bool) {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let inner = self.up_to(Bracket::Round, false);
                self.inside(&inner);
                word.unclear();
            }
            Some('{') => {
                // What stands in the braces may substitute, too.
                self.at += 1;
                let inner = self.up_to(Bracket::Curly, quoted);
                if inner.contains(['$', '`']) {
                    self.inside(&inner);
                }
                word.unclear();
                self.line.is_more = true;
            }
            // Arithmetic as it was once written: its brackets are its own.
            Some('[') => {
                word.unclear();
                self.line.doubt();
            }
            Some('"') if !quoted => {} // as if the `$` were not there
            // `$'\x67it'` writes letters by their numbers.
            Some('\'') if !quoted => {
                self.at += 1;
                while let Some(c) = self.raw().filter(|c| *c != '\'') {
                    if c == '\\' {
                        self.at += 1;
                    }
                }
                word.unclear();
                self.line.is_more = true;
            }
            Some(c) if c.is_alphanumeric() || "_@*#?-$!".contains(c) => {
                self.at += 1;
                while self.peek().is_some_and(|c| c.is_alphanumeric() || c == '_') {
                    self.at += 1;
                }
                word.unclear();
                self.line.is_more = true;
            }
            _ => word.push('$', quoted),
        }
    }

    /// Behind `<` or `>`, and a number before it: where to, or a text that follows.
    fn redirection(&mut self, arrow: char, number: Option<&str>, here: &mut Vec<Here>) {
        let is_input = number.map_or(arrow == '<', |number| number.trim_start_matches('0').is_empty());
        if is_input {
            self.input = Input::Elsewhere;
        }
        if arrow == '<' && self.takes("<<") {
            self.line.is_more = true; // a here-string: its word is data, and may be a script
            if let Some(text) = self.target() {
                self.inside(&text);
                self.input = if is_input { Input::Here } else { self.input };
            }
            return;
        }
        if arrow == '<' && self.takes("<") {
            self.input = if is_input { Input::Here } else { self.input };
            let tabs = self.takes("-");
            self.peek();
            let from = self.at;
            let end = self.target();
            // The shell takes a `$x` there as it stands.
            if end.is_none() {
                self.line.doubt();
            }
            let quoted = self.chars[from..self.at].iter().any(|c| "'\"\\".contains(*c));
            here.push(Here { end: end.unwrap_or_default(), tabs, quoted });
            self.line.is_more = true;
            return;
        }
        self.line.is_more |= arrow == '<' && self.peek() == Some('>'); // `<>` writes as well
        let copies = self.takes("&");
        let _ = self.takes(">") || self.takes("|");
        let target = self.target();
        let is_number =
            |text: &str| text == "-" || (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit()));
        let harmless =
            target.as_deref().is_some_and(|target| target == "/dev/null" || (copies && is_number(target)));
        self.line.is_more |= arrow == '>' && !harmless;
        self.line.is_more |= target.is_none();
        if arrow == '>' && !harmless {
            self.line.writes_somewhere |= target.is_none();
            self.line.written.extend(target.map(|target| base(&target).to_owned()));
        }
    }

    /// The word behind an arrow; nothing where it is unclear.
    fn target(&mut self) -> Option<String> {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        let mut word = Open::default();
        while let Some(c) = self.peek().filter(|c| !" \t\n;&|()<>".contains(*c)) {
            self.at += 1;
            match c {
                '\\' | '\'' | '"' | '`' | '$' => self.marked(c, &mut word),
                c => word.push(c, false),
            }
        }
        (!word.unclear).then_some(word.text)
    }

    /// Skips a here-document. What it substitutes is run as well.
    fn skip_here(&mut self, here: &Here) {
        let mut body = String::new();
        while self.at < self.chars.len() {
            let mut line = String::new();
            while let Some(c) = self.raw().filter(|c| *c != '\n') {
                match c {
                    // Where the text substitutes, lines are joined, those that look like its end as well.
                    '\\' if !here.quoted => match self.raw() {
                        Some('\n') | None => {}
                        Some(next) => line.extend([c, next]),
                    },
                    c => line.push(c),
                }
            }
            let bare = if here.tabs { line.trim_start_matches('\t') } else { &line };
            if bare == here.end {
                break;
            }
            body.push_str(&line);
            body.push('\n');
        }
        // It may be a script for a shell, and it may substitute: both are looked into.
        self.inside(&body);
    }

    fn up_to_backtick(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.next().filter(|c| *c != '`') {
            match c {
                '\\' => text.extend(self.raw()),
                c => text.push(c),
            }
        }
        text
    }

    /// The text up to the bracket that closes what was opened, in double quotes or not.
    fn up_to(&mut self, bracket: Bracket, quoted: bool) -> String {
        let mut text = String::new();
        self.copy(&mut text, bracket, quoted, self.depth);
        text
    }

    /// Copies what stands in brackets or in double quotes: what stands in there has brackets and quotes of its own.
    fn copy(&mut self, text: &mut String, bracket: Bracket, quoted: bool, depth: usize) {
        let (opens, closes) = bracket.signs();
        let mut open = 1;
        while let Some(c) = self.next() {
            open -= i32::from(c == closes);
            if open == 0 {
                return;
            }
            text.push(c);
            let inner = match c {
                '\\' => {
                    text.extend(self.raw());
                    continue;
                }
                '\'' if bracket != Bracket::Quotes => {
                    // In `"${x:-'}"` it may be a letter.
                    if quoted {
                        self.line.doubt();
                    }
                    while let Some(c) = self.raw() {
                        text.push(c);
                        if c == '\'' {
                            break;
                        }
                    }
                    continue;
                }
                '`' => {
                    while let Some(c) = self.raw() {
                        text.push(c);
                        match c {
                            '\\' => text.extend(self.raw()),
                            '`' => break,
                            _ => {}
                        }
                    }
                    continue;
                }
                '"' => Bracket::Quotes,
                '$' if self.takes("(") => Bracket::Round,
                '$' if self.takes("{") => Bracket::Curly,
                c if c == opens => {
                    // In `${x:-{}` the shell does not count it.
                    if bracket == Bracket::Curly {
                        self.line.doubt();
                    }
                    open += 1;
                    continue;
                }
                _ => continue,
            };
            if depth > DEEP {
                break;
            }
            let (opens, closes) = inner.signs();
            text.extend((inner != Bracket::Quotes).then_some(opens));
            let in_quotes = inner == Bracket::Curly && (quoted || bracket == Bracket::Quotes);
            self.copy(text, inner, in_quotes, depth + 1);
            text.push(closes);
        }
        // It does not end, as far as this reader sees.
        self.line.doubt();
    }
}

impl Odd {
    /// At a sign that may be a square bracket, with what stands before it. Only behind a name it holds more than letters.
    fn square(&mut self, c: char, word: &Open) {
        match c {
            '[' if self.square > 0 || word.began => {
                self.square += 1;
                self.is_line = true;
            }
            ']' => self.square = self.square.saturating_sub(1),
            _ => {}
        }
    }

    /// At the end of a word that may begin or end a test.
    fn test(&mut self, word: &Open) {
        match word.text.as_str() {
            "[[" if !word.quoted => (self.is_test, self.is_line) = (true, true),
            "]]" if !word.quoted => self.is_test = false,
            _ => {}
        }
    }

    fn is_open(&self) -> bool {
        self.is_test || self.round > 0 || self.square > 0
    }

    fn end_line(&mut self) {
        self.is_line = self.is_open();
    }
}

/// What has an end of its own.
#[derive(Clone, Copy, PartialEq)]
enum Bracket {
    Round,
    Curly,
    Quotes,
}

impl Bracket {
    fn signs(self) -> (char, char) {
        match self {
            Self::Round => ('(', ')'),
            Self::Curly => ('{', '}'),
            Self::Quotes => ('"', '"'),
        }
    }
}

impl Open {
    fn push(&mut self, c: char, quoted: bool) {
        self.text.push(c);
        self.began = true;
        self.quoted |= quoted;
    }

    fn quote(&mut self) {
        self.began = true;
        self.quoted = true;
    }

    fn unclear(&mut self) {
        self.began = true;
        self.unclear = true;
        self.known.get_or_insert(self.text.len());
    }

    /// The `2` of `2>` and the name of `{name}>`: they belong to the arrow, and are no word.
    fn take_number(&mut self) -> Option<String> {
        let name = self.text.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        let is_name = name
            .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_'));
        let is_number = self.began && self.text.chars().all(|c| c.is_ascii_digit());
        let takes = (is_number || is_name) && !self.quoted && !self.unclear;
        takes.then(|| std::mem::take(self).text)
    }
}

/// A here-document that is to come.
struct Here {
    /// The line that ends it.
    end: String,
    /// Tabs before its lines do not count.
    tabs: bool,
    /// Its text is taken as it stands.
    quoted: bool,
}
