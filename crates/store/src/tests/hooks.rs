//! Answers of hooks and instructions of folders.

use super::*;

fn hook_answer(run: &str, message: Seq, event: HookEvent, input: Option<&str>) -> NewHookAnswer {
    NewHookAnswer {
        run: run_id(run),
        message,
        position: (event != HookEvent::Stop).then_some(0),
        event,
        answer: b"{}".to_vec(),
        input: input.map(|input| input.as_bytes().to_vec()),
        at: NOW,
    }
}

#[tokio::test]
async fn an_answer_is_stored_once_with_the_new_input() {
    let room = room();
    let store = &room.store;
    store.start_run(main_run("m", "hello"), ME).await.expect("started");
    let seq = store.turn("m", "reading", &["read"]).await;
    let answer = || hook_answer("m", seq, HookEvent::PreToolUse, Some(r#"{"path":"b"}"#));
    store.record_hook_answer(answer()).await.expect("recorded");
    let run = store.run(&run_id("m"));
    let input = || run.tool_calls().expect("calls")[0].input.clone();
    assert_eq!(input(), br#"{"path":"b"}"#);
    store.record_hook_answer(answer()).await.expect_err("a second answer");
    store.record_hook_answer(hook_answer("m", seq, HookEvent::Stop, None)).await.expect("recorded");
    assert_eq!(run.hook_answers(seq).expect("answers").len(), 2);
    assert_eq!(run.hook_answers(Seq(1)).expect("answers"), []);

    // The input of a call that has started is what it started with.
    let seq = store.turn("m", "reading again", &["read"]).await;
    store.start_calls(&run_id("m"), &[key("m", seq, 0)], NOW).await.expect("started");
    let late = hook_answer("m", seq, HookEvent::PreToolUse, Some("{}"));
    store.record_hook_answer(late).await.expect_err("it has started");
    assert_eq!(run.hook_answers(seq).expect("answers"), [], "nothing of it is stored");
    store.delete_run(&run_id("m")).await.expect("deleted");
    assert_eq!(run.all_hook_answers().expect("answers"), []);
}

#[tokio::test]
async fn a_folder_has_one_note_and_forks_have_those_before_their_start() {
    let room = room();
    let store = &room.store;
    store.start_run(main_run("m", "hello"), ME).await.expect("started");
    let note = |folder: &str| FolderText { folder: folder.into(), text: format!("about {folder}") };
    let mut replies = Vec::new();
    for folders in [&["a", "b"][..], &["a", "c"]] {
        let seq = store.turn("m", "reading", &["read"]).await;
        let folders = folders.iter().map(|folder| note(folder)).collect();
        let done = FinishedCall { folders, ..finished(key("m", seq, 0), "text") };
        store.finish_call(done).await.expect("finished");
        replies.push(seq);
    }
    let texts = |run: &str| {
        let notes = store.run(&run_id(run)).folder_notes().expect("notes");
        notes.into_iter().map(|note| note.text).collect::<Vec<_>>()
    };
    assert_eq!(texts("m"), ["about a", "about b", "about c"]);
    let mut fork = child_run("f", "m", "m", RunKind::Fork);
    fork.fork = Some(NewFork {
        of: run_id("m"),
        head: Digest::of(b"head"),
        from: Seq(1),
        to: replies[1],
        alone: false,
        knows_files: false,
        label: String::new(),
        source: String::new(),
    });
    store.start_run(fork, ME).await.expect("started");
    assert_eq!(texts("f"), ["about a", "about b"]);
}
