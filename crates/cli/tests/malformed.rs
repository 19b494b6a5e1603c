//! Recordings that are cut off, that lie, or that lead elsewhere: every command that reads one says so, and does nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::*;

/// Path of the recording. It is the place of a golden, so that `accept` has no other reason to refuse it.
const REC: &str = "goldens/h/1.0/s/runs/a";
const SECRET: &str = "outside-and-nobodys-business";

/// Every way to read a recording.
const COMMANDS: [&[&str]; 11] = [
    &["verify", REC, REC],
    &["show", REC],
    &["show", REC, "--format", "json"],
    &["normalize", REC],
    &["check", REC],
    &["export", REC, "--format", "har"],
    &["export", REC, "--format", "session"],
    &["export", REC, "--format", "html"],
    &["export", REC, "--format", "har", "--out", "out.har"],
    &["export", REC, "--format", "html", "--out", "out.html"],
    &["accept", REC],
];

/// Records a call with short bodies and one whose request is a blob.
fn recorded(bodies: [&str; 2]) -> TestEnv {
    let env = TestEnv::new();
    let reply = bodies[1].to_owned();
    let provider = provider(move |_, mut tcp| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
        write!(tcp, "{head}Content-Length: {}\r\n\r\n{reply}", reply.len()).unwrap();
    });
    let proxy = Proxy::start(&env, &["proxy", "--upstream", &format!("http://{provider}"), "--out", REC]);
    let long =
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#, "long ".repeat(300_000));
    for body in [bodies[0], &long] {
        let answer = ask(proxy.addr, &post("/v1/messages", "Content-Type: application/json\r\n", body));
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
    let said = proxy.interrupt();
    assert_eq!(said.code, Some(0), "{said:?}");
    fs::write(env.path("secret_request.json"), format!(r#"{{"body":{{"text":"{SECRET}"}}}}"#)).unwrap();
    env
}

fn small() -> TestEnv {
    recorded([
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"type":"message","role":"assistant","id":"i","model":"m","content":[{"type":"text","text":"ho"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#,
    ])
}

/// Runs a command with at most a gigabyte of addresses and for at most a minute.
fn run(env: &TestEnv, arguments: &[&str]) -> CommandOutput {
    let offshoot = env.offshoot(arguments);
    let mut command = Command::new("sh");
    let limited = r#"ulimit -v 1048576; exec timeout 60 "$0" "$@""#;
    command.args(["-c", limited]).arg(offshoot.get_program()).args(offshoot.get_args());
    command.current_dir(env.path("")).env_clear().stdin(std::process::Stdio::null());
    command.envs(offshoot.get_envs().filter_map(|(name, value)| Some((name, value?))));
    CommandOutput::of(command.output().unwrap())
}

/// Every file by its name and length, links as such; enough to see that nothing was written.
fn everything(env: &TestEnv) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![env.path("")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                folders.push(path.clone());
            }
            found.insert(
                path,
                format!("{:?} {} {:?}", meta.file_type(), meta.len(), meta.modified().unwrap()),
            );
        }
    }
    found
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

/// Changes the records of the log, each with the right checksum.
fn relog(rec: &Path, change: impl Fn(usize, serde_json::Value) -> Vec<serde_json::Value>) {
    let path = rec.join("exchanges.log");
    let text = fs::read_to_string(&path).unwrap();
    let records = text.lines().map(|line| serde_json::from_str(line.split_once(' ').unwrap().1).unwrap());
    let changed = records.enumerate().flat_map(|(n, record)| change(n, record));
    let lines = changed.map(|record| {
        let json = record.to_string();
        format!("{:08x} {json}\n", crc32(json.as_bytes()))
    });
    fs::write(path, lines.collect::<String>()).unwrap();
}

/// Changes a file of JSON.
fn edit(path: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let mut value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

fn deep() -> String {
    "[".repeat(100_000) + &"]".repeat(100_000)
}

fn truncate(path: &Path, keep: impl Fn(u64) -> u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(keep(file.metadata().unwrap().len())).unwrap();
}

fn fifo(path: &Path) {
    fs::remove_file(path).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn link_out(path: &Path, env: &TestEnv) {
    let elsewhere = env.path("elsewhere");
    fs::rename(path, &elsewhere).unwrap();
    symlink(elsewhere, path).unwrap();
}

fn blob(rec: &Path) -> PathBuf {
    fs::read_dir(rec.join("blobs")).unwrap().next().unwrap().unwrap().path()
}

const TERA: u64 = 1 << 40;
type Damage = fn(&Path, &TestEnv);

/// A change of a recording, and the expected message.
const DAMAGES: &[(&str, Damage, &str)] = &[
    (
        "manifest cut off",
        |rec, _| truncate(&rec.join("recording.json"), |n| n / 2),
        "is not a valid manifest",
    ),
    ("manifest empty", |rec, _| truncate(&rec.join("recording.json"), |_| 0), "is not a valid manifest"),
    (
        "manifest no JSON",
        |rec, _| fs::write(rec.join("recording.json"), "hello").unwrap(),
        "is not a valid manifest",
    ),
    (
        "manifest a list",
        |rec, _| fs::write(rec.join("recording.json"), "[]").unwrap(),
        "is not a valid manifest",
    ),
    (
        "manifest not UTF-8",
        |rec, _| fs::write(rec.join("recording.json"), [0xff; 9]).unwrap(),
        "is not a valid manifest",
    ),
    (
        "manifest format a text",
        |rec, _| edit(&rec.join("recording.json"), |it| it["format"] = "1".into()),
        "is not a valid manifest",
    ),
    (
        "manifest format 2",
        |rec, _| edit(&rec.join("recording.json"), |it| it["format"] = 2.into()),
        "newer version of offshoot (format 2)",
    ),
    (
        "manifest format 0",
        |rec, _| edit(&rec.join("recording.json"), |it| it["format"] = 0.into()),
        "format 0 was never written",
    ),
    (
        "manifest format -1",
        |rec, _| edit(&rec.join("recording.json"), |it| it["format"] = (-1).into()),
        "is not a valid manifest",
    ),
    (
        "manifest of tomorrow",
        |rec, _| edit(&rec.join("recording.json"), |it| it["colour\u{1b}[2J"] = 1.into()),
        r"unknown field `colour\u{1b}[2J`",
    ),
    (
        "manifest without digests",
        |rec, _| edit(&rec.join("recording.json"), |it| drop(it.as_object_mut().unwrap().remove("digests"))),
        "missing field `digests`",
    ),
    (
        "manifest with wrong lanes",
        |rec, _| edit(&rec.join("recording.json"), |it| it["lanes"] = 7.into()),
        "is not a valid manifest",
    ),
    (
        "manifest with wrong counts",
        |rec, _| edit(&rec.join("recording.json"), |it| it["counts"]["exchanges"] = 9.into()),
        "it has 2 of 9 sealed exchanges",
    ),
    ("manifest of a terabyte", |rec, _| truncate(&rec.join("recording.json"), |_| TERA), "is longer than "),
    (
        "manifest deep",
        |rec, _| {
            fs::write(rec.join("recording.json"), format!("{{\"format\":1,\"lost\":{}}}", deep())).unwrap()
        },
        "is not a valid manifest",
    ),
    (
        "manifest a folder",
        |rec, _| {
            fs::remove_file(rec.join("recording.json")).unwrap();
            fs::create_dir(rec.join("recording.json")).unwrap();
        },
        "neither a file nor a folder",
    ),
    ("manifest a pipe", |rec, _| fifo(&rec.join("recording.json")), "neither a file nor a folder"),
    (
        "manifest elsewhere",
        |rec, env| link_out(&rec.join("recording.json"), env),
        "leads out of the recording's folder",
    ),
    (
        "manifest nowhere",
        |rec, _| {
            fs::remove_file(rec.join("recording.json")).unwrap();
            symlink("nowhere", rec.join("recording.json")).unwrap();
        },
        "cannot read",
    ),
    (
        "log cut off",
        |rec, _| truncate(&rec.join("exchanges.log"), |n| n - 9),
        "it was truncated after sealing",
    ),
    (
        "log without its last records",
        |rec, _| relog(rec, |n, it| if n < 5 { vec![it] } else { vec![] }),
        "it has 1 of 2 sealed exchanges",
    ),
    (
        "log gone",
        |rec, _| fs::remove_file(rec.join("exchanges.log")).unwrap(),
        "exchanges.log` is missing but was sealed",
    ),
    ("log empty", |rec, _| truncate(&rec.join("exchanges.log"), |_| 0), "it has 0 of 2 sealed exchanges"),
    (
        "log with a flipped bit",
        |rec, _| {
            let mut log = fs::read(rec.join("exchanges.log")).unwrap();
            log[150] ^= 1;
            fs::write(rec.join("exchanges.log"), log).unwrap();
        },
        "it was truncated after sealing",
    ),
    (
        "log format 9",
        |rec, _| {
            relog(rec, |n, mut it| {
                if n == 0 {
                    it["format"] = 9.into();
                }
                vec![it]
            })
        },
        "the log has format 9",
    ),
    (
        "log format 0",
        |rec, _| {
            relog(rec, |n, mut it| {
                if n == 0 {
                    it["format"] = 0.into();
                }
                vec![it]
            })
        },
        "the log has format 0",
    ),
    (
        "log of tomorrow",
        |rec, _| {
            relog(rec, |n, mut it| {
                if n == 1 {
                    it["type"] = "danced".into();
                }
                vec![it]
            })
        },
        "is not one of format 1",
    ),
    (
        "log with wrong types",
        |rec, _| {
            relog(rec, |n, mut it| {
                if n == 1 {
                    it["headers"] = 5.into();
                }
                vec![it]
            })
        },
        "is not one of format 1",
    ),
    (
        "log that leads out",
        |rec, _| {
            relog(rec, |_, mut it| {
                if it["id"] == "r000001" {
                    it["id"] = "../../../../../../../secret".into();
                }
                vec![it]
            })
        },
        "`../../../../../../../secret` cannot be the name",
    ),
    (
        "log with an absolute path",
        |rec, _| {
            relog(rec, |_, mut it| {
                if it["id"] == "r000001" {
                    it["id"] = "/etc/passwd".into();
                }
                vec![it]
            })
        },
        "`/etc/passwd` cannot be the name",
    ),
    (
        "log with one name twice",
        |rec, _| relog(rec, |n, it| if n == 1 { vec![it.clone(), it] } else { vec![it] }),
        "`r000001` cannot be the name",
    ),
    (
        "log with a blob elsewhere",
        |rec, _| {
            relog(rec, |_, mut it| {
                if it["body"]["at"] == "blob" {
                    it["body"]["sha256"] = "../../../../../../secret_request.json".into();
                }
                vec![it]
            })
        },
        "leads out of the recording's folder",
    ),
    (
        "log with an absolute blob",
        |rec, _| {
            relog(rec, |_, mut it| {
                if it["body"]["at"] == "blob" {
                    it["body"]["sha256"] = "/etc/passwd".into();
                }
                vec![it]
            })
        },
        "leads out of the recording's folder",
    ),
    (
        "log of a terabyte",
        |rec, _| {
            truncate(&rec.join("exchanges.log"), |_| 0);
            truncate(&rec.join("exchanges.log"), |_| TERA);
        },
        "is longer than ",
    ),
    (
        "log with a hole of a terabyte",
        |rec, _| truncate(&rec.join("exchanges.log"), |_| TERA),
        "is longer than ",
    ),
    (
        "log of one line",
        |rec, _| fs::write(rec.join("exchanges.log"), "a".repeat(80 << 20)).unwrap(),
        "is over 67108864 bytes long",
    ),
    (
        "log deep",
        |rec, _| {
            let json = format!("{{\"type\":\"arrived\",\"headers\":{}}}", deep());
            fs::write(rec.join("exchanges.log"), format!("{:08x} {json}\n", crc32(json.as_bytes()))).unwrap();
        },
        "is not one of format 1",
    ),
    (
        "log a folder",
        |rec, _| {
            fs::remove_file(rec.join("exchanges.log")).unwrap();
            fs::create_dir(rec.join("exchanges.log")).unwrap();
        },
        "neither a file nor a folder",
    ),
    ("log a pipe", |rec, _| fifo(&rec.join("exchanges.log")), "neither a file nor a folder"),
    (
        "log elsewhere",
        |rec, env| link_out(&rec.join("exchanges.log"), env),
        "leads out of the recording's folder",
    ),
    (
        "dump gone",
        |rec, _| fs::remove_file(rec.join("provider_dumps/r000001_request.json")).unwrap(),
        "is damaged: it is gone",
    ),
    (
        "dump cut off",
        |rec, _| truncate(&rec.join("provider_dumps/r000001_response.json"), |n| n / 2),
        "is damaged: not a dump of format 1",
    ),
    (
        "dump empty",
        |rec, _| truncate(&rec.join("provider_dumps/r000001_request.json"), |_| 0),
        "is damaged: not a dump of format 1",
    ),
    (
        "dump with wrong types",
        |rec, _| edit(&rec.join("provider_dumps/r000001_request.json"), |it| it["headers"] = 5.into()),
        "is damaged: not a dump of format 1",
    ),
    (
        "dump with a wrong status",
        |rec, _| edit(&rec.join("provider_dumps/r000001_response.json"), |it| it["status"] = 70_000.into()),
        "is damaged: not a dump of format 1",
    ),
    (
        "dump of tomorrow",
        |rec, _| edit(&rec.join("provider_dumps/r000001_request.json"), |it| it["format"] = 2.into()),
        "the dump has format 2, newer than 1",
    ),
    (
        "dump format 0",
        |rec, _| edit(&rec.join("provider_dumps/r000001_request.json"), |it| it["format"] = 0.into()),
        "the dump has format 0",
    ),
    (
        "dump with broken base64",
        |rec, _| {
            edit(&rec.join("provider_dumps/r000001_request.json"), |it| {
                it["body"] = serde_json::json!({"base64": "?"})
            })
        },
        "it has no readable body",
    ),
    (
        "dump without a body",
        |rec, _| {
            edit(&rec.join("provider_dumps/r000001_request.json"), |it| it["body"] = serde_json::json!({}))
        },
        "it has no readable body",
    ),
    (
        "dump deep",
        |rec, _| {
            fs::write(
                rec.join("provider_dumps/r000001_request.json"),
                format!("{{\"format\":1,\"headers\":{}}}", deep()),
            )
            .unwrap()
        },
        "is damaged: not a dump of format 1",
    ),
    (
        "dump of a terabyte",
        |rec, _| truncate(&rec.join("provider_dumps/r000001_request.json"), |_| TERA),
        "is longer than ",
    ),
    (
        "dump a pipe",
        |rec, _| fifo(&rec.join("provider_dumps/r000001_request.json")),
        "neither a file nor a folder",
    ),
    (
        "dump elsewhere",
        |rec, env| link_out(&rec.join("provider_dumps/r000001_request.json"), env),
        "leads out of the recording's folder",
    ),
    (
        "dumps elsewhere",
        |rec, env| link_out(&rec.join("provider_dumps"), env),
        "leads out of the recording's folder",
    ),
    (
        "dumps gone",
        |rec, _| fs::remove_dir_all(rec.join("provider_dumps")).unwrap(),
        "is damaged: it is gone",
    ),
    (
        "dumps a file",
        |rec, _| {
            fs::remove_dir_all(rec.join("provider_dumps")).unwrap();
            fs::write(rec.join("provider_dumps"), "").unwrap();
        },
        "cannot read",
    ),
    ("blob gone", |rec, _| fs::remove_file(blob(rec)).unwrap(), "is damaged: it is gone"),
    ("blob cut off", |rec, _| truncate(&blob(rec), |n| n - 1), "is damaged: it has 15"),
    ("blob of a terabyte", |rec, _| truncate(&blob(rec), |_| TERA), "is longer than "),
    ("blob elsewhere", |rec, env| link_out(&blob(rec), env), "leads out of the recording's folder"),
    ("blobs elsewhere", |rec, env| link_out(&rec.join("blobs"), env), "leads out of the recording's folder"),
    (
        "a link out of the exports",
        |rec, _| {
            fs::create_dir_all(rec.join("exports/x")).unwrap();
            symlink("/etc/passwd", rec.join("exports/x/s.jsonl")).unwrap();
        },
        "leads out of the recording's folder",
    ),
    (
        "an export of a terabyte",
        |rec, _| {
            fs::create_dir(rec.join("exports")).unwrap();
            fs::write(rec.join("exports/s.jsonl"), "{}").unwrap();
            truncate(&rec.join("exports/s.jsonl"), |_| TERA);
        },
        "is longer than ",
    ),
    (
        "a body that was made deep",
        |rec, _| {
            edit(&rec.join("provider_dumps/r000001_request.json"), |it| {
                it["body"]["text"] = format!("{{\"messages\":{}", "[".repeat(300_000)).into();
            })
        },
        "is nested too deeply",
    ),
    (
        "a scenario that is cut off",
        |rec, _| fs::write(rec.join("scenario.json"), "{").unwrap(),
        "cannot read `goldens/h/1.0/s/runs/a/scenario.json`",
    ),
    (
        "an exit code that is none",
        |rec, _| fs::write(rec.join("exit_code.txt"), "abc").unwrap(),
        "cannot read `goldens/h/1.0/s/runs/a/exit_code.txt`",
    ),
    (
        "a scenario of a terabyte",
        |rec, _| {
            fs::write(rec.join("scenario.json"), "{}").unwrap();
            truncate(&rec.join("scenario.json"), |_| TERA);
        },
        "is longer than ",
    ),
    (
        "an output of a terabyte",
        |rec, _| {
            fs::write(rec.join("stdout.txt"), "").unwrap();
            truncate(&rec.join("stdout.txt"), |_| TERA);
        },
        "is longer than ",
    ),
    (
        "a link to the root",
        |rec, _| symlink("/", rec.join("workspace")).unwrap(),
        "leads out of the recording's folder",
    ),
    (
        "a link out of normalized",
        |rec, env| {
            fs::create_dir(env.path("mine")).unwrap();
            symlink(env.path("mine"), rec.join("normalized")).unwrap();
        },
        "leads out of the recording's folder",
    ),
    (
        "a socket",
        |rec, _| drop(UnixListener::bind(rec.join("socket")).unwrap()),
        "neither a file nor a folder",
    ),
    ("all of it gone", |rec, _| fs::remove_dir_all(rec).unwrap(), "no folder"),
    (
        "a file in its place",
        |rec, _| {
            fs::remove_dir_all(rec).unwrap();
            fs::write(rec, "").unwrap();
        },
        "a recording is a folder",
    ),
    (
        "an empty folder",
        |rec, _| {
            fs::remove_dir_all(rec).unwrap();
            fs::create_dir(rec).unwrap();
        },
        "is not a recording",
    ),
];

#[test]
fn nothing_is_made_of_a_damaged_recording() {
    let good = small();
    let mut wrong = Vec::new();
    for (name, damage, expected) in DAMAGES {
        let env = TestEnv::new();
        copy(&good.path(""), &env.path(""));
        damage(&env.path(REC), &env);
        let before = everything(&env);
        for command in COMMANDS {
            let said = run(&env, command);
            let is_said = said.stderr.starts_with("error: ") && said.stderr.contains(expected);
            let is_tame = !said.stderr.contains("panicked") && !said.stderr.contains('\u{1b}');
            let is_quiet = said.stdout.is_empty() && everything(&env) == before;
            if said.code != Some(2) || !is_said || !is_tame || !is_quiet {
                wrong.push(format!("{name}: {command:?}: {said:?}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn the_recording_that_is_damaged_there_is_good() {
    let env = small();
    for command in COMMANDS {
        let said = run(&env, command);
        assert_eq!(said.code, Some(0), "{command:?}: {said:?}");
    }
    assert!(env.read("goldens/h/1.0/s/golden.json").contains("\"run\": \"a\""));
}

#[test]
fn depth_in_a_body_overflows_nothing() {
    let (list, object) = (deep(), r#"{"a":"#.repeat(100_000) + "1" + &"}".repeat(100_000));
    let request = format!(r#"{{"model":"m","messages":{list},"tools":{object}}}"#);
    let reply = format!(
        r#"{{"type":"message","role":"assistant","id":"i","model":"m","content":[{{"type":"tool_use","id":"t","name":"T","input":{object}}}],"usage":{{}}}}"#
    );
    let env = recorded([&request, &reply]);
    for command in COMMANDS {
        let said = run(&env, command);
        assert!(matches!(said.code, Some(0 | 1)), "{command:?}: {:?} {}", said.code, said.stderr);
    }
    let har = env.read("out.har");
    assert!(har.contains(&list[..1000]), "the body is there as it was sent");
}

/// Agents that start agents that start agents, more often than a stack has room for.
#[test]
fn depth_of_agents_overflows_nothing() {
    let env = TestEnv::in_memory();
    fs::create_dir(env.path("rec")).unwrap();
    for n in 0..2_500 {
        let prompt = |n: usize| format!("Please do piece number {n} of the work.");
        let tools = serde_json::json!([{"name": "Task", "input_schema": {}}]);
        let request = serde_json::json!({"model": "m", "tools": tools, "messages": [{"role": "user", "content": prompt(n)}]});
        let call = serde_json::json!({"type": "tool_use", "id": format!("c{n}"), "name": "Task", "input": {"prompt": prompt(n + 1)}});
        let reply = serde_json::json!({"type": "message", "role": "assistant", "id": "i", "model": "m", "content": [call], "usage": {}});
        for (half, body) in [("request", request), ("response", reply)] {
            let dump = serde_json::json!({"request_id": format!("r{n}"), "timestamp": 1_794_736_800 + n, "method": "POST",
                "targetUrl": "https://p.test/v1/messages", "status": 200, "body": {"text": body.to_string()}});
            env.write(&format!("rec/r{n:05}_{half}.json"), &dump.to_string());
        }
    }
    for command in [
        &["show", "rec"][..],
        &["export", "rec", "--format", "session"],
        &["export", "rec", "--format", "html"],
    ] {
        let said = run(&env, command);
        assert_eq!(said.code, Some(0), "{command:?}: {}", said.stderr);
        assert!(said.stdout.len() < 64 << 20, "{command:?}: {}", said.stdout.len());
    }
}

/// Dumps that another tool could have written, with false claims.
#[test]
fn a_folder_of_dumps_is_never_left() {
    let env = TestEnv::new();
    env.write("secret_request.json", SECRET);
    fs::create_dir_all(env.path("rec/blobs")).unwrap();
    let put = |name: &str, text: &str| env.write(&format!("rec/{name}"), text);
    let dump = |id: &str, body: &str| {
        format!(
            r#"{{"request_id":"{id}","timestamp":"1e300","targetUrl":"https://p.test/v1/messages","method":"POST","body":{body}}}"#
        )
    };
    let asking = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    put("a_request.json", &dump(r"a\u001b[2J\u202e", asking));
    let huge = r#"{"type":"message","role":"assistant","id":"i","model":"m","content":[],"usage":{"input_tokens":18446744073709551615,"output_tokens":18446744073709551615}}"#;
    put("a_response.json", &dump(r"a\u001b[2J\u202e", huge).replace("1e300", "-1"));
    put("b_request.json", &dump("../../b", r#"{"blob":"../../secret_request.json"}"#));
    put("c_request.json", &dump("c", &format!(r#"{{"blob":{:?}}}"#, env.path("secret_request.json"))));
    put("d_request.json", &dump("d", &deep()));
    put("e_request.json", &dump("e", asking));
    put(
        "e_response.json",
        &dump("e", huge).replace("\"method\":\"POST\"", "\"status\":\"x\",\"endUs\":18446744073709551615"),
    );
    put("f_request.json", "{\"request_id\":");
    put("g_request.json", "");
    fifo(&env.path("rec/g_request.json"));
    for command in COMMANDS.iter().filter(|command| command[0] != "accept") {
        let arguments: Vec<&str> = command.iter().map(|it| if *it == REC { "rec" } else { it }).collect();
        let said = run(&env, &arguments);
        assert!(matches!(said.code, Some(0 | 1)), "{command:?}: {said:?}");
        assert!(!(said.stdout.clone() + &said.stderr).contains(SECRET), "{command:?}: {said:?}");
        let raw = said.stdout.contains('\u{1b}') || said.stderr.contains('\u{1b}');
        assert!(!raw && !said.stderr.contains("panicked"), "{command:?}: {said:?}");
    }
    assert!(!env.path("rec").join("../../b").exists());
    let said = run(&env, &["accept", "rec"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    symlink("../secret_request.json", env.path("rec/z_request.json")).unwrap();
    let said = run(&env, &["show", "rec"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("leads out of the recording's folder"), "{said:?}");
}

#[test]
fn a_scenario_that_is_none_stops_the_check() {
    let env = small();
    let scenario = env.path(REC).join("scenario.json");
    for text in ["{", "[]", "{\"name\":5}", &format!("{{\"name\":{}}}", deep())] {
        fs::write(&scenario, text).unwrap();
        let said = run(&env, &["check", REC]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("cannot read `goldens/h/1.0/s/runs/a/scenario.json`"), "{said:?}");
    }
}

/// Text that would clear a terminal, set its title, overwrite a line, and reverse the direction of writing.
const CONTROLS: &str = "\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}5m\r\u{8}\u{202e}x";

/// The dumps of the recording, without its manifest.
const DUMPS: &str = "goldens/h/1.0/s/runs/a/provider_dumps";

/// Collects the path of every string and of every key of an object.
fn strings(value: &serde_json::Value, path: &str, found: &mut Vec<(String, bool)>) {
    match value {
        serde_json::Value::String(_) => found.push((path.to_owned(), false)),
        serde_json::Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| strings(item, &format!("{path}/{n}"), found));
        }
        serde_json::Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            found.push((path.clone(), true));
            strings(field, &path, found);
        }),
        _ => {}
    }
}

/// Replaces a string, or renames the field with this path.
fn replace(value: &mut serde_json::Value, path: &str, is_key: bool) {
    if !is_key {
        *value.pointer_mut(path).unwrap() = CONTROLS.into();
        return;
    }
    let (parent, name) = path.rsplit_once('/').unwrap();
    let fields = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    let field = fields.remove(&name.replace("~1", "/").replace("~0", "~")).unwrap();
    fields.insert(CONTROLS.to_owned(), field);
}

/// Returns the control characters of an output that are not line ends, tabs or our own styles.
fn controls(output: &str) -> Vec<char> {
    const STYLES: [&str; 9] = ["[0m", "[1m", "[2m", "[3m", "[31m", "[32m", "[33m", "[35m", "[36m"];
    let pieces = output.split('\u{1b}');
    let mut found: Vec<char> = pieces
        .skip(1)
        .filter(|rest| !STYLES.iter().any(|style| rest.starts_with(style)))
        .map(|_| '\u{1b}')
        .collect();
    let is_control = |c: &char| c.is_control() && !['\n', '\t', '\u{1b}'].contains(c) || *c == '\u{202e}';
    found.extend(output.chars().filter(is_control));
    found
}

#[test]
fn no_string_of_a_file_controls_a_terminal() {
    let env = small();
    let mut files = vec![env.path(REC).join("recording.json")];
    let dumps = fs::read_dir(env.path(REC).join("provider_dumps")).unwrap();
    let dumps: Vec<PathBuf> = dumps.map(|entry| entry.unwrap().path()).collect();
    files.extend(dumps.into_iter().filter(|path| path.metadata().unwrap().len() < 10_000));
    assert!(files.len() > 2, "{files:?}");
    let read = |file: PathBuf| {
        let whole: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let mut found = Vec::new();
        strings(&whole, "", &mut found);
        // Keys are names of files and variables in a manifest, and fixed in a dump.
        found.retain(|(_, is_key)| file.ends_with("recording.json") || !is_key);
        (file, whole, found)
    };
    let files: Vec<_> = files.into_iter().map(read).collect();
    let rounds = files.iter().map(|(_, _, found)| found.len()).max().unwrap();
    let commands: [&[&str]; 6] = [
        &["show", REC],
        &["check", REC],
        &["verify", REC, REC],
        &["accept", REC],
        &["show", DUMPS],
        &["cache", DUMPS],
    ];
    let mut wrong = Vec::new();
    // Each round replaces one string in every file.
    for round in 0..rounds {
        let mut places = Vec::new();
        for (file, whole, found) in &files {
            let mut changed = whole.clone();
            if let Some((path, is_key)) = found.get(round) {
                replace(&mut changed, path, *is_key);
                places.push(path);
            }
            fs::write(file, changed.to_string()).unwrap();
        }
        for command in commands {
            let said = env.run(&[&["--color", "always"], command].concat());
            let found = controls(&(said.stdout + &said.stderr));
            if !found.is_empty() || !matches!(said.code, Some(0..=3)) {
                wrong.push(format!("{places:?}: {command:?}: {:?} {found:?}", said.code));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
