//! The criteria of one recording.

use recording::lanes::{Lane, LaneKind, Turn, TurnMark};
use recording::scenario::{Expectation, Expectations};
use serde::Serialize;

use crate::evidence::Evidence;

/// The answers to all criteria.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Version of the format.
    pub format: u32,
    /// True if no answer is no.
    pub ok: bool,
    /// The criteria.
    pub criteria: Vec<Criterion>,
}

/// A criterion and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Criterion {
    /// Name of the criterion.
    pub name: &'static str,
    /// The answer.
    pub answer: CriterionAnswer,
    /// Reason for the answer.
    pub reason: String,
}

/// Answer to a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CriterionAnswer {
    /// The criterion holds.
    #[serde(rename = "yes")]
    Yes,
    /// The criterion does not hold.
    #[serde(rename = "no")]
    No,
    /// The criterion does not apply.
    #[serde(rename = "n/a")]
    NotApplicable,
}

/// An answer and its reason.
type Answer = (CriterionAnswer, String);

/// Name of a criterion, and the function that answers it.
type Question = (&'static str, fn(&Evidence) -> Answer);

const QUESTIONS: &[Question] = &[
    ("files", files),
    ("sealed", sealed),
    ("nothing lost", nothing_lost),
    ("every request answered", answered),
    ("harness ended well", ended_well),
    ("prompt", prompt),
    ("tool schemas", tool_schemas),
    ("spawn calls", spawn_calls),
    ("sub-agent lanes", sub_agent_lanes),
    ("background", background),
    ("polling or wake-up", polling_or_wake_up),
    ("cancel", cancel),
    ("unknown job", unknown_job),
    ("denied write", denied_write),
    ("workspace unchanged", workspace_unchanged),
    ("nothing went round the proxy", nothing_went_round),
    ("no late text", no_late_text),
];

/// Answers all criteria for a recording.
pub fn check_recording(evidence: &Evidence) -> CheckReport {
    let criteria: Vec<Criterion> = QUESTIONS
        .iter()
        .map(|(name, question)| {
            let (answer, reason) = question(evidence);
            Criterion { name, answer, reason }
        })
        .collect();
    let ok = criteria.iter().all(|criterion| criterion.answer != CriterionAnswer::No);
    CheckReport { format: 1, ok, criteria }
}

fn yes(reason: impl Into<String>) -> Answer {
    (CriterionAnswer::Yes, reason.into())
}

fn no(reason: impl Into<String>) -> Answer {
    (CriterionAnswer::No, reason.into())
}

fn not_applicable(reason: impl Into<String>) -> Answer {
    (CriterionAnswer::NotApplicable, reason.into())
}

/// Turns `no` into `n/a` if the scenario has a fallback for the feature in this harness.
fn unless_fallback(evidence: &Evidence, surface: Expectation, answer: Answer) -> Answer {
    let fallbacks = evidence.scenario.iter().flat_map(|scenario| &scenario.stand_in);
    let mut fitting = fallbacks.filter(|fallback| fallback.surfaces.contains(&surface));
    match (answer.0, fitting.next()) {
        (CriterionAnswer::No, Some(fallback)) => {
            not_applicable(format!("{}; {}", answer.1, fallback.note.trim()))
        }
        _ => answer,
    }
}

fn expects(evidence: &Evidence) -> Expectations {
    evidence.scenario.as_ref().map(|scenario| scenario.expects.clone()).unwrap_or_default()
}

/// Returns `n/a`, because the scenario does not expect the feature or there is no scenario.
fn unexpected(evidence: &Evidence, says: &str) -> Answer {
    not_applicable(if evidence.scenario.is_some() { says } else { "the recording has no scenario" })
}

fn main_lanes(evidence: &Evidence) -> impl Iterator<Item = &Lane> {
    evidence.ordered.lanes.lanes.iter().filter(|lane| lane.kind == LaneKind::Main)
}

fn files(evidence: &Evidence) -> Answer {
    let has = |name: &str| evidence.files.contains(name);
    let mut wanted = ["recording.json", "exchanges.log"].map(str::to_owned).to_vec();
    // Derived files exist after a capture or `normalize` only.
    let is_normalized = evidence.scenario.is_some() || has("normalized");
    if is_normalized {
        wanted.extend(["normalized/manifest.json", "normalized/replay_session.json"].map(str::to_owned));
    }
    if evidence.scenario.is_some() {
        // `workspace` and `exports` are not required: git keeps no empty folders, and their files have digests.
        wanted.extend(["scenario.json", "stderr.txt", "exit_code.txt"].map(str::to_owned));
    }
    for turn in evidence.ordered.lanes.lanes.iter().flat_map(|lane| &lane.turns).filter(|_| is_normalized) {
        wanted.push(format!("normalized/turn_{:03}_request.json", turn.seq));
    }
    for exchange in &evidence.ordered.exchanges {
        wanted.push(format!("provider_dumps/{}_request.json", exchange.id));
        if exchange.ending.is_some() {
            wanted.push(format!("provider_dumps/{}_response.json", exchange.id));
        }
    }
    let mut missing: Vec<String> =
        wanted.iter().filter(|name| !has(name)).map(|name| format!("`{name}`")).collect();
    let stdout = ["stdout.json", "stdout.jsonl", "stdout.txt"];
    if evidence.scenario.is_some() && !stdout.into_iter().any(has) {
        missing.push("`stdout.txt`".to_owned());
    }
    match missing.len() {
        0 => yes(format!("all {} files exist", wanted.len())),
        1 => no(format!("1 file is missing: {}", some_of(&missing))),
        n => no(format!("{n} files are missing: {}", some_of(&missing))),
    }
}

/// Lists the first few names.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", names[..SHOWN].join(", ")),
        None => names.join(", "),
    }
}

