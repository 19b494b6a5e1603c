//! Nothing that a recording holds becomes markup, and everything of a verdict is on its page.

use recording::lanes::LaneKind;
use recording::normalize::{Envelope, SessionCall, SessionLane, SessionResult, SessionText, SessionTurn};
use recording::source::{Answered, Asked, Content, Named, Ordered, Origin, Problem, Summary};
use session::{CallId, RequestId, Role, Usage};
use wire::Header;

use super::*;
use crate::About;
use crate::sample::{HOSTILE, verdict};

/// Every tag of a page by its name, how often; the text between them is no concern.
fn tags(page: &str) -> std::collections::BTreeMap<&str, usize> {
    let mut tags = std::collections::BTreeMap::new();
    for piece in page.split('<').skip(1) {
        let name = piece.split([' ', '>', '\n']).next().unwrap_or_default();
        *tags.entry(name).or_default() += 1;
    }
    tags
}

/// No tag that we do not write, every element closed, no handler, no address to load from, and nothing odd.
fn is_tame(page: &str) {
    let tags = tags(page);
    for (name, count) in tags.iter().filter(|(name, _)| !name.starts_with('/')) {
        let open = ["!doctype", "meta", "br"].contains(name);
        assert!(
            open || tags.get(format!("/{name}").as_str()) == Some(count),
            "{name} is not closed: {tags:?}"
        );
        assert!(!["img", "link", "iframe", "object", "base", "form", "svg", "a"].contains(name), "{name}");
    }
    for piece in page.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap_or_default();
        assert!(!tag.contains(" on") && !tag.contains("src="), "{tag}");
    }
    let odd = page.chars().find(|c| !is_harmless(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(odd, None);
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_verdict_is_one_tame_page() {
    let mut verdict = verdict();
    verdict.golden = HOSTILE.to_owned();
    verdict.summary.push(HOSTILE.to_owned());
    verdict.differences[1].pointer = HOSTILE.to_owned();
    verdict.differences[1].mask = Some(HOSTILE.to_owned());
    verdict.masks[0].name = HOSTILE.to_owned();
    verdict.ids.push((HOSTILE.to_owned(), HOSTILE.to_owned()));
    let page = verdict_page(&verdict);
    is_tame(&page);
    assert!(!tags(&page).contains_key("script"), "a verdict needs none");
    for said in [
        "differs</span>E1 holds, E3 was asked for",
        "tool `Look` has one more parameter",
        "<td>settings</td>",
        "sub-1 ↔ sub-2",
        "main, turn 1",
        "<del>Monday</del><ins>Sunday</ins>",
        "bytes the same",
        "&lt;/script&gt;&lt;script&gt;alert(1)",
        "\\u{1b}[2J\\u{202e}",
        "days and times in prompts",
        "stale",
        "two siblings were compared as a set",
    ] {
        assert!(page.contains(said), "{said} in {page}");
    }
}

#[test]
fn long_values_do_not_make_a_page_without_end() {
    let mut verdict = verdict();
    let long = |c: &str| Some(c.repeat(10_000_000));
    verdict.differences[0].golden = long("a");
    verdict.differences[0].candidate = long("b");
    verdict.differences = std::iter::repeat_n(verdict.differences[1].clone(), 3_000)
        .chain([verdict.differences[0].clone()])
        .collect();
    let page = verdict_page(&verdict);
    assert!(page.len() < 4_000_000, "{}", page.len());
    assert!(page.contains("2,001 more"));
}

fn turn(n: u32, text: &str) -> SessionTurn {
    SessionTurn {
        turn: n,
        seq: n,
        requests: vec![RequestId::nth(n.into())],
        results: vec![SessionResult { call: CallId::new(HOSTILE), text: text.to_owned(), is_error: true }],
        injected: vec![SessionText { role: Role::User, text: text.to_owned() }],
        text: Some(text.to_owned()),
        calls: vec![SessionCall {
            id: CallId::new("c"),
            name: text.to_owned(),
            input: text.into(),
            started: vec![],
        }],
        ..SessionTurn::default()
    }
}

fn lane(id: &str, turns: Vec<SessionTurn>) -> SessionLane {
    SessionLane {
        id: id.to_owned(),
        kind: LaneKind::Main,
        parent: None,
        spawned_by: None,
        agent_type: Some(HOSTILE.to_owned()),
        session: None,
        agent: None,
        model: Some(HOSTILE.to_owned()),
        job: None,
        turns,
        final_text: None,
        usage: Usage::default(),
    }
}

fn asked(n: u64, body: &str) -> Asked {
    Asked {
        id: RequestId::nth(n),
        timestamp: None,
        method: "POST".into(),
        url: HOSTILE.into(),
        headers: vec![Header::Plain { name: HOSTILE.into(), value: HOSTILE.into() }],
        named: Named::default(),
        body: Content { bytes: Some(body.into()), sha256: None, origin: Origin::Raw },
    }
}

fn page(turns: Vec<SessionTurn>, bodies: &[&str]) -> String {
    let summary = |n: usize| Summary {
        id: RequestId::nth(n as u64 + 1),
        method: "POST".into(),
        url: HOSTILE.into(),
        dialect: None,
        model: None,
        status: Some(200),
        ending: None,
        started_us: None,
        took_us: Some(1_500),
        error: None,
    };
    let ordered = Ordered {
        lanes: recording::lanes::Lanes::default(),
        exchanges: (0..bodies.len()).map(summary).collect(),
        problems: vec![Problem { what: HOSTILE.into(), why: HOSTILE.into() }],
    };
    let envelope = Envelope { lanes: vec![lane("main", turns)], ..Envelope::default() };
    let of = PageOf { title: HOSTILE, about: About::default(), ordered: &ordered, envelope: &envelope };
    let mut page = RecordingPage::begin(Vec::new(), &of).expect("a vector takes everything");
    for (n, body) in bodies.iter().enumerate() {
        let answered = Answered {
            timestamp: None,
            status: Some(200),
            headers: vec![],
            ending: None,
            error: Some(HOSTILE.into()),
            first_byte_us: None,
            end_us: None,
            body: Content { bytes: Some(body.as_bytes().into()), sha256: None, origin: Origin::Raw },
        };
        page.exchange(&asked(n as u64 + 1, body), Some(&answered)).expect("a vector takes everything");
    }
    String::from_utf8(page.end().expect("a vector takes everything")).expect("text")
}

#[test]
fn a_recording_is_one_tame_page() {
    let hostile = format!("{{\"a\":\"<!-- {HOSTILE}\"}}");
    let page = page(vec![turn(1, HOSTILE)], &[&hostile]);
    let (markup, rest) = page.split_once("<script").expect("there are bodies");
    is_tame(&format!("{markup}</body></html>"));
    assert!(markup.contains("data-n=\"0\"") && markup.contains("&lt;img src=x"));
    // One block of bodies and one script, ours; nothing in them closes either before its end.
    assert_eq!(
        (rest.matches("</script").count(), rest.matches("<script").count(), rest.matches("<!--").count()),
        (2, 1, 0)
    );
    let block = rest.split_once('>').and_then(|(_, rest)| rest.split_once("</script>")).expect("a block").0;
    let block: serde_json::Value = serde_json::from_str(block).expect("JSON");
    assert_eq!(block["request"]["body"]["text"], hostile, "nothing is lost");
}

#[test]
fn a_line_without_end_is_there_once_and_shown_in_part() {
    let long = "x".repeat(10_000_000);
    let page = page(vec![turn(1, &long)], &[&long]);
    assert!(page.len() > 2 * long.len() && page.len() < 2 * long.len() + 400_000, "{}", page.len());
    assert!(page.contains("9,980,000 more bytes"));
}

#[test]
fn numbers_are_grouped() {
    assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
}
