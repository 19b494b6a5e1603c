//! Forks whose journal cannot be written: they go on in memory, and nothing of what they do is done twice.

use std::sync::atomic::Ordering;

use store::CallStatus;
use tokio::sync::watch;

use super::*;

/// Records the events of forks.
struct Told {
    ends: Mutex<Vec<ForkReport>>,
    lost: Mutex<Vec<String>>,
    ended: watch::Sender<usize>,
}

impl Told {
    fn new() -> Arc<Self> {
        let ended = watch::Sender::new(0);
        Arc::new(Self { ends: Mutex::default(), lost: Mutex::default(), ended })
    }

    /// The one end that there was.
    fn end(&self) -> ForkReport {
        let ends = self.ends.lock().expect("lock is not poisoned");
        let [end] = &ends[..] else { panic!("one event: {ends:?}") };
        end.clone()
    }

    /// The errors of lost transcripts.
    fn lost(&self) -> Vec<String> {
        self.lost.lock().expect("lock is not poisoned").clone()
    }
}

impl EventSink for Told {
    fn emit(&self, event: &RunEvent) {
        match &event.kind {
            EventKind::ForkEnded(ended) => {
                self.ends.lock().expect("lock is not poisoned").push((**ended).clone());
                self.ended.send_modify(|count| *count += 1);
            }
            EventKind::TranscriptLost { error } => {
                self.lost.lock().expect("lock is not poisoned").push(error.clone())
            }
            _ => {}
        }
    }
}

const SIDE: &[(&str, &[&str])] = &[
    ("Do it.", &["echo{\"say\":\"x\"}", "Done."]),
    ("And?", &["Let me count. + count{} + slow{}", "echo{\"say\":\"y\"}", "One."]),
];

/// A run that has ended, whose forks can be asked `And?`.
async fn asked(lines: &[(&str, &[&str])]) -> (Stage, Arc<Told>, RunId) {
    let mut stage = Stage::new(lines);
    let told = Told::new();
    stage.events = told.clone();
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    (stage, told, run)
}

fn and() -> ForkRequest {
    ForkRequest::new("And?", "side", "test")
}

/// All that is written in the messages of a fork.
fn words_of(forked: &ForkOutcome) -> String {
    format!("{:?}", forked.messages)
}

#[tokio::test]
async fn a_disk_that_fills_up_at_any_write_fails_no_fork() {
    let (stage, told, run) = asked(SIDE).await;
    let undisturbed = stage.kernel().fork(&run, &and(), &StopHandle::new()).await.expect("forked");
    let ended = told.end();
    for writes in 0.. {
        let (stage, told, run) = asked(SIDE).await;
        stage.store().room_for(writes);
        let forked = stage.kernel().fork(&run, &and(), &StopHandle::new()).await;
        let forked = forked.unwrap_or_else(|error| panic!("{writes}: {error}"));
        assert_eq!(forked.ended.final_text.as_deref(), Some("One."), "{writes}");
        assert_eq!(forked.ended.status, RunStatus::Completed, "{writes}");
        assert_eq!(words_of(&forked), words_of(&undisturbed), "{writes}");
        assert_eq!(forked.usage, undisturbed.usage, "{writes}");
        assert_eq!(stage.room.state.count.load(Ordering::Relaxed), 1, "{writes}: what must not happen twice");
        let asked = stage.play.asked();
        assert!(asked.values().all(|times| *times == 1), "{writes}: nobody pays twice: {asked:?}");
        let end = told.end();
        assert_eq!(
            (end.outcome, end.input, end.output, end.messages, end.depth),
            ("completed", ended.input, ended.output, ended.messages, ended.depth),
            "{writes}"
        );
        assert_eq!((end.input, end.output, end.messages), (300, 30, 6));
        assert_eq!((end.label.as_str(), end.parent_chain.as_deref()), ("side", Some("m")));
        let lost = told.lost();
        if lost.is_empty() {
            assert!(writes > 8, "{writes} writes are not all of them");
            return;
        }
        assert_eq!(lost.len(), 1, "{writes}: {lost:?}");
        assert!(lost[0].starts_with("the disk is full"), "{writes}: {lost:?}");
    }
}

