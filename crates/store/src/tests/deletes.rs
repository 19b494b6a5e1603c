//! Deletions and what they take along.

use session::TaskId;

use super::*;

/// Counts the remaining rows that belong to runs, by table.
async fn rows(store: &Store) -> Vec<(&'static str, i64)> {
    let tables = crate::open::ALL_RUNS.iter();
    let mut left = Vec::new();
    for table in tables {
        let count = store
            .read_all(|conn| {
                Ok(conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?)
            })
            .expect("counted");
        left.push((*table, count));
    }
    left
}

async fn family() -> Room {
    let room = room();
    let store = &room.store;
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    let seq = store.turn("m", "go", &["spawn"]).await;
    store.start_run(job_run("s", "m"), ME).await.expect("started");
    store.start_run(child_run("g", "s", "m", RunKind::Fork), ME).await.expect("started");
    for run in ["s", "g"] {
        let within = vec![Limit { run: run_id("m"), microusd: None, tokens: Some(1000) }];
        let asked = NewModelCall { head: Head::new(&b"sub"[..]), within, ..question(run) };
        let call = store.begin_model_call(asked).await.expect("asked");
        store.finish_model_call(call, attempt("raw"), answer("found", &["read"])).await.expect("answered");
    }
    store
        .finish_job_and_notify_parent(&run_id("s"), ending(RunStatus::Completed, "found"), b"{}".to_vec())
        .await
        .expect("finished");
    let file = SeenFile { path: "a.txt".into(), sha256: Digest::of(b"a") };
    let launched = FinishedCall { seen: vec![file], ..finished(key("m", seq, 0), "launched") };
    store.finish_call(launched).await.expect("finished");
    store.record_process(&run_id("g"), Lease { pid: 9, start: 90 }, NOW).await.expect("registered");
    room
}

#[tokio::test]
async fn deleting_a_run_deletes_all_below_and_nothing_else() {
    let room = family().await;
    let hash = Head::new(&b"sub"[..]).hash();
    assert_eq!(room.store.run(&run_id("s")).head(hash).expect("read"), Some(b"sub".to_vec()));
    room.store.delete_run(&run_id("s")).await.expect("deleted");
    assert_eq!(
        rows(&room.store).await,
        [
            ("runs", 1),
            ("messages", 2),
            ("tool_calls", 1),
            ("model_calls", 1),
            ("attempts", 1),
            ("heads", 1),
            ("jobs", 0),
            ("inbox", 0),
            ("seen_files", 1),
            ("processes", 1),
            ("reserved_tokens", 0),
            ("forks", 0),
            ("spent", 1),
            ("hook_answers", 0),
            ("folder_notes", 0),
            ("resumptions", 0)
        ]
    );
    assert_eq!(room.store.said("m"), ["start", "go"]);
    assert!(matches!(room.store.delete_run(&run_id("s")).await, Err(StoreError::NoRun(_))));
}

#[tokio::test]
async fn deleting_a_thread_leaves_no_row() {
    let room = family().await;
    room.store.main().search("start", 1).expect("indexed");
    room.store.delete_thread(&thread_id("m")).await.expect("deleted");
    assert!(rows(&room.store).await.iter().all(|(_, left)| *left == 0));
    assert_eq!(room.store.main().threads(9).expect("threads"), []);
    assert_eq!(room.store.main().search("start", 1).expect("searched"), []);
    assert!(matches!(room.store.delete_thread(&thread_id("m")).await, Err(StoreError::NoThread(_))));
}

#[tokio::test]
async fn deleting_a_task_only_unlinks_it() {
    let room = room();
    let store = &room.store;
    let task = TaskId::new("t");
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    let planned = NewTask {
        id: task.clone(),
        thread: thread_id("m"),
        subject: "look".to_owned(),
        description: "look around".to_owned(),
        at: NOW,
    };
    store.create_task(planned.clone()).await.expect("planned");
    let twice = store.create_task(planned).await;
    assert!(matches!(twice, Err(StoreError::Exists { what: "task", .. })), "{twice:?}");
    let run = NewRun { task: Some(task.clone()), ..child_run("s", "m", "m", RunKind::Sub) };
    store.start_run(run, ME).await.expect("started");
    assert_eq!(store.run(&run_id("s")).row().expect("row").task, Some(task.clone()));
    store.delete_task(&thread_id("m"), &task).await.expect("deleted");
    assert_eq!(store.run(&run_id("s")).row().expect("still there").task, None);
    assert_eq!(store.said("s"), ["look"]);
}

