//! Replaces names in a body and leaves all other bytes unchanged.
//!
//! Start at [`Renames`]. A name may be split over the events of a stream. If the new name has the same length, it
//! is split in the same way. Otherwise the first event contains all of it, and the others lose their part.

use std::borrow::Cow;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::json::{self, Document, Edits, StringPiece, Value, ValueKind};
use crate::stream_text::{Framing, all_texts, split_events};

/// Old names and their replacements.
#[derive(Clone, Debug, Default)]
pub struct Renames {
    pairs: Vec<(String, String)>,
    search: Option<AhoCorasick>,
}

impl Renames {
    /// Creates renames from pairs of an old and a new name. If one old name starts with another, the longer one
    /// wins.
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

    /// Returns true if there is nothing to rename.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the edits of a body, which is a stream of events or a complete reply. Renames only in texts, and in
    /// numbers of a call's input that are named like ids.
    pub fn edits(&self, body: &[u8], is_stream: bool) -> Edits {
        let mut edits = Edits::default();
        let Some(search) = &self.search else { return edits };
        if is_stream {
            for text in all_texts(&split_events(Framing::ServerSentEvents, body), body) {
                let locate = |range: &Range<usize>| text.source_ranges(range);
                self.rename(search, &MappedText::inside_of(&text.bytes), &locate, &mut edits);
            }
            return edits;
        }
        let Ok(document) = Document::parse(body) else {
            self.rename(search, &MappedText::of(body), &|range| vec![range.clone()], &mut edits);
            return edits;
        };
        let (texts, inputs) = collect_texts(document.root());
        for text in texts {
            let locate = |range: &Range<usize>| {
                std::iter::once(text.start + range.start..text.start + range.end).collect()
            };
            self.rename(search, &MappedText::inside_of(&body[text.clone()]), &locate, &mut edits);
        }
        for number in inputs.into_iter().flat_map(id_numbers) {
            if let Some(new) = self.rename_number(&body[number.clone()]) {
                edits.replace(number, new);
            }
        }
        edits
    }

    /// Renames in one text. `locate` maps a range of the text to ranges of the body.
    fn rename(
        &self,
        search: &AhoCorasick,
        text: &MappedText<'_>,
        locate: &dyn Fn(&Range<usize>) -> Vec<Range<usize>>,
        edits: &mut Edits,
    ) {
        // The arguments of a call are JSON inside a string. Only the strings in them are texts.
        let Some(document) = text.is_json().then(|| Document::parse(&text.bytes).ok()).flatten() else {
            for (range, pair) in self.find_names(search, &text.bytes) {
                replace_parts(
                    edits,
                    locate(&text.written(&range)),
                    &escaped(&self.pairs[pair].1, text.depth),
                );
            }
            return;
        };
        for inside in document.root().walk().iter().filter_map(Value::inner_span) {
            let string = text.string(inside);
            for (range, pair) in self.find_names(search, &string.bytes) {
                replace_parts(
                    edits,
                    locate(&string.written(&range)),
                    &escaped(&self.pairs[pair].1, string.depth),
                );
            }
        }
        for number in id_numbers(document.root()) {
            if let Some(new) = self.rename_number(&text.bytes[number.clone()]) {
                replace_parts(edits, locate(&text.written(&number)), new.as_bytes());
            }
        }
    }

    /// Finds whole names.
    fn find_names<'t>(
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

    /// Returns the new name of a number, if it is a number, too.
    fn rename_number(&self, old: &[u8]) -> Option<&str> {
        let is_number = |name: &str| {
            !name.is_empty() && !name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit())
        };
        let pair = self.pairs.iter().find(|(name, _)| name.as_bytes() == old)?;
        (is_number(&pair.0) && is_number(&pair.1)).then_some(&pair.1)
    }
}

/// A text and the source offset of each of its bytes.
///
/// Names are searched for after unescaping: `\u00fc` is a letter, and the `n` of `\n` is not.
struct MappedText<'t> {
    bytes: Cow<'t, [u8]>,
    /// The source offset of each byte, and of the end. `None` if the text has no escapes.
    starts: Option<Vec<usize>>,
    /// Number of times that the text is escaped.
    depth: usize,
}

impl<'t> MappedText<'t> {
    /// Creates a text without escapes.
    fn of(bytes: &'t [u8]) -> Self {
        Self { bytes: Cow::Borrowed(bytes), starts: None, depth: 0 }
    }

