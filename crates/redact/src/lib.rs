//! Removes secrets from requests, responses, streams and files, and leaves all other bytes unchanged.
//!
//! Start at [`Redactor`] and its methods `redact_…`; [`RedactionWindow`] does the same for texts that are too long
//! for memory. Secrets are found by name (`Authorization`, `"api_key"`, `DB_PASSWORD=`), by shape (known key
//! formats), and by value: a value that was learned once is found again everywhere, also in base64, URL encoding,
//! JSON of any depth, HTML, UTF-16, and split over the events of a stream. Each becomes a placeholder, made with a
//! [`FingerprintKey`]. [`Redactor::report`] counts the matches. [`Redactor::find_residues`] checks the result with
//! another method, and [`Redactor::find_suspicions`] warns of random text.
//!
//! JSON stays valid JSON, and a stream keeps its events. This crate reads no file, no clock and no environment.

mod argv;
mod assign;
mod commands;
mod entities;
mod entropy;
mod examples;
mod header;
mod hit;
mod login;
mod logins;
mod looks;
mod names;
mod needles;
mod packed;
mod pem;
mod placeholder;
mod plain;
mod report;
mod residual;
mod runs;
mod search;
mod shapes;
mod sql;
mod sqlite;
mod stream;
mod triggers;
mod unpack;
mod url;
mod utf16;
mod values;
mod window;
mod wrapped;

use std::borrow::Cow;
use std::collections::BTreeSet;

pub use entropy::Suspicion;
use hit::Hit;
use names::Family;
pub use placeholder::FingerprintKey;
use plain::PlainText;
pub use report::{RedactionEntry, RedactionReport};
pub use residual::Residue;
use search::{RuleMatches, Search, SearchOptions};
pub use unpack::{is_binary, is_packed};
use utf16::Utf16Text;
pub use window::RedactionWindow;
use wire::encoding::{self, CodingError};
use wire::json::{Document, Edits};

/// The maximum decoded length of a compressed body. A longer one is searched in its compressed form only.
const MOST_DECODED: usize = 64 << 20;

/// The headers that describe a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyHints<'a> {
    /// `Content-Type`
    pub content_type: Option<&'a str>,
    /// `Content-Encoding`
    pub content_encoding: Option<&'a str>,
}

/// A redacted text.
#[derive(Clone, Debug)]
pub struct RedactedText<'a> {
    /// The redacted bytes.
    pub bytes: Cow<'a, [u8]>,
    /// True if the body was compressed and contained a secret. The bytes are then the decoded ones.
    pub decoded: bool,
    /// The edits, for mapping offsets. `None` if the bytes were decoded, because offsets of the original then have
    /// no meaning.
    pub edits: Option<Edits>,
    /// The part of the body that could not be searched, if any.
    pub unsearched: Option<SearchGap>,
}

/// The part of a body that could not be decoded for the search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchGap {
    /// Everything. The body was searched in its compressed form.
    #[error(transparent)]
    Everything(CodingError),
    /// The bytes after the compressed data. The body contained a secret, so only the decoded data is kept.
    #[error("the body continues after its {0} data; the rest is not stored")]
    Remainder(&'static str),
    /// Some parts, such as pictures and archives in an unknown format.
    #[error("it contains {0}")]
    Parts(String),
}

impl SearchGap {
    fn of(gaps: &BTreeSet<unpack::Gap>) -> Option<Self> {
        let parts = gaps.iter().copied().collect::<Vec<_>>().join(", ");
        (!parts.is_empty()).then_some(Self::Parts(parts))
    }
}

impl RedactedText<'_> {
    /// Returns true if nothing was found.
    pub fn is_clean(&self) -> bool {
        self.edits.as_ref().is_some_and(Edits::is_empty)
    }
}

/// Finds secrets, replaces them, and learns their values.
pub struct Redactor {
    search: Search,
    counts: report::Counts,
    late: bool,
    residual: residual::ResidueCache,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Creates a redactor with all rules and without learned values.
    pub fn new(key: FingerprintKey) -> Self {
        Self {
            search: Search::new(key),
            counts: report::Counts::default(),
            late: false,
            residual: residual::ResidueCache::default(),
        }
    }

    /// Learns the value of a secret name. From now on it is removed everywhere.
    ///
    /// Ignores values of less than eight bytes, and common words such as `password`.
    pub fn learn(&mut self, source: &str, value: &[u8]) {
        self.search.learn(source, value);
    }

