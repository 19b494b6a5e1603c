//! A run that finds, mends and tests a bug in a real Rust crate under the sandbox, killed at every tool call.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;

use common::{CommandOutput, Proxy, TestEnv};
use serde_json::Value;

/// A command that may have run is run again: building and testing twice does no harm, and that is the model's to know.
const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: main
    match: { tools_include: [bash] }
    turns:
      - reply:
          - text: "I look at it, and whether it works."
          - call: { tool: read, id: toolu_read, input: { path: "src/lib.rs" } }
          - call: { tool: bash, id: toolu_try, input: { command: "cargo test --offline --quiet 2>&1" } }
      - when: { results_contain: "may have run" }
        reply: [ { call: { tool: bash, id: toolu_try_again, input: { command: "cargo test --offline --quiet 2>&1" } } } ]
      - reply: [ { call: { tool: edit, id: toolu_edit, input: { path: "src/lib.rs", old: "a - b", new: "a + b" } } } ]
      - reply: [ { call: { tool: bash, id: toolu_build, input: { command: "cargo build --offline && cargo test --offline" } } } ]
      - when: { results_contain: "may have run" }
        reply: [ { call: { tool: bash, id: toolu_build_again, input: { command: "cargo build --offline && cargo test --offline" } } } ]
      - reply: [ { text: "Mended." } ]
"#;

/// Read, try, edit, build.
const CALLS: u64 = 4;

/// A crate with a bug, and a model that stays when the run that asks it is killed.
struct World {
    env: TestEnv,
    model: Proxy,
}

impl World {
    fn new() -> Self {
        let env = TestEnv::in_memory();
        std::fs::create_dir_all(env.path("w/src")).unwrap();
        std::fs::create_dir_all(env.path("home")).unwrap();
        std::fs::create_dir_all(env.path("tmp")).unwrap();
        env.write("script.yaml", SCRIPT);
        env.write("w/Cargo.toml", "[package]\nname = \"sums\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        env.write(
            "w/src/lib.rs",
            "pub fn sum(a: u32, b: u32) -> u32 {\n    a - b\n}\n\n#[test]\nfn sums() {\n    assert_eq!(sum(3, 2), 5);\n}\n",
        );
        let model = Proxy::start(&env, &["proxy", "--script", "script.yaml", "--out", "rec"]);
        Self { env, model }
    }

    /// `offshoot` of a user who has Rust in HOME.
    fn offshoot(&self, arguments: &[&str]) -> Command {
        let home = |name: &str, below: &str| {
            let set = std::env::var_os(name).map(PathBuf::from);
            set.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(below))
        };
        let mut command = self.env.offshoot(arguments);
        command
            .current_dir(self.env.path("w"))
            .env("CARGO_HOME", home("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", home("RUSTUP_HOME", ".rustup"))
            .env("ANTHROPIC_BASE_URL", format!("http://{}", self.model.addr))
            .env("ANTHROPIC_API_KEY", "sk-test-0123456789")
            .env("TMPDIR", self.env.path("tmp"));
        if let Some(toolchain) = std::env::var_os("RUSTUP_TOOLCHAIN") {
            command.env("RUSTUP_TOOLCHAIN", toolchain);
        }
        command
    }

    fn shown(&self) -> Value {
        let ps = CommandOutput::of(self.offshoot(&["ps", "--format", "json"]).output().unwrap());
        let ps: Value = serde_json::from_str(&ps.stdout).unwrap_or_else(|error| panic!("{error}: {ps:?}"));
        let run = ps["runs"][0]["run"].as_str().unwrap().to_owned();
        let shown = CommandOutput::of(self.offshoot(&["show", &run, "--format", "json"]).output().unwrap());
        serde_json::from_str(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {shown:?}"))
    }

    /// The crate is mended, and the last command says so.
    fn is_mended(&self, case: &str) {
        let shown = self.shown();
        assert_eq!(shown["run"]["status"], "completed", "{case}");
        let calls = shown["tool_calls"].as_array().unwrap();
        let result = |call: &Value| call["result"].to_string();
        let tried = calls.iter().find(|call| result(call).contains("attempt to subtract"));
        let tried = tried.or_else(|| calls.iter().find(|call| result(call).contains("left: 1")));
        assert!(tried.is_some(), "{case}: nobody saw it fail: {calls:?}");
        let edits: Vec<&Value> = calls.iter().filter(|call| call["name"] == "edit").collect();
        assert_eq!(edits.len(), 1, "{case}");
        assert!(result(edits[0]).contains("edited `src/lib.rs` in 1 place"), "{case}: {}", edits[0]);
        let last = calls.last().unwrap();
        assert!(result(last).contains("1 passed"), "{case}: {last}");
        assert_eq!(self.env.read("w/src/lib.rs").matches("a + b").count(), 1, "{case}");
    }
}

#[test]
fn a_crate_is_mended_under_the_sandbox() {
    let world = World::new();
    let said = CommandOutput::of(world.offshoot(&["run", "Mend it."]).output().unwrap());
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Mended.\n"), "{said:?} {}", world.shown());
    world.is_mended("undisturbed");
    world.model.kill();
}

#[test]
fn killed_at_any_tool_call_it_is_mended_all_the_same() {
    for point in ["call.intent.after", "call.effect.after", "call.commit.after"] {
        for hit in 1..=CALLS {
            let case = format!("{point}:{hit}");
            let world = World::new();
            let mut run = world.offshoot(&["run", "Mend it."]);
            let killed = run.env("OFFSHOOT_CRASH", &case).output().unwrap();
            assert_eq!(killed.status.signal(), Some(9), "{case}: {:?}", CommandOutput::of(killed));
            let id = world.shown()["run"]["run"].as_str().unwrap().to_owned();
            let again = world.offshoot(&["run", "--resume", &id]).output().unwrap();
            let said = CommandOutput::of(again);
            assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Mended.\n"), "{case}: {said:?}");
            world.is_mended(&case);
            world.model.kill();
        }
    }
}