#[tokio::test]
async fn a_listener_gets_all_messages_of_a_fork_that_is_not_stored() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (stage, _, run) = asked(SIDE).await;
    let (hears, reminder) = (heard.clone(), Some("Be brief.".to_owned()));
    let on_message: Arc<MessageListener> = Arc::new(move |message: &session::Message| {
        hears.lock().expect("lock is not poisoned").push(message.clone())
    });
    stage.store().room_for(3);
    let fork = ForkRequest { on_message: Some(on_message), reminder, keep_transcript: false, ..and() };
    let forked = stage.kernel().fork(&run, &fork, &StopHandle::new()).await.expect("forked");
    assert_eq!(*heard.lock().expect("lock is not poisoned"), forked.messages);
    assert_eq!((forked.messages.len(), forked.usage.input), (6, 300));
}

#[tokio::test]
async fn with_room_again_at_its_end_all_of_it_is_kept() {
    let (undisturbed, _, run) = asked(SIDE).await;
    let forked = undisturbed.kernel().fork(&run, &and(), &StopHandle::new()).await.expect("forked");
    let said = undisturbed.said_to(forked.ended.run.as_str());
    for writes in 0..5 {
        let (stage, told, run) = asked(SIDE).await;
        let store = stage.store().clone();
        stage.room.state.when_slow(move || store.room_for(u32::MAX));
        stage.store().room_for(writes);
        let forked = stage.kernel().fork(&run, &and(), &StopHandle::new()).await.expect("forked");
        assert_eq!(told.lost(), Vec::<String>::new(), "{writes}");
        let id = forked.ended.run;
        assert_eq!(stage.said_to(id.as_str()), said, "{writes}");
        assert_eq!(stage.status(id.as_str()), RunStatus::Completed, "{writes}");
        let reads = stage.store().run(&id);
        let calls = reads.tool_calls().expect("calls");
        assert!(calls.iter().all(|call| call.status == CallStatus::Done), "{writes}: {calls:?}");
        let kept = reads.fork().expect("read").expect("a fork").ended.expect("an end");
        assert_eq!(kept, serde_json::to_string(&told.end()).expect("JSON"), "{writes}");
        assert_eq!(reads.totals().expect("totals").usage, forked.usage, "{writes}");
        stage.shares();
        let again = stage.kernel().resume(&id, Some("And?")).await;
        assert!(again.is_ok(), "{writes}: it can be gone on with: {again:?}");
    }
}

#[tokio::test]
async fn a_paused_fork_that_is_not_stored_ends() {
    let (stage, told, run) = asked(&[("Do it.", &["Done."]), ("And?", &["count{}", "@later So."])]).await;
    stage.store().room_for(3);
    let stop_handle = StopHandle::new();
    let pause = async {
        stage.play.wait_for(1).await;
        stop_handle.request(StopRequest::Pause);
    };
    let (kernel, fork) = (stage.kernel(), and());
    let (forked, ()) = tokio::join!(kernel.fork(&run, &fork, &stop_handle), pause);
    assert_eq!(forked.expect("it stops").ended.status, RunStatus::Paused);
    assert_eq!((told.end().outcome, told.end().input, told.lost().len()), ("paused", 100, 1));
}

#[tokio::test]
async fn others_stay_with_the_disk() {
    let (stage, told, _) = asked(SIDE).await;
    stage.store().room_for(0);
    let start = StartRequest { id: Some(RunId::new("n")), ..stage.room.start_of("Do it.") };
    let error = stage.kernel().start(start).await.expect_err("a run is on the disk or nowhere");
    assert!(error.to_string().starts_with("the disk is full"), "{error}");
    stage.store().room_for(1);
    stage.kernel().resume(&RunId::new("m"), Some("And?")).await.expect_err("so is what it is told");
    assert!(told.lost().is_empty());
}

