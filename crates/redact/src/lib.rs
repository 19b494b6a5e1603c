//! Secrets out, everything else untouched.
//!
//! Start at [`Redactor`]. It finds secrets by name (`Authorization`, `"api_key"`, `DB_PASSWORD=`),
//! by shape (known key formats), and by value: what was once seen under a secret name is found again
//! anywhere, also in base64, in lines or not, URL-encoded, escaped in JSON at any depth or in HTML, in
//! UTF-16, or cut up over the deltas of a stream. A [`RedactionWindow`] does the same for bytes that are too many to hold.
//!
//! An edit is a splice, so all other bytes stay as they were, JSON stays JSON, and a stream keeps its
//! events. Nothing here reads a file, a clock or the environment.

mod argv;
mod assign;
mod entities;
mod entropy;
mod examples;
mod header;
mod hit;
mod login;
mod looks;
mod names;
mod needles;
mod pem;
mod placeholder;
mod plain;
mod report;
mod residual;
mod search;
mod shapes;
mod stream;
mod triggers;
mod url;
mod values;
mod window;
mod wrapped;

use std::borrow::Cow;

pub use entropy::Suspicion;
use hit::Hit;
use names::Family;
pub use placeholder::FingerprintKey;
use plain::Plain;
pub use report::{RedactionEntry, RedactionReport};
pub use residual::Residue;
use search::{Ruled, Search, Terms};
pub use window::RedactionWindow;
use wire::encoding::{self, CodingError};
use wire::json::{Document, Edits};

/// A compressed body that unpacks to more than this is not searched.
const MOST_DECODED: usize = 64 << 20;

/// What the headers say of a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyHints<'a> {
    /// `Content-Type`
    pub content_type: Option<&'a str>,
    /// `Content-Encoding`
    pub content_encoding: Option<&'a str>,
}

/// A text without its secrets.
#[derive(Clone, Debug)]
pub struct RedactedText<'a> {
    /// What may be kept.
    pub bytes: Cow<'a, [u8]>,
    /// The body was compressed and held a secret: these bytes are the decoded ones.
    pub decoded: bool,
    /// What was spliced, to shift offsets with; `None` where `decoded`, for then no byte of the
    /// original has a place in the result.
    pub edits: Option<Edits>,
    /// Why the body could only be searched as it stands, or in part, if so.
    pub unsearched: Option<SearchGap>,
}

/// What of a body was not unpacked to be searched, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchGap {
    /// All of it: it was searched as it stands.
    #[error(transparent)]
    Everything(CodingError),
    /// What follows the part in that coding; the body held a secret, so only that part is kept.
    #[error("behind its {0} the body goes on, and that part is not kept")]
    Remainder(&'static str),
}

impl RedactedText<'_> {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.edits.as_ref().is_some_and(Edits::is_empty)
    }
}

/// Finds secrets and takes them out, and learns from what it finds.
pub struct Redactor {
    search: Search,
    counts: report::Counts,
    late: bool,
    residual: residual::Cache,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

impl Redactor {
    /// A redactor that knows the rules and no values yet.
    pub fn new(key: FingerprintKey) -> Self {
        Self {
            search: Search::new(key),
            counts: report::Counts::default(),
            late: false,
            residual: residual::Cache::default(),
        }
    }

    /// Learns a value that stands under a secret name: from now on it is removed everywhere.
    ///
    /// Values of less than eight bytes, and words that are no secret (`password`), are ignored.
    pub fn learn(&mut self, source: &str, value: &[u8]) {
        self.search.learn(source, value);
    }

    /// Learns the values of those variables that are named like secrets, or look like one.
    pub fn learn_env(&mut self, vars: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in vars {
            let source = format!("env {name}");
            match names::family(name.as_bytes()) {
                Some(family) if assign::is_secret(name.as_bytes(), family, value.as_bytes()) => {
                    self.search.learn_parts(&source, family, value.as_bytes());
                }
                None if names::may_be_key(name.as_bytes()) && looks::key(value.as_bytes()) => {
                    self.search.learn_parts(&source, Family::Key, value.as_bytes());
                }
                // What looks like a secret is one, whatever it is called.
                _ => {
                    drop(self.search.by_rule(&source, &Plain::of_escaped(value.as_bytes()), Terms::default()))
                }
            }
        }
    }

    /// Grows whenever something new was learned: what was written before may hold it.
    pub fn generation(&self) -> u64 {
        self.search.generation
    }

    /// From now on findings are reported as late: what is looked at has been written before.
    pub fn set_late(&mut self, late: bool) {
        self.late = late;
    }

    /// What was redacted so far.
    pub fn report(&self) -> RedactionReport {
        self.counts.report()
    }

