//! `offshoot verify` as people read it: the answer, what changed, the surfaces, then every difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use parity::{
    LaneVerdict, Level, MaskUse, Surface, SurfaceVerdict, UnitCounts, Verdict, VerdictDifference,
    VerdictOutcome,
};

use crate::diff::{Piece, pieces};
use crate::style::Tone;
use crate::table::{Column, DropRule, Table};
use crate::text::{fit, plain, shown_value, wrap};

/// Longer values are shown as a word diff.
const LONG: usize = 60;
/// How much of what both have is shown around a change.
const AROUND: usize = 32;
/// Stretches of a word diff that are shown.
const STRETCHES: usize = 12;
/// Columns of a line that is cut, where nobody says how many there are.
const USUAL_WIDTH: usize = 160;

/// A verdict, the most important first.
pub fn verdict_text(verdict: &Verdict, width: usize) -> String {
    let mut out = Page { text: String::new(), width };
    out.part(&tone(&verdict.outcome).paint(&plain(&answer(verdict))), 0);
    out.side("golden   ", &verdict.golden, &verdict.descriptions[0]);
    out.side("candidate", &verdict.candidate, &verdict.descriptions[1]);
    if !verdict.summary.is_empty() {
        out.whole("");
        for line in &verdict.summary {
            let indent = if line.starts_with(' ') { "    " } else { "" };
            out.part(&format!("{indent}{}", plain(line.trim_start())), indent.len() + 2);
        }
    }
    out.whole("");
    out.surfaces(&verdict.surfaces);
    out.lanes(&verdict.lanes);
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
    out.masks(verdict);
    out.text
}

struct Page {
    text: String,
    width: usize,
}

impl Page {
    /// A line that goes on below where it does not fit: under its last part, from `last` on.
    fn part(&mut self, line: &str, last: usize) {
        let line = wrap(line, last, self.width);
        self.whole(&line);
    }

    /// The same of a value that may be of any length.
    fn value(&mut self, line: &str, last: usize) {
        let line = shown_value(line, last, self.width);
        self.whole(&line);
    }

    fn lines(&mut self, lines: &[String]) {
        lines.iter().for_each(|line| self.whole(line));
    }

    /// A line that is never cut.
    fn whole(&mut self, line: &str) {
        writeln!(self.text, "{}", line.trim_end()).expect("a string takes everything");
    }

    /// Whose recording it is and where: a path that was cut is worth nothing.
    fn side(&mut self, whose: &str, folder: &str, about: &str) {
        let (folder, about) = (plain(folder), plain(about));
        let line = format!("{whose}  {folder}  {about}");
        match line.chars().count() <= self.width {
            true => self.whole(&line),
            false => {
                self.whole(&format!("{whose}  {about}"));
                self.whole(&format!("{:9}  {folder}", ""));
            }
        }
    }

    /// Which level each lane holds on each surface.
    fn lanes(&mut self, lanes: &[LaneVerdict]) {
        let is_compared = |lane: &&LaneVerdict| lane.surfaces.iter().any(|it| it.counts.compared > 0);
        let lanes: Vec<(String, &LaneVerdict)> =
            lanes.iter().filter(is_compared).map(|lane| (lane_name(lane), lane)).collect();
        let mut columns = vec![Column::text("lane", 0)];
        columns.extend(Surface::ALL.map(|surface| Column::text(surface.name(), 0)));
        let row = |(name, lane): (String, &LaneVerdict)| {
            let of = |surface| lane.surfaces.iter().find(|it| it.surface == surface);
            let cells =
                Surface::ALL.map(|surface| of(surface).map_or_else(String::new, |it| level(it.level)));
            std::iter::once(name).chain(cells).collect()
        };
        let rows = lanes.into_iter().map(row).collect();
        self.whole("");
        let table = Table { columns, rows, gap: 2, drop_order: vec![DropRule::spaces()] };
        self.lines(&table.folded(self.width));
    }

    fn surfaces(&mut self, surfaces: &[SurfaceVerdict]) {
        let row = |SurfaceVerdict { surface, level: of, counts }: &SurfaceVerdict| {
            let UnitCounts { compared, equal, masked, excluded, echoed, absent } = counts;
            let counts = [compared, equal, masked, excluded, echoed, absent].map(u64::to_string);
            [surface.name().to_owned(), level(*of)].into_iter().chain(counts).collect()
        };
        let mut columns = vec![Column::text("surface", "settings".len()), Column::text("level", 0)];
        let counted = ["compared", "equal", "masked", "excluded", "echoed", "absent"];
        columns.extend(counted.map(|head| Column::number(head, 0)));
        let rows = surfaces.iter().map(row).collect();
        let table = Table { columns, rows, gap: 2, drop_order: vec![DropRule::spaces()] };
        self.lines(&table.folded(self.width));
    }

