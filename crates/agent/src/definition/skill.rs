//! Skills and slash commands: texts with placeholders for arguments.

use std::path::PathBuf;

use super::agent::{checked, take_tools};
use super::front::{DefinitionError, Front};
use super::keys::{Keys, UnusedKey};
use super::kind::DefinitionKind;
use super::tools::ToolSelection;

/// Keys of slash commands that have no effect in skills, because the agent that reads a skill continues its conversation.
/// A fork keeps the model, too.
const OF_COMMANDS: &[(&str, &str)] =
    &[("model", "a skill is followed with the model of the agent that reads it")];

const AGENT_WITHOUT_FORK: &str = "without `context: fork`, a skill is followed by the agent that reads it";

/// Instructions for one kind of work. The agent reads a skill; the user sends a slash command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// A description of its arguments for the user.
    pub argument_hint: Option<String>,
    /// The tools it allows.
    pub tools: Option<ToolSelection>,
    /// The agent of a slash command, or of the fork that follows a skill.
    pub agent: Option<String>,
    /// The model of a slash command.
    pub model: Option<String>,
    /// True if a fork of the agent follows it.
    pub in_fork: bool,
    /// The text.
    pub body: String,
    /// The folder with its files, if agents can read it.
    pub folder: Option<PathBuf>,
    /// Its file.
    pub file: Option<PathBuf>,
}

impl Skill {
    pub(super) fn read(
        kind: DefinitionKind,
        front: Front,
        name: &str,
        known: &[String],
    ) -> Result<(Self, Vec<UnusedKey>), DefinitionError> {
        let (mut keys, body) = Keys::of(front);
        if body.is_empty() {
            return Err(DefinitionError::at(1, "no text after the front matter: there are no instructions"));
        }
        let (name, line) = keys.text("name")?.unwrap_or((name.to_owned(), 1));
        let name = checked(name, line)?;
        let in_fork = match keys.take(&["context"]) {
            None => false,
            Some(key) if key.value == "fork" => true,
            Some(key) => return Err(DefinitionError::at(key.line, "`context` can only be `fork`")),
        };
        if kind == DefinitionKind::Skill {
            if !in_fork {
                let taken = keys.take(&["agent"]);
                taken.into_iter().for_each(|key| keys.unused(key, AGENT_WITHOUT_FORK));
            }
            for (key, why) in OF_COMMANDS {
                let taken = keys.take(&[key]);
                taken.into_iter().for_each(|key| keys.unused(key, *why));
            }
        }
        let mut text = |key: &str| -> Result<Option<String>, DefinitionError> {
            Ok(keys.text(key)?.map(|(text, _)| text).filter(|text| !text.is_empty()))
        };
        let description = text("description")?;
        let agent = text("agent")?;
        let model = text("model")?.filter(|model| model != "inherit");
        // `[file]` is a list in YAML, but meant as text.
        let argument_hint = keys.take(&["argument-hint"]).map(|key| match key.value {
            serde_json::Value::String(text) => text,
            other => other.to_string().replace('"', ""),
        });
        let tools = take_tools(&mut keys, &["allowed-tools", "allowed_tools"], known)?;
        let description = description.unwrap_or_else(|| body.lines().next().unwrap_or_default().to_owned());
        let skill =
            Self { name, description, argument_hint, tools, agent, model, in_fork, body, ..Self::default() };
        Ok((skill, keys.finish()))
    }

    /// Returns the text with arguments: `$ARGUMENTS` is all of them, `$1` the first. Without a placeholder they are added at
    /// the end.
    pub fn filled_in(&self, arguments: &str) -> String {
        let arguments = arguments.trim();
        let each = split_arguments(arguments);
        let mut filled = String::new();
        let mut has_placeholder = false;
        let mut rest = self.body.as_str();
        while let Some(at) = rest.find('$') {
            filled += &rest[..at];
            rest = &rest[at + 1..];
            let digit = rest.chars().next().and_then(|c| c.to_digit(10)).filter(|digit| *digit > 0);
            let is_longer = rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
            if let Some(behind) = rest.strip_prefix("ARGUMENTS") {
                filled += arguments;
                (rest, has_placeholder) = (behind, true);
            } else if let Some(digit) = digit.filter(|_| !is_longer) {
                filled += each.get(digit as usize - 1).map_or("", String::as_str);
                (rest, has_placeholder) = (&rest[1..], true);
            } else {
                filled.push('$');
            }
        }
        filled += rest;
        if !has_placeholder && !arguments.is_empty() {
            filled += &format!("\n\nArguments: {arguments}");
        }
        if let Some(folder) = &self.folder {
            filled += &format!("\n\nIts files are in `{}`.", folder.display());
        }
        filled
    }
}

/// Splits arguments at spaces outside of quotes.
fn split_arguments(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut quote = None;
    let mut is_open = false;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                if !is_open {
                    all.push(String::new());
                }
                is_open = true;
            }
            None if c.is_whitespace() => is_open = false,
            _ => {
                if !is_open {
                    all.push(String::new());
                }
                is_open = true;
                all.last_mut().expect("one was just opened").push(c);
            }
        }
    }
    all
}
