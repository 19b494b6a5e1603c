//! The last check of a recording before it is sealed, with another method than the redaction.
//!
//! The redaction reads all escapes at once. This check decodes a file layer by layer (JSON, its strings, the JSON
//! or the stream in those, base64 bodies) and searches each layer. A match is a secret that the redaction missed,
//! and prevents the seal.

use std::cell::RefCell;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use serde::Serialize;

use wire::json::{Document, Value, ValueKind, unescape};

use super::needles::{is_base64, is_whole_number};
use super::plain::PlainText;
use super::utf16::Utf16Text;
use wire::opaque::{is_in_opaque_field, is_opaque_field};

use super::unpack::{self, MOST_DECODED};
use super::{Redactor, TextFormat, looks_json, packed, shapes, stream, values, wrapped};

/// A possible secret that the redaction missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Residue {
    /// The rule that matched.
    pub rule: String,
    /// The file.
    pub place: String,
    /// The offset of the string that contains it.
    pub offset: usize,
}

/// The maximum number of decoded layers.
const MOST_LAYERS: usize = 8;
/// The maximum number of archives in archives.
const MOST_PACKED: usize = 4;

/// The learned values as one automaton, rebuilt after new ones were learned.
#[derive(Default)]
pub(super) struct ResidueCache(RefCell<Option<(u64, KnownValues)>>);

/// The learned values in all their forms.
struct KnownValues {
    automaton: AhoCorasick,
    /// True for forms that are numbers. They match only complete numbers, as in the redaction.
    numbers: Vec<bool>,
}

impl KnownValues {
    fn new(values: Vec<Vec<u8>>) -> Self {
        let numbers = values.iter().map(|value| value.iter().all(u8::is_ascii_digit)).collect();
        let automaton = AhoCorasick::new(values).expect("learned values fit an automaton");
        Self { automaton, numbers }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        let mut found = self.automaton.find_overlapping_iter(bytes);
        found.any(|found| !self.numbers[found.pattern().as_usize()] || is_whole_number(bytes, &found.range()))
    }
}

impl Redactor {
    /// Finds secrets that the redaction missed in a file.
    pub fn find_residues(&self, name: &str, bytes: &[u8]) -> Vec<Residue> {
        let mut cache = self.residual.0.borrow_mut();
        if cache.as_ref().is_none_or(|(generation, _)| *generation != self.generation()) {
            let secrets = self.search.values.secrets();
            let values = secrets.iter().flat_map(|secret| {
                let decoded = values::decoded(&secret.value);
                [secret.value.clone(), secret.given.clone()].into_iter().chain(decoded)
            });
            let forms = values
                .flat_map(|value| [base64_forms(&value), values::utf16_forms(&value), vec![value]].concat());
            *cache = Some((self.generation(), KnownValues::new(forms.collect())));
        }
        let (_, values) = cache.as_ref().expect("built above");
        let mut search = ResidueSearch {
            values,
            any_value: !values.numbers.is_empty(),
            shapes: ShapeAutomaton::get(),
            unpack_left: MOST_DECODED,
            found: Vec::new(),
        };
        search.search_layer(bytes, 0, MOST_LAYERS, false);
        let mut residues: Vec<Residue> = search
            .found
            .into_iter()
            .map(|(rule, offset)| Residue { rule: rule.to_owned(), place: name.to_owned(), offset })
            .collect();
        residues.sort_by(|a, b| (a.offset, &a.rule).cmp(&(b.offset, &b.rule)));
        residues.dedup();
        residues
    }
}

/// The triggers of all shapes, for one pass over a text.
struct ShapeAutomaton {
    automaton: AhoCorasick,
    triggers: Vec<shapes::Trigger>,
}

