//! `offshoot verify` for people: the result, the changes, the surfaces, then each difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use parity::{
    LaneVerdict, Level, MaskUse, Surface, SurfaceVerdict, UnitCounts, Verdict, VerdictDifference,
    VerdictOutcome,
};

use crate::diff::{Piece, pieces};
use crate::style::Tone;
use crate::table::{Column, DropRule, Table};
use crate::text::{columns, counted, fit, plain, shown_value, wrap};

/// Values longer than this are shown as a word diff.
const LONG: usize = 60;
/// Characters of common text that are shown around a change.
const AROUND: usize = 32;
/// Stretches of a word diff that are shown.
const STRETCHES: usize = 12;
/// Columns of a value on a line of unlimited width.
const VALUE_WIDTH: usize = 160;
/// Columns of a sentence, on wide screens, too.
const PROSE_WIDTH: usize = 80;

/// Renders a verdict, the most important facts first.
pub fn verdict_text(verdict: &Verdict, width: usize) -> String {
    let mut out = VerdictWriter { text: String::new(), width };
    out.prose(&verdict_line(verdict), 0);
    out.recording("golden   ", &verdict.golden, &verdict.descriptions[0]);
    out.recording("candidate", &verdict.candidate, &verdict.descriptions[1]);
    if !verdict.summary.is_empty() {
        out.line("");
        for line in &verdict.summary {
            let indent = if line.starts_with(' ') { "    " } else { "" };
            out.wrapped(&format!("{indent}{}", plain(line.trim_start())), indent.len() + 2);
        }
    }
    out.surfaces(&verdict.surfaces);
    out.lanes(verdict);
    let mut offered = BTreeMap::new();
    for rule in verdict.differences.iter().filter_map(|it| it.suggested_rule.as_deref()) {
        *offered.entry(rule).or_default() += 1;
    }
    for difference in &verdict.differences {
        out.difference(difference);
        if let Some(rule) = &difference.suggested_rule {
            out.rule(rule, offered.remove(rule.as_str()));
        }
    }
    out.tolerances(verdict);
    out.notes(verdict);
    out.text
}

/// Renders the result in one line, such as `PASS  byte-equal (E4; required E4)`.
pub fn verdict_line(verdict: &Verdict) -> String {
    let word = verdict.outcome.word();
    let tone = match verdict.outcome {
        VerdictOutcome::Match => Tone::Good,
        VerdictOutcome::Differs => Tone::Bad,
        VerdictOutcome::Inconclusive(_) => Tone::Warning,
    };
    let word = tone.paint(word);
    let stale = verdict.stale_rules();
    match &verdict.outcome {
        VerdictOutcome::Inconclusive(because) => format!("{word}  {}", plain(because)),
        VerdictOutcome::Match => format!("{word}  {}", passed_words(verdict)),
        VerdictOutcome::Differs if stale > 0 && verdict.level >= Some(verdict.required) => {
            let rules = if stale == 1 { "1 rule covers".to_owned() } else { format!("{stale} rules cover") };
            format!("{word}  {}, but {rules} nothing", passed_words(verdict))
        }
        VerdictOutcome::Differs => {
            let count = counted(verdict.differences.len() as u64, "difference");
            format!("{word}  {}; {count}", failed_words(verdict.level, verdict.required))
        }
    }
}

fn passed_words(verdict: &Verdict) -> String {
    let Some(level) = verdict.level else { return level_words(None) };
    format!("{} ({level}; required {})", level.words(), verdict.required)
}

/// Describes a level below the required one, such as `same structure (E2), required equal after masks (E3)`.
pub(crate) fn failed_words(level: Option<Level>, required: Level) -> String {
    format!("{}, required {}", level_words(level), level_words(Some(required)))
}

fn level_words(level: Option<Level>) -> String {
    level.map_or_else(
        || "different outcome (below E0)".to_owned(),
        |level| format!("{} ({level})", level.words()),
    )
}

