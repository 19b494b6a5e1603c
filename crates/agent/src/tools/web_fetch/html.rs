//! HTML as text that reads well: headings, lists, links, tables and code stay, all that is not words goes.
//!
//! It goes from tag to tag without building a tree, so that no nesting costs more than its length.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use html5ever::interface::TokenizerResult;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use url::Url;

/// More than anybody is shown. Links are written out, so a page can come out longer than it was.
const LONGEST: usize = 1 << 20;
/// Deeper lists and quotes are not set in further.
const DEEPEST: usize = 8;

/// How much is read before we look at the clock.
const PIECE: usize = 4 * 1024;

/// The text of a page, with links as they are seen from `base`, as far as `patience` goes.
///
/// The tokenizer compares each attribute of a tag with all before it, so a tag of megabytes would take it hours.
pub(super) fn to_text(html: &str, base: &Url, patience: Duration) -> String {
    let started = Instant::now();
    let tokenizer = Tokenizer::new(Sink(RefCell::new(Writer::new(base))), TokenizerOpts::default());
    let input = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() && tokenizer.sink.0.borrow().out.len() <= LONGEST {
        if started.elapsed() > patience {
            let read = html.len() - rest.len();
            let text = tokenizer.sink.0.into_inner().finish();
            return format!("{text}\n\n[cut: {read} of {} bytes could be read in time]", html.len());
        }
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        input.push_back(piece.into());
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        rest = after;
    }
    tokenizer.end();
    tokenizer.sink.0.into_inner().finish()
}

struct Sink<'a>(RefCell<Writer<'a>>);

impl TokenSink for Sink<'_> {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut writer = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(text) => writer.text(&text),
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => {
                writer.open(&tag);
                return raw(&tag);
            }
            Token::TagToken(tag) => writer.close(&tag.name),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

/// Elements whose content is no markup.
fn raw(tag: &Tag) -> TokenSinkResult<()> {
    match &*tag.name {
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        "style" | "xmp" | "iframe" | "noembed" | "noframes" => TokenSinkResult::RawData(RawKind::Rawtext),
        "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
        "plaintext" => TokenSinkResult::Plaintext,
        _ => TokenSinkResult::Continue,
    }
}

/// Elements with nothing to read in them.
fn is_silent(name: &str) -> bool {
    matches!(
        name,
        "script"
            | "style"
            | "template"
            | "svg"
            | "math"
            | "iframe"
            | "noembed"
            | "noframes"
            | "object"
            | "canvas"
    )
}

/// How many line ends an element stands apart by.
fn distance(name: &str) -> usize {
    match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "table" | "pre"
        | "blockquote" | "hr" | "article" | "section" | "main" => 2,
        "div" | "li" | "tr" | "dt" | "dd" | "header" | "footer" | "nav" | "aside" | "form" | "fieldset"
        | "figure" | "figcaption" | "address" | "details" | "summary" | "caption" | "option" | "body"
        | "head" => 1,
        _ => 0,
    }
}

struct Link {
    href: String,
    /// Words of it have been written.
    is_begun: bool,
}

struct Writer<'a> {
    base: &'a Url,
    out: String,
    title: String,
    in_title: bool,
    /// Line ends that are due before the next word.
    breaks: usize,
    /// A space is due.
    space: bool,
    /// What stands before the next word on its line, such as a list's dash.
    lead: String,
    /// The element whose content is left out, and how often it is open.
    silent: Option<(String, usize)>,
    pre: usize,
    quotes: usize,
    /// Open lists; a number for those that count.
    lists: Vec<Option<u32>>,
    link: Option<Link>,
    in_code: bool,
    cells: usize,
}

impl<'a> Writer<'a> {
    fn new(base: &'a Url) -> Self {
        Self {
            base,
            out: String::new(),
            title: String::new(),
            in_title: false,
            breaks: 0,
            space: false,
            lead: String::new(),
            silent: None,
            pre: 0,
            quotes: 0,
            lists: Vec::new(),
            link: None,
            in_code: false,
            cells: 0,
        }
    }

    fn finish(mut self) -> String {
        self.end_link();
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = self.out.trim_end();
        match title.is_empty() {
            true => text.to_owned(),
            false => format!("Title: {title}\n\n{text}").trim_end().to_owned(),
        }
    }

