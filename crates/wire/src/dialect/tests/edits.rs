//! Edits of one field change only that field's bytes.

use proptest::prelude::*;

use super::*;
use crate::json::{Edits, quote, unescape};

/// A body whose spelling would not survive serialization.
const ODD: &str = "{ \"model\" :\t\"a\\u002db\",\"n\":1e3 , \"n\":1E+3,\r\n \"system\":[ {\"text\":\"s\\u00e9\\/\",\"type\":\"text\" , \"cache_control\":{\"type\":\"ephemeral\"} }],\n\"tools\":[{\"name\":\"T\",\"cache_control\":{\"type\":\"ephemeral\"},\"input_schema\":{ }}],\n \"messages\" : [{\"role\":\"user\",\"x\":1.50,\"content\":[{\"cache_control\":{\"ttl\":\"1h\",\"type\":\"ephemeral\"},\"type\":\"text\",\"text\":\"call b\\u0067_12 or bg_12\\n\"},{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"T\",\"input\":{\"bg_12\":[\"bg_12\",-0.0]}}]} ] ,\"model\":\"a\\u002db\" }";

fn edited(make: impl FnOnce(&Prompt, &[u8], &mut Edits)) -> String {
    let prompt = Dialect::AnthropicMessages.decode_request(ODD.as_bytes()).expect("JSON");
    assert_eq!(prompt.unknown, []);
    let mut edits = Edits::default();
    make(&prompt, ODD.as_bytes(), &mut edits);
    let edited = edits.apply(ODD.as_bytes()).expect("apart");
    String::from_utf8(edited).expect("UTF-8")
}

#[test]
fn no_edits_change_nothing() {
    assert_eq!(edited(|_, _, _| {}), ODD);
}

#[test]
fn only_the_model_changes() {
    let other = edited(|prompt, body, edits| prompt.set_model(body, "c\"d", edits));
    let (before, _) = ODD.rsplit_once("\"a\\u002db\"").expect("given twice; the last one counts");
    assert_eq!(other, format!("{before}\"c\\\"d\" }}"));
}

#[test]
fn one_text_alone() {
    let other = edited(|prompt, body, edits| {
        assert!(prompt.messages[0].parts[0].set_text(body, "new é\n", edits));
        assert!(!prompt.messages[0].parts[1].set_text(body, "an input is no string", edits));
    });
    assert_eq!(other, ODD.replace("\"call b\\u0067_12 or bg_12\\n\"", "\"new é\\n\""));
}

#[test]
fn every_marker_and_nothing_else() {
    let other = edited(|prompt, body, edits| {
        assert_eq!(prompt.markers.len(), 3);
        prompt.remove_markers(body, edits);
    });
    let expected = ODD
        .replace(" , \"cache_control\":{\"type\":\"ephemeral\"} }", " }")
        .replace("\"T\",\"cache_control\":{\"type\":\"ephemeral\"},", "\"T\",")
        .replace("{\"cache_control\":{\"ttl\":\"1h\",\"type\":\"ephemeral\"},", "{");
    assert_eq!(other, expected);
}

#[test]
fn a_string_is_replaced_in_any_spelling() {
    let other = edited(|prompt, body, edits| {
        let parts = &prompt.messages[0].parts;
        assert_eq!(replace_in(body, parts[0].place.span.clone(), "bg_12", "bg_\"9", edits), 2);
        assert_eq!(replace_in(body, parts[1].place.span.clone(), "bg_12", "bg_7", edits), 1);
        assert_eq!(replace_in(body, parts[1].place.span.clone(), "", "x", edits), 0);
    });
    let expected = ODD
        .replace("call b\\u0067_12 or bg_12\\n", "call bg_\\\"9 or bg_\\\"9\\n")
        .replace("[\"bg_12\",-0.0]", "[\"bg_7\",-0.0]");
    assert_eq!(other, expected);
}

/// Returns the text as a JSON string in which the characters selected by `escaped` are escaped.
fn spelled(text: &str, escaped: &[bool]) -> String {
    let mut out = String::from("\"");
    for (index, character) in text.chars().enumerate() {
        if escaped.get(index % escaped.len().max(1)).copied().unwrap_or(false) {
            character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out += &format!("\\u{unit:04X}"));
        } else {
            let quoted = quote(&character.to_string());
            out += &quoted[1..quoted.len() - 1];
        }
    }
    out + "\""
}

proptest! {
    #[test]
    fn replacing_in_bytes_equals_replacing_in_text(
        text in "[ab\"\\\\é\u{1f600}\n]{0,20}",
        needle in "[ab\"\\\\é\u{1f600}\n]{1,3}",
        with in "[xy\"\n]{0,3}",
        escaped in prop::collection::vec(any::<bool>(), 1..5),
    ) {
        let body = format!("[ {} ,1e3]", spelled(&text, &escaped));
        let mut edits = Edits::default();
        let count = replace_in(body.as_bytes(), 0..body.len(), &needle, &with, &mut edits);
        prop_assert_eq!(count, text.matches(&needle).count());
        let edited = String::from_utf8(edits.apply(body.as_bytes()).expect("apart")).expect("UTF-8");
        let inner = edited.strip_prefix("[ \"").and_then(|rest| rest.strip_suffix("\" ,1e3]")).expect("the rest stays");
        prop_assert_eq!(unescape(inner), text.replace(&needle, &with));
    }
}
