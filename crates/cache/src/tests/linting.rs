//! Findings of the lint.

use super::*;
use crate::{RecordingContext, find_volatile, lint, new_breaks};

fn found(findings: &[crate::LintFinding]) -> Vec<(&str, &str)> {
    findings.iter().map(|finding| (finding.rule.name(), finding.pointer.as_str())).collect()
}

/// Returns the findings if all breaks are accepted.
fn linted(explained: &CacheReport) -> Vec<crate::LintFinding> {
    lint(explained, explained)
}

fn story(texts: &[&str]) -> CacheReport {
    let body =
        |said: &str| Body::new().tool("Read", "").system(&long(said, 2_000), MARK).says(user("hi", MARK));
    let numbered = texts.iter().enumerate();
    explain(numbered.map(|(n, said)| ask(n as u32 + 1, n as u64 * 10, &body(said))).collect())
}

#[test]
fn a_break_that_the_golden_has_is_accepted_and_one_more_is_not() {
    let (still, once, twice) =
        (story(&["a ", "a ", "a "]), story(&["a ", "b ", "b "]), story(&["a ", "b ", "c "]));
    assert_eq!(new_breaks(&still, &still), []);
    assert_eq!(new_breaks(&once, &once), []);
    let new = new_breaks(&still, &twice);
    assert_eq!(new.len(), 1, "{new:?}");
    assert_eq!((new[0].turns, new[0].tokens_a_turn, new[0].block), (2, 2_501, 2));
    assert_eq!(new[0].to_string(), "breaks the prefix at block 2 (`/system/0`), +2,501 tokens a turn");
    assert_eq!(new_breaks(&once, &twice)[0].turns, 1);
    assert_eq!(
        found(&lint(&still, &twice)),
        [("new_break", "/system/0"), ("dead_marker", "/system/0/cache_control")]
    );
    assert_eq!(lint(&once, &once), []);
}

/// Builds a conversation in whose last turn one message changed.
fn edited(message: usize) -> CacheReport {
    let body = |turns: usize| {
        let opening = Body::new().system(&long("be good ", 1_000), MARK);
        let mut body = (0..turns).fold(opening, |body, turn| {
            let mark = if turn + 1 == turns { MARK } else { "" };
            body.says(user(&long(&format!("question {turn} "), 500), mark)).says(assistant("so it is"))
        });
        body.messages.pop();
        if turns == 8 {
            body.messages[message] = user("cleared", "");
        }
        body
    };
    explain((1..=8).map(|n| ask(n, u64::from(n) * 10, &body(n as usize))).collect())
}

/// A late break does not cover one that loses the entire conversation.
#[test]
fn a_known_break_covers_none_that_costs_more() {
    let (late, early) = (edited(12), edited(0));
    assert_eq!(new_breaks(&late, &late), []);
    assert_eq!(new_breaks(&early, &early), []);
    let new = new_breaks(&late, &early);
    assert_eq!(new.len(), 1);
    assert_eq!(new[0].pointer, "/messages/0/content/0");
    assert_eq!(found(&lint(&late, &early)), [("new_break", "/messages/0/content/0")]);
    assert_eq!(new_breaks(&edited(10), &late), [], "the same change comes further down in the next turn");
    assert_eq!(new_breaks(&early, &late), [], "it costs less");
}

