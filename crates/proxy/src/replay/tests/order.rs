//! Tests of the recorded order and of seeded orders.

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::{Expect, expect};

use super::*;
use crate::replay::Order;
use crate::replay::plan::{OrderPlan, Step};
use crate::replay::traffic::ExchangeIndex;

fn check(story: &str, expected: Expect) {
    let story = Story::new(story);
    expected.assert_eq(&in_words(&story.traffic(), Order::Recorded));
}

fn in_words(traffic: &RecordedTraffic, order: Order) -> String {
    let name = |exchange: ExchangeIndex| format!("{} {}", traffic[exchange].lane, traffic[exchange].turn);
    let mut text = String::new();
    for step in OrderPlan::new(traffic, order).steps {
        match step {
            Step::AwaitRequest(exchange, _) => writeln!(text, "> {}", name(exchange)),
            Step::Send(exchange, _) => writeln!(text, "< {}", name(exchange)),
            Step::Allow(exchange, _) => writeln!(text, "< {} and", name(exchange)),
            Step::AwaitIdle(_) => writeln!(text, "  until idle"),
            Step::Pause(time) => writeln!(text, "  {time:?}"),
            Step::PauseSince(exchange, _) => writeln!(text, "  since {}", name(exchange)),
        }
        .expect("a string accepts all text");
    }
    text
}

