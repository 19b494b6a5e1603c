//! Learned values in encoded forms: wrapped base64, UTF-16, HTML.

use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::*;

/// A compressed body with a secret is stored decoded. Data after its end is reported as not stored.
#[test]
fn data_after_a_compressed_body() {
    let secret = random(ALNUM, 24, 40);
    for (behind, said) in
        [("", None), ("and more", Some("the body continues after its gzip data; the rest is not stored"))]
    {
        let packed = wire::encoding::encode("gzip", format!("it is {secret} here").as_bytes()).expect("gzip");
        let body = [&packed, behind.as_bytes()].concat();
        let hints = BodyHints { content_type: None, content_encoding: Some("gzip") };
        let mut redactor = redactor();
        redactor.learn("test", secret.as_bytes());
        let out = redactor.redact_body("body", hints, &body);
        assert!(out.decoded && out.bytes.starts_with(b"it is offshoot-redacted-"), "{behind}");
        assert_eq!(out.unsearched.map(|why| why.to_string()).as_deref(), said);
    }
}

const BREAKS: &[&str] =
    &["\n", "\r\n", "\\n", "\\r\\n", "\\\\n", "\n    ", "\\n\\t", "\n     2→", "\\n00002| "];

/// Every alignment, both alphabets, every position and notation of the line end.
#[test]
fn base64_in_lines() {
    let canary = format!("{}/?>{}", random(ALNUM, 7, 1), random(ALNUM, 8, 2));
    let mut redactor = redactor();
    redactor.learn("test", canary.as_bytes());
    for (alphabet, engine) in [("standard", &STANDARD), ("url-safe", &URL_SAFE)] {
        for (at, gap) in BREAKS.iter().enumerate() {
            let width = [64, 70, 76][at % 3];
            for ahead in 24..60 {
                let encoded = engine.encode(format!("{}{canary} behind", random(ALNUM, ahead, 3)));
                let lines: Vec<_> = encoded.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
                let text = format!("{{\"stdout\": \"{}\"}}", lines.join(gap));
                let what = format!("{alphabet} {width} {ahead} {gap:?}");
                let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
                assert!(placeholder::find(&out).is_some(), "{what}: {text}");
                assert_gone(&what, &out, &canary);
                assert_valid(&what, text.as_bytes(), &out);
                assert_eq!(redactor.find_residues("f", &out), [], "{what}");
            }
        }
    }
}

/// A secret of several lines is redacted completely, and the lines around it stay.
#[test]
fn a_long_value_in_lines() {
    let canary = random(ALNUM, 400, 4);
    let encoded = STANDARD.encode(format!("{}{canary}{}", "a".repeat(171), "b".repeat(171)));
    let lines: Vec<_> = encoded.as_bytes().chunks(76).map(String::from_utf8_lossy).collect();
    let text = format!("before\n{}\nbehind\n", lines.join("\n"));
    let mut redactor = redactor();
    redactor.learn("test", canary.as_bytes());
    let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
    assert_gone("lines", &out, &canary);
    assert!(out.starts_with(format!("before\n{}\n{}\n", lines[0], lines[1]).as_bytes()));
    assert!(out.ends_with(format!("\n{}\nbehind\n", lines.last().expect("lines")).as_bytes()));
    assert_eq!(redactor.report().findings[0].count, 1);
}

/// Both kinds of line ends in one text, in either order.
#[test]
fn escaped_and_other_line_ends() {
    let canary = random(ALNUM, 24, 9);
    let mut redactor = redactor();
    redactor.learn("test", canary.as_bytes());
    let [escaped, raw] = ["\\n", "\n"].map(|gap| wrapped(&canary, false, 50, 76, gap));
    for text in [format!("{escaped} and\n{raw}\n"), format!("{raw}\nand \"{escaped}\"")] {
        let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
        assert_gone("both", &out, &canary);
        assert_eq!(redactor.find_residues("f", &out), []);
    }
}

/// The redaction and the last check read backslashes that escape nothing in the same way.
#[test]
fn patterns_of_addresses_can_be_sealed() {
    for pattern in [r"re.compile(r'^https?://\w+:\w+@\w+')", r#"grep -E "postgres://\w+:\S+@\S+""#] {
        let quoted = format!("{{\"content\":{}}}", wire::json::quote(pattern));
        for text in [pattern, &quoted] {
            let mut redactor = redactor();
            let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
            assert_eq!(String::from_utf8_lossy(&out), *text);
            assert_eq!(redactor.find_residues("f", &out), [], "{text}");
        }
    }
}

