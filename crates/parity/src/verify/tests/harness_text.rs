//! Text that harnesses add by themselves: reminders on results, random names, checksums. Each is tolerated in its place only.

use serde_json::{Value, json};
use wire::dialect::Dialect;

use super::story::{Story, story};
use super::{judged, rendered};
use crate::Level;

const READ: &str = "<system-reminder>\nLook twice.\n</system-reminder>";
const LEFT: &str = "<system-reminder>\nThe list is empty.\n</system-reminder>";

/// The story with these contents for the two results of one message.
fn results(contents: [(&str, Value); 2]) -> Story {
    let mut story = story(Dialect::AnthropicMessages);
    story.facts.harness = Some("claude-code".into());
    let message = &mut story.exchange_mut("r5").body["messages"][2];
    let result = |(call, content): (&str, Value)| json!({"type": "tool_result", "tool_use_id": call, "content": content});
    message["content"] = contents.map(result).to_vec().into();
    story
}

fn level(golden: &Story, candidate: &Story) -> Option<Level> {
    judged(golden, candidate, "format = 1", Level::E3).level
}

#[test]
fn a_reminder_belongs_to_no_result_but_to_the_last() {
    let (a, b) = (("call_r3", "low at dawn"), ("call_r4", "new on friday"));
    let said = |(call, text): (&'static str, &str), more: &[&str]| {
        (
            call,
            Value::from(format!("{text}{}", more.iter().map(|it| format!("\n\n{it}")).collect::<String>())),
        )
    };
    let blocks = |(call, text): (&'static str, &str), more: &[&str]| {
        let end = if more.is_empty() { "" } else { "\n" };
        let block = |text: String| json!({"type": "text", "text": text});
        let more = more.iter().map(|it| block((*it).to_owned()));
        (call, std::iter::once(block(format!("{text}{end}"))).chain(more).collect())
    };
    let golden = results([said(a, &[READ]), said(b, &[LEFT])]);
    let swapped = results([said(b, &[]), said(a, &[READ, LEFT])]);
    assert_eq!(level(&golden, &swapped), Some(Level::E3), "the last result has it");
    let in_blocks = results([blocks(a, &[READ]), blocks(b, &[LEFT])]);
    let swapped_blocks = results([blocks(b, &[]), blocks(a, &[READ, LEFT])]);
    assert_eq!(level(&in_blocks, &swapped_blocks), Some(Level::E3), "in blocks of their own");
    let other = LEFT.replace("empty", "full");
    let mutations = [
        ("another text", results([said(b, &[]), said(a, &[READ, &other])])),
        ("gone", results([said(b, &[]), said(a, &[READ])])),
        ("one more", results([said(b, &[]), said(a, &[READ, LEFT, LEFT])])),
        ("in another order", results([said(b, &[]), said(a, &[LEFT, READ])])),
        ("on a result that is not the last", results([said(a, &[READ, LEFT]), said(b, &[])])),
        ("another result", results([said(("call_r4", "old on friday"), &[]), said(a, &[READ, LEFT])])),
        (
            "between words",
            results([said(b, &[]), ("call_r3", format!("low {READ} at dawn\n\n{LEFT}").into())]),
        ),
    ];
    for (name, candidate) in &mutations {
        let verdict = judged(&golden, candidate, "format = 1", Level::E3);
        assert!(verdict.level < Some(Level::E3), "{name}: {}", rendered(&verdict));
    }
    for (name, candidate) in [
        ("another text", results([blocks(b, &[]), blocks(a, &[READ, &other])])),
        ("gone", results([blocks(b, &[]), blocks(a, &[READ])])),
        ("not the last", results([blocks(a, &[READ, LEFT]), blocks(b, &[])])),
    ] {
        assert!(level(&in_blocks, &candidate) < Some(Level::E3), "{name}");
    }
    let byte_equal = judged(&golden, &golden.clone(), "format = 1", Level::E4);
    assert_eq!(byte_equal.level, Some(Level::E4));
}

#[test]
fn a_separator_before_a_reminder_is_no_reminder() {
    let with = |text: &str| results([("call_r3", "x".into()), ("call_r4", text.into())]);
    let (golden, candidate) = (with(&format!("low\n\n{LEFT}")), with(&format!("low\n{LEFT}")));
    assert!(judged(&golden, &candidate, "format = 1", Level::E4).level < Some(Level::E4));
    let candidate = with(&format!("low\n\n\n\n{LEFT}"));
    assert!(level(&golden, &candidate) < Some(Level::E3));
}

