//! Stopped: from above, from beside, and from outside.

use store::Millis;

use super::*;

const LAUNCH: &str = r#"spawn_sub_agent{"prompt":"Work.","run_in_background":true}"#;

#[tokio::test]
async fn a_cancelled_job_ends_and_its_parent_continues() {
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, r#"job_cancel{"job_id":"m-2-0"}"#, r#"job_cancel{"job_id":"m-2-0"}"#, "Done."]),
        ("Work.", &["@never Worked."]),
    ]);
    let run = stage.start("Do it.").await;
    let ended = stage.go(&run).await;
    assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::Completed, Some("Done.")));
    let cancelled = r#"{"job_id":"m-2-0","run_id":"m-2-0","status":"cancelled_by_parent"}"#;
    assert_eq!(stage.results("m")[1..], [cancelled, cancelled]);
    assert_eq!(stage.told_of("m", "m-2-0"), 0, "who ended it knows");
}

#[tokio::test]
async fn a_job_that_had_ended_stays_as_it_is() {
    let stage = Stage::new(&[
        (
            "Do it.",
            &[LAUNCH, r#"spawn_sub_agent{"prompt":"Busy."}"#, r#"job_cancel{"job_id":"m-2-0"}"#, "Done."],
        ),
        ("Work.", &["Worked."]),
        ("Busy.", &["@ended Busy no more."]),
    ]);
    let run = stage.start("Do it.").await;
    let ended = async {
        // Its inbox may be empty by now.
        let job = RunId::new("m-2-0");
        while !stage.store().run(&job).row().is_ok_and(|row| row.status == RunStatus::Completed) {
            tokio::task::yield_now().await;
        }
        stage.play.open("ended");
    };
    tokio::join!(stage.go(&run), ended);
    assert_eq!(stage.result("m", 2)["status"], "completed");
    assert_eq!(stage.told_of("m", "m-2-0"), 1, "its answer was never fetched");
}

#[tokio::test]
async fn a_job_that_is_cancelled_from_outside_ends_alone() {
    let stage =
        Stage::new(&[("Do it.", &[LAUNCH, "I wait.", "It was ended."]), ("Work.", &["@never Worked."])]);
    let run = stage.start("Do it.").await;
    let end = async {
        stage.play.wait_for(1).await;
        let job = RunId::new("m-2-0");
        stage.store().request_cancel(&job, RunStatus::CancelledByUser, Millis(0)).await.expect("asked");
    };
    let (ended, ()) = tokio::join!(stage.go(&run), end);
    assert_eq!(ended.final_text.as_deref(), Some("It was ended."));
    assert_eq!(stage.status("m-2-0"), RunStatus::CancelledByUser);
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
}

/// Eight below one: two of them with three of their own.
fn nine() -> Stage {
    // They go on and on, so that there is always a step that could still be taken.
    let mut work = vec!["echo{\"say\":\"x\"}"; 2000];
    work[3] = "@all echo{\"say\":\"x\"}";
    let three = format!("{0} + {0} + {0}", r#"spawn_sub_agent{"prompt":"Work."}"#);
    let two =
        r#"spawn_sub_agent{"prompt":"Lead.","run_in_background":true} + spawn_sub_agent{"prompt":"Lead."}"#;
    let mut stage =
        Stage::new(&[("Do it.", &[two, "never"]), ("Lead.", &[&three, "never"]), ("Work.", &work)]);
    stage.tree_limits.max_depth = 2;
    stage
}

#[tokio::test]
async fn a_tree_of_nine_ends_as_one() {
    let stage = nine();
    let run = stage.start("Do it.").await;
    let steps = || {
        let of = |run: &str| {
            let reads = (stage.store(), RunId::new(run));
            let calls = reads.0.run(&reads.1).tool_calls().expect("calls");
            let called = calls.iter().filter(|call| call.started_at.is_some()).count();
            reads.0.run(&reads.1).model_calls().expect("calls").len() + called
        };
        stage.runs().iter().map(|(run, _)| of(run)).sum::<usize>()
    };
    let end = async {
        stage.play.wait_for(6).await;
        stage.play.open("all");
        let at = Millis(0);
        stage.store().request_cancel(&run, RunStatus::CancelledByUser, at).await.expect("asked");
        steps()
    };
    let (ended, asked) = tokio::join!(stage.go(&run), end);
    assert_eq!(ended.status, RunStatus::CancelledByUser);
    let runs = stage.runs();
    assert_eq!(runs.len(), 9);
    for (run, status) in &runs[1..] {
        assert_eq!(*status, RunStatus::CancelledByUser, "{run}");
    }
    assert_eq!(steps(), asked, "no step after the commit");
    let again = stage.kernel().resume(&run, None).await;
    assert!(matches!(again, Err(RunError::Finished { .. })), "a user's stop is final: {again:?}");
}

#[tokio::test]
async fn a_child_paused_with_its_parent_continues_as_a_job() {
    let stage = nine();
    let stage = Stage {
        play: Arc::new(Play::new(&[
            ("Do it.", &[r#"spawn_sub_agent{"prompt":"Look."}"#, "I wait for it.", "Found."]),
            ("Look.", &["echo{\"say\":\"here\"}", "@later It is here."]),
        ])),
        ..stage
    };
    let run = stage.start("Do it.").await;
    let pause = async {
        stage.play.wait_for(1).await;
        stage.stop_handle().request(StopRequest::Pause);
    };
    let (ended, ()) = tokio::join!(stage.go(&run), pause);
    assert_eq!((ended.status, stage.status("m-2-0")), (RunStatus::Paused, RunStatus::Paused));
    assert_eq!(stage.result("m", 0)["run_id"], "m-2-0");
    assert_eq!(stage.result("m", 0)["error"], prompts::CONTINUES_AS_JOB);
    stage.play.open("later");
    let ended = stage.resume(None).await;
    assert_eq!(ended.final_text.as_deref(), Some("Found."));
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
    let asked = stage.play.asked();
    assert_eq!(asked[&("Look.".to_owned(), 0)], 1, "what it had been told is not asked again");
}

#[tokio::test]
async fn jobs_that_are_left_go_on_when_the_run_does() {
    let mut stage = Stage::new(&[
        ("Do it.", &[LAUNCH, "Enough for today.", "It is done."]),
        ("Work.", &["@later Worked."]),
    ]);
    stage.tree_limits.leave_jobs = true;
    let ended = stage.run("Do it.").await;
    assert_eq!(
        (ended.status, ended.final_text.as_deref()),
        (RunStatus::Completed, Some("Enough for today."))
    );
    assert_eq!(stage.status("m-2-0"), RunStatus::Paused);
    stage.tree_limits.leave_jobs = false;
    stage.play.open("later");
    let ended = stage.resume(None).await;
    assert_eq!(ended.final_text.as_deref(), Some("It is done."));
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
    let again = stage.kernel().resume(&RunId::new("m"), None).await;
    assert!(matches!(again, Err(RunError::Finished { .. })), "nothing is owed any more: {again:?}");
}

#[tokio::test]
async fn the_end_of_a_paused_sub_agent_is_reported_when_its_parent_resumes() {
    let stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Look."}"#, "I wait for it.", "It was ended."]),
        ("Look.", &["@later It is here."]),
    ]);
    let run = stage.start("Do it.").await;
    let pause = async {
        stage.play.wait_for(1).await;
        stage.stop_handle().request(StopRequest::Pause);
    };
    tokio::join!(stage.go(&run), pause);
    end_tree(stage.store(), &RunId::new("m-2-0"), Millis(0)).await.expect("ended");
    stage.resume(None).await;
    assert_eq!(stage.told_of("m", "m-2-0"), 1, "{}", stage.said_to("m"));
    assert_eq!(stage.status("m-2-0"), RunStatus::CancelledByUser);
}

#[tokio::test]
async fn a_run_that_is_given_up_takes_all_below_it_along() {
    let stage = Stage::new(&[("Do it.", &[LAUNCH, "I wait."]), ("Work.", &["@never Worked."])]);
    let run = stage.start("Do it.").await;
    let pause = async {
        stage.play.wait_for(1).await;
        stage.stop_handle().request(StopRequest::Pause);
    };
    tokio::join!(stage.go(&run), pause);
    stage.kernel().cancel(&run).await.expect("given up");
    assert_eq!(stage.status("m"), RunStatus::CancelledByUser);
    assert_eq!(stage.status("m-2-0"), RunStatus::CancelledByUser);
}

/// Records emitted ends, and requests a cancel as soon as a run is paused.
#[derive(Default)]
struct Ends {
    told: std::sync::Mutex<Vec<String>>,
    cancels: Option<StopHandle>,
}

impl EventSink for Ends {
    fn emit(&self, event: &RunEvent) {
        let parent = event.parent.as_ref().map_or("nobody", RunId::as_str);
        let told = match &event.kind {
            EventKind::Finished { status, .. } => format!("{} below {parent}: {status}", event.run),
            EventKind::ForkEnded(ended) => format!("{} below {parent}: fork {}", event.run, ended.outcome),
            _ => return,
        };
        if let (true, Some(stop_handle)) = (told.ends_with("paused"), &self.cancels) {
            stop_handle.request(StopRequest::Cancel);
        }
        self.told.lock().expect("lock is not poisoned").push(told);
    }
}

#[tokio::test]
async fn a_cancel_after_a_pause_ends_paused_runs() {
    let mut stage = Stage::new(&[("Do it.", &[LAUNCH, "I wait."]), ("Work.", &["@never Worked."])]);
    let (more, stop_handle) = (ResumeOverrides::default(), StopHandle::new());
    let ends = Arc::new(Ends { cancels: Some(stop_handle.clone()), ..Ends::default() });
    stage.events = ends.clone();
    let run = stage.start("Do it.").await;
    let pause = async {
        stage.play.wait_for(1).await;
        stop_handle.request(StopRequest::Pause);
    };
    let kernel = stage.kernel();
    let (ended, ()) = tokio::join!(kernel.run(&run, &more, &stop_handle), pause);
    ended.expect("it ran");
    assert_eq!(stage.status("m"), RunStatus::CancelledByUser);
    assert_eq!(stage.status("m-2-0"), RunStatus::CancelledByUser);
    let told = ends.told.lock().expect("lock is not poisoned").clone();
    let last = ["m-2-0 below m: cancelled_by_user", "m below nobody: cancelled_by_user"];
    assert_eq!(told, ["m-2-0 below m: paused", last[0], last[1]]);
}

#[tokio::test]
async fn an_abandoned_fork_is_reported_as_ended() {
    let mut stage = Stage::new(&[("Do it.", &["Done."]), ("And?", &["@never So."])]);
    let run = stage.start("Do it.").await;
    stage.go(&run).await;
    let ends = Arc::new(Ends::default());
    stage.events = ends.clone();
    let kernel = stage.kernel();
    let fork = ForkRequest::new("And?", "side question", "a test");
    let (id, kernel) = kernel.start_fork(&run, &fork).await.expect("a fork");
    let (more, stop_handle) = (ResumeOverrides::default(), StopHandle::new());
    let pause = async {
        stage.play.wait_for(1).await;
        stop_handle.request(StopRequest::Pause);
    };
    let (ended, ()) = tokio::join!(kernel.run(&id, &more, &stop_handle), pause);
    assert_eq!(ended.expect("it ran").status, RunStatus::Paused);
    kernel.cancel(&id).await.expect("given up");
    let told = ends.told.lock().expect("lock is not poisoned").join("\n").replace(id.as_str(), "FORK");
    let ends = "FORK below m: paused\nFORK below m: fork cancelled_by_user\nFORK below m: cancelled_by_user";
    assert_eq!(told, ends);
}

#[tokio::test]
async fn the_status_of_an_ended_run_does_not_change() {
    let stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Try."}"#, "@never Done."]),
        ("Try.", &["!400 no"]),
    ]);
    let run = stage.start("Do it.").await;
    let end = async {
        stage.play.wait_for(1).await;
        let late =
            stage.store().request_cancel(&RunId::new("m-2-0"), RunStatus::CancelledByUser, Millis(0)).await;
        assert!(matches!(late, Err(store::StoreError::Over { .. })), "{late:?}");
        stage.stop_handle().request(StopRequest::Pause);
    };
    tokio::join!(stage.go(&run), end);
    end_tree(stage.store(), &run, Millis(0)).await.expect("ended");
    assert_eq!((stage.status("m"), stage.status("m-2-0")), (RunStatus::CancelledByUser, RunStatus::Failed));
    assert!(stage.row("m-2-0").error.is_some(), "and why");
}
