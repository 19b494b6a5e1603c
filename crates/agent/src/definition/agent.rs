//! An agent as a file describes it.

use std::path::PathBuf;

use super::front::{DefinitionError, Front, Key};
use super::keys::{Keys, UnusedKey, steps};
use super::rule::ToolRule;
use super::tools::{ToolSelection, is_known};
use crate::List;

/// How long a name may be.
const MAX_NAME: usize = 64;

/// An agent: what it is for, what it is told, and what it is left of all that agents can do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The tools that it is left.
    pub tools: ToolSelection,
    /// The model: a tier, an id, or `PROVIDER/ID`; `None` is whatever else is said.
    pub model: Option<String>,
    /// What it is told.
    pub prompt: String,
    /// How many replies it may have before its last one.
    pub max_steps: Option<u32>,
    /// The rules that it says it wants.
    pub rules: Vec<ToolRule>,
    /// It is not to be used.
    pub is_disabled: bool,
    /// Where it is described; the built-in one is nowhere.
    pub file: Option<PathBuf>,
}

impl Agent {
    /// The agent of a file; `name` is what it is called where the file does not say. With what has no effect.
    pub(super) fn read(
        front: Front,
        name: &str,
        known: &[String],
    ) -> Result<(Self, Vec<UnusedKey>), DefinitionError> {
        if !front.is_there {
            return Err(DefinitionError::at(1, "there is no front matter: the first line must be `---`"));
        }
        let (mut keys, body) = Keys::of(front);
        let (name, line) = keys.words("name")?.unwrap_or((name.to_owned(), 1));
        let name = checked(name, line)?;
        let described = keys.words("description")?.filter(|(words, _)| !words.is_empty());
        let Some((description, _)) = described else {
            return Err(DefinitionError::at(1, "`description` is missing: nobody would know what it is for"));
        };
        let mut tools = take_tools(&mut keys, &["tools"], known)?.unwrap_or_default();
        let mut rules = take_rules(&mut keys, &mut tools, known)?;
        if let Some(without) = take_tools(&mut keys, &["disallowedTools", "disallowed-tools"], known)? {
            rules.extend(without.forbidding());
            tools.leave_out_all(without);
        }
        let model = keys.words("model")?.map(|(model, _)| model);
        let model = model.filter(|model| !model.is_empty() && model != "inherit");
        let max_steps = keys.take(&["max_steps", "maxSteps", "maxTurns", "steps"]);
        let max_steps = max_steps.map(|key| steps(&key)).transpose()?;
        let is_disabled = match keys.take(&["disable"]) {
            Some(key) => key
                .value
                .as_bool()
                .ok_or_else(|| DefinitionError::at(key.line, "`disable` must be true or false"))?,
            None => false,
        };
        let prompt = match (body.is_empty(), keys.words("prompt")?) {
            (true, Some((prompt, _))) => prompt,
            _ => body,
        };
        if prompt.is_empty() && !is_disabled {
            return Err(DefinitionError::at(
                1,
                "nothing stands below the front matter: the agent would be told nothing",
            ));
        }
        let file = None;
        let agent = Self { name, description, tools, model, prompt, max_steps, rules, is_disabled, file };
        Ok((agent, keys.finish()))
    }
}

impl Agent {
    /// What its file asks about and forbids, and what it leaves of a tool.
    pub fn permissions(&self) -> Vec<(List, String)> {
        self.rules.iter().filter_map(ToolRule::permission).chain(self.tools.only()).collect()
    }
}

/// A name goes into commands and lists.
pub(super) fn checked(name: String, line: usize) -> Result<String, DefinitionError> {
    let good = |c: char| c.is_alphanumeric() || "-_./:".contains(c);
    if name.starts_with(char::is_alphanumeric) && name.len() <= MAX_NAME && name.chars().all(good) {
        return Ok(name);
    }
    let why = "`name` must begin with a letter or a digit and go on with those, `-`, `_`, `.`, `/` and `:`, 64 bytes at most";
    Err(DefinitionError::at(line, why))
}

/// Takes tools; rules that mean nothing here, and names that are none, are reported.
pub(super) fn take_tools(
    keys: &mut Keys,
    names: &[&str],
    known: &[String],
) -> Result<Option<ToolSelection>, DefinitionError> {
    let Some(key) = keys.take(names) else { return Ok(None) };
    let (tools, unread) = ToolSelection::read(&key)?;
    let part = |value: &str| Key { name: key.name.clone(), line: key.line, value: value.into() };
    for (rule, why) in unread {
        keys.unused(part(&rule), format!("{why}: the tool is left out"));
    }
    for name in tools.unknown(known) {
        keys.unused(part(&name), format!("there is no tool `{name}` here"));
    }
    Ok(Some(tools))
}

/// What an agent may not do for certain, it is not given at all; what depends on a call stays a rule.
fn take_rules(
    keys: &mut Keys,
    tools: &mut ToolSelection,
    known: &[String],
) -> Result<Vec<ToolRule>, DefinitionError> {
    let Some(key) = keys.take(&["permission", "permissions"]) else { return Ok(Vec::new()) };
    let (rules, others) = ToolRule::read(&key)?;
    for other in others {
        let part = Key { name: key.name.clone(), line: key.line, value: other.as_str().into() };
        keys.unused(part, format!("`{other}`: only `deny`, `ask` and `allow` are known here"));
    }
    for rule in &rules {
        let ToolRule { tool, pattern, answer } = rule;
        let why = match (answer, pattern) {
            _ if !is_known(tool, known) => no_tool(tool),
            (List::Allow, None) => format!("`{tool}`: an agent gets no rights by its own word"),
            (List::Deny, None) => {
                tools.leave_out(tool);
                continue;
            }
            _ if rule.stays() => continue,
            (List::Allow, Some(pattern)) => format!("`{tool}({pattern})` means nothing here"),
            (_, pattern) => {
                tools.leave_out(tool);
                let pattern = pattern.as_deref().unwrap_or_default();
                format!("`{tool}({pattern})` cannot be kept, so it does not have the tool at all")
            }
        };
        let part = Key { name: key.name.clone(), line: key.line, value: tool.as_str().into() };
        if !keys.unused.iter().any(|known| known.line == part.line && known.why == why) {
            keys.unused(part, why);
        }
    }
    Ok(rules)
}

/// Why a rule on something that is no tool here means nothing.
fn no_tool(name: &str) -> String {
    match name {
        "external_directory" => {
            format!("`{name}`: no tool for files reaches what lies outside of the workspace")
        }
        _ => format!("there is no tool `{name}` here"),
    }
}
