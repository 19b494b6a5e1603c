//! Usage of runs: their own and with all runs below them.

use super::*;

#[tokio::test]
async fn own_and_inclusive_totals_count_each_call_once() {
    let room = room();
    let store = &room.store;
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    store.turn("m", "go", &[]).await;
    store.start_run(job_run("s", "m"), ME).await.expect("started");
    store.turn("s", "one", &[]).await;
    store.turn("s", "two", &[]).await;
    let mut fork = child_run("f", "s", "m", RunKind::Fork);
    fork.messages = vec![message(Role::Assistant, Origin::Inherited, "one"), prompt("and now")];
    store.start_run(fork, ME).await.expect("started");
    let call = store.begin_model_call(question("f")).await.expect("asked");
    let unpriced = NewReply { cost_microusd: None, ..answer("three", &[]) };
    store.finish_model_call(call, attempt("raw"), unpriced).await.expect("answered");
    let open = store.begin_model_call(question("f")).await.expect("asked");
    store.start_run(main_run("other", "start"), ME).await.expect("started");

    let runs = |filter: &Filter| {
        let found = store.runs(filter).expect("runs");
        found.into_iter().map(|run| (run.id.to_string(), run)).collect::<std::collections::BTreeMap<_, _>>()
    };
    let all = runs(&Filter::default());
    let brief =
        |totals: UsageTotals| (totals.calls, totals.usage.input, totals.cost_microusd, totals.unpriced);
    assert_eq!(brief(all["m"].own), (1, 10, 100, 0));
    assert_eq!(brief(all["m"].inclusive), (5, 40, 300, 1));
    assert_eq!(brief(all["s"].own), (2, 20, 200, 0));
    assert_eq!(brief(all["s"].inclusive), (4, 30, 200, 1));
    assert_eq!(brief(all["f"].own), (2, 10, 0, 1), "what it inherited is not counted again");
    assert_eq!(brief(all["other"].inclusive), (0, 0, 0, 0));
    assert_eq!(all["m"].inclusive.reserved_microusd, 500);
    assert_eq!(all["f"].inclusive, all["f"].own);
    assert_eq!((all["s"].job, all["f"].job), (true, false));
    assert_eq!((all["s"].writer, &all["s"].root), (Some(ME), &run_id("m")));

    store.fail_model_call(open, NOW, "gone").await.expect("given up");
    assert_eq!(runs(&Filter::default())["m"].inclusive.reserved_microusd, 0);

    let names = |filter: Filter| runs(&filter).into_keys().collect::<Vec<_>>();
    assert_eq!(names(Filter { below: Some(run_id("s")), ..Filter::default() }), ["f", "s"]);
    assert_eq!(names(Filter { thread: Some(thread_id("other")), ..Filter::default() }), ["other"]);
    assert_eq!(names(Filter { limit: Some(2), ..Filter::default() }).len(), 2);
    assert_eq!(names(Filter { roots: Some(2), ..Filter::default() }), ["f", "m", "other", "s"]);
    assert_eq!(names(Filter { roots: Some(1), ..Filter::default() }), ["other"]);
    let now = runs(&Filter::default());
    for run in ["m", "s", "f"] {
        assert_eq!(store.run(&run_id(run)).totals().expect("totals"), now[run].inclusive, "{run}");
    }
    store.end_run(&run_id("f"), ending(RunStatus::Completed, "bye")).await.expect("ended");
    assert_eq!(names(Filter { live: true, ..Filter::default() }), ["m", "other", "s"]);
    assert_eq!(store.main().session_info(&thread_id("m")).expect("info").totals, all["m"].own);
}

#[tokio::test]
async fn absurd_usage_can_be_added_up() {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    for _ in 0..3 {
        let call = room.store.begin_model_call(question("m")).await.expect("asked");
        let usage = Usage { input: u64::MAX, ..Usage::default() };
        let absurd = NewReply { usage, ..answer("much", &[]) };
        room.store.finish_model_call(call, attempt("raw"), absurd).await.expect("answered");
    }
    assert!(room.store.runs(&Filter::default()).expect("runs")[0].inclusive.usage.input > 1 << 40);
}
