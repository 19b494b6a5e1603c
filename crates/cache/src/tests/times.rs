//! When a prefix can be read.

use expect_test::expect;

use super::*;

fn body() -> Body {
    Body::new().system(&long("be good ", 2_000), MARK).says(user("hi", ""))
}

#[test]
fn five_minutes_are_counted_from_the_start_of_the_last_who_read() {
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

/// An answer that begins late lets nothing live longer.
#[test]
fn the_term_begins_with_the_request_and_not_with_its_answer() {
    let late = Ask { begun_us: Some(200 * SECOND), ..ask(1, 0, &body()) };
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
fn a_lane_begins_with_the_first_who_asked_in_whatever_order_they_are_told() {
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

/// Until the first answer begins, all who ask the same write it.
#[test]
fn together_all_are_cold_and_the_next_is_warm() {
    let others = |n: u32, second| Ask {
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

/// What failed has written nothing, and is not what the next goes on from.
#[test]
fn an_error_writes_nothing() {
    let failed = Ask { begun_us: None, ..ask(1, 0, &body()) };
    check(
        vec![failed, ask(2, 10, &body()), ask(3, 20, &body())],
        expect![[r#"
            r000001 0+2000+0+1 cold
            r000002 0+2000+0+1 cold
            r000003 2000+0+0+1
        "#]],
    );
}
