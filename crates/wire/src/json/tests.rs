use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// Renders the parsed values, one on each line, or the error.
fn check(text: &str, expected: Expect) {
    let rendered = match Document::parse(text.as_bytes()) {
        Ok(doc) => doc.root().walk().iter().map(|value| format!("{value:?}\n")).collect(),
        Err(error) => format!("{error}\n"),
    };
    expected.assert_eq(&rendered);
}

fn edited(text: &str, make: impl FnOnce(Value<'_, '_>) -> Vec<Edit>) -> String {
    let doc = Document::parse(text.as_bytes()).expect("test input is JSON");
    let mut edits = Edits::default();
    make(doc.root()).into_iter().for_each(|edit| edits.add(edit));
    String::from_utf8(edits.apply(text.as_bytes()).expect("no overlap")).expect("UTF-8 in, UTF-8 out")
}

#[test]
fn spelling_order_and_duplicates_survive() {
    check(
        "{ \"b\" : 1e3,\"a\":[ \"\\u00e9\\/\" , -0.5E+2],\"a\":null}",
        expect![[r#"
            0..49 { "b" : 1e3,"a":[ "\u00e9\/" , -0.5E+2],"a":null}
            8..11 1e3
            16..39 [ "\u00e9\/" , -0.5E+2]
            18..28 "\u00e9\/"
            31..38 -0.5E+2
            44..48 null
        "#]],
    );
}

#[test]
fn the_last_of_two_equal_keys_is_meant() {
    let doc = Document::parse(br#"{"k":1,"k":2,"\u006b":3}"#).expect("JSON");
    assert_eq!(doc.root().get("k").and_then(|v| v.as_u64()), Some(3));
}

#[test]
fn errors_contain_the_offset() {
    for (text, error) in [
        ("", "unexpected end of text, expected a value at byte 0"),
        ("[1,]", "expected a value at byte 3"),
        ("{\"a\" 1}", "expected a colon after the key at byte 5"),
        ("{\"a\":1,}", "expected a key at byte 7"),
        ("[1}", "expected a comma or a closing bracket at byte 2"),
        ("[}", "expected a value at byte 1"),
        ("01", "unexpected text after the value at byte 1"),
        ("1.", "invalid number at byte 2"),
        ("\"a\nb\"", "control character in a string at byte 2"),
        ("\"\\x\"", "unknown escape at byte 1"),
        ("\"\\u12g4\"", "unknown escape at byte 1"),
        ("tru", "expected a value at byte 0"),
        ("[[", "unexpected end of text, expected a value at byte 2"),
    ] {
        assert_eq!(Document::parse(text.as_bytes()).expect_err(text).to_string(), error);
    }
    assert_eq!(Document::parse(b"\"\xff\"").expect_err("not UTF-8").to_string(), "not UTF-8 at byte 1");
}

#[test]
fn depth_is_limited_without_recursion() {
    let fits = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
    assert!(Document::parse(fits.as_bytes()).is_ok());
    let deep = "[".repeat(1_000_000);
    assert_eq!(Document::parse(deep.as_bytes()).expect_err("too deep").what, "nested too deep");
}

#[test]
fn an_edit_changes_only_its_bytes() {
    let text = "{ \"model\" : \"a\",\"n\":1e3 , \"t\":\"\\u00e9\" }";
    assert_eq!(
        edited(text, |root| vec![root.get("model").expect("there").replaced_by("\"b\"")]),
        "{ \"model\" : \"b\",\"n\":1e3 , \"t\":\"\\u00e9\" }"
    );
}

#[test]
fn members_and_items_are_edited_with_their_comma() {
    let add = |root: Value<'_, '_>| vec![root.with_member("z", "0").expect("an object")];
    assert_eq!(edited("{}", add), r#"{"z":0}"#);
    assert_eq!(edited(r#"{"a":1 }"#, add), r#"{"a":1,"z":0 }"#);
    assert_eq!(edited("[ ]", |root| vec![root.with_item("7").expect("an array")]), "[7 ]");
    for (text, left) in [
        (r#"{"x":1}"#, "{}"),
        (r#"{"x":1, "a":2}"#, r#"{"a":2}"#),
        (r#"{"a":1 , "x":2}"#, r#"{"a":1}"#),
        (r#"{"a":1,"x":2,"b":3}"#, r#"{"a":1,"b":3}"#),
        (r#"{"x":1,"x":2,"a":3,"x":4}"#, r#"{"a":3}"#),
        (r#"{"x":1,"x":2}"#, "{}"),
    ] {
        assert_eq!(edited(text, |root| root.without_member("x")), left);
    }
    assert_eq!(edited("[1, 2, 3]", |root| root.without_item(1)), "[1, 3]");
}

#[test]
fn overlapping_edits_are_refused_and_offsets_follow() {
    let mut edits = Edits::default();
    edits.replace(2..4, "XYZ");
    edits.replace(6..7, "");
    assert_eq!(edits.apply(b"0123456789").expect("apart"), b"01XYZ45789");
    assert_eq!(edits.shift([0, 2, 3, 4, 6, 7, 10]), [0, 2, 5, 5, 7, 7, 10]);
    edits.replace(3..5, "no");
    assert_eq!(edits.apply(b"0123456789"), Err(Overlap { offset: 3 }));
}

#[test]
fn pointers_and_offsets_agree() {
    let text = r#"{"a/b":[10,{"~":"here"}]}"#;
    let doc = Document::parse(text.as_bytes()).expect("JSON");
    let value = doc.root().pointer("/a~1b/1/~0").expect("there");
    assert_eq!(value.as_str().as_deref(), Some("here"));
    assert_eq!(doc.pointer_at(value.span().start + 2), "/a~1b/1/~0");
    assert_eq!(doc.pointer_at(0), "");
}

#[test]
fn surrogates_join_and_halves_are_replaced() {
    assert_eq!(unescape(r"\ud83d\ude00 \ud83d \udE00\n"), "\u{1f600} \u{fffd} \u{fffd}\n");
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn to_serde(value: Value<'_, '_>) -> serde_json::Value {
    match value.kind() {
        ValueKind::Null => serde_json::Value::Null,
        ValueKind::Bool => value.as_bool().into(),
        ValueKind::Number => value.raw().parse::<i64>().expect("the strategy makes only i64").into(),
        ValueKind::String => value.as_str().expect("a string").into(),
        ValueKind::Array => value.items().map(to_serde).collect(),
        ValueKind::Object => value.members().map(|m| (m.name().into_owned(), to_serde(m.value))).collect(),
    }
}

proptest! {
    #[test]
    fn reads_the_output_of_another_serializer(json in any_json()) {
        for text in [json.to_string(), serde_json::to_string_pretty(&json).expect("serializes")] {
            let doc = Document::parse(text.as_bytes()).expect("valid JSON");
            prop_assert_eq!(to_serde(doc.root()), json.clone());
        }
    }

    #[test]
    fn the_parser_never_panics_and_accepts_valid_json_only(text in r#"[\[\]{}",:0-9a-e\\ u.tnrf-]{0,40}"#) {
        let ours = Document::parse(text.as_bytes()).is_ok();
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(ours, theirs, "{}", text);
    }

    #[test]
    fn quoting_and_back_is_the_identity(text in any::<String>()) {
        let quoted = quote(&text);
        prop_assert_eq!(&serde_json::from_str::<String>(&quoted).expect("a JSON string"), &text);
        prop_assert_eq!(unescape(&quoted[1..quoted.len() - 1]), text);
    }

    #[test]
    fn quoting_equals_that_of_a_serializer(text in r#"([a-z\\"\u{0}-\u{20}\u{7f}]|é|[a-z ]{30}){0,20}"#) {
        prop_assert_eq!(quote(&text), serde_json::to_string(&text).expect("a string"));
    }
}
