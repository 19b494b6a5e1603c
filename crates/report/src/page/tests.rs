//! Recorded content never becomes markup, and all of it is on the page.

use recording::lanes::{CallNote, CarriedResult, JobNotice, Lane, LaneKind, Lanes, Turn};
use recording::source::{Content, ExchangeSummary, Origin, Problem, SenderIds};
use session::{RequestId, Usage};
use wire::Header;

use super::*;
use crate::sample::{HOSTILE, verdict};

fn turn(lane: &str, n: u32, seq: u32, calls: &[&str], results: &[&str]) -> Turn {
    let id = |call: &&str| CallId::new(*call);
    Turn {
        turn: n,
        seq,
        attempts: vec![RequestId::new(format!("{lane}-{n}"))],
        calls: calls
            .iter()
            .map(|call| CallNote { id: id(call), name: HOSTILE.to_owned(), input: "{}".to_owned() })
            .collect(),
        results: results
            .iter()
            .map(|call| CarriedResult { call: id(call), text: String::new(), is_error: true })
            .collect(),
        text: Some("said ".repeat(100)),
        usage: Usage { input: 1_000_000, cache_read: 5, ..Usage::default() },
        whole: true,
        ..Turn::default()
    }
}

fn lane(id: &str, kind: LaneKind, by: Option<(&str, &str)>, turns: Vec<Turn>) -> Lane {
    Lane {
        id: id.to_owned(),
        kind,
        parent: by.map(|(parent, _)| parent.to_owned()),
        spawned_by: by.map(|(_, call)| CallId::new(call)),
        agent_type: Some(HOSTILE.to_owned()),
        session: None,
        agent: None,
        turns,
    }
}

fn summary(id: &str, started: u64, took: u64) -> ExchangeSummary {
    ExchangeSummary {
        id: RequestId::new(id),
        method: "POST".into(),
        url: HOSTILE.into(),
        dialect: Some(Dialect::AnthropicMessages),
        model: Some("claude-haiku-4-5".into()),
        status: Some(200),
        ending: None,
        started_us: Some(started),
        took_us: Some(took),
        error: None,
    }
}

/// Main starts a sub-agent in its first turn and is woken by it in its third. A side call comes first.
fn ordered() -> OrderedExchanges {
    let main = vec![
        turn("main", 1, 1, &["spawn"], &[]),
        turn("main", 2, 3, &[], &["spawn"]),
        turn("main", 3, 4, &[], &[]),
    ];
    OrderedExchanges {
        lanes: Lanes {
            lanes: vec![
                lane("side-1", LaneKind::Side, None, vec![]),
                lane("main", LaneKind::Main, None, main),
                lane("sub-1", LaneKind::Sub, Some(("main", "spawn")), vec![turn("sub-1", 1, 2, &[], &[])]),
            ],
        },
        exchanges: vec![
            summary("main-1", 0, 100),
            summary("sub-1-1", 150, 300),
            summary("main-2", 160, 50),
            summary("main-3", 500, 10),
            summary("lost", 900, 1),
        ],
        problems: vec![Problem { what: HOSTILE.into(), why: HOSTILE.into() }],
    }
}

fn jobs() -> Vec<LaneJob> {
    vec![LaneJob {
        lane: "sub-1".into(),
        parent: "main".into(),
        call: CallId::new("spawn"),
        launched: 1,
        acknowledged: Some(2),
        background: true,
        touches: vec![],
        notices: vec![JobNotice { turn: 3, wakes: true }],
        delivered: Some(3),
    }]
}