fn sealed(evidence: &Evidence) -> Answer {
    match (&evidence.unsealed, &evidence.damage[..]) {
        (Some(because), _) => no(format!("it is not sealed: {because}")),
        (None, []) => {
            let unsearched: Vec<String> =
                evidence.manifest.iter().flat_map(|manifest| manifest.unsearched.clone()).collect();
            match unsearched.len() {
                0 => yes("sealed and unchanged"),
                _ => yes(format!("sealed and unchanged; not searched for secrets: {}", some_of(&unsearched))),
            }
        }
        (None, damage) => no(format!("changed since it was sealed: {}", some_of(damage))),
    }
}

fn nothing_lost(evidence: &Evidence) -> Answer {
    let losses = evidence.manifest.iter().flat_map(|manifest| &manifest.lost);
    let mut lost: Vec<String> = losses.map(ToString::to_string).collect();
    lost.extend(evidence.ordered.problems.iter().map(|problem| format!("{}: {}", problem.what, problem.why)));
    match lost.len() {
        0 => yes("every byte was kept and decoded"),
        _ => no(some_of(&lost)),
    }
}

/// A turn is answered if one of its attempts was completed. A harness may cut a call.
fn answered(evidence: &Evidence) -> Answer {
    let agents = evidence.ordered.lanes.lanes.iter().filter(|lane| lane.kind != LaneKind::Side);
    let turns: Vec<(&Lane, &Turn)> =
        agents.flat_map(|lane| lane.turns.iter().map(move |turn| (lane, turn))).collect();
    let aborted = |turn: &Turn| {
        let last = turn.attempts.last();
        let exchange = evidence.ordered.exchanges.iter().find(|exchange| Some(&exchange.id) == last);
        exchange.is_some_and(|exchange| exchange.ending == Some(wire::Ending::CutByHarness))
    };
    let named = |turns: &[&(&Lane, &Turn)]| -> Vec<String> {
        turns.iter().map(|(lane, turn)| format!("turn {} of {}", turn.turn, lane.id)).collect()
    };
    let (left, open): (Vec<_>, Vec<_>) =
        turns.iter().filter(|(_, turn)| !turn.whole).partition(|(_, turn)| aborted(turn));
    match (turns.len(), left.len(), open.len()) {
        (0, ..) => no("no request to a model"),
        (.., 1..) => no(format!("not answered: {}", some_of(&named(&open)))),
        (_, 1.., _) => yes(format!("all that the harness waited for; it cut {}", some_of(&named(&left)))),
        (1, ..) => yes("the only turn"),
        (n, ..) => yes(format!("all {n} turns")),
    }
}

