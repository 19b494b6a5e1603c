//! Validation of a call's input against the tool's schema.
//!
//! The schema that the model sees is the one that is checked, so the two cannot differ. It supports only what
//! our own schemas use: strings, integers with bounds, booleans, enums, and lists of objects of those.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Refusal;
use crate::Tool;

/// Validates the input and converts it to the tool's own type.
pub(super) fn parse<A: DeserializeOwned>(tool: &dyn Tool, input: &Value) -> Result<A, Refusal> {
    let schema: Value = serde_json::from_str(tool.schema()).expect("a test reads every tool's schema");
    let input = without_nulls(&schema, input);
    check(tool.name(), &schema, &input).map_err(Refusal)?;
    A::deserialize(input)
        .map_err(|error| Refusal(format!("the input of `{}` is wrong: {error}", tool.name())))
}

/// Removes `null` for optional fields. Many models send it for an absent value.
fn without_nulls(schema: &Value, input: &Value) -> Value {
    let Some(fields) = input.as_object() else { return input.clone() };
    let is_required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let is_given = |(name, value): &(&String, &Value)| {
        !value.is_null() || is_required(name) || schema["properties"].get(name.as_str()).is_none()
    };
    let field = |(name, value): (&String, &Value)| {
        let value = match value.as_array() {
            Some(items) => {
                items.iter().map(|item| without_nulls(&schema["properties"][name]["items"], item)).collect()
            }
            None => value.clone(),
        };
        (name.clone(), value)
    };
    Value::Object(fields.iter().filter(is_given).map(field).collect())
}

fn check(tool: &str, schema: &Value, input: &Value) -> Result<(), String> {
    let Some(fields) = input.as_object() else {
        return Err(format!("`{tool}` takes a JSON object, but got: {}", shorten_value(input)));
    };
    let known = schema["properties"].as_object().expect("a test looks at every tool's properties");
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (name, value) in fields {
        let Some(expected) = known.get(name) else {
            let known: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
            let takes = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            return Err(format!("`{}` is no input of `{tool}`; it takes {takes}", shorten(name)));
        };
        if !is_valid(expected, value) {
            return Err(format!("`{name}` must be {}, but is: {}", describe(expected), shorten_value(value)));
        }
        for (n, item) in value.as_array().into_iter().flatten().enumerate() {
            check(&format!("{tool}.{name}[{n}]"), &expected["items"], item)?;
        }
    }
    for name in required.iter().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(format!("`{name}` is missing; it must be {}", describe(&known[name])));
        }
    }
    Ok(())
}

fn is_valid(expected: &Value, value: &Value) -> bool {
    if let Some(choices) = expected["enum"].as_array() {
        return choices.contains(value);
    }
    match expected["type"].as_str() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("integer") => value.as_u64().is_some_and(|number| {
            expected["minimum"].as_u64().is_none_or(|least| number >= least)
                && expected["maximum"].as_u64().is_none_or(|most| number <= most)
        }),
        _ => false,
    }
}

fn describe(expected: &Value) -> String {
    if let Some(choices) = expected["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        return format!("one of {}", choices.join(", "));
    }
    match (expected["type"].as_str(), expected["minimum"].as_u64(), expected["maximum"].as_u64()) {
        (Some("string"), ..) => "a string".to_owned(),
        (Some("boolean"), ..) => "true or false".to_owned(),
        (Some("array"), ..) => "a list".to_owned(),
        (Some("object"), ..) => "an object".to_owned(),
        (_, least, None) => format!("a whole number of at least {}", least.unwrap_or(0)),
        (_, least, Some(most)) => format!("a whole number from {} to {most}", least.unwrap_or(0)),
    }
}

fn shorten_value(value: &Value) -> String {
    shorten(&value.to_string())
}

fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    let more = if text.chars().count() > MOST { "…" } else { "" };
    text.chars().take(MOST).chain(more.chars()).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use crate::Tool as _;
    use crate::testing::{TestWorkspace, format_output};
    use crate::tools::builtin;

    #[test]
    fn every_schema_is_compact_and_closed() {
        for tool in builtin() {
            let schema: Value = serde_json::from_str(tool.schema()).expect("a schema is JSON");
            assert_eq!(schema.to_string(), tool.schema(), "compact, in our own order");
            assert_eq!(schema["type"], "object");
            assert_eq!(schema["additionalProperties"], false);
            let known = schema["properties"].as_object().expect("a schema has properties");
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(known.contains_key(name.as_str().expect("a name")), "{name} of {}", tool.name());
            }
            for (name, property) in known {
                assert!(property["description"].is_string(), "{name} of {}", tool.name());
            }
        }
    }

    #[tokio::test]
    async fn null_is_nothing_where_nothing_will_do() {
        let fixture = TestWorkspace::new(&[("a.txt", "one\ntwo\n")]);
        let said = async |tool: &str, input: Value| format_output(&fixture.call(tool, input).await);
        let nulls = said("read", json!({"path": "a.txt", "offset": null, "limit": null})).await;
        assert_eq!(nulls, said("read", json!({"path": "a.txt"})).await);
        assert_eq!(said("read", json!({"path": null})).await, "`path` must be a string, but is: null");
        let unknown = said("read", json!({"path": "a.txt", "colour": null})).await;
        assert!(unknown.contains("`colour` is no input"), "{unknown}");
        let tasks = json!({"create": [{"subject": "Sow", "description": null}], "update": null});
        let schema: Value =
            serde_json::from_str(crate::tools::manage_tasks::ManageTasksTool.schema()).expect("JSON");
        assert_eq!(super::without_nulls(&schema, &tasks), json!({"create": [{"subject": "Sow"}]}));
    }

    /// The schema is checked before the conversion, so only a stricter type could disagree.
    #[tokio::test]
    async fn a_tool_takes_all_that_its_schema_names_and_needs_no_more_than_it_requires() {
        let fixture = TestWorkspace::new(&[]);
        for tool in builtin() {
            let schema: Value = serde_json::from_str(tool.schema()).expect("a schema is JSON");
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let mut whole = serde_json::Map::new();
            let mut least = serde_json::Map::new();
            for (name, property) in schema["properties"].as_object().expect("properties") {
                let value = match property["type"].as_str() {
                    Some("string") => property["enum"].get(0).cloned().unwrap_or(json!("x")),
                    Some("boolean") => json!(true),
                    Some("array") => json!([]),
                    Some("object") => json!({}),
                    _ => property["minimum"].clone(),
                };
                whole.insert(name.clone(), value.clone());
                if required.contains(&json!(name)) {
                    least.insert(name.clone(), value);
                }
            }
            for input in [whole, least] {
                let text = format_output(&fixture.call(tool.name(), Value::Object(input)).await);
                let complaints = ["the input of", "is missing", "must be", "is no input"];
                assert!(!complaints.iter().any(|words| text.contains(words)), "{}: {text}", tool.name());
            }
        }
    }

    /// Every field of every tool, with every kind of wrong value.
    #[tokio::test]
    async fn invalid_input_is_named() {
        let fixture = TestWorkspace::new(&[]);
        let mut seen = String::new();
        for tool in builtin() {
            let schema: Value = serde_json::from_str(tool.schema()).expect("a schema is JSON");
            let mut wrong = vec![json!({"colour": 1}), json!([]), json!({})];
            for (name, property) in schema["properties"].as_object().expect("properties") {
                if schema["required"].as_array().is_some_and(|all| all.contains(&json!(name))) {
                    wrong.push(json!({ name: null }));
                }
                wrong.push(
                    json!({ name: if property["type"] == "string" { json!(7) } else { json!("seven") } }),
                );
                if property["minimum"].is_u64() {
                    wrong.push(json!({ name: -1 }));
                    wrong.push(json!({ name: 1.5 }));
                }
                if property["maximum"].is_u64() {
                    wrong.push(json!({ name: u64::MAX }));
                }
            }
            // A tool without required fields accepts an empty object.
            wrong.retain(|input| *input != json!({}) || schema["required"].is_array());
            for input in wrong {
                let output = fixture.call(tool.name(), input.clone()).await;
                assert!(output.is_error, "{} {input}", tool.name());
                seen += &format!("{} {input}: {}\n", tool.name(), format_output(&output));
            }
        }
        let expected: Expect = expect![[r#"
            read {"colour":1}: `colour` is no input of `read`; it takes `path`, `offset`, `limit`
            read []: `read` takes a JSON object, but got: []
            read {}: `path` is missing; it must be a string
            read {"path":null}: `path` must be a string, but is: null
            read {"path":7}: `path` must be a string, but is: 7
            read {"offset":"seven"}: `offset` must be a whole number of at least 1, but is: "seven"
            read {"offset":-1}: `offset` must be a whole number of at least 1, but is: -1
            read {"offset":1.5}: `offset` must be a whole number of at least 1, but is: 1.5
            read {"limit":"seven"}: `limit` must be a whole number of at least 1, but is: "seven"
            read {"limit":-1}: `limit` must be a whole number of at least 1, but is: -1
            read {"limit":1.5}: `limit` must be a whole number of at least 1, but is: 1.5
            write {"colour":1}: `colour` is no input of `write`; it takes `path`, `content`
            write []: `write` takes a JSON object, but got: []
            write {}: `path` is missing; it must be a string
            write {"path":null}: `path` must be a string, but is: null
            write {"path":7}: `path` must be a string, but is: 7
            write {"content":null}: `content` must be a string, but is: null
            write {"content":7}: `content` must be a string, but is: 7
            edit {"colour":1}: `colour` is no input of `edit`; it takes `path`, `old`, `new`, `all`
            edit []: `edit` takes a JSON object, but got: []
            edit {}: `path` is missing; it must be a string
            edit {"path":null}: `path` must be a string, but is: null
            edit {"path":7}: `path` must be a string, but is: 7
            edit {"old":null}: `old` must be a string, but is: null
            edit {"old":7}: `old` must be a string, but is: 7
            edit {"new":null}: `new` must be a string, but is: null
            edit {"new":7}: `new` must be a string, but is: 7
            edit {"all":"seven"}: `all` must be true or false, but is: "seven"
            list {"colour":1}: `colour` is no input of `list`; it takes `path`
            list []: `list` takes a JSON object, but got: []
            list {"path":7}: `path` must be a string, but is: 7
            glob {"colour":1}: `colour` is no input of `glob`; it takes `pattern`, `path`
            glob []: `glob` takes a JSON object, but got: []
            glob {}: `pattern` is missing; it must be a string
            glob {"pattern":null}: `pattern` must be a string, but is: null
            glob {"pattern":7}: `pattern` must be a string, but is: 7
            glob {"path":7}: `path` must be a string, but is: 7
            grep {"colour":1}: `colour` is no input of `grep`; it takes `pattern`, `path`, `glob`, `output`, `case_insensitive`, `context`, `limit`
            grep []: `grep` takes a JSON object, but got: []
            grep {}: `pattern` is missing; it must be a string
            grep {"pattern":null}: `pattern` must be a string, but is: null
            grep {"pattern":7}: `pattern` must be a string, but is: 7
            grep {"path":7}: `path` must be a string, but is: 7
            grep {"glob":7}: `glob` must be a string, but is: 7
            grep {"output":7}: `output` must be one of "content", "files", "count", but is: 7
            grep {"case_insensitive":"seven"}: `case_insensitive` must be true or false, but is: "seven"
            grep {"context":"seven"}: `context` must be a whole number from 0 to 20, but is: "seven"
            grep {"context":-1}: `context` must be a whole number from 0 to 20, but is: -1
            grep {"context":1.5}: `context` must be a whole number from 0 to 20, but is: 1.5
            grep {"context":18446744073709551615}: `context` must be a whole number from 0 to 20, but is: 18446744073709551615
            grep {"limit":"seven"}: `limit` must be a whole number from 1 to 2000, but is: "seven"
            grep {"limit":-1}: `limit` must be a whole number from 1 to 2000, but is: -1
            grep {"limit":1.5}: `limit` must be a whole number from 1 to 2000, but is: 1.5
            grep {"limit":18446744073709551615}: `limit` must be a whole number from 1 to 2000, but is: 18446744073709551615
            bash {"colour":1}: `colour` is no input of `bash`; it takes `command`, `timeout_s`, `background`, `description`
            bash []: `bash` takes a JSON object, but got: []
            bash {}: `command` is missing; it must be a string
            bash {"command":null}: `command` must be a string, but is: null
            bash {"command":7}: `command` must be a string, but is: 7
            bash {"timeout_s":"seven"}: `timeout_s` must be a whole number from 1 to 600, but is: "seven"
            bash {"timeout_s":-1}: `timeout_s` must be a whole number from 1 to 600, but is: -1
            bash {"timeout_s":1.5}: `timeout_s` must be a whole number from 1 to 600, but is: 1.5
            bash {"timeout_s":18446744073709551615}: `timeout_s` must be a whole number from 1 to 600, but is: 18446744073709551615
            bash {"background":"seven"}: `background` must be true or false, but is: "seven"
            bash {"description":7}: `description` must be a string, but is: 7
            get_time {"colour":1}: `colour` is no input of `get_time`; it takes nothing
            get_time []: `get_time` takes a JSON object, but got: []
            web_fetch {"colour":1}: `colour` is no input of `web_fetch`; it takes `url`, `max_chars`
            web_fetch []: `web_fetch` takes a JSON object, but got: []
            web_fetch {}: `url` is missing; it must be a string
            web_fetch {"url":null}: `url` must be a string, but is: null
            web_fetch {"url":7}: `url` must be a string, but is: 7
            web_fetch {"max_chars":"seven"}: `max_chars` must be a whole number from 1 to 90000, but is: "seven"
            web_fetch {"max_chars":-1}: `max_chars` must be a whole number from 1 to 90000, but is: -1
            web_fetch {"max_chars":1.5}: `max_chars` must be a whole number from 1 to 90000, but is: 1.5
            web_fetch {"max_chars":18446744073709551615}: `max_chars` must be a whole number from 1 to 90000, but is: 18446744073709551615
            manage_tasks {"colour":1}: `colour` is no input of `manage_tasks`; it takes `create`, `update`
            manage_tasks []: `manage_tasks` takes a JSON object, but got: []
            manage_tasks {"create":"seven"}: `create` must be a list, but is: "seven"
            manage_tasks {"update":"seven"}: `update` must be a list, but is: "seven"
            session_info {"colour":1}: `colour` is no input of `session_info`; it takes nothing
            session_info []: `session_info` takes a JSON object, but got: []
            sessions_search {"colour":1}: `colour` is no input of `sessions_search`; it takes `query`, `limit`
            sessions_search []: `sessions_search` takes a JSON object, but got: []
            sessions_search {}: `query` is missing; it must be a string
            sessions_search {"query":null}: `query` must be a string, but is: null
            sessions_search {"query":7}: `query` must be a string, but is: 7
            sessions_search {"limit":"seven"}: `limit` must be a whole number from 1 to 50, but is: "seven"
            sessions_search {"limit":-1}: `limit` must be a whole number from 1 to 50, but is: -1
            sessions_search {"limit":1.5}: `limit` must be a whole number from 1 to 50, but is: 1.5
            sessions_search {"limit":18446744073709551615}: `limit` must be a whole number from 1 to 50, but is: 18446744073709551615
            sessions_read {"colour":1}: `colour` is no input of `sessions_read`; it takes `thread`, `from`, `limit`
            sessions_read []: `sessions_read` takes a JSON object, but got: []
            sessions_read {"thread":7}: `thread` must be a string, but is: 7
            sessions_read {"from":"seven"}: `from` must be a whole number of at least 1, but is: "seven"
            sessions_read {"from":-1}: `from` must be a whole number of at least 1, but is: -1
            sessions_read {"from":1.5}: `from` must be a whole number of at least 1, but is: 1.5
            sessions_read {"limit":"seven"}: `limit` must be a whole number from 1 to 100, but is: "seven"
            sessions_read {"limit":-1}: `limit` must be a whole number from 1 to 100, but is: -1
            sessions_read {"limit":1.5}: `limit` must be a whole number from 1 to 100, but is: 1.5
            sessions_read {"limit":18446744073709551615}: `limit` must be a whole number from 1 to 100, but is: 18446744073709551615
            memory {"colour":1}: `colour` is no input of `memory`; it takes `action`, `name`, `text`, `scope`
            memory []: `memory` takes a JSON object, but got: []
            memory {}: `action` is missing; it must be one of "list", "read", "write", "delete"
            memory {"action":null}: `action` must be one of "list", "read", "write", "delete", but is: null
            memory {"action":7}: `action` must be one of "list", "read", "write", "delete", but is: 7
            memory {"name":7}: `name` must be a string, but is: 7
            memory {"text":7}: `text` must be a string, but is: 7
            memory {"scope":7}: `scope` must be one of "thread", "user", but is: 7
            skill {"colour":1}: `colour` is no input of `skill`; it takes `name`, `arguments`
            skill []: `skill` takes a JSON object, but got: []
            skill {}: `name` is missing; it must be a string
            skill {"name":null}: `name` must be a string, but is: null
            skill {"name":7}: `name` must be a string, but is: 7
            skill {"arguments":7}: `arguments` must be a string, but is: 7
            spawn_sub_agent {"colour":1}: `colour` is no input of `spawn_sub_agent`; it takes `prompt`, `agent`, `model`, `task_id`, `run_in_background`, `fork`, `output_schema`, `continue`
            spawn_sub_agent []: `spawn_sub_agent` takes a JSON object, but got: []
            spawn_sub_agent {}: `prompt` is missing; it must be a string
            spawn_sub_agent {"prompt":null}: `prompt` must be a string, but is: null
            spawn_sub_agent {"prompt":7}: `prompt` must be a string, but is: 7
            spawn_sub_agent {"agent":7}: `agent` must be a string, but is: 7
            spawn_sub_agent {"model":7}: `model` must be one of "opus", "sonnet", "haiku", but is: 7
            spawn_sub_agent {"task_id":7}: `task_id` must be a string, but is: 7
            spawn_sub_agent {"run_in_background":"seven"}: `run_in_background` must be true or false, but is: "seven"
            spawn_sub_agent {"fork":"seven"}: `fork` must be true or false, but is: "seven"
            spawn_sub_agent {"output_schema":"seven"}: `output_schema` must be an object, but is: "seven"
            spawn_sub_agent {"continue":7}: `continue` must be a string, but is: 7
            job_output {"colour":1}: `colour` is no input of `job_output`; it takes `job_id`, `block`, `timeout_ms`, `cursor`, `offset`
            job_output []: `job_output` takes a JSON object, but got: []
            job_output {}: `job_id` is missing; it must be a string
            job_output {"job_id":null}: `job_id` must be a string, but is: null
            job_output {"job_id":7}: `job_id` must be a string, but is: 7
            job_output {"block":"seven"}: `block` must be true or false, but is: "seven"
            job_output {"timeout_ms":"seven"}: `timeout_ms` must be a whole number from 0 to 600000, but is: "seven"
            job_output {"timeout_ms":-1}: `timeout_ms` must be a whole number from 0 to 600000, but is: -1
            job_output {"timeout_ms":1.5}: `timeout_ms` must be a whole number from 0 to 600000, but is: 1.5
            job_output {"timeout_ms":18446744073709551615}: `timeout_ms` must be a whole number from 0 to 600000, but is: 18446744073709551615
            job_output {"cursor":"seven"}: `cursor` must be a whole number of at least 0, but is: "seven"
            job_output {"cursor":-1}: `cursor` must be a whole number of at least 0, but is: -1
            job_output {"cursor":1.5}: `cursor` must be a whole number of at least 0, but is: 1.5
            job_output {"offset":"seven"}: `offset` must be a whole number of at least 0, but is: "seven"
            job_output {"offset":-1}: `offset` must be a whole number of at least 0, but is: -1
            job_output {"offset":1.5}: `offset` must be a whole number of at least 0, but is: 1.5
            job_cancel {"colour":1}: `colour` is no input of `job_cancel`; it takes `job_id`
            job_cancel []: `job_cancel` takes a JSON object, but got: []
            job_cancel {}: `job_id` is missing; it must be a string
            job_cancel {"job_id":null}: `job_id` must be a string, but is: null
            job_cancel {"job_id":7}: `job_id` must be a string, but is: 7
            send_message {"colour":1}: `colour` is no input of `send_message`; it takes `run_id`, `message`
            send_message []: `send_message` takes a JSON object, but got: []
            send_message {}: `run_id` is missing; it must be a string
            send_message {"run_id":null}: `run_id` must be a string, but is: null
            send_message {"run_id":7}: `run_id` must be a string, but is: 7
            send_message {"message":null}: `message` must be a string, but is: null
            send_message {"message":7}: `message` must be a string, but is: 7
        "#]];
        expected.assert_eq(&seen);
    }
}
