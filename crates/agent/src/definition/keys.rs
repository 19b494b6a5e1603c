//! The keys of front matter. Keys that are not taken are reported.

use serde_json::Value;

use super::front::{DefinitionError, Front, Key};

/// A key without effect.
#[derive(Clone, Debug, PartialEq)]
pub struct UnusedKey {
    /// The key.
    pub key: String,
    /// Its line.
    pub line: usize,
    /// Its value.
    pub value: Value,
    /// The reason.
    pub why: String,
}

/// The keys that are not taken yet.
pub(super) struct Keys {
    left: Vec<Key>,
    pub(super) unused: Vec<UnusedKey>,
}

impl Keys {
    pub(super) fn of(front: Front) -> (Self, String) {
        (Self { left: front.keys, unused: Vec::new() }, front.body)
    }

    /// Takes a key by any of its names. A key without a value counts as missing.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<Key> {
        let at = self.left.iter().position(|key| names.contains(&key.name.as_str()))?;
        Some(self.left.remove(at)).filter(|key| !key.value.is_null())
    }

    /// Takes a text. A number is a text, too: names may be `7`.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<(String, usize)>, DefinitionError> {
        let Some(key) = self.take(&[name]) else { return Ok(None) };
        match key.value {
            Value::String(text) => Ok(Some((text.trim().to_owned(), key.line))),
            Value::Number(number) => Ok(Some((number.to_string(), key.line))),
            other => Err(DefinitionError::at(
                key.line,
                format!("`{name}` must be a text, but is: {}", brief(&other)),
            )),
        }
    }

    /// Reports a key without effect.
    pub(super) fn unused(&mut self, key: Key, why: impl Into<String>) {
        self.unused.push(UnusedKey { key: key.name, line: key.line, value: key.value, why: why.into() });
    }

    /// Reports the keys that were not taken.
    pub(super) fn finish(mut self) -> Vec<UnusedKey> {
        for key in std::mem::take(&mut self.left) {
            let known = ELSEWHERE.iter().find(|(name, _)| *name == key.name);
            let why = known.map_or("unknown key", |(_, why)| why);
            self.unused(key, why);
        }
        self.unused.sort_by_key(|unused| unused.line);
        self.unused
    }
}

/// Keys of other harnesses, with the reason why they have no effect.
const ELSEWHERE: &[(&str, &str)] = &[
    ("background", "the caller of an agent chooses whether it runs in the background"),
    ("color", "agents have no colours"),
    ("disable-model-invocation", "every agent can read every skill"),
    ("effort", "the effort of a model follows from its place in the run tree"),
    ("hidden", "every agent is listed"),
    ("hooks", "definition files cannot start programs"),
    ("isolation", "every agent works in the folder of its run"),
    ("mcpServers", "tool servers are connected for a whole run"),
    ("memory", "all agents of a user share one memory"),
    ("metadata", "offshoot does not use it"),
    ("mode", "every agent can be the main one and a sub-agent"),
    ("license", "offshoot does not use it"),
    ("permissionMode", "an agent cannot allow itself anything"),
    ("skills", "every agent has all skills"),
    ("subtask", "a command runs in the current conversation"),
    ("temperature", "models use the provider's default"),
    ("top_p", "models use the provider's default"),
    ("user-invocable", "every agent can read every skill"),
    ("variant", "a model is a tier or an id"),
    ("version", "offshoot does not use it"),
];

/// Formats a value on a short line.
pub(super) fn brief(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    let more = if text.chars().count() > MOST { "…" } else { "" };
    text.chars().take(MOST).chain(more.chars()).collect()
}

/// Reads a number of steps.
pub(super) fn steps(key: &Key) -> Result<u32, DefinitionError> {
    let number =
        key.value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    number.ok_or_else(|| {
        let why = format!("`{}` must be a whole number above 0, but is: {}", key.name, brief(&key.value));
        DefinitionError::at(key.line, why)
    })
}