impl ShapeAutomaton {
    fn get() -> &'static Self {
        static SHAPES: OnceLock<ShapeAutomaton> = OnceLock::new();
        SHAPES.get_or_init(|| {
            let triggers = shapes::triggers();
            let automaton = AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .kind(Some(AhoCorasickKind::DFA))
                .build(triggers.iter().map(shapes::Trigger::text))
                .expect("the triggers fit an automaton");
            Self { automaton, triggers }
        })
    }
}

struct ResidueSearch<'v> {
    values: &'v KnownValues,
    any_value: bool,
    shapes: &'static ShapeAutomaton,
    unpack_left: usize,
    found: Vec<(&'static str, usize)>,
}

impl ResidueSearch<'_> {
    /// Searches one layer, then the layers inside of it. Offsets are exact only in the first layer.
    fn search_layer(&mut self, bytes: &[u8], offset: usize, layers: usize, is_opaque: bool) {
        self.search_values(bytes, offset);
        if self.any_value && memchr::memchr(b'\n', bytes).is_some() {
            unwrap_base64(bytes).iter().for_each(|block| self.search_values(block, offset));
        }
        if layers == 0 {
            return;
        }
        self.search_packed(bytes, offset, layers.min(MOST_PACKED));
        if let Some(wide) = Utf16Text::decode(bytes) {
            self.search_layer(wide.text.as_bytes(), offset, layers - 1, is_opaque);
        }
        if looks_json(bytes)
            && let Ok(document) = Document::parse(bytes)
        {
            if TextFormat::of(None, bytes) == TextFormat::Items {
                self.search_split_texts(TextFormat::Items, bytes, offset, layers);
            }
            let inside = |at: usize| if layers == MOST_LAYERS { at } else { offset };
            return self.search_document(document.root(), "", None, &inside, layers);
        }
        if !is_opaque {
            self.search_shapes(bytes, offset);
        }
        match TextFormat::of(None, bytes) {
            format @ (TextFormat::Events | TextFormat::Lines) => {
                self.search_stream(format, bytes, offset, layers)
            }
            _ => self.search_unescaped(bytes, offset, layers, is_opaque),
        }
    }

    fn search_document(
        &mut self,
        value: Value<'_, '_>,
        key: &str,
        object_type: Option<&str>,
        offset: &dyn Fn(usize) -> usize,
        layers: usize,
    ) {
        let at = offset(value.span().start);
        match value.kind() {
            ValueKind::String => {
                let text = value.as_str().unwrap_or_default();
                if key == "base64"
                    && let Ok(body) = base64::engine::general_purpose::STANDARD.decode(text.as_bytes())
                {
                    self.search_layer(&body, at, layers - 1, false);
                }
                self.search_layer(text.as_bytes(), at, layers - 1, is_opaque_field(key, object_type));
            }
            ValueKind::Array => {
                value.items().for_each(|item| self.search_document(item, key, object_type, offset, layers))
            }
            ValueKind::Object => {
                let kind = value.str_at("type");
                for member in value.members() {
                    let name = member.name();
                    self.search_layer(name.as_bytes(), at, layers - 1, false);
                    self.search_document(member.value, &name, kind.as_deref(), offset, layers);
                }
            }
            ValueKind::Number | ValueKind::Bool | ValueKind::Null => {}
        }
    }

    /// Searches each event, and the texts that are split over several events.
    fn search_stream(&mut self, format: TextFormat, bytes: &[u8], offset: usize, layers: usize) {
        self.search_split_texts(format, bytes, offset, layers);
        for data in stream::data(format, bytes) {
            self.search_layer(&bytes[data.clone()], offset, layers - 1, false);
        }
    }

    /// Searches the texts that are split over several events.
    fn search_split_texts(&mut self, format: TextFormat, bytes: &[u8], offset: usize, layers: usize) {
        for (text, is_opaque) in stream::texts(format, bytes) {
            let text = String::from_utf8_lossy(&text).into_owned();
            self.search_layer(unescape(&text).as_bytes(), offset, layers - 1, is_opaque);
        }
    }

    /// Searches the text again after undoing one layer of escapes.
    fn search_unescaped(&mut self, bytes: &[u8], offset: usize, layers: usize, is_opaque: bool) {
        if memchr::memchr(b'\\', bytes).is_some()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            self.search_layer(unescape(text).as_bytes(), offset, layers - 1, is_opaque);
        }
        if memchr::memchr(b'%', bytes).is_some() {
            let decoded = PlainText::from_percent(bytes);
            if decoded.bytes() != bytes {
                self.search_layer(decoded.bytes(), offset, layers - 1, is_opaque);
            }
        }
        // Only for values, because the rules do not decode HTML either.
        if let Some(decoded) = PlainText::from_html(bytes) {
            self.search_values(decoded.bytes(), offset);
        }
    }

    /// Searches archives and other data, as it is or encoded as text.
    fn search_packed(&mut self, bytes: &[u8], offset: usize, layers: usize) {
        self.search_runs(bytes, offset, layers);
        self.search_inside(bytes, offset, layers);
    }

    fn search_runs(&mut self, text: &[u8], offset: usize, layers: usize) {
        for data in packed::decoded_runs(text) {
            self.search_decoded(&data, offset, layers);
            self.search_inside(&data, offset, layers);
        }
    }

    fn search_inside(&mut self, data: &[u8], offset: usize, layers: usize) {
        let mut left = self.unpack_left;
        unpack::unpack(data, &mut left, &mut |layer, left| {
            self.unpack_left = *left;
            self.search_decoded(layer, offset, layers);
            *left = self.unpack_left;
        });
        self.unpack_left = left;
    }

    fn search_decoded(&mut self, data: &[u8], offset: usize, layers: usize) {
        self.search_values(data, offset);
        self.search_shapes(data, offset);
        if layers > 0 {
            self.search_runs(data, offset, layers - 1);
        }
    }

    fn search_values(&mut self, bytes: &[u8], offset: usize) {
        if self.any_value && self.values.is_in(bytes) {
            self.found.push(("value", offset));
        }
    }

    fn search_shapes(&mut self, bytes: &[u8], offset: usize) {
        for hit in self.shapes.automaton.find_overlapping_iter(bytes) {
            for shaped in self.shapes.triggers[hit.pattern().as_usize()].find(bytes, hit.start()) {
                if !is_in_opaque_field(bytes, shaped.range.start) {
                    self.found.push((shaped.rule, offset));
                }
            }
        }
    }
}