    fn open(&mut self, tag: &Tag) {
        let name = &*tag.name;
        if self.out.len() > LONGEST {
            return;
        }
        if let Some((silent, depth)) = &mut self.silent {
            *depth += usize::from(silent == name && !tag.self_closing);
            return;
        }
        if is_silent(name) {
            // Only what is not HTML's own closes itself.
            if !(tag.self_closing && matches!(name, "svg" | "math")) {
                self.silent = Some((name.to_owned(), 1));
            }
            return;
        }
        self.apart(distance(name));
        match name {
            "title" => self.in_title = self.out.is_empty() && self.title.is_empty(),
            "br" => self.line_end(),
            "hr" => {
                self.word("---");
                self.apart(2);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.lead = format!("{} ", "#".repeat(level));
            }
            "ul" => self.lists.push(None),
            "ol" => self.lists.push(Some(0)),
            "li" => self.item(),
            "blockquote" => self.quotes += 1,
            "pre" => {
                self.pre += 1;
                if self.pre == 1 {
                    self.word("```");
                    self.apart(1);
                }
            }
            "code" if self.pre == 0 && !self.in_code => {
                self.word("`");
                self.in_code = true;
            }
            "tr" => self.cells = 0,
            "td" | "th" => {
                if self.cells > 0 {
                    self.space = true;
                    self.word("|");
                    self.space = true;
                }
                self.cells += 1;
            }
            "a" => {
                self.end_link();
                self.link = attribute(tag, "href").and_then(|href| self.leads_to(href));
            }
            "img" => {
                if let Some(alt) = attribute(tag, "alt").filter(|alt| !alt.trim().is_empty()) {
                    self.text(&format!("[image: {alt}]"));
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        if let Some((silent, depth)) = &mut self.silent {
            *depth -= usize::from(silent == name);
            if *depth == 0 {
                self.silent = None;
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "ul" | "ol" => {
                self.lists.pop();
            }
            "blockquote" => self.quotes = self.quotes.saturating_sub(1),
            "pre" if self.pre > 0 => {
                self.pre -= 1;
                if self.pre == 0 {
                    self.apart(1);
                    self.word("```");
                }
            }
            "code" if std::mem::take(&mut self.in_code) => {
                self.space = false;
                self.word("`");
            }
            "a" => self.end_link(),
            _ => {}
        }
        // A heading without words leaves none of its signs behind.
        if distance(name) > 0 {
            self.lead.clear();
        }
        self.apart(distance(name));
    }

    fn text(&mut self, text: &str) {
        if self.silent.is_some() || self.out.len() > LONGEST {
            return;
        }
        if self.in_title {
            return self.title.push_str(text);
        }
        if self.pre > 0 {
            return self.verbatim(text);
        }
        let mut words = text.split(char::is_whitespace);
        // Between two words there is a space; and at an end of the piece, where one stood there.
        self.word(words.next().unwrap_or_default());
        for word in words {
            self.space = true;
            self.word(word);
        }
    }

    /// Text whose lines are its own.
    fn verbatim(&mut self, text: &str) {
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.line_end();
            }
            let line = line.trim_end_matches('\r');
            if !line.is_empty() {
                self.begin();
                self.out.extend(line.chars().filter(|c| *c == '\t' || !c.is_control()));
            }
        }
    }

    fn word(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        self.begin();
        self.out.extend(word.chars().filter(|c| !c.is_control()));
    }

    /// Writes what is due before a word.
    fn begin(&mut self) {
        let at_start = self.out.is_empty();
        if self.breaks > 0 || at_start {
            if !at_start {
                self.out.push_str(&"\n".repeat(self.breaks));
            }
            self.out.push_str(&"> ".repeat(self.quotes.min(DEEPEST)));
            let depth = self.lists.len().saturating_sub(1).min(DEEPEST);
            self.out.push_str(&"  ".repeat(depth));
        } else if self.space && !self.out.ends_with(['\n', ' ']) {
            self.out.push(' ');
        }
        (self.breaks, self.space) = (0, false);
        self.out.push_str(&std::mem::take(&mut self.lead));
        if let Some(link) = self.link.as_mut().filter(|link| !link.is_begun) {
            link.is_begun = true;
            self.out.push('[');
        }
    }

    fn apart(&mut self, by: usize) {
        self.breaks = self.breaks.max(by);
    }

    /// One more line, also an empty one.
    fn line_end(&mut self) {
        self.breaks = (self.breaks + 1).min(2);
    }

    fn item(&mut self) {
        self.lead = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{number}. ")
            }
            _ => "- ".to_owned(),
        };
    }

    fn end_link(&mut self) {
        if let Some(link) = self.link.take().filter(|link| link.is_begun) {
            self.out.push_str(&format!("]({})", link.href));
        }
    }

    /// Where a link leads, where that is another page.
    fn leads_to(&self, href: &str) -> Option<Link> {
        if href.starts_with('#') {
            return None;
        }
        let url = self.base.join(href).ok()?;
        matches!(url.scheme(), "http" | "https").then(|| Link { href: url.into(), is_begun: false })
    }
}

fn attribute<'a>(tag: &'a Tag, name: &str) -> Option<&'a str> {
    tag.attrs.iter().find(|attribute| &*attribute.name.local == name).map(|attribute| &*attribute.value)
}
