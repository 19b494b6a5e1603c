//! Putting other names in the place of some, in a body that otherwise keeps its bytes.
//!
//! Start at [`Renames`]. A name may be cut up over the events of a stream. Where the new one is as long, it is
//! cut up in the same way; else the first event carries all of it and the others lose their piece.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::json::{Document, Edits, Value, escape_into};
use crate::pieces;

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

    /// What changes in a body: a stream of events, or anything else. Only what is said is looked at, no number.
    pub fn edits(&self, body: &[u8], is_stream: bool) -> Edits {
        let mut edits = Edits::default();
        let Some(search) = &self.search else { return edits };
        if !is_stream {
            let texts = match Document::parse(body) {
                Ok(document) => texts(document.root()),
                Err(_) => std::iter::once(0..body.len()).collect(),
            };
            for text in texts {
                for (range, pair) in self.found(search, &body[text.clone()]) {
                    let range = text.start + range.start..text.start + range.end;
                    edits.replace(range, escaped(&self.pairs[pair].1));
                }
            }
            return edits;
        }
        for text in pieces::texts(&pieces::events(false, body), body) {
            for (range, pair) in self.found(search, &text.bytes) {
                let (old, new) = &self.pairs[pair];
                place(&mut edits, text.parts(&range), old, new);
            }
        }
        edits
    }

    /// Where whole names stand.
    fn found<'t>(
        &'t self,
        search: &'t AhoCorasick,
        text: &'t [u8],
    ) -> impl Iterator<Item = (Range<usize>, usize)> + 't {
        let whole = |range: &Range<usize>| !touches_before(text, range.start) && !touches(text, range.end);
        search
            .find_iter(text)
            .map(|found| (found.range(), found.pattern().as_usize()))
            .filter(move |(range, _)| whole(range))
    }
}

/// Members of an answer in which nothing is said: the provider's own names, and what it counted.
const LABELS: [&str; 3] = ["id", "model", "usage"];

/// Where the texts of an answer stand, without their quotes.
fn texts(answer: Value<'_, '_>) -> Vec<Range<usize>> {
    let mut texts = Vec::new();
    let mut ahead = vec![answer];
    while let Some(value) = ahead.pop() {
        texts.extend(value.inner_span());
        ahead.extend(value.items());
        for member in value.members() {
            match member.name().as_ref() {
                // What a tool is called with may have any name.
                "input" => texts.extend(member.value.walk().iter().filter_map(Value::inner_span)),
                name if LABELS.contains(&name) => {}
                _ => ahead.push(member.value),
            }
        }
    }
    texts
}

/// The new name over the parts of the old one.
fn place(edits: &mut Edits, parts: Vec<Range<usize>>, old: &str, new: &str) {
    if old.len() == new.len() && new.bytes().all(is_word_or_slash) {
        let mut rest = new.as_bytes();
        for part in parts {
            let (here, more) = rest.split_at(part.len());
            edits.replace(part, here);
            rest = more;
        }
        return;
    }
    let mut with = escaped(new);
    for part in parts {
        edits.replace(part, std::mem::take(&mut with));
    }
}

fn escaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    escape_into(&mut out, text);
    out
}

/// What a name may be made of, so that a longer one is another one.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || byte >= 0x80
}

fn is_word_or_slash(byte: u8) -> bool {
    byte < 0x80 && (is_word(byte) || matches!(byte, b'/' | b'.'))
}

fn touches(text: &[u8], at: usize) -> bool {
    text.get(at).copied().is_some_and(is_word)
}

/// Whether a word goes on into the name that begins at `at`; the letter of an escape (`\n`) is none.
fn touches_before(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return false };
    let escape =
        before > 0 && text[before - 1] == b'\\' && matches!(text[before], b'n' | b'r' | b't' | b'b' | b'f');
    is_word(text[before]) && !escape
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
    fn names_may_change_places() {
        let body = r#"{"a":"one two one"}"#;
        assert_eq!(renamed(&[("one", "two"), ("two", "one")], body, false), r#"{"a":"two one two"}"#);
    }
}
