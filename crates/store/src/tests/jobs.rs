//! Jobs and the inbox: a wake-up is neither lost nor given twice.

use super::*;

async fn with_job() -> Room {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    room.store.turn("m", "go", &["spawn", "job_output"]).await;
    room.store.start_run(job_run("j", "m"), ME).await.expect("started");
    room
}

async fn finish(store: &Store) -> Result<InboxId, StoreError> {
    let done = ending(RunStatus::Completed, "found it");
    store.finish_job_and_notify_parent(&run_id("j"), done, b"found it".to_vec()).await
}

fn waiting(store: &Store) -> Vec<Inbox> {
    store.run(&run_id("m")).inbox().expect("inbox")
}

fn news(text: &str) -> NewMessage {
    message(Role::User, Origin::Inbox, text)
}

#[tokio::test]
async fn a_jobs_end_and_the_news_of_it_are_one() {
    let room = with_job().await;
    let jobs = room.store.run(&run_id("m")).jobs().expect("jobs");
    assert_eq!((jobs[0].status, jobs[0].ended_at), (RunStatus::Running, None));
    for status in [RunStatus::Completed, RunStatus::Failed, RunStatus::Stalled, RunStatus::StepCap] {
        let alone = room.store.end_run(&run_id("j"), ending(status, "")).await;
        assert!(matches!(alone, Err(StoreError::OwesResult(_))), "{status}: {alone:?}");
    }
    let id = finish(&room.store).await.expect("finished");
    let found = waiting(&room.reopened());
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, found[0].kind, &found[0].job), (id, InboxKind::Job, &Some(run_id("j"))));
    assert_eq!(found[0].body, b"found it");
    let jobs = room.store.run(&run_id("m")).jobs().expect("jobs");
    assert_eq!((jobs[0].status, jobs[0].ended_at), (RunStatus::Completed, Some(NOW)));
    assert!(matches!(finish(&room.store).await, Err(StoreError::NoJob(_))), "it ends once");
    assert_eq!(waiting(&room.store).len(), 1);
}

#[tokio::test]
async fn what_waits_is_delivered_once() {
    let room = with_job().await;
    let id = finish(&room.store).await.expect("finished");
    let other = NewInbox { run: run_id("m"), kind: InboxKind::Message, body: b"hello".to_vec(), at: NOW };
    let said = room.store.send(other).await.expect("sent");
    let seq = room.store.deliver(&run_id("m"), &[id], news("job is done")).await.expect("delivered");
    assert_eq!(seq, Seq(3));
    let twice = room.store.deliver(&run_id("m"), &[said, id], news("again")).await;
    assert!(matches!(twice, Err(StoreError::AlreadyDelivered(which)) if which == id), "{twice:?}");
    assert_eq!(room.store.said("m"), ["start", "go", "job is done"], "refused as a whole");
    assert_eq!(waiting(&room.store).iter().map(|entry| entry.id).collect::<Vec<_>>(), [said]);
    let foreign = room.store.deliver(&run_id("j"), &[said], news("not mine")).await;
    assert!(matches!(foreign, Err(StoreError::AlreadyDelivered(_))), "{foreign:?}");
}

#[tokio::test]
async fn who_fetched_a_result_is_not_told_again() {
    let room = with_job().await;
    let id = finish(&room.store).await.expect("finished");
    let call = key("m", Seq(2), 1);
    let fetched = finished(call.clone(), "found it");
    assert!(room.store.consume_job(&run_id("j"), fetched.clone()).await.expect("consumed"));
    assert!(waiting(&room.store).is_empty());
    let late = room.store.deliver(&run_id("m"), &[id], news("late")).await;
    assert!(matches!(late, Err(StoreError::AlreadyDelivered(_))), "{late:?}");
    let again = room.store.consume_job(&run_id("j"), fetched).await;
    assert!(matches!(&again, Err(StoreError::AlreadyFinished(which)) if *which == call), "{again:?}");
}

#[tokio::test]
async fn a_result_that_was_delivered_may_still_be_fetched() {
    let room = with_job().await;
    let id = finish(&room.store).await.expect("finished");
    room.store.deliver(&run_id("m"), &[id], news("job is done")).await.expect("delivered");
    let fetched = finished(key("m", Seq(2), 1), "found it");
    assert!(!room.store.consume_job(&run_id("j"), fetched).await.expect("kept"));
    let calls = room.store.run(&run_id("m")).tool_calls().expect("calls");
    assert_eq!(calls[1].status, CallStatus::Done);
    let nobodys = finished(key("j", Seq(1), 0), "");
    let foreign = room.store.consume_job(&run_id("j"), nobodys).await;
    assert!(matches!(foreign, Err(StoreError::NoJob(_))), "only its parent fetches it: {foreign:?}");
}

#[tokio::test]
async fn a_paused_job_still_owes_its_result() {
    let room = with_job().await;
    room.store.end_run(&run_id("j"), ending(RunStatus::Paused, "")).await.expect("paused");
    assert!(waiting(&room.store).is_empty());
    assert_eq!(room.store.run(&run_id("m")).jobs().expect("jobs")[0].ended_at, None);
    room.store.take_lease(&run_id("j"), ME, NOW, |_| true).await.expect("taken up");
    finish(&room.store).await.expect("finished");
    assert_eq!(waiting(&room.store).len(), 1);
}
