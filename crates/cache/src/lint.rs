//! What should not be in a prompt that is meant to be cached: for continuous integration.

use std::collections::HashSet;
use std::fmt;

use crate::compare::{CacheBreak, location, new_breaks};
use crate::explanation::{CacheReport, LaneOpening};
use crate::prompt::CachePrompt;
use crate::reason::Reason;
use crate::rules::{CacheRules, StoragePolicy};
use crate::unread_markers::UnreadMarker;

/// Something that keeps a prompt from being cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintFinding {
    /// Which rule says so.
    pub rule: LintRule,
    /// The lane.
    pub lane: String,
    /// Where, in the lane's first request unless it is said.
    pub pointer: String,
    /// What is wrong, in words.
    pub what: String,
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LintRule {
    /// A break of the prefix that the golden has not.
    NewBreak,
    /// A marker that can never be read.
    DeadMarker,
    /// Text before the last marker that is another one tomorrow or elsewhere.
    Volatile,
    /// A fork that does not read what it starts from.
    ColdFork,
    /// There is nothing to look at where something should be.
    Unseen,
}

impl LintRule {
    /// Its name.
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

/// Everything but volatile text, which only the bodies have. What breaks in `golden` is accepted.
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
    /// A lane that only the golden has: what it broke there might break here.
    pub fn missing_lane(lane: String) -> Self {
        Self::unseen(lane, "the golden has this lane, and here nothing is like it")
    }

    fn unseen(lane: String, what: &str) -> Self {
        Self { rule: LintRule::Unseen, lane, pointer: String::new(), what: what.to_owned() }
    }
}

/// Where no answer came nothing was cached, and nothing can be told of it: that is no pass.
fn unanswered(golden: &CacheReport, explained: &CacheReport) -> Vec<LintFinding> {
    let [known, here] = [golden, explained].map(|of| {
        let answered = of.requests.iter().filter(|request| request.is_answered());
        answered.map(|request| request.lane.as_str()).collect::<HashSet<_>>()
    });
    if here.is_empty() {
        let what = "no model answered, so that there is nothing to look at";
        return vec![LintFinding::unseen("all".to_owned(), what)];
    }
    let lanes = explained.openings.iter().map(|opening| &opening.lane);
    let silent = lanes.filter(|lane| known.contains(lane.as_str()) && !here.contains(lane.as_str()));
    silent
        .map(|lane| LintFinding::unseen(lane.clone(), "no answer came, and in the golden one did"))
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
        what: format!("written in {} turns, and the next never reads it{reason}", unread.turns),
    }
}

fn dead_markers(explained: &CacheReport, opening: &LaneOpening) -> Vec<LintFinding> {
    let prompt = &opening.prompt;
    let StoragePolicy::Marked { slots, .. } = prompt.rules.keeps else { return Vec::new() };
    let mut findings = Vec::new();
    let mut add = |pointer: &str, what: String| {
        let (lane, pointer) = (opening.lane.clone(), pointer.to_owned());
        findings.push(LintFinding { rule: LintRule::DeadMarker, lane, pointer, what });
    };
    if prompt.marker_count > slots {
        add("", format!("{} markers, of which {slots} count", prompt.marker_count));
    }
    if let Some(pointer) = long_behind_short(prompt) {
        add(pointer, "a marker for an hour stands behind one for five minutes".to_owned());
    }
    // A lane whose last request is long enough had markers for nothing only as long as it was short.
    let minimum = CacheRules::minimum(&prompt.model);
    let of_lane = || explained.requests.iter().filter(|request| request.lane == opening.lane);
    let longest = of_lane().map(|request| request.predicted.input_total()).max().unwrap_or_default();
    if let Some(mark) =
        prompt.marks.iter().rfind(|mark| mark.pointer.is_some()).filter(|_| (1..minimum).contains(&longest))
    {
        let what = format!("all {longest} tokens are less than the {minimum} that are kept");
        add(mark.pointer.as_deref().unwrap_or_default(), what);
    }
    findings
}

fn long_behind_short(prompt: &CachePrompt) -> Option<&str> {
    let short = prompt.marks.iter().position(|mark| !mark.is_long && mark.pointer.is_some())?;
    prompt.marks[short..].iter().find(|mark| mark.is_long)?.pointer.as_deref()
}

fn cold_forks(explained: &CacheReport) -> impl Iterator<Item = LintFinding> {
    let firsts = explained.openings.iter().filter_map(|opening| {
        explained.requests.iter().find(|request| request.id == opening.id && request.fork_of.is_some())
    });
    firsts.filter_map(|request| {
        let (reason, miss) = (request.reason?, request.miss.as_ref()?);
        // What is there and is not given is the provider's matter; what was asked too early or too late is the clock's.
        let is_timing = matches!(reason, Reason::Unavailable | Reason::NotYetReadable | Reason::Expired);
        (miss.tokens > 0 && !is_timing).then(|| LintFinding {
            rule: LintRule::ColdFork,
            lane: request.lane.clone(),
            pointer: miss.pointer.clone(),
            what: format!("{reason} at block {}, {} tokens are not shared", miss.block, miss.tokens),
        })
    })
}
