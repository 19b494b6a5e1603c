//! `offshoot capture` as its users meet it, with harnesses of a few lines of shell.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]
#![allow(clippy::print_stderr, reason = "what could not be checked is said aloud")]

mod common;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::*;

const SCENARIO: &str = "
format: 1
intent: Say hello.
prompt: Say hello.
model: haiku
timeout_s: 60
";

const SCRIPT: &str = "
format: 1
lanes:
  - lane: main
    match: { any: true }
    turns: [ { repeat: 9, reply: [ { text: \"[main] Hello.\" } ], usage: { input: 3, output: 2 } } ]
";

/// `ask BODY` sends one request with the key it has.
const ASK: &str = r#"
ask() {
  base=${ANTHROPIC_BASE_URL#http://}; at=${base%%/*}; path=${base#"$at"}
  exec 3<>/dev/tcp/${at%:*}/${at#*:}
  printf 'POST %s/v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-api-key: %s\r\nContent-Length: %s\r\n\r\n%s' "$path" "$ANTHROPIC_API_KEY" "${#1}" "$1" >&3
  cat <&3
}
hello='{"model":"haiku","system":"a harness","tools":[{"name":"Read","input_schema":{}}],"messages":[{"role":"user","content":"'${OFFSHOOT_PROMPT:-Say hello.}'"}]}'
"#;

/// A world with a scenario, a place for slots, and a `rg` of its own.
struct World {
    env: TestEnv,
}

impl World {
    fn new() -> Self {
        let env = TestEnv::new();
        std::fs::create_dir_all(env.path("scenario/workspace/notes")).unwrap();
        env.write("scenario/scenario.yaml", SCENARIO);
        env.write("scenario/script.yaml", SCRIPT);
        env.write("scenario/workspace/notes/a.txt", "A note.\n");
        std::fs::create_dir(env.path("bin")).unwrap();
        let world = Self { env };
        world.program("rg", "exit 1");
        world.program("npm", "echo 'npm error code ENOTFOUND' >&2; exit 1");
        world
    }

    /// A shell script on the PATH, before all others.
    fn program(&self, name: &str, text: &str) {
        let path = self.env.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn offshoot(&self, arguments: &[&str]) -> Command {
        let mut command = self.env.offshoot(arguments);
        let path = std::env::var("PATH").unwrap();
        command
            .env("PATH", format!("{}:{path}", self.env.path("bin").display()))
            .env("OFFSHOOT_CACHE_DIR", self.env.path("cache"))
            .env("OFFSHOOT_SLOTS_DIR", self.env.path("slots"));
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(self.offshoot(arguments).output().unwrap())
    }

    /// Captures a shell script into `rec`.
    fn capture(&self, more: &[&str], shell: &str) -> CommandOutput {
        CommandOutput::of(self.capturing(more, shell).output().unwrap())
    }

    fn capturing(&self, more: &[&str], shell: &str) -> Command {
        self.env.write("harness.sh", &format!("{ASK}\n{shell}"));
        let script = self.env.path("harness.sh").display().to_string();
        let mut arguments = vec!["capture", "command", "--scenario", "scenario", "--out", "rec"];
        arguments.extend(more);
        arguments.extend(["--", "bash", &script, "{prompt}"]);
        self.offshoot(&arguments)
    }

    fn manifest(&self) -> serde_json::Value {
        serde_json::from_str(&self.env.read("rec/recording.json")).unwrap()
    }

    /// Nothing of the recording holds any of these.
    #[track_caller]
    fn holds_none_of(&self, secrets: &[&str]) {
        let found = files(&self.env.path("rec"));
        assert!(found.len() > 5, "there is a recording");
        for (path, bytes) in found {
            for secret in secrets {
                let there = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!there, "`{secret}` is in {}", path.display());
                assert!(!path.display().to_string().contains(secret), "{}", path.display());
            }
        }
    }
}

#[test]
fn a_command_is_captured_with_everything_around_it() {
    let world = World::new();
    let said = world.capture(
        &[],
        r#"ask "$hello" >/dev/null; echo "{\"asked\":\"$1\"}"; echo oops >&2; pwd >&2; cat notes/a.txt >&2; touch -d @0 new; stat -c %Y notes/a.txt >&2"#,
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.stdout, "rec\n");
    assert_eq!(world.env.read("rec/stdout.json"), "{\"asked\":\"Say hello.\"}\n");
    let workspace = world.env.path("slots/00/workspace").display().to_string();
    // 2020-01-01 12:01, the second in the order of names.
    let stderr = format!("oops\n{workspace}\nA note.\n1577880060\n");
    assert_eq!(world.env.read("rec/stderr.txt"), stderr);
    assert_eq!(world.env.read("rec/exit_code.txt"), "0\n");
    assert_eq!(world.env.read("rec/workspace/notes/a.txt"), "A note.\n");
    let scenario: serde_json::Value = serde_json::from_str(&world.env.read("rec/scenario.json")).unwrap();
    assert_eq!((&scenario["name"], &scenario["prompt"]), (&"scenario".into(), &"Say hello.".into()));
    let manifest = world.manifest();
    assert_eq!(manifest["sealed"], true);
    assert_eq!(manifest["harness"]["name"], "command");
    assert_eq!(manifest["command"]["cwd"], workspace);
    assert_eq!(manifest["clock"]["time_zone"], "UTC");
    assert_eq!(manifest["counts"]["complete"], 1);
    assert_eq!(manifest["workspace"]["added"], serde_json::json!(["new"]));
    assert!(manifest.get("round_the_proxy").is_none(), "{manifest}");
}

#[test]
fn recordings_are_named_by_their_time() {
    let world = World::new();
    world.env.write("h.sh", &format!("{ASK}\nask \"$hello\""));
    let script = world.env.path("h.sh").display().to_string();
    let run = || world.run(&["capture", "command", "--scenario", "scenario", "--", "bash", &script]);
    let (first, second) = (run(), run());
    assert!(first.stdout.starts_with("recordings/command/none/scenario/20"), "{first:?}");
    assert!(first.stdout < second.stdout, "{first:?} {second:?}");
    assert!(world.env.path(second.stdout.trim()).join("recording.json").exists());
}

#[test]
fn a_harness_that_crashes_at_once_leaves_an_unsealed_recording() {
    let world = World::new();
    let said = world.capture(&[], "echo 'cannot find my config' >&2; exit 5");
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("`command` ended with code 5 before it sent a request"), "{said:?}");
    assert!(said.stderr.contains("cannot find my config"), "{said:?}");
    assert!(said.stderr.contains("\nhint: "), "{said:?}");
    let manifest = world.manifest();
    assert_eq!(manifest["sealed"], false);
    assert_eq!(manifest["command"]["exit_code"], 5);
    assert!(manifest["unsealed_because"].as_str().unwrap().contains("before it sent a request"));
}

#[test]
fn a_harness_that_fails_later_is_sealed_and_named() {
    let world = World::new();
    let said = world.capture(&[], "ask \"$hello\" >/dev/null; echo giving up >&2; exit 7");
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("`command` ended with code 7: giving up"), "{said:?}");
    assert_eq!(world.manifest()["sealed"], true, "a run that failed is a run");
    assert_eq!(world.env.read("rec/exit_code.txt"), "7\n");
}

#[test]
fn a_harness_that_hangs_is_ended_with_all_its_children() {
    let world = World::new();
    let mark = format!("3{}", std::process::id());
    let shell =
        format!("ask \"$hello\" >/dev/null; trap '' TERM; setsid sleep {mark} & sleep {mark}; sleep {mark}");
    let begun = Instant::now();
    let said = world.capture(&["--timeout", "1"], &shell);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(said.stderr.contains("`command` was still running after 1 s and was stopped"), "{said:?}");
    let manifest = world.manifest();
    assert_eq!((&manifest["sealed"], &manifest["counts"]["complete"]), (&false.into(), &1.into()));
    assert_eq!(sleeping(&mark), 0, "nothing outlives the recording");
}

#[test]
fn nothing_outlives_a_capture_that_is_killed() {
    let world = World::new();
    let mark = format!("4{}", std::process::id());
    let mut child =
        world.capturing(&[], &format!("trap '' TERM; setsid sleep {mark} & sleep {mark}")).spawn().unwrap();
    wait_until("it runs", || sleeping(&mark) == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("all of it is gone", || sleeping(&mark) == 0);
    assert_eq!(world.env.show("rec")["sealed"], false, "what was recorded can be opened");
}

#[test]
fn an_interrupted_capture_keeps_its_recording() {
    let world = World::new();
    let mark = format!("5{}", std::process::id());
    let child = world
        .capturing(&[], &format!("ask \"$hello\" >/dev/null; sleep {mark}"))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("it runs", || sleeping(&mark) == 1);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let said = CommandOutput::of(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("`command` was interrupted"), "{said:?}");
    assert_eq!(world.manifest()["counts"]["complete"], 1);
    assert_eq!(sleeping(&mark), 0);
}

/// Counts the `sleep` processes with that many seconds.
fn sleeping(seconds: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{seconds}\0").into_bytes()).count()
}

#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const ELSEWHERE: &str = r#"
ask "$hello" >/dev/null
refuser=${HTTPS_PROXY#http://}
exec 4<>/dev/tcp/${refuser%:*}/${refuser#*:}
printf 'CONNECT api.elsewhere.example:443 HTTP/1.1\r\nHost: x\r\n\r\n' >&4
head -1 <&4
"#;

#[test]
fn calls_round_the_proxy_are_seen_and_refused_in_a_network_of_its_own() {
    let world = World::new();
    let direct = r#"
getent hosts lookup.elsewhere.example
exec 5<>/dev/tcp/93.184.216.34/80 && printf 'GET / HTTP/1.1\r\nHost: plain.elsewhere.example\r\n\r\n' >&5 && head -1 <&5
(exec 6<>/dev/tcp/93.184.216.34/8080) 2>/dev/null || echo refused
"#;
    let said = world.capture(&[], &format!("{ELSEWHERE}{direct}"));
    let manifest = world.manifest();
    if manifest["network"]["seal"] != "namespace" {
        return; // this system does not allow it, and `cargo xtask test` says so
    }
    assert_eq!(said.code, Some(1), "the check says no: {said:?}");
    let stdout = world.env.read("rec/stdout.txt");
    assert_eq!(stdout.matches("403 Forbidden").count(), 2, "{stdout}");
    assert!(stdout.contains("refused"), "{stdout}");
    let mut seen: Vec<_> = manifest["round_the_proxy"].as_array().unwrap().iter().collect();
    seen.sort_by_key(|round| round["host"].as_str().unwrap().to_owned());
    let seen: Vec<_> = seen.iter().map(|round| (&round["host"], &round["port"], &round["seen_by"])).collect();
    let expected = [
        (&"api.elsewhere.example".into(), &443.into(), &"proxy".into()),
        (&"lookup.elsewhere.example".into(), &serde_json::Value::Null, &"name".into()),
        (&"plain.elsewhere.example".into(), &80.into(), &"connection".into()),
    ];
    assert_eq!(seen, expected, "{said:?}");
}

#[test]
fn calls_round_the_proxy_are_seen_without_a_network_of_its_own() {
    let world = World::new();
    let said = world.capture(&["--no-namespace"], ELSEWHERE);
    assert_eq!(said.code, Some(1), "the check says no: {said:?}");
    let manifest = world.manifest();
    assert_eq!(manifest["network"]["seal"], "environment");
    assert_eq!(manifest["round_the_proxy"][0]["host"], "api.elsewhere.example");
    assert!(said.stderr.contains("a call bypassed the proxy: api.elsewhere.example:443"), "{said:?}");
}

#[test]
fn captures_run_side_by_side_in_slots_of_their_own() {
    let world = World::new();
    let mark = format!("6{}", std::process::id());
    let first =
        world.capturing(&[], &format!("ask \"$hello\" >/dev/null; pwd; sleep {mark}")).spawn().unwrap();
    wait_until("the first runs", || sleeping(&mark) == 1);
    world.env.write("second.sh", &format!("{ASK}\nask \"$hello\" >/dev/null; pwd"));
    let script = world.env.path("second.sh").display().to_string();
    let said =
        world.run(&["capture", "command", "--scenario", "scenario", "--out", "rec2", "--", "bash", &script]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(world.env.read("rec2/stdout.txt").ends_with("slots/01/workspace\n"));
    Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    first.wait_with_output().unwrap();
    assert!(world.env.read("rec/stdout.txt").ends_with("slots/00/workspace\n"), "nobody wiped it");
}

#[test]
fn secrets_are_in_no_file_of_the_recording() {
    let world = World::new();
    let key = ["sk", "ant", "api03", &"Kq7".repeat(14)].join("-");
    let token = ["ghp", &"aB3dE5fG7h".repeat(4)[..36]].join("_");
    let aws = ["AKIA", "Q4RZ", "7XJ2", "M5TW", "8KDP"].concat();
    let password = "pV9qXw2TzL4m";
    let (passed, shaped) = ("hG5kRt8WqZ1x", ["sk", "proj", &"Zt6".repeat(14)].join("-"));
    world.env.write("scenario/workspace/.env", &format!("DB_PASSWORD={password}\n"));
    world.env.write("scenario/workspace/notes/key.txt", &format!("the key is {aws}\n"));
    let addr = provider(|_, mut tcp| {
        let body = r#"{"type":"message","id":"m","role":"assistant","model":"haiku","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        tcp.write_all((head + body).as_bytes()).unwrap();
    });
    // The harness carries what it read into its next request, prints it, and writes it down.
    let shell = r#"
found=$(cat .env notes/key.txt | tr '\n' ' ')
ask "{\"model\":\"haiku\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"$found $1 $SERVICE_TOKEN\"}]}]}"
echo "$found $1"; echo "$SERVICE_TOKEN $ANTHROPIC_API_KEY" >&2
cp .env notes/copy.txt; echo "$1 $ANTHROPIC_API_KEY" > notes/said.txt
echo "${found#*=}" | base64 > notes/coded.txt
"#;
    let prompt = format!("Use {token} or {shaped}.");
    let mut command = world.capturing(&["--live", "--env", "SERVICE_TOKEN", "--prompt", &prompt], shell);
    command
        .env("ANTHROPIC_API_KEY", &key)
        .env("ANTHROPIC_BASE_URL", format!("http://{addr}"))
        .env("SERVICE_TOKEN", passed);
    let said = CommandOutput::of(command.output().unwrap());
    assert_eq!(world.manifest()["sealed"], true, "{said:?}");
    assert!(said.stderr.contains("cost: about $0.0000"), "{said:?}");
    for file in ["workspace/notes/copy.txt", "workspace/notes/said.txt", "workspace/.env"] {
        assert!(world.env.read(&format!("rec/{file}")).contains("offshoot-redacted-"), "{file}");
    }
    world.holds_none_of(&[&key, &token, &aws, password, passed, &shaped]);
    assert!(said.stderr.lines().chain(said.stdout.lines()).all(|line| !line.contains(&key)), "{said:?}");
}

#[test]
fn a_budget_ends_the_run_and_no_byte_is_changed() {
    let world = World::new();
    // A million tokens of output cost five dollars.
    let body = r#"{"type":"message","id":"m","role":"assistant","model":"haiku","content":[{"type":"text","text":"Dear."}],"stop_reason":"end_turn","usage":{"input_tokens":0,"output_tokens":100000}}"#;
    let addr = provider(move |_, mut tcp| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        tcp.write_all((head + body).as_bytes()).unwrap();
    });
    let live = |more: &[&str]| {
        let mut arguments = vec!["--live"];
        arguments.extend(more);
        let mut command = world.capturing(&arguments, "while ask \"$hello\"; do sleep 0.3; done");
        command
            .env("ANTHROPIC_API_KEY", "a-key-of-some-length")
            .env("ANTHROPIC_BASE_URL", format!("http://{addr}"));
        CommandOutput::of(command.output().unwrap())
    };
    let said = live(&["--max-budget-usd", "0.9", "--timeout", "60"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("`command` was stopped at its budget, after $1."), "{said:?}");
    assert_eq!(world.manifest()["sealed"], false);
    assert!(world.env.read("rec/stdout.txt").contains(body), "every byte was passed on");
    let unknown = live(&["--max-budget-usd", "0.9", "--model", "mystery-1"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("no price known for model `mystery-1`"), "{unknown:?}");
}

#[test]
fn requests_in_parallel_stay_within_the_budget() {
    let world = World::new();
    // 40,000 tokens of output cost 20 cents, and 32 cents are the most that a request can cost.
    let body = r#"{"type":"message","id":"m","role":"assistant","model":"haiku","content":[{"type":"text","text":"Dear."}],"stop_reason":"end_turn","usage":{"input_tokens":0,"output_tokens":40000}}"#;
    let served = Arc::new(AtomicUsize::new(0));
    let counter = served.clone();
    let addr = provider(move |_, mut tcp| {
        counter.fetch_add(1, Ordering::Relaxed);
        let head = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        tcp.write_all((head + body).as_bytes()).unwrap();
    });
    let shell = "
        large=\"{\\\"max_tokens\\\":64000,${hello#?}\"
        for n in 1 2 3 4 5 6 7 8 9 10; do ask \"$large\" & done; wait; ask \"$large\"; true";
    let mut command = world.capturing(&["--live", "--max-budget-usd", "0.9", "--timeout", "60"], shell);
    command
        .env("ANTHROPIC_API_KEY", "a-key-of-some-length")
        .env("ANTHROPIC_BASE_URL", format!("http://{addr}"));
    let said = CommandOutput::of(command.output().unwrap());
    assert!(
        served.load(Ordering::Relaxed) <= 4,
        "{} requests were sent: {said:?}",
        served.load(Ordering::Relaxed)
    );
    assert!(served.load(Ordering::Relaxed) >= 3, "{said:?}");
    assert_eq!(said.code, Some(3), "a run whose request was refused is no complete one: {said:?}");
    assert!(said.stderr.contains("`command` was stopped at its budget, after $0.6"), "{said:?}");
    assert_eq!(world.manifest()["sealed"], false);
}

#[test]
fn a_bad_key_and_missing_credit_are_reported_in_the_provider_s_words() {
    for (status, words) in
        [("401 Unauthorized", "invalid x-api-key"), ("400 Bad Request", "Your credit balance is too low")]
    {
        let world = World::new();
        let addr = provider(move |_, mut tcp| {
            let body = format!(r#"{{"type":"error","error":{{"type":"some_error","message":"{words}"}}}}"#);
            let head = format!(
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            tcp.write_all((head + &body).as_bytes()).unwrap();
        });
        let mut command = world.capturing(&["--live"], "ask \"$hello\"; exit 1");
        command
            .env("ANTHROPIC_API_KEY", "a-key-of-some-length")
            .env("ANTHROPIC_BASE_URL", format!("http://{addr}"));
        let said = CommandOutput::of(command.output().unwrap());
        assert_eq!(said.code, Some(3), "{said:?}");
        assert!(said.stderr.contains(&format!("the provider refused: {words}")), "{said:?}");
        assert_eq!(world.manifest()["counts"]["exchanges"], 1, "what was recorded is kept");
    }
}

/// Failures before anything is recorded: exit code and stderr.
#[track_caller]
fn refused(said: &CommandOutput, code: i32, words: &[&str]) {
    assert_eq!(said.code, Some(code), "{said:?}");
    for word in words {
        assert!(said.stderr.contains(word), "`{word}` is not in {said:?}");
    }
    assert!(said.stderr.contains("\nhint: "), "{said:?}");
}

#[test]
fn bad_input_is_named_before_anything_starts() {
    let world = World::new();
    let capture = |more: &[&str]| {
        let mut arguments = vec!["capture", "command", "--out", "rec"];
        arguments.extend(more);
        arguments.extend(["--", "true"]);
        world.run(&arguments)
    };
    refused(&capture(&["--scenario", "nowhere"]), 2, &["no scenario `nowhere`", "async-subagents"]);
    std::fs::create_dir_all(world.env.path("bad")).unwrap();
    world.env.write("bad/scenario.yaml", "format: 1\nintent: x\ncolour: red\n");
    refused(
        &capture(&["--scenario", "bad"]),
        2,
        &["`bad/scenario.yaml` is not a scenario", "line 3", "colour"],
    );
    world.env.write("bad/scenario.yaml", "format: 1\nintent: x\n");
    refused(&capture(&["--scenario", "bad"]), 2, &["the scenario `bad` has no prompt for `command`"]);
    refused(&capture(&["--scenario", "bad", "--prompt", "p"]), 2, &["the scenario `bad` has no script"]);
    world.env.write("bad/script.yaml", "format: 1\nlanes:\n  - lane: x\n");
    refused(
        &capture(&["--scenario", "bad", "--prompt", "p"]),
        2,
        &["`bad/script.yaml` is not a script", "line"],
    );
    let missing = ["--scenario", "scenario", "--fixture-dir", "no-such-folder"];
    refused(&capture(&missing), 2, &["cannot read the fixture `no-such-folder`"]);
    refused(&capture(&["--scenario", "scenario", "--mode", "fast"]), 2, &["`command` has no mode `fast`"]);
    refused(
        &capture(&["--scenario", "scenario", "--live"]),
        2,
        &["ANTHROPIC_API_KEY or OPENAI_API_KEY is not set"],
    );
    let not_there =
        world.run(&["capture", "command", "--scenario", "scenario", "--out", "rec", "--", "no-such-harness"]);
    refused(&not_there, 2, &["cannot find the command `no-such-harness`"]);
    let nothing = world.run(&["capture", "command", "--scenario", "scenario", "--out", "rec"]);
    refused(&nothing, 2, &["no command to capture"]);
    assert!(!world.env.path("rec").exists(), "nothing was recorded");
    let unknown = world.run(&["capture", "claude", "--scenario", "scenario"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("possible values: claude-code, "), "{unknown:?}");
}

#[test]
fn errors_of_npm_are_passed_on_with_their_meaning() {
    let world = World::new();
    let install = |version: &str| {
        let arguments = [
            "capture",
            "claude-code",
            "--scenario",
            "scenario",
            "--harness-version",
            version,
            "--out",
            "rec",
        ];
        world.run(&arguments)
    };
    world.program(
        "npm",
        "echo 'npm error code ETARGET' >&2; echo 'npm error notarget No matching version found.' >&2; exit 1",
    );
    refused(
        &install("9.9.9"),
        2,
        &["cannot install claude-code 9.9.9", "No matching version found", "npm view"],
    );
    world.program(
        "npm",
        "echo 'npm error code EAI_AGAIN' >&2; echo 'npm error network request failed' >&2; exit 1",
    );
    refused(&install("9.9.9"), 3, &["cannot install claude-code 9.9.9", "npm ping"]);
    refused(&install("../evil"), 2, &["`../evil` is not a version"]);
    // One that installs, but not what was asked for.
    world.program("npm", "exit 0");
    refused(&install("9.9.9"), 3, &["npm installed claude-code 9.9.9, but its program is not there"]);
    let left: Vec<_> = std::fs::read_dir(world.env.path("cache/harness/claude-code"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".lock"))
        .collect();
    assert_eq!(left, [] as [String; 0], "an installation that failed leaves nothing");
    let mut without = world.offshoot(&["capture", "claude-code", "--scenario", "scenario", "--out", "rec"]);
    let empty = world.env.path("empty");
    std::fs::create_dir(&empty).unwrap();
    refused(
        &CommandOutput::of(without.env("PATH", &empty).output().unwrap()),
        2,
        &["`npm` is not installed", "install npm"],
    );
    assert!(!world.env.path("rec").exists());
}

/// An npm that makes a Claude Code of a few lines of shell, and counts how often it does.
fn fake_npm(world: &World, harness: &str) {
    let program = world.env.path("fake-claude");
    std::fs::write(&program, format!("#!/bin/bash\n{ASK}\n{harness}\n")).unwrap();
    let installed = world.env.path("installed");
    world.program(
        "npm",
        &format!(
            r#"echo once >> {}
while [ "$1" != --prefix ]; do shift; done
folder="$2/node_modules/@anthropic-ai/claude-code"; mkdir -p "$folder"
cp {} "$folder/cli.js"; chmod 755 "$folder/cli.js""#,
            installed.display(),
            program.display()
        ),
    );
}

#[test]
fn an_untested_version_is_installed_once_and_captured() {
    let world = World::new();
    fake_npm(
        &world,
        r#"ANTHROPIC_API_KEY=$ANTHROPIC_AUTH_TOKEN
ask "$hello" >/dev/null; echo "{\"args\":\"$*\"}"
mkdir -p "$HOME/.claude/projects/x/s/subagents"; echo '{"a":1}' > "$HOME/.claude/projects/x/s/subagents/agent-1.jsonl""#,
    );
    let capture = |out: &str| {
        let arguments =
            ["capture", "claude-code", "--scenario", "scenario", "--harness-version", "9.9.9", "--out", out];
        world.run(&arguments)
    };
    for (out, is_new) in [("rec", true), ("rec2", false)] {
        let said = capture(out);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(said.stderr.contains("installing claude-code 9.9.9"), is_new, "{said:?}");
    }
    assert_eq!(world.env.read("installed").matches("once").count(), 1, "the second time it was there");
    assert!(world.env.read("rec/stdout.json").contains("-p Say hello. --output-format stream-json"));
    assert_eq!(world.manifest()["harness"]["version"], "9.9.9");
    assert_eq!(world.env.read("rec/exports/transcripts/s/subagents/agent-1.jsonl"), "{\"a\":1}\n");
}

#[test]
fn a_scenario_is_found_in_the_places_where_people_put_them() {
    let world = World::new();
    let put = |folder: &str, intent: &str| {
        let folder = world.env.path(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(
            folder.join("scenario.yaml"),
            SCENARIO.replace("Say hello.\nprompt", &format!("{intent}\nprompt")),
        )
        .unwrap();
        std::fs::write(folder.join("script.yaml"), SCRIPT).unwrap();
    };
    let intent = |name: &str| {
        let _ = std::fs::remove_dir_all(world.env.path("rec"));
        world.env.write("h.sh", &format!("{ASK}\nask \"$hello\""));
        let script = world.env.path("h.sh").display().to_string();
        let mut command = world.offshoot(&[
            "capture",
            "command",
            "--scenario",
            name,
            "--out",
            "rec",
            "--",
            "bash",
            &script,
        ]);
        command.env("OFFSHOOT_CONFIG_DIR", world.env.path("config")).output().unwrap();
        let scenario: serde_json::Value = serde_json::from_str(&world.env.read("rec/scenario.json")).unwrap();
        scenario["intent"].as_str().unwrap().to_owned()
    };
    let name = "single-agent-20-reads";
    assert!(intent(name).contains("reads twenty files"), "the shipped one");
    put(&format!("config/scenarios/{name}"), "The user's own.");
    assert_eq!(intent(name), "The user's own.");
    put(&format!("scenarios/{name}"), "The project's.");
    assert_eq!(intent(name), "The project's.");
    put(name, "By its path.");
    assert_eq!(intent(&format!("./{name}")), "By its path.");
}

#[test]
fn another_fixture_script_and_prompt_replace_the_scenario_s() {
    let world = World::new();
    std::fs::create_dir_all(world.env.path("other/deep")).unwrap();
    world.env.write("other/deep/file.txt", "other\n");
    world.env.write("other.yaml", &SCRIPT.replace("Hello", "Other"));
    let more = ["--fixture-dir", "other", "--script", "other.yaml", "--prompt", "Another."];
    let said = world.capture(&more, "ask \"$hello\"; echo \"$1\"; find . -type f");
    assert_eq!(said.code, Some(0), "{said:?}");
    let stdout = world.env.read("rec/stdout.txt");
    assert!(stdout.contains("[main] Other.") && stdout.ends_with("Another.\n./deep/file.txt\n"), "{stdout}");
}

#[test]
fn doctor_names_missing_programs_and_their_installation() {
    let world = World::new();
    let well = world.run(&["doctor"]);
    assert_eq!(well.code, Some(0), "{well:?}");
    assert!(well.stdout.contains("ok      node"), "{well:?}");
    let empty = world.env.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let doctor = |format: &str| {
        CommandOutput::of(
            world.offshoot(&["doctor", "--format", format]).env("PATH", &empty).output().unwrap(),
        )
    };
    let ill = doctor("text");
    assert_eq!(ill.code, Some(1), "{ill:?}");
    assert!(ill.stdout.contains("MISSING npm") && ill.stdout.contains("install npm"), "{ill:?}");
    assert!(ill.stdout.contains("without xdg-open") && ill.stdout.contains("install xdg-utils"), "{ill:?}");
    let json: serde_json::Value = serde_json::from_str(&doctor("json").stdout).unwrap();
    assert_eq!((&json["format"], &json["ok"]), (&1.into(), &false.into()));
    let npm = json["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "npm").unwrap();
    assert_eq!((&npm["ok"], &npm["needed"]), (&false.into(), &true.into()));
}
