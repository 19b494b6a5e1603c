//! A window has the same result as the redaction of the whole text.

use proptest::prelude::*;

use super::*;

fn through(
    redactor: &mut Redactor,
    text: &[u8],
    content_type: Option<&str>,
    size: usize,
    cuts: &[usize],
) -> (Vec<u8>, Edits) {
    let mut window = RedactionWindow::sized("f", content_type, size, size / 2);
    let mut out = Vec::new();
    let mut from = 0;
    for &cut in cuts.iter().chain([&text.len()]) {
        let cut = cut.clamp(from, text.len());
        out.extend(window.push(redactor, &text[from..cut]));
        from = cut;
    }
    out.extend(window.finish(redactor));
    (out, window.edits().clone())
}

fn long_text() -> String {
    let secret = ["sk-", "ant-", "api03-", &random(ALNUM, 90, 1)].concat();
    let mut text = String::new();
    for line in 0..40 {
        text += &format!(
            "line {line} says {{\"path\": \"a\\\\b\", \"api_key\": \"{}\"}} and more\n",
            random(ALNUM, 20, line)
        );
        text += &format!("{secret} or abcd1234efgh or %61bcd1234efgh\n{}\n", random("abcdef ,.", 150, line));
    }
    text
}

#[test]
fn a_long_text_cut_anywhere() {
    let text = long_text();
    let whole = taught().redact_text("f", text.as_bytes()).bytes.into_owned();
    for size in [256, 400, 1000] {
        for step in [1, 7, 64, 333] {
            let cuts: Vec<usize> = (0..text.len()).step_by(step).collect();
            let mut redactor = taught();
            let (out, edits) = through(&mut redactor, text.as_bytes(), None, size, &cuts);
            assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&whole), "{size} {step}");
            assert_eq!(edits.apply(text.as_bytes()).expect("no overlap"), out);
            assert!(redactor.report().findings.iter().map(|finding| finding.count).sum::<u64>() >= 80);
        }
    }
}

#[test]
fn a_long_stream_cut_anywhere() {
    let mut stream = String::new();
    for round in 0..8 {
        let text = format!(
            "round {round}: abcd1234efgh and {{\"api_key\": \"{}\"}} done. ",
            random(ALNUM, 16, round)
        );
        for piece in text.as_bytes().chunks(4) {
            stream += &format!(
                "event: d\ndata: {{\"index\":0,\"delta\":{{\"text\":\"{}\"}}}}\n\n",
                inner(&String::from_utf8_lossy(piece))
            );
        }
    }
    let whole = taught().redact_text("f", stream.as_bytes()).bytes.into_owned();
    for step in [1, 50, 1000] {
        let cuts: Vec<usize> = (0..stream.len()).step_by(step).collect();
        let (out, edits) = through(&mut taught(), stream.as_bytes(), Some("text/event-stream"), 2048, &cuts);
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&whole), "{step}");
        assert_eq!(edits.apply(stream.as_bytes()).expect("no overlap"), out);
        assert_valid("window", stream.as_bytes(), &out);
    }
}

/// A secret with the length that the window holds back.
#[test]
fn a_very_long_secret() {
    let secret = random(ALNUM, 60 << 10, 3);
    let text = format!("{} {secret} {}", "before ".repeat(40_000), "behind ".repeat(40_000));
    let mut redactor = redactor();
    redactor.learn("test", secret.as_bytes());
    let mut window = RedactionWindow::new("f", None);
    let mut out = Vec::new();
    for piece in text.as_bytes().chunks(10_000) {
        out.extend(window.push(&mut redactor, piece));
    }
    out.extend(window.finish(&mut redactor));
    assert_eq!(out.len(), text.len() - secret.len() + 34);
    assert!(placeholder::find(&out).is_some());
}

fn taught() -> Redactor {
    let mut redactor = redactor();
    redactor.learn("test", b"abcd1234efgh");
    redactor
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn bytes_without_secrets_stay(text in "[a-z \\\\\n\"{}:,]{0,900}", cuts in prop::collection::vec(0usize..900, 0..9)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let (out, _) = through(&mut redactor(), text.as_bytes(), None, 64, &cuts);
        let whole = redactor().redact_text("f", text.as_bytes()).bytes.into_owned();
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&whole));
    }
}
