//! Similarity of the texts of two requests.

use std::collections::HashSet;

use recording::lanes::Outline;

/// Texts that share fewer words than this, in thousandths, are different.
pub(super) const SIMILAR: usize = 400;
/// Texts that share at least this many words, in thousandths, are nearly equal.
pub(super) const NEARLY_EQUAL: usize = 800;

/// Returns whether the texts of two requests are similar.
pub(super) fn is_similar(recorded: &Outline, live: &Outline) -> bool {
    contains_text(recorded, live)
        || similarity(&words_without_digits(&recorded.texts), &words_without_digits(&live.texts)) >= SIMILAR
}

/// Returns whether the live request has one of the recorded texts, even if a new version of the harness adds others.
pub(super) fn contains_text(recorded: &Outline, live: &Outline) -> bool {
    recorded.texts.iter().any(|text| is_own_text(text) && live.texts.contains(text))
}

/// Returns whether a text is specific to a request, unlike a reminder in tags that each agent gets.
fn is_own_text(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && !text.starts_with('<')
}

pub(super) fn words(texts: &[String]) -> Vec<&str> {
    texts.iter().flat_map(|text| text.split_whitespace()).collect()
}

/// Returns the words that contain no digit: numbers and ids differ from run to run.
pub(super) fn words_without_digits(texts: &[String]) -> Vec<&str> {
    let mut words = words(texts);
    words.retain(|word| !word.bytes().any(|byte| byte.is_ascii_digit()));
    words
}

/// Returns the share of common words in thousandths (Jaccard index).
pub(super) fn similarity(a: &[&str], b: &[&str]) -> usize {
    let (a, b): (HashSet<&str>, HashSet<&str>) = (a.iter().copied().collect(), b.iter().copied().collect());
    let union = a.union(&b).count();
    (a.intersection(&b).count() * 1000).checked_div(union).unwrap_or(1000)
}
