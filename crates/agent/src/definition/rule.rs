//! Permission rules of agents. They can only restrict.

use serde_json::Value;

use super::front::{DefinitionError, Key};
use super::keys::brief;
use crate::RuleList;
use crate::permission::FILES;
use crate::tool_names::canonical;

/// A rule about a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRule {
    /// Our name of the tool. `*` is every tool.
    pub tool: String,
    /// The pattern for arguments. `None` matches all.
    pub pattern: Option<String>,
    /// The effect.
    pub answer: RuleList,
}

impl ToolRule {
    /// Returns the permission rule, if it depends on the call.
    pub fn permission(&self) -> Option<(RuleList, String)> {
        if self.pattern.is_none() && self.answer != RuleList::Ask {
            return None;
        }
        self.is_enforceable().then(|| (self.answer, self.text()))
    }

    /// Returns whether it can be checked for each call.
    pub(super) fn is_enforceable(&self) -> bool {
        crate::PermissionRules::default().add(self.answer, &self.text()).is_ok()
    }

    fn text(&self) -> String {
        match (&self.pattern, self.answer) {
            (Some(patterns), RuleList::Only) => {
                let each: Vec<String> =
                    patterns.lines().map(|pattern| format!("{}({pattern})", self.tool)).collect();
                each.join("\n")
            }
            (Some(pattern), _) => format!("{}({pattern})", self.tool),
            (None, _) => self.tool.clone(),
        }
    }

    /// Parses a rule in a list of tools, such as `Bash(git push:*)`.
    pub(super) fn parse(text: &str, answer: RuleList) -> Self {
        let (tool, pattern) = match text.split_once('(') {
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').unwrap_or(rest).to_owned())),
            None => (text, None),
        };
        Self { tool: canonical(tool.trim()).into_owned(), pattern, answer }
    }

    /// Reads rules in OpenCode's form, `permission: {edit: deny, bash: {"git push*": ask}}`, or in the form of Claude Code's
    /// settings, `{deny: ["Read(secrets)"]}`. Also returns the keys that are not rules.
    pub(super) fn read(key: &Key) -> Result<(Vec<Self>, Vec<String>), DefinitionError> {
        let wrong = |value: &Value| {
            let why = format!(
                "`{}` must be `allow`, `ask` or `deny` for a tool or for patterns of a tool, but is: {}",
                key.name,
                brief(value)
            );
            DefinitionError::at(key.line, why)
        };
        let answer = |value: &Value| value.as_str().and_then(answer).ok_or_else(|| wrong(value));
        let Value::Object(tools) = &key.value else {
            let all = Self { tool: "*".to_owned(), pattern: None, answer: answer(&key.value)? };
            return Ok((vec![all], Vec::new()));
        };
        let are_settings = tools.iter().any(|(name, said)| self::answer(name).is_some() && said.is_array());
        let (mut rules, mut others) = (Vec::new(), Vec::new());
        for (name, said) in tools {
            match (said, self::answer(name)) {
                (Value::Array(texts), Some(answer)) => {
                    for text in texts {
                        rules.push(Self::parse(text.as_str().ok_or_else(|| wrong(text))?, answer));
                    }
                }
                (said, None) if are_settings && said.as_str().and_then(self::answer).is_none() => {
                    others.push(name.clone());
                }
                (Value::Object(patterns), _) => {
                    let patterns: Vec<(&str, RuleList)> = patterns
                        .iter()
                        .map(|(pattern, said)| Ok((pattern.as_str(), answer(said)?)))
                        .collect::<Result<_, _>>()?;
                    rules.extend(of_patterns(&canonical(name), &patterns));
                }
                (said, _) => {
                    let tool = canonical(name).into_owned();
                    rules.push(Self { tool, pattern: None, answer: answer(said)? });
                }
            }
        }
        // In both harnesses, `edit` covers all tools that change files.
        let writes = rules.iter().filter(|rule| rule.tool == "edit" && rule.answer != RuleList::Allow);
        let writes: Vec<Self> =
            writes.map(|rule| Self { tool: "write".to_owned(), ..rule.clone() }).collect();
        rules.extend(writes);
        Ok((rules, others))
    }
}

/// Converts the patterns of a tool. If `*` is denied, only the other patterns remain allowed.
fn of_patterns(tool: &str, patterns: &[(&str, RuleList)]) -> Vec<ToolRule> {
    let of_files = FILES.contains(&tool);
    let patterns: Vec<(String, RuleList)> = patterns
        .iter()
        .map(|(pattern, answer)| match of_files && *pattern != "*" {
            true => (across_folders(pattern), *answer),
            false => ((*pattern).to_owned(), *answer),
        })
        .collect();
    let rule = |pattern: Option<&str>, answer| {
        let (tool, pattern) = (tool.to_owned(), pattern.map(str::to_owned));
        ToolRule { tool, pattern, answer }
    };
    let left: Vec<&str> = patterns
        .iter()
        .filter(|(pattern, answer)| pattern != "*" && *answer != RuleList::Deny)
        .map(|(pattern, _)| pattern.as_str())
        .collect();
    let each = patterns.iter().map(|(pattern, answer)| match (pattern.as_str(), answer) {
        ("*", RuleList::Deny) if !left.is_empty() => rule(Some(&left.join("\n")), RuleList::Only),
        ("*", answer) => rule(None, *answer),
        (pattern, answer) => rule(Some(pattern), *answer),
    });
    each.collect()
}

/// Converts a pattern of OpenCode, where `*` also matches `/`, and `?` is the only other special character.
fn across_folders(pattern: &str) -> String {
    let mut ours = String::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '*' {
            ours.extend("[]{},\\".contains(letter).then_some('\\'));
            ours.push(letter);
            continue;
        }
        let is_double = letters.next_if_eq(&'*').is_some();
        while letters.next_if_eq(&'*').is_some() {}
        let begins = ours.is_empty() || ours.ends_with('/');
        ours += match letters.peek() {
            // `**` has the same meaning in both.
            Some('/') | None if begins && is_double => "**",
            Some('/') if begins => "*/**",
            None if !begins => "*", // includes everything below
            _ if begins => "**/*",
            _ => "{*,*/**/*}",
        };
    }
    ours
}

fn answer(word: &str) -> Option<RuleList> {
    match word {
        "allow" => Some(RuleList::Allow),
        "ask" => Some(RuleList::Ask),
        "deny" => Some(RuleList::Deny),
        _ => None,
    }
}