/// Describes the level that still holds with a difference, such as `E2: same structure`.
pub(crate) fn remaining_level(level: Option<Level>) -> String {
    level.map_or_else(
        || "below E0: different outcome".to_owned(),
        |level| format!("{level}: {}", level.words()),
    )
}

struct VerdictWriter {
    text: String,
    width: usize,
}

impl VerdictWriter {
    /// Writes a line. Its last part, from column `last` on, continues below if it does not fit.
    fn wrapped(&mut self, line: &str, last: usize) {
        let line = wrap(line, last, self.width);
        self.line(&line);
    }

    /// Writes a sentence, wrapped on wide screens, too.
    fn prose(&mut self, line: &str, last: usize) {
        let line = wrap(line, last, self.width.min(PROSE_WIDTH));
        self.line(&line);
    }

    /// Writes a value of any length.
    fn value(&mut self, line: &str, last: usize) {
        let line = shown_value(line, last, self.width);
        self.line(&line);
    }

    fn lines(&mut self, lines: &[String]) {
        lines.iter().for_each(|line| self.line(line));
    }

    /// Writes a line that is never cut.
    fn line(&mut self, line: &str) {
        writeln!(self.text, "{}", line.trim_end()).expect("a string takes everything");
    }

    /// Writes folder and description of a recording. Paths are never cut.
    fn recording(&mut self, side: &str, folder: &str, description: &str) {
        let (folder, description) = (plain(folder), plain(description));
        let line = format!("{side}  {folder}  {description}");
        match columns(&line) <= self.width {
            true => self.line(&line),
            false => {
                self.line(&format!("{side}  {description}"));
                self.line(&format!("{:9}  {folder}", ""));
            }
        }
    }

    /// Writes the surfaces with units, and a legend of the counts.
    fn surfaces(&mut self, surfaces: &[SurfaceVerdict]) {
        let surfaces: Vec<_> = surfaces.iter().filter(|it| has_units(it)).collect();
        if surfaces.is_empty() {
            return;
        }
        // A count that is zero on all surfaces has no column.
        let counts: Vec<_> = COUNTS
            .iter()
            .filter(|count| count.is_always_shown() || surfaces.iter().any(|it| (count.of)(&it.counts) > 0))
            .collect();
        let mut columns = vec![Column::text("surface", "settings".len()), Column::text("level", 0)];
        columns.extend(counts.iter().map(|count| Column::number(count.name, 0)));
        let row = |it: &&SurfaceVerdict| {
            let cells = counts.iter().map(|count| (count.of)(&it.counts).to_string());
            [it.surface.name().to_owned(), level_cell(it.level)].into_iter().chain(cells).collect()
        };
        let rows = surfaces.iter().map(row).collect();
        let table = Table { columns, rows, gap: 2, drop_order: vec![DropRule::spaces()] };
        self.line("");
        self.lines(&table.folded(self.width));
        let legend: Vec<String> =
            counts.iter().filter_map(|count| Some(format!("{}: {}", count.name, count.legend?))).collect();
        if !legend.is_empty() {
            self.prose(&legend.join("; "), 0);
        }
    }

    /// Writes the level of each lane on each surface.
    fn lanes(&mut self, verdict: &Verdict) {
        let is_compared = |lane: &&LaneVerdict| lane.surfaces.iter().any(|it| it.counts.compared > 0);
        let lanes: Vec<&LaneVerdict> = verdict.lanes.iter().filter(is_compared).collect();
        if lanes.is_empty() {
            return;
        }
        let has_level = |surface: &Surface| {
            let mut of = lanes.iter().flat_map(|lane| &lane.surfaces);
            of.any(|it| it.surface == *surface && it.level.is_some())
        };
        let surfaces: Vec<Surface> = Surface::ALL.into_iter().filter(has_level).collect();
        if surfaces.is_empty() {
            return;
        }
        let mut columns = vec![Column::text("lane", 0)];
        columns.extend(surfaces.iter().map(|surface| Column::text(surface.name(), 0)));
        let row = |lane: &&LaneVerdict| {
            let cell = |surface: &Surface| {
                let of = lane.surfaces.iter().find(|it| it.surface == *surface);
                of.map_or_else(String::new, |it| level_cell(it.level))
            };
            std::iter::once(lane_name(lane)).chain(surfaces.iter().map(cell)).collect()
        };
        let rows = lanes.iter().map(row).collect();
        self.line("");
        let table = Table { columns, rows, gap: 2, drop_order: vec![DropRule::spaces()] };
        self.lines(&table.folded(self.width));
    }

