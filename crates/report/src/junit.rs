//! A verdict as JUnit XML, with a test case for E0 and for each lane and surface.

use std::fmt::Write as _;

use parity::{
    LaneVerdict, Level, Surface, SurfaceVerdict, UnitCounts, Verdict, VerdictDifference, VerdictOutcome,
};

use crate::text::counted;

/// Differences of one case that are listed.
const MAX_LISTED: usize = 100;
/// Bytes of a value that are written.
const MAX_VALUE: usize = 2_000;

/// A test case.
struct TestCase {
    class: String,
    name: String,
    result: CaseResult,
}

enum CaseResult {
    Passed,
    Skipped(String),
    Failed(String, String),
    Unknown(String),
}

/// Renders a verdict as a JUnit file.
pub fn junit(verdict: &Verdict) -> String {
    let mut cases = vec![outcome_case(verdict)];
    for lane in &verdict.lanes {
        cases.extend(lane.surfaces.iter().map(|it| surface_case(verdict, lane, it)));
    }
    cases.extend(other_cases(verdict));
    cases.extend(stale_rules(verdict));
    fail_outcome(verdict, &mut cases);
    let count = |test: fn(&CaseResult) -> bool| cases.iter().filter(|case| test(&case.result)).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
        cases.len(),
        count(|it| matches!(it, CaseResult::Failed(..))),
        count(|it| matches!(it, CaseResult::Unknown(_))),
        count(|it| matches!(it, CaseResult::Skipped(_))),
    );
    let cases: String = cases.iter().map(TestCase::to_xml).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"offshoot verify\" {counts}>\n\
         <testsuite name=\"{}\" {counts}>\n{cases}</testsuite>\n</testsuites>\n",
        attribute(&format!("{} against {}", verdict.candidate, verdict.golden)),
    )
}

fn outcome_case(verdict: &Verdict) -> TestCase {
    let result = match (&verdict.outcome, verdict.level) {
        (VerdictOutcome::Inconclusive(why), _) => CaseResult::Unknown(why.clone()),
        (_, None) => {
            CaseResult::Failed("different outcome (below E0)".to_owned(), verdict.summary.join("\n"))
        }
        (_, Some(_)) => CaseResult::Passed,
    };
    TestCase { class: "recording".to_owned(), name: "E0".to_owned(), result }
}

fn surface_case(verdict: &Verdict, lane: &LaneVerdict, it: &SurfaceVerdict) -> TestCase {
    let name = lane.golden.as_deref().or(lane.candidate.as_deref()).unwrap_or("?");
    let found: Vec<&VerdictDifference> =
        failing(verdict).filter(|found| found.surface == it.surface && found.lane == name).collect();
    let missing = match (&lane.golden, &lane.candidate) {
        (Some(_), None) => Some("the candidate lacks the lane"),
        (None, Some(_)) => Some("the golden lacks the lane"),
        _ => None,
    };
    let holds = it.level.is_some_and(|level| level >= verdict.required) || verdict.required == Level::E0;
    // A lane that a rule excludes, or that the required level allows to be missing, fails nothing.
    let is_lane_failed = failing(verdict).any(|found| found.lane == name);
    let result = match missing {
        Some(why) if is_lane_failed => CaseResult::Failed(why.to_owned(), listed(&found)),
        Some(why) => CaseResult::Skipped(why.to_owned()),
        None if !found.is_empty() => {
            CaseResult::Failed(counted(found.len() as u64, "difference"), listed(&found))
        }
        None if it.counts.compared == 0 => CaseResult::Skipped(nothing_compared(it.counts)),
        None if holds => CaseResult::Passed,
        None if it.level.is_none() => {
            CaseResult::Skipped("nothing to compare: only ends of requests".to_owned())
        }
        None => {
            let words = crate::verdict::failed_words(it.level, verdict.required);
            CaseResult::Failed(words, String::new())
        }
    };
    TestCase { class: format!("lane.{name}"), name: it.surface.name().to_owned(), result }
}