fn page(ordered: &OrderedExchanges, verdict: Option<&Verdict>, bodies: &[(&str, String)]) -> String {
    let of = PageContent {
        kind: PageKind::Recording,
        title: HOSTILE,
        badge: (BadgeTone::Good, "sealed"),
        facts: vec![(HOSTILE.to_owned(), HOSTILE.to_owned())],
        began: None,
        ordered,
        jobs: &jobs(),
        measured: &Measurements {
            first_bytes: HashMap::from([(1, 200)]),
            sizes: HashMap::from([(1, BodySizes { sent: 7, received: 9 })]),
            ..Measurements::default()
        },
        cache: None,
        verdict,
        golden: None,
    };
    let mut page = Page::begin(Vec::new(), &of).expect("a vector takes everything");
    for (id, body) in bodies {
        let content = |bytes: &str| Content { bytes: Some(bytes.into()), sha256: None, origin: Origin::Raw };
        let asked = SourceRequest {
            id: RequestId::new(*id),
            timestamp: None,
            method: "POST".into(),
            url: HOSTILE.into(),
            headers: vec![Header::Plain { name: HOSTILE.into(), value: HOSTILE.into() }],
            sender: SenderIds::default(),
            body: content(body),
        };
        let answered = SourceResponse {
            timestamp: None,
            status: Some(200),
            headers: vec![],
            ending: None,
            error: Some(HOSTILE.into()),
            first_byte_us: None,
            end_us: None,
            body: content(HOSTILE),
        };
        let dialect = Some(Dialect::AnthropicMessages);
        let crossed = PageExchange { dialect, asked: &asked, answered: Some(&answered) };
        page.exchange(crossed, None).expect("a vector takes everything");
    }
    String::from_utf8(page.end().expect("a vector takes everything")).expect("text")
}

/// Returns a block by name.
fn block(page: &str, name: &str) -> Value {
    let (_, rest) = page.split_once(&format!("id=\"{name}\">")).unwrap_or_else(|| panic!("no block {name}"));
    let (block, _) = rest.split_once("</script>").expect("a block ends");
    serde_json::from_str(block).expect("JSON")
}

fn request(system: &str, said: &str) -> String {
    json!({
        "model": "m", "system": system, "tools": [{"name": "look", "input_schema": {}}],
        "messages": [
            {"role": "user", "content": "before"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": said, "is_error": true},
                {"type": "text", "text": "and now"},
            ]},
        ],
    })
    .to_string()
}

