//! Markdown as styled terminal text, rendered while it streams.
//!
//! Start at [`MarkdownStream`]. Text is returned as soon as its style is certain: a line of prose word by word, a span
//! such as `**bold**` when it is closed, a line of code when it ends, and a table when its last row has come.
//! Anything that is not understood stays as it was written.

use crate::style::Tone;
use crate::text::{columns, readable};

/// A span that is longer than this stays as it was written, so that a lone `*` does not hold back a paragraph.
const LONGEST_SPAN: usize = 300;

/// Renders the pieces of one Markdown text.
#[derive(Debug, Default)]
pub struct MarkdownStream {
    width: usize,
    /// Text that has come and is not rendered yet.
    pending: String,
    /// The rest of the current line is prose.
    is_in_line: bool,
    /// The last character of prose that was rendered.
    last: Option<char>,
    /// The line that opened a code block.
    fence: Option<String>,
    /// The rows of a table so far.
    table: Vec<String>,
}

impl MarkdownStream {
    /// Starts a text on a terminal of this width.
    pub fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// Takes the next piece; returns the text that became certain, escaped and styled.
    pub fn push(&mut self, piece: &str) -> String {
        self.pending += piece;
        self.render(false)
    }

    /// Returns the rest, and starts a new text.
    pub fn finish(&mut self) -> String {
        let mut text = self.render(true);
        text += &self.take_table();
        *self = Self::new(self.width);
        text
    }

    fn render(&mut self, is_end: bool) -> String {
        let mut out = String::new();
        while !self.pending.is_empty() {
            let taken = match self.is_in_line {
                true => self.inline(is_end, &mut out),
                false => self.line_start(is_end, &mut out),
            };
            if !taken {
                break;
            }
        }
        out
    }

    /// Renders a whole line, or the marker of a line of prose. Returns `false` if more text is needed.
    fn line_start(&mut self, is_end: bool, out: &mut String) -> bool {
        let line = match self.pending.find('\n') {
            Some(end) => Some(self.pending[..=end].to_owned()),
            None => is_end.then(|| self.pending.clone()),
        };
        let kind = LineKind::of(&self.pending, line.is_some(), self.fence.as_deref());
        if !matches!(kind, LineKind::Row | LineKind::Unknown) {
            *out += &self.take_table();
        }
        match (kind, line) {
            (LineKind::Prose { marker, shown }, _) => {
                *out += &shown;
                self.pending.drain(..marker);
                (self.is_in_line, self.last) = (true, None);
                true
            }
            (LineKind::Unknown, _) | (_, None) => false,
            (kind, Some(line)) => {
                self.pending.drain(..line.len());
                *out += &self.whole_line(kind, &line);
                true
            }
        }
    }

    fn whole_line(&mut self, kind: LineKind, line: &str) -> String {
        let text = line.trim_end_matches(['\n', '\r']);
        let end = &line[text.len()..];
        match kind {
            LineKind::Row => {
                self.table.push(line.to_owned());
                String::new()
            }
            LineKind::Heading => {
                let title = text.trim_start().trim_start_matches('#').trim();
                spans(title, Some(Tone::Strong)) + end
            }
            LineKind::FenceOpens => {
                self.fence = Some(text.trim().to_owned());
                Tone::Faint.paint(&readable(text)) + end
            }
            LineKind::FenceCloses => {
                self.fence = None;
                Tone::Faint.paint(&readable(text)) + end
            }
            _ => Tone::Code.paint(&readable(text)) + end,
        }
    }

    /// Renders prose up to the end of its line, or up to a span that is not closed yet.
    fn inline(&mut self, is_end: bool, out: &mut String) -> bool {
        let line_end = self.pending.find('\n');
        let line = &self.pending[..line_end.unwrap_or(self.pending.len())];
        let line = if line_end.is_some() { line.trim_end_matches('\r') } else { line };
        let (shown, used) = prose(line, self.last, None, is_end || line_end.is_some());
        *out += &shown;
        self.last = line[..used].chars().next_back().or(self.last);
        let is_done = used == line.len() && line_end.is_some();
        if let Some(end) = line_end.filter(|_| is_done) {
            *out += &self.pending[used..=end];
        }
        self.pending.drain(..line_end.filter(|_| is_done).map_or(used, |end| end + 1));
        self.is_in_line = !is_done;
        is_done
    }