    /// Takes the secrets out of a body.
    pub fn redact_body<'a>(
        &mut self,
        place: &str,
        hints: BodyHints<'_>,
        bytes: &'a [u8],
    ) -> RedactedText<'a> {
        let coding = hints.content_encoding.map(str::trim).filter(|coding| !coding.is_empty());
        let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case("identity")) else {
            return self.searched(place, Form::of(hints.content_type, bytes), bytes);
        };
        match encoding::decode_partly(coding, bytes, MOST_DECODED) {
            Ok(decoded) => {
                let form = Form::of(hints.content_type, &decoded.bytes);
                let found = self.searched(place, form, &decoded.bytes);
                if found.is_clean() {
                    // What could not be unpacked may hold its text as it was.
                    let cut = !decoded.complete;
                    return if cut {
                        self.searched(place, Form::Other, bytes)
                    } else {
                        RedactedText::untouched(bytes)
                    };
                }
                // What could not be unpacked has no place in what is kept; it is named.
                let unsearched = decoded.trailing_after.map(SearchGap::Remainder);
                let bytes = Cow::Owned(found.bytes.into_owned());
                RedactedText { bytes, decoded: true, edits: None, unsearched }
            }
            Err(error) => {
                let found = self.searched(place, Form::of(hints.content_type, bytes), bytes);
                RedactedText { unsearched: Some(SearchGap::Everything(error)), ..found }
            }
        }
    }

    /// Takes the secrets out of any other text: output, a file.
    pub fn redact_text<'a>(&mut self, place: &str, bytes: &'a [u8]) -> RedactedText<'a> {
        self.searched(place, Form::of(None, bytes), bytes)
    }

    fn searched<'a>(&mut self, place: &str, form: Form, bytes: &'a [u8]) -> RedactedText<'a> {
        let hits = self.hits(place, form, bytes);
        if hits.is_empty() {
            return RedactedText::untouched(bytes);
        }
        self.count(place, &hits);
        let edits = hit::edits(&hits);
        let spliced = edits.apply(bytes).expect("settled hits do not overlap");
        RedactedText { bytes: Cow::Owned(spliced), decoded: false, edits: Some(edits), unsearched: None }
    }

    /// What must go from a text, settled and in order.
    fn hits(&mut self, place: &str, form: Form, bytes: &[u8]) -> Vec<Hit> {
        match form {
            Form::Events | Form::Lines => {
                stream::hits(&mut self.search, place, &stream::events(form, bytes), bytes)
            }
            Form::Items => {
                let items = stream::events(form, bytes);
                if items.is_empty() {
                    return self.in_one_text(place, form, bytes); // a part of an array
                }
                let mut hits = stream::hits(&mut self.search, place, &items, bytes);
                hits.extend(stream::nested(&mut self.search, place, bytes));
                hit::settle(hits)
            }
            Form::Parameters | Form::Other => self.in_one_text(place, form, bytes),
        }
    }

    fn in_one_text(&mut self, place: &str, form: Form, bytes: &[u8]) -> Vec<Hit> {
        let text = Plain::of_escaped(bytes);
        let terms = Terms { form: form == Form::Parameters, ..Terms::default() };
        let Ruled { mut hits, notes } = self.search.by_rule(place, &text, terms);
        let json = looks_json(bytes);
        if json && notes.streams {
            hits.extend(stream::nested(&mut self.search, place, bytes));
        }
        if json && notes.words {
            hits.extend(stream::spelled(&mut self.search, place, bytes));
        }
        hits.extend(self.search.by_value(&text, &notes));
        let hits = hit::settle(hits);
        match (!hits.is_empty() && json).then(|| Document::parse(bytes)) {
            Some(Ok(document)) => hit::clip(&document, 0, hits),
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

/// How a text is built, as far as the search cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Server-sent events.
    Events,
    /// One JSON text a line.
    Lines,
    /// A JSON array of objects: a stream of those that wait for the last one.
    Items,
    /// `a=1&b=2`
    Parameters,
    /// JSON, or anything else.
    Other,
}

impl Form {
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

/// Whether the first line that says something is one of an event's.
fn is_events(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut rest = &text[..text.len().min(LONGEST_OPENING)];
    let begins = |rest: &[u8], any: &[&str]| any.iter().any(|field| rest.starts_with(field.as_bytes()));
    // A comment, or how to come back, says nothing yet.
    while begins(rest, &["\n", "\r", ":", "id:", "retry:"]) {
        let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else { return false };
        rest = &rest[end + 1..];
    }
    begins(rest, &["data:", "event:"])
}

/// As far as a text is looked at to see that it is a stream.
const LONGEST_OPENING: usize = 16 << 10;

/// Whether the first two lines are JSON objects each.
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
