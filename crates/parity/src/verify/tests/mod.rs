//! Recordings in memory, each changed in one place.

mod change;
mod harness_text;
mod race;
mod sealed;
mod story;

use std::path::Path;

use expect_test::{Expect, expect};
use recording::lanes::LaneKind;
use serde_json::json;
use wire::dialect::Dialect;

use self::change::change;
use self::story::{Story, story, talk};
use super::day::Day;
use super::{ParityRules, compare};
use crate::{Level, Verdict, VerdictDifference, VerdictOutcome};

const DIALECTS: [(&str, Dialect); 3] = [
    ("anthropic", Dialect::AnthropicMessages),
    ("chat", Dialect::OpenAiChat),
    ("responses", Dialect::OpenAiResponses),
];

fn dialect(name: &str) -> Dialect {
    DIALECTS.iter().find(|(known, _)| *known == name).expect("a dialect").1
}

fn judged(golden: &Story, candidate: &Story, rules: &str, wanted: Level) -> Verdict {
    let rules = ParityRules::parse(rules, Path::new("parity.toml")).expect("good rules");
    let (mine, theirs) = (golden.ordered(), candidate.ordered());
    compare(&golden.side("golden", &mine), &candidate.side("candidate", &theirs), &rules, wanted)
}

/// Renders each difference in a line.
fn rendered(verdict: &Verdict) -> String {
    let level = |level: Option<Level>| level.map_or("-".to_owned(), |level| level.to_string());
    let line = |difference: &VerdictDifference| {
        let VerdictDifference {
            surface,
            level: holds,
            lane,
            turn,
            pointer,
            description: what,
            golden,
            candidate,
            ..
        } = difference;
        let value = |value: &Option<String>| value.as_deref().unwrap_or("-").replace('\n', "\\n");
        format!(
            "{} {} {lane} {turn} {pointer}: {what}: {} / {}\n",
            level(*holds),
            surface.name(),
            value(golden),
            value(candidate)
        )
    };
    let lines: String = verdict.differences.iter().map(line).collect();
    format!("{} {:?}\n{lines}", level(verdict.level), verdict.outcome)
}

#[test]
fn a_copy_is_byte_equal_without_notes() {
    for (name, dialect) in DIALECTS {
        let golden = story(dialect);
        let verdict = judged(&golden, &golden.clone(), "format = 1", Level::E4);
        assert_eq!(verdict.outcome, VerdictOutcome::Match, "{name}: {}", rendered(&verdict));
        assert_eq!((verdict.level, verdict.differences.len()), (Some(Level::E4), 0), "{name}");
        for surface in &verdict.surfaces {
            assert_eq!(surface.level, Some(Level::E4), "{name}: {surface:?}");
            assert_eq!(surface.counts.compared, surface.counts.equal, "{name}: {surface:?}");
        }
        assert_eq!(verdict.lanes.len(), golden.ordered().lanes.lanes.len());
        assert!(
            golden.ordered().lanes.lanes.iter().filter(|lane| lane.kind == LaneKind::Sub).count() == 2,
            "{name}"
        );
    }
}

#[test]
fn side_calls_are_paired_by_their_words() {
    let golden = |text| story(dialect("anthropic")).with_title("r7", text);
    let (boats, tides) = ("job_b7e219, the boats, has ended.", "job_a1f03c, the tides, has ended.");
    let once = golden(boats).with_title("r8", tides);
    let swapped = golden(tides).with_title("r8", boats);
    let twice = golden(boats).with_title("r8", boats).with_title("r9", tides);
    for (golden, candidate) in [(&once, &twice), (&twice, &once), (&once, &swapped)] {
        let mut candidate = candidate.clone();
        candidate.rename(&[("job_b7e219", "job_0d1e2f"), ("job_a1f03c", "job_9a8b7c")]);
        let verdict = judged(golden, &candidate, "format = 1", Level::E3);
        assert_eq!(verdict.outcome, VerdictOutcome::Match, "{}", rendered(&verdict));
    }
}