    fn difference(&mut self, difference: &VerdictDifference) {
        let VerdictDifference { surface, level, lane, turn, pointer, description, race, .. } = difference;
        self.line("");
        let place = format!("{}  {}, turn {turn}", surface.name(), plain(lane));
        let indent = place.chars().count() + 2;
        self.wrapped(&format!("{}  {}", Tone::Strong.paint(&place), plain(pointer)), indent);
        let race = race.map_or(String::new(), |race| format!("; race: {}", race.name()));
        self.wrapped(&format!("  {} ({}{race})", plain(description), remaining_level(*level)), 2);
        match (&difference.golden, &difference.candidate) {
            (Some(golden), Some(candidate)) if golden.len().max(candidate.len()) > LONG => {
                self.word_diff(golden, candidate);
            }
            (golden, candidate) => {
                let sides = [("golden   ", Tone::Bad, golden), ("candidate", Tone::Good, candidate)];
                for (side, tone, value) in sides {
                    if let Some(value) = value {
                        let line = format!("  {}  {}", tone.paint(side), plain(value));
                        self.value(&fit(&line, VALUE_WIDTH), 13);
                    }
                }
            }
        }
    }

    /// Writes the rule that would cover a difference. A rule that covers several differences is written once.
    fn rule(&mut self, rule: &str, covers: Option<u64>) {
        match covers {
            Some(1) => {}
            Some(covers) => self.line(&format!("    # covers {covers} of the differences")),
            None => return self.line("    (covered by a rule above)"),
        }
        for line in rule.lines() {
            self.line(&format!("    {line}"));
        }
    }

    /// Writes the changes between two long texts, word by word.
    fn word_diff(&mut self, golden: &str, candidate: &str) {
        let stretches = pieces(golden, candidate);
        let mut line = String::new();
        let last = stretches.len().saturating_sub(1);
        for (at, stretch) in stretches.iter().enumerate().take(STRETCHES) {
            match stretch {
                Piece::Same(text) => line += &spaced(&around(text, at == 0, at == last)),
                Piece::Gone(text) => {
                    line += &Tone::Bad.paint(&format!("[-{}-]", spaced(&shortened(text))));
                }
                Piece::New(text) => {
                    line += &Tone::Good.paint(&format!("{{+{}+}}", spaced(&shortened(text))));
                }
            }
        }
        if stretches.len() > STRETCHES {
            line.push_str(" … and more");
        }
        self.value(&format!("  {}", line.trim_start()), 2);
    }

    /// Writes the masks that were hit, the rules, and the number of paired ids.
    fn tolerances(&mut self, verdict: &Verdict) {
        let hit: Vec<_> = verdict.tolerances.masks.iter().filter(|mask| mask.hits > 0).collect();
        if !hit.is_empty() {
            let columns = vec![
                Column::text("mask", 14),
                Column::number("hits", 0),
                Column::number("differed", 0),
                Column::text("covers", 0),
            ];
            let row = |mask: &&MaskUse| {
                vec![mask.name.clone(), mask.hits.to_string(), mask.differed.to_string(), mask.covers.clone()]
            };
            let rows = hit.iter().map(row).collect();
            let table = Table { columns, rows, gap: 2, drop_order: Vec::new() };
            self.line("");
            self.lines(&table.wrapped(self.width));
        }
        if !verdict.tolerances.rules.is_empty() {
            self.line("");
            self.line("rules of parity.toml");
        }
        for rule in &verdict.tolerances.rules {
            let stale = if rule.stale { "  STALE: covers nothing, remove it" } else { "" };
            let line = format!(
                "  {} {}  {}  {}{stale}",
                rule.surface.name(),
                plain(&rule.pointer),
                counted(rule.hits, "hit"),
                plain(&rule.reason)
            );
            self.wrapped(&line, 4);
        }
        if !verdict.tolerances.ids.is_empty() {
            self.line("");
            self.line(&match verdict.tolerances.ids.len() {
                1 => "1 id is paired with another one".to_owned(),
                ids => format!("{ids} ids are paired with others"),
            });
        }
    }

