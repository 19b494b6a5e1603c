//! A secret that is learned after it was written is removed, however the body around it was packed.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use recording::{
    Command, FinishedRecording, FolderDisk, Manifest, Recorder, Recording, RecordingOptions, SealError,
};
use redact::{FingerprintKey, Redactor};
use wire::{Ending, Exchange, encoding};

const SECRET: &str = "q7Zt9Lm2Xc4Vb6Np8Ks1";

type Headers = Vec<(String, Vec<u8>)>;

fn header(name: &str, value: &str) -> (String, Vec<u8>) {
    (name.to_owned(), value.as_bytes().to_vec())
}

/// Records a response, and then a request that reveals `SECRET` as a key.
fn recorded(dir: &Path, headers: &Headers, body: &[u8]) -> FinishedRecording {
    let mut settings = RecordingOptions {
        dir: dir.to_owned(),
        started_at: SystemTime::UNIX_EPOCH,
        manifest: Manifest::default(),
    };
    let redactor = Redactor::new(FingerprintKey::from_bytes([7; 32]));
    let recorder =
        Recorder::create(&mut settings, redactor, |dir| Box::new(FolderDisk::new(dir))).expect("created");
    for (asked, answered, body) in
        [(vec![], headers.clone(), body), (vec![header("x-api-key", SECRET)], vec![], b"{}")]
    {
        let tap = recorder.begin_exchange("POST", "http://127.0.0.1:4000/v1/messages", asked);
        tap.end_request(true, Vec::new());
        tap.begin_response(200, answered);
        body.chunks(100_000).for_each(|piece| tap.response_data(|keep| keep(piece)));
        tap.end(Ending::Complete, None, Vec::new());
    }
    recorder.finish(Duration::from_secs(60)).expect("not finished before")
}

