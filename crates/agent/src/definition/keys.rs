//! The keys of front matter, taken one by one; what nobody takes is kept and reported.

use serde_json::Value;

use super::front::{DefinitionError, Front, Key};

/// Something in a file that has no effect here.
#[derive(Clone, Debug, PartialEq)]
pub struct UnusedKey {
    /// The key.
    pub key: String,
    /// Its line.
    pub line: usize,
    /// What it says.
    pub value: Value,
    /// Why it has no effect.
    pub why: String,
}

/// The keys that are still to be taken.
pub(super) struct Keys {
    left: Vec<Key>,
    pub(super) unused: Vec<UnusedKey>,
}

impl Keys {
    pub(super) fn of(front: Front) -> (Self, String) {
        (Self { left: front.keys, unused: Vec::new() }, front.body)
    }

    /// Takes a key by any of its names. One that says nothing is as good as absent.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<Key> {
        let at = self.left.iter().position(|key| names.contains(&key.name.as_str()))?;
        Some(self.left.remove(at)).filter(|key| !key.value.is_null())
    }

    /// Takes words. A number is one too: people call things `7`.
    pub(super) fn words(&mut self, name: &str) -> Result<Option<(String, usize)>, DefinitionError> {
        let Some(key) = self.take(&[name]) else { return Ok(None) };
        match key.value {
            Value::String(words) => Ok(Some((words.trim().to_owned(), key.line))),
            Value::Number(number) => Ok(Some((number.to_string(), key.line))),
            other => Err(DefinitionError::at(
                key.line,
                format!("`{name}` must be words, but is: {}", brief(&other)),
            )),
        }
    }

    /// It has no effect.
    pub(super) fn unused(&mut self, key: Key, why: impl Into<String>) {
        self.unused.push(UnusedKey { key: key.name, line: key.line, value: key.value, why: why.into() });
    }

    /// What nobody took.
    pub(super) fn finish(mut self) -> Vec<UnusedKey> {
        for key in std::mem::take(&mut self.left) {
            let known = ELSEWHERE.iter().find(|(name, _)| *name == key.name);
            let why = known.map_or("there is no such key", |(_, why)| why);
            self.unused(key, why);
        }
        self.unused.sort_by_key(|unused| unused.line);
        self.unused
    }
}

/// What a key means to others, and why it means nothing here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("background", "who starts an agent says whether it works in the background"),
    ("color", "agents have no colours here"),
    ("disable-model-invocation", "every skill can be read by the agent"),
    ("effort", "how hard a model thinks follows from its place in the tree"),
    ("hidden", "every agent is listed"),
    ("hooks", "no file starts programs"),
    ("isolation", "every agent works in the folder it is started in"),
    ("mcpServers", "tool servers are connected for a whole run"),
    ("memory", "all agents of a user remember the same"),
    ("metadata", "it says nothing to offshoot"),
    ("mode", "every agent can be the main one and a sub-agent"),
    ("license", "it says nothing to offshoot"),
    ("permissionMode", "an agent gets no rights by its own word"),
    ("skills", "every agent has all skills"),
    ("subtask", "a command works in the conversation it is said in"),
    ("temperature", "models sample as their provider does"),
    ("top_p", "models sample as their provider does"),
    ("user-invocable", "every skill is the agent's to read"),
    ("variant", "a model is a tier or an id"),
    ("version", "it says nothing to offshoot"),
];

/// A value on a short line.
pub(super) fn brief(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    let more = if text.chars().count() > MOST { "…" } else { "" };
    text.chars().take(MOST).chain(more.chars()).collect()
}

/// A whole number of steps.
pub(super) fn steps(key: &Key) -> Result<u32, DefinitionError> {
    let number =
        key.value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    number.ok_or_else(|| {
        let why = format!("`{}` must be a whole number above 0, but is: {}", key.name, brief(&key.value));
        DefinitionError::at(key.line, why)
    })
}