#[test]
fn one_end_is_noticed_before_the_next_comes() {
    check(
        "
        main > look around
        main < call t1 Task scan the root folder; call t2 Task scan the source folder
        a > scan the root folder
        b > scan the source folder
        b < text the source is fine
        a < text the root is fine
        main > result t2 the source is fine; result t1 the root is fine
        main < text all is fine
        ",
        expect![[r#"
            > main 1
            < main 1
            > sub-1 1
            > sub-2 1
            < sub-2 1
              until idle
            < sub-1 1
            > main 2
            < main 2
        "#]],
    );
}

/// A parent that waits for only one agent continues when that one has ended, so the others must end before.
#[test]
fn an_awaited_end_follows_the_ends_reported_with_it() {
    check(
        "
        main > look around
        main < call t1 Task scan the root folder in the background; call t2 Task scan the source folder
        a > scan the root folder in the background
        b > scan the source folder
        b < text the source is fine
        + a < text the root is fine
        main > result t1 launched job job_root_1a2b3c; result t2 the source is fine; text job job_root_1a2b3c ended: the root is fine
        main < text all is fine
        ",
        expect![[r#"
            > main 1
            < main 1
            > sub-1 1
            > sub-2 1
            < sub-1 1
              300ms
            < sub-2 1
            > main 2
            < main 2
        "#]],
    );
}

/// Each end would wake the parent, which waits only a moment for others.
#[test]
fn ends_that_wake_the_parent_together_come_at_once() {
    check(
        "
        main > look around
        main < call t1 Task scan the root folder; call t2 Task scan the source folder; call t3 Task scan the rest
        main > result t1 launched job_root_1a; result t2 launched job_source_2b; result t3 launched job_rest_3c
        a > scan the root folder
        b > scan the source folder
        c > scan the rest
        main < text I wait
        b < text the source is fine
        + c < call t4 Read something
        + a < text the root is fine
        + c > result t4 read
        main > text job_root_1a ended: the root is fine; text job_source_2b ended: the source is fine
        c < text the rest is fine
        main < text I wait
        main > text job_rest_3c ended: the rest is fine
        main < text all is fine
        ",
        expect![[r#"
            > main 1
            < main 1
            > main 2
            > sub-1 1
            > sub-2 1
            > sub-3 1
            < main 2
            < sub-3 1
            < sub-2 1 and
            < sub-1 1
            > sub-3 2
            > main 3
            < sub-3 2
              1s
              since sub-3 2
            < main 3
            > main 4
            < main 4
        "#]],
    );
}

/// At the end of its own reply, a parent that knows of one end continues at once.
#[test]
fn a_reply_ends_after_all_ends_that_the_next_request_reports() {
    check(
        "
        main > look around
        main < call t1 Task scan the root folder; call t2 Task scan the source folder
        main > result t1 launched job_root_1a; result t2 launched job_source_2b
        a > scan the root folder
        b > scan the source folder
        b < text the source is fine
        + main < text I wait
        + a < text the root is fine
        main > text job_root_1a ended: the root is fine; text job_source_2b ended: the source is fine
        main < text all is fine
        ",
        expect![[r#"
            > main 1
            < main 1
            > main 2
            > sub-1 1
            > sub-2 1
            < sub-2 1
              20ms
            < sub-1 1
              300ms
            < main 2
            > main 3
            < main 3
        "#]],
    );
}

#[test]
fn an_end_that_a_text_announces_waits_for_the_request_before_it() {
    check(
        "
        main > look around
        main < call t1 Task scan the root folder
        main > result t1 started as job_0011aa
        a > scan the root folder
        main < call t2 Read something
        a < text the root is fine
        main > result t2 read
        main < text waiting
        main > job_0011aa has ended: the root is fine
        main < text done
        ",
        expect![[r#"
            > main 1
            < main 1
            > main 2
            > sub-1 1
            < main 2
            > main 3
            < sub-1 1
              2s
              since sub-1 1
            < main 3
            > main 4
            < main 4
        "#]],
    );
}

#[test]
fn a_parent_that_is_about_to_poll_an_agent_first_notices_its_end() {
    check(
        "
        main > look around
        main < call t1 Task scan the root folder
        main > result t1 started as job_0011aa
        a > scan the root folder
        a < text the root is fine
        main < call t2 Poll job_0011aa
        main > result t2 job_0011aa: the root is fine
        main < text done
        ",
        expect![[r#"
            > main 1
            < main 1
            > main 2
            > sub-1 1
            < sub-1 1
              1s
            < main 2
            > main 3
            < main 3
        "#]],
    );
}

#[test]
fn another_order_is_legal_and_the_same_for_the_same_seed() {
    let story = Story::new(
        "
        main > go
        main < call t1 Task count the files; call t2 Task count the lines; call t3 Task count the words
        a > count the files
        b > count the lines
        c > count the words
        a < text three
        b < text four
        c < text five
        main > result t1 three; result t2 four; result t3 five
        main < text done
    ",
    );
    let traffic = story.traffic();
    let orders: Vec<String> = (0..20).map(|seed| in_words(&traffic, Order::Seed(seed))).collect();
    assert_eq!(orders[7], in_words(&traffic, Order::Seed(7)));
    assert!(orders.iter().any(|order| *order != orders[0]), "some are different");
    for order in &orders {
        let at =
            |line: &str| order.lines().position(|found| found == line).unwrap_or_else(|| panic!("{order}"));
        for sub in ["sub-1 1", "sub-2 1", "sub-3 1"] {
            assert!(at("< main 1") < at(&format!("> {sub}")), "{order}");
            assert!(at(&format!("< {sub}")) < at("> main 2"), "{order}");
        }
    }
}

/// A cancelled agent asks nothing more, and two ends at once are announced together.
#[test]
fn another_order_loses_no_request() {
    let story = Story::new(
        "
        main > go
        main < call t1 Task count the files; call t2 Task count the lines; call t3 Task count the words
        main > result t1 started as job_0011aa; result t2 started as job_0022bb; result t3 started as job_0033cc
        a > count the files
        a < call a1 Read one
        b > count the lines
        c > count the words
        a > result a1 x
        main < call t4 Cancel job_0011aa
        main > result t4 cancelled
        main < text I wait
        b < text four
        main > job_0022bb has ended: four
        main < text I wait on
        c < text five
        main > job_0033cc has ended: five
        main < text done
        a < text never
    ",
    );
    let traffic = story.traffic();
    for seed in 0..40 {
        let order = in_words(&traffic, Order::Seed(seed));
        let at = |line: &str| {
            order.lines().position(|found| found.trim() == line).unwrap_or_else(|| panic!("{line}: {order}"))
        };
        let end_of = |turn: &str| {
            order
                .lines()
                .collect::<Vec<_>>()
                .iter()
                .rposition(|found| found.trim().starts_with(&format!("< {turn}")))
                .expect("it is sent")
        };
        assert!(at("> sub-1 2") < end_of("main 2"), "{order}");
        assert!(at("> main 3") < end_of("sub-2 1"), "{order}");
        assert!(at("> main 4") < end_of("sub-3 1"), "{order}");
    }
}

#[tokio::test]
async fn replies_keep_the_recorded_order() {
    let story = Story::new(
        "
        main > go
        main < call t1 Task count the files; call t2 Task count the lines
        a > count the files
        b > count the lines
        b < text four
        a < text three
        main > result t2 four; result t1 three
        main < text done
    ",
    );
    let settings =
        ReplaySettings { order: Order::Recorded, settle: Some(Duration::ZERO), ..ReplaySettings::default() };
    let mut live = story.play(&settings).await;
    live.ask("main", "go").await;
    let addr = live.server.addr();
    let ended = Arc::new(std::sync::Mutex::new(Vec::new()));
    let ask = |said: &'static str| {
        let ended = ended.clone();
        async move {
            let mut messages = Vec::new();
            said_by_user(&mut messages, said);
            let body = request("sub", &messages);
            let mut tcp = TcpStream::connect(addr).await.expect("it listens");
            let head = format!(
                "POST /v1/messages HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            tcp.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).await.expect("it reads");
            let mut bytes = Vec::new();
            tcp.read_to_end(&mut bytes).await.expect("it answers");
            ended.lock().expect("lock is not poisoned").push(said);
        }
    };
    tokio::join!(ask("count the files"), ask("count the lines"));
    assert_eq!(*ended.lock().expect("lock is not poisoned"), ["count the lines", "count the files"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_comes_is_skipped_and_reported() {
    let story = Story::new(
        "
        main > go
        main < call t1 Task count the files; call t2 Task count the lines
        a > count the files
        b > count the lines
        a < text three
        b < text four
        main > result t1 three; result t2 four
        main < text done
    ",
    );
    let mut live = story.play(&ReplaySettings { order: Order::Recorded, ..ReplaySettings::default() }).await;
    live.ask("main", "go").await;
    assert_eq!(live.ask("b", "count the lines").await, "text four");
    assert_eq!(live.ask("main", "result t1 three; result t2 four").await, "text done");
    let report = live.server.report();
    assert_eq!(report.unrequested.len(), 1, "{report}");
    assert!(report.waits.iter().any(|wait| !wait.is_met && wait.awaited.contains("sub-1")), "{report}");
}
