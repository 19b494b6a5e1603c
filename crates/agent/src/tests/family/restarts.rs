//! Killed processes: the next process finds everything and repeats nothing.

use super::*;

const LAUNCH: &str = r#"spawn_sub_agent{"prompt":"Work.","run_in_background":true}"#;

/// Runs a stage until an agent reaches a gate, then drops everything, as the end of a process does.
pub(super) async fn broken_off(stage: &Stage, at_gate: usize) {
    let run = stage.start("Do it.").await;
    let kernel = stage.kernel();
    let (stop_handle, more) = (StopHandle::new(), ResumeOverrides::default());
    // In a runtime of its own: what its tasks hold goes with it.
    let (play, done) = (stage.play.clone(), std::sync::mpsc::channel::<()>());
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                ended = kernel.run(&run, &more, &stop_handle) => panic!("it was to be broken off: {ended:?}"),
                _ = play.wait_for(at_gate) => {}
            }
        });
        drop(done.0);
    });
    let _ = tokio::task::spawn_blocking(move || done.1.recv()).await;
    thread.join().expect("broken off");
}

#[tokio::test]
async fn a_job_and_a_call_that_waits_are_taken_up() {
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, r#"spawn_sub_agent{"prompt":"Look."}"#, "I wait.", "Done."]),
        ("Work.", &["count{}", "@work Worked."]),
        ("Look.", &["count{}", "@look Seen."]),
    ]);
    broken_off(&stage, 2).await;
    assert_eq!(stage.status("m-2-0"), RunStatus::Running, "as a killed process leaves it");
    stage.play.open("work");
    stage.play.open("look");
    let ended = stage.resume(None).await;
    assert!(matches!(ended.final_text.as_deref(), Some("Done." | "I wait.")), "{ended:?}");
    assert_eq!(stage.result("m", 1)["final_text"], "Seen.");
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
    let asked = stage.play.asked();
    assert_eq!(asked[&("Work.".to_owned(), 0)], 1, "what was answered is not asked again");
    assert_eq!(asked[&("Look.".to_owned(), 0)], 1);
    assert_eq!(stage.room.state.count.load(std::sync::atomic::Ordering::Relaxed), 2, "and not done again");
}

#[tokio::test]
async fn a_result_is_announced_after_a_resume_with_another_prompt() {
    let stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Look."}"#, "Something else.", "Seen, too."]),
        ("Look.", &["@look Seen."]),
    ]);
    broken_off(&stage, 1).await;
    stage.play.open("look");
    let ended = stage.resume(Some("Do something else.")).await;
    assert_eq!(stage.result("m", 0)["error"], prompts::CONTINUES_AS_JOB);
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
    assert!(matches!(ended.final_text.as_deref(), Some("Seen, too." | "Something else.")), "{ended:?}");
}

#[tokio::test]
async fn a_tree_that_was_broken_off_can_be_ended_from_outside() {
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, r#"spawn_sub_agent{"prompt":"Look."}"#, "never"]),
        ("Work.", &["@work Worked."]),
        ("Look.", &["@look Seen."]),
    ]);
    broken_off(&stage, 2).await;
    end_tree(stage.store(), &RunId::new("m"), store::Millis(0)).await.expect("ended");
    let by_user = RunStatus::CancelledByUser;
    let runs = ["m", "m-2-0", "m-4-0"].map(|run| (run.to_owned(), by_user));
    assert_eq!(stage.runs(), runs);
    let calls = stage.store().run(&RunId::new("m")).tool_calls().expect("calls");
    let last = calls.last().expect("it started two");
    assert_eq!(last.status, store::CallStatus::Failed, "no call of a run that has ended is shown as at work");
    assert!(format!("{:?}", last.result).contains(prompts::ENDED_WITH_YOU), "{last:?}");
}

