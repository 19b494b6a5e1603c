//! What an agent may do: rules that allow, ask and deny, on tools and what they are called with.
//!
//! A deny wins over everything. An allow is an exception to an ask; where no rule speaks, a call is made. A question that
//! nobody is there to answer is a no.

mod argument;
mod line;
mod path_rules;
mod programs;
mod rule;
mod shell;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::future::BoxFuture;
use crate::workspace::Workspace;
pub(crate) use rule::FILES;
use rule::{Covers, Rule, Subject};

/// Rules as somebody wrote them.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
    /// Each is all that is left of the tools that it names.
    only: Vec<Vec<Rule>>,
    /// What needs no question that only a project's settings want.
    lent: Vec<Rule>,
}

/// What is to become of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is made.
    Allow,
    /// Somebody is asked, for this reason.
    Ask(String),
    /// It is not made, for this reason.
    Deny(String),
}

/// Which list a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum List {
    /// What needs no question.
    Allow,
    /// What is asked about.
    Ask,
    /// What is never done.
    Deny,
    /// What is left of a tool, several rules on a line each: all other calls of the tools they name are not made.
    Only,
}

impl Judgement {
    /// What both want: a no before a question, and that before a yes.
    pub(crate) fn and(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Deny(_), _) | (Self::Ask(_), Self::Ask(_) | Self::Allow) => self,
            _ => other,
        }
    }
}

impl Rules {
    /// An agent's own rules, as they were stored. One that cannot be read, as an older version may find, forbids all.
    pub(crate) fn stored(rules: &[(List, String)]) -> Self {
        let mut known = Self::default();
        for (list, rule) in rules {
            if known.add(*list, rule).is_err() {
                known.add(List::Deny, "*").expect("a rule");
            }
        }
        known
    }

    /// Adds a rule; an error says what is wrong with it.
    pub fn add(&mut self, list: List, rule: &str) -> Result<(), String> {
        match list {
            List::Allow => self.allow.push(Rule::parse(rule)?),
            List::Ask => self.ask.push(Rule::parse(rule)?),
            List::Deny => self.deny.push(Rule::parse(rule)?),
            List::Only => self.only.push(rule.lines().map(Rule::parse).collect::<Result<_, _>>()?),
        }
        Ok(())
    }

    /// Rules about tools that there are none of: mistyped, most likely.
    pub fn about_nothing<'r>(&'r self, tools: &[&str]) -> Vec<&'r str> {
        let all = self.allow.iter().chain(&self.ask).chain(&self.deny).chain(self.only.iter().flatten());
        all.filter(|rule| !tools.iter().any(|tool| rule.names(tool))).map(|rule| rule.text.as_str()).collect()
    }

    /// What these say and those as well.
    pub fn extend(&mut self, more: Rules) {
        self.allow.extend(more.allow);
        self.ask.extend(more.ask);
        self.deny.extend(more.deny);
        self.only.extend(more.only);
        self.lent.extend(more.lent);
    }

    /// These, as a project says them that nobody has accepted.
    pub(crate) fn of_project(mut self) -> Self {
        self.ask.iter_mut().for_each(|rule| rule.is_project = true);
        self
    }

    /// What those allow is an exception to what a project asks about, and not to what the user does.
    pub(crate) fn lend(&mut self, more: &Rules) {
        self.lent.extend(more.allow.iter().cloned());
    }

    /// Why a file is not to be read, or written, by any tool.
    pub(crate) fn why_closed(&self, place: &Path, writing: bool) -> Option<String> {
        let tools: &[&str] = if writing { &["write", "edit"] } else { &["read"] };
        let rule = self.deny.iter().find(|rule| tools.iter().any(|tool| rule.closes(tool, place)));
        if let Some(rule) = rule {
            return Some(format!("the rule `{}` forbids it", rule.text));
        }
        let subject = Subject::Path(place.to_owned());
        let is_left = |set: &&Vec<Rule>| tools.iter().any(|tool| leaves(set, tool, &subject));
        self.only.iter().find(|set| !is_left(set)).map(|set| only(set))
    }

    /// Whether some places may be closed to whoever reads.
    pub(crate) fn close_some(&self) -> bool {
        !self.only.is_empty() || self.deny.iter().any(|rule| rule.names("read"))
    }

    /// Whether a walk through folders leaves a place out: nobody can be asked for each of many files.
    pub(crate) fn keeps_from_walks(&self, place: &Path) -> bool {
        self.deny.iter().chain(&self.ask).any(|rule| rule.closes_place("read", place))
    }

    /// What is to become of a call.
    pub(crate) fn judge(&self, tool: &str, input: &Value, workspace: &Workspace) -> Judgement {
        let subject = subject(tool, input, workspace);
        let tools = || std::iter::once(tool).chain(meant_as_well(tool));
        let covers =
            |rule: &Rule| tools().map(|tool| rule.forbids(tool, &subject)).max().unwrap_or(Covers::No);
        let denied = self.deny.iter().map(|rule| (covers(rule), rule.text.as_str()));
        let denied = denied.max_by_key(|(covers, _)| *covers).filter(|(covers, _)| *covers > Covers::No);
        if let Some((Covers::Yes, rule)) = denied {
            return Judgement::Deny(format!("the rule `{rule}` forbids it"));
        }
        if let Some(set) = self.only.iter().find(|set| !leaves(set, tool, &subject)) {
            return Judgement::Deny(only(set));
        }
        if let Some((_, rule)) = denied {
            let why = format!("whether the rule `{rule}` forbids it cannot be told before it runs");
            return Judgement::Ask(why);
        }
        // What is allowed by either name is no question by that name.
        let is_allowed = |rules: &[Rule], name: &str| {
            allows(rules, tool, &subject) || (name != tool && allows(rules, name, &subject))
        };
        let asks = |rule: &&Rule| {
            tools().filter(|name| rule.forbids(name, &subject) > Covers::No).any(|name| {
                let is_lent = rule.is_project && is_allowed(&self.lent, name);
                !is_lent && !is_allowed(&self.allow, name)
            })
        };
        match self.ask.iter().find(asks) {
            Some(rule) => Judgement::Ask(format!("the rule `{}` wants a question", rule.text)),
            None => Judgement::Allow,
        }
    }
}

