//! Permission rules: which calls an agent may make, needs to ask about, or may never make.
//!
//! Start at [`PermissionRules::judge`]. A deny always wins. An allow is an exception to an ask. A call that no rule matches is made.
//! Without an approver, a question is answered with no. [`reader`] finds the commands of a command line.

mod argument;
mod line;
mod path_rules;
mod programs;
mod proposal;
mod reader;
mod rule;
#[cfg(test)]
mod tests;
mod token;
mod variables;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::future::BoxFuture;
use crate::workspace::Workspace;
use line::Line;
pub(crate) use proposal::proposed_rules;
pub use proposal::workspace_settings;
pub(crate) use rule::FILES;
use rule::{Match, Rule, Subject};

/// Permission rules of one source, or of several.
#[derive(Clone, Debug, Default)]
pub struct PermissionRules {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
    /// Each set lists the only calls that may be made of the tools it names.
    only: Vec<Vec<Rule>>,
    /// Exceptions to questions of a project's settings, not to the user's own.
    project_exceptions: Vec<Rule>,
    /// Calls that the user has allowed for good in this workspace: exceptions to every question, also of other sets.
    always: Vec<Rule>,
}

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make the call.
    Allow,
    /// Ask for approval, for this reason.
    Ask(String),
    /// Refuse the call, for this reason.
    Deny(String),
}

/// The list that a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleList {
    /// Calls that need no question.
    Allow,
    /// Calls that need a question.
    Ask,
    /// Calls that are never made.
    Deny,
    /// The only calls of the tools they name, one rule per line. All other calls of these tools are refused.
    Only,
}

impl Decision {
    /// Returns the stricter of two decisions.
    pub(crate) fn and(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Deny(_), _) | (Self::Ask(_), Self::Ask(_) | Self::Allow) => self,
            _ => other,
        }
    }
}

impl PermissionRules {
    /// Reads an agent's stored rules. A rule that cannot be read, for example of a newer version, denies everything.
    pub(crate) fn stored(rules: &[(RuleList, String)]) -> Self {
        let mut known = Self::default();
        for (list, rule) in rules {
            if known.add(*list, rule).is_err() {
                known.add(RuleList::Deny, "*").expect("a rule");
            }
        }
        known
    }

    /// Adds a rule, or returns what is wrong with it.
    pub fn add(&mut self, list: RuleList, rule: &str) -> Result<(), String> {
        match list {
            RuleList::Allow => self.allow.push(Rule::parse(rule)?),
            RuleList::Ask => self.ask.push(Rule::parse(rule)?),
            RuleList::Deny => self.deny.push(Rule::parse(rule)?),
            RuleList::Only => self.only.push(rule.lines().map(Rule::parse).collect::<Result<_, _>>()?),
        }
        Ok(())
    }