#[tokio::test]
async fn tasks_belong_to_their_thread_and_change_only_on_request() {
    let room = room();
    let store = &room.store;
    for id in ["a", "b"] {
        store.start_run(main_run(id, "start"), ME).await.expect("started");
    }
    for id in ["first", "second"] {
        let task = NewTask {
            id: TaskId::new(id),
            thread: thread_id("a"),
            subject: id.to_owned(),
            description: String::new(),
            at: NOW,
        };
        store.create_task(task).await.expect("planned");
    }
    let task = TaskId::new("first");
    let result = TaskChange { result: Some("an answer".to_owned()), ..TaskChange::default() };
    let foreign = store.update_task(&thread_id("b"), &task, result.clone(), NOW).await;
    assert!(matches!(foreign, Err(StoreError::NoTask(_))), "{foreign:?}");
    store.update_task(&thread_id("a"), &task, result, NOW).await.expect("updated");
    let tasks = store.main().tasks(&thread_id("a")).expect("tasks");
    assert_eq!(tasks[0].result.as_deref(), Some("an answer"));
    assert_eq!(tasks[0].status, TaskStatus::Pending, "answering is a fact, completing is a judgement");
    assert_eq!((tasks[0].position, tasks[1].position), (0, 1));
    let done = TaskChange { status: Some(TaskStatus::Complete), ..TaskChange::default() };
    store.update_task(&thread_id("a"), &task, done, NOW).await.expect("updated");
    let task_now = &store.main().tasks(&thread_id("a")).expect("tasks")[0];
    assert_eq!((task_now.status, task_now.result.as_deref()), (TaskStatus::Complete, Some("an answer")));
    let run = NewRun { task: Some(task), ..child_run("s", "b", "b", RunKind::Sub) };
    assert!(matches!(store.start_run(run, ME).await, Err(StoreError::NoTask(_))));
}

#[tokio::test]
async fn memory_and_settings_are_replaced_by_name() {
    let room = room();
    let store = &room.store;
    store.start_run(main_run("m", "start"), ME).await.expect("started");
    let note = |thread: Option<&str>, text: &str| Memory {
        thread: thread.map(thread_id),
        name: "style".to_owned(),
        text: text.to_owned(),
        updated_at: NOW,
    };
    for text in ["long", "short"] {
        store.put_memory(note(None, text)).await.expect("put");
        store.put_memory(note(Some("m"), &format!("{text} here"))).await.expect("put");
    }
    let texts = |thread: Option<&str>| -> Vec<String> {
        let found = store.main().memory(thread.map(thread_id).as_ref()).expect("read");
        found.into_iter().map(|memory| memory.text).collect()
    };
    assert_eq!(texts(Some("m")), ["short", "short here"]);
    assert_eq!(texts(Some("other")), ["short"]);
    assert_eq!(texts(None), ["short"]);
    assert!(store.delete_memory(None, "style").await.expect("deleted"));
    assert!(!store.delete_memory(None, "style").await.expect("gone"));
    assert_eq!(texts(Some("m")), ["short here"]);

    assert_eq!(store.main().setting("theme").expect("read"), None);
    store.put_setting("theme", "dark").await.expect("put");
    store.put_setting("theme", "light").await.expect("put");
    assert_eq!(store.main().setting("theme").expect("read").as_deref(), Some("light"));
}

#[tokio::test]
async fn tasks_are_changed_together_or_not_at_all_and_planned_once() {
    let room = room();
    let store = &room.store;
    for id in ["a", "b"] {
        store.start_run(main_run(id, "start"), ME).await.expect("started");
    }
    let new = |id: &str| NewTask {
        id: TaskId::new(id),
        thread: thread_id("a"),
        subject: id.to_owned(),
        description: String::new(),
        at: NOW,
    };
    let status =
        |id: &str, status| (TaskId::new(id), TaskChange { status: Some(status), ..TaskChange::default() });
    let seen = || -> Vec<String> {
        let tasks = store.main().tasks(&thread_id("a")).expect("tasks");
        tasks.iter().map(|task| format!("{} {}", task.id, task.status)).collect()
    };
    for _ in 0..2 {
        let changes = vec![status("first", TaskStatus::InProgress)];
        store
            .change_tasks(&thread_id("a"), vec![new("first"), new("second")], changes, NOW)
            .await
            .expect("done");
        assert_eq!(seen(), ["first in_progress", "second pending"]);
    }
    let changes = vec![status("first", TaskStatus::Failed), status("third", TaskStatus::Failed)];
    let refused = store.change_tasks(&thread_id("a"), vec![new("lost")], changes, NOW).await;
    assert!(matches!(refused, Err(StoreError::NoTask(_))), "{refused:?}");
    let foreign = vec![status("first", TaskStatus::Failed)];
    let refused = store.change_tasks(&thread_id("b"), Vec::new(), foreign, NOW).await;
    assert!(matches!(refused, Err(StoreError::NoTask(_))), "{refused:?}");
    assert_eq!(seen(), ["first in_progress", "second pending"]);
}
