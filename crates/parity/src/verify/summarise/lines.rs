//! The changes in a few lines that fit on one screen.

use crate::verdict::{Level, Surface, Verdict};
use crate::verify::changes::Changes;
use crate::verify::compared::RecordingFacts;

/// Columns of a line, without the sign that it is cut.
const WIDTH: usize = 76;
/// Highest number of lines. With the result and the two recordings above them they fill one screen.
const MAX_LINES: usize = 19;
/// Lines that each surface gets in any case.
const MIN_LINES: usize = 3;

/// Returns a few lines for each surface that changed.
pub(super) fn summary_lines(
    verdict: &Verdict,
    changes: &Changes,
    facts: [&RecordingFacts; 2],
) -> Vec<String> {
    let head = head(facts);
    let surfaces = Surface::ALL.into_iter().filter_map(|surface| surface_lines(verdict, changes, surface));
    let surfaces = fitted(surfaces.collect(), MAX_LINES - head.len());
    let mut lines = [head, surfaces].concat();
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES + 1;
        lines.truncate(MAX_LINES - 1);
        lines.push(format!("… and {more} more lines; the differences below have them all"));
    }
    lines
}

/// Returns lines about different harnesses, versions or scenarios.
fn head([golden, candidate]: [&RecordingFacts; 2]) -> Vec<String> {
    let mut lines = Vec::new();
    if golden.version != candidate.version || golden.harness != candidate.harness {
        let name = |facts: &RecordingFacts| {
            let harness = facts.harness.as_deref().unwrap_or("unnamed command");
            format!("{harness} {}", facts.version.as_deref().unwrap_or("without a version"))
        };
        lines.push(format!("{} against {}", name(golden), name(candidate)));
    }
    if let (Some(mine), Some(theirs)) = (&golden.scenario, &candidate.scenario)
        && mine != theirs
    {
        lines.push(format!("different scenarios: {mine} against {theirs}"));
    }
    lines
}

/// Returns the lines of a surface, unless it holds E3.
fn surface_lines(verdict: &Verdict, changes: &Changes, surface: Surface) -> Option<Vec<String>> {
    let fails = |level: Option<Level>| level < Some(Level::E3);
    let failing = verdict.differences.iter().filter(|it| it.surface == surface && fails(it.level));
    let failing: Vec<_> = failing.collect();
    if failing.is_empty() {
        return None;
    }
    let mut words = (surface.definition().summary)(changes);
    if words.is_empty() {
        words.extend(failing.into_iter().map(|difference| difference.description.clone()));
        words.dedup();
    }
    Some(wrapped(surface.name(), &words))
}

/// Returns the name and the words after it, wrapped.
fn wrapped(name: &str, words: &[String]) -> Vec<String> {
    let mut lines = vec![format!("{name}:")];
    for word in words.join("; ").split(' ') {
        let last = lines.last_mut().expect("there is one from the start");
        match last.chars().count() + 1 + word.chars().count() > WIDTH {
            true => lines.push(format!("    {word}")),
            false => {
                last.push(' ');
                last.push_str(word);
            }
        }
    }
    lines
}

/// Returns the lines of all surfaces. If they need more than `room`, the longest are cut, but not below [`MIN_LINES`].
fn fitted(mut surfaces: Vec<Vec<String>>, room: usize) -> Vec<String> {
    let mut most = surfaces.iter().map(Vec::len).max().unwrap_or_default();
    let needed = |most: usize| surfaces.iter().map(|lines| lines.len().min(most)).sum::<usize>();
    while most > MIN_LINES && needed(most) > room {
        most -= 1;
    }
    for lines in surfaces.iter_mut().filter(|lines| lines.len() > most) {
        lines.truncate(most);
        lines[most - 1].push_str(" …");
    }
    surfaces.concat()
}
