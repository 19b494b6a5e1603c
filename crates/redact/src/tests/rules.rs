//! The result of each rule: redacted bytes, unchanged bytes, and the report.

use expect_test::{Expect, expect};

use super::*;
use wire::Header;

/// Replaces placeholders by `‹›`, so that expectations are readable.
fn check(text: &str, expected: Expect) {
    let mut redactor = redactor();
    let out = redactor.redact_text("file", text.as_bytes()).bytes.into_owned();
    assert_valid("rules", text.as_bytes(), &out);
    expected.assert_eq(&short(&out));
}

pub(super) fn short(out: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(out).into_owned();
    while let Some(at) = text.find("offshoot-redacted-") {
        text.replace_range(at..at + 34, "‹›");
    }
    text
}

#[test]
fn names_in_json_at_any_depth() {
    check(
        r#"{"api_key": "a1b2c3d4", "n": 1e3, "password": "hunter2", "note": "{\"client_secret\": \"s\\\"x12345\", \"k\": \"v\"}"}"#,
        expect![[
            r#"{"api_key": "‹›", "n": 1e3, "password": "‹›", "note": "{\"client_secret\": \"‹›\", \"k\": \"v\"}"}"#
        ]],
    );
    check(
        r#"{"token": 1234567890, "a": "{\"token\": 987654321}"}"#,
        expect![[r#"{"token": "‹›", "a": "{\"token\": \"‹›\"}"}"#]],
    );
    check(
        r#"{"api_keys": ["abcd1234", "efgh5678"], "Authorization": ["Bearer abcd12345678"]}"#,
        expect![[r#"{"api_keys": ["‹›", "‹›"], "Authorization": ["Bearer ‹›"]}"#]],
    );
    check(
        r#"[{"name":"x-api-key","value":"abc"},{"name":"Authorization","value":"Bearer abcd1234"}]"#,
        expect![[r#"[{"name":"x-api-key","value":"abc"},{"name":"Authorization","value":"Bearer ‹›"}]"#]],
    );
    check(r#"["x-api-key","abcd1234efgh5678"]"#, expect![[r#"["x-api-key","‹›"]"#]]);
}

#[test]
fn names_in_text() {
    check(
        "export API_KEY=abcdefgh\nDB_PASSWORD='tr0ub4dor&3'\n",
        expect![[r#"
        export API_KEY=‹›
        DB_PASSWORD='‹›'
    "#]],
    );
    check(
        "api_key: abcd1234efgh\npassword: correct-horse-battery-staple\nname: x\n",
        expect![[r#"
        api_key: ‹›
        password: ‹›
        name: x
    "#]],
    );
    check(
        "- name: API_TOKEN\n  value: abcd1234efgh\n",
        expect![[r#"
        - name: API_TOKEN
          value: ‹›
    "#]],
    );
    check(
        "tool --token abcd1234efgh --verbose --api-key=abcd1234efgi",
        expect!["tool --token ‹› --verbose --api-key=‹›"],
    );
    check(
        "const apiKey = \"abcd1234efgh\"; token: 'abcd1234efgh',",
        expect![[r#"const apiKey = "‹›"; token: '‹›',"#]],
    );
    check("API key: abcd1234efgh, sort key: abcd1234efgi", expect!["API key: ‹›, sort key: abcd1234efgi"]);
    check("<password>abcd1234efgh</password>", expect!["<password>‹›</password>"]);
    check("GET /v1?api_key=short&x=1", expect!["GET /v1?api_key=‹›&x=1"]);
}

/// Random keys are not taken for names, whatever digits they contain.
#[test]
fn keys_with_few_digits_or_none() {
    let letters = &ALNUM[..52];
    let mut all = 0;
    let mut left = Vec::new();
    for (length, seed) in [20, 24, 32].into_iter().flat_map(|length| (0..150).map(move |seed| (length, seed)))
    {
        // A run of digits at any position, or none.
        let key = random(letters, length, seed + 500);
        let digits = random("0123456789", seed as usize % 4, seed);
        let at = 1 + seed as usize % (length - 4);
        let key = format!("{}{digits}{}", &key[..at], &key[at + digits.len()..]);
        for text in [
            format!("api_key = \"{key}\""),
            format!("  client_secret: {key}\n"),
            format!("const token = '{key}';"),
        ] {
            let out = redactor().redact_text("file", text.as_bytes()).bytes.into_owned();
            all += 1;
            left.extend((short(&out) == text).then_some(text));
        }
    }
    assert!(left.len() * 50 <= all, "{} of {all} stay: {left:?}", left.len());
    check(
        "api_key = \"YKbPizDmbX1rpXjYdOhC\"; password: 'DxseUTDkXplRn8cPMBUraDdC'",
        expect![[r#"api_key = "‹›"; password: '‹›'"#]],
    );
}

#[test]
fn header_lines_in_text() {
    check(
        "> Authorization: Bearer abcd1234efgh5678\n> Accept: */*\n",
        expect![[r#"
        > Authorization: Bearer ‹›
        > Accept: */*
    "#]],
    );
    check(
        "Cookie: a=b; session=abcd1234\nSet-Cookie: sid=abcd1234; Path=/\n\n",
        expect![[r#"
        Cookie: ‹›
        Set-Cookie: ‹›

    "#]],
    );
    check(
        "curl -H \"Authorization: Basic bWU6aHVudGVyMjIy\" -u me",
        expect![[r#"curl -H "Authorization: Basic ‹›" -u me"#]],
    );
    check(
        "x-api-key: abcd1234efgh\nHost: h\n",
        expect![[r#"
            x-api-key: ‹›
            Host: h
        "#]],
    );
}

#[test]
fn private_keys() {
    let line = random(&format!("{ALNUM}+/"), 64, 1);
    let key = |gap: &str| {
        format!(
            "-----BEGIN RSA {}{gap}{line}{gap}{line}{gap}-----END RSA {}",
            "PRIVATE KEY-----", "PRIVATE KEY-----"
        )
    };
    for gap in ["\n", "\r\n", "\\n", "\\\\n", "\n    "] {
        let mut redactor = redactor();
        let out =
            redactor.redact_text("f", format!("before {} behind", key(gap)).as_bytes()).bytes.into_owned();
        assert_eq!(short(&out), "before ‹› behind", "{gap:?}");
    }
    let cut = format!("-----BEGIN {}\n{line}\n{}", "PRIVATE KEY-----", &line[..30]);
    check(&format!("{{\"text\":\"{} and so on\"}}", inner(&cut)), expect![[r#"{"text":"‹› and so on"}"#]]);
}

#[test]
fn aws_secret_keys_by_their_neighbour() {
    let id = ["AK", "IA", &random(UPPER, 16, 3)].concat();
    let key = random(&format!("{ALNUM}/+"), 40, 4);
    check(
        &format!("me,{id},{key}\n{}\n", random(HEX, 40, 5)),
        expect![[r#"
        me,‹›,‹›
        d7d7546894a09b44b6308e40efd54ca858a69bc9
    "#]],
    );
}

#[test]
fn urls() {
    let mut redactor = redactor();
    let out = redactor.redact_url(
        "u",
        "https://me:s3cretpw@host:8080/p%20q?a=1&access_token=ab%2Fcd&b=2#id_token=xyz12345",
    );
    assert_eq!(short(out.as_bytes()), "https://me:‹›@host:8080/p%20q?a=1&access_token=‹›&b=2#id_token=‹›");
    let clean = "https://api.example.com/v1/messages?beta=true&max_tokens=5";
    assert_eq!(redactor.redact_url("u", clean), clean);
}

#[test]
fn headers_keep_their_names() {
    let mut redactor = redactor();
    let raw: Vec<(String, Vec<u8>)> = [
        ("X-Api-Key", "abcd1234efgh"),
        ("authorization", "Bearer abcd1234efgh"),
        ("User-Agent", "tool/1.0 (abcd1234efgh)"),
        ("HTTP-Referer", "https://example.com/"),
        ("anthropic-ratelimit-tokens-remaining", "123456789"),
    ]
    .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
    .into();
    let out = redactor.redact_headers("r000001 request", &raw);
    let Header::Secret { fingerprint: first, .. } = &out[0] else { panic!("{out:?}") };
    let Header::Secret { fingerprint: second, .. } = &out[1] else { panic!("{out:?}") };
    assert_eq!(first, second, "equal secrets have equal fingerprints");
    assert_eq!(out[2].value(), Some(format!("tool/1.0 (offshoot-redacted-{first})").as_str()));
    assert_eq!(out[3].value(), Some("https://example.com/"));
    assert_eq!(out[4].value(), Some("123456789"));
    let latin = redactor.redact_headers("r", &[("x-name".to_owned(), b"caf\xe9".to_vec())]);
    assert_eq!(latin[0].value(), Some("café"));
}

/// All forms of a secret have the same placeholder.
#[test]
fn one_secret_one_placeholder() {
    let secret = format!("{}/{}", random(ALNUM, 15, 1), random(ALNUM, 15, 2));
    let texts = [
        format!("{{\"api_key\":\"{secret}\"}}"),
        format!("{{\"api_key\":\"{}\"}}", secret.replace('/', "\\/")),
        format!("?api_key={}&x", percent(&secret, true)),
        format!("a {secret} b"),
        format!("b64 {}", STANDARD_NO_PAD.encode(&secret)),
        format!("hex {}", secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()),
        format!("data: {{\"t\":\"{}\"}}\n\ndata: {{\"t\":\"{}\"}}\n\n", &secret[..9], &secret[9..]),
    ];
    let mut redactor = redactor();
    let expected = redactor.search.key.placeholder(secret.as_bytes());
    for text in texts {
        let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
        let found = placeholder::find(&out).map(|at| &out[at..at + expected.len()]);
        assert_eq!(found, Some(expected.as_slice()), "{text}");
    }
}

/// A name in one delta and its value in the next ones. The first event of the value gets the placeholder.
#[test]
fn a_value_cut_off_from_its_name() {
    let event = |piece: &str| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}}}\n\n",
            inner(piece)
        )
    };
    let stream: String =
        ["{\"api_", "key\": \"", "abcd", "1234ef", "gh\", \"n\"", ": 1}"].map(event).concat();
    let mut redactor = redactor();
    let out = redactor.redact_text("f", stream.as_bytes()).bytes.into_owned();
    assert_valid("cut", stream.as_bytes(), &out);
    let pieces: Vec<String> = wire::sse::decode(&out)
        .0
        .iter()
        .map(|frame| {
            serde_json::from_str::<serde_json::Value>(&frame.data).expect("valid")["delta"]["partial_json"]
                .as_str()
                .expect("text")
                .to_owned()
        })
        .collect();
    let short: Vec<String> = pieces.iter().map(|piece| short(piece.as_bytes())).collect();
    assert_eq!(short, ["{\"api_", "key\": \"", "‹›", "", "\", \"n\"", ": 1}"]);
    assert_gone("cut", &redactor.redact_text("f", b"later abcd1234efgh").bytes, "abcd1234efgh");
}

/// A value that seems to continue after its event removes no event.
#[test]
fn events_are_no_part_of_a_secret() {
    let stream = "event: a\ndata: say \"api_key\": \"abcd1234\n\nevent: b\ndata: efgh5678\" end\n\n";
    let mut redactor = redactor();
    let out = redactor.redact_text("f", stream.as_bytes()).bytes.into_owned();
    assert_valid("events", stream.as_bytes(), &out);
    assert_eq!(short(&out), "event: a\ndata: say \"api_key\": \"‹›\n\nevent: b\ndata: \" end\n\n");
}

#[test]
fn numbers_stay_valid_json() {
    let mut redactor = redactor();
    redactor.learn("test", b"1234567890");
    let text = r#"{"id":1234567890,"list":[1234567890],"more":12345678901,"s":"n 1234567890","deep":"{\"id\": 1234567890}"}"#;
    let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
    assert_valid("numbers", text.as_bytes(), &out);
    assert_eq!(
        short(&out),
        r#"{"id":"‹›","list":["‹›"],"more":12345678901,"s":"n ‹›","deep":"{\"id\": \"‹›\"}"}"#
    );
}

#[test]
fn a_value_with_quotes_removes_no_brackets() {
    let mut redactor = redactor();
    redactor.learn("test", br#"one","b":"two"#);
    let text = r#"{"a":"one","b":"two","c":3}"#;
    let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
    assert_valid("quotes", text.as_bytes(), &out);
}

#[test]
fn compressed_bodies() {
    let mut redactor = redactor();
    redactor.learn("test", b"abcd1234efgh");
    for coding in ["gzip", "br", "zstd", "deflate", "gzip, br"] {
        let hints = BodyHints { content_type: Some("application/json"), content_encoding: Some(coding) };
        let clean = wire::encoding::encode(coding, b"{\"a\":1}").expect("encodes");
        let out = redactor.redact_body("b", hints, &clean);
        assert!(!out.decoded && out.is_clean() && *out.bytes == clean, "{coding}: kept as sent");
        let secret = wire::encoding::encode(coding, b"{\"a\":\"abcd1234efgh\"}").expect("encodes");
        let out = redactor.redact_body("b", hints, &secret);
        assert!(out.decoded, "{coding}");
        assert_eq!(short(&out.bytes), "{\"a\":\"‹›\"}", "{coding}");
    }
    // The header announces a compressed body, but it is not compressed.
    let hints = BodyHints { content_type: None, content_encoding: Some("gzip") };
    assert_eq!(short(&redactor.redact_body("b", hints, b"plain abcd1234efgh").bytes), "plain ‹›");
    let hints = BodyHints { content_type: None, content_encoding: Some("x-unknown") };
    let out = redactor.redact_body("b", hints, b"abcd1234efgh");
    let unknown = wire::encoding::CodingError::Unknown("x-unknown".into());
    assert_eq!(out.unsearched, Some(SearchGap::Everything(unknown)));
    assert_eq!(short(&out.bytes), "‹›");
}

#[test]
fn placeholders_are_left_alone() {
    let mut redactor = redactor();
    redactor.learn("test", b"0123456789abcdef");
    redactor.learn("test", b"redacted-");
    redactor.learn("test", b"offshoot-redacted-");
    let text = "token offshoot-redacted-0123456789abcdef and Bearer offshoot-redacted-fedcba9876543210";
    assert_eq!(String::from_utf8_lossy(&redactor.redact_text("f", text.as_bytes()).bytes), text);
    assert_eq!(short(&redactor.redact_text("f", b"but 0123456789abcdef").bytes), "but ‹›");
}

#[test]
fn edits_shift_offsets() {
    let mut redactor = redactor();
    redactor.learn("test", b"abcd1234efgh");
    let out = redactor.redact_text("f", b"one abcd1234efgh two");
    let edits = out.edits.expect("not decoded");
    assert_eq!(edits.shift([0, 4, 16, 20]), [0, 4, 38, 42]);
}

#[test]
fn the_report_contains_places_and_no_secrets() {
    let mut redactor = redactor();
    redactor.redact_headers("r000001 request", &[("x-api-key".to_owned(), b"abcd1234efgh".to_vec())]);
    redactor.redact_text("stdout", b"abcd1234efgh and abcd1234efgh");
    redactor.set_late(true);
    redactor.redact_text("r000001 response", b"{\"x\":\"abcd1234efgh\"}");
    let report = serde_json::to_string_pretty(&redactor.report()).expect("serializes");
    expect![[r#"
        [
          {
            "rule": "header",
            "place": "r000001 request x-api-key",
            "count": 1
          },
          {
            "rule": "value",
            "source": "header x-api-key",
            "place": "r000001 response",
            "count": 1,
            "late": true
          },
          {
            "rule": "value",
            "source": "header x-api-key",
            "place": "stdout",
            "count": 2
          }
        ]"#]]
    .assert_eq(&report);
}

#[test]
fn the_generation_grows_with_new_values() {
    let mut redactor = redactor();
    assert_eq!(redactor.generation(), 0);
    redactor.learn("a", b"short");
    redactor.learn("a", b"password");
    assert_eq!(redactor.generation(), 0);
    redactor.learn("a", b"abcd1234");
    redactor.learn("b", b"abcd1234");
    assert_eq!(redactor.generation(), 1);
    redactor.learn_env(
        [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/home/me"),
            ("MY_TOKEN", "efgh5678"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/a/b.json"),
            ("DATABASE_URL", "postgres://me:pw12345678@h/db"),
            ("PWD", "/work/project2024"),
            ("DB_PASS", "Winter2024"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    assert_eq!(redactor.generation(), 4);
}

/// The last check finds secrets in every layer.
#[test]
fn residue() {
    let mut redactor = redactor();
    let secret = random(ALNUM, 20, 9);
    redactor.learn("test", secret.as_bytes());
    let b64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let sse =
        format!("data: {{\"delta\":\"{}\"}}\n\ndata: {{\"delta\":\"{}\"}}\n\n", &secret[..7], &secret[7..]);
    let files = [
        secret.clone(),
        format!("x{}", b64(&format!("xy{secret}z"))),
        format!(
            "{{\"body\":\"{}\"}}",
            inner(&format!("{{\"a\":\"{}\"}}", inner(&format!("{{\"b\":\"{secret}\"}}"))))
        ),
        format!("{{\"body\":{{\"base64\":\"{}\"}}}}", b64(&sse)),
        format!("{{\"body\":{{\"text\":\"{}\"}}}}", inner(&sse)),
        secret.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        format!("{{\"a\":\"{}\"}}", secret.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<String>()),
        format!("{{\"a\":\"{}\"}}", ["gh", "p_", &random(ALNUM, 36, 10)].concat()),
    ];
    for file in files {
        let found = redactor.find_residues("file", file.as_bytes());
        assert!(!found.is_empty(), "{file}");
        let text = serde_json::to_string(&found).expect("serializes");
        assert!(!text.contains(&secret));
        let clean = redactor.redact_text("file", file.as_bytes()).bytes.into_owned();
        if !file.contains("base64") {
            assert_eq!(redactor.find_residues("file", &clean), [], "{}", String::from_utf8_lossy(&clean));
        }
    }
}

#[test]
fn suspicion_is_only_for_random_text() {
    let redactor = redactor();
    let odd = random(ALNUM, 40, 11);
    let found = redactor.find_suspicions(format!("key {odd} end").as_bytes());
    assert_eq!(found, [Suspicion { offset: 4, length: 40 }]);
    let plain = format!(
        "toolu_01{} {} /a/Long/path/With/Many2/Parts/in/it /usr $ANTHROPIC_BASE_URL/v1/messages",
        random(ALNUM, 22, 1),
        random(HEX, 64, 2)
    );
    assert_eq!(redactor.find_suspicions(plain.as_bytes()), []);
}

/// The redactor is owned by the writer's thread.
#[test]
fn a_redactor_can_move_to_its_thread() {
    fn movable<T: Send>(_: T) {}
    movable(redactor());
    movable(RedactionWindow::new("f", None));
}

#[test]
fn debug_shows_nothing() {
    let mut redactor = redactor();
    redactor.learn("test", b"abcd1234efgh");
    assert_eq!(
        format!("{:?} {redactor:?}", FingerprintKey::from_bytes([1; 32])),
        "FingerprintKey Redactor { generation: 1, .. }"
    );
}
