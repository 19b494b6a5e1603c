//! Answers of hooks: read from an exit code and outputs, and stored in the journal.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::HookPoint;
use crate::fence;

/// Maximum length of a text of a hook, in bytes. It is the limit of Claude Code.
const MAX_TEXT: usize = 10_000;
/// The exit code that denies a call, or lets an agent go on.
const BLOCKS: i32 = 2;

/// The end of a hook.
#[derive(Debug)]
pub(crate) struct HookEnd {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The answer of one hook.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct HookReply {
    /// The reason to deny the call, or to let the agent go on.
    pub(crate) block: Option<String>,
    /// The reason to ask the user about the call.
    pub(crate) ask: Option<String>,
    /// The new input of the call.
    pub(crate) input: Option<Map<String, Value>>,
    /// A text for the model.
    pub(crate) context: Option<String>,
    /// A text for the user.
    pub(crate) message: Option<String>,
    /// The reason to end the run.
    pub(crate) stop: Option<String>,
}

/// The answers of all hooks of one event, as the journal keeps them.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredAnswer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ask: Option<String>,
    /// The new input of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Value>,
    /// Texts for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) context: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<String>,
    /// The hooks that were asked.
    #[serde(default)]
    pub(crate) hooks: Vec<HookRecord>,
}

/// One hook that was asked.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookRecord {
    pub(crate) command: String,
    /// The outcome in one word.
    pub(crate) outcome: String,
    pub(crate) ms: u64,
}

impl StoredAnswer {
    /// Adds the answer of the next hook. Returns whether the hooks after it are not asked any more.
    pub(crate) fn add(&mut self, reply: HookReply) -> bool {
        let HookReply { block, ask, input, context, message: _, stop } = reply;
        self.ask = self.ask.take().or(ask);
        self.input = input.map(Value::Object).or(self.input.take());
        self.context.extend(context);
        self.stop = self.stop.take().or(stop);
        self.block = self.block.take().or(block);
        self.block.is_some() || self.stop.is_some()
    }
}

impl HookReply {
    /// Reads the answer of a hook that has ended. An error says why there is none.
    pub(crate) fn read(point: HookPoint, end: &HookEnd) -> Result<Self, String> {
        let reply = match end.code {
            0 => Self::from_output(&end.stdout)?,
            BLOCKS => {
                let said = if end.stderr.trim().is_empty() { &end.stdout } else { &end.stderr };
                Self { block: Some(text(said).unwrap_or_else(no_reason)), ..Self::default() }
            }
            code => {
                let said = end.stderr.trim().lines().last().and_then(|line| text(&cut(line, 200)));
                let said = said.map(|said| format!(": {said}")).unwrap_or_default();
                return Err(format!("it exited with {code}{said}"));
            }
        };
        if reply.input.is_some() && point != HookPoint::PreToolUse {
            return Err("`updatedInput` is only possible before a call".to_owned());
        }
        Ok(reply)
    }

    /// Reads the JSON that a hook has printed. Other text is no answer.
    fn from_output(output: &str) -> Result<Self, String> {
        if !output.trim_start().starts_with('{') {
            return Ok(Self::default());
        }
        let said: Value = serde_json::from_str(output.trim())
            .map_err(|error| format!("its output begins like JSON and is none: {error}"))?;
        let own = &said["hookSpecificOutput"];
        let reason = text_of(&own["permissionDecisionReason"]).or_else(|| text_of(&said["reason"]));
        let mut reply = Self {
            context: text_of(&own["additionalContext"]),
            message: text_of(&said["systemMessage"]),
            ..Self::default()
        };
        match &own["updatedInput"] {
            Value::Null => {}
            Value::Object(input) => reply.input = Some(input.clone()),
            _ => return Err("`updatedInput` is not an object".to_owned()),
        }
        let decision = own["permissionDecision"].as_str().or_else(|| said["decision"].as_str());
        match decision {
            None | Some("allow" | "approve") => {} // the rules decide
            Some("deny" | "block") => reply.block = Some(reason.unwrap_or_else(no_reason)),
            Some("ask" | "defer") => reply.ask = Some(reason.unwrap_or_else(no_reason)),
            Some(other) => {
                return Err(format!(
                    "its decision is unknown: `{}`",
                    text(&cut(other, 40)).unwrap_or_default()
                ));
            }
        }
        if said["continue"] == false {
            reply.stop = Some(text_of(&said["stopReason"]).unwrap_or_else(no_reason));
        }
        Ok(reply)
    }
}

fn no_reason() -> String {
    "it gave no reason".to_owned()
}

fn text_of(value: &Value) -> Option<String> {
    text(value.as_str()?)
}

/// Returns a text of a hook: bounded, and without tags that only we write.
fn text(said: &str) -> Option<String> {
    let said = cut(said.trim(), MAX_TEXT);
    (!said.is_empty()).then(|| fence::without_control_tags(&said).unwrap_or_else(|| said.clone()))
}

fn cut(text: &str, most: usize) -> String {
    crate::prompts::cut(text, most).into_owned()
}
