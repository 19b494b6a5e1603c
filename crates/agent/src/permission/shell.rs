//! What a command line would run, as far as that can be told without running it.
//!
//! This is no shell. It finds the simple commands of a line, those in substitutions and in `sh -c` included, and says of
//! every word whether it is what it looks like. Where it is in doubt, a word is unclear: rules that forbid take that as
//! "maybe", and rules that allow as "no".

/// How deep lines may stand in lines.
const DEEP: usize = 8;

/// A command line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Line {
    /// Its simple commands, in the order in which they begin.
    pub(super) commands: Vec<Vec<Word>>,
    /// Its text without quotes and what joins lines.
    bare: String,
    /// It does more than run them: it substitutes, loops, assigns, or writes to files.
    pub(super) is_more: bool,
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

/// Reads a command line.
pub(super) fn read(text: &str) -> Line {
    let bare = text.replace("\\\n", "").chars().filter(|c| !"'\"\\".contains(*c)).collect();
    Line { bare, ..read_at(text, 0) }
}

fn read_at(text: &str, depth: usize) -> Line {
    let mut reader = Reader {
        chars: text.chars().collect(),
        at: 0,
        line: Line::default(),
        depth,
        piped: false,
        fed: false,
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

/// Programs that read a command line from their arguments.
const SHELLS: &[&str] =
    &["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "eval", "su", "ssh", "watch", "script"];

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
    "parallel",
    "coproc",
];

/// Programs and options that run the program behind them.
const WRAPPERS: &[&str] = &[
    "env", "command", "exec", "builtin", "nohup", "sudo", "doas", "timeout", "nice", "ionice", "setsid",
    "stdbuf", "xargs", "parallel", "chroot", "unshare", "flock", "strace", "chrt", "taskset", "busybox",
    "eval", "-exec", "-execdir", "-ok", "-okdir",
];

/// What makes more of a word than the letters it has, where somebody reads it as a command.
const SIGNS: &[char] =
    &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', '{', '$', '`', '\'', '"', '\\', '*', '?', '['];

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: Line,
    depth: usize,
    /// What is read now gets its input from a command before it.
    piped: bool,
    /// Its input is a word that only the shell knows.
    fed: bool,
}

/// A word as it is read.
#[derive(Default)]
struct Open {
    text: String,
    began: bool,
    quoted: bool,
    unclear: bool,
    /// It has a brace that may make several words of it.
    brace: bool,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    fn takes(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        if found {
            self.at += text.chars().count();
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
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '<' | '>' => {
                    if self.peek() == Some('(') {
                        self.at += 1;
                        let inner = self.up_to('(', ')');
                        self.inside(&inner);
                        word.unclear();
                        continue;
                    }
                    // `2>` and the like: the number belongs to the arrow.
                    if word.text.chars().all(|c| c.is_ascii_digit()) && !word.quoted {
                        word = Open::default();
                    }
                    self.end_word(&mut word, &mut words);
                    self.redirection(c, &mut here);
                }
                '\n' => {
                    self.end_command(&mut word, &mut words);
                    for end in std::mem::take(&mut here) {
                        self.skip_here(&end);
                    }
                }
                '&' if self.peek() == Some('>') => {
                    self.end_word(&mut word, &mut words);
                    self.at += 1;
                    self.redirection('>', &mut here);
                }
                ';' | '&' | '|' | '(' | ')' => {
                    if c == '(' && (word.began || !words.is_empty()) {
                        self.line.is_more = true; // a function, an array, or something that this is no reader for
                    }
                    self.end_command(&mut word, &mut words);
                    // `||` is no pipe.
                    self.piped = c == '|' && !self.takes("|");
                }
                ' ' | '\t' => self.end_word(&mut word, &mut words),
                // What files and braces make of it is the shell's to know.
                '*' | '?' | '[' | '{' | '}' | '~' => {
                    word.push(c, false);
                    word.brace |= c == '{';
                    word.unclear |= "*?[".contains(c);
                }
                c => word.push(c, false),
            }
        }
        self.end_command(&mut word, &mut words);
    }

    fn end_word(&mut self, word: &mut Open, words: &mut Vec<Word>) {
        let mut word = std::mem::take(word);
        if !word.began {
            return;
        }
        word.unclear |= word.brace && (word.text.contains(',') || word.text.contains(".."));
        // What substitutes there when somebody evaluates the word, as arithmetic does with the values of names.
        if word.quoted && (word.text.contains("$(") || word.text.contains('`')) {
            self.inside(&word.text);
        }
        if words.is_empty() && !word.quoted {
            // `{` alone is a bracket, and no expansion.
            if RESERVED.contains(&word.text.as_str()) {
                self.line.is_more = true;
                if matches!(word.text.as_str(), "for" | "case" | "select") {
                    words.push(Word::Plain(word.text)); // what stands behind it is not run
                }
                return;
            }
            if is_assignment(&word.text) {
                self.line.is_more = true;
                return;
            }
        }
        let is_plain = !word.unclear || word.text == "[";
        words.push(if is_plain { Word::Plain(word.text) } else { Word::Unclear });
    }

    fn end_command(&mut self, word: &mut Open, words: &mut Vec<Word>) {
        self.end_word(word, words);
        let words = std::mem::take(words);
        let (piped, fed) = (std::mem::take(&mut self.piped), std::mem::take(&mut self.fed));
        if words.is_empty() {
            return;
        }
        let is_one =
            |known: &[&str], word: &Word| word.plain().is_some_and(|word| known.contains(&base(word)));
        // Behind `env` or `sudo`, too.
        let shell = words.iter().position(|word| is_one(SHELLS, word));
        if shell.is_some() || words.iter().any(|word| is_one(EVALUATE, word)) {
            for word in words.iter().skip(1) {
                match word {
                    Word::Plain(line) if line.contains(SIGNS) => self.inside(line),
                    Word::Unclear if shell.is_some() => self.doubt(),
                    _ => {}
                }
            }
        }
        if let Some(at) = shell {
            // `eval git push` puts its words together and reads them again.
            let rest: Vec<&str> = words[at + 1..].iter().filter_map(Word::plain).collect();
            if words[at].plain() == Some("eval") {
                self.inside(&rest.join(" "));
            }
            // Its commands come from where nobody looks.
            let has_own = rest.iter().any(|word| !word.starts_with('-') || word.contains('c'));
            if fed || (piped && (!has_own || rest.contains(&"-s"))) {
                self.doubt();
            }
        }
        if is_unclear_behind_wrappers(&words) {
            self.doubt();
        }
        self.line.commands.push(words);
    }

    /// Something is run, and only the shell knows what.
    fn doubt(&mut self) {
        self.line.commands.push(vec![Word::Unclear]);
        self.line.is_more = true;
    }

    /// A line within this one.
    fn inside(&mut self, text: &str) {
        // Where brackets in it may not be what they look like, its end may be elsewhere.
        if ["#", "<<", "$'", "case"].iter().any(|sign| text.contains(sign)) {
            self.doubt();
        }
        let inner = read_at(text, self.depth + 1);
        self.line.commands.extend(inner.commands);
        self.line.is_more = true;
    }

    /// Behind a sign that makes something else of what follows.
    fn marked(&mut self, sign: char, word: &mut Open) {
        match sign {
            '\\' => match self.next() {
                Some('\n') | None => {}
                Some(c) => word.push(c, true),
            },
            '\'' => {
                word.quote();
                while let Some(c) = self.next().filter(|c| *c != '\'') {
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
                '\\' => match self.next() {
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
                let inner = self.up_to('(', ')');
                self.inside(&inner);
                word.unclear();
            }
            Some('{') => {
                // What stands in the braces may substitute, too.
                self.at += 1;
                let inner = self.up_to('{', '}');
                if inner.contains(['$', '`']) {
                    self.inside(&inner);
                }
                word.unclear();
                self.line.is_more = true;
            }
            Some('"') if !quoted => {} // as if the `$` were not there
            // `$'\x67it'` writes letters by their numbers.
            Some('\'') if !quoted => {
                self.at += 1;
                while let Some(c) = self.next().filter(|c| *c != '\'') {
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

    /// Behind `<` or `>`: where to, or a text that follows.
    fn redirection(&mut self, arrow: char, here: &mut Vec<Here>) {
        if arrow == '<' && self.takes("<<") {
            self.line.is_more = true; // a here-string: its word is data, and may be a script
            match self.target() {
                Some(text) => self.inside(&text),
                None => self.fed = true,
            }
            return;
        }
        if arrow == '<' && self.takes("<") {
            let tabs = self.takes("-");
            let end = self.target().unwrap_or_default();
            here.push(Here { end, tabs });
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
            while let Some(c) = self.next().filter(|c| *c != '\n') {
                line.push(c);
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
                '\\' => text.extend(self.next()),
                c => text.push(c),
            }
        }
        text
    }

    /// The text up to the bracket that closes what was opened.
    fn up_to(&mut self, opens: char, closes: char) -> String {
        let (mut text, mut open, mut quote) = (String::new(), 1, None);
        while let Some(c) = self.next() {
            match (quote, c) {
                (Some('\''), '\'') => quote = None,
                (Some('\''), _) => {}
                (_, '\\') => {
                    text.push(c);
                    text.extend(self.next());
                    continue;
                }
                (Some(_), '"') => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, c) if c == opens => open += 1,
                (None, c) if c == closes => {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                }
                _ => {}
            }
            text.push(c);
        }
        text
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
    }
}

/// A here-document that is to come.
struct Here {
    /// The line that ends it.
    end: String,
    /// Tabs before its lines do not count.
    tabs: bool,
}

/// Whether the program behind `env`, `xargs` and the like is one that only the shell knows, or whoever writes what
/// `xargs` reads.
fn is_unclear_behind_wrappers(words: &[Word]) -> bool {
    let is_wrapper = |word: &Word| word.plain().is_some_and(|word| WRAPPERS.contains(&base(word)));
    let is_fed = |word: &Word| word.plain().is_some_and(|word| ["xargs", "parallel"].contains(&base(word)));
    let fed = words.iter().any(is_fed);
    words.iter().enumerate().filter(|(_, word)| is_wrapper(word)).any(|(at, _)| {
        let mut behind_option = false;
        for word in &words[at + 1..] {
            let Some(word) = word.plain() else { return true };
            let is_option = word.starts_with('-') || is_assignment(word);
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            // What stands behind an option may be its value.
            if !(is_option || is_number || behind_option) {
                return false;
            }
            behind_option = is_option;
        }
        fed && at + 1 == words.len()
    })
}

/// `NAME=value`, `NAME+=value`, `NAME[1]=value`
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.trim_end_matches('+');
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// A program's name without its folder.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
