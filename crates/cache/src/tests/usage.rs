//! Reported usage, and its plausibility.

use super::*;
use crate::{Confidence, Reason};

/// Builds a block of 300 KB in base64.
fn file(kind: &str, media: &str) -> String {
    let data = "QUFB".repeat(75_000);
    format!(r#"{{"type":"{kind}","source":{{"type":"base64","media_type":"{media}","data":"{data}"}}}}"#)
}

fn screenshot() -> String {
    file("image", "image/png")
}

fn result(id: &str, inside: &str, mark: &str) -> String {
    let result = format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":[{inside}]{mark}}}"#);
    format!(r#"{{"role":"user","content":[{result}]}}"#)
}

/// Builds six turns after 2,000 tokens. A tool returns a picture of 1,500 tokens in the second one, and a line
/// in the others.
fn with_a_screenshot() -> Vec<ObservedRequest> {
    let call = |n: u32| {
        format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"t{n}","name":"Look","input":{{}}}}]}}"#
        )
    };
    let opening = Body::new().system(&long("be good ", 2_000), MARK);
    let mut observed = vec![used(1, 0, &opening.clone().says(user("look", MARK)), [0, 2_003, 0])];
    let mut body = opening.says(user("look", ""));
    let mut kept = 2_003;
    for turn in 2..=6 {
        let inside = if turn == 2 { screenshot() } else { text("a line", "") };
        body = body.says(call(turn));
        let marked = body.clone().says(result(&format!("t{turn}"), &inside, MARK));
        body = body.says(result(&format!("t{turn}"), &inside, ""));
        // The first picture changes the prefix from the messages on.
        let (read, new) = if turn == 2 { (2_000, 1_563) } else { (kept, 40) };
        observed.push(used(turn, u64::from(turn) * 10, &marked, [read, new, 0]));
        kept = read + new;
    }
    observed
}

#[test]
fn a_picture_in_a_result_is_counted_as_a_picture() {
    let explained = explain(with_a_screenshot());
    assert!(
        matches!(explained.requests[1].confidence, Confidence::Within(percent) if percent < 3.0),
        "{explained:?}"
    );
    for request in &explained.requests[2..] {
        assert_eq!(Some(request.predicted), request.reported, "{} {}", request.id, request.confidence);
    }
}

/// Without usage, only the size of pictures is known.
#[test]
fn pictures_and_files_weigh_no_more_than_a_picture() {
    let tokens = |inside: &str, is_result: bool| {
        let said =
            if is_result { result("t", inside, "") } else { user("x", "").replace(&text("x", ""), inside) };
        let explained = explain(vec![ask(1, 0, &Body::new().says(said))]);
        explained.requests[0].predicted.input
    };
    for inside in [screenshot(), file("document", "application/pdf")] {
        for is_result in [false, true] {
            let count = tokens(&inside, is_result);
            assert!((1_600..1_650).contains(&count), "{count} tokens");
        }
    }
    let words = long("word ", 10_000);
    let plain = format!(
        r#"{{"type":"document","source":{{"type":"text","media_type":"text/plain","data":"{words}"}}}}"#
    );
    assert!(tokens(&plain, true) > 10_000, "a document that is text is seen as it is");
}

/// Tokens of pictures are no evidence of a made-up usage.
#[test]
fn pictures_have_no_say_in_whether_usage_is_made_up() {
    let plain = Body::new().system(&long("be good ", 2_000), MARK).says(user("hi", ""));
    let pdf = user("x", "").replace(&text("x", ""), &file("document", "application/pdf"));
    let heavy = plain.clone().says(pdf);
    let explained = explain(vec![
        used(1, 0, &plain, [0, 2_000, 1]),
        used(2, 10, &plain, [2_000, 0, 1]),
        // Beyond any plausible count for these bytes.
        used(3, 20, &heavy, [2_000, 0, 900_000]),
        used(4, 30, &plain, [2_000, 0, 1]),
    ]);
    assert_eq!(explained.requests[1].confidence, Confidence::Exact);
    assert_eq!(explained.requests[2].confidence, Confidence::Contradicted);
    assert_eq!(explained.requests[3].confidence, Confidence::Exact);
}

/// By the bytes, 5,003 tokens can be read, but the provider wrote them again.
#[test]
fn misses_that_only_the_usage_shows_are_counted_and_priced() {
    let first = Body::new().system(&long("be good ", 5_000), MARK).says(user("go on", MARK));
    let next = Body::new().system(&long("be good ", 5_000), MARK);
    let next = next.says(user("go on", "")).says(assistant("yes")).says(user("and on", MARK));
    let explained = explain(vec![used(1, 0, &first, [0, 5_003, 0]), used(2, 10, &next, [0, 5_013, 0])]);
    let request = &explained.requests[1];
    assert_eq!(request.predicted.cache_read, 5_003);
    assert_eq!((request.reason, request.confidence), (Some(Reason::Unavailable), Confidence::Contradicted));
    let miss = request.miss.as_ref().expect("a miss");
    assert_eq!((miss.tokens, explained.total.missed), (5_003, 5_003));
    assert_eq!((miss.block, miss.pointer.as_str()), (2, "/messages/0/content/0"));
    // Opus 5: a read is $0.5 a million and a write is $6.25.
    let usd = miss.usd.expect("a price");
    assert!((usd - 5_003.0 * 5.75 / 1e6).abs() < 1e-9, "{usd}");
    let (reported, perfect) = (explained.total.reported_usd.expect("known"), explained.total.perfect_usd);
    assert!((reported - perfect.expect("known") - usd).abs() < 1e-9);
}

