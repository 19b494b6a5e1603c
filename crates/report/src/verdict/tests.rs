use expect_test::expect;
use parity::{RuleUse, Tolerances};

use super::*;

fn verdict_text(verdict: &Verdict, width: usize) -> String {
    crate::terminal_text(&super::verdict_text(verdict, width), false)
}

/// Returns a verdict with one of everything.
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
        FAIL  same outcome (E0), required equal after masks (E3); 2 differences
        golden     golden  tern 1.0, tides
        candidate  out  tern 2.0, tides

        tern 1.0 against tern 2.0
        tools: Task is now Agent;
            gone: Glob

        surface   level  compared  equal  masked  excluded  echoed  absent
        prompt    E2           12      9       2         1       3       1
        masked: has a masked value; excluded: left out by parity.toml; echoed: comes
        from the model, not compared; absent: not in the golden

        lane           prompt
        sub-1 = sub-2  E2

        prompt  main, turn 2  /system/0/text
          the instructions differ (E2: same structure)
          A text that is too long to be shown twice, for it [-goes-]{+runs+} on and on for a while.
            # covers 2 of the differences
            [[mask]]
            surface = "prompt"

        tools  main, turn 2  /tools/0
          the tool `Glob` is gone (E0: same outcome)
          golden     {}
            (covered by a rule above)

        mask            hits  differed  covers
        port               4         1  ports

        rules of parity.toml
          results /a  0 hits  it varies  STALE: covers nothing, remove it

        1 id is paired with another one

        note: sub-1, sub-2 were compared as a set

        hint: offshoot report out --golden golden
    "#]]
    .assert_eq(&verdict_text(&verdict(), usize::MAX));
}

/// Renders a verdict with lanes on all surfaces and long texts.
fn rendered(width: usize) -> String {
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
        FAIL  same outcome (E0), required equal after masks (E3); 2 differences
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
        masked: has a masked value; excluded: left out by parity.toml; echoed: comes
        from the model, not compared; absent: not in the golden

        lane    prompt  tools  settings  calls  results  jobs  routing
        main    E4      E4     E4        E4     E4       E4    E4
        sub-1   E4      E4     E4        E4     E4       -     E4
        fork-1  E4      E4     E4        E4     E4       E4    E4

        prompt  main, turn 2  /system/0/text
          the instructions differ (E2: same structure)
          A text that is too long to be shown twice, for it [-goes-]{+runs+} on and on…
            # covers 2 of the differences
            [[mask]]
            surface = "prompt"

        tools  main, turn 2  /tools/0/input_schema/properties/pattern/description
          the tool `Glob` is gone (E0: same outcome)
          golden     {}
            (covered by a rule above)

        mask            hits  differed  covers
        port               4         1  ports that were free when the harness began

        rules of parity.toml
          results /a  0 hits  it varies with the time of the day  STALE: covers nothing,
            remove it

        1 id is paired with another one

        note: sub-1, sub-2 were compared as a set

        hint: offshoot report out --golden golden
    "#]]
    .assert_eq(&rendered(80));
}

#[test]
fn sixty_columns_have_all_that_eighty_have() {
    expect![[r#"
        FAIL  same outcome (E0), required equal after masks (E3); 2
        differences
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
        masked: has a masked value; excluded: left out by
        parity.toml; echoed: comes from the model, not compared;
        absent: not in the golden

        lane   prompt tools settings calls results jobs routing
        main   E4     E4    E4       E4    E4      E4   E4
        sub-1  E4     E4    E4       E4    E4      -    E4
        fork-1 E4     E4    E4       E4    E4      E4   E4

        prompt  main, turn 2  /system/0/text
          the instructions differ (E2: same structure)
          A text that is too long to be shown twice, for it
          [-goes-]{+runs+} on and on…
            # covers 2 of the differences
            [[mask]]
            surface = "prompt"

        tools  main, turn 2
             /tools/0/input_schema/properties/pattern/description
          the tool `Glob` is gone (E0: same outcome)
          golden     {}
            (covered by a rule above)

        mask            hits  differed  covers
        port               4         1  ports that were free when
                                        the harness began

        rules of parity.toml
          results /a  0 hits  it varies with the time of the day
            STALE: covers nothing, remove it

        1 id is paired with another one

        note: sub-1, sub-2 were compared as a set

        hint: offshoot report out --golden golden
    "#]]
    .assert_eq(&rendered(60));
}

#[test]
fn at_forty_tables_are_folded() {
    expect![[r#"
        FAIL  same outcome (E0), required equal
        after masks (E3); 2 differences
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
        masked: has a masked value; excluded:
        left out by parity.toml; echoed: comes
        from the model, not compared; absent:
        not in the golden

        lane   prompt tools settings calls
        main   E4     E4    E4       E4
        sub-1  E4     E4    E4       E4
        fork-1 E4     E4    E4       E4

        lane   results jobs routing
        main   E4      E4   E4
        sub-1  E4      -    E4
        fork-1 E4      E4   E4

        prompt  main, turn 2  /system/0/text
          the instructions differ (E2: same
          structure)
          A text that is too long to be shown
          twice, for it [-goes-]{+runs+} on and
          on…
            # covers 2 of the differences
            [[mask]]
            surface = "prompt"

        tools  main, turn 2
             /tools/0/input_schema/properties/pa
             ttern/description
          the tool `Glob` is gone (E0: same
          outcome)
          golden     {}
            (covered by a rule above)

        mask            hits  differed  covers
        port               4         1
             ports that were free when the
             harness began

        rules of parity.toml
          results /a  0 hits  it varies with the
            time of the day  STALE: covers
            nothing, remove it

        1 id is paired with another one

        note: sub-1, sub-2 were compared as a
              set

        hint: offshoot report out --golden golden
    "#]]
    .assert_eq(&rendered(40));
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
        first(|verdict| verdict.outcome = VerdictOutcome::Inconclusive("no unit was compared".into())),
        first(|verdict| {
            verdict.outcome = VerdictOutcome::Match;
            verdict.level = Some(Level::E4);
        }),
    ];
    expect![[r#"
        FAIL  different outcome (below E0), required equal after masks (E3); 2
        FAIL  byte-equal (E4; required E3), but 1 rule covers nothing
        INCONCLUSIVE  no unit was compared
        PASS  byte-equal (E4; required E3)"#]]
    .assert_eq(&answers.join("\n"));
}