    /// Returns the rules that match no available tool, which are probably mistyped.
    pub fn unmatched<'r>(&'r self, tools: &[&str]) -> Vec<&'r str> {
        let all = self.allow.iter().chain(&self.ask).chain(&self.deny).chain(self.only.iter().flatten());
        all.filter(|rule| !tools.iter().any(|tool| rule.names(tool))).map(|rule| rule.text.as_str()).collect()
    }

    /// Adds all rules of another set.
    pub fn extend(&mut self, more: PermissionRules) {
        self.allow.extend(more.allow);
        self.ask.extend(more.ask);
        self.deny.extend(more.deny);
        self.only.extend(more.only);
        self.project_exceptions.extend(more.project_exceptions);
        self.always.extend(more.always);
    }

    /// Adds a rule that the user has allowed for good in this workspace.
    pub(crate) fn add_always(&mut self, rule: &str) -> Result<(), String> {
        self.always.push(Rule::parse(rule)?);
        Ok(())
    }

    /// Marks the rules as those of a project that the user has not accepted.
    pub(crate) fn into_project_rules(mut self) -> Self {
        self.ask.iter_mut().for_each(|rule| rule.is_project = true);
        self
    }

    /// Adds allow rules as exceptions to questions of a project's settings, not to the user's own.
    pub(crate) fn add_project_exceptions(&mut self, more: &PermissionRules) {
        self.project_exceptions.extend(more.allow.iter().cloned());
    }

    /// Returns why no tool may read, or write, a file.
    pub(crate) fn file_denial(&self, place: &Path, writing: bool) -> Option<String> {
        let tools: &[&str] = if writing { &["write", "edit"] } else { &["read"] };
        let rule = self.deny.iter().find(|rule| tools.iter().any(|tool| rule.covers_path(tool, place)));
        if let Some(rule) = rule {
            return Some(format!("the rule `{}` denies it", rule.text));
        }
        let subject = Subject::Path(place.to_owned());
        self.only.iter().find(|set| !permits(set, tools[0], &subject)).map(|set| only_reason(set))
    }

    /// Returns whether any file may be denied to reading tools.
    pub(crate) fn may_deny_reads(&self) -> bool {
        !self.only.is_empty() || self.deny.iter().any(|rule| rule.names("read"))
    }

    /// Returns whether a walk through folders skips a path, because it cannot ask for each file.
    pub(crate) fn is_skipped_in_walks(&self, place: &Path) -> bool {
        self.deny.iter().chain(&self.ask).any(|rule| rule.names_path("read", place))
    }

    /// Decides about a call.
    pub(crate) fn judge(&self, tool: &str, input: &Value, workspace: &Workspace) -> Decision {
        self.judge_except(&[], tool, input, workspace)
    }

    /// Decides about a call, with what the user has allowed for good in other sets.
    pub(crate) fn judge_except(
        &self,
        others: &[&PermissionRules],
        tool: &str,
        input: &Value,
        workspace: &Workspace,
    ) -> Decision {
        let subject = subject(tool, input, workspace);
        let tools = || std::iter::once(tool).chain(related_tool(tool));
        let matches =
            |rule: &Rule| tools().map(|tool| rule.restricts(tool, &subject)).max().unwrap_or(Match::No);
        let denied = self.deny.iter().map(|rule| (matches(rule), rule.text.as_str()));
        let denied = denied.max_by_key(|(found, _)| *found).filter(|(found, _)| *found > Match::No);
        if let Some((Match::Yes, rule)) = denied {
            return Decision::Deny(format!("the rule `{rule}` denies it"));
        }
        if let Some(set) = self.only.iter().find(|set| !permits(set, tool, &subject)) {
            return Decision::Deny(only_reason(set));
        }
        if let Some((_, rule)) = denied {
            let reason = match &subject {
                Subject::Command(Line { unresolved: Some(reason), .. }) => reason.as_str(),
                Subject::Command(_) => "its words occur in the line",
                _ => "the path that it means is unknown",
            };
            return Decision::Ask(format!("the rule `{rule}` may deny it: {reason}"));
        }
        // A call that is allowed under either name of the tool needs no question under that name.
        let is_allowed = |rules: &[Rule], name: &str| {
            allows(rules, tool, &subject) || (name != tool && allows(rules, name, &subject))
        };
        let asks = |rule: &&Rule| {
            tools().filter(|name| rule.restricts(name, &subject) > Match::No).any(|name| {
                let is_excepted = rule.is_project && is_allowed(&self.project_exceptions, name);
                let is_always =
                    || std::iter::once(&self).chain(others).any(|set| is_allowed(&set.always, name));
                !is_excepted && !is_allowed(&self.allow, name) && !is_always()
            })
        };
        match self.ask.iter().find(asks) {
            Some(rule) => Decision::Ask(format!("the rule `{}` asks first", rule.text)),
            None => Decision::Allow,
        }
    }
}

