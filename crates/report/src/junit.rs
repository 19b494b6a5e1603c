//! A verdict as JUnit's XML, which every CI shows: a case for each lane and surface, and one for E0.

use std::fmt::Write as _;

use parity::{
    LaneVerdict, Level, Surface, SurfaceVerdict, UnitCounts, Verdict, VerdictDifference, VerdictOutcome,
};

/// So many differences of one case are written out.
const MOST: usize = 100;
/// So much of a value.
const MOST_OF_A_VALUE: usize = 2_000;

/// One test case.
struct Case {
    class: String,
    name: String,
    result: Result,
}

enum Result {
    Passed,
    Skipped(String),
    Failed(String, String),
    Unknown(String),
}

/// The whole file.
pub fn junit(verdict: &Verdict) -> String {
    let mut cases = vec![first(verdict)];
    for lane in &verdict.lanes {
        cases.extend(lane.surfaces.iter().map(|it| case(verdict, lane, it)));
    }
    cases.extend(homeless(verdict));
    cases.extend(stale(verdict));
    no_silent_pass(verdict, &mut cases);
    let count = |test: fn(&Result) -> bool| cases.iter().filter(|case| test(&case.result)).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
        cases.len(),
        count(|it| matches!(it, Result::Failed(..))),
        count(|it| matches!(it, Result::Unknown(_))),
        count(|it| matches!(it, Result::Skipped(_))),
    );
    let cases: String = cases.iter().map(Case::to_xml).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"offshoot verify\" {counts}>\n\
         <testsuite name=\"{}\" {counts}>\n{cases}</testsuite>\n</testsuites>\n",
        attribute(&format!("{} against {}", verdict.candidate, verdict.golden)),
    )
}

fn first(verdict: &Verdict) -> Case {
    let result = match (&verdict.outcome, verdict.level) {
        (VerdictOutcome::Inconclusive(why), _) => Result::Unknown(why.clone()),
        (_, None) => {
            Result::Failed("it did not run to the same outcome".to_owned(), verdict.summary.join("\n"))
        }
        (_, Some(_)) => Result::Passed,
    };
    Case { class: "recording".to_owned(), name: "E0".to_owned(), result }
}

fn case(verdict: &Verdict, lane: &LaneVerdict, it: &SurfaceVerdict) -> Case {
    let name = lane.golden.as_deref().or(lane.candidate.as_deref()).unwrap_or("?");
    let found: Vec<&VerdictDifference> =
        counting(verdict).filter(|found| found.surface == it.surface && found.lane == name).collect();
    let missing = match (&lane.golden, &lane.candidate) {
        (Some(_), None) => Some("the candidate has no such lane"),
        (None, Some(_)) => Some("the golden has no such lane"),
        _ => None,
    };
    let holds = it.level.is_some_and(|level| level >= verdict.required) || verdict.required == Level::E0;
    let result = match missing {
        Some(why) => Result::Failed(why.to_owned(), listed(&found)),
        None if !found.is_empty() => Result::Failed(counted(found.len()), listed(&found)),
        None if holds => Result::Passed,
        None if it.counts.compared == 0 => Result::Skipped(nothing_compared(it.counts)),
        None => {
            let level = it.level.map_or("no level".to_owned(), |level| level.to_string());
            Result::Failed(format!("{level} holds, {} was asked for", verdict.required), String::new())
        }
    };
    Case { class: format!("lane.{name}"), name: it.surface.name().to_owned(), result }
}

/// The differences that are below the level that was asked for.
fn counting(verdict: &Verdict) -> impl Iterator<Item = &VerdictDifference> {
    verdict.differences.iter().filter(|found| found.level.is_none_or(|holds| holds < verdict.required))
}

fn nothing_compared(counts: UnitCounts) -> String {
    let UnitCounts { excluded, echoed, absent, .. } = counts;
    format!("nothing to compare: {excluded} excluded, {echoed} echoed, {absent} absent")
}