/// Lines of base64 without a secret stay, and so do words that are only adjacent across a line end.
#[test]
fn other_lines_stay() {
    let mut redactor = redactor();
    redactor.learn("test", b"correcthorse99");
    let image = random(&format!("{ALNUM}+/"), 76 * 20, 5);
    let image: Vec<_> = image.as_bytes().chunks(76).map(String::from_utf8_lossy).collect();
    for text in [image.join("\n"), image.join("\r\n"), "a correct\nhorse99 b".to_owned(), "\n\n\n".repeat(99)]
    {
        assert_eq!(String::from_utf8_lossy(&redactor.redact_text("f", text.as_bytes()).bytes), text);
        assert_eq!(redactor.find_residues("f", text.as_bytes()), []);
    }
}

fn utf16(text: &str, little: bool) -> Vec<u8> {
    text.encode_utf16()
        .flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() })
        .collect()
}

#[test]
fn utf16_of_both_orders() {
    for canary in [random(ALNUM, 12, 6), format!("{}\u{e9}\u{20ac}\u{1f600}\"{}", random(ALNUM, 6, 7), "xyz")]
    {
        for little in [true, false] {
            let mut redactor = redactor();
            redactor.learn("test", canary.as_bytes());
            let wide = utf16(&format!("\u{feff}key {canary} end"), little);
            assert_ne!(redactor.find_residues("f", &wide), []);
            let out = redactor.redact_text("f", &wide).bytes.into_owned();
            assert!(placeholder::find(&out).is_some(), "{canary} {little}");
            assert_eq!(memchr::memmem::find(&out, &utf16(&canary, little)), None);
            assert_eq!(redactor.find_residues("f", &out), []);
            // In the form of a harness that read the file as UTF-8.
            if canary.is_ascii() {
                let text = String::from_utf8(utf16(&canary, little)).expect("ASCII and zeros");
                let text = format!("{{\"content\":\"a{}b\"}}", inner(&text));
                assert!(text.contains("\\u0000"));
                assert_ne!(redactor.find_residues("f", text.as_bytes()), [], "{text}");
                let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
                assert_valid("utf-16", text.as_bytes(), &out);
                assert!(placeholder::find(&out).is_some(), "{text}");
                assert_eq!(redactor.find_residues("f", &out), []);
            }
        }
    }
}

#[test]
fn html_around_and_inside_a_value() {
    let mut redactor = redactor();
    let canary = "pa\"ss & <word> o'1";
    redactor.learn("test", canary.as_bytes());
    for (text, clean) in [
        (format!("<b a='{}'>&amp;</b>", html(canary)), "<b a='‹›'>&amp;</b>"),
        (format!("x &#x70;&#97;{} y", html(&canary[2..])), "x ‹› y"),
        ("pa&quot;ss &amp; &lt;word&gt; o&apos;1".to_owned(), "‹›"),
        ("pa&amp;quot;ss &amp;amp; &lt;word> o&#039;1".to_owned(), "‹›"),
        ("pa&quot;ss &amp; &lt;word&gt; o&apos;2".to_owned(), "pa&quot;ss &amp; &lt;word&gt; o&apos;2"),
        (
            "&#; &#x; &#xg; &#99999999999; &#55296; &bogus; &amp &".to_owned(),
            "&#; &#x; &#xg; &#99999999999; &#55296; &bogus; &amp &",
        ),
    ] {
        assert_eq!(redactor.find_residues("f", text.as_bytes()).is_empty(), !clean.contains('‹'), "{text}");
        let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
        assert_eq!(String::from_utf8_lossy(&out).replace(&placeholder(&redactor, canary), "‹›"), clean);
        assert_eq!(redactor.find_residues("f", &out), [], "{text}");
    }
}

/// The placeholder of a number gets quotes of the same depth as its key, also next to HTML.
#[test]
fn numbers_beside_html() {
    let text = format!("{{\"text\":\"{}\"}}", inner("{\"&amp;\":\"\",\"id\":1234567890}"));
    let mut redactor = redactor();
    redactor.learn("test", b"1234567890");
    let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
    assert_valid("html", text.as_bytes(), &out);
    assert!(placeholder::find(&out).is_some());
}

