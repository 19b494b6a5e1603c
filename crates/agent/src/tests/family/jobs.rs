//! Jobs: started, polled, reported once.

use serde_json::json;

use super::*;

const LAUNCH: &str = r#"spawn_sub_agent{"prompt":"Work.","run_in_background":true}"#;

#[tokio::test]
async fn an_idle_parent_is_woken_once() {
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, "I wait.", "It is done."]),
        ("Work.", &["@late echo{\"say\":\"x\"}", "Worked."]),
    ]);
    let run = stage.start("Do it.").await;
    let parked = async {
        stage.play.wait_for(1).await;
        // It has said that it waits before anybody lets the job go on.
        while stage.status("m") != RunStatus::Waiting {
            tokio::task::yield_now().await;
        }
        stage.play.open("late");
    };
    let (ended, ()) = tokio::join!(stage.go(&run), parked);
    assert_eq!(ended.final_text.as_deref(), Some("It is done."));
    assert_eq!(stage.results("m"), [r#"{"job_id":"m-2-0","run_id":"m-2-0","status":"running"}"#]);
    assert_eq!(stage.told_of("m", "m-2-0"), 1);
    let woken = r#"<job_ended job_id=\"m-2-0\" agent=\"general-purpose\" status=\"completed\">\nWorked.\n</job_ended>"#;
    assert!(stage.said_to("m").contains(woken), "{}", stage.said_to("m"));
    assert!(stage.store().run(&run).inbox().expect("inbox").is_empty());
}

#[tokio::test]
async fn a_busy_parent_gets_all_job_results_at_its_next_turn() {
    let stage = Stage::new(&[
        (
            "Do it.",
            &[
                &format!("{LAUNCH} + {}", LAUNCH.replace("Work", "Toil")),
                r#"spawn_sub_agent{"prompt":"Busy."}"#,
                "All is done.",
            ],
        ),
        ("Work.", &["@go Worked."]),
        ("Toil.", &["@go Toiled."]),
        ("Busy.", &["@both Busy no more."]),
    ]);
    let run = stage.start("Do it.").await;
    let both = async {
        stage.play.wait_for(3).await;
        stage.play.open("go");
        while stage.store().run(&run).inbox().expect("inbox").len() < 2 {
            tokio::task::yield_now().await;
        }
        stage.play.open("both");
    };
    let (ended, ()) = tokio::join!(stage.go(&run), both);
    assert_eq!(ended.final_text.as_deref(), Some("All is done."));
    assert_eq!((stage.told_of("m", "m-2-0"), stage.told_of("m", "m-2-1")), (1, 1));
    let last = stage.said_to("m").lines().rev().nth(1).expect("the last question").to_owned();
    assert!(last.contains("Busy no more.") && last.contains("Worked.") && last.contains("Toiled."), "{last}");
}

#[tokio::test]
async fn a_fetched_result_is_not_announced_again() {
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, r#"job_output{"job_id":"m-2-0","block":true}"#, "Done."]),
        ("Work.", &["Worked."]),
    ]);
    stage.run("Do it.").await;
    let wanted =
        json!({ "job_id": "m-2-0", "run_id": "m-2-0", "status": "completed", "final_text": "Worked." });
    assert_eq!(stage.result("m", 1), wanted);
    assert_eq!(stage.told_of("m", "m-2-0"), 0);
    assert!(stage.store().run(&RunId::new("m")).inbox().expect("inbox").is_empty());
}

#[tokio::test]
async fn job_output_of_a_running_job_shows_its_transcript() {
    let stage = Stage::new(&[
        (
            "Do it.",
            &[
                LAUNCH,
                r#"job_output{"job_id":"m-2-0","block":true,"timeout_ms":0}"#,
                r#"job_output{"job_id":"m-2-0","cursor":0} + spawn_sub_agent{"prompt":"Open."}"#,
                "I wait.",
                r#"job_output{"job_id":"m-2-0","cursor":3}"#,
                "Done.",
            ],
        ),
        ("Work.", &["I begin. + echo{\"say\":\"said\"}", "@end Worked."]),
        ("Open.", &["Opened."]),
    ]);
    let run = stage.start("Do it.").await;
    let opened = async {
        stage.play.wait_for(1).await;
        while stage.runs().len() < 3 || stage.status("m-6-1") != RunStatus::Completed {
            tokio::task::yield_now().await;
        }
        stage.play.open("end");
    };
    let (ended, ()) = tokio::join!(stage.go(&run), opened);
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
    assert_eq!(stage.result("m", 1)["status"], "running");
    assert_eq!(stage.result("m", 1).get("final_text"), None);
    let all = stage.result("m", 4);
    assert_eq!(all["final_text"], "Worked.", "still there after it was told");
    assert_eq!(all["transcript"], "[4] reply: Worked.\n");
    assert_eq!(all["next_cursor"], 4);
}

