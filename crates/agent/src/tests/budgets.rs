//! Money: a request that could cost more than is left is not sent.

use expect_test::expect;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_run_stops_before_the_request_that_could_cost_too_much() {
    let mut room = Room::new();
    // A first request is expected to cost 10 to 20 thousand millionths; this reply costs 200 thousand.
    room.limits.max_budget_microusd = Some(100_000);
    let story = r#"
        > work
        < count{} | in=100000
        >>
        >> | budget=1000000
        < done
    "#;
    check_in(
        &room,
        story,
        expect![[r#"
            prompt: work
            reply: a=count{}
            = budget: nothing ($0.2001 of $0.1000 are spent, and the next request could cost $0.0126)
            = budget: nothing ($0.2001 of $0.1000 are spent, and the next request could cost $0.0126)
            results: a gives 1
            reply: done
            = completed: done
        "#]],
    )
    .await;
    assert_eq!(room.model.asked().len(), 2);
    let calls = room.store.run(&room.run()).model_calls().expect("calls");
    assert!(
        calls.iter().all(|call| call.reserved_microusd > 0 && call.reserved_microusd < 100_000),
        "{calls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_usage_counts_as_its_reservation() {
    let mut room = Room::new();
    room.limits.max_budget_microusd = Some(52_000);
    let story = r#"
        > work
        < count{} | in=0 out=0
        < count{} | in=0 out=0
        < count{} | in=0 out=0
        < count{} | in=0 out=0
        < count{} | in=0 out=0
    "#;
    check_in(&room, story, expect![[r#"
        prompt: work
        reply: a=count{}
        results: a gives 1
        reply: b=count{}
        results: b gives 2
        reply: c=count{}
        results: c gives 3
        reply: d=count{}
        = budget: nothing ($0.0506 of $0.0520 are spent, and the next request could cost $0.0130; the provider did not report all usage, so the reserved amount counts)
    "#]]).await;
    let totals = room.store.run(&room.run()).totals().expect("totals");
    assert_eq!((totals.unpriced, totals.cost_microusd), (room.model.asked().len() as u64, 0), "not known");
}

#[tokio::test(start_paused = true)]
async fn tokens_that_the_provider_does_not_report_count_for_the_budget() {
    let mut room = Room::new();
    room.limits.max_budget_tokens = Some(5_000);
    let story = "> work\n< count{} | in=0 out=0\n< count{} | in=0 out=0\n< so | in=0 out=0";
    check_in(
        &room,
        story,
        expect![[r#"
            prompt: work
            reply: a=count{}
            results: a gives 1
            reply: b=count{}
            = budget: nothing (3998 tokens of 5000 tokens are spent, and the next request could cost 2091 tokens; the provider did not report all usage, so the reserved amount counts)
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_too_small_for_anything_asks_nothing() {
    let mut room = Room::new();
    room.limits.max_budget_microusd = Some(1);
    check_in(
        &room,
        "> work\n>> | budget=1000000\n< done",
        expect![[r#"
            prompt: work
            = budget: nothing ($0.000000 of $0.000001 are spent, and the next request could cost $0.004970)
            reply: done
            = completed: done
        "#]],
    )
    .await;
    assert_eq!(room.model.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_budget_needs_a_price_also_when_it_comes_later() {
    let mut room = Room::new();
    let kernel = room.kernel();
    let mut start = room.start_of("work");
    start.model = "mystery".to_owned();
    let run = kernel.start(start.clone()).await.expect("without a budget");
    let more = ResumeOverrides { max_budget_microusd: Some(1), ..ResumeOverrides::default() };
    let refused = kernel.run(&run, &more, &StopHandle::new()).await;
    assert!(matches!(refused, Err(RunError::UnknownPrice(_))), "{refused:?}");
    room.limits.max_budget_microusd = Some(1);
    start.limits = room.limits.clone();
    assert!(matches!(kernel.start(start).await, Err(RunError::UnknownPrice(_))));
    assert_eq!(room.model.asked().len(), 0);
}
