//! The same for people, at eighty columns.

use std::fmt::Write as _;

use ::cache::{Explanation, Shown, Totals, grouped};

use super::{CacheOf, Counted, LeftOut};
use crate::text::{fit, plain, short};

/// How wide a lane's name may be.
const LANE: usize = 16;
/// What the sum of all lanes is called.
const ALL: &str = "together";
/// What says more of a request stands below it.
const INDENT: &str = "     ";

/// What the cache should have done, for people.
pub fn cache_text(of: &CacheOf<'_>, width: usize) -> String {
    let mut out = String::new();
    let mut line =
        |text: String| writeln!(out, "{}", fit(text.trim_end(), width)).expect("a string takes everything");
    if of.explained.requests.is_empty() {
        line("no model was asked".to_owned());
        left_out(of).into_iter().for_each(line);
        return out;
    }
    let lane = of
        .explained
        .lanes
        .iter()
        .map(|(lane, _)| lane.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(ALL.len(), LANE);
    line(format!(
        "{:<lane$} {:>4} {:<7} {:>6} {:>6} {:>6} {:>12} {}",
        "LANE", "TURN", "REQUEST", "READ", "WRITE", "INPUT", "USAGE R+W", "WHY NOT MORE"
    ));
    for request in &of.explained.requests {
        line(row(request, lane));
        for text in about(request, of.shown.get(&request.id)) {
            line(format!("{INDENT}{text}"));
        }
    }
    line(String::new());
    line(format!(
        "{:<lane$} {:>8} {:>6} {:>6} {:>6} {:>6} {:>8} {:>8} {:>9}",
        "LANE", "REQUESTS", "READ", "WRITE", "INPUT", "MISSED", "INPUT $", "USAGE $", "PERFECT $"
    ));
    for (name, totals) in &of.explained.lanes {
        line(sums(name, totals, lane));
    }
    if of.explained.lanes.len() > 1 {
        line(sums(ALL, &of.explained.total, lane));
    }
    left_out(of).into_iter().for_each(&mut line);
    line(String::new());
    line(format!("how sure: {}", Counted::of(of.explained).in_words()));
    let rules: Vec<String> = of.explained.rules.iter().map(|(name, of)| format!("{name} ({of})")).collect();
    line(format!("rules: {}", rules.join("; ")));
    line(format!("list prices of {}", of.prices_of));
    out
}

/// What the sums do not have.
fn left_out(of: &CacheOf<'_>) -> Vec<String> {
    let LeftOut { requests, usage } = of.left_out;
    if requests == 0 {
        return Vec::new();
    }
    let count = if requests == 1 { "1 request".to_owned() } else { format!("{requests} requests") };
    let written = usage.cache_write_5m + usage.cache_write_1h;
    let [read, written, input] = [usage.cache_read, written, usage.input].map(short);
    vec![
        format!("not in the sums: {count} of which only the usage is left, as"),
        format!("of forks without a transcript: {read} read, {written} written, {input} input"),
    ]
}

/// As much of a lane's name as fits. Runs of one tree differ in their ends.
fn cut(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(length + 1 - width).collect();
    format!("…{kept}")
}

fn row(request: &Explanation, lane: usize) -> String {
    let said = request.predicted;
    let written = said.cache_write_5m + said.cache_write_1h;
    let usage = request.reported.map_or("-".to_owned(), |usage| {
        let written = usage.cache_write_5m + usage.cache_write_1h;
        format!("{}+{}", short(usage.cache_read), short(written))
    });
    format!(
        "{:<lane$} {:>4} {:<7} {:>6} {:>6} {:>6} {:>12} {}",
        cut(&plain(&request.lane), lane),
        request.turn,
        request.id.as_str(),
        short(said.cache_read),
        short(written),
        short(said.input),
        usage,
        request.reason.map_or("", ::cache::Reason::word),
    )
}

/// Where a prefix broke, and what that came to.
fn about(request: &Explanation, shown: Option<&Shown>) -> Vec<String> {
    let Some(miss) = &request.miss else { return Vec::new() };
    let mut told = Vec::new();
    let pointer = shown.map_or(&miss.pointer, |shown| &shown.pointer);
    let after = request.after.as_ref().map_or(String::new(), |after| format!(", against {after}"));
    match &miss.at_stake {
        None => {
            told.push(format!("+{} tokens{}{after}", grouped(miss.tokens), cost(miss.usd)));
            told.push(format!("block {} at {}", miss.block, plain(pointer)));
        }
        Some(stake) => {
            told.push(format!(
                "{} at {}: deferred, so not in the prefix",
                plain(&stake.tool),
                plain(pointer)
            ));
            let cost = cost(stake.usd);
            told.push(format!("where that is not heeded: +{} tokens{cost}", grouped(stake.tokens)));
        }
    }
    if let Some(shown) = shown {
        told.push(format!("was {}", plain(&shown.there)));
        told.push(format!("now {}", plain(&shown.here)));
    }
    told
}

fn cost(usd: Option<f64>) -> String {
    usd.map_or(String::new(), |usd| format!(", ${usd:.4}"))
}

fn sums(name: &str, totals: &Totals, lane: usize) -> String {
    let dollars = |usd: Option<f64>| usd.map_or("?".to_owned(), |usd| format!("{usd:.4}"));
    let said = totals.predicted;
    let reported = match totals.reported.input_total() {
        0 => "-".to_owned(),
        _ => dollars(totals.reported_usd),
    };
    format!(
        "{:<lane$} {:>8} {:>6} {:>6} {:>6} {:>6} {:>8} {:>8} {:>9}",
        cut(&plain(name), lane),
        totals.requests,
        short(said.cache_read),
        short(said.cache_write_5m + said.cache_write_1h),
        short(said.input),
        short(totals.missed),
        dollars(totals.predicted_usd),
        reported,
        dollars(totals.perfect_usd),
    )
}
