//! A provider that is down for a thousand runs at once.

use store::Filter;
use tokio::task::JoinSet;

use super::model::{Says, failed};
use super::*;

const RUNS: usize = 1000;
const RETRIES: usize = 200;

#[tokio::test(start_paused = true)]
async fn a_storm_over_a_thousand_runs_is_weathered() {
    let mut room = Room::new();
    let budget = Arc::new(RetryBudget::new(RETRIES as u32));
    room.backoff = Arc::new(Backoff { budget, ..Backoff::default() });
    for _ in 0..RUNS + RETRIES {
        room.model.says(Says::Fails(failed("529")));
    }
    let kernel = Arc::new(room.kernel());
    let mut runs = JoinSet::new();
    for number in 0..RUNS {
        let (kernel, start) = (kernel.clone(), room.start_of(&format!("number {number}")));
        runs.spawn(async move {
            let run = kernel.start(start).await.expect("started");
            kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended")
        });
    }
    let ended = runs.join_all().await;
    // Each is asked once, and all together have so many retries and no more.
    assert_eq!(room.model.asked().len(), RUNS + RETRIES);
    for ended in &ended {
        assert_eq!(ended.status, RunStatus::Stalled, "{ended:?}");
        assert!(ended.error.as_deref().is_some_and(|error| error.contains("529")), "{ended:?}");
    }
    assert_eq!(room.store.runs(&Filter { live: true, ..Filter::default() }).expect("runs").len(), 0);

    // It is back, and so are they.
    let reply = Says::Body(r#"{"id":"x","model":"m","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{}}"#.to_owned());
    for _ in 0..RUNS {
        room.model.says(reply.clone());
    }
    let mut runs = JoinSet::new();
    for RunOutcome { run, .. } in ended {
        let kernel = kernel.clone();
        runs.spawn(async move {
            kernel.resume(&run, None).await.expect("taken up");
            kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended").status
        });
    }
    assert!(runs.join_all().await.into_iter().all(|status| status == RunStatus::Completed));
    assert_eq!(room.model.asked().len(), 2 * RUNS + RETRIES);
}
