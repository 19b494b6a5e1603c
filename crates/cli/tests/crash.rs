//! Our own kernel, killed at every durable point: what is resumed must end like what was never disturbed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;

use common::{CommandOutput, Proxy, TestEnv};
use serde_json::Value;

/// A run with everything in it that is written down: two calls at once, two that change files, one that must not
/// happen twice, one that fails, and a conversation that gets too long.
const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: main
    match: { tools_include: [get_time] }
    turns:
      - reply:
          - thinking: "two independent looks"
          - text: "I look at both."
          - call: { tool: read, id: toolu_a, input: { path: "a.txt" } }
          - call: { tool: list, id: toolu_b, input: {} }
        usage: { input: 100, output: 20 }
      - reply:
          - call: { tool: write, id: toolu_c, input: { path: "out/c.txt", content: "written once" } }
          - call: { tool: edit, id: toolu_g, input: { path: "a.txt", old: "beta", new: "gamma" } }
          - call: { tool: stamp, id: toolu_d, input: { path: "stamps.txt" } }
          - call: { tool: read, id: toolu_e, input: { path: "missing.txt" } }
        usage: { input: 200, output: 20 }
      - reply:
          - text: "Now the time."
          - call: { tool: get_time, id: toolu_f, input: {} }
          - call: { tool: manage_tasks, id: toolu_g, input: { create: [ { subject: "once" } ] } }
          - call: { tool: memory, id: toolu_h, input: { action: write, name: note, text: "once" } }
        usage: { input: 300, output: 20 }
      - reply: [ { text: "All done." } ]
        usage: { input: 400, output: 20 }
"#;

/// The points at which a request has reached the provider whose answer is not written down.
const ASKED_AGAIN: &[&str] = &["ask.first_byte", "ask.mid_stream", "ask.last_byte"];

/// A provider beside what asks it, and a fresh journal and workspace for each case.
struct World {
    env: TestEnv,
    model: Proxy,
    /// Requests that an earlier provider saw.
    earlier: usize,
}

impl World {
    fn new(script: &str) -> Self {
        let env = TestEnv::new();
        env.write("script.yaml", script);
        std::fs::create_dir_all(env.path("w")).unwrap();
        env.write("w/a.txt", "alpha\nbeta\n");
        env.write("w/out/AGENTS.md", "Keep this folder tidy.");
        let model = Proxy::start(&env, &["proxy", "--script", "script.yaml", "--out", "rec"]);
        Self { env, model, earlier: 0 }
    }

    /// Another provider that says the same. The first one has answered already, and gives a second conversation that
    /// begins alike other ids, as a real one would.
    fn with_another_model(self) -> Self {
        let Self { env, model, .. } = self;
        let earlier = seen_by(&env, model, "rec");
        let model = Proxy::start(&env, &["proxy", "--script", "script.yaml", "--out", "rec-2"]);
        Self { env, model, earlier }
    }

    fn offshoot(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.env.offshoot(arguments);
        command
            .current_dir(self.env.path("w"))
            .env("ANTHROPIC_BASE_URL", format!("http://{}", self.model.addr))
            .env("ANTHROPIC_API_KEY", "sk-test-0123456789")
            .env("OFFSHOOT_CLOCK", "2026-01-01T12:00:00+00:00[UTC]")
            .env("OFFSHOOT_TEST_TOOLS", "1")
            .env("OFFSHOOT_CRASH_LOG", self.env.path("points"));
        command
    }

    fn start(&self, crash: &str) -> std::process::Output {
        let arguments = ["run", "--json", "--events", "all", "--model", "sonnet", "Look around."];
        self.offshoot(&arguments).env("OFFSHOOT_CRASH", crash).output().unwrap()
    }

    /// The one run there is, as `show` has it; nothing where it was never written down.
    fn shown(&self) -> Option<Value> {
        let ps = CommandOutput::of(self.offshoot(&["ps", "--format", "json"]).output().unwrap());
        let ps: Value = serde_json::from_str(&ps.stdout).unwrap_or_else(|error| panic!("{error}: {ps:?}"));
        let run = ps["runs"].get(0)?["run"].as_str()?.to_owned();
        assert_eq!(ps["runs"].as_array().unwrap().len(), 1, "one run and no other");
        let show = CommandOutput::of(self.offshoot(&["show", &run, "--format", "json"]).output().unwrap());
        Some(serde_json::from_str(&show.stdout).unwrap_or_else(|error| panic!("{error}: {show:?}")))
    }

