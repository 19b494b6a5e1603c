//! The search inside of archives, documents and pictures.
//!
//! Data with a secret inside is replaced as a whole, because a part of an archive is of no use.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{PackedRun, Search};
use crate::hit::{Hit, Rank};
use crate::plain::PlainText;
use crate::unpack::{self, Gap};
use crate::utf16::Utf16Text;

const RULE: &str = "packed";
/// The maximum number of texts in a text in a text.
const MOST_DEPTH: usize = 4;
/// The maximum number of remembered results.
const MOST_KNOWN: usize = 512;

/// The results for data that occurs again and again, as in the requests of one conversation.
#[derive(Default)]
pub(crate) struct PackedResults(HashMap<(u64, usize), (u64, bool, Vec<Gap>)>);

impl Search {
    /// Finds encoded data with secrets inside.
    pub(crate) fn find_in_runs(&mut self, place: &str, text: &PlainText<'_>, runs: &[PackedRun]) -> Vec<Hit> {
        let mut hits = Vec::new();
        for run in runs {
            let data = run.decode(text.bytes());
            if self.holds_secret(place, &data) {
                let with = self.key.placeholder(&text.bytes()[run.range.clone()]);
                let range = text.original(&run.range);
                hits.push(Hit { range, with, rule: RULE, secret: None, rank: Rank::Seen });
            }
        }
        hits
    }

    /// Finds secrets inside of a text that is binary data. The whole text is the match.
    pub(crate) fn find_in_binary(&mut self, place: &str, bytes: &[u8]) -> Option<Hit> {
        let is_secret = unpack::is_binary(bytes) && self.search_inside(place, bytes, false);
        is_secret.then(|| Hit {
            range: 0..bytes.len(),
            with: self.key.placeholder(bytes),
            rule: RULE,
            secret: None,
            rank: Rank::Seen,
        })
    }

    /// Returns true if decoded data contains a secret, or if something inside of it does.
    fn holds_secret(&mut self, place: &str, data: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        let key = (hasher.finish(), data.len());
        if let Some((generation, is_secret, gaps)) = self.packed.0.get(&key)
            && (*is_secret || *generation == self.generation)
        {
            self.gaps.extend(gaps);
            return *is_secret;
        }
        let before = std::mem::take(&mut self.gaps);
        let is_secret = self.search_inside(place, data, true);
        let gaps = std::mem::replace(&mut self.gaps, before);
        if self.packed.0.len() >= MOST_KNOWN {
            self.packed.0.clear();
        }
        self.packed.0.insert(key, (self.generation, is_secret, gaps.iter().copied().collect()));
        self.gaps.extend(gaps);
        is_secret
    }

    /// Searches what is inside of some data, and the data itself if `with_data` is true.
    fn search_inside(&mut self, place: &str, data: &[u8], with_data: bool) -> bool {
        if self.depth >= MOST_DEPTH {
            self.gaps.insert("data in too many layers");
            return false;
        }
        self.depth += 1;
        let mut is_secret = with_data && self.search_layer(place, data);
        let mut left = self.unpack_left;
        let gaps = unpack::unpack(data, &mut left, &mut |layer, left| {
            self.unpack_left = *left;
            is_secret |= self.search_layer(place, layer);
            *left = self.unpack_left;
        });
        self.unpack_left = left;
        self.gaps.extend(gaps);
        self.depth -= 1;
        is_secret
    }

    fn search_layer(&mut self, place: &str, layer: &[u8]) -> bool {
        let mut is_secret = !self.find_all(place, &PlainText::from_escaped(layer)).is_empty();
        if let Some(wide) = Utf16Text::decode(layer) {
            is_secret |= !self.find_all(place, &PlainText::from_escaped(wide.text.as_bytes())).is_empty();
        }
        is_secret
    }
}
