//! Recordings on disk that were changed after they were sealed.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use expect_test::{Expect, expect};
use recording::source::Source;
use recording::{Command, FolderDisk, Manifest, Recorder, RecordingOptions};
use redact::{FingerprintKey, Redactor};
use serde_json::{Value, json};
use tempfile::TempDir;
use wire::Ending;

use super::{Level, ParityRules, VerdictOutcome, rendered};
use crate::verify;

/// A sealed recording of one question.
fn sealed() -> TempDir {
    let place = tempfile::tempdir().expect("a folder");
    let dir = place.path().join("recording");
    let command = Command { cwd: "/work/here".into(), exit_code: Some(0), ..Command::default() };
    let manifest = Manifest { command: Some(command), ..Manifest::default() };
    let mut settings = RecordingOptions { dir: dir.clone(), started_at: SystemTime::UNIX_EPOCH, manifest };
    let redactor = Redactor::new(FingerprintKey::from_bytes([7; 32]));
    let recorder =
        Recorder::create(&mut settings, redactor, |dir| Box::new(FolderDisk::new(dir))).expect("created");
    let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let url = "http://127.0.0.1:4000/v1/messages?beta=true";
    let tap = recorder.begin_exchange("POST", url, vec![header("x-beta", "tides")]);
    let body =
        json!({"model": "tern-3", "max_tokens": 9, "messages": [{"role": "user", "content": "Look."}]});
    tap.request_data(|keep| keep(body.to_string().as_bytes()));
    tap.end_request(true, Vec::new());
    tap.begin_response(200, vec![header("content-type", "application/json")]);
    let reply = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "tern-3",
        "content": [{"type": "text", "text": "Seen."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1}});
    tap.response_data(|keep| keep(reply.to_string().as_bytes()));
    tap.end(Ending::Complete, None, Vec::new());
    drop(tap);
    let finished = recorder.finish(Duration::from_secs(10)).expect("not finished before");
    finished.seal(&dir, settings.manifest).expect("sealed");
    place
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("readable");
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).expect("copied")),
        }
    }
}

/// Edits a file of a copy; what is said of the copy, and what of it as the golden.
fn check(edit: impl FnOnce(&Path), expected: Expect) {
    let place = sealed();
    let (golden, candidate) = (place.path().join("recording"), place.path().join("copy"));
    copy(&golden, &candidate);
    edit(&candidate);
    let sources = [&golden, &candidate].map(|dir| Source::open(dir).expect("a recording"));
    let mut said = String::new();
    for (mine, theirs) in [(0, 1), (1, 0)] {
        let verdict = verify(&sources[mine], &sources[theirs], &ParityRules::default(), Level::E3);
        let notes: Vec<_> = verdict.notes.iter().filter(|note| note.contains("seal")).cloned().collect();
        said.push_str(&format!("{}{}\n", rendered(&verdict), notes.join("\n")));
    }
    expected.assert_eq(&said);
}

fn edit(dir: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = dir.join(file);
    let mut dump: Value = serde_json::from_slice(&fs::read(&path).expect("there")).expect("JSON");
    change(&mut dump);
    fs::write(path, dump.to_string()).expect("written");
}

const REQUEST: &str = "provider_dumps/r000001_request.json";
const RESPONSE: &str = "provider_dumps/r000001_response.json";

