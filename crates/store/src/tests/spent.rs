//! Property test: stored sums equal computed sums after any sequence of events.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::write::spent::{Spent, computed, stored};

/// An event in a run tree. Runs and calls are given as an index into the existing ones.
#[derive(Clone, Debug)]
enum Happens {
    Start {
        below: Index,
        background: bool,
    },
    StartAlone {
        below: Index,
    },
    /// Limits on this many of the runs above, from the root on.
    Ask {
        run: Index,
        limits: usize,
        tokens: u64,
    },
    Answer {
        call: Index,
        costs: Option<i64>,
        told: bool,
    },
    GiveUp {
        call: Index,
    },
    End {
        run: Index,
        status: RunStatus,
    },
    EndTree {
        run: Index,
    },
    TakeUp {
        run: Index,
    },
    Park {
        run: Index,
    },
    Delete {
        run: Index,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    use Happens::*;
    let index = any::<Index>;
    let status = prop_oneof![
        3 => Just(RunStatus::Paused),
        1 => Just(RunStatus::Interrupted),
        1 => Just(RunStatus::Completed),
        1 => Just(RunStatus::Budget),
    ];
    prop_oneof![
        3 => (index(), any::<bool>()).prop_map(|(below, background)| Start { below, background }),
        1 => index().prop_map(|below| StartAlone { below }),
        8 => (index(), 0..4usize, 0..50u64).prop_map(|(run, limits, tokens)| Ask { run, limits, tokens }),
        6 => (index(), any::<Option<u16>>(), any::<bool>())
            .prop_map(|(call, costs, told)| Answer { call, costs: costs.map(i64::from), told }),
        2 => index().prop_map(|call| GiveUp { call }),
        3 => (index(), status).prop_map(|(run, status)| End { run, status }),
        1 => index().prop_map(|run| EndTree { run }),
        3 => index().prop_map(|run| TakeUp { run }),
        1 => index().prop_map(|run| Park { run }),
        1 => index().prop_map(|run| Delete { run }),
    ]
}

/// A run tree and all model calls that were ever made in it.
struct Tree {
    room: Room,
    calls: Vec<ModelCallId>,
    made: usize,
}

impl Tree {
    fn runs(&self) -> Vec<RunSummary> {
        let mut runs = self.room.store.runs(&Filter::default()).expect("runs");
        runs.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
        runs
    }

    /// Returns the runs above one and the run itself, the root first.
    fn chain(&self, run: &RunId) -> Vec<RunId> {
        let mut chain = vec![run.clone()];
        while let Some(above) = self.room.store.run(chain.last().expect("some")).row().expect("a row").parent
        {
            chain.push(above);
        }
        chain.reverse();
        chain
    }

    /// Applies the event. Refused events change nothing.
    async fn does(&mut self, what: &Happens) {
        let runs = self.runs();
        let store = self.room.store.clone();
        let one = |index: &Index| index.get(&runs).id.clone();
        match what {
            Happens::Start { below, background } => {
                self.made += 1;
                let new = child_run(&format!("r{}", self.made), one(below).as_str(), "m", RunKind::Sub);
                let _ = store.start_run(NewRun { background: *background, ..new }, ME).await;
            }
            Happens::StartAlone { below } => {
                self.made += 1;
                let of = one(below);
                let mut new = child_run(&format!("r{}", self.made), of.as_str(), "m", RunKind::Fork);
                new.fork = Some(NewFork {
                    of,
                    head: Digest::of(b"head"),
                    from: Seq::FIRST,
                    to: Seq::FIRST,
                    alone: true,
                    knows_files: false,
                    label: String::new(),
                    source: String::new(),
                });
                let _ = store.start_run(new, ME).await;
            }
            Happens::Ask { run, limits, tokens } => {
                let run = one(run);
                let limit = |run: RunId| Limit { run, microusd: Some(90_000), tokens: Some(900) };
                let within = self.chain(&run).into_iter().take(*limits).map(limit).collect();
                let asked = NewModelCall { within, reserved_tokens: *tokens, ..question(run.as_str()) };
                self.calls.extend(store.begin_model_call(asked).await);
            }
            Happens::Answer { call, costs, told } if !self.calls.is_empty() => {
                let usage = if *told { answer("so", &[]).usage } else { Usage::default() };
                let answered = NewReply { cost_microusd: *costs, usage, ..answer("so", &[]) };
                let _ = store.finish_model_call(*call.get(&self.calls), attempt("so"), answered).await;
            }
            Happens::GiveUp { call } if !self.calls.is_empty() => {
                let _ = store.fail_model_call(*call.get(&self.calls), NOW, "gone").await;
            }
            Happens::Answer { .. } | Happens::GiveUp { .. } => {}
            Happens::End { run, status } => {
                let run = one(run);
                if store.end_run(&run, ending(*status, "bye")).await.is_err() {
                    let _ = store.finish_job_and_notify_parent(&run, ending(*status, "bye"), vec![]).await;
                }
            }
            Happens::EndTree { run } => {
                drop(store.end_tree(&one(run), CancelScope::Tree, NOW, [].into(), |_, _| Vec::new()).await)
            }
            Happens::TakeUp { run } => drop(store.reopen(&one(run), ME, NOW, |_| true).await),
            Happens::Park { run } => drop(store.park(&one(run), NOW).await),
            Happens::Delete { run } if one(run).as_str() != "m" => {
                store.delete_run(&one(run)).await.expect("deleted");
            }
            Happens::Delete { .. } => {}
        }
    }

