//! The user and the main agent see main runs only, in every read.

use std::path::Path;

use session::TaskId;

use super::*;

const SECRET: &str = "xyzzy";

/// Stores a complete sub-agent or fork with the secret in everything that can contain it.
async fn secret_run(store: &Store, kind: RunKind) {
    let id = format!("{SECRET}-{kind}");
    let run = run_id(&id);
    let new = NewRun {
        spawned_by: Some(CallId::new(SECRET)),
        background: kind == RunKind::Sub,
        agent: SECRET.to_owned(),
        model: SECRET.to_owned(),
        provider: SECRET.to_owned(),
        settings: SECRET.as_bytes().to_vec(),
        chain: SECRET.to_owned(),
        messages: vec![prompt(SECRET)],
        ..child_run(&id, "m", "m", kind)
    };
    store.start_run(new, ME).await.expect("started");
    let call = NewModelCall {
        head: Head::new(SECRET.as_bytes()),
        marks: SECRET.to_owned(),
        model: SECRET.to_owned(),
        provider: SECRET.to_owned(),
        results: Some(prompt(SECRET)),
        ..question(&id)
    };
    let call = store.begin_model_call(call).await.expect("asked");
    let lost = NewAttempt { error: Some(SECRET.to_owned()), ending: SECRET.to_owned(), ..attempt(SECRET) };
    store.record_failed_attempt(call, lost).await.expect("kept");
    let seq =
        store.finish_model_call(call, attempt(SECRET), answer(SECRET, &[SECRET])).await.expect("answered");
    let seq = seq.expect("a message");
    let answer = NewHookAnswer {
        run: run.clone(),
        message: seq,
        position: Some(0),
        event: HookEvent::PreToolUse,
        answer: SECRET.as_bytes().to_vec(),
        input: Some(SECRET.as_bytes().to_vec()),
        at: NOW,
    };
    store.record_hook_answer(answer).await.expect("recorded");
    let mut done = finished(key(&id, seq, 0), SECRET);
    done.preview = Some(SECRET.to_owned());
    done.folders = vec![FolderText { folder: SECRET.into(), text: SECRET.to_owned() }];
    store.finish_call(done).await.expect("finished");
    let failed = store.begin_model_call(question(&id)).await.expect("asked");
    store.fail_model_call(failed, NOW, SECRET).await.expect("given up");
    let note = NewInboxEntry {
        run: run.clone(),
        kind: InboxKind::Message,
        body: SECRET.as_bytes().to_vec(),
        at: NOW,
        sent_by: None,
    };
    store.send(note).await.expect("sent");
    store
        .compact_messages(&run, vec![message(Role::User, Origin::Summary, SECRET)])
        .await
        .expect("compacted");
    let end = RunEnd { error: Some(SECRET.to_owned()), ..ending(RunStatus::Failed, SECRET) };
    if kind == RunKind::Sub {
        let body = SECRET.as_bytes().to_vec();
        store.finish_job_and_notify_parent(&run, end, body).await.expect("finished");
    } else {
        store.end_run(&run, end).await.expect("ended");
    }
}

async fn with_secrets() -> Room {
    let room = room();
    let store = &room.store;
    store.start_run(main_run("m", "hello"), ME).await.expect("started");
    store.turn("m", "spawning", &["spawn"]).await;
    let task = NewTask {
        id: TaskId::new("t"),
        thread: thread_id("m"),
        subject: "look".to_owned(),
        description: String::new(),
        at: NOW,
    };
    store.create_task(task).await.expect("planned");
    secret_run(store, RunKind::Sub).await;
    secret_run(store, RunKind::Fork).await;
    store.turn("m", "goodbye", &[]).await;
    room
}