#[test]
fn an_unchanged_recording_passes() {
    check(
        |_| (),
        expect![[r#"
        E4 Match

        E4 Match

    "#]],
    );
    // ParityRules may be put into a golden's folder.
    check(
        |dir| fs::write(dir.join("parity.toml"), "format = 1\n").expect("written"),
        expect![[r#"
        E4 Match

        E4 Match

    "#]],
    );
}

#[test]
fn a_dump_that_was_changed_is_named() {
    check(
        |dir| {
            edit(dir, REQUEST, |dump| {
                dump["targetUrl"] = "http://127.0.0.1:4000/v2/messages?beta=false".into();
                dump["method"] = "PUT".into();
                dump["headers"][0]["value"] = "moons".into();
            });
        },
        expect![[r#"
            E1 Differs
            E1 settings main 1 header:x-beta: `provider_dumps/r000001_request.json` was changed after it was sealed: tides / moons
            E1 routing main 1 method: `provider_dumps/r000001_request.json` was changed after it was sealed: POST / PUT
            E1 routing main 1 url:path: `provider_dumps/r000001_request.json` was changed after it was sealed: /v1/messages / /v2/messages
            E1 settings main 1 url:query: `provider_dumps/r000001_request.json` was changed after it was sealed: beta=true / beta=false
            the candidate was changed since it was sealed: `provider_dumps/r000001_request.json` was changed
            E1 Differs
            E1 settings main 1 header:x-beta: `provider_dumps/r000001_request.json` was changed after it was sealed: moons / tides
            E1 routing main 1 method: `provider_dumps/r000001_request.json` was changed after it was sealed: PUT / POST
            E1 routing main 1 url:path: `provider_dumps/r000001_request.json` was changed after it was sealed: /v2/messages / /v1/messages
            E1 settings main 1 url:query: `provider_dumps/r000001_request.json` was changed after it was sealed: beta=false / beta=true
            the golden was changed since it was sealed: `provider_dumps/r000001_request.json` was changed
        "#]],
    );
    check(
        |dir| edit(dir, RESPONSE, |dump| dump["status"] = 500.into()),
        expect![[r#"
            E1 Differs
            E1 routing main 1 answer:status: `provider_dumps/r000001_response.json` was changed after it was sealed: 200 / 500
            the candidate was changed since it was sealed: `provider_dumps/r000001_response.json` was changed
            E1 Differs
            E1 routing main 1 answer:status: `provider_dumps/r000001_response.json` was changed after it was sealed: 500 / 200
            the golden was changed since it was sealed: `provider_dumps/r000001_response.json` was changed
        "#]],
    );
    check(
        |dir| {
            edit(dir, REQUEST, |dump| {
                let text = dump["body"]["text"].as_str().expect("a text").replace("Look.", "Hear.");
                dump["body"]["text"] = text.into();
            });
        },
        expect![[r#"
            E2 Differs
            E2 prompt main 1 /messages/0/content: a text differs: Look. / Hear.
            the candidate was changed since it was sealed: `provider_dumps/r000001_request.json` was changed
            E2 Differs
            E2 prompt main 1 /messages/0/content: a text differs: Hear. / Look.
            the golden was changed since it was sealed: `provider_dumps/r000001_request.json` was changed
        "#]],
    );
}

#[test]
fn a_recording_that_was_changed_is_no_match() {
    check(
        |dir| fs::write(dir.join("exit_code.txt"), "1\n").expect("written"),
        expect![[r#"
        E4 Inconclusive("the candidate was changed since it was sealed: `exit_code.txt` was changed")
        the candidate was changed since it was sealed: `exit_code.txt` was changed
        E4 Inconclusive("the golden was changed since it was sealed: `exit_code.txt` was changed")
        the golden was changed since it was sealed: `exit_code.txt` was changed
    "#]],
    );
}

#[test]
fn a_seal_that_forgot_a_dump_is_no_match() {
    check(
        |dir| {
            edit(dir, "recording.json", |manifest| {
                drop(manifest["digests"].as_object_mut().expect("digests").remove(RESPONSE));
            });
        },
        expect![[r#"
            E4 Inconclusive("the candidate was changed since it was sealed: `provider_dumps/r000001_response.json` is new")
            the candidate was changed since it was sealed: `provider_dumps/r000001_response.json` is new
            E4 Inconclusive("the golden was changed since it was sealed: `provider_dumps/r000001_response.json` is new")
            the golden was changed since it was sealed: `provider_dumps/r000001_response.json` is new
        "#]],
    );
}

#[test]
fn a_recording_that_was_not_sealed_is_no_match() {
    check(
        |dir| fs::remove_file(dir.join("recording.json")).expect("it was there"),
        expect![[r#"
            E4 Inconclusive("the candidate is not sealed: it has no `recording.json`")
            the candidate is not sealed: it has no `recording.json`
            E4 Inconclusive("the golden is not sealed: it has no `recording.json`")
            the golden is not sealed: it has no `recording.json`
        "#]],
    );
}

#[test]
fn a_dump_that_cannot_be_read_is_no_match() {
    for dump in ["r000001_request.json", "r000001_response.json"] {
        let place = sealed();
        let (whole, cut) = (place.path().join("recording/provider_dumps"), place.path().join("cut"));
        copy(&whole, &cut);
        // Another exchange, so that something is left to be compared.
        for half in ["request", "response"] {
            let from = whole.join(format!("r000001_{half}.json"));
            let text = fs::read_to_string(from).expect("there").replace("r000001", "r000002");
            fs::write(cut.join(format!("r000002_{half}.json")), text).expect("written");
        }
        let bytes = fs::read(cut.join(dump)).expect("there");
        fs::write(cut.join(dump), &bytes[..100]).expect("written");
        let source = Source::open(&cut).expect("dumps");
        let verdict = verify(&source, &source, &ParityRules::default(), Level::E0);
        let VerdictOutcome::Inconclusive(because) = &verdict.outcome else {
            panic!("{}", rendered(&verdict))
        };
        assert!(because.contains(dump) && because.contains("was not compared"), "{because}");
    }
}