#[test]
fn hostile_text_stands_in_blocks_of_json_and_nowhere_else() {
    let verdict = verdict();
    let ordered = ordered();
    let page = page(&ordered, Some(&verdict), &[("main-1", request(HOSTILE, HOSTILE))]);
    let scripts = page.matches("<script").count();
    // The index, our script, the exchange, its system prompt and its tools; no block ends early.
    assert_eq!((scripts, page.matches("</script").count(), page.matches("<!--").count()), (5, 5, 0));
    assert!(page.contains("default-src 'none'") && !page.contains("unsafe"), "a strict policy");
    assert!(page.contains("<title>&lt;/pre&gt;"), "the title is text");
    let odd = page.chars().find(|c| !crate::text::is_harmless(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(odd, None, "nothing turns the direction of writing, not even in a block");
    assert_eq!(block(&page, "index")["facts"][0][1], HOSTILE, "nothing is lost");
    assert_eq!(block(&page, "x0")["response"]["body"]["text"], HOSTILE);
    assert_eq!(block(&page, "s0")[0]["text"], HOSTILE);
}

#[test]
fn a_child_stands_behind_its_parent_and_side_calls_last() {
    let index = block(&page(&ordered(), None, &[]), "index");
    let lanes: Vec<String> = index["lanes"]
        .as_array()
        .expect("lanes")
        .iter()
        .map(|it| format!("{} {} {} {}", it["id"], it["parent"], it["depth"], it["background"]))
        .collect();
    assert_eq!(lanes, [r#""main" null 0 false"#, r#""sub-1" 0 1 true"#, r#""side-1" null 0 false"#]);
    assert_eq!(index["lanes"][1]["spawned"], json!({"turn": 0, "call": "spawn"}));
    // Three turns of a million tokens, at one dollar each.
    let usd = index["lanes"][0]["usd"].as_f64().expect("a price");
    assert!((3.0..3.001).contains(&usd), "{usd}");
    let places: Vec<(u64, u64)> = index["turns"]
        .as_array()
        .expect("turns")
        .iter()
        .map(|it| (it["lane"].as_u64().expect("a lane"), it["turn"].as_u64().expect("a turn")))
        .collect();
    assert_eq!(places, [(0, 1), (1, 1), (0, 2), (0, 3)], "in the order of the whole");
    assert_eq!(index["exchanges"][4]["lane"], Value::Null, "what belongs to nobody is shown all the same");
    assert_eq!(index["exchanges"][1]["first"], 200);
    assert_eq!((&index["exchanges"][1]["sent"], &index["exchanges"][1]["received"]), (&json!(7), &json!(9)));
}

#[test]
fn what_led_to_what_is_told_with_its_times() {
    let index = block(&page(&ordered(), None, &[]), "index");
    let spawn = json!({"kind": "spawn", "from": {"lane": 0, "at": 100}, "to": {"lane": 1, "at": 150}});
    let wake = json!({"kind": "wake", "from": {"lane": 1, "at": 450}, "to": {"lane": 0, "at": 500}});
    assert_eq!(index["arrows"], json!([spawn, wake]));
    let tool = &index["tools"][0];
    let told = (&tool["at"], &tool["end"], &tool["exact"], &tool["error"]);
    assert_eq!(told, (&json!(100), &json!(160), &json!(false), &json!(true)));
    assert_eq!(index["tools"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_turn_says_what_went_in_and_shares_what_many_have_in_common() {
    let bodies =
        [("main-1", request("be calm", "nothing")), ("main-2", request("be calm", "nothing at all"))];
    let page = page(&ordered(), None, &bodies);
    let turn = &block(&page, "x0")["turn"];
    assert_eq!((&turn["system"], &turn["tools"]), (&json!("s0"), &json!("t0")));
    assert_eq!(
        turn["results"],
        json!([
            {"call": "t1", "name": "look", "text": "nothing", "cut": 0, "error": true}
        ])
    );
    assert_eq!(turn["injected"], json!([{"role": "user", "text": "and now", "cut": 0}]));
    assert_eq!(
        block(&page, "t0"),
        json!([
            {"name": "look", "text": "{\"name\":\"look\",\"input_schema\":{}}", "cut": 0}
        ])
    );
    let second = block(&page, "x2");
    assert_eq!((&second["turn"]["system"], &second["turn"]["tools"]), (&json!("s0"), &json!("t0")));
    let body = &second["request"]["body"];
    assert_eq!((&body["base"], &body["text"]), (&json!("x0"), &json!(" at all")));
    assert!(!page.contains("id=\"s1\""), "what is the same is there once");
}

#[test]
fn a_line_without_end_is_there_once_and_told_in_part() {
    let long = "x".repeat(10_000_000);
    let page = page(&ordered(), None, &[("main-1", request("s", &long))]);
    assert!(page.len() > long.len() && page.len() < long.len() + 400_000, "{}", page.len());
    assert_eq!(block(&page, "x0")["turn"]["results"][0]["cut"], 9_980_000);
}

#[test]
fn a_verdict_takes_no_more_room_than_a_page_has() {
    let mut verdict = verdict();
    verdict.differences[0].golden = Some("a".repeat(10_000_000));
    verdict.differences = [verdict.differences[0].clone()]
        .into_iter()
        .chain(std::iter::repeat_n(verdict.differences[2].clone(), 3_000))
        .collect();
    let told = &block(&page(&ordered(), Some(&verdict), &[]), "index")["verdict"];
    assert_eq!((&told["differences_left_out"], &told["id_pairs"]), (&json!(1_001), &json!(1)));
    assert_eq!(told["ids"], Value::Null);
    let golden = told["differences"][0]["golden"].as_str().expect("a value");
    assert!(golden.ends_with(" … 9960000 more bytes") && golden.len() < 41_000, "{}", golden.len());
}

#[test]
fn what_a_fork_is_told_of_its_parents_calls_is_no_error_of_its() {
    let turns = vec![turn("f", 1, 2, &["own"], &["parents"]), turn("f", 2, 3, &[], &["own"])];
    let fork = lane("f", LaneKind::Fork, Some(("main", "parents")), turns);
    let errors = |lane: &Lane| -> Vec<usize> {
        lane.turns.iter().map(|turn| crate::tree::failed_results(lane, turn)).collect()
    };
    assert_eq!(errors(&fork), [0, 1]);
    // A continued conversation contains results of its own earlier calls.
    assert_eq!(errors(&Lane { kind: LaneKind::Main, ..fork }), [1, 1]);
}