    fn points(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.env.path("points")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Counts the requests that the provider received.
    fn requests(self) -> usize {
        let Self { env, model, earlier } = self;
        let last = if env.path("rec-2").exists() { "rec-2" } else { "rec" };
        earlier + seen_by(&env, model, last)
    }
}

/// Ends a provider; how many requests it saw.
fn seen_by(env: &TestEnv, model: Proxy, recording: &str) -> usize {
    model.interrupt();
    let shown = env.show(recording);
    let lanes = shown["lanes"].as_array().unwrap().iter();
    lanes.map(|lane| lane["exchanges"].as_array().unwrap().len()).sum()
}

/// Returns the parts that must be equal: all messages byte for byte, and all results. `RUN` replaces the run's id.
fn transcript(shown: &Value) -> Vec<String> {
    let run = shown["run"]["run"].as_str().expect("a run has an id");
    let messages = shown["messages"].as_array().unwrap().iter();
    let messages =
        messages.map(|message| common::anywhere(&format!("{} {}", message["origin"], message["wire"])));
    let calls = shown["tool_calls"].as_array().unwrap().iter();
    let calls = calls.map(|call| format!("{} {} {}", call["id"], call["status"], call["result"]));
    messages.chain(calls).map(|line| line.replace(run, "RUN")).collect()
}

/// Returns the hits of each crash point in an undisturbed run, and its transcript.
fn undisturbed(script: &str) -> (BTreeMap<String, u64>, Vec<String>, usize) {
    let world = World::new(script);
    let said = CommandOutput::of(world.start(""));
    assert_eq!(said.code, Some(0), "{said:?}");
    let shown = world.shown().expect("a run");
    assert_eq!(shown["run"]["status"], "completed");
    let mut hits = BTreeMap::new();
    for point in world.points().into_iter().filter(|line| !line.contains(' ')) {
        *hits.entry(point).or_default() += 1;
    }
    let told = transcript(&shown);
    let instructions = told.iter().filter(|message| message.contains("Keep this folder tidy"));
    assert!(instructions.count() > 0, "those of the folder that it writes to");
    (hits, told, world.requests())
}

/// Kills a run there, resumes it, and compares.
fn kill_at(script: &str, point: &str, hit: u64, expected: &[String], requests: usize) {
    let case = format!("{point}:{hit}");
    let world = World::new(script);
    let killed = world.start(&case);
    assert_eq!(killed.status.signal(), Some(9), "{case}: {:?}", CommandOutput::of(killed));
    // A reply that is asked for again comes from a model that has not said it yet.
    let world = if ASKED_AGAIN.contains(&point) { world.with_another_model() } else { world };
    let Some(shown) = world.shown() else {
        assert_eq!(point, "run.start.before", "{case}: nothing is in the journal");
        return;
    };
    let run = shown["run"]["run"].as_str().unwrap().to_owned();
    if shown["run"]["status"] == "completed" {
        assert_eq!(point, "run.end.after", "{case}");
    } else {
        assert_eq!(shown["run"]["status"], "interrupted", "{case}");
        let said = CommandOutput::of(world.offshoot(&["run", "--resume", &run]).output().unwrap());
        assert_eq!(said.code, Some(0), "{case}: {said:?}");
        assert_eq!(said.stdout, "All done.\n", "{case}");
    }
    let shown = world.shown().unwrap();
    assert_eq!(shown["run"]["status"], "completed", "{case}");
    same(&transcript(&shown), expected, &case);
    common::nothing_twice(&world.points(), "toolu_d", &case);
    let asked_again = usize::from(ASKED_AGAIN.contains(&point));
    assert_eq!(world.requests(), requests + asked_again, "{case}: requests that the provider saw");
}

/// Compares transcripts, except for the notes that a call may have run.
fn same(got: &[String], expected: &[String], case: &str) {
    assert_eq!(got.len(), expected.len(), "{case}");
    for (got, expected) in got.iter().zip(expected) {
        if got.contains("It may have run") {
            assert!(got.contains("toolu_d"), "{case}: only the call that must not happen twice: {got}");
            continue;
        }
        assert_eq!(got, expected, "{case}");
    }
}

fn every_hit_of(script: &str, only: impl Fn(&str) -> bool) {
    let (hits, expected, requests) = undisturbed(script);
    let mut cases = 0;
    for (point, hits) in hits.iter().filter(|(point, _)| only(point)) {
        let mut chosen = vec![1, 2, *hits];
        chosen.retain(|hit| hit <= hits);
        chosen.dedup();
        for hit in chosen {
            kill_at(script, point, hit, &expected, requests);
            cases += 1;
        }
    }
    assert!(cases > 0, "no such point was met");
}

#[test]
fn killed_round_the_start_and_the_end() {
    every_hit_of(SCRIPT, |point| point.starts_with("run."));
}

#[test]
fn a_kill_during_a_model_call_is_resumable() {
    every_hit_of(SCRIPT, |point| point.starts_with("ask."));
}

#[test]
fn killed_while_tools_are_called() {
    every_hit_of(SCRIPT, |point| point.starts_with("call."));
}

#[test]
fn killed_while_the_conversation_is_summed_up() {
    let long = SCRIPT.replace("usage: { input: 300, output: 20 }", "usage: { input: 900000, output: 20 }");
    let summary = r#"      - when: { text_contains: "has become too long to continue" }
        reply: [ { text: "It was all about alpha." } ]
        usage: { input: 900000, output: 9 }
      - reply: [ { text: "All done." } ]"#;
    let long = long.replacen(r#"      - reply: [ { text: "All done." } ]"#, summary, 1);
    let (hits, _, _) = undisturbed(&long);
    assert!(hits.contains_key("compact.commit.after"), "{hits:?}");
    let asked = ["ask.intent.after", "ask.first_byte", "ask.last_byte", "ask.commit.after"];
    every_hit_of(&long, |point| point.starts_with("compact.") || asked.contains(&point));
}

/// Replies of a provider that fails at first.
const FAILING: &str = r#"
format: 1
lanes:
  - lane: main
    match: { tools_include: [get_time] }
    turns:
      - error: { status: STATUS, retry_after: 0 }
      - reply: [ { text: "All done." } ]
        usage: { input: 100, output: 20 }
      - reply: [ { text: "And more." } ]
        usage: { input: 200, output: 20 }
"#;

/// Runs commands one after the other, each killed at its crash point. Returns the journal and the requests of the
/// provider.
fn one_after_the_other(script: &str, commands: &[(&[&str], &str)]) -> (Vec<String>, usize) {
    let world = World::new(script);
    for (arguments, crash) in commands {
        let run = world.shown().map(|shown| shown["run"]["run"].as_str().unwrap().to_owned());
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|word| if *word == "RUN" { run.as_deref().unwrap() } else { word })
            .collect();
        let said = world.offshoot(&arguments).env("OFFSHOOT_CRASH", crash).output().unwrap();
        let killed = said.status.signal() == Some(9);
        assert_eq!(killed, !crash.is_empty(), "{arguments:?} {crash}: {:?}", CommandOutput::of(said));
    }
    let shown = world.shown().unwrap();
    assert_eq!(shown["run"]["status"], "completed", "{commands:?}");
    (transcript(&shown), world.requests())
}

const START: &[&str] = &["run", "--model", "sonnet", "Look around."];
const GO_ON: &[&str] = &["run", "--resume", "RUN"];
const MORE: &[&str] = &["run", "--resume", "RUN", "And now?"];

#[test]
fn killed_round_attempts_that_fail() {
    let retried = FAILING.replace("STATUS", "529");
    let expected = one_after_the_other(&retried, &[(START, "")]);
    assert_eq!(expected.1, 2, "an attempt that fails, and one that does not");
    for point in ["ask.failed.before:1", "ask.failed.after:1"] {
        assert_eq!(one_after_the_other(&retried, &[(START, point), (GO_ON, "")]), expected, "{point}");
    }
    let given_up = FAILING.replace("STATUS", "400");
    let expected = one_after_the_other(&given_up, &[(START, ""), (GO_ON, "")]);
    for point in ["ask.gave_up.before:1", "ask.gave_up.after:1"] {
        assert_eq!(one_after_the_other(&given_up, &[(START, point), (GO_ON, "")]), expected, "{point}");
    }
}

#[test]
fn killed_while_it_is_taken_up_again() {
    let script = FAILING.replace("      - error: { status: STATUS, retry_after: 0 }\n", "");
    let expected = one_after_the_other(&script, &[(START, ""), (MORE, "")]);
    for (point, again) in [
        ("resume.reopen.before:1", MORE),
        ("resume.reopen.after:1", MORE),
        ("resume.prompt.before:1", MORE),
        ("resume.prompt.after:1", GO_ON),
    ] {
        let commands = [(START, ""), (MORE, point), (again, "")];
        assert_eq!(one_after_the_other(&script, &commands), expected, "{point}");
    }
    let open = ("ask.intent.after:1", "the question is written down and was never asked");
    let expected = one_after_the_other(&script, &[(START, open.0), (GO_ON, "")]);
    for point in ["resume.lease.before:1", "resume.lease.after:1"] {
        let commands = [(START, open.0), (GO_ON, point), (GO_ON, "")];
        assert_eq!(one_after_the_other(&script, &commands), expected, "{point}, {}", open.1);
    }
    // More is said while a question is open: then it is another one.
    let expected = one_after_the_other(&script, &[(START, open.0), (MORE, "")]);
    for point in ["ask.other.before:1", "ask.other.after:1"] {
        let commands = [(START, open.0), (MORE, point), (GO_ON, "")];
        assert_eq!(one_after_the_other(&script, &commands), expected, "{point}");
    }
}

#[test]
fn every_point_of_the_list_is_met() {
    let (hits, _, _) = undisturbed(SCRIPT);
    // Those of the other tests, which fail where one of them is not met.
    let elsewhere = [
        "compact.",
        "resume.",
        "ask.failed.",
        "ask.gave_up.",
        "ask.other.",
        "spawn.",
        "park.",
        "wake.",
        "inbox.",
        "fetch.",
        "cancel.",
        "job.",
        "child.",
        "fork.",
        "hook.",
        "send.",
        "continue.",
    ];
    let here = |point: &&&str| !elsewhere.iter().any(|prefix| point.starts_with(prefix));
    for point in agent::CRASH_POINTS.iter().filter(here) {
        assert!(hits.contains_key(*point), "`{point}` was never met: {hits:?}");
    }
}
