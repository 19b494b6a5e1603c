//! Selection of a server's tools: those that the user wants and whose schema every provider accepts, under
//! unique names.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::Policy;
use crate::fence;
use crate::tool_names::server_tool;

/// Longest property name that all providers accept.
const MAX_NAME: usize = 64;
/// Maximum length of a description.
const MAX_DESCRIPTION: usize = 4_000;
/// Maximum size of a schema.
const MAX_SCHEMA: usize = 64 * 1024;
/// Maximum depth of a schema.
const MAX_SCHEMA_DEPTH: usize = 32;
/// Limits for all tools of one server, since they are part of every request.
const MAX_TOOLS: usize = 256;
const MAX_LIST: usize = 256 * 1024;

/// A tool as it is offered to models.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OfferedTool {
    /// Name for the model.
    pub(super) name: String,
    /// Name for the server.
    pub(super) own_name: String,
    pub(super) description: String,
    pub(super) schema: String,
    pub(super) policy: Policy,
}

/// Selects the tools to offer, sorted by name, and lists the others with reasons.
pub(super) fn offered_tools(
    server: &str,
    listed: &[Value],
    wanted: Option<&[String]>,
) -> (Vec<OfferedTool>, Vec<String>) {
    let mut tools: Vec<OfferedTool> = Vec::new();
    let mut left_out = Vec::new();
    let mut missing: BTreeSet<&str> = wanted.unwrap_or_default().iter().map(String::as_str).collect();
    for tool in listed {
        let own_name = tool["name"].as_str().unwrap_or_default();
        missing.remove(own_name);
        if wanted.is_some_and(|wanted| !wanted.iter().any(|name| name == own_name)) {
            continue;
        }
        match read_tool(server, own_name, tool) {
            Ok(tool) => tools.push(tool),
            Err(why) => left_out.push(format!("the tool `{}` is left out: {why}", shorten(own_name))),
        }
    }
    left_out.extend(
        missing.into_iter().map(|name| format!("`tools` names `{name}`, which the server does not have")),
    );
    tools.sort_by(|a, b| (&a.name, &a.own_name).cmp(&(&b.name, &b.own_name)));
    let mut names = BTreeSet::new();
    let (mut kept, mut size) = (Vec::new(), 0);
    for tool in tools {
        let own_name = shorten(&tool.own_name);
        size += tool.name.len() + tool.description.len() + tool.schema.len();
        if !names.insert(tool.name.clone()) {
            left_out.push(format!(
                "the tool `{own_name}` is left out: another one is also called `{}`",
                tool.name
            ));
        } else if kept.len() == MAX_TOOLS || size > MAX_LIST {
            left_out.push(format!(
                "the tools from `{own_name}` on are left out: at most {MAX_TOOLS} tools and {MAX_LIST} bytes are allowed"
            ));
            break;
        } else {
            kept.push(tool);
        }
    }
    (kept, left_out)
}

fn read_tool(server: &str, own_name: &str, tool: &Value) -> Result<OfferedTool, String> {
    if own_name.is_empty() {
        return Err("it has no name".to_owned());
    }
    let description = tool["description"].as_str().or(tool["title"].as_str()).unwrap_or_default();
    Ok(OfferedTool {
        name: server_tool(server, own_name),
        own_name: own_name.to_owned(),
        description: clean_description(description),
        schema: without_tags(&checked_schema(&tool["inputSchema"])?).into_owned(),
        policy: policy(&tool["annotations"]),
    })
}

/// Makes our tags inert: a description is as untrusted as a result.
fn without_tags(text: &str) -> Cow<'_, str> {
    fence::without_control_tags(text).map_or(text.into(), Cow::Owned)
}

fn clean_description(text: &str) -> String {
    let text = without_tags(text);
    let shown = text.chars().filter(|c| *c == '\n' || !c.is_control());
    let more = if text.chars().count() > MAX_DESCRIPTION { "…" } else { "" };
    shown.take(MAX_DESCRIPTION).chain(more.chars()).collect()
}

