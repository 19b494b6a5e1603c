//! The part of a verdict that fits on a page.

use parity::Verdict;
use serde::Serialize;
use serde_json::Value;

/// Further differences are counted and not shown.
const MAX_DIFFERENCES: usize = 2_000;
/// Bytes that are shown of either value of a difference.
const MAX_VALUE: usize = 40_000;

/// A shortened verdict with the counts of its omitted parts.
#[derive(Serialize)]
struct VerdictExcerpt {
    #[serde(flatten)]
    verdict: Verdict,
    id_pairs: usize,
    differences_left_out: usize,
}

/// Returns the verdict for a page: without its ids, with limited differences and values.
pub(super) fn verdict_json(verdict: &Verdict) -> Value {
    let shown = &verdict.differences[..verdict.differences.len().min(MAX_DIFFERENCES)];
    let mut differences = shown.to_vec();
    let values = differences.iter_mut().flat_map(|it| [&mut it.golden, &mut it.candidate]).flatten();
    values.for_each(shorten);
    let excerpt = VerdictExcerpt {
        id_pairs: verdict.tolerances.ids.len(),
        differences_left_out: verdict.differences.len() - shown.len(),
        verdict: Verdict { differences, ..verdict.clone() },
    };
    let mut json = serde_json::to_value(excerpt).expect("it has only string keys");
    // A long session has thousands of pairs, and the page shows only their number.
    json.as_object_mut().map(|members| members.remove("ids"));
    json
}

fn shorten(value: &mut String) {
    if value.len() > MAX_VALUE {
        let end = value.floor_char_boundary(MAX_VALUE);
        let cut = value.len() - end;
        value.truncate(end);
        value.push_str(&format!(" … {cut} more bytes"));
    }
}