#[test]
fn a_side_call_to_another_address_is_a_difference() {
    let golden = story(dialect("anthropic")).with_probe("r7", "/v1/models");
    let with = |path: &str| story(dialect("anthropic")).with_probe("r7", path);
    let lines = [with("/v1/models"), with("/v1/modelz"), with("/health")]
        .map(|candidate| rendered(&judged(&golden, &candidate, "format = 1", Level::E3)));
    expect![[r#"
        E4 Match
        E1 Differs
        E1 routing side-1 1 lane:tree: the type of the agent differs: GET /v1/models / GET /v1/modelz
        E1 routing side-1 1 url:path: the request's path differs: /v1/models / /v1/modelz
        E4 Match
    "#]]
    .assert_eq(&lines.concat());
}

#[test]
fn a_last_turn_without_tools_belongs_to_its_agent() {
    for (name, dialect) in DIALECTS {
        let mut golden = story(dialect);
        change(&mut golden, "r6", "drop /tools");
        let mut candidate = golden.clone();
        candidate.forget("r6");
        let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
        let missing = |it: &&VerdictDifference| {
            it.lane == "main" && it.description.contains("only the golden has this turn")
        };
        assert!(verdict.differences.iter().any(|it| missing(&it)), "{name}: {}", rendered(&verdict));
    }
}

#[test]
fn calls_without_a_model_are_paired_by_content() {
    let count = |words: &str| json!({"model": "m", "messages": [{"role": "user", "content": words}]});
    let counting = |all: &[(&'static str, &str)]| {
        let with = |story: Story, (id, words): &(&'static str, &str)| {
            story.with_other(id, "/v1/messages/count_tokens", count(words))
        };
        all.iter().fold(story(dialect("anthropic")), with)
    };
    let golden = counting(&[("r7", "a short one"), ("r8", "quite another one")]);
    let tell = |candidate: Story| {
        let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
        let absent: u64 = verdict.surfaces.iter().map(|surface| surface.counts.absent).sum();
        let of_side = verdict.notes.iter().filter(|note| note.contains("has turn"));
        let notes: String = of_side.map(|note| format!("{note}\n")).collect();
        format!("{}{absent} absent\n{notes}", rendered(&verdict))
    };
    let lines = [
        tell(counting(&[("r7", "quite another one"), ("r8", "a short one")])),
        tell(counting(&[("r8", "quite another one")])),
        tell(counting(&[("r7", "a short one"), ("r8", "quite another one"), ("r9", "a third")])),
        tell(counting(&[("r7", "a short one"), ("r8", "quite another word")])),
    ];
    expect![[r#"
        E4 Match
        0 absent
        E4 Match
        1 absent
        only the golden has turn 1 of the side calls side-1 (POST /v1/messages/count_tokens); the number of side calls does not count
        E4 Match
        1 absent
        only the candidate has turn 3 of the side calls side-1 (POST /v1/messages/count_tokens); the number of side calls does not count
        E2 Differs
        E2 prompt side-1 2 /messages/0/content: a text differs: quite another one / quite another word
        0 absent
    "#]].assert_eq(&lines.concat());
}

#[test]
fn the_number_of_side_calls_counts_without_agents() {
    let asking = |words: &[&str]| {
        let mut story = story(dialect("anthropic"));
        for (id, words) in ["r7", "r8"].into_iter().zip(words) {
            let body = json!({"contents": [{"parts": [{"text": words}]}]});
            story = story.with_other(id, "/v1beta/models/gull:generateContent", body);
        }
        ["r1", "r2", "r3", "r4", "r5", "r6"].into_iter().for_each(|id| story.forget(id));
        story
    };
    let golden = asking(&["a", "b"]);
    let tell = |candidate: Story| rendered(&judged(&golden, &candidate, "format = 1", Level::E3));
    let lines = [tell(golden.clone()), tell(asking(&["a"]))];
    expect![[r#"
        E4 Match
        E0 Differs
        E0 routing side-1 2 lane:tree: only the golden has this call: POST /v1beta/models/gull:generateContent / -
    "#]]
    .assert_eq(&lines.concat());
}

#[test]
fn a_side_call_to_another_address_is_paired_by_its_words() {
    let golden = story(dialect("anthropic")).with_title("r7", "Name the talk about tides and boats.");
    let body = golden.exchanges.last().expect("the title").body.clone();
    let candidate = story(dialect("anthropic")).with_other("r7", "/v1/messages/count_tokens", body);
    let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
    let path = verdict.differences.iter().find(|it| it.pointer == "url:path").expect("it is named");
    assert_eq!((path.lane.as_str(), path.level), ("side-1", Some(Level::E1)));
}

#[test]
fn a_changed_word_in_a_carried_reply_is_named_at_its_place() {
    for (name, dialect) in DIALECTS {
        let golden = talk(dialect, "It is coming in.");
        let candidate = talk(dialect, "It is surely coming in.");
        let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
        let list = if dialect == Dialect::OpenAiResponses { "/input/2" } else { "/messages/" };
        let [difference] = &verdict.differences[..] else { panic!("{name}: {}", rendered(&verdict)) };
        assert!(
            difference.pointer.starts_with(list) && difference.turn == 2,
            "{name}: {}",
            rendered(&verdict)
        );
        assert_eq!(difference.candidate.as_deref(), Some("It is surely coming in."), "{name}");
        let same = judged(&golden, &golden.clone(), "format = 1", Level::E4);
        assert_eq!(rendered(&same), "E4 Match\n", "{name}");
    }
}

#[test]
fn a_value_called_an_id_is_paired_as_an_id() {
    let said = |texts: [&str; 2]| {
        let mut story = story(Dialect::AnthropicMessages);
        let results = &mut story.exchange_mut("r5").body["messages"][2]["content"];
        for (at, text) in texts.into_iter().enumerate() {
            results[at]["content"][0]["text"] = text.into();
        }
        story
    };
    let level = |golden: [&str; 2], candidate: [&str; 2]| {
        judged(&said(golden), &said(candidate), "format = 1", Level::E3).level.expect("a level")
    };
    let once = |golden: &str, candidate: &str| level([golden, ""], [candidate, ""]);
    let started = |id: &str| format!("Running with ID: {id}. It writes to /tmp/tasks/{id}.output");
    let lines = [
        ("of letters", once(&started("bqrhimlzk"), &started("bnvnplzqt"))),
        ("with one digit", once("task_id: bqwertyu", "task_id: bk3mzxcv")),
        ("of digits", once("task_id: 12345678", "task_id: 87654321")),
        ("with dashes", once("session_id=V1StGXR8_Z5jdHi6B-myT", "session_id=QwErTyUiOpAsDfGhJkLzX")),
        (
            "in a tag",
            once("<task-id>bqrhimlzk</task-id> bqrhimlzk", "<task-id>bq7himlzk</task-id> bq7himlzk"),
        ),
        ("not for two", level(["shell_id: bqrhim1zk", "bqrhim1zk"], ["shell_id: bnv2plzqt", "bqrhim1zk"])),
        ("a word, once", once("task_id: string", "task_id: number")),
        ("a row of a table", once("id: 7, name: tern", "id: 8, name: tern")),
        ("called otherwise", once("Running bqrhimlzk", "Running bnvnplzqt")),
    ];
    let lines: String = lines.iter().map(|(what, level)| format!("{what}: {level}\n")).collect();
    expect![[r#"
        of letters: E3
        with one digit: E3
        of digits: E3
        with dashes: E3
        in a tag: E3
        not for two: E2
        a word, once: E2
        a row of a table: E2
        called otherwise: E2
    "#]]
    .assert_eq(&lines);
}

#[test]
fn a_name_made_of_words_is_not_an_id() {
    let said = |text: &str, other: &str| {
        let mut story = story(Dialect::AnthropicMessages);
        let results = &mut story.exchange_mut("r5").body["messages"][2]["content"];
        results[0]["content"][0]["text"] = text.into();
        results[1]["content"][0]["text"] = other.into();
        story
    };
    let mut missed = String::new();
    for (frame, golden, candidate) in [
        ("job_id: NAME\nschedule: daily", "nightly-backup", "weekly-purge"),
        ("task_id: NAME", "fix-login-bug", "drop-users-table"),
        ("task_id: NAME", "fix_login_bug", "drop_users_table"),
        ("agent_id: NAME", "repo-scanner", "grep-summarizer"),
        ("Error: thread id: NAME deadlocked", "main-thread", "io-thread"),
        ("Deployed. ID: NAME", "us-east-1", "eu-west-1"),
        ("ID: NAME is closed", "JIRA-1234", "JIRA-9999"),
        ("message ID: NAME", "Error404", "Error500"),
        ("ID=NAME", "debian-12", "centos-7x"),
        ("Check the call id NAME.", "before-commit", "after-commit"),
        ("Check the call id NAME.", "bqrhim1zk", "bnv2plzqt"),
    ] {
        let texts = [golden, candidate].map(|name| frame.replace("NAME", name));
        let verdict = judged(&said(&texts[0], ""), &said(&texts[1], ""), "format = 1", Level::E3);
        if verdict.level != Some(Level::E2) {
            missed.push_str(&format!("{} / {}: {}", texts[0], texts[1], rendered(&verdict)));
        }
        // A second text with the same word does not make it an id.
        let is_name = golden.contains(['-', '_']);
        let verdict = judged(&said(&texts[0], golden), &said(&texts[1], candidate), "format = 1", Level::E3);
        if is_name && verdict.level != Some(Level::E2) {
            missed.push_str(&format!("twice: {} / {}: {}", texts[0], texts[1], rendered(&verdict)));
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

/// A line of the table.
struct Mutation {
    line: &'static str,
    dialect: Dialect,
    request: &'static str,
    change: &'static str,
    /// Surface, lane, turn and pointer.
    place: [&'static str; 4],
    holds: &'static str,
}

fn mutations() -> Vec<Mutation> {
    let lines = include_str!("mutations.txt").lines().filter(|line| !line.starts_with('#'));
    let mutation = |line: &'static str| {
        let columns: Vec<&str> = line.split(" | ").collect();
        let [name, request, change, surface, lane, turn, pointer, holds] = columns[..] else {
            panic!("not eight columns: {line}")
        };
        Mutation {
            line,
            dialect: dialect(name),
            request,
            change,
            place: [surface, lane, turn, pointer],
            holds,
        }
    };
    lines.map(mutation).collect()
}

fn mutated(mutation: &Mutation) -> (Story, Story) {
    let golden = story(mutation.dialect);
    let mut candidate = golden.clone();
    change(&mut candidate, mutation.request, mutation.change);
    (golden, candidate)
}

#[test]
fn every_change_is_named_at_its_place() {
    let mut missed = String::new();
    let mut named = 0;
    for mutation in mutations() {
        let (golden, candidate) = mutated(&mutation);
        let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
        let [surface, lane, turn, pointer] = mutation.place;
        let is_it = |difference: &&VerdictDifference| {
            difference.surface.name() == surface
                && difference.lane == lane
                && difference.turn.to_string() == turn
                && difference.pointer == pointer
        };
        // `same` is a change that a mask or another spelling covers.
        let found = verdict.differences.iter().find(is_it).and_then(|difference| difference.level);
        let right = match mutation.holds {
            "same" => verdict.differences.iter().all(|difference| difference.level == Some(Level::E3)),
            "E3" if verdict.outcome == VerdictOutcome::Match => found == Some(Level::E3),
            holds => found.map(|level| level.to_string()).as_deref() == Some(holds),
        };
        // A verdict is as low as its lowest difference, and a few at most come from one change.
        let fails = ["same", "E3"].contains(&mutation.holds) || verdict.outcome == VerdictOutcome::Differs;
        if right && fails && verdict.differences.len() <= 12 {
            named += 1;
        } else {
            missed.push_str(&format!("{}\n{}\n", mutation.line, rendered(&verdict)));
        }
    }
    assert!(missed.is_empty(), "{missed}");
    assert!(named >= 60, "only {named} changes are tried");
}

#[test]
fn the_rule_that_comes_with_a_difference_covers_it() {
    let mut left = String::new();
    for mutation in mutations() {
        let (golden, candidate) = mutated(&mutation);
        let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
        let failing = verdict.differences.iter().filter(|difference| difference.level < Some(Level::E3));
        let mut rules: Vec<String> =
            failing.filter_map(|difference| difference.suggested_rule.clone()).collect();
        rules.sort();
        rules.dedup();
        let rules = format!("format = 1\n{}", rules.join("\n"));
        let verdict = judged(&golden, &candidate, &rules, Level::E3);
        if verdict.outcome != VerdictOutcome::Match {
            left.push_str(&format!(
                "{}\n{rules}\n{}{:?}\n\n",
                mutation.line,
                rendered(&verdict),
                verdict.tolerances.rules
            ));
        }
    }
    assert!(left.is_empty(), "{left}");
}

/// One change, and all that is said of it.
fn check(name: &str, request: &str, line: &str, expected: Expect) {
    let golden = story(dialect(name));
    let mut candidate = golden.clone();
    change(&mut candidate, request, line);
    expected.assert_eq(&rendered(&judged(&golden, &candidate, "format = 1", Level::E3)));
}

#[test]
fn a_rewritten_history_is_named_once() {
    check(
        "anthropic",
        "r6",
        r#"word /messages/0/content/0/text trip voyage"#,
        expect![[r#"
        E2 Differs
        E2 prompt main 3 /messages/0/content/0/text: a text differs: Plan the trip. / Plan the voyage.
    "#]],
    );
    let golden = story(Dialect::AnthropicMessages);
    let mut candidate = golden.clone();
    for request in ["r4", "r6"] {
        change(&mut candidate, request, "word /messages/0/content/0/text trip voyage");
    }
    expect![[r#"
        E2 Differs
        E2 prompt main 2 /messages/0/content/0/text: a text differs: Plan the trip. / Plan the voyage.
    "#]]
    .assert_eq(&rendered(&judged(&golden, &candidate, "format = 1", Level::E3)));
}

#[test]
fn a_run_with_another_outcome_has_no_level() {
    let golden = story(Dialect::AnthropicMessages);
    let mut candidate = golden.clone();
    candidate.facts.exit_code = Some(1);
    candidate.cut("r6");
    expect![[r#"
        - Differs
        - routing main 0 lane:exit_code: the exit code differs: 0 / 1
        - routing main 3 lane:answer: only one of the requests was answered: answered / not answered
    "#]]
    .assert_eq(&rendered(&judged(&golden, &candidate, "format = 1", Level::E0)));
    let mut candidate = golden.clone();
    candidate.forget("r5");
    candidate.forget("r6");
    expect![[r#"
        E0 Differs
        E1 routing main 1 lane:tree: the number of turns differs: 3 turns / 2 turns
        E0 jobs main 1 job:story: the events of sub-1 differ: acknowledgement, poll, delivery / acknowledgement, poll
        E0 jobs main 1 job:story: the events of sub-2 differ: acknowledgement, announcement, delivery / acknowledgement
        E0 calls main 3 /messages/3/content/0: only the golden has this turn, which adds 1 unit: 1 unit / -
        E0 jobs main 3 /messages/4/content/0: only the golden has this turn, which adds 2 units: 2 units / -
        E1 routing sub-1 1 lane:tree: the number of turns differs: 2 turns / 1 turn
        E0 calls sub-1 2 /messages/1/content/0: only the golden has this turn, which adds 2 units: 2 units / -
        E0 results sub-1 2 /messages/2/content/0: only the golden has this turn, which adds 2 units: 2 units / -
    "#]].assert_eq(&rendered(&judged(&golden, &candidate, "format = 1", Level::E1)));
}

#[test]
fn every_attempt_is_compared() {
    let once = story(Dialect::AnthropicMessages);
    let golden = once.clone().with_failed_try("r0");
    assert_eq!(golden.ordered().lanes.lanes[0].turns[0].attempts.len(), 2);
    let changed = |change_it: &dyn Fn(&mut Story)| {
        let mut candidate = golden.clone();
        change_it(&mut candidate);
        rendered(&judged(&golden, &candidate, "format = 1", Level::E3))
    };
    let lines = [
        changed(&|_| ()),
        changed(&|story| change(story, "r0", "set /temperature 0.9")),
        changed(&|story| change(story, "r0", "word /system/0/text trips voyages")),
        changed(&|story| change(story, "r1", "set /model \"gull-4\"")),
        changed(&|story| ["r0", "r1"].iter().for_each(|id| change(story, id, "drop /tools/2"))),
        changed(&|story| story.exchange_mut("r0").status = 500),
        changed(&|story| *story = once.clone()),
    ];
    expect![[r#"
        E4 Match
        E1 Differs
        E1 settings main 1 /temperature: the setting `temperature` differs, in attempt 1 of 2: 0.5 / 0.9
        E2 Differs
        E2 prompt main 1 /system/0/text: a block of the system prompt differs, in attempt 1 of 2: You plan trips in /work/here and waste no words. / You plan voyages in /work/here and waste no words.
        E0 Differs
        E0 settings main 1 /model: the model differs: tern-3 / gull-4
        E0 Differs
        E0 tools main 1 /tools/2: the tool `Read` is missing, in attempt 1 of 2: {"name":"Read","description":"Reads a file.","input_schema":{"type":"object","properties":{"path":{"type":"string","description":"Which file"},"lines":{"type":"integer"}},"required":["path"]}} / -
        E2 Differs
        E2 routing main 1 answer:status: the status of attempt 1 of 2 differs: status 529 / status 500
        E2 Differs
        E2 routing main 1 lane:attempts: the number of attempts differs: 2 attempts / 1 attempt
    "#]].assert_eq(&lines.concat());
}

#[test]
fn nothing_compared_is_no_match() {
    let mut golden = story(Dialect::AnthropicMessages);
    golden.exchanges.clear();
    golden.facts.ran = false;
    let verdict = judged(&golden, &golden.clone(), "format = 1", Level::E0);
    assert!(matches!(verdict.outcome, VerdictOutcome::Inconclusive(_)), "{:?}", verdict.outcome);
    assert!(verdict.surfaces.iter().all(|surface| surface.level.is_none()));
}

/// Rules that exclude the tree of lanes.
const EXCLUDED_LANES: &str =
    "format = 1\n[[exclude]]\nsurface = \"routing\"\npointer = \"lane:tree\"\nreason = \"all lanes\"\n";

#[test]
fn a_recording_without_requests_never_passes() {
    let full = story(Dialect::AnthropicMessages);
    let without_agents = |mut story: Story| {
        ["r1", "r2", "r3", "r4", "r5", "r6"].into_iter().for_each(|id| story.forget(id));
        story
    };
    let body = json!({"contents": [{"parts": [{"text": "a"}]}]});
    let side_only =
        without_agents(full.clone().with_other("r7", "/v1beta/models/gull:generateContent", body));
    let empty = without_agents(full.clone());
    let mut lines = String::new();
    for (golden, candidate) in
        [(&full, &empty), (&full, &side_only), (&empty, &full), (&side_only, &full), (&side_only, &empty)]
    {
        for rules in ["format = 1", EXCLUDED_LANES] {
            let verdict = judged(golden, candidate, rules, Level::E0);
            let outcome = match &verdict.outcome {
                VerdictOutcome::Inconclusive(why) => format!("INCONCLUSIVE {why}"),
                other => format!("{} {:?}", other.word(), verdict.level),
            };
            let causes: Vec<&str> = verdict
                .differences
                .iter()
                .filter(|difference| difference.level.is_none())
                .map(|difference| difference.description.as_str())
                .collect();
            lines.push_str(&format!("{outcome}: {}\n", causes.join("; ")));
        }
    }
    expect![[r#"
        FAIL None: only the golden has requests of an agent
        FAIL None: only the golden has requests of an agent
        FAIL None: only the golden has requests of an agent
        FAIL None: only the golden has requests of an agent
        INCONCLUSIVE the golden has no request: only the candidate has requests of an agent
        INCONCLUSIVE the golden has no request: only the candidate has requests of an agent
        INCONCLUSIVE no unit was compared: only the candidate has requests of an agent
        INCONCLUSIVE no unit was compared: only the candidate has requests of an agent
        FAIL None: only the golden has side calls
        FAIL None: only the golden has side calls
    "#]]
    .assert_eq(&lines);
}

#[test]
fn another_run_of_the_same_agrees_under_masks() {
    let golden = story(Dialect::AnthropicMessages);
    let mut candidate = golden.clone();
    candidate.facts.folders = vec![("cwd", "/elsewhere/entirely".into())];
    let names = [
        ("/work/here", "/elsewhere/entirely"),
        ("ses_0a1b2c3d4e", "ses_7a7b7c7d7e"),
        ("job_a1f03c", "job_999e9a"),
        ("job_b7e219", "job_0b0b0b"),
        ("2026-11-15", "2027-01-31"),
        ("00112233aabbccdd", "ffeeddccbbaa9988"),
        ("127.0.0.1:4000", "127.0.0.1:51234"),
    ];
    candidate.rename(&names);
    let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
    expect![[r#"
        E3 Match
    "#]]
    .assert_eq(&rendered(&verdict));
    let hit = verdict.tolerances.masks.iter().filter(|mask| mask.differed > 0);
    let hit: Vec<String> = hit.map(|mask| format!("{} {}/{}", mask.name, mask.differed, mask.hits)).collect();
    expect![[r#"
        cwd 3/3
        date 4/4
        id 9/23
        secret 3/3
        host 3/6"#]]
    .assert_eq(&hit.join("\n"));
    expect![[r#"[("ses_0a1b2c3d4e", "ses_7a7b7c7d7e"), ("00112233aabbccdd", "ffeeddccbbaa9988"), ("a1f03c", "999e9a"), ("b7e219", "0b0b0b")]"#]].assert_eq(&format!("{:?}", verdict.tolerances.ids));
    // At E4, all masked differences are listed.
    let verdict = judged(&golden, &candidate, "format = 1", Level::E4);
    assert_eq!((verdict.level, verdict.outcome), (Some(Level::E3), VerdictOutcome::Differs));
    assert!(verdict.differences.len() > 10);
}

#[test]
fn equal_values_are_equal_under_one_sided_masks() {
    for (name, dialect) in DIALECTS {
        let golden = story(dialect);
        let mut bare = golden.clone();
        bare.facts = crate::RecordingFacts::default();
        // Of these two each names another folder, and another version.
        let mut other = golden.clone();
        other.facts.folders = vec![("cwd", "/somewhere/else".into())];
        other.facts.version = Some("3.2.1".into());
        for candidate in [bare, other] {
            for (mine, theirs) in [(&golden, &candidate), (&candidate, &golden)] {
                let verdict = judged(mine, theirs, "format = 1", Level::E4);
                assert_eq!(rendered(&verdict), "E4 Match\n", "{name}");
            }
        }
    }
    // A value that holds an id too is compared under the masks of both.
    let golden = story(Dialect::AnthropicMessages);
    let mut bare = golden.clone();
    bare.rename(&[("ses_0a1b2c3d4e", "ses_7a7b7c7d7e"), ("waste no words", "waste no words 2026-11-15")]);
    bare.facts = crate::RecordingFacts::default();
    let mut named = golden.clone();
    named.rename(&[("waste no words", "waste no words 2026-11-16")]);
    assert_eq!(rendered(&judged(&named, &bare, "format = 1", Level::E3)), "E3 Match\n");
}

#[test]
fn carried_replies_are_measured_by_the_replies_themselves() {
    let silent = story(Dialect::AnthropicMessages);
    let mut golden = silent.clone();
    golden.says("r1", "two of them", "I send two.", &["r4", "r6"]);
    let verdict = judged(&golden, &golden.clone(), "format = 1", Level::E4);
    assert_eq!(rendered(&verdict), "E4 Match\n");
    // Another model said something else, and all of it is carried back.
    let mut other = silent.clone();
    other.says("r1", "a pair", "Both are on their way.", &["r4", "r6"]);
    let verdict = judged(&golden, &other, "format = 1", Level::E3);
    assert_eq!(verdict.outcome, VerdictOutcome::Match, "{}", rendered(&verdict));
    assert_eq!(verdict.surfaces[0].counts.echoed, 2, "{:?}", verdict.surfaces[0]);
    // Members beside the content are not content of the model.
    let mut beside = other.clone();
    change(&mut beside, "r6", "add /messages/1/content/1/mood \"good\"");
    let verdict = judged(&golden, &beside, "format = 1", Level::E3);
    assert!(rendered(&verdict).contains("/messages/1/content/1/mood"), "{}", rendered(&verdict));
    assert_eq!(verdict.outcome, VerdictOutcome::Differs);
    // Another said nothing, and there was nothing to carry.
    for (mine, theirs) in [(&golden, &silent), (&silent, &golden)] {
        assert_eq!(rendered(&judged(mine, theirs, "format = 1", Level::E3)), "E3 Match\n");
    }
    let changed = |changes: &[&str]| {
        let mut candidate = golden.clone();
        for line in changes {
            change(&mut candidate, "r4", line);
            change(&mut candidate, "r6", line);
        }
        rendered(&judged(&golden, &candidate, "format = 1", Level::E3))
    };
    let lines = [
        changed(&["set /messages/1/content/1/text \"I send both.\""]),
        changed(&["set /messages/1/content/0/thinking \"two\""]),
        changed(&["set /messages/1/content/0/signature \"b3R0ZXI0MTVhOTJmNjE4ZGI=\""]),
        changed(&["drop /messages/1/content/0"]),
        changed(&["drop /messages/1/content/1"]),
        changed(&["add /messages/1/content/2 {\"type\":\"text\",\"text\":\"(nothing)\"}"]),
    ];
    expect![[r#"
        E2 Differs
        E2 prompt main 2 /messages/1/content/1/text: a carried-back text block differs: I send two. / I send both.
        E2 Differs
        E2 prompt main 2 /messages/1/content/0/thinking: a carried-back thinking block differs: two of them / two
        E2 Differs
        E2 prompt main 2 /messages/1/content/0/signature: a carried-back thinking block differs: c2lnMTRkZDU3MWE5ZTA4Nzc= / b3R0ZXI0MTVhOTJmNjE4ZGI=
        E0 Differs
        E0 prompt main 2 /messages/1/content/0: a carried-back thinking block is missing: {"type":"thinking","thinking":"two of them","signature":"c2lnMTRkZDU3MWE5ZTA4Nzc="} / -
        E0 Differs
        E0 prompt main 2 /messages/1/content/1: a carried-back text block is missing: {"type":"text","text":"I send two."} / -
        E0 Differs
        E0 prompt main 2 /messages/1/content/2: a carried-back text block is new: - / {"type":"text","text":"(nothing)"}
    "#]].assert_eq(&lines.concat());
}

#[test]
fn a_reply_of_another_turn_does_not_explain_a_carried_block() {
    let mut golden = story(Dialect::AnthropicMessages);
    golden.says("r1", "two of them", "I send two.", &["r4", "r6"]);
    golden.says("r2", "both files", "I read both files.", &["r5"]);
    golden.says("r4", "wait for it", "I ask after one.", &["r6"]);
    let changed = |changes: &[(&str, &str)]| {
        let mut candidate = golden.clone();
        changes.iter().for_each(|(request, line)| change(&mut candidate, request, line));
        rendered(&judged(&golden, &candidate, "format = 1", Level::E3))
    };
    let other_lane = "set /messages/1/content/1/text \"I read both files.\"";
    let lines = [
        changed(&[("r4", other_lane), ("r6", other_lane)]),
        changed(&[("r6", "swap /messages/1/content/1/text /messages/3/content/1/text")]),
        // Content that the model did not say belongs to the harness.
        changed(&[("r5", "add /messages/1/content/1/mood \"good\"")]),
        changed(&[("r5", "add /messages/1/content/2/mood \"good\"")]),
    ];
    expect![[r#"
        E2 Differs
        E2 prompt main 2 /messages/1/content/1/text: a carried-back text block differs: I send two. / I read both files.
        E2 Differs
        E2 prompt main 3 /messages/1/content/1/text: a carried-back text block differs: I send two. / I ask after one.
        E2 prompt main 3 /messages/3/content/1/text: a carried-back text block differs: I ask after one. / I send two.
        E1 Differs
        E1 prompt sub-1 2 /messages/1/content/1/mood: a carried-back text block has a new value: - / good
        E1 Differs
        E1 calls sub-1 2 /messages/1/content/2/mood: a call of `Read` has a new value: - / good
    "#]].assert_eq(&lines.concat());
}

#[test]
fn masks_cover_times_and_nothing_that_looks_like_them() {
    let said = |text: &str| {
        let mut story = story(Dialect::OpenAiChat);
        story.exchange_mut("r5").body["messages"][3]["content"] = text.into();
        story
    };
    let level = |golden: &str, candidate: &str| {
        judged(&said(golden), &said(candidate), "format = 1", Level::E3).level
    };
    let others = [
        ("failed after 3 attempts", "failed after 5 attempts"),
        ("done in 3 files", "done in 90 files"),
        ("took 5 bribes", "took 6 bribes"),
        ("it may 10 times", "it may 11 times"),
        ("see mar 3", "see mar 4"),
    ];
    for (golden, candidate) in others {
        assert_eq!(level(golden, candidate), Some(Level::E2), "{golden} / {candidate}");
    }
    let times = [
        ("failed after 3 seconds", "failed after 5 seconds"),
        ("done in 3.1s", "done in 90ms"),
        ("duration_ms: 31", "duration_ms: 4022"),
        ("took 1m 3s", "took 2m 4s"),
        ("on May 10, 2026", "on June 1, 2027"),
        ("on Sunday, May 10", "on Monday, June 1"),
        ("at 2026-05-10 10:00:01", "at 2026-05-11 11:00:01"),
    ];
    for (golden, candidate) in times {
        assert_eq!(level(golden, candidate), Some(Level::E3), "{golden} / {candidate}");
    }
}

#[test]
fn masks_do_not_hide_chosen_values() {
    let said = |surface: &str, text: &str| {
        let mut story = story(Dialect::OpenAiChat);
        story.facts.day = Day::of_timestamp("2026-11-15T12:00:00Z");
        match surface {
            "system" => story.exchange_mut("r1").body["messages"][0]["content"] = text.into(),
            "user" => story.exchange_mut("r1").body["messages"][1]["content"][0]["text"] = text.into(),
            _ => story.exchange_mut("r5").body["messages"][3]["content"] = text.into(),
        }
        story
    };
    let level = |surface: &str, golden: &str, candidate: &str| {
        judged(&said(surface, golden), &said(surface, candidate), "format = 1", Level::E3).level
    };
    for (surface, golden, candidate) in [
        ("system", "CriterionAnswer with max_tokens: 100.", "CriterionAnswer with max_tokens: 900."),
        ("result", "const token = 5;", "const token = 6;"),
        ("user", "Deploy only on Monday.", "Deploy only on Friday."),
        ("user", "Delete files before 2020-01-01.", "Delete files before 2026-11-14."),
        ("user", "Made on May 10, 2019.", "Made on May 11, 2019."),
        ("user", "a \u{1}h b", "a 2026-11-14 b"),
    ] {
        assert_eq!(level(surface, golden, candidate), Some(Level::E2), "{golden} / {candidate}");
    }
    for (surface, golden, candidate) in [
        ("result", "<total_tokens>1200</total_tokens>", "<total_tokens>1300</total_tokens>"),
        ("result", "subagent_tokens: 22", "subagent_tokens: 23"),
        ("user", "Token usage: 310/2000; 1690 tokens left", "Token usage: 311/2000; 1689 tokens left"),
        ("system", "Today is 2026-11-15.", "Today is 2026-11-17."),
        ("system", "Today is Sunday, 2026-11-15 (UTC).", "Today is Monday, 2026-11-16 (UTC)."),
        (
            "result",
            "2026-11-15T10:00:00+01:00[Europe/Oslo], Sunday",
            "2026-11-17T10:00:00+01:00[Europe/Oslo], Tuesday",
        ),
        ("result", "made on Sun Nov 15 2026", "made on Mon Nov 16 2026"),
    ] {
        assert_eq!(level(surface, golden, candidate), Some(Level::E3), "{golden} / {candidate}");
    }
}

/// Both sides with the same change to all their requests, each with its own value.
fn with_each(golden: &str, candidate: &str) -> Option<Level> {
    let changed = |line: &str| {
        let mut story = story(Dialect::AnthropicMessages);
        ["r1", "r2", "r3", "r4", "r5", "r6"].iter().for_each(|request| change(&mut story, request, line));
        story
    };
    judged(&changed(golden), &changed(candidate), "format = 1", Level::E3).level
}

#[test]
fn only_marked_or_id_shaped_values_are_ids() {
    for (golden, candidate) in [
        (r#"add /metadata/purpose "eval""#, r#"add /metadata/purpose "train""#),
        (r#"add /user "alice""#, r#"add /user "bob""#),
        ("header x-session-mode strict", "header x-session-mode loose"),
        ("header x-thread-count 4", "header x-thread-count 8"),
        (
            r#"set /system/0/text "Use v1beta1 as in v1beta1.""#,
            r#"set /system/0/text "Use v2beta2 as in v2beta2.""#,
        ),
        (r#"set /system/0/text "utf8mb4, utf8mb4""#, r#"set /system/0/text "utf8mb3, utf8mb3""#),
    ] {
        assert!(with_each(golden, candidate) < Some(Level::E3), "{golden} / {candidate}");
    }
    // Even where it is the only header that speaks of a session.
    let mode = |mode: &str| {
        let mut story = story(Dialect::OpenAiChat);
        for lines in &mut story.exchanges {
            lines.headers = vec![wire::Header::Plain { name: "x-session-mode".into(), value: mode.into() }];
        }
        story
    };
    assert_eq!(judged(&mode("strict"), &mode("loose"), "format = 1", Level::E3).level, Some(Level::E1));
    let (ours, theirs) = ("5f0c7a1e-93b2-4d18-8e6f-0a1b2c3d4e5f", "0d9e8f7a-6b5c-4d3e-a2f1-b0c9d8e7f6a5");
    let made = [
        "header session_id ID",
        "header Conversation_Id ID",
        "header x-correlation-id ID",
        "header idempotency-key stainless-node-retry-ID",
        "header x-interaction-id ID",
        "header sentry-trace ID-1",
        "header baggage sentry-trace_id=ID",
        "header b3 ID-1",
        "header x-turn-id ID",
        r#"add /client_metadata {"turn_id":"ID"}"#,
        r#"add /request_id "ID""#,
    ];
    for line in made {
        let level = with_each(&line.replace("ID", ours), &line.replace("ID", theirs));
        assert_eq!(level, Some(Level::E3), "{line}");
    }
    let dates = ["header date Mon, 16 Nov 2026 11:22:33 GMT", "header date Tue, 17 Nov 2026 10:00:00 GMT"];
    assert_eq!(with_each(dates[0], dates[1]), Some(Level::E3));
}

#[test]
fn a_clock_value_in_metadata_or_headers_is_a_time() {
    for line in [
        r#"add /metadata/ts "T""#,
        r#"add /metadata/ts "T123""#,
        "add /metadata/ts T123456",
        "header x-timestamp T",
        "header x-session-start T123",
    ] {
        let level = |golden: &str, candidate: &str| {
            with_each(&line.replace('T', golden), &line.replace('T', candidate))
        };
        assert_eq!(level("1794744000", "1794830400"), Some(Level::E3), "{line}");
        assert!(level("1794744000", "1234567890") < Some(Level::E3), "{line}");
    }
}

#[test]
fn a_failed_surface_differs_from_an_empty_one() {
    let golden = story(Dialect::AnthropicMessages);
    let mut candidate = golden.clone();
    change(&mut candidate, "r1", "drop /tools/2");
    let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
    assert_eq!(verdict.surfaces[1].level, Some(Level::E0));
    let mut golden = golden.clone();
    ["r1", "r2", "r3", "r4", "r5", "r6"].into_iter().for_each(|id| change(&mut golden, id, "set /tools []"));
    let verdict = judged(&golden, &golden.clone(), "format = 1", Level::E3);
    assert_eq!((verdict.surfaces[1].level, verdict.outcome), (None, VerdictOutcome::Match));
}

#[test]
fn an_id_in_an_argument_was_seen_before() {
    let mut golden = story(Dialect::AnthropicMessages);
    golden.rename(&[("tides.md", "abc123")]);
    // The harness made another argument of what the model said.
    let mut candidate = golden.clone();
    change(&mut candidate, "r5", "set /messages/1/content/0/input/path \"abc124\"");
    expect![[r#"
        E1 Differs
        E1 calls sub-1 2 /messages/1/content/0/input/path: a call of `Read` differs: abc123 / abc124
    "#]]
    .assert_eq(&rendered(&judged(&golden, &candidate, "format = 1", Level::E3)));
    // The model said another, and the harness carries that.
    let mut candidate = golden.clone();
    candidate.rename(&[("abc123", "abc124")]);
    assert_eq!(rendered(&judged(&golden, &candidate, "format = 1", Level::E3)), "E3 Match\n");
}

#[test]
fn only_values_that_name_a_thing_are_paired_as_ids() {
    let data =
        |mark: &str| format!("{}{mark}{}", "iVBORw0KGgo9a8B7c6D5".repeat(3), "4e3F2g1H0j9K8l7M".repeat(4));
    let said = |texts: [&str; 2], picture: &str| {
        let mut story = story(Dialect::AnthropicMessages);
        let results = &mut story.exchange_mut("r5").body["messages"][2]["content"];
        results[0]["content"][0]["text"] = texts[0].into();
        results[1]["content"][0]["text"] = texts[1].into();
        let source = json!({"type": "base64", "media_type": "image/png", "data": picture});
        let blocks = results[1]["content"].as_array_mut().expect("blocks");
        blocks.push(json!({"type": "image", "source": source}));
        story
    };
    let level = |golden: Story, candidate: Story| {
        judged(&golden, &candidate, "format = 1", Level::E3).level.expect("a level")
    };
    let texts = |golden: [&str; 2], candidate: [&str; 2]| level(said(golden, ""), said(candidate, ""));
    let (ours, theirs) = (&*data("a1b2"), &*data("z9y8"));
    let launched = |job: &str| {
        let mut story = story(Dialect::AnthropicMessages);
        story.rename(&[("job_b7e219 has ended: boats", "boats"), ("job_b7e219", job)]);
        story
    };
    let lines = [
        ("a checksum", texts(["sum 0a1b2c3d4e5f60718293", ""], ["sum ffffffffffffffff0000", ""])),
        ("a commit", texts(["at 9f8e7d6c5b", ""], ["at 0123456789", ""])),
        ("a picture", level(said([""; 2], "abc123def"), said([""; 2], "abc124def"))),
        ("two pictures", level(said(["a", "a1b2c3"], "a1b2c3"), said(["a", "d4e5f6"], "d4e5f6"))),
        ("data in two texts", texts([ours, &format!("see {ours}")], [theirs, &format!("see {theirs}")])),
        ("what two places name", texts(["made 0a1b2c3d", "has 0a1b2c3d"], ["made 9f8e7d6c", "has 9f8e7d6c"])),
        ("what is called an id", texts(["agentId: a161f93 (go on)", ""], ["agentId: a87f835 (go on)", ""])),
        ("what is of a known kind", texts(["in ses_e1c75fdcd", ""], ["in ses_e1c75c3e8", ""])),
        ("what is called otherwise", texts(["taskIdle: a161f93", ""], ["taskIdle: a87f835", ""])),
        ("a job that nobody asks after", level(launched("job_b7e219"), launched("job_0d1e2f"))),
        ("a job of letters", level(launched("id: abcdefa"), launched("id: 0d1e2fa"))),
    ];
    let lines: String = lines.iter().map(|(what, level)| format!("{what}: {level}\n")).collect();
    expect![[r#"
        a checksum: E2
        a commit: E2
        a picture: E2
        two pictures: E2
        data in two texts: E2
        what two places name: E3
        what is called an id: E3
        what is of a known kind: E3
        what is called otherwise: E2
        a job that nobody asks after: E3
        a job of letters: E3
    "#]]
    .assert_eq(&lines);
}

#[test]
fn an_excluded_surface_has_no_level() {
    let golden = story(Dialect::AnthropicMessages);
    let rule = |surface: &str, pointer: &str| {
        format!("[[exclude]]\nsurface = \"{surface}\"\npointer = \"{pointer}\"\nreason = \"all\"\n")
    };
    let rules = format!("format = 1\n{}", rule("tools", "/*"));
    let verdict = judged(&golden, &golden.clone(), &rules, Level::E3);
    let tools = &verdict.surfaces[1];
    assert_eq!((tools.level, tools.counts.compared, verdict.outcome), (None, 0, VerdictOutcome::Match));
    let mut all = String::from("format = 1\n");
    for surface in ["prompt", "tools", "settings", "calls", "results", "jobs", "routing"] {
        all.push_str(&rule(surface, "/*"));
    }
    let headers = ["user-agent", "x-beta", "host", "content-length", "authorization"];
    for pointer in
        headers.map(|name| format!("header:{name}")).iter().map(String::as_str).chain(["url:query"])
    {
        all.push_str(&rule("settings", pointer));
    }
    let pointers =
        ["header:x-session-id", "header:x-parent-session-id", "url:host", "url:path", "method", "lane:tree"];
    all.push_str(&rule("routing", "job:turn"));
    pointers.into_iter().for_each(|pointer| all.push_str(&rule("routing", pointer)));
    ["job:story", "job:turn"].into_iter().for_each(|pointer| all.push_str(&rule("jobs", pointer)));
    let verdict = judged(&golden, &golden.clone(), &all, Level::E3);
    let left: Vec<_> = verdict.surfaces.iter().filter(|surface| surface.level.is_some()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(matches!(verdict.outcome, VerdictOutcome::Inconclusive(_)), "{:?}", verdict.outcome);
}

#[test]
fn one_change_is_listed_once() {
    let swap = |story: &mut Story, requests: &[&str], line: &str| {
        requests.iter().for_each(|request| change(story, request, line));
    };
    let golden = story(Dialect::AnthropicMessages);
    let said = |requests: &[&str], line: &str| {
        let mut candidate = golden.clone();
        swap(&mut candidate, requests, line);
        rendered(&judged(&golden, &candidate, "format = 1", Level::E3))
    };
    let main = ["r1", "r4", "r6"];
    let all = [
        said(&main, "swap /tools/0 /tools/1"),
        said(&main, "add /tools/3 {\"name\":\"Read\",\"description\":\"Reads a file.\",\"input_schema\":{}}"),
        said(&["r4", "r6"], "swap /messages/1/content/0 /messages/1/content/1"),
        said(&["r5"], "swap /messages/1/content/0 /messages/1/content/1"),
        said(&["r5"], "drop /messages/2/content/0"),
    ];
    expect![[r#"
        E1 Differs
        E1 tools main 1 /tools/0: the order of the tools differs: Task / JobOutput
        E0 Differs
        E0 tools main 1 /tools/3: the tool `Read (2)` is new: - / {"name":"Read","description":"Reads a file.","input_schema":{}}
        E1 Differs
        E1 calls main 2 /messages/1/content/0: two calls of one tool changed places: call_a1 / call_b2
        E1 Differs
        E1 calls sub-1 2 /messages/1/content/0: two calls of one tool changed places: call_r3 / call_r4
        E0 Differs
        E0 results sub-1 2 /messages/2/content/0: a result is missing: {"type":"tool_result","tool_use_id":"call_r3","content":[{"type":"text","text":"low at dawn"}],"is_error":false} / -
    "#]].assert_eq(&all.concat());
}

#[test]
fn the_summary_lists_markers_first_and_the_owners_of_missing_tools() {
    let golden = story(Dialect::AnthropicMessages);
    let mut candidate = golden.clone();
    for request in ["r1", "r4", "r6"] {
        change(
            &mut candidate,
            request,
            "set /model \"gull-4-of-a-name-that-takes-much-of-a-line-by-itself\"",
        );
        change(&mut candidate, request, "drop /system/1/cache_control");
        change(&mut candidate, request, "word /tools/2/description Reads Opens");
        for name in ["context_management", "output_config", "diagnostics_of_the_harness", "safety_settings"] {
            change(&mut candidate, request, &format!("add /{name} {{}}"));
            let header = format!("header x-{} 1", name.replace('_', "-"));
            change(&mut candidate, request, &header);
        }
    }
    for request in ["r2", "r3", "r5"] {
        change(&mut candidate, request, "drop /tools/0");
    }
    let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
    expect![[r#"
        tools: gone in sub-agents: Read; reworded: Read
        settings: 1 cache marker gone; model tern-3 is now
            gull-4-of-a-name-that-takes-much-of-a-line-by-itself; settings new:
            context_management, diagnostics_of_the_harness, output_config and 1
            more; headers new: x-context-management, x-diagnostics-of-the-harness,
            x-output-config and 1 more"#]]
    .assert_eq(&verdict.summary.join("\n"));
}

#[test]
fn results_in_another_order_matter_where_order_is_promised() {
    let mut golden = story(Dialect::AnthropicMessages);
    golden.facts.harness = Some("claude-code".into());
    let mut candidate = golden.clone();
    change(&mut candidate, "r5", "swap /messages/2/content/0 /messages/2/content/1");
    // The marker stays on the last of them.
    change(&mut candidate, "r5", "drop /messages/2/content/0/cache_control");
    change(&mut candidate, "r5", r#"add /messages/2/content/1/cache_control {"type":"ephemeral"}"#);
    let verdict = judged(&golden, &candidate, "format = 1", Level::E3);
    expect![[r#"
        E3 Match
        E3 results sub-1 2 /messages/2/content/0: the order of the results differs, which this harness does not promise: call_r3 / call_r4
        results of one message were compared in any order, because this harness sends them as they end
        sub-1, sub-2 were started together; they were aligned by their prompts, not by their numbers"#]].assert_eq(&format!("{}{}", rendered(&verdict), verdict.notes.join("\n")));
}

#[test]
fn all_rules_that_are_offered_can_be_pasted_at_once() {
    let golden = story(dialect("anthropic"));
    let mut candidate = golden.clone();
    candidate.rename(&[
        ("waste no words", "waste no words, and no time"),
        ("Asks after a job.", "Asks after it."),
    ]);
    for wanted in [Level::E3, Level::E4] {
        let verdict = judged(&golden, &candidate, "format = 1", wanted);
        let rules: Vec<&str> =
            verdict.differences.iter().filter_map(|it| it.suggested_rule.as_deref()).collect();
        assert!(rules.iter().collect::<std::collections::BTreeSet<_>>().len() < rules.len(), "{rules:?}");
        let verdict = judged(&golden, &candidate, &rules.concat(), wanted);
        assert_eq!(
            rendered(&verdict),
            "E4 Match\n".replace("E4", if wanted == Level::E3 { "E3" } else { "E4" })
        );
        assert!(wanted == Level::E3 || rules.iter().all(|rule| rule.starts_with("[[exclude]]")), "{rules:?}");
    }
}

#[test]
fn rules_are_strict_and_a_stale_one_fails() {
    let golden = story(Dialect::AnthropicMessages);
    let stale =
        "format = 1\n[[mask]]\nsurface = \"prompt\"\npointer = \"/system/7/text\"\nreason = \"gone\"\n";
    let verdict = judged(&golden, &golden.clone(), stale, Level::E3);
    assert_eq!((verdict.level, verdict.outcome.clone()), (Some(Level::E4), VerdictOutcome::Differs));
    let other = format!("{stale}applies_to = {{ harness = \"claude-code\", versions = \"before 2.1\" }}\n");
    let verdict = judged(&golden, &golden.clone(), &other, Level::E3);
    assert_eq!((verdict.outcome, verdict.tolerances.rules[0].stale), (VerdictOutcome::Match, false));
    // Every pointer that comes with a difference can be pasted.
    for pointer in ["/a", "header:x", "url:host", "method", "lane:tree", "job:turn", "answer:status"] {
        let text = format!(
            "format = 1\n[[exclude]]\nsurface = \"routing\"\npointer = \"{pointer}\"\nreason = \"x\"\n"
        );
        ParityRules::parse(&text, Path::new("parity.toml")).expect(pointer);
    }
    let mistakes = [
        "format = 2\n",
        "format = 1\n\n[[mask]]\nsurface = \"prompts\"\npointer = \"/a\"\nreason = \"x\"\n",
        "format = 1\n[[exclude]]\nsurface = \"prompt\"\npointer = \"/a\"\npattern = \"x\"\nreason = \"x\"\n",
        "format = 1\n[[mask]]\nsurface = \"prompt\"\npointer = \"/a\"\npattern = \"(\"\nreason = \"x\"\n",
        "format = 1\n[[mask]]\nsurface = \"prompt\"\npointer = \"system\"\nreason = \"x\"\n",
        "format = 1\n[[mask]]\nsurface = \"prompt\"\npointer = \"/a\"\nreason = \" \"\n",
        "format = 1\n[[mask]]\nsurface = \"prompt\"\npointer = \"/a\"\nreason = \"x\"\nbecause = \"y\"\n",
    ];
    let said = mistakes
        .map(|text| ParityRules::parse(text, Path::new("parity.toml")).expect_err("a mistake").to_string());
    expect![[r#"
        cannot use the rules in `parity.toml`, line 1: unknown format 2; this version reads 1
        cannot use the rules in `parity.toml`, line 4: unknown variant `prompts`, expected one of `prompt`, `tools`, `settings`, `calls`, `results`, `jobs`, `routing`
        cannot use the rules in `parity.toml`, line 2: an exclusion has no `pattern`; a mask may have one
        cannot use the rules in `parity.toml`, line 2: `pattern` is not a regular expression: regex parse error:
            (
            ^
        error: unclosed group
        cannot use the rules in `parity.toml`, line 2: `system` is not a pointer; write one as in `/system/0/text` or `header:user-agent`
        cannot use the rules in `parity.toml`, line 2: a rule needs a `reason`
        cannot use the rules in `parity.toml`, line 6: unknown field `because`, expected one of `surface`, `pointer`, `reason`, `applies_to`, `pattern`"#]].assert_eq(&said.join("\n"));
}
