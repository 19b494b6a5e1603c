//! The file, and that nothing in a verdict can break it.

use expect_test::expect;
use parity::{Level, VerdictOutcome};

use super::junit;
use crate::sample::{HOSTILE, verdict};

#[test]
fn a_case_for_each_lane_and_surface() {
    let mut verdict = verdict();
    verdict.differences[0].golden = Some("Monday".to_owned());
    verdict.differences[0].candidate = Some("Sunday".to_owned());
    expect![[r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="offshoot verify" tests="11" failures="3" errors="0" skipped="1">
        <testsuite name="goldens/a-harness/2.1.0/two-agents/runs/2 against goldens/a-harness/2.0.0/two-agents/runs/1" tests="11" failures="3" errors="0" skipped="1">
        <testcase classname="recording" name="E0"/>
        <testcase classname="lane.main" name="prompt"><failure message="1 difference">turn 1 /system/1/text: a text differs
          golden:    Monday
          candidate: Sunday
        </failure></testcase>
        <testcase classname="lane.main" name="tools"/>
        <testcase classname="lane.main" name="settings"/>
        <testcase classname="lane.main" name="calls"/>
        <testcase classname="lane.main" name="results"><failure message="1 difference">turn 2 /system/1/text: &lt;/pre&gt;&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;\u{1b}[2J\u{202e}&quot;&apos;&amp;]]&gt;\u{0}\u{ffff}
          golden:    &lt;/pre&gt;&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;\u{1b}[2J\u{202e}&quot;&apos;&amp;]]&gt;\u{0}\u{ffff}
          candidate: nothing
        </failure></testcase>
        <testcase classname="lane.main" name="jobs"><skipped message="nothing to compare: 0 excluded, 0 echoed, 0 absent"/></testcase>
        <testcase classname="lane.main" name="routing"/>
        <testcase classname="lane.sub-1" name="prompt"/>
        <testcase classname="lane.sub-1" name="tools"/>
        <testcase classname="parity.toml" name="jobs /messages/3"><failure message="the rule covers nothing">waits are random</failure></testcase>
        </testsuite>
        </testsuites>
    "#]].assert_eq(&junit(&verdict));
}

/// Just enough of a parser to say whether a file is XML: its elements closed in order, every `&` an entity.
fn is_xml(file: &str) -> Result<usize, String> {
    let legal =
        |c: char| matches!(c, '\t' | '\n' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    if let Some(c) = file.chars().find(|c| !legal(*c)) {
        return Err(format!("{c:?} is no character of XML"));
    }
    let known = ["amp;", "lt;", "gt;", "quot;", "apos;"];
    if let Some(at) =
        file.match_indices('&').find(|(at, _)| !known.iter().any(|it| file[at + 1..].starts_with(it)))
    {
        return Err(format!("a bare & at {}", at.0));
    }
    let (mut open, mut count) = (Vec::new(), 0);
    for piece in file.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').ok_or_else(|| format!("no end: {piece}"))?;
        let name = |tag: &str| tag.split([' ', '/']).next().unwrap_or_default().to_owned();
        match tag {
            tag if tag.starts_with('?') || tag.ends_with('/') => {}
            tag if tag.starts_with('/') => {
                let last = open.pop();
                if last.as_deref() != Some(&tag[1..]) {
                    return Err(format!("{tag} closes {last:?}"));
                }
            }
            tag => open.push(name(tag)),
        }
        count += usize::from(tag.starts_with("testcase"));
    }
    if open.is_empty() { Ok(count) } else { Err(format!("{open:?} are open")) }
}

#[test]
fn a_verdict_that_passes_has_no_failed_case() {
    let mut verdict = verdict();
    verdict.outcome = VerdictOutcome::Match;
    verdict.level = Some(Level::E0);
    verdict.required = Level::E0;
    verdict.tolerances.rules.clear();
    verdict.differences.retain(|difference| difference.level.is_some());
    verdict.lanes[1].candidate = None;
    let file = junit(&verdict);
    assert!(file.contains("failures=\"0\" errors=\"0\""), "{file}");
    assert!(file.contains("<skipped message=\"the candidate lacks the lane\"/>"), "{file}");
    // A rule excludes the lane at a higher level.
    verdict.level = Some(Level::E3);
    verdict.required = Level::E3;
    verdict.differences.clear();
    for lane in &mut verdict.lanes {
        lane.surfaces.iter_mut().for_each(|it| it.level = it.level.map(|_| Level::E3));
    }
    let file = junit(&verdict);
    assert!(file.contains("failures=\"0\" errors=\"0\""), "{file}");
}

#[test]
fn nothing_can_break_the_file() {
    let mut verdict = verdict();
    assert_eq!(is_xml(&junit(&verdict)), Ok(11));
    verdict.candidate = HOSTILE.to_owned();
    verdict.lanes[1].golden = Some(HOSTILE.to_owned());
    verdict.outcome = VerdictOutcome::Inconclusive(HOSTILE.to_owned());
    verdict.tolerances.rules[0].reason = HOSTILE.to_owned();
    verdict.differences[2].lane = HOSTILE.to_owned();
    verdict.differences[1].golden = Some("é".repeat(20_000));
    assert_eq!(is_xml(&junit(&verdict)), Ok(11));
    assert!(
        is_xml("<a>&b</a>").is_err() && is_xml("<a><b></a>").is_err() && is_xml("<a>\u{1b}</a>").is_err()
    );
}

#[test]
fn a_verdict_that_is_no_match_never_passes() {
    let failures = |file: &str| file.matches("<failure").count() + file.matches("<error").count();
    let mut quiet = verdict();
    quiet.differences.clear();
    quiet.tolerances.rules.clear();
    quiet.lanes.clear();
    assert_eq!(failures(&junit(&quiet)), 1);
    quiet.outcome = VerdictOutcome::Match;
    quiet.level = Some(Level::E3);
    assert_eq!(failures(&junit(&quiet)), 0);
    quiet.outcome = VerdictOutcome::Inconclusive("the golden is racy".to_owned());
    assert_eq!(failures(&junit(&quiet)), 1);
    quiet.outcome = VerdictOutcome::Differs;
    quiet.level = None;
    assert_eq!(failures(&junit(&quiet)), 1);
}

#[test]
fn differences_above_the_required_level_are_no_failures() {
    let mut above = verdict();
    assert!(!junit(&above).contains("candidate: 1.0"), "E3 holds there, and E3 was asked for");
    above.required = Level::E4;
    assert!(junit(&above).contains("candidate: 1.0"));
}
