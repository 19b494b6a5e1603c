//! Draws the lane tree: the turns of each agent, and the agents below the calls that started them.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use recording::lanes::{Lane, LaneJob, LaneKind, Turn, TurnMark, tree_roots};
use recording::source::{ExchangeSummary, OrderedExchanges};
use session::CallId;

use crate::style::Tone;
use crate::text::{duration, fit, plain, tokens};

/// Draws the lanes with lines of at most `width` characters.
pub fn tree(ordered: &OrderedExchanges, width: usize) -> String {
    let exchanges = ordered.exchanges.iter().map(|exchange| (exchange.id.as_str(), exchange)).collect();
    let jobs = ordered.lanes.jobs().into_iter().map(|job| (job.lane.clone(), job)).collect();
    let lanes = &ordered.lanes;
    let deep = tree_roots(lanes.lanes.iter().map(|lane| (lane.id.as_str(), lane.parent.as_deref())));
    let is_root = |lane: &&Lane| deep.contains(lane.id.as_str()) || !has_parent_call(lanes, lane);
    let mut drawing = Drawing { ordered, exchanges, jobs, deep: deep.clone(), width, text: String::new() };
    for lane in lanes.lanes.iter().filter(|lane| lane.kind != LaneKind::Side).filter(is_root) {
        drawing.lane(lane, "", "");
    }
    let sides: Vec<&Lane> = lanes.lanes.iter().filter(|lane| lane.kind == LaneKind::Side).collect();
    for lane in sides {
        drawing.lane(lane, "", "");
    }
    drawing.text
}

/// Returns whether a lane is drawn below the call that started it.
fn has_parent_call(lanes: &recording::lanes::Lanes, lane: &Lane) -> bool {
    let parent = lane.parent.as_deref().and_then(|parent| lanes.lane(parent));
    let call = lane.spawned_by.as_ref();
    parent.is_some_and(|parent| {
        parent.turns.iter().flat_map(|turn| &turn.calls).any(|made| Some(&made.id) == call)
    })
}

struct Drawing<'o> {
    ordered: &'o OrderedExchanges,
    exchanges: HashMap<&'o str, &'o ExchangeSummary>,
    jobs: HashMap<String, LaneJob>,
    /// Lanes that are drawn on their own because they are nested too deeply.
    deep: HashSet<&'o str>,
    width: usize,
    text: String,
}

