//! Binary files of a workspace: a secret inside keeps them out, and what cannot be searched is named.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use recording::{
    FileImport, FinishedRecording, FolderDisk, Manifest, ParsedManifest, Recorder, RecordingOptions,
};
use redact::{FingerprintKey, Redactor};
use wire::{Ending, encoding};

const SECRET: &str = "q7Zt9Lm2Xc4Vb6Np8Ks1";

/// Records one exchange with a body.
fn recorded(dir: &Path, body: &[u8]) -> FinishedRecording {
    let mut settings = RecordingOptions {
        dir: dir.to_owned(),
        started_at: SystemTime::UNIX_EPOCH,
        manifest: Manifest::default(),
    };
    let redactor = Redactor::new(FingerprintKey::from_bytes([7; 32]));
    let recorder =
        Recorder::create(&mut settings, redactor, |dir| Box::new(FolderDisk::new(dir))).expect("created");
    let tap = recorder.begin_exchange("POST", "http://127.0.0.1:4000/v1/files", Vec::new());
    body.chunks(100_000).for_each(|piece| tap.request_data(|keep| keep(piece)));
    tap.end_request(true, Vec::new());
    tap.begin_response(200, Vec::new());
    tap.end(Ending::Complete, None, Vec::new());
    recorder.finish(Duration::from_secs(60)).expect("not finished before")
}

fn imports(place: &Path, files: &[(&str, Vec<u8>)]) -> Vec<FileImport> {
    let import = |(name, bytes): &(&str, Vec<u8>)| {
        let path = place.join(name);
        fs::write(&path, bytes).expect("written");
        FileImport { name: format!("workspace/{name}"), path }
    };
    files.iter().map(import).collect()
}

fn manifest(dir: &Path) -> Manifest {
    match Manifest::read(&fs::read(dir.join("recording.json")).expect("a manifest")) {
        ParsedManifest::Valid(manifest) => *manifest,
        other => panic!("{other:?}"),
    }
}

fn gzip(text: &str) -> Vec<u8> {
    encoding::encode("gzip", text.as_bytes()).expect("a known coding")
}

#[test]
fn a_packed_file_with_a_secret_is_not_kept() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let dir = place.path().join("rec");
    let mut finished = recorded(&dir, b"{}");
    let files = [
        ("env.gz", gzip(&format!("it is {SECRET}\n"))),
        ("other.gz", gzip("nothing here\n")),
        ("x.7z", b"7z\xbc\xaf\x27\x1c\0\x04\0\0".to_vec()),
        (".env", format!("DB_PASSWORD={SECRET}\n").into_bytes()),
    ];
    finished.import_files(&dir, &imports(place.path(), &files)).expect("copied");
    finished.seal(&dir, Manifest::default()).expect("sealed");
    assert!(!dir.join("workspace/env.gz").exists());
    assert_eq!(fs::read(dir.join("workspace/other.gz")).expect("kept"), files[1].1);
    let manifest = manifest(&dir);
    let lost: Vec<String> = manifest.lost.iter().map(ToString::to_string).collect();
    let bytes = files[0].1.len();
    let expected =
        format!("command: `workspace/env.gz` ({bytes} bytes): it is binary data with a secret inside");
    assert_eq!(lost, [expected]);
    assert_eq!(manifest.unsearched, ["`workspace/x.7z`: it contains a 7-Zip archive"]);
}

#[test]
fn an_archive_as_a_body_is_searched_whole() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let noise: String =
        (0..400_000u64).map(|n| format!("{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let member = gzip(&format!("{noise}\nDB_PASSWORD={SECRET}\n"));
    assert!(member.len() > 1 << 20, "longer than the search window");
    for ahead in [&b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"[..], b"%PDF-1.7\n\0"] {
        let dir = place.path().join(format!("rec{}", ahead.len()));
        recorded(&dir, &[ahead, &member].concat()).seal(&dir, Manifest::default()).expect("sealed");
        let manifest = manifest(&dir);
        assert!(manifest.redaction.findings.iter().any(|entry| entry.rule == "packed"), "{manifest:?}");
        let stored = fs::read_to_string(dir.join("provider_dumps/r000001_request.json")).expect("a dump");
        assert!(stored.contains("offshoot-redacted-"), "{stored}");
    }
}

#[test]
fn pictures_in_requests_are_named_once() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let dir = place.path().join("rec");
    let body = br#"{"messages":[{"content":[{"type":"image","source":{"data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"}}]}]}"#;
    recorded(&dir, body).seal(&dir, Manifest::default()).expect("sealed");
    assert_eq!(manifest(&dir).unsearched, ["r000001 request body: it contains a PNG image"]);
}
