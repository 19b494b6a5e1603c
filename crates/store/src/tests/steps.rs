//! The steps of a run, and the state that a resumed loop finds after each.

use super::*;

async fn started() -> Room {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    room
}

/// The state of `m`, as another process reads it.
fn snapshot(room: &Room) -> RunSnapshot {
    room.reopened().run(&run_id("m")).snapshot().expect("a journal")
}

#[tokio::test]
async fn a_journal_contains_the_state_of_a_run() {
    let room = started().await;
    let store = &room.store;
    let found = snapshot(&room);
    assert_eq!((found.messages.len(), found.last_seq, found.last_call), (1, Some(Seq(1)), None));
    assert_eq!(found.messages[0].bytes, br#"{"said":"start"}"#);

    let call = store.begin_model_call(question("m")).await.expect("asked");
    let found = snapshot(&room).last_call.expect("a question");
    assert_eq!(
        (found.id, found.status, found.from, found.to),
        (call, ModelCallStatus::Asked, Seq(1), Seq(1))
    );
    assert_eq!(
        store.run(&run_id("m")).head(found.head).expect("read"),
        Some(b"{\"system\":\"be brief\"}".to_vec())
    );

    let lost = NewAttempt { status: Some(529), ending: "complete".to_owned(), ..attempt("overloaded") };
    store.record_failed_attempt(call, lost).await.expect("kept");
    assert_eq!(snapshot(&room).last_call.expect("a question").status, ModelCallStatus::Asked);

    let seq = store
        .finish_model_call(call, attempt("raw"), answer("go", &["read", "grep"]))
        .await
        .expect("answered");
    let seq = seq.expect("a message");
    let found = snapshot(&room);
    assert_eq!(found.messages[1].model_call, Some(call));
    assert_eq!(found.last_call.expect("a question").reply, Some(b"go".to_vec()));
    assert_eq!(found.calls.iter().map(|call| call.status).collect::<Vec<_>>(), [CallStatus::Planned; 2]);
    let attempts = store.run(&run_id("m")).attempts(call).expect("attempts");
    let brief: Vec<_> = attempts.iter().map(|a| (a.n, a.status, a.response.as_slice())).collect();
    assert_eq!(brief, [(1, Some(529), &b"overloaded"[..]), (2, Some(200), &b"raw"[..])]);

    store.start_calls(&run_id("m"), &[key("m", seq, 1)], NOW).await.expect("started");
    let mut done = finished(key("m", seq, 1), &"long ".repeat(1000));
    done.preview = Some("long …".to_owned());
    store.finish_call(done.clone()).await.expect("finished");
    let found = snapshot(&room);
    assert_eq!(found.calls[0].status, CallStatus::Planned);
    assert_eq!(found.calls[1].result, Some(done.result));
    assert_eq!(found.calls[1].preview.as_deref(), Some("long …"));
    assert_eq!(found.calls[1].name, "grep");

    store.finish_call(finished(key("m", seq, 0), "short")).await.expect("finished");
    let results = Some(message(Role::User, Origin::Results, "both"));
    let next = NewModelCall { step: 2, results, ..question("m") };
    let next = store.begin_model_call(next).await.expect("asked");
    let found = snapshot(&room);
    assert_eq!(found.messages.len(), 3);
    assert_eq!(found.last_call.map(|call| (call.id, call.to)), Some((next, Seq(3))));
    let failed = store.fail_model_call(next, NOW, "no answer").await;
    failed.expect("given up");
    let call = snapshot(&room).last_call.expect("a question");
    assert_eq!((call.status, call.error.as_deref()), (ModelCallStatus::Failed, Some("no answer")));
}

#[tokio::test]
async fn a_call_has_at_most_one_result() {
    let room = started().await;
    let seq = room.store.turn("m", "go", &["read"]).await;
    let call = key("m", seq, 0);
    room.store.start_calls(&run_id("m"), std::slice::from_ref(&call), NOW).await.expect("started");
    room.store
        .start_calls(&run_id("m"), std::slice::from_ref(&call), NOW)
        .await
        .expect("a pure one may again");
    let open = FinishedCall { status: CallStatus::Running, ..finished(call.clone(), "open") };
    assert!(matches!(room.store.finish_call(open).await, Err(StoreError::Misuse(_))));
    room.store.finish_call(finished(call.clone(), "first")).await.expect("finished");
    let second = room.store.finish_call(finished(call.clone(), "second")).await;
    assert!(matches!(&second, Err(StoreError::AlreadyFinished(which)) if *which == call), "{second:?}");
    let again = room.store.start_calls(&run_id("m"), std::slice::from_ref(&call), NOW).await;
    assert!(matches!(again, Err(StoreError::AlreadyFinished(_))), "{again:?}");
    let kept = &room.store.run(&run_id("m")).tool_calls().expect("calls")[0];
    assert_eq!(kept.result, Some(finished(call, "first").result));
    let nobody = room.store.finish_call(finished(key("m", seq, 9), "")).await;
    assert!(matches!(nobody, Err(StoreError::NoCall(_))), "{nobody:?}");
}

#[tokio::test]
async fn a_question_has_at_most_one_end() {
    let room = started().await;
    let call = room.store.begin_model_call(question("m")).await.expect("asked");
    room.store.finish_model_call(call, attempt("raw"), answer("yes", &[])).await.expect("answered");
    let ends = [
        room.store.finish_model_call(call, attempt("raw"), answer("no", &[])).await.map(|_| ()),
        room.store.record_failed_attempt(call, attempt("raw")).await,
        room.store.fail_model_call(call, NOW, "late").await,
    ];
    for end in ends {
        assert!(matches!(end, Err(StoreError::AlreadyAnswered(which)) if which == call), "{end:?}");
    }
    assert_eq!(room.store.said("m"), ["start", "yes"]);
    assert_eq!(room.store.run(&run_id("m")).attempts(call).expect("attempts").len(), 1);
    let nobody = room.store.fail_model_call(ModelCallId(99), NOW, "").await;
    assert!(matches!(nobody, Err(StoreError::NoModelCall(_))), "{nobody:?}");
}

#[tokio::test]
async fn a_compaction_changes_the_context_and_not_the_history() {
    let room = started().await;
    let store = &room.store;
    store.turn("m", "one", &[]).await;
    store.append(&run_id("m"), vec![prompt("two")]).await.expect("appended");
    let call = NewModelCall { purpose: Purpose::Summary, ..question("m") };
    let call = store.begin_model_call(call).await.expect("asked");
    let summary = NewReply { message: None, ..answer("in short", &[]) };
    let none = store.finish_model_call(call, attempt("raw"), summary).await.expect("answered");
    assert_eq!(none, None);
    let unused = snapshot(&room).last_call.expect("a question");
    assert_eq!((unused.purpose, unused.to), (Purpose::Summary, Seq(3)));

    let left =
        vec![message(Role::User, Origin::Summary, "in short"), message(Role::User, Origin::Carried, "two")];
    assert_eq!(store.compact_messages(&run_id("m"), left).await.expect("compacted"), Seq(4));
    let texts =
        |messages: Vec<StoredMessage>| messages.into_iter().filter_map(|m| m.text).collect::<Vec<_>>();
    assert_eq!(texts(store.run(&run_id("m")).context().expect("context")), ["in short", "two"]);
    assert_eq!(texts(snapshot(&room).messages), ["in short", "two"]);
    let history = store.main().history(&thread_id("m")).expect("history");
    assert_eq!(texts(history.into_iter().map(|m| m.message).collect()), ["start", "one", "two", "in short"]);
    assert_eq!(store.main().search("two", 9).expect("searched").len(), 1);
}

#[tokio::test]
async fn the_user_follows_a_conversation_over_its_runs() {
    let room = started().await;
    let store = &room.store;
    store.end_run(&run_id("m"), ending(RunStatus::Completed, "bye")).await.expect("ended");
    let second =
        NewRun { thread: RunThread::Existing(thread_id("m")), at: Millis(2_000), ..main_run("n", "more") };
    store.start_run(second, ME).await.expect("started");
    let history = store.main().history(&thread_id("m")).expect("history");
    let last = history.last().expect("something").cursor;
    assert_eq!(history.iter().map(|m| m.run.as_str()).collect::<Vec<_>>(), ["m", "n"]);
    assert_eq!(store.main().live_messages(&thread_id("m"), last).expect("live"), []);
    store.turn("n", "fresh", &[]).await;
    let live = store.main().live_messages(&thread_id("m"), last).expect("live");
    assert_eq!(live.iter().filter_map(|m| m.message.text.as_deref()).collect::<Vec<_>>(), ["fresh"]);

    store.start_run(main_run("later", "hi"), ME).await.expect("started");
    store.rename_thread(&thread_id("m"), "renamed").await.expect("renamed");
    let threads = store.main().threads(9).expect("threads");
    assert_eq!(threads[0].id, thread_id("m"), "it changed last");
    assert_eq!(threads[0].title, "renamed");
    assert_eq!(threads[0].last_run, Some((run_id("n"), RunStatus::Running)));
    assert_eq!(store.main().threads(1).expect("threads").len(), 1);
    let info = store.main().session_info(&thread_id("m")).expect("info");
    assert_eq!((info.runs.len(), info.messages, info.totals.calls), (2, 3, 1));
    assert!(matches!(store.main().session_info(&thread_id("x")), Err(StoreError::NoThread(_))));
}

/// SQLite prepares a statement again on every use if its plan may depend on the values.
#[tokio::test]
async fn no_step_makes_sqlite_think_twice() {
    let room = started().await;
    for _ in 0..3 {
        let seq = room.store.turn("m", "go", &["read"]).await;
        room.store.start_calls(&run_id("m"), &[key("m", seq, 0)], NOW).await.expect("started");
        room.store.finish_call(finished(key("m", seq, 0), "short")).await.expect("finished");
        room.store.append(&run_id("m"), vec![prompt("more")]).await.expect("appended");
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files =
        ["write/model_calls.rs", "write/calls.rs", "write/messages.rs", "write/mod.rs", "write/runs.rs"];
    let files = files.into_iter().chain(["read/run.rs"]).map(|file| folder.join(file));
    let source: String = files.map(|file| std::fs::read_to_string(file).expect("our own source")).collect();
    let used = room.store.write(move |conn| {
        let mut used = 0;
        for after in source.split("prepare_cached(").skip(1) {
            let Some(sql) = after.trim_start().strip_prefix('"').and_then(|text| text.split('"').next())
            else {
                continue;
            };
            let statement = conn.prepare_cached(sql)?;
            used += i32::from(statement.get_status(rusqlite::StatementStatus::Run) > 0);
            assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0, "{sql}");
        }
        Ok(used)
    });
    assert!(used.await.expect("looked") > 10, "the statements are not found where they were");
}

#[tokio::test]
async fn known_files_are_stored_with_the_result_of_a_call() {
    let room = started().await;
    let seq = room.store.turn("m", "go", &["read", "edit"]).await;
    let file = |text: &str| SeenFile { path: "a.txt".into(), sha256: Digest::of(text.as_bytes()) };
    let seen = |room: &Room| room.store.run(&run_id("m")).seen_files().expect("files");
    let finish = async |position, file: &SeenFile| {
        let seen = vec![file.clone()];
        room.store.finish_call(FinishedCall { seen, ..finished(key("m", seq, position), "ok") }).await
    };
    finish(0, &file("one")).await.expect("finished");
    assert_eq!(seen(&room), [file("one")]);
    finish(1, &file("two")).await.expect("finished");
    assert_eq!(seen(&room), [file("two")], "the newest");
    finish(1, &file("three")).await.expect_err("it has its result");
    assert_eq!(seen(&room), [file("two")], "a result that was refused changes nothing");
}

#[tokio::test]
async fn a_process_belongs_to_the_root_until_it_is_gone() {
    let room = started().await;
    room.store.start_run(child_run("s", "m", "m", RunKind::Sub), ME).await.expect("started");
    let processes = |run: &str| room.store.run(&run_id(run)).processes().expect("processes");
    let (one, other) = (Lease { pid: 7, start: u64::MAX }, Lease { pid: 8, start: 1 });
    for process in [one, other, one] {
        room.store.record_process(&run_id("s"), process, NOW).await.expect("registered");
    }
    assert_eq!((processes("m"), processes("s")), (vec![one, other], vec![]));
    room.store.remove_process(&run_id("m"), one).await.expect("forgotten");
    assert_eq!(processes("m"), [other]);
}