/// Returns the schema as compact JSON. A provider refuses a whole request because of one invalid schema, so
/// known cases are refused here.
fn checked_schema(schema: &Value) -> Result<String, String> {
    let Some(fields) = schema.as_object() else { return Err("its schema is not a JSON object".to_owned()) };
    if fields.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its schema must have the type `object`".to_owned());
    }
    if let Some(key) = ["oneOf", "anyOf", "allOf"].into_iter().find(|key| fields.contains_key(*key)) {
        return Err(format!("its schema has `{key}` at the top level"));
    }
    let properties = match fields.get("properties") {
        None => None,
        Some(properties) => {
            Some(properties.as_object().ok_or("`properties` in its schema is not an object")?)
        }
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    for name in properties.into_iter().flat_map(|properties| properties.keys()) {
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
            return Err(format!("providers do not accept the property name `{}`", shorten(name)));
        }
    }
    let is_list_of_names =
        |required: &Value| required.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    if !fields.get("required").is_none_or(is_list_of_names) {
        return Err("`required` in its schema is not a list of names".to_owned());
    }
    if !is_within(schema, MAX_SCHEMA_DEPTH) {
        return Err(format!("its schema is nested deeper than {MAX_SCHEMA_DEPTH} levels"));
    }
    // Providers read this dialect, whatever the schema declares.
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        let (place, why) = (error.instance_path().to_string(), error.to_string());
        return Err(format!("its schema is invalid at `{}`: {}", shorten(&place), shorten(&why)));
    }
    let text = schema.to_string();
    if text.len() > MAX_SCHEMA {
        return Err(format!("its schema has {} bytes; at most {MAX_SCHEMA} are allowed", text.len()));
    }
    Ok(text)
}

fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_within(item, depth - 1)),
        Value::Object(fields) => depth > 0 && fields.values().all(|field| is_within(field, depth - 1)),
        _ => true,
    }
}

/// Derives the retry policy from the server's hints. Without hints, a call is unsafe.
fn policy(annotations: &Value) -> Policy {
    if annotations["readOnlyHint"] == true {
        Policy::Pure
    } else if annotations["idempotentHint"] == true {
        Policy::Idempotent
    } else {
        Policy::Unsafe
    }
}

fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn show(listed: &[Value], wanted: Option<&[String]>) -> String {
        let (tools, left_out) = offered_tools("s", listed, wanted);
        let tools = tools.iter().map(|tool| {
            format!(
                "{} <- {:?} {:?} {:?} {}\n",
                tool.name, tool.own_name, tool.policy, tool.description, tool.schema
            )
        });
        tools.chain(left_out.into_iter().map(|why| format!("- {why}\n"))).collect()
    }

    #[test]
    fn valid_tools_are_offered_in_order() {
        let plain = json!({"type": "object"});
        let listed = [
            json!({"name": "z", "inputSchema": plain}),
            json!({"name": "a", "inputSchema": {"type": "object", "properties": {"b": {}, "a": {}}}, "description": "Does\u{1b}[31m it."}),
            json!({"name": "look", "inputSchema": plain, "annotations": {"readOnlyHint": true, "idempotentHint": false}}),
            json!({"name": "put", "inputSchema": plain, "annotations": {"readOnlyHint": false, "idempotentHint": true}}),
            json!({"name": "lie", "inputSchema": plain, "annotations": {"readOnlyHint": "true"}}),
            json!({"name": "odd näme/✓", "inputSchema": plain, "title": "Odd"}),
            json!({"name": "odd_n_me__", "inputSchema": plain}),
            json!({"name": "long".repeat(30), "inputSchema": plain}),
            json!({"name": "long".repeat(31), "inputSchema": plain}),
        ];
        expect![[r#"
            s_a <- "a" Unsafe "Does[31m it." {"type":"object","properties":{"b":{},"a":{}}}
            s_lie <- "lie" Unsafe "" {"type":"object"}
            s_longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglo <- "longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglong" Unsafe "" {"type":"object"}
            s_look <- "look" Pure "" {"type":"object"}
            s_odd_n_me__ <- "odd näme/✓" Unsafe "Odd" {"type":"object"}
            s_put <- "put" Idempotent "" {"type":"object"}
            s_z <- "z" Unsafe "" {"type":"object"}
            - the tool `longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglong` is left out: another one is also called `s_longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglo`
            - the tool `odd_n_me__` is left out: another one is also called `s_odd_n_me__`
        "#]].assert_eq(&show(&listed, None));
        let wanted = ["look".to_owned(), "gone".to_owned()];
        expect![[r#"
            s_look <- "look" Pure "" {"type":"object"}
            - `tools` names `gone`, which the server does not have
        "#]]
        .assert_eq(&show(&listed, Some(&wanted)));
    }

    #[test]
    fn a_list_has_an_end() {
        let plain = json!({"type": "object"});
        let long = json!({"type": "object", "description": "x".repeat(60_000)});
        let list = |schema: &Value| -> Vec<Value> {
            (0..300).map(|at| json!({"name": format!("t{at:03}"), "inputSchema": schema})).collect()
        };
        for (schema, kept) in [(&plain, 256), (&long, 4)] {
            let (tools, left_out) = offered_tools("s", &list(schema), None);
            assert_eq!((tools.len(), left_out.len()), (kept, 1));
            assert!(left_out[0].starts_with(&format!("the tools from `t{kept:03}` on")), "{left_out:?}");
        }
    }

    #[test]
    fn a_schema_that_lies_is_left_out_and_named() {
        let mut deep = json!({});
        for _ in 0..40 {
            deep = json!({"properties": {"x": deep}});
        }
        let wrong = [
            json!(null),
            json!("object"),
            json!([]),
            json!({}),
            json!({"type": "string"}),
            json!({"type": ["object"]}),
            json!({"type": "object", "properties": []}),
            json!({"type": "object", "properties": {"a b": {}}}),
            json!({"type": "object", "properties": {"": {}}}),
            json!({"type": "object", "required": "a"}),
            json!({"type": "object", "required": [1]}),
            json!({"type": "object", "anyOf": []}),
            json!({"type": "object", "properties": {"x": deep}}),
            json!({"type": "object", "description": "x".repeat(70_000)}),
            json!({"type": "object", "properties": {"q": 7}}),
            json!({"type": "object", "properties": {"q": {"type": "nonsense"}}}),
            json!({"type": "object", "additionalProperties": "no"}),
            json!({"type": "object", "properties": {"q": {"type": "array", "items": {"enum": 7}}}}),
            json!({"type": "object", "properties": {"q": {"type": "string", "minLength": -1}}}),
            json!({"type": "object", "$defs": {"a": {"required": "b"}}}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
                "properties": {"q": {"type": "number", "minimum": 0, "exclusiveMinimum": true}}}),
            json!({"$schema": "http://127.0.0.1:1/own", "type": "object", "properties": {"q": {"type": 7}}}),
        ];
        let mut listed: Vec<Value> = wrong
            .iter()
            .enumerate()
            .map(|(at, schema)| json!({"name": format!("t{at}"), "inputSchema": schema}))
            .collect();
        listed.extend([json!({"inputSchema": {"type": "object"}}), json!(7), json!({"name": 7})]);
        listed.push(json!({"name": "good", "inputSchema": {"type": "object"}}));
        expect![[r#"
            s_good <- "good" Unsafe "" {"type":"object"}
            - the tool `t0` is left out: its schema is not a JSON object
            - the tool `t1` is left out: its schema is not a JSON object
            - the tool `t2` is left out: its schema is not a JSON object
            - the tool `t3` is left out: its schema must have the type `object`
            - the tool `t4` is left out: its schema must have the type `object`
            - the tool `t5` is left out: its schema must have the type `object`
            - the tool `t6` is left out: `properties` in its schema is not an object
            - the tool `t7` is left out: providers do not accept the property name `a b`
            - the tool `t8` is left out: providers do not accept the property name ``
            - the tool `t9` is left out: `required` in its schema is not a list of names
            - the tool `t10` is left out: `required` in its schema is not a list of names
            - the tool `t11` is left out: its schema has `anyOf` at the top level
            - the tool `t12` is left out: its schema is nested deeper than 32 levels
            - the tool `t13` is left out: its schema has 70034 bytes; at most 65536 are allowed
            - the tool `t14` is left out: its schema is invalid at `/properties/q`: 7 is not of types "boolean", "object"
            - the tool `t15` is left out: its schema is invalid at `/properties/q/type`: "nonsense" is not valid under any of the schemas listed in the 'anyOf' keyword
            - the tool `t16` is left out: its schema is invalid at `/additionalProperties`: "no" is not of types "boolean", "object"
            - the tool `t17` is left out: its schema is invalid at `/properties/q/items/enum`: 7 is not of type "array"
            - the tool `t18` is left out: its schema is invalid at `/properties/q/minLength`: -1 is less than the minimum of 0
            - the tool `t19` is left out: its schema is invalid at `/$defs/a/required`: "b" is not of type "array"
            - the tool `t20` is left out: its schema is invalid at `/properties/q/exclusiveMinimum`: true is not of type "number"
            - the tool `t21` is left out: its schema is invalid at `/properties/q/type`: 7 is not valid under any of the schemas listed in the 'anyOf' keyword
            - the tool `` is left out: it has no name
            - the tool `` is left out: it has no name
            - the tool `` is left out: it has no name
        "#]]
        .assert_eq(&show(&listed, None));
    }
}
