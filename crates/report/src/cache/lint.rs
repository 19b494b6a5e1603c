//! Output of `cache --lint`: findings that prevent caching.

use std::fmt::Write as _;

use ::cache::LintFinding;
use serde_json::{Value, json};

use crate::style::Tone;
use crate::text::{plain, wrap};

/// Renders each finding with its position and explanation.
pub fn lint_text(findings: &[LintFinding], width: usize) -> String {
    let mut out = String::new();
    for finding in findings {
        let LintFinding { rule, lane, pointer, what } = finding;
        let place = if pointer.is_empty() { String::new() } else { format!(" at {}", plain(pointer)) };
        let name = Tone::Warning.paint(&format!("{rule:<12}"));
        let lines = [format!("{name} {}{place}", plain(lane)), format!("             {}", plain(what))];
        for line in lines {
            writeln!(out, "{}", wrap(&line, 13, width)).expect("a string takes everything");
        }
    }
    let verdict = match findings.len() {
        0 => Tone::Good.paint("nothing found"),
        1 => Tone::Bad.paint("1 finding"),
        n => Tone::Bad.paint(&format!("{n} findings")),
    };
    writeln!(out, "{verdict}").expect("a string takes everything");
    out
}

/// Adds the findings to the JSON of `cache`.
pub fn lint_json(mut cache: Value, findings: &[LintFinding]) -> Value {
    let finding = |it: &LintFinding| json!({"rule": it.rule.name(), "lane": it.lane, "pointer": it.pointer, "what": it.what});
    cache["ok"] = findings.is_empty().into();
    cache["findings"] = findings.iter().map(finding).collect();
    cache
}

#[cfg(test)]
mod tests {
    use ::cache::LintRule;
    use expect_test::expect;

    use super::*;
    use crate::terminal::terminal_text;

    #[test]
    fn a_finding_goes_on_where_the_screen_is_narrow() {
        let finding = LintFinding {
            rule: LintRule::DeadMarker,
            lane: "general-purpose-1".to_owned(),
            pointer: "/messages/3/content/0".to_owned(),
            what: "it is written turn after turn, and never read".to_owned(),
        };
        let told = |width| terminal_text(&lint_text(std::slice::from_ref(&finding), width), false);
        expect![[r#"
            dead_marker  general-purpose-1 at /messages/3/content/0
                         it is written turn after turn, and never read
            1 finding
        "#]]
        .assert_eq(&told(80));
        expect![[r#"
            dead_marker  general-purpose-1 at
                         /messages/3/content/0
                         it is written turn after
                         turn, and never read
            1 finding
        "#]]
        .assert_eq(&told(40));
    }
}