fn ended_well(evidence: &Evidence) -> Answer {
    match evidence.manifest.as_ref().and_then(|manifest| manifest.command.as_ref()) {
        None => not_applicable("no command was recorded"),
        Some(command) => match command.exit_code {
            Some(0) => yes("exit code 0"),
            Some(code) => no(format!("exit code {code}")),
            None => no("it was killed"),
        },
    }
}

fn prompt(evidence: &Evidence) -> Answer {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let texts = &evidence.opening.texts;
    let asked = evidence.scenario.as_ref().map(|scenario| words(&scenario.prompt)).unwrap_or_default();
    match texts.iter().map(String::len).sum::<usize>() {
        0 => no("the first request of main has no text"),
        bytes if asked.is_empty() => yes(format!("{bytes} bytes of text in the first request of main")),
        _ if texts.iter().any(|text| has_prompt(&words(text), &asked)) => {
            yes("the scenario's prompt is in the first request of main")
        }
        _ => no("the scenario's prompt is not in the first request of main"),
    }
}

/// Returns whether a text contains the prompt, as it is or as one quoted argument of a command line. Some harnesses put the
/// prompt in quotes and escape its own quotes.
fn has_prompt(text: &str, prompt: &str) -> bool {
    text.contains(prompt) || text.contains(&format!("\"{}\"", prompt.replace('"', "\\\"")))
}

fn tool_schemas(evidence: &Evidence) -> Answer {
    match evidence.opening.tools {
        // A program of the user need not have tools. A harness in a scenario does.
        (0, _) if evidence.scenario.is_none() => not_applicable("the first request of main offers no tools"),
        (0, _) => no("the first request of main offers no tools"),
        (1, 1) => yes("1 tool with a schema"),
        (tools, with) if with == tools => yes(format!("{tools} tools with schemas")),
        // Tools that the provider defines have no schema.
        (1, _) => yes("1 tool without a schema"),
        (tools, with) => yes(format!("{tools} tools, {with} with a schema")),
    }
}

/// Returns the highest number of agents that one turn of a main lane starts.
fn most_spawns(evidence: &Evidence) -> usize {
    let started = |turn: &Turn| {
        let calls = turn.calls.iter();
        calls.filter(|call| evidence.jobs.iter().any(|job| job.call == call.id)).count()
    };
    main_lanes(evidence).flat_map(|lane| &lane.turns).map(started).max().unwrap_or_default()
}

fn spawn_calls(evidence: &Evidence) -> Answer {
    let most = most_spawns(evidence);
    let launches = evidence.jobs.iter().filter(|job| job.background).count();
    let seen = format!("at most {} in one turn, {launches} in the background", counted(most, "agent"));
    match (&evidence.scenario, expects(evidence).spawns_in_one_turn) {
        (Some(_), None) => not_applicable("the scenario does not start several agents at once"),
        (Some(_), Some(wanted)) if most >= wanted as usize || launches >= wanted as usize => yes(seen),
        (Some(_), Some(wanted)) => no(format!("{seen}; the scenario starts {wanted} in one turn")),
        (None, _) if most >= 2 || launches >= 2 => yes(seen),
        (None, _) => not_applicable(format!("the recording has no scenario; {seen}")),
    }
}