#[tokio::test]
async fn a_run_can_read_only_its_own_jobs() {
    let mut stage = Stage::new(&[
        (
            "Do it.",
            &[
                r#"spawn_sub_agent{"prompt":"Middle."}"#,
                r#"job_output{"job_id":"m"} + job_output{"job_id":"nobody"} + job_output{"job_id":"m-2-0"} + job_cancel{"job_id":"m-2-0-2-0"}"#,
                "Done.",
            ],
        ),
        (
            "Middle.",
            &[
                LAUNCH,
                r#"job_output{"job_id":"m"} + job_cancel{"job_id":"m-2-0"} + job_output{"job_id":"m-2-0-2-0","block":true}"#,
                "Middle done.",
            ],
        ),
        ("Work.", &["Worked."]),
    ]);
    stage.tree_limits.max_depth = 2;
    stage.run("Do it.").await;
    let inner = stage.results("m-2-0");
    assert!(inner[1].contains("is the run that you work for") && inner[1].contains("m-2-0-2-0"), "{inner:?}");
    assert!(inner[2].contains("is your own run") && inner[2].contains("nor cancel it"), "{inner:?}");
    assert!(inner[3].contains("Worked."), "{inner:?}");
    let outer = stage.results("m");
    assert!(outer[1].contains("is your own run") && outer[1].contains("you have started none"), "{outer:?}");
    assert!(outer[2].contains("no job `nobody`"), "{outer:?}");
    assert!(outer[3].contains("was no job"), "{outer:?}");
    assert!(outer[4].contains("is not a job of yours"), "{outer:?}");
}

#[tokio::test]
async fn a_long_answer_is_cut_in_the_notice_and_complete_in_job_output() {
    let long = "x".repeat(40_000);
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, "I wait.", r#"job_output{"job_id":"m-2-0"}"#, "Done."]),
        ("Work.", &[&long]),
    ]);
    stage.run("Do it.").await;
    let said = stage.said_to("m");
    assert!(said.contains("23616 more bytes: call `job_output`"), "{}", said.len());
    assert_eq!(stage.result("m", 1)["final_text"], long);
}

