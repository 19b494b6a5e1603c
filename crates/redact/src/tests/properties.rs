//! Properties of all texts.

use proptest::prelude::*;

use super::*;

/// Fragments that rules look for, so that random texts are close to matches.
fn fragment() -> impl Strategy<Value = String> {
    let literals = [
        "\"api_key\": \"",
        "token=",
        "PASSWORD=",
        "password: ",
        "Authorization: Bearer ",
        "Cookie: a=",
        "?access_token=",
        "https://me:",
        "@host/",
        "\"",
        "\\\"",
        "\\\\\\\"",
        "\\n",
        "\n",
        " ",
        ",",
        "}",
        "{",
        ":",
        "\\",
        "%",
        "%41",
        "\\u0041",
        "=",
        "&",
        "'",
        "abcd1234efgh",
        "YWJjZDEyMzRlZmdo",
        "data: ",
        "sk-",
        "eyJ",
        "-----BEGIN ",
        "-----",
        "offshoot-redacted-",
        "secret",
        "key",
        ".",
        "-",
        "_",
        "/",
        "bearer ",
        "basic ",
        "offshoot-redacted-0123456789abcdef",
        "\"value\":\"",
        "[",
        "]",
        "curl -u me:",
        "machine a.b login me password ",
        "&amp;",
        "&#97;",
        "\0",
    ];
    prop_oneof![
        4 => prop::sample::select(literals.to_vec()).prop_map(str::to_owned),
        1 => Just(["sk-", "ant-", &random(ALNUM, 24, 1)].concat()),
        1 => Just(["AK", "IA", &random(UPPER, 16, 2)].concat()),
        1 => Just("PRIVATE KEY-----".to_owned()),
        2 => "[a-zA-Z0-9]{1,20}",
        1 => "[ -~]{0,8}",
        1 => "\\PC{0,4}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(fragment(), 0..24).prop_map(|parts| parts.concat())
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        text().prop_map(serde_json::Value::from),
        any::<u32>().prop_map(serde_json::Value::from),
        Just(serde_json::Value::from(1234567890u64)),
        Just(serde_json::Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inside| {
        let key = prop_oneof![
            Just("token".to_owned()),
            Just("api_key".to_owned()),
            Just("signature".to_owned()),
            "[a-z]{1,6}",
            text()
        ];
        prop_oneof![
            prop::collection::vec(inside.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((key, inside), 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn taught() -> Redactor {
    let mut redactor = redactor();
    redactor.learn("test", b"abcd1234efgh");
    redactor.learn("test", b"1234567890");
    redactor.learn("test", b"n\"quoted\\ value");
    redactor
}

proptest! {
    #[test]
    fn redacting_twice_equals_redacting_once(text in text()) {
        let mut redactor = taught();
        let once = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
        let once = redactor.redact_text("f", &once).bytes.into_owned(); // with the values learned from the same text
        let twice = redactor.redact_text("f", &once);
        prop_assert_eq!(String::from_utf8_lossy(&twice.bytes), String::from_utf8_lossy(&once));
    }

    #[test]
    fn json_stays_json(value in json(), pretty in any::<bool>()) {
        let value = serde_json::json!([value]); // a number alone would be valid as any text
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.expect("serializes");
        let mut redactor = taught();
        let out = redactor.redact_text("f", text.as_bytes()).bytes.into_owned();
        assert_valid("json", text.as_bytes(), &out);
        let nested = serde_json::to_string(&serde_json::json!({ "text": text })).expect("serializes");
        let out = redactor.redact_text("f", nested.as_bytes()).bytes.into_owned();
        assert_valid("json", nested.as_bytes(), &out);
    }

    #[test]
    fn streams_stay_streams(values in prop::collection::vec(json(), 0..5)) {
        let stream: String = values.iter().map(|value| format!("event: e\ndata: {value}\n\n")).collect();
        let mut redactor = taught();
        let out = redactor.redact_text("f", stream.as_bytes()).bytes.into_owned();
        assert_valid("stream", stream.as_bytes(), &out);
    }

    #[test]
    fn any_bytes_at_all(bytes in prop::collection::vec(any::<u8>(), 0..200), text in text()) {
        let mut redactor = taught();
        let bytes = [bytes.as_slice(), text.as_bytes(), &bytes].concat();
        let out = redactor.redact_text("f", &bytes);
        prop_assert_eq!(out.edits.expect("not decoded").apply(&bytes).expect("no overlap"), out.bytes.into_owned());
        redactor.find_residues("f", &bytes);
        redactor.find_suspicions(&bytes);
    }
}