/// Formats a count with its noun, as in `3 lanes`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn sub_agent_lanes(evidence: &Evidence) -> Answer {
    let lanes = &evidence.ordered.lanes.lanes;
    let subs: Vec<&Lane> =
        lanes.iter().filter(|lane| matches!(lane.kind, LaneKind::Sub | LaneKind::Fork)).collect();
    let wanted = expects(evidence).spawns_in_one_turn.unwrap_or_default() as usize;
    let mut calls: Vec<_> =
        subs.iter().map(|lane| (lane.parent.as_ref(), lane.spawned_by.as_ref())).collect();
    calls.sort();
    calls.dedup();
    let orphans: Vec<String> =
        subs.iter().filter(|lane| lane.spawned_by.is_none()).map(|lane| lane.id.clone()).collect();
    match subs.len() {
        0 if wanted == 0 => not_applicable("no agent was started"),
        n if n < wanted => no(format!("{} for {}", counted(n, "lane"), counted(wanted, "agent"))),
        _ if !orphans.is_empty() => no(format!("no known call started {}", some_of(&orphans))),
        n if calls.len() < n => {
            no(format!("{}, but {} started them", counted(n, "lane"), counted(calls.len(), "call")))
        }
        n => yes(format!("{}, each with its own call", counted(n, "lane"))),
    }
}

fn background(evidence: &Evidence) -> Answer {
    if !expects(evidence).background {
        return unexpected(evidence, "the scenario starts nothing in the background");
    }
    let answer = match evidence.jobs.iter().filter(|job| job.background).count() {
        0 => no("no agent was still running when its launch was acknowledged"),
        1 => yes("1 agent was still running when its launch was acknowledged"),
        n => yes(format!("{n} agents were still running when their launch was acknowledged")),
    };
    unless_fallback(evidence, Expectation::Background, answer)
}

fn polling_or_wake_up(evidence: &Evidence) -> Answer {
    let Expectations { polling, wakeup, .. } = expects(evidence);
    if !polling && !wakeup {
        return unexpected(evidence, "the scenario uses neither");
    }
    let polls = evidence.jobs.iter().flat_map(|job| &job.touches).filter(|touch| !touch.cancels).count();
    let notices = evidence.jobs.iter().flat_map(|job| &job.notices).count();
    let woken = evidence.jobs.iter().flat_map(|job| &job.notices).filter(|notice| notice.wakes).count();
    let seen = format!("{polls} polls, {notices} announcements, {woken} of them woke the parent");
    let answer = match (polls, notices) {
        (0, 0) => no(seen),
        (_, 0) if wakeup && !polling => no(seen),
        _ => yes(seen),
    };
    unless_fallback(evidence, if wakeup { Expectation::Wakeup } else { Expectation::Polling }, answer)
}

fn cancel(evidence: &Evidence) -> Answer {
    if !expects(evidence).cancel {
        return unexpected(evidence, "the scenario cancels nothing");
    }
    let cancels = evidence.jobs.iter().flat_map(|job| &job.touches).filter(|touch| touch.cancels).count();
    let answer = match cancels {
        0 => no("no call cancels an agent that was started"),
        1 => yes("1 call cancels an agent"),
        n => yes(format!("{n} calls cancel an agent")),
    };
    unless_fallback(evidence, Expectation::Cancel, answer)
}

/// Looks for a call of the main agent that names an unknown job and got a result.
fn unknown_job(evidence: &Evidence) -> Answer {
    if !expects(evidence).unknown_job {
        return unexpected(evidence, "the scenario asks for no unknown job");
    }
    let known = |id: &session::CallId| {
        let touched = evidence.jobs.iter().flat_map(|job| &job.touches).any(|touch| touch.call == *id);
        touched || evidence.jobs.iter().any(|job| job.call == *id)
    };
    let asks = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["output", "task", "job", "agent", "background", "message", "stop", "read"]
            .iter()
            .any(|word| name.contains(word))
    };
    for lane in main_lanes(evidence) {
        for call in
            lane.turns.iter().flat_map(|turn| &turn.calls).filter(|call| !known(&call.id) && asks(&call.name))
        {
            let results = lane.turns.iter().flat_map(|turn| &turn.results);
            if let Some(result) = results.into_iter().find(|result| result.call == call.id) {
                let how = if result.is_error { "an error" } else { "text" };
                return yes(format!("`{}` for an unknown job was answered with {how}", call.name));
            }
        }
    }
    unless_fallback(evidence, Expectation::UnknownJob, no("no call asks for an unknown job"))
}

