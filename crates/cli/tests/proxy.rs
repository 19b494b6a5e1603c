//! `offshoot proxy` as its users meet it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use common::*;

const SCRIPT: &str = "
format: 1
lanes:
  - lane: all
    match: { any: true }
    turns: [ { reply: [ { text: Hello. } ], usage: { input: 3, output: 2 } } ]
";

/// A request in each dialect, from a shell.
const SHELL_HARNESS: &str = r#"
ask() { # host:port path body
  exec 3<>/dev/tcp/${1%:*}/${1#*:}
  printf 'POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' "$2" "${#3}" "$3" >&3
  cat <&3
}
base=${ANTHROPIC_BASE_URL#http://}
ask "$base" /v1/messages '{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
openai=${OPENAI_BASE_URL#http://}
ask "${openai%%/*}" /${openai#*/}/chat/completions '{"model":"m","messages":[{"role":"user","content":"hi"}]}'
ask "${openai%%/*}" /${openai#*/}/responses '{"model":"m","stream":true,"input":"hi"}'
echo to stderr >&2
exit 7
"#;

#[test]
fn a_command_is_led_to_us_and_everything_of_it_is_kept() {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    env.write("harness.sh", SHELL_HARNESS);
    let said = env.run(&["proxy", "--script", "script.yaml", "--out", "rec", "--", "bash", "harness.sh"]);
    assert_eq!(said.code, Some(7), "{said:?}");
    // Once in each dialect; Responses repeats it in four closing events.
    assert_eq!(said.stdout.matches("Hello.").count(), 3 + 4, "{}", said.stdout);
    assert_eq!(said.stderr, "to stderr\nrecorded 3 exchanges in `rec`\n");
    assert_eq!(env.read("rec/stdout.txt"), said.stdout);
    assert_eq!(env.read("rec/stderr.txt"), "to stderr\n");
    assert_eq!(env.read("rec/exit_code.txt"), "7\n");
    let shown = env.show("rec");
    assert_eq!(shown["sealed"], true);
    let endings: Vec<_> =
        shown["exchanges"].as_array().unwrap().iter().map(|e| e["ending"].as_str().unwrap()).collect();
    assert_eq!(endings, ["complete"; 3]);
    // Without a scenario, and without tools, most criteria do not apply; they are one line.
    let check = env.run(&["check", "rec"]).stdout;
    assert!(check.contains("\nn/a  tool schemas, spawn calls, sub-agent lanes, "), "{check}");
    assert!(check.ends_with("FAIL  1 of 7 criteria not met\n") && !check.contains("the scenario"), "{check}");
    let dump: serde_json::Value =
        serde_json::from_str(&env.read("rec/provider_dumps/r000002_request.json")).unwrap();
    assert_eq!(dump["providerID"], "local");
    assert_eq!(dump["modelID"], "m");
    assert_eq!(dump["body"]["text"], r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
}

#[test]
fn a_program_says_who_it_is_and_which_header_names_its_conversation() {
    let env = TestEnv::new();
    env.write("script.yaml", &SCRIPT.replace("reply:", "repeat: 9, reply:"));
    let header = ["--session-header", "X-Chat", "--name", "my-agent"];
    for (out, options) in [("named", &header[..]), ("plain", &[])] {
        let proxy =
            Proxy::start(&env, &[&["proxy", "--script", "script.yaml", "--out", out], options].concat());
        for (chat, more) in [
            ("one", ""),
            ("two", ""),
            (
                "two",
                ", {\"role\":\"assistant\",\"content\":\"Hello.\"}, {\"role\":\"user\",\"content\":\"and?\"}",
            ),
        ] {
            let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}{more}]}}"#);
            ask(proxy.addr, &post("/v1/messages", &format!("x-chat: {chat}\r\n"), &body));
        }
        assert_eq!(proxy.interrupt().code, Some(0));
    }
    let lanes = |shown: &serde_json::Value| -> Vec<(String, usize)> {
        let lanes = shown["lanes"].as_array().unwrap().iter();
        lanes
            .map(|lane| {
                (
                    lane["session"].as_str().unwrap_or("none").to_owned(),
                    lane["exchanges"].as_array().unwrap().len(),
                )
            })
            .collect()
    };
    let named = env.show("named");
    assert_eq!(lanes(&named), [("one".to_owned(), 1), ("two".to_owned(), 2)]);
    assert_eq!(named["lanes"][1]["turns"][1]["asked"], serde_json::json!(["and?"]));
    let manifest: serde_json::Value = serde_json::from_str(&env.read("named/recording.json")).unwrap();
    assert_eq!(
        (&manifest["harness"]["name"], &manifest["session_header"]),
        (&"my-agent".into(), &"x-chat".into())
    );
    let dump: serde_json::Value =
        serde_json::from_str(&env.read("named/provider_dumps/r000002_request.json")).unwrap();
    assert_eq!(dump["sessionId"], "two");
    // The longest wait decides without the header, which may be named later.
    assert_eq!(lanes(&env.show("plain")), [("none".to_owned(), 2), ("none".to_owned(), 1)]);
    let said = env.run(&["normalize", "plain", "--session-header", "x-chat", "--out", "elsewhere/turns"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (Some(0), "3 turns of 3 exchanges in 2 lanes: `elsewhere/turns`\n"),
        "{said:?}"
    );
    let manifest = env.read("elsewhere/turns/manifest.json");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(lanes(&manifest), [("one".to_owned(), 1), ("two".to_owned(), 2)]);
    assert!(!env.path("plain/normalized").exists());
    std::fs::create_dir(env.path("full")).unwrap();
    env.write("full/notes.txt", "mine");
    let said = env.run(&["normalize", "plain", "--out", "full"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert_eq!(env.read("full/notes.txt"), "mine");
}

#[test]
fn another_address_needs_permission_and_comes_with_a_warning() {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    let listen = ["proxy", "--script", "script.yaml", "--out", "rec", "--listen", "0.0.0.0:0"];
    let command = ["--", "sh", "-c", "echo $ANTHROPIC_BASE_URL"];
    let said = env.run(&[&listen[..], &command[..]].concat());
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("--allow-remote"), "{said:?}");
    let said = env.run(&[&listen[..], &["--allow-remote"], &command[..]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.starts_with("warning: everyone who reaches `0.0.0.0:0`"), "{said:?}");
    assert!(said.stdout.starts_with("http://127.0.0.1:"), "{said:?}");
}

#[test]
fn show_fits_a_terminal() {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    let proxy = Proxy::start(&env, &["proxy", "--script", "script.yaml", "--out", "rec"]);
    ask(proxy.addr, &post("/v1/messages", "", r#"{"model":"m","messages":[]}"#));
    let said = proxy.interrupt();
    assert_eq!((said.code, said.stderr.lines().last()), (Some(0), Some("recorded 1 exchange in `rec`")));
    let shown = env.run(&["show", "rec"]).stdout;
    assert!(shown.starts_with("sealed, 1 exchange, 1 lane\nmain  1 turn, "), "{shown}");
    assert!(shown.contains("└─ 1 r000001  ") && shown.contains("\"Hello.\""), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn requests_without_a_scripted_reply_are_reported_at_the_end() {
    let env = TestEnv::new();
    let script =
        SCRIPT.replace("{ any: true }", "{ tools_include: Read }").replace("Hello.", "\"${workspace}\"");
    env.write("script.yaml", &script);
    let proxy = Proxy::start(&env, &["proxy", "--script", "script.yaml", "--out", "rec"]);
    let asked = |tools: &str| {
        let body =
            format!(r#"{{"model":"m","tools":[{tools}],"messages":[{{"role":"user","content":"hi"}}]}}"#);
        String::from_utf8(ask(proxy.addr, &post("/v1/messages", "", &body))).unwrap()
    };
    assert!(
        asked(r#"{"name":"Grep","input_schema":{}}"#).contains("no lane of the script matches this request")
    );
    asked("");
    let here = env.path("").canonicalize().unwrap();
    assert!(asked(r#"{"name":"Read","input_schema":{}}"#).contains(here.to_str().unwrap()));
    let said = proxy.interrupt();
    let warning = "warning: the script has no answer to 2 requests; the first: no lane of the script matches this request; its lanes are `all`";
    assert!(said.stderr.lines().any(|line| line == warning), "{said:?}");
    assert!(!said.stderr.contains("never used"), "{said:?}");
    assert_eq!(said.code, Some(0));
}

/// A limit on file sizes is reported as a loss, and the traffic continues.
#[test]
fn a_file_that_may_not_grow_costs_a_body_and_no_call() {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    let big = SHELL_HARNESS.replace("\"hi\"", "\"'$(head -c 1500000 /dev/zero | tr '\\0' q)'\"");
    env.write("harness.sh", &big.replace("exit 7", "exit 0"));
    let offshoot =
        env.offshoot(&["proxy", "--script", "script.yaml", "--out", "rec", "--", "bash", "harness.sh"]);
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", r#"ulimit -f 1200; exec "$0" "$@""#]);
    limited.arg(offshoot.get_program()).args(offshoot.get_args()).current_dir(env.path("")).env_clear();
    limited.envs(offshoot.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = CommandOutput::of(limited.stdin(std::process::Stdio::null()).output().unwrap());
    assert_eq!(said.code, Some(3), "{said:?}");
    assert_eq!(said.stdout.matches("HTTP/1.1 200").count(), 3, "{}", said.stdout);
    assert!(said.stderr.contains("not kept: r000001: request body"), "{}", said.stderr);
    assert!(said.stderr.contains("recorded 3 exchanges in `rec`"), "{}", said.stderr);
}

#[test]
fn several_providers_by_prefix() {
    let env = TestEnv::new();
    let echo = |name: &'static str| {
        provider(move |request, mut tcp| {
            let answer = format!("{name}: {}", request.lines().next().unwrap());
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", answer.len());
            tcp.write_all((head + &answer).as_bytes()).unwrap();
        })
    };
    let (first, second) = (echo("first"), echo("second"));
    let upstreams = [format!("anthropic=http://{first}"), format!("/openai=http://{second}/v1")];
    let arguments = ["proxy", "--upstream", &upstreams[0], "--upstream", &upstreams[1], "--out", "rec"];
    let shell = "echo $ANTHROPIC_BASE_URL $OPENAI_BASE_URL | sed 's/127.0.0.1:[0-9]*/HERE/g'";
    let said = env.run(&[&arguments[..], &["--", "sh", "-c", shell]].concat());
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "http://HERE/anthropic http://HERE/openai\n"));
    std::fs::remove_dir_all(env.path("rec")).unwrap();
    let proxy = Proxy::start(&env, &arguments);
    let answer = |path| String::from_utf8(ask(proxy.addr, &post(path, "", "{}"))).unwrap();
    assert!(answer("/anthropic/v1/messages").ends_with("first: POST /v1/messages HTTP/1.1"));
    assert!(answer("/openai/responses?x=1").ends_with("second: POST /v1/responses?x=1 HTTP/1.1"));
    assert!(answer("/other").contains("no upstream for `/other`"));
    assert_eq!(proxy.interrupt().code, Some(0));
}

#[test]
fn a_signal_to_us_reaches_the_command_and_the_recording_is_sealed() {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    let shell = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.1; done";
    let mut child = env
        .offshoot(&["proxy", "--script", "script.yaml", "--out", "rec", "--", "sh", "-c", shell])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    let said = CommandOutput::of(child.wait_with_output().unwrap());
    assert_eq!((said.code, said.stdout.as_str()), (Some(3), "bye\n"), "{said:?}");
    assert_eq!(env.show("rec")["sealed"], true);
}

/// Mistakes: arguments, exit code, and expected message.
fn refused(env: &TestEnv, arguments: &[&str]) -> (Option<i32>, String) {
    let said = env.run(arguments);
    assert_eq!(said.stdout, "");
    (said.code, said.stderr.replace(env.path("").to_str().unwrap(), "HERE/"))
}

#[test]
fn errors_that_the_user_can_fix_have_a_hint() {
    let env = TestEnv::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    env.write("file", "");
    env.write("bad.yaml", "format: 1\nlanes:\n  - lane: a\n    turns: []\n");
    std::fs::create_dir(env.path("full")).unwrap();
    env.write("full/x", "");
    env.write("no-interpreter", "#!/no/such/shell\n");
    std::fs::set_permissions(env.path("no-interpreter"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let up = "http://127.0.0.1:1";
    let listen = taken.to_string();
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["proxy", "--upstream", up, "--out", "r", "--listen", &listen],
            &["cannot listen on", "in use", "hint: omit `--listen`"],
        ),
        (
            &["proxy", "--upstream", up, "--out", "r", "--listen", "0.0.0.0:0"],
            &["`0.0.0.0:0` is not a loopback address", "`--listen 127.0.0.1:0`"],
        ),
        (
            &["proxy", "--upstream", up, "--out", "file/r"],
            &["cannot write a recording to `file/r`", "Not a directory", "hint: give a writable folder"],
        ),
        (
            &["proxy", "--upstream", up, "--out", "full"],
            &["the folder `full` is not empty", "hint: give another folder: `--out full-2`"],
        ),
        (
            &["proxy", "--upstream", "api.test", "--out", "r"],
            &["`api.test` is not an http:// or https:// address", "hint: use `--upstream"],
        ),
        (
            &["proxy", "--upstream", up, "--out", "r", "--", "no-such-program"],
            &["cannot find the command `no-such-program`", "hint:"],
        ),
        (
            &["proxy", "--upstream", up, "--out", "r", "--", "./bad.yaml"],
            &["cannot start the command `./bad.yaml`: it is not executable", "hint: chmod +x ./bad.yaml"],
        ),
        (
            &["proxy", "--upstream", up, "--out", "r", "--", "./no-interpreter"],
            &["cannot start the command `./no-interpreter`", "hint: install its interpreter"],
        ),
        (
            &["proxy", "--script", "none.yaml", "--out", "r"],
            &["cannot read the script `none.yaml`", "No such file"],
        ),
        (
            &["proxy", "--script", "bad.yaml", "--out", "r"],
            &["`bad.yaml` is not a script", "missing field `match`", "line 4"],
        ),
        (&["proxy", "--out", "r"], &["--upstream", "--script"]),
        (&["show", "nowhere"], &["no folder `nowhere`", "hint:"]),
        (&["show", "full"], &["`full` is not a recording"]),
        (&["frobnicate"], &["frobnicate"]),
    ];
    for (arguments, parts) in cases {
        let (code, stderr) = refused(&env, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        for part in *parts {
            assert!(stderr.contains(part), "{arguments:?} should say {part:?}: {stderr}");
        }
        assert!(!env.path("r").exists(), "{arguments:?} left a folder behind");
    }
}

#[test]
fn a_provider_that_fails_is_the_outside_worlds_fault() {
    let env = TestEnv::new();
    let garbage = provider(|_, mut tcp| tcp.write_all(b"SSH-2.0-nonsense\r\n").unwrap());
    for (n, (upstream, says)) in [
        ("http://127.0.0.1:1".to_owned(), "cannot reach http://127.0.0.1:1: Connection refused"),
        (format!("http://{garbage}"), "the provider's response is not HTTP"),
        ("http://no-such-host.invalid".to_owned(), "cannot reach http://no-such-host.invalid"),
    ]
    .iter()
    .enumerate()
    {
        let out = format!("rec{n}");
        let proxy = Proxy::start(&env, &["proxy", "--upstream", upstream, "--out", &out]);
        let answer = String::from_utf8(ask(proxy.addr, &post("/v1/messages", "", "{}"))).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains(says), "{answer}");
        let said = proxy.interrupt();
        assert_eq!(said.code, Some(3), "{said:?}");
        assert!(
            said.stderr.contains(says) && said.stderr.contains("hint: check the address"),
            "{}",
            said.stderr
        );
        let shown = env.show(&out);
        assert_eq!(
            (&shown["sealed"], &shown["exchanges"][0]["ending"]),
            (&true.into(), &"no_response".into())
        );
    }
}

#[test]
fn a_recording_that_holds_a_foreign_secret_is_not_sealed() {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    // Made of parts, so that this file holds no key.
    let key = ["sk", "ant", "api03", &"Qx7".repeat(12)].join("-");
    let leak = format!("echo leaked {key} > rec/note.txt");
    let said = env.run(&["proxy", "--script", "script.yaml", "--out", "rec", "--", "sh", "-c", &leak]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.stderr.contains("is not sealed because it may still hold secrets")
            && said.stderr.contains("`note.txt`")
    );
    assert!(!said.stderr.contains(&key));
    assert_eq!(env.show("rec")["sealed"], false);
}

#[test]
fn changes_after_sealing_are_found() {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    env.run(&["proxy", "--script", "script.yaml", "--out", "rec", "--", "true"]);
    env.write("rec/exit_code.txt", "1\n");
    let said = env.run(&["show", "rec"]);
    assert_eq!(said.code, Some(1));
    assert!(said.stdout.contains("damaged: `exit_code.txt` was changed"), "{}", said.stdout);
}

#[test]
fn a_secret_on_the_command_line_is_gone_even_when_it_is_learned_later() {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    let value = ["plum", "Waffle", "77", "kite"].concat();
    let shell = r#"exec 3<>/dev/tcp/${ANTHROPIC_BASE_URL#http://127.0.0.1:}
        printf 'POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-api-key: %s\r\nContent-Length: 2\r\n\r\n{}' "$1" >&3
        cat <&3 > /dev/null"#;
    let shell = shell.replace(
        "/dev/tcp/${ANTHROPIC_BASE_URL#http://127.0.0.1:}",
        "/dev/tcp/127.0.0.1/${ANTHROPIC_BASE_URL##*:}",
    );
    let said = env.run(&[
        "proxy",
        "--script",
        "script.yaml",
        "--out",
        "rec",
        "--",
        "bash",
        "-c",
        &shell,
        "sh",
        &value,
    ]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let manifest = env.read("rec/recording.json");
    assert!(manifest.contains("offshoot-redacted-") && !manifest.contains(&value), "{manifest}");
    assert_eq!(env.show("rec")["sealed"], true);
    assert!(
        files(&env.path("rec")).iter().all(|(_, bytes)| !String::from_utf8_lossy(bytes).contains(&value))
    );
}

#[test]
fn a_reader_that_stops_reading_holds_up_only_the_output() {
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    let shell = r#"
        (yes out | head -c 1000000) & (yes err | head -c 1000000 >&2) &
        exec 3<>/dev/tcp/127.0.0.1/${ANTHROPIC_BASE_URL##*:}
        printf 'POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}' >&3
        cat <&3 > answer; touch answered; wait"#;
    let mut child = env
        .offshoot(&["proxy", "--script", "script.yaml", "--out", "rec", "--", "bash", "-c", shell])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let until = std::time::Instant::now() + PATIENCE;
    while !env.path("answered").exists() {
        assert!(std::time::Instant::now() < until, "the harness got no answer while its output waited");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(env.read("answer").starts_with("HTTP/1.1 "));
    let mut stderr = child.stderr.take().unwrap();
    let draining = std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()).unwrap());
    let mut stdout = Vec::new();
    std::io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut stdout).unwrap();
    assert_eq!((stdout.len(), child.wait().unwrap().code()), (1_000_000, Some(0)));
    assert!(draining.join().unwrap() >= 1_000_000);
    assert_eq!(env.read("rec/stdout.txt").len(), 1_000_000);
}

#[test]
fn a_second_signal_ends_the_wait_for_open_requests() {
    let env = TestEnv::new();
    let (asked, was_asked) = std::sync::mpsc::channel();
    let silent = provider(move |_, mut tcp| {
        asked.send(()).unwrap();
        let _ = std::io::copy(&mut tcp, &mut std::io::sink()); // until it is closed
    });
    let upstream = format!("http://{silent}");
    let never = "100000";
    let proxy = Proxy::start(&env, &["proxy", "--upstream", &upstream, "--drain", never, "--out", "rec"]);
    let addr = proxy.addr;
    let asking = std::thread::spawn(move || ask(addr, &post("/v1/messages", "", "{}")));
    was_asked.recv().unwrap();
    proxy.signal(15);
    // It takes no more connections: it has heard the first one.
    let until = std::time::Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(addr).is_ok() {
        assert!(std::time::Instant::now() < until, "it went on to listen");
    }
    let said = proxy.interrupt();
    asking.join().unwrap();
    assert_eq!(said.stderr.lines().last(), Some("recorded 1 exchange in `rec`"), "{said:?}");
    let shown = env.show("rec");
    assert_eq!(
        (&shown["sealed"], &shown["exchanges"][0]["ending"]),
        (&true.into(), &"cut_by_harness".into())
    );
}

#[test]
fn a_recording_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let env = TestEnv::new();
    env.write("script.yaml", SCRIPT);
    let said = env.run(&["proxy", "--script", "script.yaml", "--out", "rec", "--", "true"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(std::fs::metadata(env.path("rec")).unwrap().permissions().mode() & 0o777, 0o700);
}