    /// Renders the rows of a table that has ended: aligned, or as they came if that does not fit.
    fn take_table(&mut self) -> String {
        let rows = std::mem::take(&mut self.table);
        let cells: Vec<Vec<String>> = rows.iter().map(|row| split_row(row)).collect();
        let is_rule = |row: &Vec<String>| {
            row.iter().all(|cell| cell.contains('-') && cell.chars().all(|c| "-: ".contains(c)))
        };
        let Some((head, body)) = cells.split_first().filter(|(_, body)| body.first().is_some_and(is_rule))
        else {
            return rows.iter().map(|row| readable(row)).collect();
        };
        let mut shown = vec![head.iter().map(|cell| spans(cell, Some(Tone::Strong))).collect::<Vec<_>>()];
        shown.extend(body[1..].iter().map(|row| row.iter().map(|cell| spans(cell, None)).collect()));
        let count = shown.iter().map(Vec::len).max().unwrap_or_default();
        let column = |n: usize| shown.iter().filter_map(|row| row.get(n)).map(|cell| columns(cell)).max();
        let widths: Vec<usize> = (0..count).map(|n| column(n).unwrap_or_default()).collect();
        if widths.iter().sum::<usize>() + 2 * count > self.width {
            return rows.iter().map(|row| readable(row)).collect();
        }
        let pad = |(cell, width): (&String, &usize)| cell.clone() + &" ".repeat(width - columns(cell));
        let mut lines: Vec<String> = shown
            .iter()
            .map(|row| row.iter().zip(&widths).map(pad).collect::<Vec<_>>().join("  ").trim_end().to_owned())
            .collect();
        let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("  ");
        lines.insert(1, Tone::Faint.paint(&rule));
        lines.join("\n") + "\n"
    }
}

/// Kind of a line, as far as its beginning shows it.
enum LineKind {
    /// Not certain yet.
    Unknown,
    Heading,
    FenceOpens,
    FenceCloses,
    Code,
    Row,
    /// Text with spans, after a marker of so many bytes that is shown like this.
    Prose {
        marker: usize,
        shown: String,
    },
}

impl LineKind {
    fn of(text: &str, is_whole: bool, fence: Option<&str>) -> Self {
        let line = text.split('\n').next().unwrap_or_default();
        let content = line.trim_start_matches([' ', '\t']);
        let indent = line.len() - content.len();
        if let Some(fence) = fence {
            let mark = fence.chars().next().unwrap_or('`');
            let length = fence.chars().take_while(|c| *c == mark).count();
            let closes =
                content.trim_end().chars().count() >= length && content.trim_end().chars().all(|c| c == mark);
            return match (is_whole, closes) {
                (false, _) => LineKind::Unknown,
                (true, true) => LineKind::FenceCloses,
                (true, false) => LineKind::Code,
            };
        }
        let digits = content.chars().take_while(char::is_ascii_digit).count();
        let level = content.chars().take_while(|c| *c == '#').count();
        let prose = |marker: usize, shown: &str| {
            let shown = format!("{}{shown}", &line[..indent]);
            LineKind::Prose { marker: indent + marker, shown }
        };
        let after = |at: usize| content[at..].chars().next();
        match content.chars().next() {
            None if !is_whole => LineKind::Unknown,
            Some('|') => LineKind::Row,
            Some('`' | '~') if content.starts_with("```") || content.starts_with("~~~") => {
                LineKind::FenceOpens
            }
            Some('`' | '~') if !is_whole && content.len() < 3 => LineKind::Unknown,
            Some('#') if level <= 6 && after(level) == Some(' ') => LineKind::Heading,
            Some('#') if !is_whole && after(level).is_none() => LineKind::Unknown,
            Some('-' | '*' | '+') if after(1) == Some(' ') => prose(1, "•"),
            Some('-' | '*' | '+') if !is_whole && after(1).is_none() => LineKind::Unknown,
            Some('>') => prose(1, &Tone::Faint.paint("│")),
            Some('0'..='9') if content[digits..].starts_with(". ") => prose(digits + 1, &content[..=digits]),
            Some('0'..='9') if !is_whole && digits < 4 && content.len() <= digits + 1 => LineKind::Unknown,
            _ => prose(0, ""),
        }
    }
}