/// Calls every public read for the user and returns the names and results.
fn every_read(store: &Store) -> Vec<(&'static str, String)> {
    fn shown<T: std::fmt::Debug>(read: Result<T, StoreError>) -> String {
        // Bytes are shown as text, so that the secret is found in them as well.
        let debug = format!("{:?}", read.expect("read"));
        let mut text = debug.clone();
        for list in debug.split('[').skip(1) {
            let bytes = list.split(']').next().unwrap_or_default().split(", ").map(str::parse::<u8>);
            if let Ok(bytes) = bytes.collect::<Result<Vec<u8>, _>>() {
                text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        text
    }
    let (main, thread) = (store.main(), thread_id("m"));
    vec![
        ("threads", shown(main.threads(10))),
        ("threads_in", shown(main.threads_in("/w", 10))),
        ("history", shown(main.history(&thread))),
        ("live_messages", shown(main.live_messages(&thread, Cursor::default()))),
        ("tool_calls", shown(main.tool_calls(&thread))),
        ("session_info", shown(main.session_info(&thread))),
        ("read_thread", shown(main.read_thread(&thread, 1, 100))),
        ("search", shown(main.search(SECRET, 10)) + &shown(main.search("hello", 10))),
        ("tasks", shown(main.tasks(&thread))),
        ("memory", shown(main.memory(Some(&thread)))),
        ("setting", shown(main.setting("theme"))),
    ]
}

#[tokio::test]
async fn no_read_for_the_user_shows_a_word_of_another_run() {
    let room = with_secrets().await;
    for (read, shown) in every_read(&room.store) {
        assert!(!shown.contains(SECRET), "{read}: {shown}");
    }
    let main = room.store.main();
    let page = main.read_thread(&thread_id("m"), 2, 2).expect("a page");
    let said: Vec<_> =
        page.messages.iter().map(|said| (said.number, said.role, said.text.as_str())).collect();
    assert_eq!(said, [(2, Role::Assistant, "spawning"), (3, Role::Assistant, "goodbye")]);
    assert_eq!(page.total, 3);
    let last = main.threads(1).expect("threads").remove(0);
    assert_eq!((last.messages, last.preview.as_deref()), (3, Some("goodbye")));
    assert_eq!(main.history(&thread_id("m")).expect("history").len(), 3);
    let info = main.session_info(&thread_id("m")).expect("info");
    assert_eq!((info.runs.len(), info.messages, info.totals.calls), (1, 3, 2));
    // The reads of a run contain it; otherwise this test would prove nothing.
    let sub = room.store.run(&run_id(&format!("{SECRET}-sub")));
    assert!(sub.messages().expect("messages").iter().all(|m| m.text.as_deref() == Some(SECRET)));
}

#[tokio::test]
async fn a_main_agents_context_is_its_own() {
    let room = with_secrets().await;
    let main = room.store.run(&run_id("m"));
    assert!(!format!("{:?}", main.context().expect("context")).contains(SECRET));
    assert_eq!(main.context().expect("context").len(), 3);
}

#[tokio::test]
async fn the_list_of_all_runs_contains_no_text_of_sub_agents() {
    let room = room();
    let store = &room.store;
    store.start_run(main_run("m", "hello"), ME).await.expect("started");
    let new = NewRun {
        settings: SECRET.as_bytes().to_vec(),
        messages: vec![prompt(SECRET)],
        ..child_run("s", "m", "m", RunKind::Sub)
    };
    store.start_run(new, ME).await.expect("started");
    store.turn("s", SECRET, &[SECRET]).await;
    let end = RunEnd { error: Some(SECRET.to_owned()), ..ending(RunStatus::Failed, SECRET) };
    store.end_run(&run_id("s"), end).await.expect("ended");
    let all = store.runs(&Filter::default()).expect("runs");
    assert_eq!(all.len(), 2);
    assert!(!format!("{all:?}").contains(SECRET));
}

/// Returns a source file of this crate without comments.
fn source(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("our own source");
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[tokio::test]
async fn every_read_for_the_user_is_walked_here() {
    let room = with_secrets().await;
    let walked: Vec<&str> = every_read(&room.store).into_iter().map(|(read, _)| read).collect();
    let main = source(&src().join("read/main.rs"));
    let public: Vec<&str> =
        main.split("pub fn ").skip(1).filter_map(|text| text.split(['(', '<']).next()).collect();
    assert_eq!(public, walked);
}

#[tokio::test]
async fn the_connections_for_the_user_refuse_the_tables() {
    let room = with_secrets().await;
    for table in crate::open::ALL_RUNS {
        for sql in [
            format!("SELECT * FROM {table}"),
            format!("SELECT count(*) FROM {table}"),
            format!("SELECT 1 WHERE EXISTS (SELECT 1 FROM {table} WHERE rowid > 0)"),
            format!("SELECT main_runs.id FROM main_runs, {table} WHERE {table}.rowid > 0"),
        ] {
            let read = room.store.read_main(|conn| Ok(conn.prepare(&sql).map(drop)?));
            assert!(read.is_err(), "{sql}");
        }
    }
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'
        AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'message_search%'";
    let tables: Vec<String> = room
        .store
        .read_all(|conn| {
            Ok(conn.prepare(tables)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
        })
        .expect("the tables");
    let known = [crate::open::ALL_RUNS, &["threads", "tasks", "memory", "settings"]].concat();
    for table in tables {
        assert!(known.contains(&table.as_str()), "`{table}`: does it hold rows of all runs? then say so");
    }
}

#[test]
fn queries_of_all_runs_name_their_tables() {
    let may = ["read/run.rs", "read/overview.rs", "copy.rs", "index.rs", "store.rs", "migrate.rs"];
    let mut files = vec![];
    for folder in [src(), src().join("read")] {
        files.extend(std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok).map(|f| f.path()));
    }
    files.retain(|file| file.extension().is_some_and(|ending| ending == "rs"));
    assert!(files.len() > 10, "the crate moved");
    for file in files {
        let name = file.strip_prefix(src()).expect("ours").to_string_lossy().into_owned();
        let words: Vec<String> =
            source(&file).split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect();
        for pair in words.windows(2) {
            let from = ["FROM", "JOIN", "INTO", "UPDATE"].contains(&pair[0].as_str());
            let named = from && crate::open::ALL_RUNS.contains(&pair[1].as_str());
            assert!(!named || may.contains(&name.as_str()), "`{name}` reads {}", pair[1]);
        }
    }
}
