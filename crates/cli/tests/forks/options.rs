//! Options of `--fork-of`: each changes exactly what its documentation says.

use serde_json::Value;

use super::{World, events};
use crate::common::CommandOutput;

/// Runs the parent, and then the fork. Returns its output and its requests.
fn fork(world: &World, options: &[&str], prompt: &str) -> (CommandOutput, Vec<Value>) {
    if world.runs().is_empty() {
        assert_eq!(world.run(&["run", "--model", "sonnet", "Do it."]).code, Some(0));
    }
    let before = world.provider.bodies().len();
    let main = world.main();
    let said = world.run(&[&["run", "--json", "--fork-of", &main], options, &[prompt]].concat());
    (said, world.provider.bodies()[before..].to_vec())
}

/// Returns a request without its messages.
fn head(body: &Value) -> Value {
    let mut head = body.clone();
    head.as_object_mut().unwrap().remove("messages");
    head
}

fn ended(said: &CommandOutput) -> Value {
    let all = events(said);
    all.into_iter().find(|event| event["type"] == "fork_ended").unwrap_or_else(|| panic!("{said:?}"))
}

/// Returns the run id of the fork.
fn id(said: &CommandOutput) -> String {
    ended(said)["run"].as_str().unwrap().to_owned()
}

#[test]
fn label_and_source_are_in_the_events_and_the_journal_and_in_no_request() {
    let world = World::new();
    let (plain, plain_bodies) = fork(&world, &[], "Which files?");
    let (said, bodies) = fork(&world, &["--label", "audit", "--source", "my editor"], "Which files?");
    assert_eq!(
        (&ended(&plain)["label"], &ended(&plain)["source"]),
        (&"side question".into(), &"run --fork-of".into())
    );
    assert_eq!((&ended(&said)["label"], &ended(&said)["source"]), (&"audit".into(), &"my editor".into()));
    assert_eq!(world.show(&id(&said))["fork"]["label"], "audit");
    assert_eq!(bodies[0], plain_bodies[0]);
}

#[test]
fn an_output_limit_changes_only_the_limit() {
    let world = World::new();
    let (_, plain) = fork(&world, &[], "Which files?");
    let (said, bodies) = fork(&world, &["--max-output-tokens", "77"], "Which files?");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(bodies.len(), 2);
    for (body, plain) in bodies.iter().zip(&plain) {
        let mut wanted = head(plain);
        wanted["max_tokens"] = 77.into();
        assert_eq!(head(body), wanted);
        assert_eq!(body["messages"], plain["messages"]);
    }
    let (said, bodies) = fork(&world, &["--max-output-tokens", "9000000"], "Which files?");
    assert_eq!((said.code, bodies.len()), (Some(2), 0), "{said:?}");
    assert!(said.stderr.contains("9000000 tokens is above the run's"), "{said:?}");
}

#[test]
fn without_a_transcript_only_the_usage_is_kept() {
    let world = World::new();
    let (said, _) = fork(&world, &["--no-transcript"], "Which files?");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(ended(&said)["messages"], 4, "they are counted all the same");
    let shown = world.show(&id(&said));
    assert_eq!(shown["messages"].as_array().map(Vec::len), Some(0), "{shown}");
    assert!(!shown.to_string().contains("given.txt alone"), "{shown}");
    let again = world.run(&["run", "--resume", &id(&said), "And then?"]);
    assert!(again.code == Some(2) && again.stderr.contains("was not kept"), "{again:?}");
}

/// Returns the positions of the messages with a cache marker.
fn marked(body: &Value) -> Vec<usize> {
    let messages = body["messages"].as_array().unwrap().iter().enumerate();
    messages.filter(|(_, message)| message.to_string().contains("cache_control")).map(|(n, _)| n).collect()
}