/// Returns whether the rules allow the call; of a command line, each of its commands.
fn allows(rules: &[Rule], tool: &str, subject: &Subject) -> bool {
    let by_one = |command| rules.iter().any(|rule| rule.allows(tool, subject, command));
    if by_one(None) {
        return true;
    }
    match subject {
        // Each of its commands must be allowed, and it may do nothing else.
        Subject::Command(line) => {
            !line.is_more
                && line.unresolved.is_none()
                && !line.commands.is_empty()
                && line.commands.iter().all(|command| by_one(Some(command.as_slice())))
        }
        _ => false,
    }
}

/// Returns whether a set of only-rules permits the call. An agent that may read some files only may search no others.
/// Files that may be written may be edited, and the other way round; no others.
fn permits(set: &[Rule], tool: &str, subject: &Subject) -> bool {
    let names = std::iter::once(tool).chain(related_tool(tool));
    let mut named = names.filter(|tool| set.iter().any(|rule| rule.names(tool))).peekable();
    match WALKS.contains(&tool) {
        true => named.all(|tool| allows(set, tool, subject)),
        false => named.peek().is_none() || named.any(|tool| allows(set, tool, subject)),
    }
}

/// Returns the reason for a refusal by a set of only-rules.
fn only_reason(set: &[Rule]) -> String {
    let rules: Vec<String> = set.iter().map(|rule| format!("`{}`", rule.text)).collect();
    format!("only {} may be called here", rules.join(", "))
}

/// Tools that search folders.
const WALKS: &[&str] = &["list", "glob", "grep"];

/// Returns the tool whose rules also apply: a file that may not be read may not be searched, and one that may not be
/// written may not be edited.
fn related_tool(tool: &str) -> Option<&'static str> {
    match tool {
        "write" => Some("edit"),
        "edit" => Some("write"),
        _ => WALKS.contains(&tool).then_some("read"),
    }
}

/// Returns the subject of a call.
fn subject(tool: &str, input: &Value, workspace: &Workspace) -> Subject {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    match tool {
        "bash" => text("command").map_or(Subject::Nothing, |command| Subject::Command(reader::read(command))),
        _ if FILES.contains(&tool) => {
            let path = text("path").unwrap_or(".");
            // The tool itself refuses a path that leads nowhere.
            Subject::Path(workspace.resolve(Path::new(path)).unwrap_or_else(|_| path.into()))
        }
        "web_fetch" => {
            // Parsed as in `web_fetch`, so that both see the same host.
            let host = text("url").and_then(|url| url::Url::parse(url.trim()).ok());
            let host = host.and_then(|url| Some(url.host_str()?.trim_end_matches('.').to_ascii_lowercase()));
            host.map_or(Subject::Nothing, Subject::Host)
        }
        "skill" => text("name").map_or(Subject::Nothing, |name| Subject::Name(name.to_owned())),
        _ => input.as_object().map_or(Subject::Nothing, |fields| argument::subject(fields, workspace)),
    }
}

/// Answers permission questions.
pub trait Approver: Send + Sync {
    /// Asks whether a call may be made.
    fn ask<'a>(&'a self, question: &'a PermissionQuestion) -> BoxFuture<'a, PermissionAnswer>;
}

/// A question about a call.
#[derive(Clone, Debug)]
pub struct PermissionQuestion {
    /// The agent that makes the call.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// Its input, as the model wrote it.
    pub input: String,
    /// The reason for the question.
    pub why: String,
    /// The rules that would allow such calls for good. Empty if no rule can.
    pub always: Vec<String>,
}

/// The answer to a permission question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// Make the call.
    Yes,
    /// Make the call, and allow such calls from now on.
    Always,
    /// Refuse the call, for this reason.
    No(String),
}

/// Refuses every question, because no person is there to answer.
#[derive(Clone, Copy, Debug)]
pub struct NoApprover;

impl Approver for NoApprover {
    fn ask<'a>(&'a self, question: &'a PermissionQuestion) -> BoxFuture<'a, PermissionAnswer> {
        let why = format!("{}, and no terminal to ask on", question.why);
        Box::pin(std::future::ready(PermissionAnswer::No(why)))
    }
}