    /// Learns the values of variables that have secret names, or that look like secrets.
    pub fn learn_env(&mut self, vars: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in vars {
            let source = format!("env {name}");
            match names::family(name.as_bytes()) {
                Some(family) if assign::is_secret(name.as_bytes(), family, value.as_bytes()) => {
                    self.search.learn_parts(&source, family, value.as_bytes());
                }
                None if names::may_be_key(name.as_bytes()) && looks::is_key(value.as_bytes()) => {
                    self.search.learn_parts(&source, Family::Key, value.as_bytes());
                }
                // A value with the shape of a secret is one, under any name.
                _ => drop(self.search.find_by_rule(
                    &source,
                    &PlainText::from_escaped(value.as_bytes()),
                    SearchOptions::default(),
                )),
            }
        }
    }

    /// Returns a number that grows with each learned value. Texts that were redacted before may contain the new
    /// value.
    pub fn generation(&self) -> u64 {
        self.search.generation
    }

    /// Reports matches as late from now on: the searched texts have been written before.
    pub fn set_late(&mut self, late: bool) {
        self.late = late;
    }

    /// Returns the report of all matches so far.
    pub fn report(&self) -> RedactionReport {
        self.counts.report()
    }

    /// Redacts a body.
    pub fn redact_body<'a>(
        &mut self,
        place: &str,
        hints: BodyHints<'_>,
        bytes: &'a [u8],
    ) -> RedactedText<'a> {
        let coding = hints.content_encoding.map(str::trim).filter(|coding| !coding.is_empty());
        let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case("identity")) else {
            return self.redact_as(place, TextFormat::of(hints.content_type, bytes), bytes);
        };
        match encoding::decode_partly(coding, bytes, MOST_DECODED) {
            Ok(decoded) => {
                let format = TextFormat::of(hints.content_type, &decoded.bytes);
                let found = self.redact_as(place, format, &decoded.bytes);
                if found.is_clean() {
                    // Data that cannot be decoded may be plain text.
                    let cut = !decoded.complete;
                    return if cut {
                        self.redact_as(place, TextFormat::Other, bytes)
                    } else {
                        RedactedText { unsearched: found.unsearched, ..RedactedText::untouched(bytes) }
                    };
                }
                // The result has no place for data that could not be decoded, so it is reported.
                let unsearched = decoded.trailing_after.map(SearchGap::Remainder).or(found.unsearched);
                let bytes = Cow::Owned(found.bytes.into_owned());
                RedactedText { bytes, decoded: true, edits: None, unsearched }
            }
            Err(error) => {
                let found = self.redact_as(place, TextFormat::of(hints.content_type, bytes), bytes);
                RedactedText { unsearched: Some(SearchGap::Everything(error)), ..found }
            }
        }
    }

    /// Redacts any other text, such as output or a file.
    pub fn redact_text<'a>(&mut self, place: &str, bytes: &'a [u8]) -> RedactedText<'a> {
        self.redact_as(place, TextFormat::of(None, bytes), bytes)
    }

    fn redact_as<'a>(&mut self, place: &str, format: TextFormat, bytes: &'a [u8]) -> RedactedText<'a> {
        let hits = self.find_hits(place, format, bytes);
        let unsearched = SearchGap::of(&std::mem::take(&mut self.search.gaps));
        if hits.is_empty() {
            return RedactedText { unsearched, ..RedactedText::untouched(bytes) };
        }
        self.count(place, &hits);
        let edits = hit::to_edits(&hits);
        let spliced = edits.apply(bytes).expect("settled hits do not overlap");
        RedactedText { bytes: Cow::Owned(spliced), decoded: false, edits: Some(edits), unsearched }
    }

    /// Finds secrets in a text. The hits are sorted and do not overlap.
    fn find_hits(&mut self, place: &str, format: TextFormat, bytes: &[u8]) -> Vec<Hit> {
        self.search.unpack_left = unpack::MOST_DECODED;
        match format {
            TextFormat::Events | TextFormat::Lines => {
                stream::find_hits(&mut self.search, place, &stream::events(format, bytes), bytes)
            }
            TextFormat::Items => {
                let items = stream::events(format, bytes);
                if items.is_empty() {
                    return self.find_in_text(place, format, bytes); // a part of an array
                }
                let mut hits = stream::find_hits(&mut self.search, place, &items, bytes);
                hits.extend(stream::find_in_nested_streams(&mut self.search, place, bytes));
                hit::merge_overlaps(hits)
            }
            TextFormat::Parameters | TextFormat::Other => self.find_in_text(place, format, bytes),
        }
    }

    fn find_in_text(&mut self, place: &str, format: TextFormat, bytes: &[u8]) -> Vec<Hit> {
        let text = PlainText::from_escaped(bytes);
        let options = SearchOptions { is_form: format == TextFormat::Parameters, ..SearchOptions::default() };
        let RuleMatches { mut hits, features } = self.search.find_by_rule(place, &text, options);
        let json = looks_json(bytes);
        if json && features.may_hold_stream {
            hits.extend(stream::find_in_nested_streams(&mut self.search, place, bytes));
        }
        if json && features.lists_tokens {
            hits.extend(stream::find_in_listed_tokens(&mut self.search, place, bytes));
        }
        if let Some(wide) = Utf16Text::decode(bytes) {
            let text = PlainText::from_escaped(wide.text.as_bytes());
            let found = self.search.find_by_rule(place, &text, options).hits;
            hits.extend(found.into_iter().map(|hit| Hit { range: wide.original(&hit.range), ..hit }));
        }
        hits.extend(self.search.find_by_value(place, &text, &features));
        hits.extend(self.search.find_in_binary(place, bytes));
        let hits = hit::merge_overlaps(hits);
        match (!hits.is_empty() && json).then(|| Document::parse(bytes)) {
            Some(Ok(document)) => hit::clip_to_json(&document, 0, hits),
            _ => hits,
        }
    }

    fn count(&mut self, place: &str, hits: &[Hit]) {
        for hit in hits {
            let source = hit.secret.map(|secret| self.search.values.secrets()[secret].source.as_str());
            self.counts.add(hit.rule, source, place, self.late);
        }
    }
}

