//! The report of a replay.

use std::fmt;

use serde::Serialize;

use super::names::NameConflict;

/// The report of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// Number of exchanges in the recording.
    pub recorded: usize,
    /// Number of requests that got a recorded reply.
    pub served: u64,
    /// Number of these that repeated a request whose attempts had all been replayed.
    #[serde(rename = "again")]
    pub repeated: u64,
    /// Turns of agents that were never requested.
    #[serde(rename = "unasked")]
    pub unrequested: Vec<TurnRef>,
    /// Side calls that were never requested. Their number is not judged.
    #[serde(rename = "unasked_side")]
    pub unrequested_side: Vec<TurnRef>,
    /// First turns that were requested with another text.
    pub reworded: Vec<TurnRef>,
    /// Recorded and live names that differ.
    #[serde(rename = "mapped")]
    pub renamed: Vec<(String, String)>,
    /// Contradictions between names.
    pub conflicts: Vec<NameConflict>,
    /// Long waits.
    pub waits: Vec<ReplayWait>,
    /// Requests without a recorded reply.
    pub misses: Vec<ReplayMiss>,
    /// Faults and their effects.
    pub faults: Vec<FaultOutcome>,
}

/// A recorded turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TurnRef {
    /// The lane.
    pub lane: String,
    /// 1-based number in the lane.
    pub turn: u32,
    /// The first request for the turn.
    pub request: String,
}

/// A wait that was longer than usual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayWait {
    /// The awaited event.
    #[serde(rename = "what")]
    pub awaited: String,
    /// Duration in milliseconds.
    pub ms: u64,
    /// True if the event occurred in time.
    #[serde(rename = "came")]
    pub is_met: bool,
}

/// A request without a recorded reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayMiss {
    /// Method and path, such as `POST /v1/messages`.
    pub request: String,
    /// The reason.
    #[serde(rename = "why")]
    pub reason: String,
    /// True if the request asks no model, such as a list of models or a health check.
    pub is_side: bool,
    /// The most similar turn.
    pub nearest: Option<TurnRef>,
    /// The first difference from that turn's request.
    pub difference: Option<String>,
    /// Number of equal misses.
    pub count: u64,
}

/// A fault and its effects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultOutcome {
    /// The fault as it was given.
    pub fault: String,
    /// Number of times it was applied.
    pub hits: u32,
    /// The harness's retries of that turn.
    #[serde(rename = "then")]
    pub retries: Vec<String>,
}

impl ReplayReport {
    /// Encodes the report as a JSON file.
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

    /// Returns whether each request got a reply, each recorded turn was requested, and each fault was applied.
    pub fn is_complete(&self) -> bool {
        self.misses.iter().all(|miss| miss.is_side)
            && self.unrequested.is_empty()
            && self.faults.iter().all(|fault| fault.hits > 0)
    }
}

/// Maximum number of printed items of a list.
const MAX_ITEMS: usize = 5;

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replayed {} of {} recorded exchanges", self.served - self.repeated, self.recorded)?;
        match self.repeated {
            0 => writeln!(f)?,
            1 => writeln!(f, "; answered 1 repeated request")?,
            repeated => writeln!(f, "; answered {repeated} repeated requests")?,
        }
        write_list(f, "not requested", &self.unrequested, TurnRef::to_string)?;
        write_list(f, "side call not requested", &self.unrequested_side, TurnRef::to_string)?;
        write_list(f, "requested with another text", &self.reworded, TurnRef::to_string)?;
        write_list(f, "renamed", &self.renamed, |(recorded, live)| format!("`{recorded}` to `{live}`"))?;
        write_list(f, "name conflict", &self.conflicts, |conflict| {
            format!("`{}` is both `{}` and `{}`", conflict.recorded, conflict.is, conflict.also)
        })?;
        write_list(f, "waited", &self.waits, |wait| {
            let end = if wait.is_met { "" } else { "; timed out" };
            format!("{} ms for {}{end}", wait.ms, wait.awaited)
        })?;
        write_list(f, "fault", &self.faults, FaultOutcome::to_string)?;
        self.misses.iter().try_for_each(|miss| miss.fmt(f))?;
        if self.misses.iter().any(|miss| !miss.is_side) {
            writeln!(
                f,
                "hint: `offshoot verify` shows what changed; `offshoot capture` makes a new recording"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for TurnRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {} of lane `{}` ({})", self.turn, self.lane, self.request)
    }
}

impl fmt::Display for FaultOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hits {
            0 => return write!(f, "`{}` was never applied", self.fault),
            1 => write!(f, "`{}` was applied; ", self.fault)?,
            hits => write!(f, "`{}` was applied {hits} times; ", self.fault)?,
        }
        match &self.retries[..] {
            [] => f.write_str("the harness did not retry"),
            [retries @ .., last] if retries.len() >= MAX_ITEMS => {
                write!(f, "{}, …, {last}", retries[..MAX_ITEMS - 1].join(", "))
            }
            retries => f.write_str(&retries.join(", ")),
        }
    }
}

impl fmt::Display for ReplayMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.count == 1 { String::new() } else { format!(" ({} times)", self.count) };
        writeln!(f, "error: no recorded reply for `{}`{times}: {}", self.request, self.reason)?;
        if let Some(nearest) = &self.nearest {
            writeln!(f, "  nearest: {nearest}")?;
        }
        if let Some(difference) = &self.difference {
            writeln!(f, "  differs at {difference}")?;
        }
        Ok(())
    }
}

fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    items: &[T],
    line: impl Fn(&T) -> String,
) -> fmt::Result {
    for item in items.iter().take(MAX_ITEMS) {
        writeln!(f, "{title}: {}", line(item))?;
    }
    match items.len().saturating_sub(MAX_ITEMS) {
        0 => Ok(()),
        more => writeln!(f, "{title}: {more} more"),
    }
}
