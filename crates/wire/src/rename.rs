//! Putting other names in the place of some, in a body that otherwise keeps its bytes.
//!
//! Start at [`Renames`]. A name may be cut up over the events of a stream. Where the new one is as long, it is
//! cut up in the same way; else the first event carries all of it and the others lose their piece.

use std::borrow::Cow;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::json::{self, Document, Edits, StringPiece, Value, ValueKind};
use crate::stream_text::{Framing, all_texts, split_events};

/// Names and what comes in their place.
#[derive(Clone, Debug, Default)]
pub struct Renames {
    pairs: Vec<(String, String)>,
    search: Option<AhoCorasick>,
}

impl Renames {
    /// From pairs of an old name and a new one. Where one old name begins with another, the longer one is meant.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let pairs: Vec<(String, String)> =
            pairs.into_iter().filter(|(old, new)| !old.is_empty() && old != new).collect();
        let search = (!pairs.is_empty()).then(|| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(pairs.iter().map(|(old, _)| old))
                .expect("a few names make a small automaton")
        });
        Self { pairs, search }
    }

    /// Whether there is nothing to rename.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// What changes in a body: a stream of events, or anything else. Only what is said is looked at, and of numbers
    /// those in a call's input that are called ids.
    pub fn edits(&self, body: &[u8], is_stream: bool) -> Edits {
        let mut edits = Edits::default();
        let Some(search) = &self.search else { return edits };
        if is_stream {
            for text in all_texts(&split_events(Framing::ServerSentEvents, body), body) {
                let locate = |range: &Range<usize>| text.source_ranges(range);
                self.rename(search, &Plain::inside_of(&text.bytes), &locate, &mut edits);
            }
            return edits;
        }
        let Ok(document) = Document::parse(body) else {
            self.rename(search, &Plain::of(body), &|range| vec![range.clone()], &mut edits);
            return edits;
        };
        let (texts, inputs) = texts(document.root());
        for text in texts {
            let locate = |range: &Range<usize>| {
                std::iter::once(text.start + range.start..text.start + range.end).collect()
            };
            self.rename(search, &Plain::inside_of(&body[text.clone()]), &locate, &mut edits);
        }
        for number in inputs.into_iter().flat_map(numbers) {
            if let Some(new) = self.number(&body[number.clone()]) {
                edits.replace(number, new);
            }
        }
        edits
    }

    /// Renames in one text; `locate` says where a stretch of it stands in the body.
    fn rename(
        &self,
        search: &AhoCorasick,
        text: &Plain<'_>,
        locate: &dyn Fn(&Range<usize>) -> Vec<Range<usize>>,
        edits: &mut Edits,
    ) {
        // Arguments of a call are JSON in a text: of those, what is said.
        let Some(document) = text.is_json().then(|| Document::parse(&text.bytes).ok()).flatten() else {
            for (range, pair) in self.found(search, &text.bytes) {
                place(edits, locate(&text.written(&range)), &escaped(&self.pairs[pair].1, text.depth));
            }
            return;
        };
        for inside in document.root().walk().iter().filter_map(Value::inner_span) {
            let said = text.string(inside);
            for (range, pair) in self.found(search, &said.bytes) {
                place(edits, locate(&said.written(&range)), &escaped(&self.pairs[pair].1, said.depth));
            }
        }
        for number in numbers(document.root()) {
            if let Some(new) = self.number(&text.bytes[number.clone()]) {
                place(edits, locate(&text.written(&number)), new.as_bytes());
            }
        }
    }

    /// Where whole names stand.
    fn found<'t>(
        &'t self,
        search: &'t AhoCorasick,
        text: &'t [u8],
    ) -> impl Iterator<Item = (Range<usize>, usize)> + 't {
        let touches = |at: Option<usize>| at.and_then(|at| text.get(at)).copied().is_some_and(is_word);
        let whole =
            move |range: &Range<usize>| !touches(range.start.checked_sub(1)) && !touches(Some(range.end));
        search
            .find_iter(text)
            .map(|found| (found.range(), found.pattern().as_usize()))
            .filter(move |(range, _)| whole(range))
    }

    /// What a number becomes: another number.
    fn number(&self, old: &[u8]) -> Option<&str> {
        let is_number = |name: &str| {
            !name.is_empty() && !name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit())
        };
        let pair = self.pairs.iter().find(|(name, _)| name.as_bytes() == old)?;
        (is_number(&pair.0) && is_number(&pair.1)).then_some(&pair.1)
    }
}

/// A text, and where each of its bytes is written. Names are looked for in what is meant: `\u00fc` is a letter, and
/// the `n` of `\n` is none.
struct Plain<'t> {
    bytes: Cow<'t, [u8]>,
    /// Where each byte is written, and the end; nothing where that is the same place.
    starts: Option<Vec<usize>>,
    /// How many times it is escaped.
    depth: usize,
}