#[tokio::test]
async fn a_job_cancelled_before_a_crash_sends_no_more_requests() {
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, r#"spawn_sub_agent{"prompt":"Look."}"#, "Done.", "Told."]),
        ("Work.", &["@work Worked."]),
        ("Look.", &["@look Seen."]),
    ]);
    broken_off(&stage, 2).await;
    let (job, by) = (RunId::new("m-2-0"), RunStatus::CancelledByParent);
    stage.store().request_cancel(&job, by, store::Millis(0)).await.expect("asked");
    let attempts = || stage.store().run(&job).model_calls().expect("calls").len();
    let before = (attempts(), stage.play.asked()[&("Work.".to_owned(), 0)]);
    stage.play.open("look");
    stage.resume(None).await;
    assert_eq!(stage.status("m-2-0"), by);
    assert_eq!((attempts(), stage.play.asked()[&("Work.".to_owned(), 0)]), before, "nobody was asked");
}

/// Its parent ended it before its process was gone, and so it takes along whom it waits for.
#[tokio::test]
async fn a_job_cancelled_before_a_crash_also_ends_its_sub_agent() {
    let mut stage = Stage::new(&[
        (
            "Do it.",
            &[r#"spawn_sub_agent{"prompt":"Lead.","run_in_background":true}"#, "@busy Done.", "Told."],
        ),
        ("Lead.", &[r#"spawn_sub_agent{"prompt":"Work."}"#, "never"]),
        ("Work.", &["@work Worked."]),
    ]);
    stage.tree_limits.max_depth = 2;
    broken_off(&stage, 2).await;
    let by = RunStatus::CancelledByParent;
    stage.store().request_cancel(&RunId::new("m-2-0"), by, store::Millis(0)).await.expect("asked");
    stage.play.open("busy");
    stage.resume(None).await;
    assert_eq!((stage.status("m-2-0"), stage.status("m-2-0-2-0")), (by, by));
    assert_eq!(stage.result("m-2-0", 0)["error"], prompts::ENDED_WITH_YOU);
    let calls = stage.store().run(&RunId::new("m-2-0")).tool_calls().expect("calls");
    assert_eq!(calls[0].status, store::CallStatus::Failed);
}

#[tokio::test]
async fn a_sub_agent_is_still_reported_after_a_rule_denies_new_ones() {
    let mut stage = Stage::new(&[
        ("Do it.", &[r#"spawn_sub_agent{"prompt":"Look."}"#, "I wait.", "Done."]),
        ("Look.", &["@look Seen."]),
    ]);
    broken_off(&stage, 1).await;
    stage.rules.add(RuleList::Deny, "spawn_sub_agent").expect("a rule");
    stage.play.open("look");
    stage.resume(None).await;
    let result = stage.result("m", 0);
    assert_eq!((&result["run_id"], &result["error"]), (&"m-2-0".into(), &prompts::CONTINUES_AS_JOB.into()));
    assert_eq!((stage.status("m-2-0"), stage.told_of("m", "m-2-0")), (RunStatus::Completed, 1));
}

#[tokio::test]
async fn text_from_before_a_crash_is_kept_when_the_run_is_ended() {
    let stage = Stage::new(&[
        (
            "Do it.",
            &["I begin. + spawn_sub_agent{\"prompt\":\"Work.\",\"run_in_background\":true}", "@busy Done."],
        ),
        ("Work.", &["It is in parser.c. + count{}", "@work Worked."]),
    ]);
    broken_off(&stage, 2).await;
    end_tree(stage.store(), &RunId::new("m-2-0"), store::Millis(0)).await.expect("ended");
    let row = stage.row("m-2-0");
    assert_eq!((row.final_text, row.partial_text.as_deref()), (None, Some("It is in parser.c.")));
    end_tree(stage.store(), &RunId::new("m"), store::Millis(0)).await.expect("ended");
    assert_eq!(stage.row("m").partial_text.as_deref(), Some("I begin."));
}

#[tokio::test]
async fn an_answer_that_was_cut_and_gone_on_with_is_kept_whole_when_the_run_is_ended() {
    let stage = Stage::new(&[("Do it.", &["One…", "two…", "@busy three."])]);
    broken_off(&stage, 1).await;
    end_tree(stage.store(), &RunId::new("m"), store::Millis(0)).await.expect("ended");
    assert_eq!(stage.row("m").partial_text.as_deref(), Some("One…two…"));
}