    fn difference(&mut self, difference: &VerdictDifference) {
        let VerdictDifference {
            surface,
            level: holds,
            lane,
            turn,
            pointer,
            description: what,
            golden,
            candidate,
            race: racy,
            ..
        } = difference;
        let holds = match holds {
            Some(Level::E0) => "holds nothing above E0".to_owned(),
            Some(level) => format!("holds {level}"),
            None => "fails E0".to_owned(),
        };
        self.whole("");
        let place = format!("{}  {}, turn {turn}  ", surface.name(), plain(lane));
        self.part(&format!("{place}{}", plain(pointer)), place.chars().count());
        let racy = racy.map_or(String::new(), |race| format!("; racy: {}", race.name()));
        self.part(&format!("  {} ({holds}{racy})", plain(what)), 2);
        match (golden, candidate) {
            (Some(golden), Some(candidate)) if golden.len().max(candidate.len()) > LONG => {
                self.words(golden, candidate);
            }
            _ => {
                for (whose, value, tone) in
                    [("golden   ", golden, Tone::Bad), ("candidate", candidate, Tone::Good)]
                {
                    if let Some(value) = value {
                        let line = format!("  {}  {}", tone.paint(whose), plain(value));
                        self.value(&fit(&line, USUAL_WIDTH), 13);
                    }
                }
            }
        }
    }

    /// The rule that would cover a difference, where it was not offered before: a rule is needed once only.
    fn rule(&mut self, rule: &str, covers: Option<u64>) {
        match covers {
            Some(1) => {}
            Some(covers) => self.whole(&format!("    # covers {covers} of the differences")),
            None => return self.whole("    (its rule stands above)"),
        }
        for line in rule.lines() {
            self.whole(&format!("    {line}"));
        }
    }

    /// A long text, word by word, only around what differs.
    fn words(&mut self, golden: &str, candidate: &str) {
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

    fn masks(&mut self, verdict: &Verdict) {
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
            self.whole("");
            self.lines(&table.wrapped(self.width));
        }
        if !verdict.tolerances.rules.is_empty() {
            self.whole("");
            self.whole("rules of parity.toml");
        }
        for rule in &verdict.tolerances.rules {
            let stale = if rule.stale { "  STALE: it covers nothing, remove it" } else { "" };
            let line = format!(
                "  {} {}  {}  {}{stale}",
                rule.surface.name(),
                plain(&rule.pointer),
                counted(rule.hits, "hit"),
                plain(&rule.reason)
            );
            self.part(&line, 4);
        }
        if !verdict.tolerances.ids.is_empty() {
            self.whole("");
            self.whole(&match verdict.tolerances.ids.len() {
                1 => "1 id stands for another".to_owned(),
                ids => format!("{ids} ids stand for others"),
            });
        }
        if !verdict.notes.is_empty() {
            self.whole("");
        }
        for note in &verdict.notes {
            self.part(&format!("note: {}", plain(note)), "note: ".len());
        }
    }
}

/// The lane's names on both sides, where they are not the same.
fn lane_name(lane: &LaneVerdict) -> String {
    let [golden, candidate] = [&lane.golden, &lane.candidate].map(|name| name.as_deref().unwrap_or("-"));
    if golden == candidate { plain(golden) } else { plain(&format!("{golden} = {candidate}")) }
}

fn answer(verdict: &Verdict) -> String {
    let level = level(verdict.level);
    let required = verdict.required;
    let stale = verdict.tolerances.rules.iter().filter(|rule| rule.stale).count();
    match &verdict.outcome {
        VerdictOutcome::Match => format!("they agree: {level} holds, {required} was required"),
        VerdictOutcome::Inconclusive(because) => format!("nobody can say whether they agree: {because}"),
        VerdictOutcome::Differs if stale > 0 && verdict.level >= Some(required) => {
            format!(
                "{level} holds, but of parity.toml {} nothing any more",
                if stale == 1 { "1 rule covers".to_owned() } else { format!("{stale} rules cover") }
            )
        }
        VerdictOutcome::Differs if verdict.level.is_none() => {
            format!("they differ: not even E0 holds, {required} was required")
        }
        VerdictOutcome::Differs => {
            let count = verdict.differences.len();
            format!(
                "they differ: {level} holds, {required} was required; {}",
                counted(count as u64, "difference")
            )
        }
    }
}