impl<'o> Drawing<'o> {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "{}", fit(line.trim_end(), self.width)).expect("a string takes everything");
    }

    /// Draws a lane. `first` precedes its name, `rest` its turns.
    fn lane(&mut self, lane: &'o Lane, first: &str, rest: &str) {
        let head = self.head(lane);
        self.line(&format!("{first}{head}"));
        for (at, turn) in lane.turns.iter().enumerate() {
            let is_last = at + 1 == lane.turns.len();
            let (fork, bar) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.turn(lane, turn, &format!("{rest}{fork}"), &format!("{rest}{bar}"));
        }
    }

    fn head(&self, lane: &Lane) -> String {
        let mut head = Tone::Strong.paint(&lane.id);
        if let Some(name) = &lane.agent_type {
            write!(head, " {}", plain(name)).expect("a string takes everything");
        }
        let mut facts = vec![match lane.turns.len() {
            1 => "1 turn".to_owned(),
            n => format!("{n} turns"),
        }];
        if lane.turns.iter().any(|turn| turn.text.is_some() || !turn.calls.is_empty()) {
            facts.push(tokens(&lane.usage()));
        }
        if let Some(job) = self.jobs.get(&lane.id) {
            facts.push(job_words(job));
        }
        if let (LaneKind::Fork, Some(parent)) = (lane.kind, &lane.parent) {
            facts.push(format!("of {parent}"));
        }
        format!("{head}  {}", facts.join(", "))
    }

    fn turn(&mut self, lane: &'o Lane, turn: &'o Turn, first: &str, rest: &str) {
        let last = turn.attempts.last().and_then(|request| self.exchanges.get(request.as_str())).copied();
        let took = last.and_then(|exchange| exchange.took_us).map(duration);
        let mut facts: Vec<String> = took.into_iter().collect();
        if turn.usage != session::Usage::default() {
            facts.push(tokens(&turn.usage));
        }
        if turn.attempts.len() > 1 {
            facts.push(format!("{} attempts", turn.attempts.len()));
        }
        facts.extend(turn.marks.iter().map(|mark| mark_words(*mark).to_owned()));
        if !turn.results.is_empty() {
            let failed = failed_results(lane, turn);
            let failed = if failed > 0 {
                format!(" ({})", Tone::Bad.paint(&format!("{failed} failed")))
            } else {
                String::new()
            };
            facts.push(format!("{} results{failed}", turn.results.len()).replacen(
                "1 results",
                "1 result",
                1,
            ));
        }
        facts.extend(last.and_then(failure_note).map(|note| Tone::Bad.paint(&note)));
        let request = turn.attempts.last().map_or_else(String::new, |request| plain(request.as_str()));
        self.line(&format!("{first}{} {request}  {}", turn.turn, facts.join(", ")));
        for text in &turn.asked {
            self.line(&format!("{rest}user: {}", plain(text)));
        }
        if let Some(text) = &turn.text {
            self.line(&format!("{rest}\"{}\"", plain(text)));
        }
        for call in &turn.calls {
            self.line(&format!(
                "{rest}→ {} {} {}",
                plain(&call.name),
                plain(call.id.as_str()),
                plain(&call.input)
            ));
            let ordered = self.ordered;
            let children = ordered.lanes.children(&lane.id).filter(|child| child.kind != LaneKind::Side);
            for child in children.filter(|child| child.spawned_by.as_ref() == Some(&call.id)) {
                if self.deep.contains(child.id.as_str()) {
                    self.line(&format!("{rest}  {} is drawn by itself", child.id));
                    continue;
                }
                self.lane(child, &format!("{rest}  "), &format!("{rest}  "));
            }
        }
    }
}

fn job_words(job: &LaneJob) -> String {
    let mut words = vec![if job.background { "background".to_owned() } else { "foreground".to_owned() }];
    let polls = job.touches.iter().filter(|touch| !touch.cancels).count();
    if polls > 0 {
        words.push(format!("polled {polls}×"));
    }
    if job.touches.iter().any(|touch| touch.cancels) {
        words.push("cancelled".to_owned());
    }
    match job.notices.iter().find(|notice| notice.wakes) {
        Some(notice) => words.push(format!("woke {} at turn {}", job.parent, notice.turn)),
        None => words.extend(job.notices.first().map(|notice| format!("announced at turn {}", notice.turn))),
    }
    words.join(", ")
}

fn mark_words(mark: TurnMark) -> &'static str {
    match mark {
        TurnMark::Rewrite => "history rewritten",
        TurnMark::Compaction => "history compacted",
        TurnMark::LateText => "late text",
    }
}

/// Describes the failure of an exchange.
fn failure_note(exchange: &ExchangeSummary) -> Option<String> {
    let status = exchange.status.filter(|status| *status >= 400).map(|status| format!("status {status}"));
    let ending = match exchange.ending {
        Some(wire::Ending::Complete) | None => None,
        Some(wire::Ending::CutByHarness) => Some("cut by harness"),
        Some(wire::Ending::CutByUpstream) => Some("cut by upstream"),
        Some(wire::Ending::NoResponse) => Some("no response"),
    };
    let error = exchange.error.as_deref().map(plain);
    let words: Vec<String> = [status, ending.map(str::to_owned), error].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(": "))
}

/// Counts the failed results of a turn. A fork starts with the results of its parent's calls, which include
/// failures for abandoned calls; these are not its own.
pub(crate) fn failed_results(lane: &Lane, turn: &Turn) -> usize {
    let is_own = |call: &CallId| {
        lane.kind != LaneKind::Fork || lane.turns.iter().flat_map(|it| &it.calls).any(|it| it.id == *call)
    };
    turn.results.iter().filter(|result| result.is_error && is_own(&result.call)).count()
}