#[tokio::test]
async fn a_very_long_answer_is_read_in_pieces() {
    let long: String = (0..20_000).map(|n| format!("{n} ")).collect();
    let ask = |more: &str| format!(r#"job_output{{"job_id":"m-2-0"{more}}}"#);
    let mut lines = vec![LAUNCH.to_owned(), "I wait.".to_owned()];
    lines.extend((0..3).map(|n| ask(&format!(r#","offset":{}"#, n * (48 << 10)))));
    // Its one reply is behind message 1, and longer than what is shown of a transcript.
    lines.extend((0..9).map(|n| ask(&format!(r#","cursor":1,"offset":{}"#, n * (16 << 10)))));
    lines.push("Done.".to_owned());
    let stage = Stage {
        play: Arc::new(play::Play::of(vec![
            ("Do it.".to_owned(), lines),
            ("Work.".to_owned(), vec![long.clone()]),
        ])),
        ..Stage::new(&[])
    };
    stage.run("Do it.").await;
    let read = |results: std::ops::Range<usize>, field: &str| -> String {
        let piece = |n| stage.result("m", n)[field].as_str().expect("a text").to_owned();
        let own = |text: String| text.split("\n[").next().unwrap_or_default().to_owned();
        results.map(piece).map(own).collect()
    };
    let answer = read(1..4, "final_text");
    assert!(long.starts_with(&answer) && answer.len() > 100_000, "{} of {}", answer.len(), long.len());
    assert_eq!(stage.result("m", 1)["next_offset"], (48 << 10));
    let transcript = read(4..13, "transcript");
    assert_eq!(transcript.strip_prefix("[2] reply: ").map(str::trim_end), Some(long.trim_end()));
    let beside = stage.result("m", 4)["final_text"].as_str().unwrap_or_default().to_owned();
    assert!(beside.len() < 1200 && beside.ends_with("without `cursor` you get them]"), "{beside}");
    assert_eq!(
        (stage.result("m", 4)["next_cursor"].as_i64(), stage.result("m", 4)["next_offset"].as_i64()),
        (Some(1), Some(16 << 10))
    );
}

#[tokio::test]
async fn a_parent_at_its_step_cap_is_woken_by_its_job() {
    let mut stage = Stage::new(&[
        ("Do it.", &[LAUNCH, "That is all I could do.", "Told."]),
        ("Work.", &["@end Worked."]),
    ]);
    stage.room.limits.max_steps = 1;
    let run = stage.start("Do it.").await;
    let waits = async {
        while stage.status("m") != RunStatus::Waiting {
            tokio::task::yield_now().await;
        }
        stage.play.open("end");
    };
    let (ended, ()) = tokio::join!(stage.go(&run), waits);
    assert_eq!((stage.told_of("m", "m-2-0"), ended.final_text.as_deref()), (1, Some("Told.")));
}

/// The calls of its last reply are not made, and do not keep it from getting reports of its jobs, or from ending.
#[tokio::test]
async fn a_run_at_its_step_limit_still_waits_for_its_jobs() {
    let two = format!("{LAUNCH} + {}", LAUNCH.replace("Work.", "Play."));
    let mut stage = Stage::new(&[
        ("Do it.", &[&two, "echo{\"say\":\"more\"}", "Told.", "Told again."]),
        ("Work.", &["@one Worked."]),
        ("Play.", &["@two Played."]),
    ]);
    stage.room.limits.max_steps = 1;
    let run = stage.start("Do it.").await;
    let waits = async {
        for (told, door) in [(0, "one"), (1, "two")] {
            while stage.status("m") != RunStatus::Waiting || stage.told_of("m", "m-2-0") != told {
                tokio::task::yield_now().await;
            }
            stage.play.open(door);
        }
    };
    let (ended, ()) = tokio::join!(stage.go(&run), waits);
    assert_eq!(ended.final_text.as_deref(), Some("Told again."));
    assert_eq!((stage.told_of("m", "m-2-0"), stage.told_of("m", "m-2-1")), (1, 1));
    assert!(stage.said_to("m").contains(prompts::NO_RESULT), "{}", stage.said_to("m"));
}

#[tokio::test]
async fn an_answer_cut_beside_a_transcript_is_still_delivered() {
    let long = "long ".repeat(400);
    let stage = Stage::new(&[
        ("Do it.", &[LAUNCH, r#"job_output{"job_id":"m-2-0","block":true,"cursor":0}"#, "Told."]),
        ("Work.", &[&long]),
    ]);
    let ended = stage.run("Do it.").await;
    let shown = stage.result("m", 1)["final_text"].as_str().expect("an answer").to_owned();
    assert!(shown.ends_with("[2000 bytes in all: without `cursor` you get them]"), "{shown}");
    assert_eq!((stage.told_of("m", "m-2-0"), ended.final_text.as_deref()), (1, Some("Told.")));
}

#[tokio::test]
async fn a_summary_lists_the_running_jobs() {
    let mut stage = Stage::new(&[
        ("Do it.", &[LAUNCH, "echo{\"say\":\"x\"} | in=900", "What mattered."]),
        ("Work.", &["@end Worked."]),
        ("What mattered.", &["is replaced", "I wait.", "Done."]),
    ]);
    stage.room.limits.compact_at = 500;
    let run = stage.start("Do it.").await;
    let waits = async {
        while stage.status("m") != RunStatus::Waiting {
            tokio::task::yield_now().await;
        }
        stage.play.open("end");
    };
    let (_, ()) = tokio::join!(stage.go(&run), waits);
    let said = stage.said_to("m");
    assert!(
        said.contains(r"<jobs>\nThese jobs are still running; you will be notified when they end:\n- m-2-0"),
        "{said}"
    );
}

#[tokio::test]
async fn omissions_from_a_transcript_are_named() {
    let (long, say) = ("word ".repeat(4000), r#"echo{"say":"x"}"#);
    let stage = Stage::new(&[
        (
            "Do it.",
            &[
                LAUNCH,
                "I wait.",
                r#"job_output{"job_id":"m-2-0","cursor":0}"#,
                r#"job_output{"job_id":"m-2-0","cursor":1}"#,
                r#"job_output{"job_id":"m-2-0","cursor":3}"#,
                "Done.",
            ],
        ),
        ("Work.", &[&format!("{} + {say}", "short ".repeat(2500)), &long]),
    ]);
    stage.run("Do it.").await;
    let shown = |n: usize| {
        let result = stage.result("m", n);
        let text = result["transcript"].as_str().expect("a transcript").to_owned();
        (
            text.lines()
                .filter(|line| line.starts_with('[') && line.ends_with(']'))
                .map(str::to_owned)
                .collect::<Vec<_>>(),
            result["next_cursor"].as_i64(),
        )
    };
    // The prompt and the first reply fit; its results are part of that, and the second reply is too long for itself.
    assert_eq!(shown(1), (vec!["[1 more message: continue at cursor 3]".to_owned()], Some(3)));
    assert_eq!(shown(2), shown(1));
    assert_eq!(shown(3), (vec!["[3628 more bytes: continue at offset 16384]".to_owned()], Some(3)));
}

#[tokio::test]
async fn jobs_are_reported_in_the_order_of_their_starts() {
    let launch = |name: &str| format!(r#"spawn_sub_agent{{"prompt":"{name}","run_in_background":true}}"#);
    let three = [launch("One."), launch("Two."), launch("Three.")].join(" + ");
    let stage = Stage::new(&[
        ("Do it.", &[&three, "@told I wait.", "I have heard."]),
        ("One.", &["@one 1"]),
        ("Two.", &["@two 2"]),
        ("Three.", &["@three 3"]),
    ]);
    let run = stage.start("Do it.").await;
    let open = async {
        let ended =
            |run: &str| stage.runs().iter().any(|(id, status)| id == run && *status == RunStatus::Completed);
        stage.play.wait_for(4).await;
        for (gate, run) in [("three", "m-2-2"), ("two", "m-2-1"), ("one", "m-2-0")] {
            stage.play.open(gate);
            while !ended(run) {
                tokio::task::yield_now().await;
            }
        }
        stage.play.open("told");
    };
    tokio::join!(stage.go(&run), open);
    let said = stage.said_to("m");
    let at = |job: &str| said.find(&format!("<job_ended job_id=\\\"{job}")).expect("told of");
    assert!(at("m-2-0") < at("m-2-1") && at("m-2-1") < at("m-2-2"), "{said}");
}

/// A job that ends a moment after the one that wakes the parent is reported together with it.
#[tokio::test(start_paused = true)]
async fn jobs_that_end_together_are_reported_together() {
    let launch = |name: &str| format!(r#"spawn_sub_agent{{"prompt":"{name}","run_in_background":true}}"#);
    let two = [launch("One."), launch("Two.")].join(" + ");
    let stage =
        Stage::new(&[("Do it.", &[&two, "I wait.", "Both."]), ("One.", &["@one 1"]), ("Two.", &["@two 2"])]);
    let run = stage.start("Do it.").await;
    let open = async {
        while stage.status("m") != RunStatus::Waiting {
            tokio::task::yield_now().await;
        }
        stage.play.open("one");
        while stage.status("m") != RunStatus::Running {
            tokio::task::yield_now().await;
        }
        stage.play.open("two");
        // The paused clock does not advance while a task is busy.
        while stage.status("m-2-1") != RunStatus::Completed {
            tokio::task::yield_now().await;
        }
    };
    let (ended, ()) = tokio::join!(stage.go(&run), open);
    assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::Completed, Some("Both.")));
    assert_eq!((stage.told_of("m", "m-2-0"), stage.told_of("m", "m-2-1")), (1, 1));
}

/// In the other order, a job that ends between the two looks would not be reported.
#[tokio::test]
async fn a_job_that_ends_between_two_checks_is_reported() {
    let stage =
        Arc::new(Stage::new(&[("Do it.", &[LAUNCH, "I wait.", "Told."]), ("Work.", &["@end Worked."])]));
    let play = Arc::clone(&stage.play);
    let between: agent_loop::Between = Box::new(move |run| {
        let play = Arc::clone(&play);
        Box::pin(async move {
            let said = run.kernel.store.run(run.id()).messages().expect("messages").len();
            if run.is_root() && said == 4 {
                play.open("end");
                while run.tree.count_below(run.id()) > 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            }
        })
    });
    agent_loop::BETWEEN.with_borrow_mut(|happens| *happens = Some(between));
    let ended = stage.run("Do it.").await;
    agent_loop::BETWEEN.with_borrow_mut(|happens| *happens = None);
    assert_eq!((stage.told_of("m", "m-2-0"), ended.final_text.as_deref()), (1, Some("Told.")));
}