/// Returns the first response of a recording, as its readers see it.
fn answer(dir: &Path, coding: Option<&str>) -> (Exchange, Vec<u8>) {
    let recording = Recording::open(dir).expect("a recording");
    let exchange = recording.exchanges().next().expect("one").expect("readable");
    let response = exchange.response.as_ref().expect("an answer");
    let bytes = recording.bytes_of(&response.body).expect("readable").expect("kept");
    let unpacked = coding.and_then(|coding| encoding::decode(coding, &bytes, 64 << 20).ok());
    (exchange, unpacked.unwrap_or(bytes))
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Returns text that is random enough to resist compression.
fn noise(length: usize) -> String {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (state >> 33) as u8 % 26)
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn from_every_coding_declared_or_not_in_a_dump_or_a_blob() {
    for (coding, declared) in [
        ("identity", true),
        ("gzip", true),
        ("gzip", false),
        ("zstd", true),
        ("zstd", false),
        ("br", true),
        ("deflate", true),
    ] {
        for length in [0, 2_500_000] {
            let what = format!("{coding}, declared: {declared}, with {length} bytes more");
            let text = format!("the value is {SECRET} here, and then {}", noise(length));
            let packed = encoding::encode(coding, text.as_bytes()).expect("a known coding");
            let headers = if declared { vec![header("Content-Encoding", coding)] } else { vec![] };
            let place = tempfile::tempdir().expect("a folder");
            let dir = place.path().join("recording");

            // Without scrubbing, the final search would have found it.
            let mut finished = recorded(&dir, &headers, &packed);
            assert!(finished.learned_late, "{what}");
            finished.learned_late = false;
            let refused = finished.seal(&dir, Manifest::default());
            assert!(matches!(refused, Err(SealError::Residue { .. })), "{what}: {refused:?}");

            fs::remove_dir_all(&dir).expect("removed");
            recorded(&dir, &headers, &packed).seal(&dir, Manifest::default()).expect(&what);
            let (exchange, bytes) = answer(&dir, (coding != "identity").then_some(coding));
            assert!(holds(&bytes, "the value is offshoot-redacted-"), "{what}");
            assert!(holds(&bytes, " here, and then ") && !holds(&bytes, SECRET), "{what}");
            let reads = exchange.response.expect("an answer").reads;
            let inside = reads.iter().all(|read| read.offset as usize <= bytes.len());
            assert!(inside && reads.is_sorted_by_key(|read| read.offset), "{what}: {reads:?}");
        }
    }
}

/// Text after a removed secret moves, also in a blob.
#[test]
fn the_places_of_reads_move_along() {
    let text = format!("{SECRET}{}", noise(2_500_000));
    let place = tempfile::tempdir().expect("a folder");
    let dir = place.path().join("recording");
    recorded(&dir, &vec![], text.as_bytes()).seal(&dir, Manifest::default()).expect("sealed");
    let (exchange, bytes) = answer(&dir, None);
    let moved = bytes.len() as u64 - text.len() as u64;
    let reads = exchange.response.expect("an answer").reads;
    let places: Vec<u64> = reads.iter().map(|read| read.offset).collect();
    let expected: Vec<u64> = (0..26).map(|n| if n == 0 { 0 } else { n * 100_000 + moved }).collect();
    assert_eq!(places, expected);
}

/// Scrubbing treats a long stream as a stream, whatever its first line is.
#[test]
fn from_the_pieces_of_a_long_stream() {
    let event = |text: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let cut: String = [&SECRET[..5], &SECRET[5..11], &SECRET[11..]].map(event).concat();
    let filler: String = (0..20_000).map(|n| event(&format!("word {n} "))).collect();
    for (begins, content_type) in [(": hello\n\n", "text/plain"), ("unknown: 1\n\n", "text/event-stream")] {
        let place = tempfile::tempdir().expect("a folder");
        let dir = place.path().join("recording");
        let stream = format!("{begins}{cut}{filler}{cut}");
        let headers = vec![header("content-type", content_type)];
        recorded(&dir, &headers, stream.as_bytes()).seal(&dir, Manifest::default()).expect("sealed");
        let (_, bytes) = answer(&dir, None);
        let text = String::from_utf8(bytes).expect("text");
        let said: String = text
            .split("\"content\":\"")
            .skip(1)
            .map(|rest| &rest[..rest.find('"').expect("an end")])
            .collect();
        assert!(!said.contains(SECRET), "{begins:?}");
        assert_eq!(said.matches("offshoot-redacted-").count(), 2, "{begins:?}");
    }
}

/// A secret that was known before a long stream came, in pieces too far apart for the window.
#[test]
fn from_pieces_that_are_far_apart() {
    let event = |text: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let other = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other \"}}]}\n\n".repeat(20_000);
    let stream = event(&SECRET[..9]) + &other + &event(&SECRET[9..]);
    let place = tempfile::tempdir().expect("a folder");
    let dir = place.path().join("recording");
    let mut settings = RecordingOptions {
        dir: dir.clone(),
        started_at: SystemTime::UNIX_EPOCH,
        manifest: Manifest::default(),
    };
    let redactor = Redactor::new(FingerprintKey::from_bytes([7; 32]));
    let recorder =
        Recorder::create(&mut settings, redactor, |dir| Box::new(FolderDisk::new(dir))).expect("created");
    let asked = vec![header("x-api-key", SECRET)];
    let tap = recorder.begin_exchange("POST", "http://127.0.0.1:4000/v1/chat/completions", asked);
    tap.end_request(true, Vec::new());
    tap.begin_response(200, vec![header("content-type", "text/event-stream")]);
    stream.as_bytes().chunks(100_000).for_each(|piece| tap.response_data(|keep| keep(piece)));
    tap.end(Ending::Complete, None, Vec::new());
    let finished = recorder.finish(Duration::from_secs(60)).expect("not finished before");
    assert!(!finished.learned_late);
    finished.seal(&dir, Manifest::default()).expect("sealed");
    let (_, bytes) = answer(&dir, None);
    assert!(!holds(&bytes, &SECRET[..9]) && !holds(&bytes, &SECRET[9..]));
    assert!(holds(&bytes, "offshoot-redacted-"));
}

/// A secret on the command line is known before the first exchange.
#[test]
fn values_of_secret_options_are_never_written() {
    let place = tempfile::tempdir().expect("a folder");
    let dir = place.path().join("recording");
    let argv = ["tool", "--password", "autumn-leaves"].map(str::to_owned).to_vec();
    let manifest = Manifest { command: Some(Command { argv, ..Command::default() }), ..Manifest::default() };
    let mut settings = RecordingOptions { dir: dir.clone(), started_at: SystemTime::UNIX_EPOCH, manifest };
    let redactor = Redactor::new(FingerprintKey::from_bytes([7; 32]));
    let recorder =
        Recorder::create(&mut settings, redactor, |dir| Box::new(FolderDisk::new(dir))).expect("created");
    let tap = recorder.begin_exchange("POST", "http://127.0.0.1:4000/v1/messages", Vec::new());
    tap.request_data(|keep| keep(b"they say autumn-leaves here"));
    tap.end_request(true, Vec::new());
    tap.end(Ending::NoResponse, None, Vec::new());
    let finished = recorder.finish(Duration::from_secs(60)).expect("not finished before");
    assert!(!finished.learned_late);
    finished.seal(&dir, settings.manifest).expect("sealed");
    for file in ["recording.json", "provider_dumps/r000001_request.json"] {
        let bytes = fs::read(dir.join(file)).expect("there");
        assert!(holds(&bytes, "offshoot-redacted-") && !holds(&bytes, "autumn-leaves"), "{file}");
    }
}
