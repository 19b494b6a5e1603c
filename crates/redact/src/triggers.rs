//! The first pass over a text: positions where a secret may start.
//!
//! Every rule has a trigger, a short text that each of its matches contains. The pass hashes three bytes at every
//! second position. A small table contains the start of each trigger from its first and from its second byte on. So
//! the pass takes a few instructions per byte, whatever the number of triggers. An automaton took three times as
//! many.

use std::sync::LazyLock;

use super::packed::{self, TextCoding};
use super::{assign, entities, names, shapes};

/// Members beside each token of such a text.
pub(super) const TOKEN_SIBLINGS: &[&str] = &["\"logprob\"", "\"logProbability\"", "\"token_logprobs\""];

/// Starts of a JSON string that contains a stream.
pub(super) const STREAM_STARTS: &[&str] = &["\"data:", "\"event:", "\"id:", "\"retry:"];

/// The rule that a trigger belongs to.
pub(super) enum TriggerKind {
    Shape(shapes::Trigger),
    Name,
    /// An HTML character reference.
    Entity,
    /// The start of a stream, in quotes.
    Stream,
    /// The sibling of a token in a model's text.
    Token,
    /// The beginning of an archive, a document or a picture, encoded as text.
    Packed(TextCoding),
}

impl TriggerKind {
    /// Returns true if the rule can match with this byte after the trigger.
    fn may_continue_with(&self, byte: u8) -> bool {
        match self {
            Self::Shape(trigger) => trigger.may_continue_with(byte),
            Self::Name => assign::may_continue_with(byte),
            Self::Entity => byte.is_ascii_hexdigit() || byte == b';',
            Self::Packed(_) => packed::may_continue_with(byte),
            Self::Stream | Self::Token => true,
        }
    }
}

struct TriggerEntry {
    text: String,
    kind: TriggerKind,
}

/// The triggers of all rules.
pub(super) struct Triggers {
    entries: Vec<TriggerEntry>,
    /// For the hash of each trigger start, a bit for each class of bytes that may come next. Zero for other hashes.
    marks: Box<[u8; HASHES]>,
    /// Entries by hash, with the offset of the three bytes in the entry's text.
    begins: Vec<Vec<(u16, u8)>>,
}

pub(super) static TRIGGERS: LazyLock<Triggers> = LazyLock::new(|| {
    let shapes = shapes::triggers()
        .into_iter()
        .map(|trigger| (trigger.text().to_owned(), TriggerKind::Shape(trigger)));
    let fixed = |texts: &'static [&'static str], kind: fn() -> TriggerKind| {
        texts.iter().map(move |text| ((*text).to_owned(), kind()))
    };
    let names = fixed(names::STEMS, || TriggerKind::Name);
    let entities = fixed(entities::BEGINS, || TriggerKind::Entity);
    let streams = fixed(STREAM_STARTS, || TriggerKind::Stream);
    let words = fixed(TOKEN_SIBLINGS, || TriggerKind::Token);
    let packed =
        packed::BEGINNINGS.iter().map(|(text, coding)| ((*text).to_owned(), TriggerKind::Packed(*coding)));
    let all = shapes.chain(names).chain(entities).chain(streams).chain(words).chain(packed);
    Triggers::new(all.map(|(text, kind)| TriggerEntry { text, kind }).collect())
});

const HASHES: usize = 1 << 16;

/// The bit of each byte that makes ASCII letters lower case.
const SMALL: u64 = 0x2020_2020_2020_2020;

/// Hashes the first three of four bytes in lower case.
fn hash(word: u32) -> usize {
    ((word << 8).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// Returns the class of a byte, which is the same for upper and lower case, as one of eight bits.
fn class(byte: u8) -> u8 {
    1 << ((byte | SMALL as u8) & 7)
}

impl Triggers {
    fn new(entries: Vec<TriggerEntry>) -> Self {
        let mut triggers =
            Self { entries: Vec::new(), marks: Box::new([0; HASHES]), begins: vec![Vec::new(); HASHES] };
        for (index, entry) in entries.iter().enumerate() {
            match *entry.text.as_bytes() {
                [a, b, c] => {
                    // Only bytes that can follow: each one takes an entry in the table, and a full table would let
                    // every text through.
                    for d in (0..=u8::MAX).filter(|byte| entry.kind.may_continue_with(*byte)) {
                        triggers.begin([a, b, c], Some(d), index, 0);
                        triggers.begin([b, c, d], None, index, 1);
                    }
                }
                [a, b, c, d, ref rest @ ..] => {
                    triggers.begin([a, b, c], Some(d), index, 0);
                    triggers.begin([b, c, d], rest.first().copied(), index, 1);
                }
                _ => unreachable!("triggers have three bytes or more"),
            }
        }
        Self { entries, ..triggers }
    }

    /// Enters three bytes of a trigger. `next` is the only byte that may follow, `None` if any byte may.
    fn begin(&mut self, [a, b, c]: [u8; 3], next: Option<u8>, index: usize, lead: u8) {
        let hash = hash(u32::from_le_bytes([a, b, c, 0]) | SMALL as u32);
        self.marks[hash] |= next.map_or(u8::MAX, class);
        let begin = (index as u16, lead);
        if !self.begins[hash].contains(&begin) {
            self.begins[hash].push(begin);
        }
    }

    /// Calls `found` with every trigger in `text` in any case, with its start and end.
    pub(super) fn for_each(&self, text: &[u8], mut found: impl FnMut(&TriggerKind, usize, usize)) {
        let mut look = |hash: usize, at: usize| {
            if self.marks[hash] != 0 && self.may_continue(text, hash, at) {
                self.at(text, hash, at, &mut found);
            }
        };
        let mut at = 0;
        // Four positions at a time, with two loads and one branch, because there is nearly always no trigger.
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
        // The last positions, with spaces after the end. A space may end a trigger of three bytes, too.
        let rest = &text[at.min(text.len())..];
        for (past, _) in rest.iter().enumerate().step_by(2) {
            let byte = |index: usize| rest.get(past + index).copied().unwrap_or(b' ');
            let word = u32::from_le_bytes([byte(0), byte(1), byte(2), 0]) | SMALL as u32;
            look(hash(word), at + past);
        }
    }

    /// Returns true if the byte after a trigger's start may follow it.
    #[cold]
    #[inline(never)]
    fn may_continue(&self, text: &[u8], hash: usize, at: usize) -> bool {
        // A trigger of three bytes may be the end of the text.
        text.get(at + 3).is_none_or(|&next| self.marks[hash] & class(next) != 0)
    }

    /// Calls `found` with the triggers at a position with this hash.
    #[cold]
    fn at(&self, text: &[u8], hash: usize, at: usize, found: &mut impl FnMut(&TriggerKind, usize, usize)) {
        for &(index, lead) in &self.begins[hash] {
            let entry = &self.entries[usize::from(index)];
            let Some(start) = at.checked_sub(usize::from(lead)) else { continue };
            let end = start + entry.text.len();
            if text.get(start..end).is_some_and(|here| here.eq_ignore_ascii_case(entry.text.as_bytes())) {
                found(&entry.kind, start, end);
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
                    if entry.text.len() == 3 && !entry.kind.may_continue_with(next) {
                        continue;
                    }
                    let text = if case { entry.text.to_uppercase() } else { entry.text.to_lowercase() };
                    let text = format!("{}{text}{behind}", &"..."[..before]);
                    let mut starts = Vec::new();
                    TRIGGERS.for_each(text.as_bytes(), |_, start, end| starts.push(start..end));
                    assert!(starts.contains(&(before..before + entry.text.len())), "{text}");
                }
            }
        }
    }
}