/// Tokens that the golden marks and the candidate does not are read there and sent again here.
#[test]
fn markers_that_only_the_golden_has_are_found() {
    let story = |system: &str, message: &str| {
        let body = |turns: usize| {
            let opening = Body::new().system(&long("be good ", 2_000), system);
            (1..=turns).fold(opening, |body, turn| {
                body.says(user(&long("go on ", 500), if turn == turns { message } else { "" }))
            })
        };
        explain((1..=3).map(|n| ask(n, u64::from(n) * 10, &body(n as usize))).collect())
    };
    let (marked, bare, half) = (story(MARK, MARK), story("", ""), story(MARK, ""));
    let what = |candidate: &CacheReport| {
        let findings = lint(&marked, candidate);
        findings.into_iter().map(|it| format!("{} {} {}", it.rule, it.pointer, it.what)).collect::<Vec<_>>()
    };
    assert_eq!(
        what(&bare),
        ["new_break /messages/0/content/0 unmarked: leaves out a marker at block 2 \
          (`/messages/0/content/0`), +2,750 tokens a turn, in 2 turns"]
    );
    assert_eq!(
        what(&half),
        ["new_break /messages/0/content/0 unmarked: leaves out a marker at block 2 \
          (`/messages/0/content/0`), +750 tokens a turn, in 2 turns"]
    );
    let usd = new_breaks(&marked, &bare)[0].usd.expect("a price");
    assert!((usd - 5_500.0 * 4.5 / 1e6).abs() < 1e-9, "{usd}");
    assert_eq!(what(&marked), [] as [String; 0]);
    assert_eq!(lint(&bare, &bare), [], "nobody marks anything");
    assert_eq!(lint(&bare, &marked), []);
}

/// Unanswered requests cannot pass.
#[test]
fn nothing_to_look_at_is_a_finding() {
    let body = Body::new().system(&long("be good ", 2_000), MARK).says(user("hi", MARK));
    let failed = |ask: ObservedRequest| ObservedRequest { begun_us: None, ..ask };
    let of_sub = |ask: ObservedRequest| ObservedRequest { lane: "sub-1".to_owned(), ..ask };
    let (one, other) = (ask(1, 0, &body), ask(2, 10, &body));
    let golden = explain(vec![one.clone(), of_sub(other.clone())]);
    let cases = [
        (vec![], vec!["all"]),
        (vec![failed(one.clone()), failed(of_sub(other.clone()))], vec!["all"]),
        (vec![one.clone(), failed(of_sub(other.clone()))], vec!["sub-1"]),
        (
            vec![
                failed(one.clone()),
                ObservedRequest { turn: 1, ..other.clone() },
                of_sub(ask(3, 20, &body)),
            ],
            vec![],
        ),
    ];
    for (observed, expected) in cases {
        let findings = lint(&golden, &explain(observed));
        let lanes: Vec<&str> = findings.iter().map(|finding| finding.lane.as_str()).collect();
        assert_eq!(lanes, expected, "{findings:?}");
        assert!(findings.iter().all(|finding| finding.rule == crate::LintRule::Unseen), "{findings:?}");
    }
}

