//! The JSON that a hook gets on its standard input.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Hook, HookPoint};
use crate::tool_names;

/// Names of inputs in Claude Code, each with our tool and our name for it.
const CLAUDE_INPUTS: &[(&str, &str, &str)] = &[
    ("read", "path", PATH),
    ("write", "path", PATH),
    ("edit", "path", PATH),
    ("edit", "old", "old_string"),
    ("edit", "new", "new_string"),
    ("edit", "all", "replace_all"),
    ("bash", "background", "run_in_background"),
];

/// The input of Claude Code that is an absolute path.
const PATH: &str = "file_path";

/// The facts that every request has.
pub(crate) struct HookRequest<'a> {
    pub(crate) thread: &'a str,
    pub(crate) run: &'a str,
    /// The agent, and whether it is the main agent.
    pub(crate) agent: (&'a str, bool),
    pub(crate) workspace: &'a Path,
}

/// A call as a hook sees it.
#[derive(Clone, Copy)]
pub(crate) struct CallInput<'a> {
    pub(crate) id: &'a str,
    pub(crate) tool: &'a str,
    /// The MCP server of the tool.
    pub(crate) server: Option<&'a str>,
    pub(crate) input: &'a Value,
}

impl HookRequest<'_> {
    fn base(&self, point: HookPoint) -> Value {
        let (agent, is_main) = self.agent;
        let mut request = json!({
            "hook_event_name": point.name(),
            "session_id": self.thread,
            "cwd": self.workspace,
            "run_id": self.run,
            "agent_type": agent,
        });
        if !is_main {
            request["agent_id"] = self.run.into();
        }
        request
    }

    /// Returns the request about a call. `response` is the text of its result, and whether it is an error.
    pub(crate) fn of_call(&self, hook: &Hook, call: CallInput<'_>, response: Option<(&str, bool)>) -> Value {
        let mut request = self.base(hook.point);
        request["tool_use_id"] = call.id.into();
        (request["tool_name"], request["tool_input"]) = match hook.is_claude {
            true => (
                tool_names::claude_name(call.tool, call.server).into(),
                to_claude(call.tool, call.input, self.workspace),
            ),
            false => (call.tool.into(), call.input.clone()),
        };
        if let Some((text, is_error)) = response {
            request["tool_response"] = json!({ "text": text, "is_error": is_error });
        }
        request
    }

    /// Returns the input that a hook has changed, with our names.
    pub(crate) fn changed_input(
        &self,
        hook: &Hook,
        call: CallInput<'_>,
        changed: Map<String, Value>,
    ) -> Map<String, Value> {
        if hook.is_claude { from_claude(call.tool, changed, call.input, self.workspace) } else { changed }
    }

    /// Returns the request about the end of a turn. `is_active` says whether a hook has prevented the end before.
    pub(crate) fn of_end(&self, point: HookPoint, answer: Option<&str>, is_active: bool) -> Value {
        let mut request = self.base(point);
        request["stop_hook_active"] = is_active.into();
        request["last_assistant_message"] = answer.into();
        request
    }
}

/// Returns the names of a tool's inputs: ours, and Claude Code's.
fn names(tool: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    CLAUDE_INPUTS.iter().filter(move |(of, ..)| *of == tool).map(|(_, ours, theirs)| (*ours, *theirs))
}

/// Returns an input with the names of Claude Code.
fn to_claude(tool: &str, input: &Value, workspace: &Path) -> Value {
    let Some(fields) = input.as_object() else { return input.clone() };
    let field = |(name, value): (&String, &Value)| {
        let theirs = names(tool).find(|(ours, _)| ours == name).map(|(_, theirs)| theirs);
        let value = match (theirs, value.as_str()) {
            (Some(PATH), Some(path)) => json!(workspace.join(path)),
            _ => value.clone(),
        };
        (theirs.unwrap_or(name).to_owned(), value)
    };
    Value::Object(fields.iter().map(field).collect())
}

/// Returns a changed input with our names. A path that was not changed stays as it was.
fn from_claude(
    tool: &str,
    changed: Map<String, Value>,
    before: &Value,
    workspace: &Path,
) -> Map<String, Value> {
    let sent = to_claude(tool, before, workspace);
    let field = |(name, value): (String, Value)| {
        let ours = names(tool).find(|(_, theirs)| *theirs == name).map(|(ours, _)| ours);
        let is_same = ours.is_some() && sent[&name] == value;
        let value = if is_same { before[ours.unwrap_or_default()].clone() } else { value };
        (ours.map_or(name, str::to_owned), value)
    };
    changed.into_iter().map(field).collect()
}
