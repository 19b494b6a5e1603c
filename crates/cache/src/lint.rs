//! Checks of prompts that should be cached, for continuous integration.

use std::collections::HashSet;
use std::fmt;

use crate::compare::{CacheBreak, location, new_breaks};
use crate::prompt::CachePrompt;
use crate::reason::Reason;
use crate::report::CacheReport;
use crate::report::LaneOpening;
use crate::rules::{CacheRules, StoragePolicy};
use crate::unread_markers::UnreadMarker;

/// Problem that keeps a prompt from being cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintFinding {
    /// Violated rule.
    pub rule: LintRule,
    /// Lane.
    pub lane: String,
    /// Pointer into the lane's first request, unless the text says otherwise.
    pub pointer: String,
    /// Description.
    pub what: String,
}

/// Rule of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LintRule {
    /// A cache break that the golden does not have.
    NewBreak,
    /// A marker that can never be read.
    DeadMarker,
    /// Text before the last marker that changes with time or machine.
    Volatile,
    /// A fork that does not read its parent's prefix.
    ColdFork,
    /// Expected data is missing.
    Unseen,
}

impl LintRule {
    /// Returns the rule's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NewBreak => "new_break",
            Self::DeadMarker => "dead_marker",
            Self::Volatile => "volatile",
            Self::ColdFork => "cold_fork",
            Self::Unseen => "unseen",
        }
    }
}

impl fmt::Display for LintRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Applies all rules except `volatile`, which needs the bodies. Breaks of `golden` are accepted.
pub fn lint(golden: &CacheReport, explained: &CacheReport) -> Vec<LintFinding> {
    let mut findings: Vec<LintFinding> = new_breaks(golden, explained).iter().map(of_break).collect();
    for opening in &explained.openings {
        findings.extend(dead_markers(explained, opening));
    }
    let is_known = |unread: &UnreadMarker| {
        let same =
            |it: &UnreadMarker| it.lane == unread.lane && location(&it.pointer) == location(&unread.pointer);
        golden.unread.iter().any(same)
    };
    findings.extend(explained.unread.iter().filter(|unread| !is_known(unread)).map(of_unread));
    findings.extend(cold_forks(explained));
    findings.extend(unanswered(golden, explained));
    findings
}

impl LintFinding {
    /// Reports a lane that only the golden has: its breaks may occur here, too.
    pub fn missing_lane(lane: String) -> Self {
        Self::unseen(lane, "only the golden has this lane")
    }

    fn unseen(lane: String, what: &str) -> Self {
        Self { rule: LintRule::Unseen, lane, pointer: String::new(), what: what.to_owned() }
    }
}

/// Reports missing responses. Without a response nothing is cached, so the rules cannot pass.
fn unanswered(golden: &CacheReport, explained: &CacheReport) -> Vec<LintFinding> {
    let [known, here] = [golden, explained].map(|of| {
        let answered = of.requests.iter().filter(|request| request.is_answered());
        answered.map(|request| request.lane.as_str()).collect::<HashSet<_>>()
    });
    if here.is_empty() {
        let what = "no request was answered";
        return vec![LintFinding::unseen("all".to_owned(), what)];
    }
    let lanes = explained.openings.iter().map(|opening| &opening.lane);
    let silent = lanes.filter(|lane| known.contains(lane.as_str()) && !here.contains(lane.as_str()));
    silent
        .map(|lane| LintFinding::unseen(lane.clone(), "no answer here, but an answer in the golden"))
        .collect()
}

fn of_break(broken: &CacheBreak) -> LintFinding {
    let turns = if broken.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", broken.turns) };
    LintFinding {
        rule: LintRule::NewBreak,
        lane: broken.lane.clone(),
        pointer: broken.pointer.clone(),
        what: format!("{}: {broken}, in {turns}", broken.reason),
    }
}

fn of_unread(unread: &UnreadMarker) -> LintFinding {
    let reason = unread.reason.map_or(String::new(), |reason| format!(": {reason}"));
    LintFinding {
        rule: LintRule::DeadMarker,
        lane: unread.lane.clone(),
        pointer: unread.pointer.clone(),
        what: format!(
            "written in {} {} but never read by the next one{reason}",
            unread.turns,
            if unread.turns == 1 { "turn" } else { "turns" }
        ),
    }
}

fn dead_markers(explained: &CacheReport, opening: &LaneOpening) -> Vec<LintFinding> {
    let prompt = &opening.prompt;
    let StoragePolicy::Marked { slots, .. } = prompt.rules.storage else { return Vec::new() };
    let mut findings = Vec::new();
    let mut add = |pointer: &str, what: String| {
        let (lane, pointer) = (opening.lane.clone(), pointer.to_owned());
        findings.push(LintFinding { rule: LintRule::DeadMarker, lane, pointer, what });
    };
    if prompt.marker_count > slots {
        add("", format!("{} markers, but only {slots} count", prompt.marker_count));
    }
    if let Some(pointer) = misordered_lifetime(prompt) {
        add(pointer, "a 1-hour marker follows a 5-minute marker".to_owned());
    }
    // Markers of a lane are not useless if its last request is long enough.
    let minimum = CacheRules::minimum(&prompt.model);
    let of_lane = || explained.requests.iter().filter(|request| request.lane == opening.lane);
    let longest = of_lane().map(|request| request.predicted.input_total()).max().unwrap_or_default();
    if let Some(mark) =
        prompt.marks.iter().rfind(|mark| mark.pointer.is_some()).filter(|_| (1..minimum).contains(&longest))
    {
        let what = format!("the prompt has {longest} tokens; caching needs {minimum}");
        add(mark.pointer.as_deref().unwrap_or_default(), what);
    }
    findings
}

fn misordered_lifetime(prompt: &CachePrompt) -> Option<&str> {
    let short = prompt.marks.iter().position(|mark| !mark.is_long && mark.pointer.is_some())?;
    prompt.marks[short..].iter().find(|mark| mark.is_long)?.pointer.as_deref()
}

fn cold_forks(explained: &CacheReport) -> impl Iterator<Item = LintFinding> {
    let firsts = explained.openings.iter().filter_map(|opening| {
        explained.requests.iter().find(|request| request.id == opening.id && request.fork_of.is_some())
    });
    firsts.filter_map(|request| {
        let (reason, miss) = (request.reason?, request.miss.as_ref()?);
        // An unavailable entry is the provider's fault, and the wrong time is not the prompt's.
        let is_timing = matches!(reason, Reason::Unavailable | Reason::NotYetReadable | Reason::Expired);
        (miss.tokens > 0 && !is_timing).then(|| LintFinding {
            rule: LintRule::ColdFork,
            lane: request.lane.clone(),
            pointer: miss.pointer.clone(),
            what: format!("{reason} at block {}: {} tokens not shared", miss.block, miss.tokens),
        })
    })
}