#[test]
fn a_deferred_tool_is_no_break() {
    let body = Body::new().tool("Read", "").system(&long("be good ", 2_000), MARK).says(user("hi", MARK));
    let mut more = body.clone();
    more.tools.push(r#"{"name":"Stop","input_schema":{},"defer_loading":true}"#.to_owned());
    let explained = explain(vec![ask(1, 0, &body), ask(2, 10, &more)]);
    assert_eq!(explained.requests[1].reason, Some(crate::Reason::ToolsChanged));
    assert_eq!(new_breaks(&CacheReport::default(), &explained), []);
}

#[test]
fn another_prompt_from_the_start_is_written_once() {
    let changed = crate::changed_prompts(&story(&["a ", "a "]), &story(&["b ", "b "]));
    assert_eq!(changed.len(), 1);
    assert_eq!((changed[0].block, changed[0].pointer.as_str(), changed[0].tokens), (2, "/system/0", 2_001));
    assert_eq!(crate::changed_prompts(&story(&["a "]), &story(&["a ", "a "])), []);
}

#[test]
fn markers_that_can_never_be_read_are_found() {
    let short = Body::new().system("be good", MARK).says(user("hi", MARK));
    assert_eq!(
        found(&linted(&explain(vec![ask(1, 0, &short)]))),
        [("dead_marker", "/messages/0/content/0/cache_control")]
    );
    let mut many = Body::new();
    for n in 0..5 {
        many = many.system(&long(&format!("part {n} "), 1_000), MARK);
    }
    assert_eq!(found(&linted(&explain(vec![ask(1, 0, &many)]))), [("dead_marker", "")]);
    let turned = Body::new().system(&long("one ", 1_000), MARK).system(&long("two ", 1_000), MARK_1H);
    assert_eq!(
        found(&linted(&explain(vec![ask(1, 0, &turned)]))),
        [("dead_marker", "/system/1/cache_control")]
    );
}

/// Reasons why a lane's markers are never read.
#[test]
fn a_marker_that_is_written_every_turn_and_never_read_is_dead() {
    let opening = || Body::new().system(&long("be good ", 1_000), MARK);
    // Thirty blocks per turn: no marker looks back so far.
    let lines = |count: usize| {
        (0..count).fold(opening(), |body, n| {
            body.says(user(&long(&format!("line {n} "), 10), if n + 1 == count { MARK } else { "" }))
        })
    };
    let leaping = |turns: u32| {
        explain((1..=turns).map(|n| ask(n, u64::from(n) * 10, &lines(n as usize * 30))).collect())
    };
    let explained = leaping(3);
    let findings = lint(&CacheReport::default(), &explained);
    assert_eq!(found(&findings), [("dead_marker", "/messages/29/content/0/cache_control")]);
    assert_eq!(findings[0].what, "written in 2 turns but never read by the next one: beyond_look_back");
    assert_eq!(lint(&explained, &explained), [], "the golden has it, too");
    assert_eq!(linted(&leaping(2)), [], "once is no habit");

    // The marker is after the text that changes each turn, so only the instructions are found.
    let told = |n: u32| opening().says(user(&long(&format!("minute {n} "), 100), MARK));
    let ticking = explain((1..=3).map(|n| ask(n, u64::from(n) * 10, &told(n))).collect());
    let findings = lint(&CacheReport::default(), &ticking);
    let dead: Vec<_> = findings.iter().filter(|it| it.rule == crate::LintRule::DeadMarker).collect();
    assert_eq!(dead.len(), 1, "{findings:?}");
    assert_eq!(dead[0].pointer, "/messages/0/content/0/cache_control");
}

/// Late requests and growing conversations do not make markers useless.
#[test]
fn a_marker_that_moves_or_expires_is_not_dead() {
    let body = |n: usize| {
        let opening = Body::new().system(&long("be good ", 1_000), MARK);
        (1..=n).fold(opening, |body, turn| body.says(user("go on", if turn == n { MARK } else { "" })))
    };
    for pause in [10, 900] {
        let explained = explain((1..=4).map(|n| ask(n, u64::from(n) * pause, &body(n as usize))).collect());
        assert_eq!(lint(&CacheReport::default(), &explained), [], "{pause} s\n{}", render(&explained));
    }
}

fn volatile_in(said: &str, mark: &str, around: &RecordingContext) -> Vec<String> {
    // The user's text does not change.
    let body = Body::new().system(said, mark).says(user("it is 2026-11-15 in /home/me", mark));
    let explained = explain(vec![ask(1, 0, &body)]);
    let findings = find_volatile(&explained.openings[0], body.json().as_bytes(), around);
    findings.into_iter().map(|finding| finding.what).collect()
}

#[test]
fn volatile_text_is_found_before_the_last_marker_only() {
    let anywhere = RecordingContext::default();
    let cases = [
        ("Today is 2026-11-15.", "a date before the last marker: `2026-11-15`"),
        (
            "id 6f9619ff-8b86-d011-b42d-00cf4fc964ff",
            "an id before the last marker: `6f9619ff-8b86-d011-b42d-00cf4fc964ff`",
        ),
        ("session ses_4f6Ab29cK1m2n3Opq", "an id before the last marker: `ses_4f6Ab29cK1m2n3Opq`"),
        ("cwd: /home/me/work\\nnext", "a path before the last marker: `/home/me/work`"),
        ("Current branch: main\\nStatus", "the state of git before the last marker: `Current branch: main`"),
        ("gitStatus: as it was\\n", "the state of git before the last marker: `gitStatus: as it was`"),
        ("Changes:\\n M src/lib.rs\\nEnd", "the state of git before the last marker: ` M src/lib.rs`"),
        ("Files:\\n?? notes.md\\n", "the state of git before the last marker: `?? notes.md`"),
        ("Started at 14:32:05.", "a time before the last marker: `14:32:05`"),
        ("Now: 1794839525123", "a timestamp before the last marker: `1794839525123`"),
        ("It is 11/16/2026.", "a date before the last marker: `11/16/2026`"),
        ("It is\\nNovember 16, 2026.", "a date before the last marker: `November 16, 2026`"),
        ("It is 16 Nov 2026.", "a date before the last marker: `16 Nov 2026`"),
        ("Today: 20261116", "a date before the last marker: `20261116`"),
        ("Today: 2026.11.16", "a date before the last marker: `2026.11.16`"),
        ("It is 14:32.", "a time before the last marker: `14:32`"),
        ("It is 9:05 PM", "a time before the last marker: `9:05`"),
        ("id 01ARZ3NDEKTSV4RRFFQ69G5FAV", "an id before the last marker: `01ARZ3NDEKTSV4RRFFQ69G5FAV`"),
        ("sess-9f8e7d6c5b4a", "an id before the last marker: `sess-9f8e7d6c5b4a`"),
        ("run 1m7hsw1ph7245bfq", "an id before the last marker: `1m7hsw1ph7245bfq`"),
        ("cwd: /work/proj", "a path before the last marker: `/work/proj`"),
        ("cwd: /workspaces/x", "a path before the last marker: `/workspaces/x`"),
        ("branch: feature/x", "the state of git before the last marker: `branch: feature/x`"),
        ("Git branch: main\\nNext", "the state of git before the last marker: `Git branch: main`"),
        ("It is 16-11-2026.", "a date before the last marker: `16-11-2026`"),
        ("It is 11-16-2026.", "a date before the last marker: `11-16-2026`"),
        ("It is Nov. 16, 2026.", "a date before the last marker: `Nov. 16, 2026`"),
        ("the 16th of November 2026", "a date before the last marker: `16th of November 2026`"),
        ("der 16. November 2026", "a date before the last marker: `16. November 2026`"),
        ("2026年11月16日", "a date before the last marker: `2026年11月16`"),
        ("Session ID: ses_4f2a9c8d7e6b", "an id before the last marker: `ses_4f2a9c8d7e6b`"),
        ("cwd: c:\\\\Users\\\\bob", "a path before the last marker: `c:\\Users\\bob`"),
        ("TMPDIR=/var/folders/zz/x/T", "a path before the last marker: `/var/folders/zz/x/T`"),
        (
            "HEAD is now at 9fceb02 Fix",
            "the state of git before the last marker: `HEAD is now at 9fceb02 Fix`",
        ),
        ("at commit 9fceb02.", "the state of git before the last marker: `commit 9fceb02`"),
    ];
    for (said, what) in cases {
        assert_eq!(volatile_in(said, MARK, &anywhere), [what], "{said}");
        assert_eq!(volatile_in(said, "", &anywhere), [] as [String; 0], "nothing is marked: {said}");
    }
    for harmless in [
        "claude-haiku-4-5-20251001",
        "a file at /usr/bin/env",
        "background_tasks_and_results",
        "1024-2048",
        "at most 120000 ms, 1610612736 bytes or 25:1",
        "Run git status first.\\nA  letter, M or D",
        "Is it so??\\n?? is an operator",
        "daily at 09:00:00",
        "daily at 14:30, ratio 16:9, src/lib.rs:14:32, 4:59 minutes",
        "version 2024.08.06 or 1.2.3; 12345678 bytes; tool_20250305",
        "the work/ folder, src/work/x or https://x.y/work/z",
        "Name the branch: it should say what it is for. To commit abcdefg or 1234567 is up to you.",
        "as in commit abc1234",
        "aarch64-unknown-linux, sha-256, utf-8, x86_64, claude-3-5-sonnet-20241022, internationalization",
        "const SEED: u64 = 0x9e3779b9; color-aabbccdd; tool_20250305, snake_case_2, utf8_16_le",
        "1-2-3 or 10-20-30; one of 2026; a range of 16-18 of 2026 lines",
    ] {
        assert_eq!(volatile_in(harmless, MARK, &anywhere), [] as [String; 0], "{harmless}");
    }
}

/// Text of the harness before the user's words changes with each conversation if it has a clock or an id. Day
/// and folder are allowed there, and later messages do not change.
#[test]
fn the_head_of_the_messages_is_looked_at_and_nothing_behind_it() {
    let found_in = |messages: &[String]| {
        let opening = Body::new().system(&long("be good ", 1_000), MARK);
        let body = messages.iter().fold(opening, |body, message| body.says(message.clone()));
        let explained = explain(vec![ask(1, 0, &body)]);
        let findings =
            find_volatile(&explained.openings[0], body.json().as_bytes(), &RecordingContext::default());
        let told = |it: crate::LintFinding| format!("{} {}", it.pointer, it.what);
        findings.into_iter().map(told).collect::<Vec<_>>()
    };
    let said = |role: &str, context: &str, words: &str| {
        let blocks = [text(context, ""), text(words, MARK)].join(",");
        format!(r#"{{"role":"{role}","content":[{blocks}]}}"#)
    };
    let nothing: [String; 0] = [];
    let clock = "a time before the last marker: `14:32:05`";
    let context = said("user", "Since 14:32:05", "When was it?");
    assert_eq!(found_in(std::slice::from_ref(&context)), [format!("/messages/0/content/0 {clock}")]);
    let apart = [user("Since 14:32:05", ""), user("When was it?", MARK)];
    assert_eq!(found_in(&apart), [format!("/messages/0/content/0 {clock}")]);
    let behind = [user("When was it?", ""), said("system", "Since 14:32:05", "Be kind")];
    assert_eq!(found_in(&behind), [format!("/messages/1/content/0 {clock}")]);
    let placed = said("user", "It is 2026-11-16, in /home/me/work", "When was it?");
    assert_eq!(found_in(&[placed]), nothing);
    let own = said("user", "Be kind", "Was it at 14:32:05?");
    assert_eq!(found_in(&[own]), nothing);
    let later = [user("When was it?", ""), assistant("Soon."), context];
    assert_eq!(found_in(&later), nothing);
    let result =
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"at 14:32:05"}]}"#;
    assert_eq!(found_in(&[result.to_owned(), user("When was it?", MARK)]), nothing);
}