/// Whether one of the rules allows the call; of a command line, each of its commands.
fn allows(rules: &[Rule], tool: &str, subject: &Subject) -> bool {
    let by_one = |command| rules.iter().any(|rule| rule.allows(tool, subject, command));
    if by_one(None) {
        return true;
    }
    match subject {
        // Each of its commands must be allowed, and it may do nothing besides.
        Subject::Command(line) => {
            !line.is_more
                && !line.commands.is_empty()
                && line.commands.iter().all(|command| by_one(Some(command.as_slice())))
        }
        _ => false,
    }
}

/// Whether what is left of the tools leaves the call. Whoever may read some files only may search no others.
fn leaves(set: &[Rule], tool: &str, subject: &Subject) -> bool {
    let also = WALKS.contains(&tool).then_some("read");
    let mut named = std::iter::once(tool).chain(also).filter(|tool| set.iter().any(|rule| rule.names(tool)));
    named.all(|tool| allows(set, tool, subject))
}

/// Why a call is not left.
fn only(set: &[Rule]) -> String {
    let rules: Vec<String> = set.iter().map(|rule| format!("`{}`", rule.text)).collect();
    format!("of its tools only {} may be called here", rules.join(", "))
}

/// The tools that look through folders.
const WALKS: &[&str] = &["list", "glob", "grep"];

/// The tool whose rules hold for that one, too: whoever may not read a file may not have it searched either, and who may
/// not write one may not edit it.
fn meant_as_well(tool: &str) -> Option<&'static str> {
    match tool {
        "write" => Some("edit"),
        "edit" => Some("write"),
        _ => WALKS.contains(&tool).then_some("read"),
    }
}

/// What a call is about.
fn subject(tool: &str, input: &Value, workspace: &Workspace) -> Subject {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    match tool {
        "bash" => text("command").map_or(Subject::Nothing, |command| Subject::Command(shell::read(command))),
        _ if FILES.contains(&tool) => {
            let path = text("path").unwrap_or(".");
            // A path that leads nowhere is refused by the tool itself; until then it is what it says.
            Subject::Path(workspace.resolve(Path::new(path)).unwrap_or_else(|_| path.into()))
        }
        "web_fetch" => {
            // Read as `web_fetch` reads it, so that both speak of one host.
            let host = text("url").and_then(|url| url::Url::parse(url.trim()).ok());
            let host = host.and_then(|url| Some(url.host_str()?.trim_end_matches('.').to_ascii_lowercase()));
            host.map_or(Subject::Nothing, Subject::Host)
        }
        "skill" => text("name").map_or(Subject::Nothing, |name| Subject::Name(name.to_owned())),
        _ => input.as_object().map_or(Subject::Nothing, |fields| argument::all(fields, workspace)),
    }
}

/// Somebody who can be asked.
pub trait Asker: Send + Sync {
    /// Whether a call may be made.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer>;
}

/// A call that somebody is asked about.
#[derive(Clone, Debug)]
pub struct Question {
    /// The agent that wants it.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// What it would be called with, as the model wrote it.
    pub input: String,
    /// Why it is a question.
    pub why: String,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may be made.
    Yes,
    /// It may not, for this reason.
    No(String),
}

/// Nobody is there.
#[derive(Clone, Copy, Debug)]
pub struct NobodyToAsk;

impl Asker for NobodyToAsk {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        let why = format!("{}, and nobody is there to be asked", question.why);
        Box::pin(std::future::ready(Answer::No(why)))
    }
}
