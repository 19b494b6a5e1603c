//! Two long texts, word by word.

use similar::{ChangeTag, TextDiff};

/// A stretch of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Both have it.
    Both(String),
    /// Only the golden has it.
    Golden(String),
    /// Only the candidate has it.
    Candidate(String),
}

/// What two texts have in common and what not, in stretches of words.
pub fn word_diff(golden: &str, candidate: &str) -> Vec<Change> {
    let mut stretches: Vec<Change> = Vec::new();
    for change in TextDiff::from_words(golden, candidate).iter_all_changes() {
        let text = change.value();
        match (change.tag(), stretches.last_mut()) {
            (ChangeTag::Equal, Some(Change::Both(last)))
            | (ChangeTag::Delete, Some(Change::Golden(last)))
            | (ChangeTag::Insert, Some(Change::Candidate(last))) => last.push_str(text),
            (ChangeTag::Equal, _) => stretches.push(Change::Both(text.to_owned())),
            (ChangeTag::Delete, _) => stretches.push(Change::Golden(text.to_owned())),
            (ChangeTag::Insert, _) => stretches.push(Change::Candidate(text.to_owned())),
        }
    }
    stretches
}