/// A date in an example does not change; today's does.
#[test]
fn with_a_day_and_folders_only_those_count() {
    let around =
        RecordingContext { day: Some("2026-11-15".to_owned()), folders: vec!["/srv/slot/home".to_owned()] };
    assert_eq!(volatile_in("as in 2024-01-02, /home/you", MARK, &around), [] as [String; 0]);
    assert_eq!(volatile_in("on November 15, 2026", MARK, &around).len(), 1);
    assert_eq!(
        volatile_in("in /srv/slot/home/x", MARK, &around),
        ["a path before the last marker: `/srv/slot/home/x`"]
    );
}

/// A compaction drops messages, but another word in the instructions is a break in any case.
#[test]
fn a_compaction_is_no_break() {
    let of = |system: &str, messages: &[String]| {
        let opening = Body::new().system(&long(system, 2_000), MARK);
        messages.iter().fold(opening, |body, message| body.says(message.clone()))
    };
    let long_said = |mark: &str| user(&long("a long story ", 3_000), mark);
    let before = of("be good ", &[long_said(""), assistant("yes"), long_said(MARK)]);
    let compacted = |system: &str| of(system, &[user("it was a long story", ""), long_said(MARK)]);
    let cases = [
        ("be good ", true, crate::Reason::Compacted, 0),
        ("be good ", false, crate::Reason::MessagesChanged, 1),
        ("be bad ", true, crate::Reason::SystemChanged, 1),
    ];
    for (system, is_compacted, reason, findings) in cases {
        let explained = explain(vec![
            ask(1, 0, &before),
            ObservedRequest { is_compacted, ..ask(2, 10, &compacted(system)) },
        ]);
        assert_eq!(explained.requests[1].reason, Some(reason));
        assert_eq!(lint(&CacheReport::default(), &explained).len(), findings, "{reason}");
        assert_eq!(explained.total.missed == 0, reason == crate::Reason::Compacted);
    }
}
