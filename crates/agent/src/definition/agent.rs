//! Agents.

use std::path::PathBuf;

use super::front::{DefinitionError, Front, Key};
use super::keys::{Keys, UnusedKey, steps};
use super::rule::ToolRule;
use super::tools::{ToolSelection, is_known};
use crate::RuleList;

/// Maximum length of a name.
const MAX_NAME: usize = 64;

/// An agent: its purpose, its instructions, and the tools it may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The tools it may use.
    pub tools: ToolSelection,
    /// The model: a tier, an id, or `PROVIDER/ID`. `None` takes the default.
    pub model: Option<String>,
    /// Its instructions.
    pub prompt: String,
    /// Maximum number of model turns before the last one.
    pub max_steps: Option<u32>,
    /// Its permission rules.
    pub rules: Vec<ToolRule>,
    /// True if it is switched off.
    pub is_disabled: bool,
    /// Its file. The built-in agent has none.
    pub file: Option<PathBuf>,
}

impl Agent {
    /// Reads an agent. `name` is the default for its name. Also returns the keys without effect.
    pub(super) fn read(
        front: Front,
        name: &str,
        known: &[String],
    ) -> Result<(Self, Vec<UnusedKey>), DefinitionError> {
        if !front.is_there {
            return Err(DefinitionError::at(1, "no front matter: the first line must be `---`"));
        }
        let (mut keys, body) = Keys::of(front);
        let (name, line) = keys.text("name")?.unwrap_or((name.to_owned(), 1));
        let name = checked(name, line)?;
        let described = keys.text("description")?.filter(|(words, _)| !words.is_empty());
        let Some((description, _)) = described else {
            return Err(DefinitionError::at(1, "`description` is missing"));
        };
        let mut tools = take_tools(&mut keys, &["tools"], known)?.unwrap_or_default();
        let mut rules = take_rules(&mut keys, &mut tools, known)?;
        if let Some(without) = take_tools(&mut keys, &["disallowedTools", "disallowed-tools"], known)? {
            rules.extend(without.forbidding());
            tools.leave_out_all(without);
        }
        let model = keys.text("model")?.map(|(model, _)| model);
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
        let prompt = match (body.is_empty(), keys.text("prompt")?) {
            (true, Some((prompt, _))) => prompt,
            _ => body,
        };
        if prompt.is_empty() && !is_disabled {
            return Err(DefinitionError::at(
                1,
                "no text after the front matter: the agent would have no instructions",
            ));
        }
        let file = None;
        let agent = Self { name, description, tools, model, prompt, max_steps, rules, is_disabled, file };
        Ok((agent, keys.finish()))
    }
}

impl Agent {
    /// Returns its permission rules.
    pub fn permissions(&self) -> Vec<(RuleList, String)> {
        self.rules.iter().filter_map(ToolRule::permission).chain(self.tools.only()).collect()
    }
}

/// Checks a name. Names are used in commands and lists.
pub(super) fn checked(name: String, line: usize) -> Result<String, DefinitionError> {
    let good = |c: char| c.is_alphanumeric() || "-_./:".contains(c);
    if name.starts_with(char::is_alphanumeric) && name.len() <= MAX_NAME && name.chars().all(good) {
        return Ok(name);
    }
    let why = "`name` must start with a letter or digit and contain only those and `-`, `_`, `.`, `/`, `:`; at most 64 bytes";
    Err(DefinitionError::at(line, why))
}

/// Takes a list of tools. Reports unknown rules and names.
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
        keys.unused(part(&name), format!("no tool `{name}`"));
    }
    Ok(Some(tools))
}

/// Takes permission rules. A tool that is always denied is removed; rules that depend on the call are kept.
fn take_rules(
    keys: &mut Keys,
    tools: &mut ToolSelection,
    known: &[String],
) -> Result<Vec<ToolRule>, DefinitionError> {
    let Some(key) = keys.take(&["permission", "permissions"]) else { return Ok(Vec::new()) };
    let (rules, others) = ToolRule::read(&key)?;
    for other in others {
        let part = Key { name: key.name.clone(), line: key.line, value: other.as_str().into() };
        keys.unused(part, format!("`{other}` is unknown; only `deny`, `ask` and `allow` are supported"));
    }
    for rule in &rules {
        let ToolRule { tool, pattern, answer } = rule;
        let why = match (answer, pattern) {
            _ if !is_known(tool, known) => no_tool(tool),
            (RuleList::Allow, None) => format!("`{tool}`: an agent cannot allow itself anything"),
            (RuleList::Deny, None) => {
                tools.leave_out(tool);
                continue;
            }
            _ if rule.is_enforceable() => continue,
            (RuleList::Allow, Some(pattern)) => format!("`{tool}({pattern})` is not supported"),
            (_, pattern) => {
                tools.leave_out(tool);
                let pattern = pattern.as_deref().unwrap_or_default();
                format!("`{tool}({pattern})` cannot be enforced, so the agent does not get the tool")
            }
        };
        let part = Key { name: key.name.clone(), line: key.line, value: tool.as_str().into() };
        if !keys.unused.iter().any(|known| known.line == part.line && known.why == why) {
            keys.unused(part, why);
        }
    }
    Ok(rules)
}

/// Explains why a rule about an unknown tool has no effect.
fn no_tool(name: &str) -> String {
    match name {
        "external_directory" => {
            format!("`{name}`: file tools never leave the workspace")
        }
        _ => format!("no tool `{name}`"),
    }
}