#[tokio::test]
async fn a_fork_s_shared_memory_is_stored_or_an_error() {
    let remember = "memory{\"action\":\"write\",\"name\":\"a\",\"text\":\"b\"}";
    let (stage, ..) = asked(&[("Do it.", &["Done."]), ("And?", &[remember, "Tried."])]).await;
    stage.store().room_for(2);
    let forked = stage.kernel().fork(&RunId::new("m"), &and(), &StopHandle::new()).await.expect("forked");
    assert_eq!(forked.ended.final_text.as_deref(), Some("Tried."));
    assert!(words_of(&forked).contains("the disk is full"), "{}", words_of(&forked));
}

#[tokio::test]
async fn one_that_a_call_waits_for_answers_it() {
    let mut stage = Stage::new(&[
        ("Do it.", &["spawn_sub_agent{\"prompt\":\"One?\",\"fork\":true}", "Done."]),
        ("One?", &["@go slow{}", "count{}", "slow{}", "One."]),
    ]);
    let told = Told::new();
    stage.events = told.clone();
    let (store, times) = (stage.store().clone(), std::sync::atomic::AtomicU32::new(0));
    // From the first to the second time.
    stage.room.state.when_slow(move || match times.fetch_add(1, Ordering::Relaxed) {
        0 => store.room_for(0),
        _ => store.room_for(u32::MAX),
    });
    stage.play.open("go");
    let ended = stage.run("Do it.").await;
    assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::Completed, Some("Done.")));
    assert_eq!(stage.result("m", 0)["final_text"], "One.");
    assert_eq!(stage.status("m-2-0"), RunStatus::Completed, "there was room again when it ended");
    assert_eq!((told.end().outcome, told.end().input), ("completed", 400));
    assert_eq!(stage.room.state.count.load(Ordering::Relaxed), 1);
    stage.shares();
}

#[tokio::test]
async fn a_background_fork_reports_to_its_parent() {
    let spawn = "spawn_sub_agent{\"prompt\":\"One?\",\"fork\":true,\"run_in_background\":true}";
    let mut stage =
        Stage::new(&[("Do it.", &[spawn, "@then I wait.", "Done."]), ("One?", &["@go slow{}", "One."])]);
    let told = Told::new();
    stage.events = told.clone();
    let store = stage.store().clone();
    stage.room.state.when_slow(move || store.room_for(u32::MAX));
    let run = stage.start("Do it.").await;
    let direct = async {
        stage.play.wait_for(2).await;
        stage.store().room_for(0);
        stage.play.open("go");
        told.ended.subscribe().wait_for(|count| *count > 0).await.expect("it lives");
        stage.play.open("then");
    };
    let (ended, ()) = tokio::join!(stage.go(&run), direct);
    assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::Completed, Some("Done.")));
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
    assert!(told.lost().is_empty());
}

#[tokio::test]
async fn a_parent_with_a_failing_journal_fails_and_is_resumable() {
    let mut stage = Stage::new(&[
        ("Do it.", &["spawn_sub_agent{\"prompt\":\"One?\",\"fork\":true}", "Done."]),
        ("One?", &["slow{}", "One."]),
    ]);
    let told = Told::new();
    stage.events = told.clone();
    let store = stage.store().clone();
    stage.room.state.when_slow(move || store.room_for(0));
    let run = stage.start("Do it.").await;
    let kernel = stage.kernel();
    let error = kernel
        .run(&run, &ResumeOverrides::default(), &StopHandle::new())
        .await
        .expect_err("its own end is not kept");
    assert!(error.to_string().starts_with("the disk is full"), "{error}");
    assert_eq!((told.end().outcome, told.end().input), ("completed", 200));
    assert_eq!(told.lost().len(), 1);
    stage.room.state.when_slow(|| {});
    stage.store().room_for(u32::MAX);
    let ended = stage.resume(None).await;
    assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::Completed, Some("Done.")));
    stage.shares();
}
