//! A skill or a command: a text for one kind of work, with places for arguments.

use std::path::PathBuf;

use super::agent::{checked, take_tools};
use super::find::DefinitionKind;
use super::front::{DefinitionError, Front};
use super::keys::{Keys, UnusedKey};
use super::tools::ToolSelection;

/// What a command chooses and a skill does not, since a conversation that reads one goes on.
const OF_COMMANDS: &[(&str, &str)] = &[
    ("agent", "a skill is followed by the agent that reads it, or by its fork"),
    ("model", "a skill is followed with the model of the agent that reads it"),
];

/// What is to be done for one kind of work. A skill is read by the agent, a command is said by the user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it takes, in words for people.
    pub argument_hint: Option<String>,
    /// The tools that it needs.
    pub tools: Option<ToolSelection>,
    /// The agent that a command is for.
    pub agent: Option<String>,
    /// The model that a command is for.
    pub model: Option<String>,
    /// It is done by a fork of the agent that reads it.
    pub in_fork: bool,
    /// The text.
    pub body: String,
    /// The folder of the files that it speaks of, where an agent can read them.
    pub folder: Option<PathBuf>,
    /// Where it is described.
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
            return Err(DefinitionError::at(
                1,
                "nothing stands below the front matter: there is nothing to be done",
            ));
        }
        let (name, line) = keys.words("name")?.unwrap_or((name.to_owned(), 1));
        let name = checked(name, line)?;
        if kind == DefinitionKind::Skill {
            for (key, why) in OF_COMMANDS {
                let taken = keys.take(&[key]);
                taken.into_iter().for_each(|key| keys.unused(key, *why));
            }
        }
        let mut words = |key: &str| -> Result<Option<String>, DefinitionError> {
            Ok(keys.words(key)?.map(|(words, _)| words).filter(|words| !words.is_empty()))
        };
        let description = words("description")?;
        let agent = words("agent")?;
        let model = words("model")?.filter(|model| model != "inherit");
        // `[file]` is a list in YAML, and meant as it stands.
        let argument_hint = keys.take(&["argument-hint"]).map(|key| match key.value {
            serde_json::Value::String(words) => words,
            other => other.to_string().replace('"', ""),
        });
        let in_fork = match keys.take(&["context"]) {
            None => false,
            Some(key) if key.value == "fork" => true,
            Some(key) => return Err(DefinitionError::at(key.line, "`context` can only be `fork`")),
        };
        let tools = take_tools(&mut keys, &["allowed-tools", "allowed_tools"], known)?;
        let description = description.unwrap_or_else(|| body.lines().next().unwrap_or_default().to_owned());
        let skill =
            Self { name, description, argument_hint, tools, agent, model, in_fork, body, ..Self::default() };
        Ok((skill, keys.finish()))
    }

    /// The text with the arguments in their places: `$ARGUMENTS` is all of them, `$1` the first. Where it has no place
    /// for them they stand at its end.
    pub fn filled_in(&self, arguments: &str) -> String {
        let arguments = arguments.trim();
        let each = words(arguments);
        let mut filled = String::new();
        let mut has_place = false;
        let mut rest = self.body.as_str();
        while let Some(at) = rest.find('$') {
            filled += &rest[..at];
            rest = &rest[at + 1..];
            let digit = rest.chars().next().and_then(|c| c.to_digit(10)).filter(|digit| *digit > 0);
            let is_longer = rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
            if let Some(behind) = rest.strip_prefix("ARGUMENTS") {
                filled += arguments;
                (rest, has_place) = (behind, true);
            } else if let Some(digit) = digit.filter(|_| !is_longer) {
                filled += each.get(digit as usize - 1).map_or("", String::as_str);
                (rest, has_place) = (&rest[1..], true);
            } else {
                filled.push('$');
            }
        }
        filled += rest;
        if !has_place && !arguments.is_empty() {
            filled += &format!("\n\nArguments: {arguments}");
        }
        if let Some(folder) = &self.folder {
            filled += &format!("\n\nThe files that this speaks of are in `{}`.", folder.display());
        }
        filled
    }
}

/// Words with spaces between them, those in quotes together.
fn words(text: &str) -> Vec<String> {
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
