//! The one pass over a text: where a secret may begin.
//!
//! Every rule has a trigger, a short text without which it cannot hold. Three bytes at each place are
//! hashed into a small table, so that the pass costs a few instructions a byte and no more with two
//! hundred triggers than with two (an automaton took three times as long).

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
    bits: Vec<u64>,
    /// Entries by that hash.
    begins: Vec<Vec<u16>>,
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

impl Triggers {
    fn new(entries: Vec<Entry>) -> Self {
        let mut bits = vec![0; HASHES / 64];
        let mut begins = vec![Vec::new(); HASHES];
        for (index, entry) in entries.iter().enumerate() {
            let begin = entry.text.as_bytes().first_chunk::<3>().expect("triggers have three bytes or more");
            let hash = hash(u32::from_le_bytes([begin[0], begin[1], begin[2], 0]));
            bits[hash / 64] |= 1 << (hash % 64);
            begins[hash].push(index as u16);
        }
        Self { entries, bits, begins }
    }

    /// Calls `found` with every trigger in `text`, in whatever case, and where it begins.
    pub(super) fn each(&self, text: &[u8], mut found: impl FnMut(&Row, usize, usize)) {
        let mut look = |word: u32, at: usize| {
            let hash = hash(word);
            if self.bits[hash / 64] >> (hash % 64) & 1 == 1 {
                self.at(text, hash, at, &mut found);
            }
        };
        for (at, window) in text.windows(4).enumerate() {
            look(u32::from_le_bytes([window[0], window[1], window[2], window[3]]), at);
        }
        if let Some(&[a, b, c]) = text.last_chunk::<3>() {
            look(u32::from_le_bytes([a, b, c, 0]), text.len() - 3);
        }
    }

    #[cold]
    fn at(&self, text: &[u8], hash: usize, at: usize, found: &mut impl FnMut(&Row, usize, usize)) {
        for &index in &self.begins[hash] {
            let entry = &self.entries[usize::from(index)];
            let end = at + entry.text.len();
            if text.get(at..end).is_some_and(|here| here.eq_ignore_ascii_case(entry.text.as_bytes())) {
                found(&entry.row, at, end);
            }
        }
    }
}