/// Renders a text that is complete.
fn spans(text: &str, base: Option<Tone>) -> String {
    prose(text, None, base, true).0
}

/// Renders prose and returns how many bytes of it are done. A span that is not closed is left for later, or shown as it
/// was written if nothing more follows.
fn prose(text: &str, mut last: Option<char>, base: Option<Tone>, is_whole: bool) -> (String, usize) {
    let (mut out, mut plain, mut at) = (String::new(), String::new(), 0);
    let flush = |plain: &mut String, out: &mut String| {
        let text = readable(&std::mem::take(plain));
        *out += &base.map_or_else(|| text.clone(), |tone| tone.paint(&text));
    };
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let step = match c {
            '\r' if !is_whole && rest.len() == 1 => break,
            '\\' if !is_whole && rest.len() == 1 => break,
            '\\' if rest[1..].starts_with(|c: char| c.is_ascii_punctuation()) => {
                plain.push_str(&rest[1..2]);
                2
            }
            '`' | '*' => match Span::of(rest, last) {
                Span::Closed { tone, mark, length } => {
                    flush(&mut plain, &mut out);
                    let content = &rest[mark..length - mark];
                    out += &match tone {
                        Tone::Code => Tone::Code.paint(&readable(content)),
                        tone => spans(content, Some(tone)),
                    };
                    length
                }
                Span::Open if !is_whole && rest.len() < LONGEST_SPAN => break,
                Span::Open | Span::None => {
                    let mark = rest.chars().take_while(|other| *other == c).count();
                    plain.push_str(&rest[..mark]);
                    mark
                }
            },
            c => {
                plain.push(c);
                c.len_utf8()
            }
        };
        at += step;
        last = text[..at].chars().next_back();
    }
    flush(&mut plain, &mut out);
    (out, at)
}

/// A piece of prose between two equal marks.
enum Span {
    /// Of so many bytes with both marks, each of which has so many.
    Closed { tone: Tone, mark: usize, length: usize },
    /// The second mark has not come yet.
    Open,
    /// The first mark opens nothing.
    None,
}

impl Span {
    /// Reads the span at the beginning of a text, which begins with a mark.
    fn of(text: &str, before: Option<char>) -> Self {
        let first = text.chars().next().unwrap_or(' ');
        let mark = text.chars().take_while(|c| *c == first).count();
        let tone = match (first, mark) {
            ('`', _) => Tone::Code,
            ('*', 1) => Tone::Emphasis,
            ('*', 2 | 3) => Tone::Strong,
            _ => return Span::None,
        };
        let Some(next) = text[mark..].chars().next() else { return Span::Open };
        // A product such as `2 * 3` or `2*3` is no emphasis.
        let is_product = mark == 1 && before.is_some_and(char::is_alphanumeric);
        let opens = tone == Tone::Code || !(next.is_whitespace() || is_product);
        if !opens {
            return Span::None;
        }
        let mut at = mark;
        while let Some(found) = text[at..].find(first) {
            let begin = at + found;
            let run = text[begin..].chars().take_while(|c| *c == first).count();
            let is_after_space = text[..begin].ends_with(char::is_whitespace);
            if run == mark && (tone == Tone::Code || !is_after_space) {
                return Span::Closed { tone, mark, length: begin + run };
            }
            at = begin + run;
        }
        Span::Open
    }
}

