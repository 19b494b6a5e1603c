//! What an agent knows from the beginning, and what it can plan and remember.

use store::{Memory, Millis};

use super::*;

/// Everything that a run has of its own, in a room with the real tools.
fn kernel(room: &Room) -> Kernel {
    Kernel { tools: Arc::new(Toolbox::new(crate::tools::builtin())), ..room.kernel() }
}

/// Plays replies in a kernel.
async fn play(room: &Room, kernel: &Kernel, start: Start, replies: &[&str]) -> Ended {
    replies.iter().for_each(|reply| room.model.shall_say(reply));
    let run = kernel.start(start).await.expect("started");
    *room.run.lock().expect("sound") = Some(run.clone());
    kernel.run(&run, &More::default(), &Brake::new()).await.expect("ended")
}

fn first_words(room: &Room) -> String {
    let messages = room.store.run(&room.run()).messages().expect("messages");
    let blocks = blocks(room.model.dialect(), &String::from_utf8_lossy(&messages[0].bytes));
    let Block::Text { text } = &blocks[0] else { panic!("{blocks:?}") };
    text.clone()
}

#[tokio::test(start_paused = true)]
async fn a_conversation_begins_with_what_there_is_to_know() {
    let room = Room::new();
    let write = |name: &str, text: &str| {
        std::fs::write(room.folder.path().join("w").join(name), text).expect("written");
    };
    write("AGENTS.md", "Use tabs.\n");
    write("CLAUDE.md", "Use tabs.");
    play(&room, &kernel(&room), room.start_of("old things"), &["done"]).await;
    let memory = |n: usize| Memory {
        thread: None,
        name: format!("note-{n:02}"),
        text: format!("number {n}\nand more"),
        updated_at: Millis(0),
    };
    for n in 0..42 {
        room.store.put_memory(memory(n)).await.expect("kept");
    }
    write("CLAUDE.md", &"x".repeat(40_000));
    let skill = Skill { name: "release".into(), description: "How to make one".into(), ..Skill::default() };
    let kernel = Kernel { skills: Arc::from([skill]), ..kernel(&room) };
    let start = room.start_of("new things");
    play(&room, &kernel, start, &["done"]).await;
    let told = first_words(&room).replace(&"x".repeat(32 << 10), "X");
    let (before, rest) = told.split_once("- note-01").expect("many");
    let (_, after) = rest.split_once("note-39").expect("many");
    expect_test::expect![[r#"
        <context>
        `AGENTS.md` in the workspace says:
        <file name="AGENTS.md">
        Use tabs.
        </file>

        `CLAUDE.md` in the workspace says:
        <file name="CLAUDE.md">
        X
        [7232 bytes more: `read` has them]
        </file>

        Skills, which the tool `skill` gives in full:
        - release: How to make one

        Remembered, by the beginning; the tool `memory` has the rest:
        - note-00 (user): number 0
        […] (user): number 39
        - and 2 more

        Today is Thursday, 2026-01-01 (UTC).

        Earlier conversations in this folder, newest first; `sessions_search` finds what was said:
        - old things
        </context>
    "#]]
    .assert_eq(&format!("{before}[…]{after}\n"));
}

#[tokio::test(start_paused = true)]
async fn what_is_planned_is_there_when_everything_else_is_forgotten() {
    let mut room = Room::new();
    room.limits.compact_at = 1000;
    let kernel = kernel(&room);
    let plan = r#"manage_tasks{"create":[{"subject":"one","description":"in full"},{"subject":"two"}]}"#;
    let begin = r#"manage_tasks{"update":[{"id":"2.0.1","status":"in_progress"}]} | in=5000"#;
    let ended =
        play(&room, &kernel, room.start_of("plan"), &[plan, begin, "it was about a plan", "done"]).await;
    assert_eq!(ended.status, RunStatus::Completed, "{ended:?}");
    laws::hold(&room);
    let last = room.model.asked().pop().expect("asked");
    let last = String::from_utf8_lossy(&last);
    assert!(last.contains("it was about a plan"), "{last}");
    let tasks = r"as they stand now:\n2.0.1 in_progress: one\n    in full\n2.0.2 pending: two\n</tasks>";
    assert!(last.contains(tasks), "{last}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_has_its_own_words_and_only_its_tools() {
    let room = Room::new();
    let start = Start {
        instructions: Some("You are the keeper of the yard.".to_owned()),
        tools: Some(vec!["read".to_owned(), "list".to_owned()]),
        ..room.start_of("look")
    };
    let write = r#"write{"path":"a.txt","content":"x"}"#;
    play(&room, &kernel(&room), start, &[write, "I cannot"]).await;
    laws::hold(&room);
    let asked = room.model.asked();
    let prompt = room.model.dialect().decode_request(&asked[0]).expect("a request");
    let tools: Vec<String> = prompt.tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(tools, ["read", "list"]);
    assert!(String::from_utf8_lossy(&asked[0]).contains("keeper of the yard"));
    assert!(!room.folder.path().join("w/a.txt").exists(), "what it was not given it cannot call");
    assert!(
        room.transcript().contains("there is no tool `write`; there are: read, list"),
        "{}",
        room.transcript()
    );
    // A run that is taken up before its first question was sent asks as it would have.
    let settings = Settings::of(&room.store.run(&room.run()).row().expect("a row")).expect("settings");
    let again = kernel(&room).head(store::RunKind::Main, "claude-sonnet-5", &settings).expect("a head");
    assert!(asked[0].starts_with(&again.bytes()[..again.bytes().len() - 1]));
}

#[test]
fn settings_that_were_stored_before_there_were_agents_are_read() {
    let old = br#"{"format":1,"dialect":"anthropic","max_steps":7,"max_budget_microusd":null,"compact_at":1,"context":"","workspace":"/w","max_tokens":1}"#;
    let settings = Settings::from_bytes(old).expect("still read");
    assert_eq!((settings.instructions, settings.tools), (None, None));
}