    /// Writes the notes, and the command that helps with a failure.
    fn notes(&mut self, verdict: &Verdict) {
        if !verdict.notes.is_empty() {
            self.line("");
        }
        for note in &verdict.notes {
            self.prose(&format!("note: {}", plain(note)), "note: ".len());
        }
        if verdict.outcome == VerdictOutcome::Differs && !verdict.differences.is_empty() {
            let [golden, candidate] = [&verdict.golden, &verdict.candidate].map(|folder| plain(folder));
            self.line("");
            self.line(&format!(
                "{} offshoot report {candidate} --golden {golden}",
                Tone::Hint.paint("hint:")
            ));
        }
    }
}

/// A count of a surface's units.
struct UnitCount {
    name: &'static str,
    of: fn(&UnitCounts) -> u64,
    /// Meaning of the count, unless its name says it all. A count with a legend is hidden if it is zero everywhere.
    legend: Option<&'static str>,
}

impl UnitCount {
    fn is_always_shown(&self) -> bool {
        self.legend.is_none()
    }
}

const COUNTS: &[UnitCount] = &[
    UnitCount { name: "compared", of: |counts| counts.compared, legend: None },
    UnitCount { name: "equal", of: |counts| counts.equal, legend: None },
    UnitCount { name: "masked", of: |counts| counts.masked, legend: Some("has a masked value") },
    UnitCount { name: "excluded", of: |counts| counts.excluded, legend: Some("left out by parity.toml") },
    UnitCount {
        name: "echoed",
        of: |counts| counts.echoed,
        legend: Some("comes from the model, not compared"),
    },
    UnitCount { name: "absent", of: |counts| counts.absent, legend: Some("not in the golden") },
];

fn has_units(surface: &SurfaceVerdict) -> bool {
    surface.level.is_some() || COUNTS.iter().any(|count| (count.of)(&surface.counts) > 0)
}

/// Returns the lane's name, or both names if they differ.
fn lane_name(lane: &LaneVerdict) -> String {
    let [golden, candidate] = [&lane.golden, &lane.candidate].map(|name| name.as_deref().unwrap_or("-"));
    if golden == candidate { plain(golden) } else { plain(&format!("{golden} = {candidate}")) }
}

/// Escapes a piece of a line, and keeps one space at its edges.
fn spaced(text: &str) -> String {
    let space = |is_there: bool| if is_there { " " } else { "" };
    let escaped = plain(text);
    let end = space(!escaped.is_empty() && text.ends_with(char::is_whitespace));
    format!("{}{escaped}{end}", space(text.starts_with(char::is_whitespace)))
}

fn level_cell(level: Option<Level>) -> String {
    level.map_or_else(|| "-".to_owned(), |level| level.to_string())
}

/// Returns the parts of a common text that are next to a change.
fn around(text: &str, is_first: bool, is_last: bool) -> String {
    let count = text.chars().count();
    let head: String = text.chars().take(AROUND).collect();
    let tail: String = text.chars().skip(count.saturating_sub(AROUND)).collect();
    match (is_first, is_last) {
        _ if count <= 2 * AROUND => text.to_owned(),
        (true, _) => format!("…{tail}"),
        (_, true) => format!("{head}…"),
        _ => format!("{head} … {tail}"),
    }
}

fn shortened(text: &str) -> String {
    let count = text.chars().count();
    let kept: String = text.chars().take(6 * AROUND).collect();
    if count > 6 * AROUND { format!("{kept}…") } else { kept }
}

#[cfg(test)]
mod tests;