    /// Creates the text of a JSON string from the content between its quotes.
    fn inside_of(string: &'t [u8]) -> Self {
        Self::of(string).unescaped()
    }

    /// Returns the text of a string in this text, which is JSON.
    fn string(&self, inside: Range<usize>) -> Self {
        let starts = (inside.start..=inside.end).map(|at| self.start(at)).collect();
        let bytes = Cow::Owned(self.bytes[inside].to_vec());
        Self { bytes, starts: Some(starts), depth: self.depth }.unescaped()
    }

    /// Returns true if the text is JSON, such as the arguments of a call.
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

    /// Maps a range of the text to its source.
    fn written(&self, range: &Range<usize>) -> Range<usize> {
        self.start(range.start)..self.start(range.end)
    }
}

/// Members that contain no text: the provider's own ids and names, and its counts.
const LABELS: [&str; 3] = ["id", "model", "usage"];

/// Returns the ranges of a reply's texts, without quotes, and the inputs of its calls.
fn collect_texts<'b, 'd>(reply: Value<'b, 'd>) -> (Vec<Range<usize>>, Vec<Value<'b, 'd>>) {
    let (mut texts, mut inputs) = (Vec::new(), Vec::new());
    let mut ahead = vec![reply];
    while let Some(value) = ahead.pop() {
        texts.extend(value.inner_span());
        ahead.extend(value.items());
        for member in value.members() {
            match member.name().as_ref() {
                // Members of a call's input may have any name.
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

/// Returns the ranges of the numbers in a call's input whose member is named like an id: `id`, `task_id`, `jobId`.
pub fn id_numbers(input: Value<'_, '_>) -> Vec<Range<usize>> {
    let is_id = |name: &str| name == "id" || name.ends_with("_id") || name.ends_with("Id");
    let members = input.walk().into_iter().flat_map(|value| value.members().collect::<Vec<_>>());
    let ids = members.filter(|member| member.value.kind() == ValueKind::Number && is_id(&member.name()));
    ids.map(|member| member.value.span()).collect()
}

/// Replaces the parts of an old name by the new one.
fn replace_parts(edits: &mut Edits, parts: Vec<Range<usize>>, new: &[u8]) {
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
    (0..times).fold(text.to_owned(), |text, _| string_content(&text)).into_bytes()
}

/// Returns the content between the quotes of a JSON string.
fn string_content(text: &str) -> String {
    let quoted = json::quote(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// Returns true for a byte of a name. A name next to such a byte is part of a longer name.
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
    fn a_name_of_equal_length_is_split_in_the_same_way() {
        let old = [delta(0, r#"{\"id\":\"ab12"#), delta(1, "ab12"), delta(0, r#"cd34\"}"#)].concat();
        let new = [delta(0, r#"{\"id\":\"wx98"#), delta(1, "ab12"), delta(0, r#"yz76\"}"#)].concat();
        assert_eq!(renamed(&[("ab12cd34", "wx98yz76")], &old, true), new);
    }

    #[test]
    fn a_name_of_another_length_is_in_the_first_event() {
        let old = [delta(0, r#"x\n/tmp/a"#), delta(0, "/b/c.rs /tmp/a/bc"), delta(0, " /tmp/a/b")].concat();
        let new = [delta(0, r#"x\n/home/you"#), delta(0, "/c.rs /tmp/a/bc"), delta(0, " /home/you")].concat();
        assert_eq!(renamed(&[("/tmp/a/b", "/home/you")], &old, true), new);
    }

    #[test]
    fn a_part_of_a_longer_word_is_not_renamed() {
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
    fn names_are_found_in_all_spellings() {
        let pairs = [("/w/j\u{fc}r/a1", "/w/b\"2"), ("a1b2c3", "99ff00aa")];
        for old in [r"/w/j\u00fcr/a1", r"\/w\/j\u00FCr\/a1", "/w/j\u{fc}r/a1"] {
            let body = format!(r#"{{"a":"see\n{old}","b":"\u003ea1b2c3\u003c \\na1b2c3"}}"#);
            let new = r#"{"a":"see\n/w/b\"2","b":"\u003e99ff00aa\u003c \\na1b2c3"}"#;
            assert_eq!(renamed(&pairs, &body, false), new, "{old}");
        }
        // Arguments are JSON in a string: text in them is escaped twice, and a number is no text.
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
