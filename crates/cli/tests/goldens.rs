//! `offshoot accept` and `offshoot review` without a terminal.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::fs;

use common::*;

const SCRIPT: &str = "
format: 1
lanes:
  - lane: all
    match: { any: true }
    turns: [ { reply: [ { text: Hello. } ] } ]
";
const SCENARIO: &str = "goldens/command/none/s";

fn record(env: &TestEnv, out: &str) {
    env.write("script.yaml", SCRIPT);
    let said = env.run(&["proxy", "--script", "script.yaml", "--out", out, "--", "true"]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// Says in the manifest that a harness was captured; the manifest has no digest of itself.
fn captured(env: &TestEnv, out: &str, scenario: &str) {
    record(env, out);
    let path = env.path(out).join("recording.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["harness"] = serde_json::json!({
        "name": "command", "version": null, "host": null, "mode": null, "scenario": scenario, "model": "m", "live": false,
    });
    fs::write(path, manifest.to_string()).unwrap();
}

fn golden(env: &TestEnv) -> serde_json::Value {
    serde_json::from_str(&env.read(&format!("{SCENARIO}/golden.json"))).unwrap()
}

#[test]
fn a_run_in_its_place_becomes_the_golden_and_the_old_one_is_kept() {
    let env = TestEnv::new();
    let [a, b] = ["a", "b"].map(|run| format!("{SCENARIO}/runs/{run}"));
    captured(&env, &a, "s");
    captured(&env, &b, "s");
    let said = env.run(&["accept", &a]);
    assert_eq!(said.stdout, format!("`{a}` is the first golden\n"), "{said:?}");
    let said = env.run(&["accept", &b]);
    assert_eq!(
        said.stdout,
        format!("`{b}` is the golden now; the previous golden `a` is kept\n"),
        "{said:?}"
    );
    let golden = golden(&env);
    assert_eq!((&golden["format"], &golden["run"]), (&1.into(), &"b".into()));
    assert_eq!(golden["earlier"][0]["run"], "a");
    assert_eq!(golden["sha256"].as_str().unwrap().len(), 64);
    assert!(env.path(&a).is_dir());
    let names: Vec<_> = fs::read_dir(env.path(SCENARIO)).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing is left over: {names:?}");
    // The folder of a golden means its accepted run, wherever a recording is expected.
    let said = env.run(&["verify", SCENARIO, &a, "--format", "json"]);
    let verdict: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(verdict["golden"], b, "{said:?}");
    assert_eq!(env.run(&["show", SCENARIO]).stdout, env.run(&["show", &b]).stdout);
    fs::write(env.path(&b).join("recording.json"), "{}").unwrap();
    let said = env.run(&["check", SCENARIO]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("is not the recording that was accepted"), "{said:?}");
}

#[test]
fn a_recording_from_elsewhere_is_copied_first() {
    let env = TestEnv::new();
    captured(&env, "out", "s");
    let said = env.run(&["accept", "out"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let run = golden(&env)["run"].as_str().unwrap().to_owned();
    let copied = format!("{SCENARIO}/runs/{run}");
    assert_eq!(env.read("out/exchanges.log"), env.read(&format!("{copied}/exchanges.log")));
    assert_eq!(env.run(&["show", &copied]).code, Some(0), "it is whole");
    let said = env.run(&["accept", "out", "--goldens", "mine"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(env.path("mine/command/none/s/golden.json").exists());
}

#[test]
fn a_capture_is_pending_until_it_is_copied_to_the_goldens() {
    let env = TestEnv::new();
    let capture = |run: &str| format!("recordings/command/none/s/{run}");
    captured(&env, &capture("a"), "s");
    let unaccepted = env.run(&["review"]);
    assert_eq!(unaccepted.code, Some(1), "{unaccepted:?}");
    assert!(unaccepted.stderr.contains(&format!("hint: offshoot accept {}", capture("a"))), "{unaccepted:?}");
    let said = env.run(&["accept", &capture("a")]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.stdout.contains("goldens/command/none/s/runs/") && env.path(&capture("a")).is_dir(),
        "{said:?}"
    );
    assert_eq!(env.run(&["review"]).stdout, "no pending runs\n", "the copy is the same run");
    captured(&env, &capture("b"), "s");
    assert_eq!(env.run(&["review", "--list"]).stdout, format!("{}\n", capture("b")));
    env.write("recordings/command/none/s/.DS_Store", "a file that a file manager leaves");
    let newest = env.run(&["show", "recordings/command/none/s"]);
    assert_eq!(newest.stdout, env.run(&["show", &capture("b")]).stdout);
    assert!(newest.stderr.contains(&format!("newest run: `{}`\n", capture("b"))), "{newest:?}");
    let said = env.run(&["review", "--all"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(golden(&env)["run"], "b");
    assert!(env.path("goldens/command/none/s/runs/b/recording.json").is_file());
    assert_eq!(env.run(&["review", "--list"]).stdout, "no pending runs\n");
    captured(&env, &capture("c"), "s");
    let said = env.run(&["review", "--all", "--reject"]);
    assert_eq!(said.stdout, format!("rejected `{}`\n", capture("c")), "{said:?}");
    assert_eq!(env.run(&["review", "--list"]).stdout, "no pending runs\n");
}

#[test]
fn invalid_goldens_are_refused() {
    let env = TestEnv::new();
    record(&env, "bare");
    captured(&env, "changed", "s");
    fs::write(env.path("changed/exit_code.txt"), "1\n").unwrap();
    captured(&env, "climbs", "../../../../up");
    captured(&env, "unsealed", "s");
    fs::remove_file(env.path("unsealed/recording.json")).unwrap();
    fs::create_dir(env.path("empty")).unwrap();
    for (recording, error) in [
        ("nowhere", "error: no folder `nowhere`"),
        ("empty", "error: `empty` is not a recording"),
        ("bare", "error: the recording belongs to no scenario"),
        ("changed", "error: `changed` was changed after it was sealed: `exit_code.txt` was changed"),
        ("climbs", "error: `../../../../up` in the manifest cannot be the name of a folder"),
        ("unsealed", "error: `unsealed` is not sealed: it has no `recording.json`"),
    ] {
        let said = env.run(&["accept", recording]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{said:?}");
        assert!(said.stderr.starts_with(error) && said.stderr.contains("\nhint: "), "{said:?}");
        assert!(!env.path("goldens").exists(), "{recording}");
    }
    captured(&env, &format!("{SCENARIO}/runs/a"), "s");
    env.write(&format!("{SCENARIO}/golden.json"), "{\"format\": 9}");
    let said = env.run(&["accept", &format!("{SCENARIO}/runs/a")]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert_eq!(env.read(&format!("{SCENARIO}/golden.json")), "{\"format\": 9}");
}

#[test]
fn ignored_files_of_a_golden_are_reported() {
    let env = TestEnv::new();
    let run = format!("{SCENARIO}/runs/a");
    captured(&env, &run, "s");
    // Nothing is said outside of a repository.
    assert_eq!(env.run(&["accept", &run]).stderr, "");
    let git = |arguments: &[&str]| {
        let done =
            std::process::Command::new("git").args(arguments).current_dir(env.path("")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    assert_eq!(env.run(&["accept", &run]).stderr, "");
    env.write(".gitignore", "*.log\n");
    let said = env.run(&["accept", &run]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let wanted = format!(
        "warning: git ignores a file of this golden, which will be missing in a clone: `runs/a/exchanges.log`\n\
         hint: git add --force {SCENARIO}\n"
    );
    assert_eq!(said.stderr, wanted);
    git(&["add", "--force", SCENARIO]);
    assert_eq!(env.run(&["accept", &run]).stderr, "", "git has it now");
}

#[test]
fn review_without_a_terminal_lists_and_decides() {
    let env = TestEnv::new();
    let run = |arguments: &[&str]| {
        let said = env.run(arguments);
        (said.code, said.stdout)
    };
    assert_eq!(run(&["review"]), (Some(0), "no pending runs\n".to_owned()));
    let runs = ["a", "b", "c"].map(|run| format!("{SCENARIO}/runs/{run}"));
    runs.iter().for_each(|run| captured(&env, run, "s"));
    for (arguments, code) in [(&["review"][..], 1), (&["review", "--all"], 1), (&["review", "--list"], 0)] {
        let said = env.run(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (Some(code), ""), "nothing can wait: {said:?}");
        let wanted =
            format!("`{SCENARIO}` has recordings but no golden\nhint: offshoot accept {}\n", runs[2]);
        assert_eq!(said.stderr, wanted);
    }
    assert_eq!(run(&["accept", &runs[0]]).0, Some(0));
    let listed = format!("{} and 1 older\n", runs[2]);
    assert_eq!(run(&["review"]), (Some(1), listed.clone()));
    assert_eq!(run(&["review", "--list"]), (Some(0), listed));
    let (code, said) = run(&["review", "--all", "--reject"]);
    assert_eq!((code, said), (Some(0), format!("rejected `{}`\nrejected `{}`\n", runs[1], runs[2])));
    assert_eq!(run(&["review"]), (Some(0), "no pending runs\n".to_owned()));
    captured(&env, &format!("{SCENARIO}/runs/d"), "s");
    assert_eq!(run(&["review", "--all"]).0, Some(0));
    assert_eq!(golden(&env)["run"], "d");
    assert_eq!(golden(&env)["rejected"].as_array().unwrap().len(), 2);
    for usage in
        [&["review", "--reject"][..], &["review", "--all", "--list"], &["review", "--goldens", "nowhere"]]
    {
        assert_eq!(run(usage).0, Some(2), "{usage:?}");
    }
}

#[test]
fn one_that_cannot_be_accepted_does_not_stop_the_others() {
    let env = TestEnv::new();
    for scenario in ["s", "t"] {
        for run in ["a", "b"] {
            captured(&env, &format!("goldens/command/none/{scenario}/runs/{run}"), scenario);
        }
        assert_eq!(env.run(&["accept", &format!("goldens/command/none/{scenario}/runs/a")]).code, Some(0));
    }
    fs::write(env.path(SCENARIO).join("runs/b/exit_code.txt"), "9").unwrap();
    let said = env.run(&["review", "--all"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("s/runs/b` was changed after it was sealed"), "{said:?}");
    assert_eq!(golden(&env)["run"], "a");
    assert!(env.read("goldens/command/none/t/golden.json").contains("\"run\": \"b\""));
}