fn tone(outcome: &VerdictOutcome) -> Tone {
    match outcome {
        VerdictOutcome::Match => Tone::Good,
        VerdictOutcome::Differs => Tone::Bad,
        VerdictOutcome::Inconclusive(_) => Tone::Warning,
    }
}

/// Escapes a piece of a line, and keeps one space at its edges.
fn spaced(text: &str) -> String {
    let space = |is_there: bool| if is_there { " " } else { "" };
    let escaped = plain(text);
    let end = space(!escaped.is_empty() && text.ends_with(char::is_whitespace));
    format!("{}{escaped}{end}", space(text.starts_with(char::is_whitespace)))
}

fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

fn level(level: Option<Level>) -> String {
    level.map_or_else(|| "-".to_owned(), |level| level.to_string())
}

/// What both have, as much as is needed to find the place.
fn around(text: &str, first: bool, last: bool) -> String {
    let count = text.chars().count();
    let head: String = text.chars().take(AROUND).collect();
    let tail: String = text.chars().skip(count.saturating_sub(AROUND)).collect();
    match (first, last) {
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
mod tests {
    use expect_test::expect;
    use parity::{RuleUse, Tolerances};

    use super::*;

    fn verdict_text(verdict: &Verdict, width: usize) -> String {
        crate::terminal_text(&super::verdict_text(verdict, width), false)
    }

    /// A verdict with one of everything.
    fn verdict() -> Verdict {
        let counts = UnitCounts { compared: 12, equal: 9, masked: 2, excluded: 1, echoed: 3, absent: 1 };
        let difference =
            |surface, holds, pointer: &str, what: &str, golden: Option<&str>, candidate: Option<&str>| {
                VerdictDifference {
                    surface,
                    level: holds,
                    lane: "main".into(),
                    turn: 2,
                    pointer: pointer.into(),
                    description: what.into(),
                    golden: golden.map(str::to_owned),
                    candidate: candidate.map(str::to_owned),
                    suggested_rule: Some("[[mask]]\nsurface = \"prompt\"\n".into()),
                    race: None,
                }
            };
        let long = |word: &str| {
            format!("A text that is too long to be shown twice, for it {word} on and on for a while.")
        };
        Verdict {
            format: 1,
            golden: "golden".into(),
            candidate: "out".into(),
            descriptions: ["tern 1.0, tides".into(), "tern 2.0, tides".into()],
            required: Level::E3,
            level: Some(Level::E0),
            outcome: VerdictOutcome::Differs,
            summary: vec![
                "tern 1.0 against tern 2.0".into(),
                "tools: Task is now Agent;".into(),
                "    gone: Glob".into(),
            ],
            surfaces: vec![
                SurfaceVerdict { surface: Surface::Prompt, level: Some(Level::E2), counts },
                SurfaceVerdict { surface: Surface::Jobs, level: None, counts: UnitCounts::default() },
            ],
            lanes: vec![LaneVerdict {
                golden: Some("sub-1".into()),
                candidate: Some("sub-2".into()),
                turns: vec![(Some(1), Some(1))],
                surfaces: vec![SurfaceVerdict { surface: Surface::Prompt, level: Some(Level::E2), counts }],
            }],
            differences: vec![
                difference(
                    Surface::Prompt,
                    Some(Level::E2),
                    "/system/0/text",
                    "the instructions differ",
                    Some(&long("goes")),
                    Some(&long("runs")),
                ),
                difference(
                    Surface::Tools,
                    Some(Level::E0),
                    "/tools/0",
                    "the tool `Glob` is gone",
                    Some("{}"),
                    None,
                ),
            ],
            tolerances: Tolerances {
                masks: vec![MaskUse { name: "port".into(), covers: "ports".into(), hits: 4, differed: 1 }],
                rules: vec![RuleUse {
                    surface: Surface::Results,
                    pointer: "/a".into(),
                    reason: "it varies".into(),
                    hits: 0,
                    stale: true,
                }],
                ids: vec![("a".into(), "b".into())],
            },
            notes: vec!["sub-1, sub-2 were compared as a set".into()],
            cache: Vec::new(),
        }
    }

    #[test]
    fn a_verdict_says_first_what_matters_most() {
        expect![[r#"
            they differ: E0 holds, E3 was required; 2 differences
            golden     golden  tern 1.0, tides
            candidate  out  tern 2.0, tides

            tern 1.0 against tern 2.0
            tools: Task is now Agent;
                gone: Glob

            surface   level  compared  equal  masked  excluded  echoed  absent
            prompt    E2           12      9       2         1       3       1
            jobs      -             0      0       0         0       0       0

            lane           prompt  tools  settings  calls  results  jobs  routing
            sub-1 = sub-2  E2

            prompt  main, turn 2  /system/0/text
              the instructions differ (holds E2)
              A text that is too long to be shown twice, for it [-goes-]{+runs+} on and on for a while.
                # covers 2 of the differences
                [[mask]]
                surface = "prompt"

            tools  main, turn 2  /tools/0
              the tool `Glob` is gone (holds nothing above E0)
              golden     {}
                (its rule stands above)

            mask            hits  differed  covers
            port               4         1  ports

            rules of parity.toml
              results /a  0 hits  it varies  STALE: it covers nothing, remove it

            1 id stands for another

            note: sub-1, sub-2 were compared as a set
        "#]]
        .assert_eq(&verdict_text(&verdict(), usize::MAX));
    }

    /// The same with lanes on all surfaces, and texts that are long.
    fn told(width: usize) -> String {
        let mut verdict = verdict();
        let counts = UnitCounts { compared: 120, equal: 90, ..verdict.surfaces[0].counts };
        let surface = |surface| SurfaceVerdict { surface, level: Some(Level::E4), counts };
        let surfaces = || Surface::ALL.map(surface).to_vec();
        let lane = |name: &str| LaneVerdict {
            golden: Some(name.to_owned()),
            candidate: Some(name.to_owned()),
            turns: Vec::new(),
            surfaces: surfaces(),
        };
        verdict.surfaces = surfaces();
        verdict.lanes = ["main", "sub-1", "fork-1"].map(lane).to_vec();
        verdict.lanes[1].surfaces[5].level = None;
        verdict.differences[1].pointer = "/tools/0/input_schema/properties/pattern/description".to_owned();
        verdict.tolerances.masks[0].covers = "ports that were free when the harness began".to_owned();
        verdict.tolerances.rules[0].reason = "it varies with the time of the day".to_owned();
        verdict_text(&verdict, width)
    }

    #[test]
    fn eighty_columns_have_whole_tables() {
        expect![[r#"
            they differ: E0 holds, E3 was required; 2 differences
            golden     golden  tern 1.0, tides
            candidate  out  tern 2.0, tides

            tern 1.0 against tern 2.0
            tools: Task is now Agent;
                gone: Glob

            surface   level  compared  equal  masked  excluded  echoed  absent
            prompt    E4          120     90       2         1       3       1
            tools     E4          120     90       2         1       3       1
            settings  E4          120     90       2         1       3       1
            calls     E4          120     90       2         1       3       1
            results   E4          120     90       2         1       3       1
            jobs      E4          120     90       2         1       3       1
            routing   E4          120     90       2         1       3       1

            lane    prompt  tools  settings  calls  results  jobs  routing
            main    E4      E4     E4        E4     E4       E4    E4
            sub-1   E4      E4     E4        E4     E4       -     E4
            fork-1  E4      E4     E4        E4     E4       E4    E4

            prompt  main, turn 2  /system/0/text
              the instructions differ (holds E2)
              A text that is too long to be shown twice, for it [-goes-]{+runs+} on and on…
                # covers 2 of the differences
                [[mask]]
                surface = "prompt"

            tools  main, turn 2  /tools/0/input_schema/properties/pattern/description
              the tool `Glob` is gone (holds nothing above E0)
              golden     {}
                (its rule stands above)

            mask            hits  differed  covers
            port               4         1  ports that were free when the harness began

            rules of parity.toml
              results /a  0 hits  it varies with the time of the day  STALE: it covers
                nothing, remove it

            1 id stands for another

            note: sub-1, sub-2 were compared as a set
        "#]]
        .assert_eq(&told(80));
    }

    #[test]
    fn sixty_columns_have_all_that_eighty_have() {
        expect![[r#"
            they differ: E0 holds, E3 was required; 2 differences
            golden     golden  tern 1.0, tides
            candidate  out  tern 2.0, tides

            tern 1.0 against tern 2.0
            tools: Task is now Agent;
                gone: Glob

            surface  level compared equal masked excluded echoed absent
            prompt   E4         120    90      2        1      3      1
            tools    E4         120    90      2        1      3      1
            settings E4         120    90      2        1      3      1
            calls    E4         120    90      2        1      3      1
            results  E4         120    90      2        1      3      1
            jobs     E4         120    90      2        1      3      1
            routing  E4         120    90      2        1      3      1

            lane   prompt tools settings calls results jobs routing
            main   E4     E4    E4       E4    E4      E4   E4
            sub-1  E4     E4    E4       E4    E4      -    E4
            fork-1 E4     E4    E4       E4    E4      E4   E4

            prompt  main, turn 2  /system/0/text
              the instructions differ (holds E2)
              A text that is too long to be shown twice, for it
              [-goes-]{+runs+} on and on…
                # covers 2 of the differences
                [[mask]]
                surface = "prompt"

            tools  main, turn 2
                 /tools/0/input_schema/properties/pattern/description
              the tool `Glob` is gone (holds nothing above E0)
              golden     {}
                (its rule stands above)

            mask            hits  differed  covers
            port               4         1  ports that were free when
                                            the harness began

            rules of parity.toml
              results /a  0 hits  it varies with the time of the day
                STALE: it covers nothing, remove it

            1 id stands for another

            note: sub-1, sub-2 were compared as a set
        "#]]
        .assert_eq(&told(60));
    }

    #[test]
    fn at_forty_tables_are_folded() {
        expect![[r#"
            they differ: E0 holds, E3 was required;
            2 differences
            golden     golden  tern 1.0, tides
            candidate  out  tern 2.0, tides

            tern 1.0 against tern 2.0
            tools: Task is now Agent;
                gone: Glob

            surface  level compared equal masked
            prompt   E4         120    90      2
            tools    E4         120    90      2
            settings E4         120    90      2
            calls    E4         120    90      2
            results  E4         120    90      2
            jobs     E4         120    90      2
            routing  E4         120    90      2

            surface  excluded echoed absent
            prompt          1      3      1
            tools           1      3      1
            settings        1      3      1
            calls           1      3      1
            results         1      3      1
            jobs            1      3      1
            routing         1      3      1

            lane   prompt tools settings calls
            main   E4     E4    E4       E4
            sub-1  E4     E4    E4       E4
            fork-1 E4     E4    E4       E4

            lane   results jobs routing
            main   E4      E4   E4
            sub-1  E4      -    E4
            fork-1 E4      E4   E4

            prompt  main, turn 2  /system/0/text
              the instructions differ (holds E2)
              A text that is too long to be shown
              twice, for it [-goes-]{+runs+} on and
              on…
                # covers 2 of the differences
                [[mask]]
                surface = "prompt"

            tools  main, turn 2
                 /tools/0/input_schema/properties/pa
                 ttern/description
              the tool `Glob` is gone (holds nothing
              above E0)
              golden     {}
                (its rule stands above)

            mask            hits  differed  covers
            port               4         1
                 ports that were free when the
                 harness began

            rules of parity.toml
              results /a  0 hits  it varies with the
                time of the day  STALE: it covers
                nothing, remove it

            1 id stands for another

            note: sub-1, sub-2 were compared as a
                  set
        "#]]
        .assert_eq(&told(40));
    }

    #[test]
    fn a_word_diff_is_cut_to_the_screen() {
        let text = verdict_text(&verdict(), 70);
        let words = text.lines().find(|line| line.contains("[-goes-]")).unwrap_or_default();
        assert!((60..=70).contains(&words.chars().count()), "{text}");
    }

    #[test]
    fn the_answer_fits_the_outcome() {
        let first = |change: fn(&mut Verdict)| {
            let mut verdict = verdict();
            change(&mut verdict);
            verdict_text(&verdict, 80).lines().next().unwrap_or_default().to_owned()
        };
        let answers = [
            first(|verdict| verdict.level = None),
            first(|verdict| verdict.level = Some(Level::E4)),
            first(|verdict| verdict.outcome = VerdictOutcome::Inconclusive("nothing was compared".into())),
            first(|verdict| {
                verdict.outcome = VerdictOutcome::Match;
                verdict.level = Some(Level::E4);
            }),
        ];
        expect![[r#"
            they differ: not even E0 holds, E3 was required
            E4 holds, but of parity.toml 1 rule covers nothing any more
            nobody can say whether they agree: nothing was compared
            they agree: E4 holds, E3 was required"#]]
        .assert_eq(&answers.join("\n"));
    }
}
