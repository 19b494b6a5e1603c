//! How a replay went.

use std::fmt;

use serde::Serialize;

use super::conductor::ReplayWait;
use super::names::NameConflict;

/// How a replay went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// How many exchanges the recording has.
    pub recorded: usize,
    /// Requests that got a recorded answer.
    pub served: u64,
    /// Of these, requests for something that had been played in full before.
    pub again: u64,
    /// Turns of agents that nobody asked for.
    pub unasked: Vec<TurnRef>,
    /// Side calls that nobody asked for; their number is not judged.
    pub unasked_side: Vec<TurnRef>,
    /// Turns that were asked for in other words, since nothing else could be meant.
    pub reworded: Vec<TurnRef>,
    /// Names the harness made anew: the recorded one and the live one.
    pub mapped: Vec<(String, String)>,
    /// Names that would have to be two things at once.
    pub conflicts: Vec<NameConflict>,
    /// What was waited for.
    pub waits: Vec<ReplayWait>,
    /// Requests without an answer.
    pub misses: Vec<ReplayMiss>,
    /// Faults, and how often each happened.
    pub faults: Vec<FaultOutcome>,
}

/// A recorded turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TurnRef {
    /// Its lane.
    pub lane: String,
    /// Its number there.
    pub turn: u32,
    /// Its request.
    pub request: String,
}

/// A request without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayMiss {
    /// As in `POST /v1/messages`.
    pub request: String,
    /// Why there is none.
    pub why: String,
    /// It asks no model: a list of models, a look whether anybody is there.
    pub is_side: bool,
    /// What comes nearest.
    pub nearest: Option<TurnRef>,
    /// Where that one differs first.
    pub difference: Option<String>,
    /// How often it came.
    pub count: u64,
}

/// A fault and how often it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultOutcome {
    /// As it was asked for.
    pub fault: String,
    /// How often it happened.
    pub hits: u32,
    /// What the harness did about it: each time it asked for that turn again.
    pub then: Vec<String>,
}

impl ReplayReport {
    /// The report as a file of its own.
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct File<'r> {
            format: u32,
            #[serde(flatten)]
            report: &'r ReplayReport,
        }
        let mut text = serde_json::to_vec_pretty(&File { format: 1, report: self })
            .expect("a report has only string keys");
        text.push(b'\n');
        text
    }

    /// Every request had an answer, every recorded turn was asked for, and every fault happened.
    pub fn is_complete(&self) -> bool {
        self.misses.iter().all(|miss| miss.is_side)
            && self.unasked.is_empty()
            && self.faults.iter().all(|fault| fault.hits > 0)
    }
}

/// How many of a list are shown.
const SHOWN: usize = 5;

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replayed {} of {} recorded exchanges", self.served - self.again, self.recorded)?;
        match self.again {
            0 => writeln!(f)?,
            again => writeln!(f, ", and {again} once more")?,
        }
        list(f, "not asked for", &self.unasked, |place| place.to_string())?;
        list(f, "side calls not asked for", &self.unasked_side, |place| place.to_string())?;
        list(f, "asked for in other words", &self.reworded, |place| place.to_string())?;
        list(f, "named anew", &self.mapped, |(recorded, live)| format!("`{recorded}` is `{live}`"))?;
        list(f, "two names for one", &self.conflicts, |conflict| {
            format!("`{}` is `{}` and `{}`", conflict.recorded, conflict.is, conflict.also)
        })?;
        list(f, "waited for", &self.waits, |wait| {
            let came = if wait.came { "" } else { ", in vain" };
            format!("{}, {} ms{came}", wait.what, wait.ms)
        })?;
        list(f, "faults", &self.faults, |fault| match fault.hits {
            0 => format!("`{}` never happened", fault.fault),
            hits => {
                let times = if hits == 1 { String::new() } else { format!(" {hits} times") };
                let then = match &fault.then[..] {
                    [] => "the harness did not ask again".to_owned(),
                    [then @ .., last] if then.len() >= SHOWN => {
                        format!("{}, …, {last}", then[..SHOWN - 1].join(", "))
                    }
                    then => then.join(", "),
                };
                format!("`{}` happened{times}: {then}", fault.fault)
            }
        })?;
        for miss in &self.misses {
            let times = if miss.count == 1 { String::new() } else { format!(", {} times", miss.count) };
            writeln!(f, "error: no recorded answer to `{}`{times}: {}", miss.request, miss.why)?;
            if let Some(nearest) = &miss.nearest {
                writeln!(f, "  nearest: {nearest}")?;
            }
            if let Some(difference) = &miss.difference {
                writeln!(f, "  differs at {difference}")?;
            }
        }
        if self.misses.iter().any(|miss| !miss.is_side) {
            writeln!(f, "hint: `offshoot verify` shows what changed; `offshoot capture` records it anew")?;
        }
        Ok(())
    }
}

impl fmt::Display for TurnRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {} of lane `{}` ({})", self.turn, self.lane, self.request)
    }
}

fn list<T>(f: &mut fmt::Formatter<'_>, what: &str, items: &[T], line: impl Fn(&T) -> String) -> fmt::Result {
    for item in items.iter().take(SHOWN) {
        writeln!(f, "{what}: {}", line(item))?;
    }
    match items.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(f, "{what}: {more} more"),
    }
}