impl<'t> Plain<'t> {
    /// A text that is written as it is.
    fn of(bytes: &'t [u8]) -> Self {
        Self { bytes: Cow::Borrowed(bytes), starts: None, depth: 0 }
    }

    /// The text of a JSON string, from what stands between its quotes.
    fn inside_of(string: &'t [u8]) -> Self {
        Self::of(string).unescaped()
    }

    /// The text of a string in it, where it is JSON itself.
    fn string(&self, inside: Range<usize>) -> Self {
        let starts = (inside.start..=inside.end).map(|at| self.start(at)).collect();
        let bytes = Cow::Owned(self.bytes[inside].to_vec());
        Self { bytes, starts: Some(starts), depth: self.depth }.unescaped()
    }

    /// Whether it is JSON itself, as the arguments of a call are.
    fn is_json(&self) -> bool {
        let rest = self.bytes.trim_ascii_start().strip_prefix(b"{");
        self.depth > 0 && rest.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""))
    }

    fn unescaped(self) -> Self {
        let depth = self.depth + 1;
        let text = std::str::from_utf8(&self.bytes).ok().filter(|text| text.contains('\\'));
        let Some(text) = text else { return Self { depth, ..self } };
        let (mut bytes, mut starts) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
        for (range, piece) in json::string_pieces(text) {
            match piece {
                StringPiece::Plain(text) => {
                    bytes.extend_from_slice(text.as_bytes());
                    starts.extend(range);
                }
                StringPiece::Escaped(letter) => {
                    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                    starts.resize(bytes.len(), range.start);
                }
            }
        }
        starts.push(text.len());
        let starts = starts.into_iter().map(|at| self.start(at)).collect();
        Self { bytes: Cow::Owned(bytes), starts: Some(starts), depth }
    }

    fn start(&self, at: usize) -> usize {
        self.starts.as_ref().map_or(at, |starts| starts[at])
    }

    /// Where a stretch of it is written.
    fn written(&self, range: &Range<usize>) -> Range<usize> {
        self.start(range.start)..self.start(range.end)
    }
}

/// Members of an answer in which nothing is said: the provider's own names, and what it counted.
const LABELS: [&str; 3] = ["id", "model", "usage"];

/// Where the texts of an answer stand, without their quotes; and what calls are made with.
fn texts<'b, 'd>(answer: Value<'b, 'd>) -> (Vec<Range<usize>>, Vec<Value<'b, 'd>>) {
    let (mut texts, mut inputs) = (Vec::new(), Vec::new());
    let mut ahead = vec![answer];
    while let Some(value) = ahead.pop() {
        texts.extend(value.inner_span());
        ahead.extend(value.items());
        for member in value.members() {
            match member.name().as_ref() {
                // What a tool is called with may have any name.
                "input" => {
                    texts.extend(member.value.walk().iter().filter_map(Value::inner_span));
                    inputs.push(member.value);
                }
                name if LABELS.contains(&name) => {}
                _ => ahead.push(member.value),
            }
        }
    }
    (texts, inputs)
}

/// Where the numbers stand in what a call is made with that are called ids: `id`, `task_id`, `jobId`.
pub fn numbers(input: Value<'_, '_>) -> Vec<Range<usize>> {
    let is_id = |name: &str| name == "id" || name.ends_with("_id") || name.ends_with("Id");
    let members = input.walk().into_iter().flat_map(|value| value.members().collect::<Vec<_>>());
    let ids = members.filter(|member| member.value.kind() == ValueKind::Number && is_id(&member.name()));
    ids.map(|member| member.value.span()).collect()
}

/// The new name over the parts of the old one.
fn place(edits: &mut Edits, parts: Vec<Range<usize>>, new: &[u8]) {
    if parts.iter().map(Range::len).sum::<usize>() == new.len() && new.iter().copied().all(is_word_or_slash) {
        let mut rest = new;
        for part in parts {
            let (here, more) = rest.split_at(part.len());
            edits.replace(part, here);
            rest = more;
        }
        return;
    }
    let mut with = new.to_vec();
    for part in parts {
        edits.replace(part, std::mem::take(&mut with));
    }
}

fn escaped(text: &str, times: usize) -> Vec<u8> {
    (0..times).fold(text.to_owned(), |text, _| inside(&text)).into_bytes()
}

