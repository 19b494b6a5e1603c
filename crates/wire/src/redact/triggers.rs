//! The one pass over a text: where a secret may begin.
//!
//! Every rule has a trigger, a short text without which it cannot hold. Three bytes at every second
//! place are hashed into a small table that knows each trigger's beginning from its first and from its
//! second byte on, so that the pass costs a few instructions a byte and no more with two hundred
//! triggers than with two (an automaton took five times as long).

use std::sync::LazyLock;

use super::{names, shapes};

/// What a trigger leads to.
pub(super) enum Row {
    Shape(shapes::Trigger),
    Name,
}

struct Entry {
    text: String,
    row: Row,
}

/// All triggers of all rules.
pub(super) struct Triggers {
    entries: Vec<Entry>,
    /// One bit for each hash that some trigger begins with.
    bits: Box<[u64; HASHES / 64]>,
    /// Entries by that hash, and how far into the entry's text the three bytes stand.
    begins: Vec<Vec<(u16, u8)>>,
}

pub(super) static TRIGGERS: LazyLock<Triggers> = LazyLock::new(|| {
    let shapes =
        shapes::triggers().into_iter().map(|trigger| (trigger.text().to_owned(), Row::Shape(trigger)));
    let keys = names::KEY_WORDS
        .iter()
        .flat_map(|word| ["", "-", "_", ".", " "].map(|gap| format!("{word}{gap}key")));
    let names = names::STEMS.iter().map(|stem| (*stem).to_owned()).chain(keys).map(|stem| (stem, Row::Name));
    Triggers::new(shapes.chain(names).map(|(text, row)| Entry { text, row }).collect())
});

const HASHES: usize = 1 << 15;

/// Of three bytes; letters hash the same in both cases.
fn hash(word: u32) -> usize {
    ((word & 0x00ff_ffff | 0x0020_2020).wrapping_mul(0x9e37_79b1) >> 17) as usize
}

/// What may stand behind a trigger of three bytes.
const BEHIND: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789_-.\"'=:]%$ \\{";

impl Triggers {
    fn new(entries: Vec<Entry>) -> Self {
        let mut triggers =
            Self { entries: Vec::new(), bits: Box::new([0; HASHES / 64]), begins: vec![Vec::new(); HASHES] };
        for (index, entry) in entries.iter().enumerate() {
            match *entry.text.as_bytes() {
                [a, b, c] => {
                    triggers.begin([a, b, c], index, 0);
                    BEHIND.iter().for_each(|&d| triggers.begin([b, c, d], index, 1));
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
        let hash = hash(u32::from_le_bytes([a, b, c, 0]));
        self.bits[hash / 64] |= 1 << (hash % 64);
        let begin = (index as u16, lead);
        if !self.begins[hash].contains(&begin) {
            self.begins[hash].push(begin);
        }
    }

    /// Calls `found` with every trigger in `text`, in whatever case, with its start and its end.
    pub(super) fn each(&self, text: &[u8], mut found: impl FnMut(&Row, usize, usize)) {
        let mut look = |word: u32, at: usize| {
            let hash = hash(word);
            if self.bits[hash / 64] >> (hash % 64) & 1 == 1 {
                self.at(text, hash, at, &mut found);
            }
        };
        let mut at = 0;
        while let Some(word) = text.get(at..at + 4) {
            look(u32::from_le_bytes([word[0], word[1], word[2], word[3]]), at);
            at += 2;
        }
        // The last places, with a space behind the end: that ends a trigger of three bytes too.
        let rest = &text[at.min(text.len())..];
        for (past, _) in rest.iter().enumerate().step_by(2) {
            let byte = |index: usize| rest.get(past + index).copied().unwrap_or(b' ');
            look(u32::from_le_bytes([byte(0), byte(1), byte(2), 0]), at + past);
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
                for (behind, case) in [("", true), ("x1", false), ("=\"", true), ("9-", false)] {
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
