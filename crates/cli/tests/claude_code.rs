//! The real Claude Code, offline, on a scripted model.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::path::PathBuf;

use common::*;
use wire::dialect::Dialect;

fn program(version: &str) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("OFFSHOOT_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("offshoot")))
        .unwrap_or_else(|| set("HOME").unwrap().join(".cache/offshoot"));
    let program = cache.join("harness/claude-code").join(version).join("claude");
    assert!(program.exists(), "Claude Code {version} is not in the cache: `cargo xtask test` installs it");
    program
}

/// Runs it on `examples/hello.yaml` through the proxy, with a canary as its key.
fn record(version: &str) {
    let env = TestEnv::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello.yaml");
    let program = program(version);
    for folder in ["home", "tmp", "workspace"] {
        std::fs::create_dir(env.path(folder)).unwrap();
    }
    env.write("workspace/a-file.txt", "text\n");
    let key = ["sk", "ant", "api03", &"Zy4".repeat(12)].join("-");
    let recording = env.path("rec");
    let mut command =
        env.offshoot(&["proxy", "--script", script, "--out", recording.to_str().unwrap(), "--"]);
    command
        .arg(program)
        .args(["-p", "Say hello.", "--model", "haiku", "--dangerously-skip-permissions"])
        .args(["--output-format", "stream-json", "--verbose"])
        .current_dir(env.path("workspace"))
        .envs([("ANTHROPIC_API_KEY", key.as_str()), ("IS_SANDBOX", "1"), ("DISABLE_TELEMETRY", "1")])
        .envs([("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("DISABLE_AUTOUPDATER", "1")])
        .env("DISABLE_ERROR_REPORTING", "1")
        .env("TMPDIR", env.path("tmp"))
        .env("CLAUDE_CODE_TMPDIR", env.path("tmp"));
    let said = Said::of(command.output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains("Hello from a scripted model."), "{said:?}");

    let opened = recording::Recording::open(&recording).unwrap();
    assert_eq!(opened.state(), &recording::State::Sealed);
    let exchanges: Vec<_> = opened.exchanges().map(|exchange| exchange.unwrap()).collect();
    assert!(exchanges.len() >= 2, "one turn to list the folder, one to say hello");
    let mut results = Vec::new();
    for exchange in exchanges.iter().filter(|exchange| exchange.request.url.contains("/v1/messages")) {
        assert_eq!(exchange.ending, wire::Ending::Complete);
        let body = opened.bytes_of(&exchange.request.body).unwrap().unwrap();
        let prompt = Dialect::AnthropicMessages.decode_request(&body).unwrap();
        assert_eq!(prompt.unknown, [], "{}: nothing unknown in known places", exchange.id);
        let secret =
            exchange.request.headers.iter().find(|header| header.name().eq_ignore_ascii_case("x-api-key"));
        assert!(matches!(secret, Some(wire::Header::Secret { present: true, .. })));
        results.extend(prompt.results().map(|result| format!("{:?}", result.blocks)));
    }
    assert!(results.iter().any(|result| result.contains("a-file.txt")), "the tool ran: {results:?}");
    for (path, bytes) in files(&recording) {
        assert!(
            !bytes.windows(key.len()).any(|window| window == key.as_bytes()),
            "{} holds the key",
            path.display()
        );
    }
    assert!(recording.join("stdout.jsonl").exists(), "what it printed is named by what it is");
}

#[test]
fn version_2_0_76() {
    record("2.0.76");
}

#[test]
fn version_2_1_325() {
    record("2.1.325");
}
