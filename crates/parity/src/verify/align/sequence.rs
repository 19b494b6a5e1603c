//! Alignment of two sequences.

use crate::verify::row::Row;

/// Limit for the table of scores. Longer sequences are paired by index.
const MAX_CELLS: usize = 4_000_000;

/// Aligns two sequences so that the sum of the scores is the highest.
///
/// A `score` of 0 forbids a pair. `is_same` confirms a pair without a score, which keeps equal heads and tails cheap.
pub(super) fn align_sequences(
    golden: usize,
    candidate: usize,
    is_same: impl Fn(usize, usize) -> bool,
    score: impl Fn(usize, usize) -> u32,
) -> Vec<Row> {
    let head = (0..golden.min(candidate)).take_while(|at| is_same(*at, *at)).count();
    let (g_rest, c_rest) = (golden - head, candidate - head);
    let tail = (1..=g_rest.min(c_rest)).take_while(|back| is_same(golden - back, candidate - back)).count();
    let mut rows: Vec<Row> = (0..head).map(|at| (Some(at), Some(at))).collect();
    let middle = best_rows(g_rest - tail, c_rest - tail, |g, c| score(head + g, head + c));
    rows.extend(middle.into_iter().map(|(g, c)| (g.map(|g| head + g), c.map(|c| head + c))));
    rows.extend((0..tail).map(|at| (Some(golden - tail + at), Some(candidate - tail + at))));
    rows
}

fn best_rows(golden: usize, candidate: usize, score: impl Fn(usize, usize) -> u32) -> Vec<Row> {
    if golden.saturating_mul(candidate) > MAX_CELLS {
        let longest = golden.max(candidate);
        return (0..longest)
            .map(|at| ((at < golden).then_some(at), (at < candidate).then_some(at)))
            .collect();
    }
    let width = candidate + 1;
    let mut best = vec![0u32; (golden + 1) * width];
    for g in (0..golden).rev() {
        for c in (0..candidate).rev() {
            let alone = best[(g + 1) * width + c].max(best[g * width + c + 1]);
            let points = score(g, c);
            let both = if points > 0 { points + best[(g + 1) * width + c + 1] } else { 0 };
            best[g * width + c] = alone.max(both);
        }
    }
    let (mut g, mut c) = (0, 0);
    let mut rows = Vec::new();
    while g < golden && c < candidate {
        let here = best[g * width + c];
        let points = score(g, c);
        if points > 0 && here == points + best[(g + 1) * width + c + 1] {
            rows.push((Some(g), Some(c)));
            (g, c) = (g + 1, c + 1);
        } else if here == best[(g + 1) * width + c] {
            rows.push((Some(g), None));
            g += 1;
        } else {
            rows.push((None, Some(c)));
            c += 1;
        }
    }
    rows.extend((g..golden).map(|g| (Some(g), None)));
    rows.extend((c..candidate).map(|c| (None, Some(c))));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(golden: &str, candidate: &str) -> String {
        let (g, c): (Vec<char>, Vec<char>) = (golden.chars().collect(), candidate.chars().collect());
        let score = |a: usize, b: usize| match g[a] == c[b] {
            true => 5,
            false => u32::from(g[a].is_lowercase() == c[b].is_lowercase()),
        };
        let rows = align_sequences(g.len(), c.len(), |a, b| g[a] == c[b], score);
        let side = |at: Option<usize>, of: &[char]| at.map_or('-', |at| of[at]);
        let words: Vec<String> =
            rows.iter().map(|(a, b)| format!("{}{}", side(*a, &g), side(*b, &c))).collect();
        words.join(" ")
    }

    #[test]
    fn equal_items_are_aligned_and_the_rest_by_kind() {
        assert_eq!(aligned("abc", "abc"), "aa bb cc");
        assert_eq!(aligned("abc", "abxc"), "aa bb -x cc");
        assert_eq!(aligned("aBc", "axBc"), "aa -x BB cc");
        assert_eq!(aligned("abc", "axc"), "aa bx cc");
        assert_eq!(aligned("aBc", "axc"), "aa B- -x cc");
        assert_eq!(aligned("", "ab"), "-a -b");
    }
}
