//! Which tools a file leaves an agent. It can only leave some out.

use globset::Glob;
use serde_json::Value;

use super::front::{Broken, Key};
use super::keys::brief;
use super::names::ours;

/// Some of the tools, by our own names; `*` stands for any letters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tools {
    /// Only those that are named, and not all but them.
    named_only: bool,
    said: Vec<(String, bool)>,
    /// Whatever else is said.
    without: Vec<String>,
}

impl Tools {
    /// A list, words with commas between, or OpenCode's map of true and false. With what it named that is no name of a
    /// tool: a rule on arguments, which only [`Rule`](super::Rule)s are.
    pub(super) fn read(key: &Key) -> Result<(Self, Vec<String>), Broken> {
        let wrong = |value: &Value| {
            let why = format!(
                "`{}` must be a list, words with commas between, or a map of true and false, but is: {}",
                key.name,
                brief(value)
            );
            Broken::at(key.line, why)
        };
        let mut tools = Self { named_only: true, ..Self::default() };
        let mut ruled = Vec::new();
        match &key.value {
            Value::String(words) => {
                for word in split(words) {
                    tools.add(&word, &mut ruled);
                }
            }
            Value::Array(names) => {
                for name in names {
                    tools.add(name.as_str().ok_or_else(|| wrong(name))?.trim(), &mut ruled);
                }
            }
            Value::Object(map) => {
                tools.named_only = false;
                for (name, on) in map {
                    tools.said.push((ours(name).to_owned(), on.as_bool().ok_or_else(|| wrong(on))?));
                }
            }
            other => return Err(wrong(other)),
        }
        Ok((tools, ruled))
    }

    fn add(&mut self, name: &str, ruled: &mut Vec<String>) {
        match name.contains('(') {
            true => ruled.push(name.to_owned()),
            false if name.is_empty() => {}
            false => self.said.push((ours(name).to_owned(), true)),
        }
    }

    /// Leaves one out, whatever else is said.
    pub(super) fn leave_out(&mut self, name: &str) {
        self.without.push(ours(name).to_owned());
    }

    /// Leaves out what the other one names.
    pub(super) fn leave_out_all(&mut self, other: Self) {
        self.without.extend(other.said.into_iter().map(|(name, _)| name));
    }

    /// Whether a tool stays.
    pub fn has(&self, name: &str) -> bool {
        if self.without.iter().any(|pattern| matches(pattern, name)) {
            return false;
        }
        let mut said = self.said.iter().rev();
        let exactly = self.said.iter().rev().find(|(known, _)| known == name);
        let matching = || said.find(|(pattern, _)| matches(pattern, name));
        exactly.or_else(matching).map_or(!self.named_only, |(_, on)| *on)
    }

    /// The names of those that stay; `None` where all do.
    pub fn among<'a>(&self, available: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
        let all: Vec<&str> = available.collect();
        let kept: Vec<String> =
            all.iter().filter(|name| self.has(name)).map(|name| (*name).to_owned()).collect();
        (kept.len() < all.len()).then_some(kept)
    }

    /// What is named and is no tool here. Tools of servers are known only when those are connected.
    pub(super) fn unknown(&self, known: &[String]) -> Vec<String> {
        let named = self.said.iter().map(|(name, _)| name).chain(&self.without);
        let is_known = |name: &str| known.iter().any(|tool| matches(name, tool)) || name.starts_with("mcp");
        named.filter(|name| !is_known(name)).cloned().collect()
    }
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