impl<'a> RedactedText<'a> {
    fn untouched(bytes: &'a [u8]) -> Self {
        Self { bytes: Cow::Borrowed(bytes), decoded: false, edits: Some(Edits::default()), unsearched: None }
    }
}

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextFormat {
    /// Server-sent events.
    Events,
    /// One JSON text on each line.
    Lines,
    /// A JSON array of objects, which some providers send as a stream.
    Items,
    /// `a=1&b=2`
    Parameters,
    /// JSON, or any other format.
    Other,
}

impl TextFormat {
    fn of(content_type: Option<&str>, bytes: &[u8]) -> Self {
        let kind = content_type.unwrap_or_default().to_ascii_lowercase();
        let start = bytes.trim_ascii_start();
        if kind.contains("event-stream") || is_events(start) {
            Self::Events
        } else if kind.contains("x-www-form-urlencoded") {
            Self::Parameters
        } else if kind.contains("ndjson")
            || kind.contains("jsonl")
            || kind.contains("json-seq")
            || is_lines(start)
        {
            Self::Lines
        } else if start.strip_prefix(b"[").is_some_and(|items| items.trim_ascii_start().starts_with(b"{")) {
            Self::Items
        } else {
            Self::Other
        }
    }
}

/// Returns true if the first significant line is a field of an event.
fn is_events(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut rest = &text[..text.len().min(LONGEST_OPENING)];
    let begins = |rest: &[u8], any: &[&str]| any.iter().any(|field| rest.starts_with(field.as_bytes()));
    // Comments and reconnection fields may come before the first event.
    while begins(rest, &["\n", "\r", ":", "id:", "retry:"]) {
        let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else { return false };
        rest = &rest[end + 1..];
    }
    begins(rest, &["data:", "event:"])
}

/// The searched length for detecting a stream.
const LONGEST_OPENING: usize = 16 << 10;

/// Returns true if the first two lines are JSON objects.
fn is_lines(text: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'\n', text) else { return false };
    let [first, next] = [text[..end].trim_ascii(), text[end + 1..].trim_ascii_start()]
        .map(|line| line.strip_prefix(b"\x1e").unwrap_or(line));
    first.starts_with(b"{") && first.ends_with(b"}") && next.starts_with(b"{")
}

fn looks_json(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[' | b'"'))
}

#[cfg(test)]
mod tests;
