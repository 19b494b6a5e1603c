//! Which tools a file leaves an agent. It can only leave some out.

use std::borrow::Cow;

use globset::Glob;
use serde_json::Value;

use super::front::{DefinitionError, Key};
use super::keys::brief;
use super::rule::ToolRule;
use crate::tool_names::canonical;
use crate::{List, Rules};

/// Some of the tools, by our own names; `*` stands for any letters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolSelection {
    /// Only those that are named, and not all but them.
    named_only: bool,
    said: Vec<(String, bool)>,
    /// Whatever else is said.
    without: Vec<String>,
    /// Rules that say what is left of a tool.
    ruled: Vec<String>,
    /// Tools with rules that nobody can read.
    unclear: Vec<String>,
}

impl ToolSelection {
    /// A list, words with commas between, or OpenCode's map of true and false. With the rules in it that mean nothing
    /// here, and why.
    pub(super) fn read(key: &Key) -> Result<(Self, Vec<(String, String)>), DefinitionError> {
        let wrong = |value: &Value| {
            let why = format!(
                "`{}` must be a list, words with commas between, or a map of true and false, but is: {}",
                key.name,
                brief(value)
            );
            DefinitionError::at(key.line, why)
        };
        let mut tools = Self { named_only: true, ..Self::default() };
        let mut unread = Vec::new();
        match &key.value {
            Value::String(words) => {
                for word in split(words) {
                    tools.add(&word, &mut unread);
                }
            }
            Value::Array(names) => {
                for name in names {
                    tools.add(name.as_str().ok_or_else(|| wrong(name))?.trim(), &mut unread);
                }
            }
            Value::Object(map) => {
                tools.named_only = false;
                for (name, on) in map {
                    tools.said.push((canonical(name).into_owned(), on.as_bool().ok_or_else(|| wrong(on))?));
                }
            }
            other => return Err(wrong(other)),
        }
        Ok((tools, unread))
    }

    fn add(&mut self, name: &str, unread: &mut Vec<(String, String)>) {
        if !name.contains('(') {
            if !name.is_empty() {
                self.said.push((canonical(name).into_owned(), true));
            }
            return;
        }
        let rule = name.split_whitespace().collect::<Vec<_>>().join(" ");
        match Rules::default().add(List::Only, &rule) {
            Ok(()) => self.ruled.push(rule),
            Err(why) => {
                self.unclear.push(tool_of(&rule).into_owned());
                unread.push((rule, why));
            }
        }
    }

    /// The rules that say what is left of a tool; where it is named without one, too, all of it is.
    fn narrowing(&self) -> impl Iterator<Item = &str> {
        let whole = |rule: &str| self.said.iter().any(|(name, on)| *on && matches(name, &tool_of(rule)));
        self.ruled.iter().map(String::as_str).filter(move |rule| !whole(rule))
    }

    /// What is left of tools that are not left whole, for [`Rules`](crate::Rules).
    pub fn only(&self) -> Option<(List, String)> {
        let rules: Vec<&str> = self.narrowing().collect();
        (!rules.is_empty()).then(|| (List::Only, rules.join("\n")))
    }

    /// The rules in it, as rules that forbid.
    pub(super) fn forbidding(&self) -> impl Iterator<Item = ToolRule> {
        self.ruled.iter().map(|rule| ToolRule::parse(rule, List::Deny))
    }

    /// Leaves one out, whatever else is said.
    pub(super) fn leave_out(&mut self, name: &str) {
        self.without.push(canonical(name).into_owned());
    }

    /// Leaves out what the other one names.
    pub(super) fn leave_out_all(&mut self, other: Self) {
        // What nobody can read may have meant all of it.
        self.without.extend(other.said.into_iter().map(|(name, _)| name).chain(other.unclear));
    }

    /// What it names, as rules that allow.
    pub(crate) fn rules(&self) -> Vec<String> {
        let whole =
            self.said.iter().filter(|(name, on)| *on && !self.without.contains(name)).map(|(name, _)| name);
        whole.chain(&self.ruled).cloned().collect()
    }

    /// Whether a tool stays.
    pub fn has(&self, name: &str) -> bool {
        if self.without.iter().any(|pattern| matches(pattern, name)) {
            return false;
        }
        let mut said = self.said.iter().rev();
        let exactly = self.said.iter().rev().find(|(known, _)| known == name);
        let matching = || said.find(|(pattern, _)| matches(pattern, name));
        let in_part = self.ruled.iter().any(|rule| tool_of(rule) == name);
        exactly.or_else(matching).map_or(!self.named_only || in_part, |(_, on)| *on)
    }

    /// In words: the names, and what is left of those that are not left whole.
    pub(crate) fn describe(&self) -> String {
        let names = self.said.iter().filter(|(_, on)| *on).map(|(name, _)| name.as_str());
        let all: Vec<String> = names.chain(self.narrowing()).map(|name| format!("`{name}`")).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    }

    /// The names of those that stay; `None` where all do.
    pub fn among<'a>(&self, available: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
        let all: Vec<&str> = available.collect();
        let kept: Vec<String> =
            all.iter().filter(|name| self.has(name)).map(|name| (*name).to_owned()).collect();
        (kept.len() < all.len()).then_some(kept)
    }

    /// What is named and is no tool here. Those of a server are not known before it is connected: of what it may offer,
    /// `known` has a pattern.
    pub(super) fn unknown(&self, known: &[String]) -> Vec<String> {
        let named = self.said.iter().map(|(name, _)| name).chain(&self.without);
        named.filter(|name| !is_known(name, known)).cloned().collect()
    }
}

/// Whether a name is, or a pattern fits, one of those that there are.
pub(super) fn is_known(name: &str, known: &[String]) -> bool {
    known.iter().any(|tool| matches(name, tool) || matches(tool, name))
}

/// The tool that a rule is about.
fn tool_of(rule: &str) -> Cow<'_, str> {
    canonical(rule.split('(').next().unwrap_or(rule).trim())
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern == name
        || pattern.contains('*') && Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(name))
}

/// Words with commas or spaces between them; what stands in brackets belongs to its word.
fn split(words: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let mut all = vec![String::new()];
    for c in words.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match all.last_mut() {
            Some(last) if depth > 0 || !(c == ',' || c.is_whitespace()) => last.push(c),
            _ => all.push(String::new()),
        }
    }
    all.retain(|word| !word.is_empty());
    all
}
