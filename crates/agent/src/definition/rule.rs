//! What a file says about rights. It can take some away, and give none.

use serde_json::Value;

use super::front::{Broken, Key};
use super::keys::brief;
use super::names::ours;
use crate::List;

/// One rule on a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The tool, by our name; `*` is every one.
    pub tool: String,
    /// On which arguments; on all of them where nothing is said.
    pub pattern: Option<String>,
    /// What happens then.
    pub answer: List,
}

impl Rule {
    /// The rule as permissions have it, where it depends on the call.
    pub fn permission(&self) -> Option<(List, String)> {
        if self.pattern.is_none() && self.answer != List::Ask {
            return None;
        }
        self.stays().then(|| (self.answer, self.text()))
    }

    /// Whether it can be asked call by call.
    pub(super) fn stays(&self) -> bool {
        crate::Rules::default().add(self.answer, &self.text()).is_ok()
    }

    fn text(&self) -> String {
        match (&self.pattern, self.answer) {
            (Some(patterns), List::Only) => {
                let each: Vec<String> =
                    patterns.lines().map(|pattern| format!("{}({pattern})", self.tool)).collect();
                each.join("\n")
            }
            (Some(pattern), _) => format!("{}({pattern})", self.tool),
            (None, _) => self.tool.clone(),
        }
    }

    /// A rule as a list of tools has it, as in `Bash(git push:*)`.
    pub(super) fn parse(text: &str, answer: List) -> Self {
        let (tool, pattern) = match text.split_once('(') {
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').unwrap_or(rest).to_owned())),
            None => (text, None),
        };
        Self { tool: ours(tool.trim()).into_owned(), pattern, answer }
    }

    /// `permission: {edit: deny, bash: {"git push*": ask}}`, as OpenCode has it, or `{deny: ["Read(secrets)"]}` as Claude
    /// Code has it in its settings.
    pub(super) fn read(key: &Key) -> Result<Vec<Self>, Broken> {
        let wrong = |value: &Value| {
            let why = format!(
                "`{}` must be `allow`, `ask` or `deny` for a tool or for patterns of a tool, but is: {}",
                key.name,
                brief(value)
            );
            Broken::at(key.line, why)
        };
        let answer = |value: &Value| value.as_str().and_then(answer).ok_or_else(|| wrong(value));
        let Value::Object(tools) = &key.value else {
            return Ok(vec![Self { tool: "*".to_owned(), pattern: None, answer: answer(&key.value)? }]);
        };
        let mut rules = Vec::new();
        for (name, said) in tools {
            match (said, self::answer(name)) {
                (Value::Array(texts), Some(answer)) => {
                    for text in texts {
                        rules.push(Self::parse(text.as_str().ok_or_else(|| wrong(text))?, answer));
                    }
                }
                (Value::Object(patterns), _) => {
                    let patterns: Vec<(&str, List)> = patterns
                        .iter()
                        .map(|(pattern, said)| Ok((pattern.as_str(), answer(said)?)))
                        .collect::<Result<_, _>>()?;
                    rules.extend(of_patterns(&ours(name), &patterns));
                }
                (said, _) => {
                    let tool = ours(name).into_owned();
                    rules.push(Self { tool, pattern: None, answer: answer(said)? });
                }
            }
        }
        // To both of them, editing is whatever changes files.
        let writes = rules.iter().filter(|rule| rule.tool == "edit" && rule.answer != List::Allow);
        let writes: Vec<Self> =
            writes.map(|rule| Self { tool: "write".to_owned(), ..rule.clone() }).collect();
        rules.extend(writes);
        Ok(rules)
    }
}

/// What is said of some patterns of a tool. Where all else is denied, the others are what is left of it.
fn of_patterns(tool: &str, patterns: &[(&str, List)]) -> Vec<Rule> {
    let rule = |pattern: Option<&str>, answer| {
        let (tool, pattern) = (tool.to_owned(), pattern.map(str::to_owned));
        Rule { tool, pattern, answer }
    };
    let left: Vec<&str> = patterns
        .iter()
        .filter(|(pattern, answer)| *pattern != "*" && *answer != List::Deny)
        .map(|(pattern, _)| *pattern)
        .collect();
    let each = patterns.iter().map(|(pattern, answer)| match (*pattern, answer) {
        ("*", List::Deny) if !left.is_empty() => rule(Some(&left.join("\n")), List::Only),
        ("*", answer) => rule(None, *answer),
        (pattern, answer) => rule(Some(pattern), *answer),
    });
    each.collect()
}

fn answer(word: &str) -> Option<List> {
    match word {
        "allow" => Some(List::Allow),
        "ask" => Some(List::Ask),
        "deny" => Some(List::Deny),
        _ => None,
    }
}
