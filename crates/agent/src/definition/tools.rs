//! Selections of tools. A file can only leave tools out.

use std::borrow::Cow;

use globset::Glob;
use serde_json::Value;

use super::front::{DefinitionError, Key};
use super::keys::brief;
use super::rule::ToolRule;
use crate::tool_names::canonical;
use crate::{PermissionRules, RuleList};

/// A selection of tools by our names. `*` matches any characters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolSelection {
    /// True if tools that are not named are left out.
    named_only: bool,
    named: Vec<(String, bool)>,
    /// Tools that are always left out.
    without: Vec<String>,
    /// Rules that allow only a part of a tool.
    partial: Vec<String>,
    /// Tools with unreadable rules.
    unclear: Vec<String>,
}

impl ToolSelection {
    /// Reads a list, names separated by commas, or OpenCode's map of true and false. Also returns the rules that are not
    /// supported, with the reason.
    pub(super) fn read(key: &Key) -> Result<(Self, Vec<(String, String)>), DefinitionError> {
        let wrong = |value: &Value| {
            let why = format!(
                "`{}` must be a list, names separated by commas, or a map of true and false, but is: {}",
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
                    tools.named.push((canonical(name).into_owned(), on.as_bool().ok_or_else(|| wrong(on))?));
                }
            }
            other => return Err(wrong(other)),
        }
        Ok((tools, unread))
    }

    fn add(&mut self, name: &str, unread: &mut Vec<(String, String)>) {
        if !name.contains('(') {
            if !name.is_empty() {
                self.named.push((canonical(name).into_owned(), true));
            }
            return;
        }
        let rule = name.split_whitespace().collect::<Vec<_>>().join(" ");
        match PermissionRules::default().add(RuleList::Only, &rule) {
            Ok(()) => self.partial.push(rule),
            Err(why) => {
                self.unclear.push(tool_of(&rule).into_owned());
                unread.push((rule, why));
            }
        }
    }

    /// Returns the rules that allow only a part of a tool. A tool that is also named without a rule is allowed completely.
    fn narrowing(&self) -> impl Iterator<Item = &str> {
        let whole = |rule: &str| self.named.iter().any(|(name, on)| *on && matches(name, &tool_of(rule)));
        self.partial.iter().map(String::as_str).filter(move |rule| !whole(rule))
    }

    /// Returns the rule for tools that are allowed only in part.
    pub fn only(&self) -> Option<(RuleList, String)> {
        let rules: Vec<&str> = self.narrowing().collect();
        (!rules.is_empty()).then(|| (RuleList::Only, rules.join("\n")))
    }

    /// Returns its rules as `deny` rules.
    pub(super) fn forbidding(&self) -> impl Iterator<Item = ToolRule> {
        self.partial.iter().map(|rule| ToolRule::parse(rule, RuleList::Deny))
    }

    /// Leaves a tool out.
    pub(super) fn leave_out(&mut self, name: &str) {
        self.without.push(canonical(name).into_owned());
    }

    /// Leaves out all tools of another selection.
    pub(super) fn leave_out_all(&mut self, other: Self) {
        // An unreadable rule leaves out the whole tool.
        self.without.extend(other.named.into_iter().map(|(name, _)| name).chain(other.unclear));
    }

    /// Returns it as `allow` rules.
    pub(crate) fn rules(&self) -> Vec<String> {
        let whole =
            self.named.iter().filter(|(name, on)| *on && !self.without.contains(name)).map(|(name, _)| name);
        whole.chain(&self.partial).cloned().collect()
    }

    /// Returns whether a tool is selected.
    pub fn has(&self, name: &str) -> bool {
        if self.without.iter().any(|pattern| matches(pattern, name)) {
            return false;
        }
        let mut named = self.named.iter().rev();
        let exactly = self.named.iter().rev().find(|(known, _)| known == name);
        let matching = || named.find(|(pattern, _)| matches(pattern, name));
        let in_part = self.partial.iter().any(|rule| tool_of(rule) == name);
        exactly.or_else(matching).map_or(!self.named_only || in_part, |(_, on)| *on)
    }

    /// Lists the names and rules.
    pub(crate) fn describe(&self) -> String {
        let names = self.named.iter().filter(|(_, on)| *on).map(|(name, _)| name.as_str());
        let all: Vec<String> = names.chain(self.narrowing()).map(|name| format!("`{name}`")).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    }

    /// Returns the selected names. `None` if all are selected.
    pub fn among<'a>(&self, available: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
        let all: Vec<&str> = available.collect();
        let kept: Vec<String> =
            all.iter().filter(|name| self.has(name)).map(|name| (*name).to_owned()).collect();
        (kept.len() < all.len()).then_some(kept)
    }

    /// Returns the names that match no tool. `known` has a pattern for each MCP server, whose tools are unknown until it is
    /// connected.
    pub(super) fn unknown(&self, known: &[String]) -> Vec<String> {
        let named = self.named.iter().map(|(name, _)| name).chain(&self.without);
        named.filter(|name| !is_known(name, known)).cloned().collect()
    }
}

/// Returns whether a name or pattern matches a known tool.
pub(super) fn is_known(name: &str, known: &[String]) -> bool {
    known.iter().any(|tool| matches(name, tool) || matches(tool, name))
}

/// Returns the tool of a rule.
fn tool_of(rule: &str) -> Cow<'_, str> {
    canonical(rule.split('(').next().unwrap_or(rule).trim())
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern == name
        || pattern.contains('*') && Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(name))
}

/// Splits names at commas and spaces outside of brackets.
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