/// What stands between the quotes of a JSON string.
fn inside(text: &str) -> String {
    let quoted = json::quote(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// What a name may be made of, so that a longer one is another one.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || byte >= 0x80
}

fn is_word_or_slash(byte: u8) -> bool {
    byte < 0x80 && (is_word(byte) || matches!(byte, b'/' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(pairs: &[(&str, &str)], body: &str, is_stream: bool) -> String {
        let renames = Renames::new(pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())));
        let bytes = renames.edits(body.as_bytes(), is_stream).apply(body.as_bytes()).expect("no overlap");
        String::from_utf8(bytes).expect("still text")
    }

    fn delta(index: usize, text: &str) -> String {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{index},\
             \"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{text}\"}}}}\n\n"
        )
    }

    #[test]
    fn as_long_it_is_cut_up_in_the_same_way() {
        let old = [delta(0, r#"{\"id\":\"ab12"#), delta(1, "ab12"), delta(0, r#"cd34\"}"#)].concat();
        let new = [delta(0, r#"{\"id\":\"wx98"#), delta(1, "ab12"), delta(0, r#"yz76\"}"#)].concat();
        assert_eq!(renamed(&[("ab12cd34", "wx98yz76")], &old, true), new);
    }

    #[test]
    fn of_another_length_the_first_event_carries_it() {
        let old = [delta(0, r#"x\n/tmp/a"#), delta(0, "/b/c.rs /tmp/a/bc"), delta(0, " /tmp/a/b")].concat();
        let new = [delta(0, r#"x\n/home/you"#), delta(0, "/c.rs /tmp/a/bc"), delta(0, " /home/you")].concat();
        assert_eq!(renamed(&[("/tmp/a/b", "/home/you")], &old, true), new);
    }

    #[test]
    fn a_longer_word_is_another_one() {
        let body = r#"{"a":"id7 id77 xid7 id7.out","b":"id7"}"#;
        assert_eq!(renamed(&[("id7", "q")], body, false), r#"{"a":"q id77 xid7 q.out","b":"q"}"#);
        assert_eq!(renamed(&[("id7", "id7")], body, false), body);
    }

    #[test]
    fn numbers_and_labels_of_a_whole_answer_stay() {
        let old = r#"{"id":"4711","model":"x 4711","content":[{"text":"see 4711"},{"id":"4711","input":{"id":"4711","n":4711}}],
            "usage":{"input_tokens":4711,"tier":"4711"}}"#;
        let new = r#"{"id":"4711","model":"x 4711","content":[{"text":"see job-77"},{"id":"4711","input":{"id":"job-77","n":4711}}],
            "usage":{"input_tokens":4711,"tier":"4711"}}"#;
        assert_eq!(renamed(&[("4711", "job-77")], old, false), new);
        assert_eq!(renamed(&[("4711", "job-77")], "no JSON: 4711", false), "no JSON: job-77");
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        let pairs = [("/w/j\u{fc}r/a1", "/w/b\"2"), ("a1b2c3", "99ff00aa")];
        for old in [r"/w/j\u00fcr/a1", r"\/w\/j\u00FCr\/a1", "/w/j\u{fc}r/a1"] {
            let body = format!(r#"{{"a":"see\n{old}","b":"\u003ea1b2c3\u003c \\na1b2c3"}}"#);
            let new = r#"{"a":"see\n/w/b\"2","b":"\u003e99ff00aa\u003c \\na1b2c3"}"#;
            assert_eq!(renamed(&pairs, &body, false), new, "{old}");
        }
        // Arguments are JSON in a string: what is escaped there is escaped once more, and a number is none of their texts.
        let old = [delta(0, r#"{\"p\":\"x\\na1b2"#), delta(0, r#"c3 /w/j\\u00fc"#), delta(0, r#"r/a1\"}"#)]
            .concat();
        let new =
            [delta(0, r#"{\"p\":\"x\\n99ff00aa"#), delta(0, r#" /w/b\\\"2"#), delta(0, r#"\"}"#)].concat();
        assert_eq!(renamed(&pairs, &old, true), new);
    }

    #[test]
    fn a_number_that_is_called_an_id_becomes_a_number() {
        let pairs = [("4711", "9001"), ("4712", "job-77")];
        let old = r#"{"content":[{"input":{"id":4711,"task_id":4712,"lines":4711,"in":[{"jobId":4711}]}}]}"#;
        let new = r#"{"content":[{"input":{"id":9001,"task_id":4712,"lines":4711,"in":[{"jobId":9001}]}}]}"#;
        assert_eq!(renamed(&pairs, old, false), new);
        let old = [delta(0, r#"{\"id\":47"#), delta(0, r#"11,\"lines\":4711}"#)].concat();
        let new = [delta(0, r#"{\"id\":90"#), delta(0, r#"01,\"lines\":4711}"#)].concat();
        assert_eq!(renamed(&pairs, &old, true), new);
    }

    #[test]
    fn names_may_change_places() {
        let body = r#"{"a":"one two one"}"#;
        assert_eq!(renamed(&[("one", "two"), ("two", "one")], body, false), r#"{"a":"two one two"}"#);
    }
}
