//! What a file says about rights. It can take some away, and give none.

use serde_json::Value;

use super::front::{Broken, Key};
use super::keys::brief;
use super::names::ours;
use crate::List;
use crate::permission::FILES;

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
        let text = match &self.pattern {
            Some(pattern) => format!("{}({pattern})", self.tool),
            None => self.tool.clone(),
        };
        self.stays().then_some((self.answer, text))
    }

    /// Whether it can be asked call by call. Which files a walk may meet is the workspace's to say, for all agents alike.
    pub(super) fn stays(&self) -> bool {
        let of_files = FILES.contains(&self.tool.as_str());
        let text =
            self.pattern.as_ref().map_or(self.tool.clone(), |pattern| format!("{}({pattern})", self.tool));
        !(of_files && self.pattern.is_some()) && crate::Rules::default().add(List::Deny, &text).is_ok()
    }

    /// `permission: {edit: deny, bash: {"git push*": ask}}`, as OpenCode has it.
    pub(super) fn read(key: &Key) -> Result<Vec<Self>, Broken> {
        let wrong = |value: &Value| {
            let why = format!(
                "`{}` must be `allow`, `ask` or `deny` for a tool or for patterns of a tool, but is: {}",
                key.name,
                brief(value)
            );
            Broken::at(key.line, why)
        };
        let answer = |value: &Value| match value.as_str() {
            Some("allow") => Ok(List::Allow),
            Some("ask") => Ok(List::Ask),
            Some("deny") => Ok(List::Deny),
            _ => Err(wrong(value)),
        };
        let mut rules = Vec::new();
        let Value::Object(tools) = &key.value else {
            return Ok(vec![Self { tool: "*".to_owned(), pattern: None, answer: answer(&key.value)? }]);
        };
        for (tool, said) in tools {
            let tool = ours(tool).to_owned();
            match said {
                Value::Object(patterns) => {
                    for (pattern, said) in patterns {
                        let pattern = Some(pattern.clone()).filter(|pattern| pattern != "*");
                        let (tool, pattern) = (tool.clone(), pattern);
                        rules.push(Self { tool, pattern, answer: answer(said)? });
                    }
                }
                said => rules.push(Self { tool, pattern: None, answer: answer(said)? }),
            }
        }
        Ok(rules)
    }
}