#[test]
fn without_cache_writes_no_message_of_the_fork_has_a_marker() {
    let world = World::new();
    let (_, plain) = fork(&world, &[], "Which files?");
    let (_, bodies) = fork(&world, &["--no-cache-write"], "Which files?");
    // The parent has four messages; its last request ended with the third.
    assert_eq!([marked(&plain[0]), marked(&plain[1])], [vec![2, 3], vec![3, 6]]);
    assert_eq!([marked(&bodies[0]), marked(&bodies[1])], [vec![0, 2], vec![0, 2]]);
    assert_eq!(head(&bodies[0]), head(&plain[0]));
}

#[test]
fn with_fresh_files_a_file_is_read_before_it_is_edited() {
    let world = World::new();
    let (said, plain) = fork(&world, &["--fresh-files"], "Change it.");
    let calls = world.show(&id(&said))["tool_calls"].clone();
    assert_eq!(calls[0]["status"], "failed", "{calls}");
    assert!(calls.to_string().contains("read"), "{calls}");
    assert_eq!(std::fs::read_to_string(world.env.path("w/given.txt")).unwrap(), "given\n");
    let (said, bodies) = fork(&world, &[], "Change it.");
    assert_eq!(world.show(&id(&said))["tool_calls"][0]["status"], "done");
    assert_eq!(std::fs::read_to_string(world.env.path("w/given.txt")).unwrap(), "taken\n");
    assert_eq!(bodies[0], plain[0]);
}

#[test]
fn a_reminder_ends_every_message_to_the_fork() {
    let world = World::new();
    let (_, bodies) = fork(&world, &["--reminder", "Be brief."], "Which files?");
    let last = bodies.last().unwrap()["messages"].as_array().unwrap().clone();
    let own: Vec<&Value> = last[4..].iter().filter(|message| message["role"] == "user").collect();
    assert_eq!(own.len(), 2);
    for message in own {
        assert_eq!(message["content"].as_array().unwrap().last().unwrap()["text"], "Be brief.");
    }
    assert!(!Value::from(last[..4].to_vec()).to_string().contains("Be brief."));
}

#[test]
fn with_required_permission_no_call_passes_without_an_answer() {
    let world = World::new();
    let (said, bodies) = fork(&world, &["--require-permission"], "Which files?");
    assert_eq!(said.code, Some(0), "{said:?}");
    let calls = world.show(&id(&said))["tool_calls"].clone();
    assert_eq!(calls[0]["status"], "denied", "{calls}");
    assert!(calls.to_string().contains("every call of this fork needs permission"), "{calls}");
    let (_, plain) = fork(&world, &[], "Which files?");
    assert_eq!(bodies[0], plain[0]);
}

#[test]
fn options_that_make_no_sense_are_usage_errors() {
    let world = World::new();
    assert_eq!(world.run(&["run", "--model", "sonnet", "Do it."]).code, Some(0));
    let main = world.main();
    let valued = ["--label", "--source", "--max-output-tokens", "--reminder"].map(|flag| vec![flag, "5"]);
    let plain = ["--no-transcript", "--no-cache-write", "--fresh-files", "--require-permission"]
        .map(|flag| vec![flag]);
    for flag in valued.iter().chain(&plain) {
        for other in [&[][..], &["--resume", &main][..]] {
            let said = world.run(&[&["run"], other, flag, &["Which files?"]].concat());
            assert_eq!(said.code, Some(2), "{flag:?}: {said:?}");
            assert!(said.stderr.contains("--fork-of"), "{flag:?}: {said:?}");
        }
    }
    for (flags, why) in [
        (&["--label", " "][..], "--label: the text is empty"),
        (&["--source", ""], "--source: the text is empty"),
        (&["--reminder", "\n"], "--reminder: the text is empty"),
        (&["--max-output-tokens", "0"], "--max-output-tokens"),
        (&["--require-permission", "--allow", "list"], "--allow"),
    ] {
        let said = world.run(&[&["run", "--fork-of", &main], flags, &["Which files?"]].concat());
        assert!(said.code == Some(2) && said.stderr.contains(why), "{flags:?}: {said:?}");
    }
    assert_eq!(world.runs().len(), 1, "nothing was started");
}