/// Splits a row of a table into its cells.
fn split_row(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = row.strip_suffix('|').filter(|row| !row.ends_with('\\')).unwrap_or(row);
    let mut cells = vec![String::new()];
    let mut is_escaped = false;
    for c in row.chars() {
        match (c, cells.last_mut()) {
            ('|', _) if !is_escaped => cells.push(String::new()),
            (c, Some(cell)) => {
                if c == '|' {
                    cell.pop();
                }
                cell.push(c);
            }
            (_, None) => {}
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::terminal::terminal_text;

    /// Shows styles as letters in angle brackets.
    fn marked(text: &str) -> String {
        let names = [(Tone::Strong, "b"), (Tone::Emphasis, "i"), (Tone::Code, "c"), (Tone::Faint, "f")];
        let mut text = text.replace("\u{1b}[0m", ">");
        for (tone, name) in names {
            let begin = tone.paint(" ").split(' ').next().unwrap_or_default().to_owned();
            text = text.replace(&begin, &format!("<{name} "));
        }
        text
    }

    fn rendered(pieces: &[&str]) -> String {
        let mut stream = MarkdownStream::new(60);
        let mut text: String = pieces.iter().map(|piece| stream.push(piece)).collect();
        text += &stream.finish();
        assert!(!terminal_text(&text, false).contains('\u{1b}'));
        marked(&text)
    }

    fn check(markdown: &str, expected: Expect) {
        let whole = rendered(&[markdown]);
        expected.assert_eq(&whole);
        let letters: Vec<String> = markdown.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(rendered(&letters), whole, "letter by letter");
    }

    #[test]
    fn blocks_are_rendered() {
        check(
            "## The *plan*\n\nUse `cargo test`, **always** and *soon*.\n\n- one\n  - two\n* three\n1. four\n12. five\n> said\n",
            expect![[r#"
                <b The ><i plan>

                Use <c cargo test>, <b always> and <i soon>.

                • one
                  • two
                • three
                1. four
                12. five
                <f │> said
            "#]],
        );
        check(
            "```rust\nlet x = **a;\n# no heading\n```\nafter\n",
            expect![[r#"
                <f ```rust>
                <c let x = **a;>
                <c # no heading>
                <f ```>
                after
            "#]],
        );
    }

    #[test]
    fn a_table_is_aligned_and_one_that_is_too_wide_stays_as_it_came() {
        check(
            "| name | what it does |\n|---|:--|\n| a | `x \\| y` |\n| bcdef | **all** |\nend",
            expect![[r#"
                <b name>   <b what it does>
                <f ─────  ────────────>
                a      <c x | y>
                bcdef  <b all>
                end"#]],
        );
        let wide = format!("| a | b |\n|---|---|\n| {} | x |\n", "w".repeat(70));
        assert_eq!(rendered(&[&wide]), wide);
        check(
            "| not a table\n",
            expect![[r#"
            | not a table
        "#]],
        );
    }

    #[test]
    fn text_that_only_looks_like_markdown_stays() {
        for text in [
            "2 * 3 * 4",
            "2*3*4",
            "a ** b",
            "*open",
            "`open",
            "#hashtag",
            "-5 °C",
            "1.5 m",
            "snake_case_name",
        ] {
            assert_eq!(rendered(&[text]), text);
        }
        assert_eq!(rendered(&["a \\*literal\\* star"]), "a *literal* star");
    }

    #[test]
    fn prose_streams_and_only_open_spans_wait() {
        let mut stream = MarkdownStream::new(60);
        assert_eq!(stream.push("Some words and **bo"), "Some words and ");
        assert_eq!(marked(&stream.push("ld** th")), "<b bold> th");
        assert_eq!(stream.push("en\r"), "en");
        assert_eq!(stream.push("\n"), "\r\n");
        let long = format!("*{}", "x".repeat(LONGEST_SPAN));
        assert_eq!(stream.push(&format!("a {long}")), format!("a {long}"));
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn hostile_text_sends_no_escape() {
        assert_eq!(
            rendered(&["`\u{1b}[2J` **\u{9b}1m** \u{1b}[31m"]),
            "<c \\u{1b}[2J> <b \\u{9b}1m> \\u{1b}[31m"
        );
    }
}