#[test]
fn random_names_are_ids_in_their_place_only() {
    let with = |text: &str| results([("call_r3", text.into()), ("call_r4", "x".into())]);
    let same = |golden: &str, candidate: &str| level(&with(golden), &with(candidate));
    let session = "/h/.claude/projects/w/0ff54007-0000-4000-8000-b36aa4a967ef";
    let saved =
        |folder: &str, name: &str| format!("Output too large. Saved to: {folder}/tool-results/{name}");
    let named = |name: &str| format!("This session is {name} — the name other sessions use");
    let slug = |slug: &str| format!(r#"{{"agentId":"a0fc595",{slug}"type":"user"}}"#);
    let equal = [
        (saved(session, "b6dm4u32j.txt"), saved(session, "bqwertyui.txt")),
        (named("here-88 [c7010a]"), named("here-3f [0123ab]")),
        (slug(r#""slug":"greedy-nibbling-wirth","#), slug(r#""slug":"structured-greeting-manatee","#)),
        (slug(r#""slug":"greedy-nibbling-wirth","#), slug("")),
        (slug("") + &slug(r#""slug":"a-red-boat","#), slug(r#""slug":"b-big-fish","#) + &slug("")),
    ];
    for (golden, candidate) in &equal {
        assert_eq!(same(golden, candidate), Some(Level::E3), "{golden} / {candidate}");
    }
    let record = |uuid: &str| format!(r#"{{"parentUuid":"{uuid}","type":"user"}}"#);
    let uuids = ["c48919c8-73c2-4ddd-a6b2-c44eb1ae215d", "d5eea748-e3a5-42c1-a632-b48943aaefa4"];
    assert_eq!(same(&record(uuids[0]), &record(uuids[1])), Some(Level::E3));
    let changed = [
        (record(uuids[0]).replace("Uuid", "Digest"), record(uuids[1]).replace("Uuid", "Digest")),
        (record(uuids[0]) + &record(uuids[0]), record(uuids[1]) + &record(uuids[0])),
        (saved("/work/here", "b6dm4u32j.txt"), saved("/work/here", "bqwertyui.txt")),
        (saved(session, "b6dm4u32j.txt"), saved(session, "b6dm4u32j.json")),
        (saved(session, "baseline-1.txt"), saved(session, "baseline-2.txt")),
        (saved(session, "mcp-search.txt"), saved(session, "mcp-browse.txt")),
        (named("here-88 [c7010a]"), named("there-88 [c7010a]")),
        (named("there-88 [c7010a]"), named("there-3f [0123ab]")),
        (named("here-88 [c7010a]"), named("here-88")),
        (slug(r#""slug":"greedy-nibbling-wirth","#), slug(r#""name":"greedy-nibbling-wirth","#)),
        (slug(r#""slug":"greedy","#), slug("")),
        (slug(r#""slug":"greedy-nibbling-wirth","#), slug("").replace("user", "assistant")),
        (r#"{"slug":"my-first-post"}"#.to_owned(), r#"{"slug":"my-other-post"}"#.to_owned()),
        (
            format!("{} {}", equal[0].0, saved(session, "b00000001.txt")),
            format!("{} {}", equal[0].1, equal[0].1),
        ),
    ];
    for (golden, candidate) in &changed {
        assert!(same(golden, candidate) < Some(Level::E3), "{golden} / {candidate}");
    }
}

#[test]
fn a_checksum_of_the_request_is_masked_and_nothing_beside_it() {
    let with = |line: &str| {
        let mut story = story(Dialect::AnthropicMessages);
        for exchange in &mut story.exchanges {
            exchange.body["system"][0]["text"] = line.into();
        }
        story
    };
    let line = "x-billing: version=2.1.126.513; entry=cli; cch=8d133;";
    let same = |candidate: &str| level(&with(line), &with(candidate));
    assert_eq!(same(&line.replace("8d133", "47fe9")), Some(Level::E3));
    for candidate in [
        line.replace("cch=8d133", "cch=fffffff"),
        line.replace(" cch=8d133;", ""),
        line.replace("entry=cli", "entry=sdk"),
        line.replace(".513", ".514"),
        line.replace("cch=8d133", "ccx=47fe9"),
    ] {
        assert!(same(&candidate) < Some(Level::E3), "{candidate}");
    }
}
