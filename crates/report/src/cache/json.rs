//! JSON output of `offshoot cache`.

use ::cache::{ByteDiff, CacheTotals, Explanation, Section};
use serde_json::{Value, json};
use session::Usage;

use super::{AccuracyCounts, CacheView};

const FORMAT: u32 = 1;

/// Renders the explained cache as JSON.
pub fn cache_json(of: &CacheView<'_>) -> Value {
    let counted = AccuracyCounts::of(of.explained);
    let rules = of.explained.rules.iter().map(|(name, of)| json!({"name": name, "documented": of}));
    let lanes = of.explained.lanes.iter().map(|(lane, totals)| {
        let mut line = sums(totals);
        line["lane"] = lane.as_str().into();
        line
    });
    let mut totals = sums(&of.explained.total);
    totals["lanes"] = lanes.collect();
    json!({
        "format": FORMAT,
        "requests": of.explained.requests.iter().map(|it| request(it, of.shown.get(&it.id))).collect::<Vec<_>>(),
        "totals": totals,
        "left_out": { "requests": of.left_out.requests, "reported": usage(&of.left_out.usage) },
        "sure": {
            "exact": counted.exact, "calibrated": counted.calibrated, "within": counted.within, "within_percent": counted.percent,
            "contradicted": counted.contradicted, "unchecked": counted.unchecked,
        },
        "rules": rules.collect::<Vec<_>>(),
        "prices_of": of.prices_of,
    })
}

/// Rounds to a billionth of a dollar, because finer digits are artefacts of the sums.
fn dollars(usd: Option<f64>) -> Option<f64> {
    usd.map(|usd| (usd * 1e9).round() / 1e9)
}

fn request(request: &Explanation, shown: Option<&ByteDiff>) -> Value {
    let miss = request.miss.as_ref();
    let pointer = shown.map(|shown| &shown.pointer).or(miss.map(|miss| &miss.pointer));
    let stake = miss.and_then(|miss| miss.at_stake.as_ref());
    json!({
        "request_id": request.id,
        "lane": request.lane,
        "turn": request.turn,
        "model": request.model,
        "predicted": usage(&request.predicted),
        "reported": request.reported.as_ref().map(usage),
        "perfect": usage(&request.perfect),
        "sure": request.confidence.to_string(),
        "reason": request.reason.map(::cache::Reason::name),
        "pointer": pointer,
        "block": miss.map(|miss| miss.block),
        "section": miss.map(|miss| section(miss.section)),
        "after": request.after,
        "missed": miss.map_or(0, |miss| miss.tokens),
        "cost_usd": dollars(miss.and_then(|miss| miss.usd)),
        "before": shown.map(|shown| &shown.previous),
        "now": shown.map(|shown| &shown.current),
        "at_stake": stake.map(|stake| json!({"tool": stake.tool, "tokens": stake.tokens, "cost_usd": dollars(stake.usd)})),
    })
}

pub(crate) fn section(section: Section) -> &'static str {
    match section {
        Section::Tools => "tools",
        Section::System => "system",
        Section::Messages => "messages",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "read": usage.cache_read,
        "write_5m": usage.cache_write_5m,
        "write_1h": usage.cache_write_1h,
        "input": usage.input,
    })
}

fn sums(totals: &CacheTotals) -> Value {
    json!({
        "requests": totals.requests,
        "predicted": usage(&totals.predicted),
        "reported": usage(&totals.reported),
        "perfect": usage(&totals.perfect),
        "missed": totals.missed,
        "predicted_usd": dollars(totals.predicted_usd),
        "reported_usd": dollars(totals.reported_usd),
        "perfect_usd": dollars(totals.perfect_usd),
    })
}
