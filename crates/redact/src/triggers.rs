//! The one pass over a text: where a secret may begin.
//!
//! Every rule has a trigger, a short text without which it cannot hold. Three bytes at every second
//! place are hashed into a small table that knows each trigger's beginning from its first and from its
//! second byte on, so that the pass costs a few instructions a byte and no more with two hundred
//! triggers than with two (an automaton took three times as many).

use std::sync::LazyLock;

use super::{assign, entities, names, shapes, stream};

/// What a trigger leads to.
pub(super) enum Row {
    Shape(shapes::Trigger),
    Name,
    /// A character as HTML writes it.
    Entity,
    /// The beginning of a stream, in quotes.
    Stream,
    /// A word of a model's text stands there with how probable it was.
    Word,
}

impl Row {
    /// Whether anything may come of a trigger with this byte behind it.
    fn goes_on(&self, byte: u8) -> bool {
        match self {
            Self::Shape(trigger) => trigger.goes_on(byte),
            Self::Name => assign::goes_on(byte),
            Self::Entity => byte.is_ascii_hexdigit() || byte == b';',
            Self::Stream | Self::Word => true,
        }
    }
}

struct Entry {
    text: String,
    row: Row,
}

/// All triggers of all rules.
pub(super) struct Triggers {
    entries: Vec<Entry>,
    /// Not zero for each hash that some trigger begins with.
    marks: Box<[u8; HASHES]>,
    /// Entries by that hash, and how far into the entry's text the three bytes stand.
    begins: Vec<Vec<(u16, u8)>>,
}

pub(super) static TRIGGERS: LazyLock<Triggers> = LazyLock::new(|| {
    let shapes =
        shapes::triggers().into_iter().map(|trigger| (trigger.text().to_owned(), Row::Shape(trigger)));
    let fixed = |texts: &'static [&'static str], row: fn() -> Row| {
        texts.iter().map(move |text| ((*text).to_owned(), row()))
    };
    let names = fixed(names::STEMS, || Row::Name);
    let entities = fixed(entities::BEGINS, || Row::Entity);
    let streams = fixed(stream::BEGINS, || Row::Stream);
    let words = fixed(stream::WORDS, || Row::Word);
    let all = shapes.chain(names).chain(entities).chain(streams).chain(words);
    Triggers::new(all.map(|(text, row)| Entry { text, row }).collect())
});

const HASHES: usize = 1 << 16;

/// Every letter's bit for small letters: with it, both cases are the same.
const SMALL: u64 = 0x2020_2020_2020_2020;

/// The hash of the first three of four bytes that [`SMALL`] was laid over.
fn hash(word: u32) -> usize {
    ((word << 8).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

impl Triggers {
    fn new(entries: Vec<Entry>) -> Self {
        let mut triggers =
            Self { entries: Vec::new(), marks: Box::new([0; HASHES]), begins: vec![Vec::new(); HASHES] };
        for (index, entry) in entries.iter().enumerate() {
            match *entry.text.as_bytes() {
                [a, b, c] => {
                    triggers.begin([a, b, c], index, 0);
                    // Each byte that may follow takes its place in the table, and a full table lets
                    // everything through: only those that something can come of.
                    let behind = (0..=u8::MAX).filter(|byte| entry.row.goes_on(*byte));
                    behind.for_each(|d| triggers.begin([b, c, d], index, 1));
                }
                [a, b, c, d, ..] => {
                    triggers.begin([a, b, c], index, 0);
                    triggers.begin([b, c, d], index, 1);
                }
                _ => unreachable!("triggers have three bytes or more"),
            }
        }
        Self { entries, ..triggers }
    }

    fn begin(&mut self, [a, b, c]: [u8; 3], index: usize, lead: u8) {
        let hash = hash(u32::from_le_bytes([a, b, c, 0]) | SMALL as u32);
        self.marks[hash] = 1;
        let begin = (index as u16, lead);
        if !self.begins[hash].contains(&begin) {
            self.begins[hash].push(begin);
        }
    }

    /// Calls `found` with every trigger in `text`, in whatever case, with its start and its end.
    pub(super) fn each(&self, text: &[u8], mut found: impl FnMut(&Row, usize, usize)) {
        let mut look = |hash: usize, at: usize| {
            if self.marks[hash] != 0 {
                self.at(text, hash, at, &mut found);
            }
        };
        let mut at = 0;
        // Four places at a time, out of two loads and with one question: there is nearly always nothing.
        while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<10>()) {
            let [first, last] = [&chunk[..8], &chunk[2..]]
                .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes of ten")) | SMALL);
            let words = [first as u32, (first >> 16) as u32, (first >> 32) as u32, (last >> 32) as u32];
            let hashes = words.map(hash);
            if hashes.iter().fold(0, |any, &hash| any | self.marks[hash]) != 0 {
                hashes.into_iter().enumerate().for_each(|(place, hash)| look(hash, at + 2 * place));
            }
            at += 8;
        }
        // The last places, with a space behind the end: that ends a trigger of three bytes too.
        let rest = &text[at.min(text.len())..];
        for (past, _) in rest.iter().enumerate().step_by(2) {
            let byte = |index: usize| rest.get(past + index).copied().unwrap_or(b' ');
            let word = u32::from_le_bytes([byte(0), byte(1), byte(2), 0]) | SMALL as u32;
            look(hash(word), at + past);
        }
    }

    #[cold]
    fn at(&self, text: &[u8], hash: usize, at: usize, found: &mut impl FnMut(&Row, usize, usize)) {
        for &(index, lead) in &self.begins[hash] {
            let entry = &self.entries[usize::from(index)];
            let Some(start) = at.checked_sub(usize::from(lead)) else { continue };
            let end = start + entry.text.len();
            if text.get(start..end).is_some_and(|here| here.eq_ignore_ascii_case(entry.text.as_bytes())) {
                found(&entry.row, start, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trigger_at_every_place() {
        for entry in &TRIGGERS.entries {
            for before in 0..3 {
                for (behind, case) in [
                    ("", true),
                    ("x1", false),
                    ("=\"", true),
                    ("9-", false),
                    ("\u{1f600}", true),
                    ("(", false),
                    ("\n", true),
                ] {
                    let next = behind.bytes().next().unwrap_or(b' ');
                    if entry.text.len() == 3 && !entry.row.goes_on(next) {
                        continue;
                    }
                    let text = if case { entry.text.to_uppercase() } else { entry.text.to_lowercase() };
                    let text = format!("{}{text}{behind}", &"..."[..before]);
                    let mut starts = Vec::new();
                    TRIGGERS.each(text.as_bytes(), |_, start, end| starts.push(start..end));
                    assert!(starts.contains(&(before..before + entry.text.len())), "{text}");
                }
            }
        }
    }
}
