//! Times at which a prefix can be read.

use expect_test::expect;

use super::*;
use crate::{Confidence, Reason};

fn body() -> Body {
    Body::new().system(&long("be good ", 2_000), MARK).says(user("hi", ""))
}

#[test]
fn five_minutes_count_from_the_last_read() {
    check(
        vec![ask(1, 0, &body()), ask(2, 299, &body()), ask(3, 598, &body()), ask(4, 898, &body())],
        expect![[r#"
            r000001 0+2000+0+1 cold
            r000002 2000+0+0+1
            r000003 2000+0+0+1
            r000004 0+2000+0+1 expired block 1 /system/0 missed 2000
        "#]],
    );
}

/// A late response does not extend the lifetime.
#[test]
fn the_term_begins_with_the_request_and_not_with_its_answer() {
    let late = ObservedRequest { begun_us: Some(200 * SECOND), ..ask(1, 0, &body()) };
    check(
        vec![ask(3, 300, &body()), late.clone()],
        expect![[r#"
            r000001 0+2000+0+1 cold
            r000003 0+2000+0+1 expired block 1 /system/0 missed 2000
        "#]],
    );
    check(
        vec![ask(2, 299, &body()), late],
        expect![[r#"
            r000001 0+2000+0+1 cold
            r000002 2000+0+0+1
        "#]],
    );
}

#[test]
fn the_earliest_request_begins_a_lane() {
    let explained = explain(vec![ask(2, 10, &body()), ask(1, 0, &body())]);
    assert_eq!(explained.openings[0].id.as_str(), "r000001");
}

#[test]
fn an_hour_lasts_an_hour() {
    let body = Body::new().system(&long("be good ", 2_000), MARK_1H).says(user("hi", ""));
    check(
        vec![ask(1, 0, &body), ask(2, 3_599, &body), ask(3, 7_200, &body)],
        expect![[r#"
            r000001 0+0+2000+1 cold
            r000002 2000+0+0+1
            r000003 0+0+2000+1 expired block 1 /system/0 missed 2000
        "#]],
    );
}

/// An entry that is written again after expiry gets the new lifetime.
#[test]
fn an_hour_that_is_over_is_no_term_any_more() {
    let hour = Body::new().system(&long("be good ", 2_000), MARK_1H).says(user("hi", ""));
    check(
        vec![ask(1, 0, &hour), ask(2, 4_000, &body()), ask(3, 4_100, &body()), ask(4, 4_600, &body())],
        expect![[r#"
            r000001 0+0+2000+1 cold
            r000002 0+2000+0+1 expired block 1 /system/0 missed 2000
            r000003 2000+0+0+1
            r000004 0+2000+0+1 expired block 1 /system/0 missed 2000
        "#]],
    );
}

/// Until the first response begins, all equal requests write.
#[test]
fn together_all_are_cold_and_the_next_is_warm() {
    let others = |n: u32, second| ObservedRequest {
        lane: format!("fork-{n}"),
        fork_of: Some("main".to_owned()),
        ..ask(n, second, &body())
    };
    check(
        vec![ask(1, 0, &body()), others(2, 0), others(3, 0), others(4, 1)],
        expect![[r#"
            r000001 0+2000+0+1 cold
            r000002 0+2000+0+1 not_yet_readable block 1 /system/0 missed 2000
            r000003 0+2000+0+1 not_yet_readable block 1 /system/0 missed 2000
            r000004 2000+0+0+1
        "#]],
    );
}

/// A failed request writes nothing, and the next one does not continue it.
#[test]
fn an_error_writes_nothing() {
    let failed = ObservedRequest { begun_us: None, ..ask(1, 0, &body()) };
    check(
        vec![failed, ask(2, 10, &body()), ask(3, 20, &body())],
        expect![[r#"
            r000001 0+0+0+0 unanswered
            r000002 0+2000+0+1 cold
            r000003 2000+0+0+1
        "#]],
    );
}

/// An unanswered request costs nothing, extends nothing, and does not begin a lane.
#[test]
fn an_error_is_not_counted() {
    let failed = |n, second| ObservedRequest { begun_us: None, ..ask(n, second, &body()) };
    let explained = explain(vec![failed(1, 0), ask(2, 10, &body()), failed(3, 200), ask(4, 320, &body())]);
    assert_eq!(explained.requests[3].reason, Some(crate::Reason::Expired), "{}", render(&explained));
    let total = &explained.total;
    assert_eq!(
        (total.requests, total.predicted.input_total(), total.perfect.input_total()),
        (2, 4_002, 4_002)
    );
    assert_eq!(explained.openings[0].id.as_str(), "r000002");
    let explained = explain(vec![failed(1, 0)]);
    assert_eq!((explained.total.requests, explained.total.perfect_usd), (0, Some(0.0)));
    let findings = crate::lint(&explained, &explained);
    let rules: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [crate::LintRule::Unseen], "nobody knows how long it would have been");
}

/// Two main lanes with equal prompts: the second may come too early or too late to read.
#[test]
fn only_a_request_that_finds_nothing_of_others_is_cold() {
    let root = |n: u32, second| ObservedRequest { lane: format!("root-{n}"), ..ask(n, second, &body()) };
    let early = ObservedRequest { at_us: SECOND / 10, ..root(2, 0) };
    check(
        vec![root(1, 0), early, root(3, 10), root(4, 900)],
        expect![[r#"
            r000001 0+2000+0+1 cold
            r000002 0+2000+0+1 not_yet_readable block 1 /system/0 missed 2000
            r000003 2000+0+0+1
            r000004 0+2000+0+1 expired block 1 /system/0 missed 2000
        "#]],
    );
    let other = Body::new().system(&long("be bad ", 2_000), MARK).says(user("hi", ""));
    let stranger = ObservedRequest { lane: "other".to_owned(), ..ask(2, 10, &other) };
    check(
        vec![root(1, 0), stranger],
        expect![[r#"
            r000001 0+2000+0+1 cold
            r000002 0+2000+0+1 cold
        "#]],
    );
}

/// Two nearly simultaneous requests: only the usage shows their order at the provider.
#[test]
fn the_usage_orders_two_simultaneous_requests() {
    let used =
        |cache_read, cache_write_5m| Some(Usage { input: 1, cache_read, cache_write_5m, ..Usage::default() });
    let root = |n: u32, at_us, begun_us, reported| ObservedRequest {
        lane: format!("root-{n}"),
        at_us,
        begun_us: Some(begun_us),
        reported,
        ..ask(n, 0, &body())
    };
    let near = explain(vec![root(1, 0, 30_000, used(2000, 0)), root(2, 2_000, 10_000, used(0, 2000))]);
    let told: Vec<_> =
        near.requests.iter().map(|it| (it.predicted.cache_read, it.reason, it.confidence)).collect();
    assert_eq!(told, [(2000, None, Confidence::Exact), (0, Some(Reason::Cold), Confidence::Calibrated)]);
    // A distance beyond the measuring error stays a contradiction.
    let far = explain(vec![root(1, 0, 400_000, used(2000, 0)), root(2, 2_000, 300_000, used(0, 2000))]);
    assert_eq!(far.requests[0].confidence, Confidence::Contradicted);
}

/// The requests of one lane keep their order, however close others are.
#[test]
fn requests_of_one_lane_keep_their_order() {
    let used =
        |cache_read, cache_write_5m| Some(Usage { input: 1, cache_read, cache_write_5m, ..Usage::default() });
    let root = |lane: &str, n: u32, at_us, begun_us, body: &Body, reported| ObservedRequest {
        lane: lane.to_owned(),
        at_us,
        begun_us: Some(begun_us),
        reported,
        ..ask(n, 0, body)
    };
    let first = || Body::new().system(&long("be good ", 2_000), MARK).says(user(&long("look ", 100), MARK));
    let next = first().says(assistant("yes?")).says(user(&long("more ", 100), MARK));
    let observed = vec![
        root("a", 1, 0, 5_000, &first(), used(2000, 100)),
        root("b", 2, 2_000, 10_000, &body(), used(0, 2000)),
        root("a", 3, 16_000, 20_000, &next, None),
        root("c", 4, 18_000, 40_000, &body(), used(2000, 0)),
    ];
    let told: Vec<_> = explain(observed).requests.iter().map(|it| (it.id.to_string(), it.reason)).collect();
    let expected = [("r000001", None), ("r000002", Some(Reason::Cold)), ("r000003", None), ("r000004", None)];
    assert_eq!(told, expected.map(|(id, reason)| (id.to_owned(), reason)));
}
