//! Checks answers against JSON schemas.

use std::collections::HashMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ReferencingError, Validator};
use serde_json::Value;

use crate::prompts;

/// Number of reported mistakes, and the length of each: they quote the answer.
const MAX_MISTAKES: usize = 5;
const MAX_LENGTH: usize = 240;

/// Checks that a value is a schema.
pub(crate) fn read(schema: &Value) -> Result<(), String> {
    validator(schema).map(drop)
}

/// Checks an answer against a schema. The error describes the mistakes.
pub(crate) fn check(schema: &Value, answer: &str) -> Result<(), String> {
    let validator = validator(schema)?;
    let value: Value =
        serde_json::from_str(bare(answer)).map_err(|error| format!("it is not JSON: {error}"))?;
    let mistakes: Vec<String> = validator
        .iter_errors(&value)
        .take(MAX_MISTAKES)
        .map(|mistake| {
            let place = mistake.instance_path().to_string();
            let place = if place.is_empty() { "the answer".to_owned() } else { format!("`{place}`") };
            format!(
                "{}: {}",
                prompts::cut(&place, MAX_LENGTH),
                prompts::cut(&mistake.to_string(), MAX_LENGTH)
            )
        })
        .collect();
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes.join("; ")) }
}

fn validator(schema: &Value) -> Result<Validator, String> {
    if !schema.is_object() {
        return Err("a schema is a JSON object".to_owned());
    }
    if weight(schema, schema, &mut HashMap::new()) > MAX_WEIGHT {
        return Err("its references expand to more than can be checked in time".to_owned());
    }
    jsonschema::validator_for(schema).map_err(|error| match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => format!(
            "it refers to `{}`, which it does not contain: move that to `$defs` and refer to `#/$defs/…`",
            prompts::cut(uri, MAX_LENGTH)
        ),
        _ => format!("it is not a JSON schema: {error}"),
    })
}

/// Maximum number of parts of a schema with its references expanded.
const MAX_WEIGHT: u64 = 20_000;

/// Counts the parts of a schema with its references expanded: thirty levels with two references each have a thousand million.
/// A recursive reference counts once, because it is followed only as deep as the answer is.
fn weight<'a>(schema: &'a Value, part: &'a Value, known: &mut HashMap<&'a str, u64>) -> u64 {
    let inside: u64 = match part {
        Value::Object(members) => {
            members.values().fold(0, |sum, one| sum.saturating_add(weight(schema, one, known)))
        }
        Value::Array(items) => {
            items.iter().fold(0, |sum, one| sum.saturating_add(weight(schema, one, known)))
        }
        _ => return 0,
    };
    let led_to = part.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
    let led_to = led_to.map_or(0, |pointer| match known.get(pointer) {
        Some(weight) => *weight,
        None => {
            known.insert(pointer, 0);
            let target = schema.pointer(pointer).map_or(0, |target| weight(schema, target, known));
            known.insert(pointer, target);
            target
        }
    });
    inside.saturating_add(led_to).saturating_add(1)
}

/// Removes a code fence around JSON.
pub(crate) fn bare(answer: &str) -> &str {
    let answer = answer.trim();
    let fenced = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let fenced = fenced.and_then(|rest| rest.split_once('\n')).map(|(_, rest)| rest);
    fenced.unwrap_or(answer).trim()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_expands_without_bounds_is_refused() {
        let doubling = |levels: usize| {
            let mut defs = serde_json::Map::new();
            for level in 0..levels {
                let next = json!({ "$ref": format!("#/$defs/l{}", level + 1) });
                defs.insert(format!("l{level}"), json!({ "allOf": [next.clone(), next] }));
            }
            defs.insert(format!("l{levels}"), json!({ "type": "object" }));
            json!({ "$defs": defs, "$ref": "#/$defs/l0" })
        };
        assert_eq!(read(&doubling(5)), Ok(()));
        assert!(read(&doubling(30)).is_err_and(|why| why.contains("in time")));
        let tree = json!({ "$defs": { "node": { "properties": { "next": { "$ref": "#/$defs/node" } } } }, "$ref": "#/$defs/node" });
        assert_eq!(read(&tree), Ok(()), "recursion ends with the answer");
    }

    #[test]
    fn an_answer_matches_or_the_mistake_is_named() {
        let schema = json!({
            "type": "object",
            "properties": { "files": { "type": "array", "items": { "type": "string" } } },
            "required": ["files"],
        });
        read(&schema).expect("a schema");
        for (answer, wrong) in [
            (r#"{"files":["a"]}"#, None),
            ("```json\n{\"files\":[]}\n```", None),
            ("I found two files.", Some("it is not JSON")),
            (r#"{"files":["a",7]}"#, Some("`/files/1`")),
            ("{}", Some("files")),
        ] {
            match (check(&schema, answer), wrong) {
                (Ok(()), None) => {}
                (Err(why), Some(wrong)) => assert!(why.contains(wrong), "{answer}: {why}"),
                (got, _) => panic!("{answer}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_mistake_is_named_briefly() {
        let why = check(&json!({ "type": "object" }), &json!("x".repeat(200_000)).to_string());
        assert!(why.clone().is_err_and(|why| why.len() < 300 && why.starts_with("the answer: ")), "{why:?}");
    }

    #[test]
    fn an_invalid_schema_is_refused() {
        for schema in
            [json!("string"), json!({ "type": "nothing" }), json!({ "$ref": "http://127.0.0.1:1/x" })]
        {
            assert!(read(&schema).is_err(), "{schema}");
        }
        let outside = read(&json!({ "$ref": "http://127.0.0.1:1/x" })).expect_err("it is not here");
        assert!(outside.contains("`http://127.0.0.1:1/x`") && outside.contains("`$defs`"), "{outside}");
        assert!(!outside.contains("feature"), "no internal advice: {outside}");
    }
}