/// Another order of keys changes the bytes of the prefix. If the provider read it anyway, there was no miss.
#[test]
fn a_miss_that_the_usage_disproves_is_none() {
    let first = Body::new().tool("Read", "").system(&long("be good ", 5_000), MARK).says(user("go on", ""));
    let mut turned = first.clone();
    let schema = r#","input_schema":{}"#;
    turned.tools[0] = turned.tools[0].replace(schema, "").replacen('{', r#"{"input_schema":{},"#, 1);
    let after = |used: [u64; 3]| {
        let observed = vec![
            super::used(1, 0, &first, [0, 5_500, 3]),
            super::used(2, 10, &turned, used),
            super::used(3, 20, &first, [5_500, 0, 3]),
            super::used(4, 30, &turned, [5_500, 0, 3]),
        ];
        explain(observed)
    };
    for read in [5_500, 5_480] {
        let explained = after([read, 5_500 - read, 3]);
        let request = &explained.requests[1];
        assert_eq!(
            (request.reason, &request.miss, request.confidence),
            (None, &None, Confidence::Contradicted)
        );
        assert_eq!((explained.total.missed, crate::lint(&CacheReport::default(), &explained)), (0, vec![]));
    }
    let request = &after([1_000, 4_500, 3]).requests[1];
    assert_eq!(request.reason, Some(Reason::ToolsChanged), "not all of it was read");
    assert_eq!(request.miss.as_ref().map(|miss| miss.tokens), Some(5_500));
}

/// A marker after bytes that change every turn is never read, unless the usage shows a read.
#[test]
fn a_marker_that_the_usage_reads_is_not_dead() {
    let spaced = |n: u32| {
        let mut body =
            Body::new().tool("Read", "").system(&long("be good ", 5_000), MARK).says(user("go", ""));
        body.tools[0] = body.tools[0].replacen(':', &format!(":{}", " ".repeat(n as usize)), 1);
        body
    };
    let read = |n: u32| if n == 1 { [0, 5_500, 3] } else { [5_500, 0, 3] };
    let explained = explain((1..=4).map(|n| used(n, u64::from(n) * 10, &spaced(n), read(n))).collect());
    assert_eq!(crate::lint(&CacheReport::default(), &explained), []);
    let unused = explain((1..=4).map(|n| ask(n, u64::from(n) * 10, &spaced(n))).collect());
    assert_eq!(crate::lint(&CacheReport::default(), &unused).len(), 2, "a break, and a marker for nothing");
}

/// A short miss counts if the usage shows it.
#[test]
fn a_short_miss_is_not_disproved_by_a_usage_that_has_it() {
    let opening = || Body::new().system(&long("be good ", 5_000), MARK);
    let (one, other) = (opening().says(user("go on", MARK)), opening().says(user("go off", MARK)));
    let explained = explain(vec![used(1, 0, &one, [0, 5_003, 0]), used(2, 10, &other, [5_000, 3, 0])]);
    let request = &explained.requests[1];
    assert_eq!((request.reason, explained.total.missed), (Some(Reason::MessagesChanged), 2));
}

/// A deferred tool that the provider put into the prefix is the reason of the break.
#[test]
fn a_miss_is_priced_by_the_reported_usage() {
    let body = Body::new().tool("Read", "").system(&long("be good ", 2_000), MARK).says(user("hi", ""));
    let mut other = body.clone();
    other.tools.push(r#"{"name":"Stop","input_schema":{},"defer_loading":true}"#.to_owned());
    let explained = explain(vec![used(1, 0, &body, [0, 2_500, 1]), used(2, 10, &other, [0, 2_510, 1])]);
    let request = &explained.requests[1];
    let miss = request.miss.as_ref().expect("a miss");
    assert_eq!((request.reason, miss.pointer.as_str()), (Some(Reason::ToolsChanged), "/tools/1"));
    assert_eq!((miss.tokens, &miss.at_stake), (2_500, &None));
}

/// Ten tokens of two thousand are within the counting error.
#[test]
fn a_matter_of_counting_is_no_miss() {
    let body = Body::new().system(&long("be good ", 2_000), MARK).says(user("hi", ""));
    let explained = explain(vec![used(1, 0, &body, [0, 2_000, 1]), used(2, 10, &body, [1_990, 10, 1])]);
    assert_eq!((explained.requests[1].reason, explained.total.missed), (None, 0));
}

/// A usage that predicts itself is no prediction. A read or miss that another request's usage predicts is one.
#[test]
fn only_predicted_reads_are_exact() {
    let body = |word: &str| Body::new().system(&long(word, 2_000), MARK).says(user("hi", ""));
    let explained = explain(vec![
        used(1, 0, &body("be good "), [0, 1_900, 4]),
        used(2, 10, &body("be good "), [1_900, 0, 4]),
        used(3, 20, &body("be bad "), [0, 1_800, 4]),
    ]);
    let confidence: Vec<Confidence> = explained.requests.iter().map(|request| request.confidence).collect();
    assert_eq!(confidence, [Confidence::Calibrated, Confidence::Exact, Confidence::Exact]);
}
