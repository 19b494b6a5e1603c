//! Whether an answer has the shape that was asked for.

use jsonschema::Validator;
use serde_json::Value;

use crate::words;

/// How many mistakes are named, and how much of each: it quotes what is wrong.
const NAMED: usize = 5;
const MOST: usize = 240;

/// Makes sure that a schema is one.
pub(crate) fn read(schema: &Value) -> Result<(), String> {
    validator(schema).map(drop)
}

/// Checks an answer against a schema; in words what is wrong with it.
pub(crate) fn check(schema: &Value, answer: &str) -> Result<(), String> {
    let validator = validator(schema)?;
    let value: Value =
        serde_json::from_str(bare(answer)).map_err(|error| format!("it is not JSON: {error}"))?;
    let mistakes: Vec<String> = validator
        .iter_errors(&value)
        .take(NAMED)
        .map(|mistake| {
            let place = mistake.instance_path().to_string();
            let place = if place.is_empty() { "the whole".to_owned() } else { format!("`{place}`") };
            format!("{}: {}", words::cut(&place, MOST), words::cut(&mistake.to_string(), MOST))
        })
        .collect();
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes.join("; ")) }
}

fn validator(schema: &Value) -> Result<Validator, String> {
    if !schema.is_object() {
        return Err("a schema is a JSON object".to_owned());
    }
    jsonschema::validator_for(schema).map_err(|error| format!("it is no JSON schema: {error}"))
}

/// Models like to put JSON into a fence.
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
    fn an_answer_fits_or_is_said_not_to() {
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
    fn a_mistake_is_named_shortly() {
        let why = check(&json!({ "type": "object" }), &json!("x".repeat(200_000)).to_string());
        assert!(why.clone().is_err_and(|why| why.len() < 300 && why.starts_with("the whole: ")), "{why:?}");
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for schema in
            [json!("string"), json!({ "type": "nothing" }), json!({ "$ref": "http://127.0.0.1:1/x" })]
        {
            assert!(read(&schema).is_err(), "{schema}");
        }
    }
}