    /// Returns every stored sum with the computed one.
    fn sums(&self) -> Vec<(RunId, Spent, Spent)> {
        let both = |run: &RunSummary| {
            let stored_sum = self.room.store.read_all(|conn| stored(conn, &run.id)).expect("read")?;
            let added = self.room.store.read_all(|conn| computed(conn, &run.id)).expect("read");
            Some((run.id.clone(), stored_sum, added))
        };
        self.runs().iter().filter_map(both).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_stored_sum_equals_the_sum_of_its_parts(all in prop::collection::vec(happens(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let mut tree = Tree { room: room(), calls: Vec::new(), made: 0 };
            tree.room.store.start_run(main_run("m", "start"), ME).await.expect("started");
            for what in &all {
                tree.does(what).await;
                for (run, stored, added) in tree.sums() {
                    prop_assert_eq!(stored, added, "{} after {:?}", run, what);
                }
            }
            let reopened = Tree { room: Room { store: tree.room.reopened(), folder: tree.room.folder }, ..tree };
            for (run, stored, added) in reopened.sums() {
                prop_assert_eq!(stored, added, "{} in another process", run);
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_limit_is_looked_up_and_not_added_up_again() {
    let room = room();
    let store = &room.store;
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    store.start_run(job_run("s", "m"), ME).await.expect("started");
    let within = vec![Limit { run: run_id("m"), microusd: Some(i64::MAX), tokens: None }];
    let asked = |run: &str| NewModelCall { within: within.clone(), ..question(run) };
    store.begin_model_call(asked("s")).await.expect("asked");
    // The stored sum is used although it is wrong, so nothing was added up.
    store
        .write(|conn| Ok(conn.execute("UPDATE spent SET used_microusd = 7777", [])?))
        .await
        .expect("written");
    let tight = vec![Limit { run: run_id("m"), microusd: Some(1), tokens: None }];
    let refused = store.begin_model_call(NewModelCall { within: tight, ..question("m") }).await;
    assert!(matches!(refused, Err(StoreError::OverBudget { used: 7777, reserved: 500, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_paused_run_reserves_nothing() {
    let room = room();
    let store = &room.store;
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    store.start_run(child_run("s", "m", "m", RunKind::Sub), ME).await.expect("started");
    let within = vec![Limit { run: run_id("m"), microusd: Some(900), tokens: None }];
    let asked = |run: &str| NewModelCall { within: within.clone(), ..question(run) };
    let call = store.begin_model_call(asked("s")).await.expect("500 fit");
    let sum =
        || store.read_all(|conn| stored(conn, &run_id("m"))).expect("read").expect("kept").reserved_microusd;
    assert_eq!(sum(), 500);
    store.end_run(&run_id("s"), ending(RunStatus::Paused, "")).await.expect("paused");
    assert_eq!(sum(), 0);
    store.take_lease(&run_id("s"), ME, NOW, |_| true).await.expect("taken up");
    store.take_lease(&run_id("s"), ME, NOW, |_| true).await.expect("by whoever has it");
    assert_eq!(sum(), 500, "once");
    assert!(matches!(
        store.begin_model_call(asked("m")).await,
        Err(StoreError::OverBudget { reserved: 500, .. })
    ));
    store.finish_model_call(call, attempt("raw"), answer("so", &[])).await.expect("answered");
    assert_eq!(sum(), 0);
    store.begin_model_call(asked("m")).await.expect("it cost 100 only");
}
