//! The last look before a recording is sealed, by another way than the redaction took.
//!
//! Where the redaction reads all escapes at once and splices, this one takes a file apart layer by
//! layer (JSON, the strings in it, the JSON or the stream in those, base64 bodies) and searches each
//! layer by itself. What it finds was missed, and the seal is refused.

use std::cell::RefCell;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use serde::Serialize;

use wire::json::{Document, Value, ValueKind, unescape};

use super::needles::{is_base64, is_whole_number};
use super::plain::Plain;
use wire::opaque::{is_in_opaque_field, is_opaque_field};

use super::{Form, Redactor, looks_json, shapes, stream, values, wrapped};

/// Something that still looks like a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Residue {
    /// The rule that found it.
    pub rule: String,
    /// The file.
    pub place: String,
    /// Where in the file the string that holds it begins.
    pub offset: usize,
}

/// How many layers are taken off.
const MOST_LAYERS: usize = 8;

/// The learned values as one automaton, rebuilt when more were learned.
#[derive(Default)]
pub(super) struct Cache(RefCell<Option<(u64, Known)>>);

/// The learned values in their forms.
struct Known {
    automaton: AhoCorasick,
    /// Which forms are numbers: they count only where they are whole, as in the redaction.
    numbers: Vec<bool>,
}

impl Known {
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
    /// Looks for whatever the redaction has missed in a file that is about to be sealed.
    pub fn find_residues(&self, name: &str, bytes: &[u8]) -> Vec<Residue> {
        let mut cache = self.residual.0.borrow_mut();
        if cache.as_ref().is_none_or(|(generation, _)| *generation != self.generation()) {
            let secrets = self.search.values.secrets();
            let values = secrets.iter().flat_map(|secret| {
                let decoded = values::decoded(&secret.value);
                [secret.value.clone(), secret.given.clone()].into_iter().chain(decoded)
            });
            let forms =
                values.flat_map(|value| [in_base64(&value), values::wide(&value), vec![value]].concat());
            *cache = Some((self.generation(), Known::new(forms.collect())));
        }
        let (_, values) = cache.as_ref().expect("built above");
        let mut look =
            Look { values, any_value: !values.numbers.is_empty(), shapes: Shapes::get(), found: Vec::new() };
        look.layer(bytes, 0, MOST_LAYERS, false);
        let mut residues: Vec<Residue> = look
            .found
            .into_iter()
            .map(|(rule, offset)| Residue { rule: rule.to_owned(), place: name.to_owned(), offset })
            .collect();
        residues.sort_by(|a, b| (a.offset, &a.rule).cmp(&(b.offset, &b.rule)));
        residues.dedup();
        residues
    }
}

/// Every trigger of a shape, found in one pass over a text.
struct Shapes {
    automaton: AhoCorasick,
    triggers: Vec<shapes::Trigger>,
}

impl Shapes {
    fn get() -> &'static Self {
        static SHAPES: OnceLock<Shapes> = OnceLock::new();
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

struct Look<'v> {
    values: &'v Known,
    any_value: bool,
    shapes: &'static Shapes,
    found: Vec<(&'static str, usize)>,
}

impl Look<'_> {
    /// Searches one layer, then what is inside it. Only at the first layer is `offset` more than
    /// where the layer's string begins.
    fn layer(&mut self, bytes: &[u8], offset: usize, layers: usize, is_opaque: bool) {
        self.values_in(bytes, offset);
        if self.any_value && memchr::memchr(b'\n', bytes).is_some() {
            unwrapped(bytes).iter().for_each(|block| self.values_in(block, offset));
        }
        if layers == 0 {
            return;
        }
        if looks_json(bytes)
            && let Ok(document) = Document::parse(bytes)
        {
            if Form::of(None, bytes) == Form::Items {
                self.together(Form::Items, bytes, offset, layers);
            }
            let inside = |at: usize| if layers == MOST_LAYERS { at } else { offset };
            return self.document(document.root(), "", None, &inside, layers);
        }
        if !is_opaque {
            self.shapes_in(bytes, offset);
        }
        match Form::of(None, bytes) {
            form @ (Form::Events | Form::Lines) => self.stream(form, bytes, offset, layers),
            _ => self.unescaped(bytes, offset, layers, is_opaque),
        }
    }

    fn document(
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
                    self.layer(&body, at, layers - 1, false);
                }
                self.layer(text.as_bytes(), at, layers - 1, is_opaque_field(key, object_type));
            }
            ValueKind::Array => {
                value.items().for_each(|item| self.document(item, key, object_type, offset, layers))
            }
            ValueKind::Object => {
                let kind = value.str_at("type");
                for member in value.members() {
                    let name = member.name();
                    self.layer(name.as_bytes(), at, layers - 1, false);
                    self.document(member.value, &name, kind.as_deref(), offset, layers);
                }
            }
            ValueKind::Number | ValueKind::Bool | ValueKind::Null => {}
        }
    }

    /// Each event by itself, and the texts that successive events make together.
    fn stream(&mut self, form: Form, bytes: &[u8], offset: usize, layers: usize) {
        self.together(form, bytes, offset, layers);
        for data in stream::data(form, bytes) {
            self.layer(&bytes[data.clone()], offset, layers - 1, false);
        }
    }

    /// The texts that successive events make together.
    fn together(&mut self, form: Form, bytes: &[u8], offset: usize, layers: usize) {
        for (text, is_opaque) in stream::texts(form, bytes) {
            let text = String::from_utf8_lossy(&text).into_owned();
            self.layer(unescape(&text).as_bytes(), offset, layers - 1, is_opaque);
        }
    }

    /// The text with one layer of escapes undone, as long as there is one.
    fn unescaped(&mut self, bytes: &[u8], offset: usize, layers: usize, is_opaque: bool) {
        if memchr::memchr(b'\\', bytes).is_some()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            self.layer(unescape(text).as_bytes(), offset, layers - 1, is_opaque);
        }
        if memchr::memchr(b'%', bytes).is_some() {
            let decoded = Plain::of_percent(bytes);
            if decoded.bytes() != bytes {
                self.layer(decoded.bytes(), offset, layers - 1, is_opaque);
            }
        }
        // Values only: the rules do not look into HTML either.
        if let Some(decoded) = Plain::of_entities(bytes) {
            self.values_in(decoded.bytes(), offset);
        }
    }

    fn values_in(&mut self, bytes: &[u8], offset: usize) {
        if self.any_value && self.values.is_in(bytes) {
            self.found.push(("value", offset));
        }
    }

    fn shapes_in(&mut self, bytes: &[u8], offset: usize) {
        for hit in self.shapes.automaton.find_overlapping_iter(bytes) {
            for shaped in self.shapes.triggers[hit.pattern().as_usize()].look(bytes, hit.start()) {
                if !is_in_opaque_field(bytes, shaped.range.start) {
                    self.found.push((shaped.rule, offset));
                }
            }
        }
    }
}

/// The texts that lines of base64 make together, each line but the last wide enough for a wrapped one.
fn unwrapped(bytes: &[u8]) -> Vec<Vec<u8>> {
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

/// A value as it stands inside longer base64, in both alphabets and wherever it begins: without the
/// characters at its ends that depend on what stands around it.
fn in_base64(value: &[u8]) -> Vec<Vec<u8>> {
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