fn placeholder(redactor: &Redactor, value: &str) -> String {
    String::from_utf8(redactor.search.key.placeholder(value.as_bytes())).expect("ASCII")
}

/// The last check finds wrapped base64 that was not redacted.
#[test]
fn residue_in_lines() {
    let mut redactor = redactor();
    let canary = random(ALNUM, 24, 8);
    redactor.learn("test", canary.as_bytes());
    for (ahead, width, gap) in [(50, 76, "\n"), (51, 76, "\r\n"), (40, 64, "\n  "), (49, 76, "\r\n")] {
        for url_safe in [false, true] {
            let text = wrapped(&canary, url_safe, ahead, width, gap);
            let files = [
                text.clone(),
                format!("{{\"body\":{{\"text\":\"{}\"}}}}", inner(&text)),
                format!(
                    "{{\"body\":{{\"text\":\"{}\"}}}}",
                    inner(&format!("{{\"a\":\"{}\"}}", inner(&text)))
                ),
                format!(
                    "data: {{\"delta\":\"{}\"}}\n\ndata: {{\"delta\":\"{}\"}}\n\n",
                    inner(&text[..70]),
                    inner(&text[70..])
                ),
            ];
            for file in files {
                assert_ne!(
                    redactor.find_residues("file", file.as_bytes()),
                    [],
                    "{ahead} {width} {gap:?} {file}"
                );
                let clean = redactor.redact_text("file", file.as_bytes()).bytes.into_owned();
                assert_eq!(redactor.find_residues("file", &clean), [], "{}", String::from_utf8_lossy(&clean));
            }
        }
    }
}

/// A kubeconfig contains keys as base64 of PEM.
#[test]
fn base64_of_private_keys() {
    let line = random(&format!("{ALNUM}+/"), 64, 90);
    for label in ["RSA ", "EC ", "", "ENCRYPTED ", "OPENSSH "] {
        let [begin, end] = ["BEGIN", "END"].map(|word| format!("-----{word} {label}{}", "PRIVATE KEY-----"));
        let encoded = STANDARD.encode(format!("{begin}\n{line}\n{line}\n{end}\n"));
        let lines: Vec<_> = encoded.as_bytes().chunks(76).map(String::from_utf8_lossy).collect();
        for text in [
            format!("    client-key-data: {encoded}\n    user: me\n"),
            format!("{{\"data\":\"{encoded}\",\"user\":\"me\"}}"),
            format!("key:\n  {}\nuser: me\n", lines.join("\n  ")),
        ] {
            let mut redactor = redactor();
            let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
            let left = String::from_utf8_lossy(&out).into_owned();
            assert!(left.contains("offshoot-redacted-") && left.contains("me"), "{label}: {left}");
            assert!(!left.contains(&encoded[..40]) && !left.contains(&encoded[120..150]), "{label}: {left}");
            assert_valid("base64", text.as_bytes(), &out);
            assert_eq!(redactor.find_residues("f", &out), [], "{left}");
        }
    }
    let certificate =
        STANDARD.encode(format!("-----BEGIN CERTIFICATE-----\n{line}\n-----END CERTIFICATE-----\n"));
    assert_eq!(
        String::from_utf8_lossy(&redactor().redact_text("f", certificate.as_bytes()).bytes),
        certificate
    );
}

/// Rules find secrets in UTF-16, too.
#[test]
fn rules_in_utf16() {
    let shaped = ["sk-", "ant-", "api03-", &random(ALNUM, 40, 91)].concat();
    let named = random(ALNUM, 20, 92);
    for little in [true, false] {
        for mark in ["\u{feff}", ""] {
            let text = format!(
                "{mark}key {shaped}\r\nAPI_KEY={named}\r\nname=é\u{1f600} and a longer line of text\r\n"
            );
            let bytes = utf16(&text, little);
            let mut redactor = redactor();
            assert_ne!(redactor.find_residues("f", &bytes), [], "{little}");
            let out = redactor.redact_text("f", &bytes).bytes.into_owned();
            for secret in [&shaped, &named] {
                assert_eq!(memchr::memmem::find(&out, &utf16(secret, little)), None, "{little}");
            }
            assert!(out.ends_with(&utf16("name=é\u{1f600} and a longer line of text\r\n", little)));
            assert_eq!(redactor.find_residues("f", &out), [], "{little}");
        }
    }
}
