//! Conversion of HTML to readable text. Headings, lists, links, tables and code stay; everything without words
//! is dropped.
//!
//! It works on a stream of tags without building a tree, so deep nesting costs no more than its length.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use html5ever::interface::TokenizerResult;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use url::Url;

/// Maximum size of the text. Links are written in full, so the text can be longer than the page.
const MAX_TEXT: usize = 1 << 20;
/// Maximum indentation of nested lists and quotes.
const MAX_INDENT: usize = 8;

/// Number of bytes between two checks of the time limit.
const CHUNK: usize = 4 * 1024;

/// Converts a page to text, with links resolved against `base`. Stops at `time_limit`.
///
/// The tokenizer compares each attribute of a tag with all earlier ones, so a tag of several megabytes would
/// take hours.
pub(super) fn to_text(html: &str, base: &Url, time_limit: Duration) -> String {
    let started = Instant::now();
    let tokenizer =
        Tokenizer::new(TokenWriter(RefCell::new(TextWriter::new(base))), TokenizerOpts::default());
    let input = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() && tokenizer.sink.0.borrow().out.len() <= MAX_TEXT {
        if started.elapsed() > time_limit {
            let read = html.len() - rest.len();
            let text = tokenizer.sink.0.into_inner().finish();
            return format!("{text}\n\n[cut: {read} of {} bytes could be read in time]", html.len());
        }
        let (piece, after) = rest.split_at(rest.floor_char_boundary(CHUNK));
        input.push_back(piece.into());
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        rest = after;
    }
    tokenizer.end();
    tokenizer.sink.0.into_inner().finish()
}

struct TokenWriter<'a>(RefCell<TextWriter<'a>>);

impl TokenSink for TokenWriter<'_> {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut writer = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(text) => writer.write_text(&text),
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => {
                writer.open(&tag);
                return raw_content(&tag);
            }
            Token::TagToken(tag) => writer.close(&tag.name),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

/// Tells the tokenizer which elements contain no markup.
fn raw_content(tag: &Tag) -> TokenSinkResult<()> {
    match &*tag.name {
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        "style" | "xmp" | "iframe" | "noembed" | "noframes" => TokenSinkResult::RawData(RawKind::Rawtext),
        "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
        "plaintext" => TokenSinkResult::Plaintext,
        _ => TokenSinkResult::Continue,
    }
}

/// Returns true for elements without readable content.
fn is_skipped(name: &str) -> bool {
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

/// Returns the number of line breaks around an element.
fn line_breaks(name: &str) -> usize {
    match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "table" | "pre"
        | "blockquote" | "hr" | "article" | "section" | "main" => 2,
        "div" | "li" | "tr" | "dt" | "dd" | "header" | "footer" | "nav" | "aside" | "form" | "fieldset"
        | "figure" | "figcaption" | "address" | "details" | "summary" | "caption" | "option" | "body"
        | "head" => 1,
        _ => 0,
    }
}

struct OpenLink {
    href: String,
    /// True once some text of the link was written.
    is_begun: bool,
}

struct TextWriter<'a> {
    base: &'a Url,
    out: String,
    title: String,
    in_title: bool,
    /// Line breaks to write before the next word.
    breaks: usize,
    /// True if a space comes before the next word.
    space: bool,
    /// Text to write before the next word on its line, such as a list marker.
    lead: String,
    /// Element whose content is skipped, and its nesting depth.
    skipped: Option<(String, usize)>,
    pre: usize,
    quotes: usize,
    /// Open lists, with a counter for numbered ones.
    lists: Vec<Option<u32>>,
    link: Option<OpenLink>,
    in_code: bool,
    cells: usize,
}