/// Joins the lines of wrapped base64. All lines but the last must have a minimum width.
fn unwrap_base64(bytes: &[u8]) -> Vec<Vec<u8>> {
    let head = |line: &[u8]| line.iter().take_while(|byte| is_base64(**byte)).count();
    let tail = |line: &[u8]| line.iter().rev().take_while(|byte| is_base64(**byte)).count();
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut open = false;
    for line in bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        let (head, tail) = (head(line), tail(line));
        if open && let Some(block) = blocks.last_mut() {
            block.extend_from_slice(&line[..head]);
        }
        let wide = tail >= wrapped::NARROWEST;
        if wide && !(open && head == line.len()) {
            blocks.push(line[line.len() - tail..].to_vec());
        }
        open = wide;
    }
    blocks
}

/// Returns the forms of a value inside of longer base64, in both alphabets and all alignments, without the
/// characters that depend on its neighbours.
fn base64_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for ahead in 0..3 {
        let padded = [&[0; 2][..ahead], value].concat();
        let whole = padded.len() * 4 / 3;
        let first = [0, 2, 3][ahead];
        for engine in [&base64::engine::general_purpose::STANDARD, &base64::engine::general_purpose::URL_SAFE]
        {
            let encoded = engine.encode(&padded);
            forms.push(encoded.as_bytes()[first..whole].to_vec());
        }
    }
    forms.dedup();
    forms
}