fn denied_write(evidence: &Evidence) -> Answer {
    if !expects(evidence).denied_write {
        return unexpected(evidence, "the scenario tries no write");
    }
    let writes = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["write", "edit", "patch", "bash"].iter().any(|word| name.contains(word))
    };
    let subs = evidence.ordered.lanes.lanes.iter().filter(|lane| lane.kind == LaneKind::Sub);
    for lane in subs {
        let mut calls = lane.turns.iter().flat_map(|turn| &turn.calls);
        let Some(call) = calls.find(|call| writes(&call.name)) else { continue };
        let mut results = lane.turns.iter().flat_map(|turn| &turn.results);
        let answered = results.any(|result| result.call == call.id);
        return match (answered, is_changed(evidence)) {
            (false, _) => no(format!("`{}` of {} got no result", call.name, lane.id)),
            (true, Some(true)) => no(format!("`{}` of {} changed the workspace", call.name, lane.id)),
            (true, _) => yes(format!("`{}` of {} got a result, and nothing was written", call.name, lane.id)),
        };
    }
    unless_fallback(evidence, Expectation::DeniedWrite, no("no sub-agent tried to write"))
}

fn is_changed(evidence: &Evidence) -> Option<bool> {
    let changes = evidence.manifest.as_ref()?.workspace.as_ref()?;
    Some(!(changes.added.is_empty() && changes.changed.is_empty() && changes.removed.is_empty()))
}

fn workspace_unchanged(evidence: &Evidence) -> Answer {
    let changes = evidence.manifest.as_ref().and_then(|manifest| manifest.workspace.as_ref());
    match (&evidence.scenario, changes) {
        (None, _) => not_applicable("the recording has no scenario"),
        (Some(scenario), _) if !scenario.read_only => not_applicable("the scenario may write"),
        (Some(_), None) => no("the workspace was not compared"),
        (Some(_), Some(changes)) => {
            let all = [&changes.added, &changes.changed, &changes.removed];
            let names: Vec<String> = all.into_iter().flatten().map(|name| format!("`{name}`")).collect();
            match names.len() {
                0 => yes("unchanged"),
                _ => no(format!("changed: {}", some_of(&names))),
            }
        }
    }
}

fn nothing_went_round(evidence: &Evidence) -> Answer {
    let Some(manifest) = &evidence.manifest else { return not_applicable("there is no manifest") };
    let Some(network) = &manifest.network else {
        return not_applicable("no capture, so connections were not watched");
    };
    let calls = manifest.round_the_proxy.iter();
    let seen: Vec<String> = calls
        .map(|call| match call.port {
            Some(port) => format!("{}:{port} ({} times)", call.host, call.count),
            None => format!("{} ({} times)", call.host, call.count),
        })
        .collect();
    match seen.len() {
        0 => yes(match network.seal {
            recording::NetworkIsolation::Namespace => "no other connection was possible",
            recording::NetworkIsolation::Environment => {
                "no request to the refusing proxy; other connections were possible"
            }
        }),
        _ => no(some_of(&seen)),
    }
}

fn no_late_text(evidence: &Evidence) -> Answer {
    let lanes = &evidence.ordered.lanes.lanes;
    let turns = lanes.iter().flat_map(|lane| lane.turns.iter().map(move |turn| (lane, turn)));
    let late: Vec<String> = turns
        .filter(|(_, turn)| turn.marks.contains(&TurnMark::LateText))
        .map(|(lane, turn)| format!("turn {} of {}", turn.turn, lane.id))
        .collect();
    match late.len() {
        0 => yes("no text was inserted before an answered turn"),
        _ => no(format!(
            "text was inserted before an answered turn by {}, which no replay can reproduce",
            some_of(&late)
        )),
    }
}
