//! A journal that an earlier version wrote opens with every row.

use super::*;

/// Creates the database of a fixture, which is a journal in SQL.
fn database_of(fixture: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    rusqlite::Connection::open(&path).and_then(|file| file.execute_batch(fixture)).expect("a fixture");
    (folder, path)
}

#[tokio::test]
async fn a_journal_of_version_4_has_every_row() {
    let (_folder, path) = database_of(include_str!("../../fixtures/journal-v4.sql"));
    has_every_row(&open(&path).expect("opens"), 0).await;
}

#[tokio::test]
async fn a_journal_of_version_5_has_every_row() {
    let (_folder, path) = database_of(include_str!("../../fixtures/journal-v5.sql"));
    let store = open(&path).expect("opens");
    has_every_hook(&store);
    has_every_row(&store, 0).await;
}

#[tokio::test]
async fn a_journal_of_version_6_has_every_row() {
    let (_folder, path) = database_of(include_str!("../../fixtures/journal-v6.sql"));
    let store = open(&path).expect("opens");
    has_every_hook(&store);
    has_every_row(&store, 1).await;
    let run = store.run(&run_id("m2"));
    let resumptions = run.resumptions().expect("resumptions");
    let statuses: Vec<_> = resumptions.iter().map(|resumption| resumption.status).collect();
    assert_eq!(statuses, [RunStatus::Paused, RunStatus::Running]);
    let call = CallKey { run: run_id("m1"), message: Seq(2), position: 1 };
    assert_eq!(store.run(&run_id("m1")).addressee(&call).expect("read"), Some(run_id("m2")));
    assert_eq!(run.attempts(ModelCallId(3)).expect("attempts")[0].ending, "killed");
}

fn has_every_hook(store: &Store) {
    let run = store.run(&run_id("m1"));
    let answers = run.hook_answers(Seq(2)).expect("answers");
    assert_eq!(
        answers.iter().map(|answer| (answer.position, answer.event)).collect::<Vec<_>>(),
        [(None, HookEvent::Stop), (Some(0), HookEvent::PreToolUse)]
    );
    assert_eq!(run.folder_notes().expect("notes")[0].text, "Water the beds.");
    assert_eq!(store.run(&run_id("m1-f")).folder_notes().expect("notes"), [], "the fork began before it");
}

/// Reads every row, and resumes the paused run. `unpriced` requests were open at a kill.
async fn has_every_row(store: &Store, unpriced: u64) {
    assert_eq!(store.check().expect("checked").problems, Vec::<String>::new());
    assert_eq!(store.said("m1"), ["How many seeds are there?", "I ask a counter."]);
    assert_eq!(store.said("m1-s"), ["Count the seeds.", "Seven seeds."]);
    let runs = store.runs(&Filter::default()).expect("runs");
    let statuses: Vec<_> = runs.iter().map(|run| (run.id.to_string(), run.status)).collect();
    let expected = [
        ("m2", RunStatus::Paused),
        ("m1-f", RunStatus::Failed),
        ("m1-s", RunStatus::Completed),
        ("m1", RunStatus::Completed),
    ];
    assert_eq!(statuses, expected.map(|(id, status)| (id.to_owned(), status)));

    let run = store.run(&run_id("m1"));
    let calls = run.tool_calls().expect("tool calls");
    assert_eq!((calls.len(), calls[0].result.as_ref().map(|result| result.blocks.len())), (1, Some(1)));
    assert_eq!(run.attempts(ModelCallId(1)).expect("attempts").len(), 2);
    assert_eq!(run.delivered().expect("delivered").len(), 1);
    assert_eq!(run.seen_files().expect("files").len(), 1);
    let totals = run.totals().expect("totals");
    assert_eq!((totals.calls, totals.cost_microusd), (2, 800));
    let fork = store.run(&run_id("m1-f")).fork().expect("read").expect("a fork");
    assert_eq!((fork.of, fork.to), (run_id("m1"), Seq(2)));
    assert_eq!(store.main().tasks(&thread_id("t1")).expect("tasks")[0].status, TaskStatus::Complete);
    assert_eq!(store.main().memory(None).expect("memory").len(), 1);
    assert_eq!(store.main().search("seeds", 9).expect("searched").len(), 1);

    let paused = store.run(&run_id("m2"));
    let row = paused.row().expect("a row");
    assert_eq!((row.final_text, row.partial_text.as_deref()), (None, Some("I am still counting.")));
    assert_eq!(
        store.run(&run_id("m1")).row().expect("a row").final_text.as_deref(),
        Some("There are seven seeds.")
    );
    assert_eq!(paused.totals().expect("totals").unpriced, unpriced);

    // The paused run continues.
    store.take_lease(&run_id("m2"), ME, NOW, |_| false).await.expect("resumed");
    let snapshot = store.run(&run_id("m2")).snapshot().expect("a snapshot");
    assert_eq!(snapshot.last_call.expect("a call").status, ModelCallStatus::Asked);
    assert_eq!(store.run(&run_id("m2")).inbox().expect("inbox").len(), 1);
    let row = store.run(&run_id("m2")).row().expect("a row");
    assert_eq!((row.final_text, row.partial_text), (None, None), "a resumed run has no text");
}
