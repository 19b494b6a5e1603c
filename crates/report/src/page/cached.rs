//! The page's data about the prompt cache.

use std::collections::HashMap;

use ::cache::{CacheTotals, Explanation};
use serde_json::{Value, json};
use session::Usage;

use crate::CacheView;
use crate::cache::section;

/// `lanes` and `exchanges` map ids to numbers on the page.
pub(super) fn cached(
    of: &CacheView<'_>,
    lanes: &HashMap<&str, usize>,
    exchanges: &HashMap<&str, usize>,
) -> Value {
    let explained = of.explained;
    let request = |it: &Explanation| {
        let miss = it.miss.as_ref();
        let shown = of.shown.get(&it.id);
        Some(json!({
            "exchange": exchanges.get(it.id.as_str())?,
            "predicted": parts(&it.predicted),
            "reported": it.reported.as_ref().map(parts),
            "missed": miss.map_or(0, |miss| miss.tokens),
            "reason": it.reason.map(::cache::Reason::name),
            "section": miss.map(|miss| section(miss.section)),
            "block": miss.map(|miss| miss.block),
            "pointer": shown.map(|shown| &shown.pointer).or(miss.map(|miss| &miss.pointer)),
            "before": shown.map(|shown| &shown.previous),
            "now": shown.map(|shown| &shown.current),
            "after": it.after,
            "usd": miss.and_then(|miss| miss.usd),
            "sure": it.confidence.to_string(),
        }))
    };
    let lane = |(lane, totals): &(String, CacheTotals)| {
        let mut sum = sums(totals);
        sum["lane"] = json!(lanes.get(lane.as_str())?);
        Some(sum)
    };
    let rules = explained.rules.iter().map(|(name, of)| json!({"name": name, "documented": of}));
    json!({
        "requests": explained.requests.iter().filter_map(request).collect::<Vec<_>>(),
        "lanes": explained.lanes.iter().filter_map(lane).collect::<Vec<_>>(),
        "total": sums(&explained.total),
        "sure": of.sure(),
        "rules": rules.collect::<Vec<_>>(),
        "prices_of": of.prices_of,
    })
}

fn sums(totals: &CacheTotals) -> Value {
    json!({
        "predicted": parts(&totals.predicted),
        "reported": parts(&totals.reported),
        "missed": totals.missed,
        "usd": totals.predicted_usd,
        "perfect_usd": totals.perfect_usd,
    })
}

fn parts(usage: &Usage) -> Value {
    json!({
        "read": usage.cache_read,
        "write": usage.cache_write_5m.saturating_add(usage.cache_write_1h),
        "input": usage.input,
    })
}
