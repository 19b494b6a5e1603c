//! Forks as another agent, and slash commands that run in a fork.

use serde_json::Value;

use super::{World, events};
use crate::common::CommandOutput;

impl World {
    /// Writes a definition of the user.
    fn define(&self, path: &str, text: &str) {
        self.env.write(&format!("home/.config/offshoot/{path}"), text);
    }

    /// Runs the parent, with an agent `reader` beside it.
    fn with_reader() -> (Self, String) {
        let world = Self::new();
        world.define("agents/reader.md", "---\ndescription: reads\ntools: read\n---\nI only read.\n");
        assert_eq!(world.run(&["run", "--model", "sonnet", "Do it."]).code, Some(0));
        let main = world.main();
        (world, main)
    }
}

fn names(body: &Value) -> Vec<&str> {
    body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn ended(said: &CommandOutput) -> Value {
    let all = events(said);
    all.into_iter().find(|event| event["type"] == "fork_ended").unwrap_or_else(|| panic!("{said:?}"))
}

#[test]
fn a_side_question_has_the_instructions_and_tools_of_its_agent() {
    let (world, main) = World::with_reader();
    let said = world.run(&["run", "--json", "--fork-of", &main, "--agent", "reader", "Which files?"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(ended(&said)["differs"], serde_json::json!(["tools", "instructions"]));
    let bodies = world.provider.bodies();
    let (parent, fork) = (&bodies[1], &bodies[2]);
    assert_eq!(names(fork), ["read"]);
    assert!(fork["system"].to_string().contains("I only read."));
    let plain = |body: &Value| {
        body.to_string()
            .replace(r#","cache_control":{"type":"ephemeral"}"#, "")
            .replace(r#""cache_control":{"type":"ephemeral"},"#, "")
    };
    assert_eq!(plain(&fork["messages"][0]), plain(&parent["messages"][0]));
    let shown = world.show(ended(&said)["run"].as_str().unwrap());
    assert_eq!(shown["run"]["agent"], "reader");
    assert_eq!(shown["tool_calls"][0]["status"], "failed", "it has no `list`: {shown}");
    // The output for people names it.
    let said = world.run(&["run", "--fork-of", &main, "--agent", "reader", "And then?"]);
    assert!(said.stderr.contains("other tools and instructions"), "{said:?}");
    let said = world.run(&["run", "--fork-of", &main, "--agent", "nobody", "And then?"]);
    assert!(said.code == Some(2) && said.stderr.contains("no agent `nobody`"), "{said:?}");
}

#[test]
fn a_slash_command_gives_its_agent_and_its_limits_to_a_side_question() {
    let (world, main) = World::with_reader();
    world.define("commands/ask.md", "---\ndescription: asks\nagent: reader\n---\nAnd then?\n");
    world.define("commands/limited.md", "---\ndescription: asks\nallowed-tools: read\n---\nWhich files?\n");
    let said = world.run(&["run", "--json", "--fork-of", &main, "/ask"]);
    assert_eq!((said.code, &ended(&said)["label"]), (Some(0), &"side question".into()), "{said:?}");
    assert_eq!(names(world.provider.bodies().last().unwrap()), ["read"]);
    let said = world.run(&["run", "--json", "--fork-of", &main, "/limited"]);
    let end = ended(&said);
    assert_eq!((said.code, &end["differs"]), (Some(0), &serde_json::json!([])), "{said:?}");
    let shown = world.show(end["run"].as_str().unwrap());
    assert_eq!(shown["tool_calls"][0]["status"], "denied", "{shown}");
    assert!(names(world.provider.bodies().last().unwrap()).len() > 1, "the request stays the same");
}

#[test]
fn a_slash_command_with_context_fork_leaves_a_resumed_run_as_it_is() {
    let (world, main) = World::with_reader();
    world.define(
        "commands/aside.md",
        "---\ndescription: asks\ncontext: fork\nagent: reader\n---\nAnd then?\n",
    );
    let before = world.show(&main);
    let said = world.run(&["run", "--resume", &main, "/aside"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Nothing.\n"), "{said:?}");
    assert!(said.stderr.contains("runs in a fork"), "{said:?}");
    assert_eq!(before["messages"], world.show(&main)["messages"]);
    let fork = world.runs().into_iter().find(|run| run["kind"] == "fork").unwrap();
    let shown = world.show(fork["run"].as_str().unwrap());
    assert_eq!(
        (&shown["fork"]["label"], &shown["fork"]["source"]),
        (&"/aside".into(), &"slash command".into())
    );
    assert_eq!(shown["run"]["agent"], "reader");
    // A new run has nothing to fork.
    let said = world.run(&["run", "--model", "sonnet", "/aside"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Nothing.\n"), "{said:?}");
    assert_eq!(world.runs().iter().filter(|run| run["kind"] == "main").count(), 2);
}