impl<'a> TextWriter<'a> {
    fn new(base: &'a Url) -> Self {
        Self {
            base,
            out: String::new(),
            title: String::new(),
            in_title: false,
            breaks: 0,
            space: false,
            lead: String::new(),
            skipped: None,
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
        if self.out.len() > MAX_TEXT {
            return;
        }
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth += usize::from(skipped == name && !tag.self_closing);
            return;
        }
        if is_skipped(name) {
            // Only foreign elements can close themselves.
            if !(tag.self_closing && matches!(name, "svg" | "math")) {
                self.skipped = Some((name.to_owned(), 1));
            }
            return;
        }
        self.require_breaks(line_breaks(name));
        match name {
            "title" => self.in_title = self.out.is_empty() && self.title.is_empty(),
            "br" => self.line_end(),
            "hr" => {
                self.write_word("---");
                self.require_breaks(2);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.lead = format!("{} ", "#".repeat(level));
            }
            "ul" => self.lists.push(None),
            "ol" => self.lists.push(Some(0)),
            "li" => self.begin_item(),
            "blockquote" => self.quotes += 1,
            "pre" => {
                self.pre += 1;
                if self.pre == 1 {
                    self.write_word("```");
                    self.require_breaks(1);
                }
            }
            "code" if self.pre == 0 && !self.in_code => {
                self.write_word("`");
                self.in_code = true;
            }
            "tr" => self.cells = 0,
            "td" | "th" => {
                if self.cells > 0 {
                    self.space = true;
                    self.write_word("|");
                    self.space = true;
                }
                self.cells += 1;
            }
            "a" => {
                self.end_link();
                self.link = attribute(tag, "href").and_then(|href| self.link_to(href));
            }
            "img" => {
                if let Some(alt) = attribute(tag, "alt").filter(|alt| !alt.trim().is_empty()) {
                    self.write_text(&format!("[image: {alt}]"));
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth -= usize::from(skipped == name);
            if *depth == 0 {
                self.skipped = None;
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
                    self.require_breaks(1);
                    self.write_word("```");
                }
            }
            "code" if std::mem::take(&mut self.in_code) => {
                self.space = false;
                self.write_word("`");
            }
            "a" => self.end_link(),
            _ => {}
        }
        // An empty heading leaves no marker.
        if line_breaks(name) > 0 {
            self.lead.clear();
        }
        self.require_breaks(line_breaks(name));
    }

    fn write_text(&mut self, text: &str) {
        if self.skipped.is_some() || self.out.len() > MAX_TEXT {
            return;
        }
        if self.in_title {
            return self.title.push_str(text);
        }
        if self.pre > 0 {
            return self.write_verbatim(text);
        }
        let mut words = text.split(char::is_whitespace);
        // Words are separated by one space, also at the ends of the text if it had one there.
        self.write_word(words.next().unwrap_or_default());
        for word in words {
            self.space = true;
            self.write_word(word);
        }
    }

    /// Writes text with its own line breaks.
    fn write_verbatim(&mut self, text: &str) {
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.line_end();
            }
            let line = line.trim_end_matches('\r');
            if !line.is_empty() {
                self.write_pending();
                self.out.extend(line.chars().filter(|c| *c == '\t' || !c.is_control()));
            }
        }
    }

    fn write_word(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        self.write_pending();
        self.out.extend(word.chars().filter(|c| !c.is_control()));
    }

    /// Writes breaks, spaces and markers that come before a word.
    fn write_pending(&mut self) {
        let at_start = self.out.is_empty();
        if self.breaks > 0 || at_start {
            if !at_start {
                self.out.push_str(&"\n".repeat(self.breaks));
            }
            self.out.push_str(&"> ".repeat(self.quotes.min(MAX_INDENT)));
            let depth = self.lists.len().saturating_sub(1).min(MAX_INDENT);
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

    fn require_breaks(&mut self, by: usize) {
        self.breaks = self.breaks.max(by);
    }

    /// Adds a line break. Empty lines are kept.
    fn line_end(&mut self) {
        self.breaks = (self.breaks + 1).min(2);
    }

    fn begin_item(&mut self) {
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

    /// Returns a link to another page.
    fn link_to(&self, href: &str) -> Option<OpenLink> {
        if href.starts_with('#') {
            return None;
        }
        let url = self.base.join(href).ok()?;
        matches!(url.scheme(), "http" | "https").then(|| OpenLink { href: url.into(), is_begun: false })
    }
}

fn attribute<'a>(tag: &'a Tag, name: &str) -> Option<&'a str> {
    tag.attrs.iter().find(|attribute| &*attribute.name.local == name).map(|attribute| &*attribute.value)
}