/// Cases for differences whose lane and surface have none.
fn homeless(verdict: &Verdict) -> Vec<Case> {
    let has_home = |found: &VerdictDifference| {
        verdict.lanes.iter().any(|lane| {
            lane.golden.as_deref().or(lane.candidate.as_deref()) == Some(&found.lane)
                && lane.surfaces.iter().any(|it| it.surface == found.surface)
        })
    };
    let mut homes: Vec<(Surface, &str, Vec<&VerdictDifference>)> = Vec::new();
    for found in counting(verdict).filter(|found| !has_home(found)) {
        match homes.iter_mut().find(|home| (home.0, home.1) == (found.surface, &found.lane)) {
            Some(home) => home.2.push(found),
            None => homes.push((found.surface, &found.lane, vec![found])),
        }
    }
    let case = |(surface, lane, found): (Surface, &str, Vec<&VerdictDifference>)| Case {
        class: format!("lane.{lane}"),
        name: surface.name().to_owned(),
        result: Result::Failed(counted(found.len()), listed(&found)),
    };
    homes.into_iter().map(case).collect()
}

/// A rule that covers nothing any more fails a verdict.
fn stale(verdict: &Verdict) -> Vec<Case> {
    let stale = verdict.tolerances.rules.iter().filter(|rule| rule.stale).map(|rule| Case {
        class: "parity.toml".to_owned(),
        name: format!("{} {}", rule.surface.name(), rule.pointer),
        result: Result::Failed("the rule covers nothing any more".to_owned(), rule.reason.clone()),
    });
    stale.collect()
}

/// A verdict that is no match has a case that says so.
fn no_silent_pass(verdict: &Verdict, cases: &mut [Case]) {
    let says_no = |case: &Case| matches!(case.result, Result::Failed(..) | Result::Unknown(_));
    if verdict.outcome == VerdictOutcome::Differs && !cases.iter().any(says_no) {
        let level = verdict.level.map_or("no level".to_owned(), |level| level.to_string());
        let why = format!("{level} holds, {} was asked for", verdict.required);
        cases[0].result = Result::Failed(why, verdict.summary.join("\n"));
    }
}

fn counted(count: usize) -> String {
    if count == 1 { "1 difference".to_owned() } else { format!("{count} differences") }
}

fn listed(found: &[&VerdictDifference]) -> String {
    let mut text = String::new();
    let value = |value: &Option<String>| match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let end = value.floor_char_boundary(MOST_OF_A_VALUE);
            let more = if end < value.len() { " …" } else { "" };
            format!("{}{more}", &value[..end])
        }
    };
    for it in found.iter().take(MOST) {
        writeln!(
            text,
            "turn {} {}: {}\n  golden:    {}\n  candidate: {}",
            it.turn,
            it.pointer,
            it.description,
            value(&it.golden),
            value(&it.candidate)
        )
        .expect("a string takes everything");
    }
    if found.len() > MOST {
        writeln!(text, "and {} more", found.len() - MOST).expect("a string takes everything");
    }
    text
}

impl Case {
    fn to_xml(&self) -> String {
        let head =
            format!("<testcase classname=\"{}\" name=\"{}\"", attribute(&self.class), attribute(&self.name));
        let inner = match &self.result {
            Result::Passed => return format!("{head}/>\n"),
            Result::Skipped(why) => format!("<skipped message=\"{}\"/>", attribute(why)),
            Result::Failed(what, text) => {
                format!("<failure message=\"{}\">{}</failure>", attribute(what), xml(text))
            }
            Result::Unknown(why) => format!("<error message=\"{}\"/>", attribute(why)),
        };
        format!("{head}>{inner}</testcase>\n")
    }
}

/// A text for an attribute: on one line.
fn attribute(text: &str) -> String {
    xml(&crate::text::plain(text))
}

/// A text for the place between two tags. What XML cannot hold at all, and what could move a cursor, is shown by its number.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\t' => out.push(c),
            c if crate::text::is_harmless(c) && !matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(c),
            c => write!(out, "\\u{{{:x}}}", u32::from(c)).expect("a string takes everything"),
        }
    }
    out
}

#[cfg(test)]
mod tests;
