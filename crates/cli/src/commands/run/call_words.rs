//! Tool calls in words: what is called, and with what.

use report::plain;
use serde_json::{Map, Value};

/// The inputs that describe a call of a built-in tool, each with the words before it. Other inputs are left out.
const WORDS: &[(&str, &[(&str, &str)])] = &[
    ("read", &[("path", "")]),
    ("write", &[("path", "")]),
    ("edit", &[("path", "")]),
    ("list", &[("path", "")]),
    ("glob", &[("pattern", ""), ("path", "in ")]),
    ("grep", &[("pattern", ""), ("path", "in "), ("glob", "in ")]),
    ("bash", &[("command", "")]),
    ("get_time", &[("zone", "in ")]),
    ("web_fetch", &[("url", "")]),
    ("memory", &[("action", ""), ("name", "")]),
    ("skill", &[("name", "")]),
    ("sessions_search", &[("query", "")]),
    ("spawn_sub_agent", &[("agent", ""), ("continue", "continue "), ("prompt", ": ")]),
    ("job_output", &[("job_id", "")]),
    ("job_cancel", &[("job_id", "")]),
    ("send_message", &[("run_id", "to "), ("message", ": ")]),
];

/// Returns a call as one line of words, escaped for a terminal. An input that is not a JSON object is shown as it is.
pub(super) fn call_words(tool: &str, input: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str(input) else {
        return plain(&format!("{tool} {input}"));
    };
    let details = match WORDS.iter().find(|(name, _)| *name == tool) {
        Some((_, inputs)) => described(inputs, &fields),
        None if tool == "manage_tasks" => task_changes(&fields),
        None => fields.iter().map(|(name, value)| format!(" {name} {}", text(value))).collect(),
    };
    plain(&format!("{tool}{details}"))
}

fn described(inputs: &[(&str, &str)], fields: &Map<String, Value>) -> String {
    let given = inputs.iter().filter_map(|(name, before)| Some((before, fields.get(*name)?)));
    let given = given.filter(|(_, value)| !value.is_null());
    given.map(|(before, value)| format!("{}{before}{}", gap(before), text(value))).collect()
}

/// Returns the space before some words.
fn gap(words: &str) -> &'static str {
    if words.starts_with(':') { "" } else { " " }
}

/// Describes how a call changes the tasks.
fn task_changes(fields: &Map<String, Value>) -> String {
    let items = |name: &str| fields.get(name).and_then(Value::as_array).into_iter().flatten();
    let new = items("create").filter_map(|task| Some(format!("plan {}", text(task.get("subject")?))));
    let changed = items("update").filter_map(|task| {
        let id = text(task.get("id")?);
        let status = task.get("status").map(|status| format!(" {}", text(status).replace('_', " ")));
        Some(format!("{id}{}", status.unwrap_or_default()))
    });
    let changes: Vec<String> = new.chain(changed).collect();
    if changes.is_empty() { String::new() } else { format!(": {}", changes.join(", ")) }
}

/// Returns a value as text: a string without quotes, everything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_words() {
        for (tool, input, words) in [
            ("list", "{}", "list"),
            ("read", r#"{"path":"src/a.rs","offset":7}"#, "read src/a.rs"),
            ("grep", r#"{"pattern":"fn main","output":"files"}"#, "grep fn main"),
            ("grep", r#"{"pattern":"x","path":"src"}"#, "grep x in src"),
            ("bash", r#"{"command":"cargo test\n -q"}"#, "bash cargo test -q"),
            (
                "spawn_sub_agent",
                r#"{"prompt":"Count\nthem.","run_in_background":true}"#,
                "spawn_sub_agent: Count them.",
            ),
            ("spawn_sub_agent", r#"{"agent":"scan","prompt":"Look."}"#, "spawn_sub_agent scan: Look."),
            (
                "spawn_sub_agent",
                r#"{"continue":"r-2-0","prompt":"More."}"#,
                "spawn_sub_agent continue r-2-0: More.",
            ),
            ("send_message", r#"{"run_id":"r-2-0","message":"Stop."}"#, "send_message to r-2-0: Stop."),
            (
                "manage_tasks",
                r#"{"create":[{"subject":"Parse"}],"update":[{"id":"r.2.0.1","status":"in_progress"}]}"#,
                "manage_tasks: plan Parse, r.2.0.1 in progress",
            ),
            ("manage_tasks", "{}", "manage_tasks"),
            ("tickets_find", r#"{"id":7,"open":"yes"}"#, "tickets_find id 7 open yes"),
            ("read", "not JSON", "read not JSON"),
            ("bash", "{\"command\":\"ls\\u001b[2K\"}", "bash ls\\u{1b}[2K"),
        ] {
            assert_eq!(call_words(tool, input), words, "{tool} {input}");
        }
    }
}