/// Returns the differences below the required level.
fn failing(verdict: &Verdict) -> impl Iterator<Item = &VerdictDifference> {
    verdict.differences.iter().filter(|found| found.level.is_none_or(|holds| holds < verdict.required))
}

fn nothing_compared(counts: UnitCounts) -> String {
    let UnitCounts { excluded, echoed, absent, .. } = counts;
    format!("nothing to compare: {excluded} excluded, {echoed} echoed, {absent} absent")
}

/// Returns cases for differences on lanes and surfaces without a case.
fn other_cases(verdict: &Verdict) -> Vec<TestCase> {
    let has_case = |found: &VerdictDifference| {
        verdict.lanes.iter().any(|lane| {
            lane.golden.as_deref().or(lane.candidate.as_deref()) == Some(&found.lane)
                && lane.surfaces.iter().any(|it| it.surface == found.surface)
        })
    };
    let mut groups: Vec<(Surface, &str, Vec<&VerdictDifference>)> = Vec::new();
    for found in failing(verdict).filter(|found| !has_case(found)) {
        match groups.iter_mut().find(|group| (group.0, group.1) == (found.surface, &found.lane)) {
            Some(group) => group.2.push(found),
            None => groups.push((found.surface, &found.lane, vec![found])),
        }
    }
    let case = |(surface, lane, found): (Surface, &str, Vec<&VerdictDifference>)| TestCase {
        class: format!("lane.{lane}"),
        name: surface.name().to_owned(),
        result: CaseResult::Failed(counted(found.len() as u64, "difference"), listed(&found)),
    };
    groups.into_iter().map(case).collect()
}

/// Returns a failed case for each stale rule.
fn stale_rules(verdict: &Verdict) -> Vec<TestCase> {
    let stale = verdict.tolerances.rules.iter().filter(|rule| rule.stale).map(|rule| TestCase {
        class: "parity.toml".to_owned(),
        name: format!("{} {}", rule.surface.name(), rule.pointer),
        result: CaseResult::Failed("the rule covers nothing".to_owned(), rule.reason.clone()),
    });
    stale.collect()
}

/// Fails the first case of a failed verdict, if no other case fails.
fn fail_outcome(verdict: &Verdict, cases: &mut [TestCase]) {
    let is_failed = |case: &TestCase| matches!(case.result, CaseResult::Failed(..) | CaseResult::Unknown(_));
    if verdict.outcome == VerdictOutcome::Differs && !cases.iter().any(is_failed) {
        let why = crate::verdict::failed_words(verdict.level, verdict.required);
        cases[0].result = CaseResult::Failed(why, verdict.summary.join("\n"));
    }
}

fn listed(found: &[&VerdictDifference]) -> String {
    let mut text = String::new();
    let value = |value: &Option<String>| match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let end = value.floor_char_boundary(MAX_VALUE);
            let more = if end < value.len() { " …" } else { "" };
            format!("{}{more}", &value[..end])
        }
    };
    for it in found.iter().take(MAX_LISTED) {
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
    if found.len() > MAX_LISTED {
        writeln!(text, "and {} more", found.len() - MAX_LISTED).expect("a string takes everything");
    }
    text
}

impl TestCase {
    fn to_xml(&self) -> String {
        let head =
            format!("<testcase classname=\"{}\" name=\"{}\"", attribute(&self.class), attribute(&self.name));
        let inner = match &self.result {
            CaseResult::Passed => return format!("{head}/>\n"),
            CaseResult::Skipped(why) => format!("<skipped message=\"{}\"/>", attribute(why)),
            CaseResult::Failed(what, text) => {
                format!("<failure message=\"{}\">{}</failure>", attribute(what), xml(text))
            }
            CaseResult::Unknown(why) => format!("<error message=\"{}\"/>", attribute(why)),
        };
        format!("{head}>{inner}</testcase>\n")
    }
}

/// Escapes a text for an attribute, on one line.
fn attribute(text: &str) -> String {
    xml(&crate::text::plain(text))
}

/// Escapes a text for the content of a tag. Characters that XML cannot hold, or that move a cursor, are written as their
/// numbers.
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
