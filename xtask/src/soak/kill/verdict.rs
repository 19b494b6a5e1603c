//! Compares a killed and resumed run with an undisturbed one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Calls that must not be repeated. After a kill, their result may be unknown.
const UNSAFE: [&str; 4] = ["toolu_d", "toolu_h", "toolu_m2", "toolu_c2"];
/// Number of these calls in each scenario.
const STAMPS: usize = 2;
/// Text of an unknown result.
const MAY_HAVE_RUN: &str = "It may have run";

/// The moment of a kill, by the last printed event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KillMoment {
    Starting,
    Asking,
    Listening,
    Calling,
    Waiting,
    Ending,
}

impl KillMoment {
    /// Returns the moment after an event of this type.
    pub(super) fn after(event: Option<&str>) -> KillMoment {
        match event {
            None => KillMoment::Starting,
            Some("provisional") => KillMoment::Listening,
            Some("message" | "tool_started") => KillMoment::Calling,
            Some("waiting") => KillMoment::Waiting,
            Some("run_finished") => KillMoment::Ending,
            Some(_) => KillMoment::Asking,
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            KillMoment::Starting => "before the first event",
            KillMoment::Asking => "before or during a request, before its first event",
            KillMoment::Listening => "during a reply, or while it was stored",
            KillMoment::Calling => "before or during tool calls",
            KillMoment::Waiting => "while it waited for its jobs",
            KillMoment::Ending => "after an end, before the next event",
        }
    }
}

/// The parts of a run that must be equal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RunSnapshot {
    status: Value,
    final_text: Value,
    /// Origin and bytes of each message.
    pub(super) messages: Vec<String>,
    /// Id, status and result of each call.
    calls: Vec<String>,
    /// Message and id of each call.
    places: Vec<(i64, String)>,
    /// Numbers of the messages.
    numbers: Vec<i64>,
    /// Number of calls without a result.
    open: usize,
}

/// All runs of a scenario, by their ids.
pub(super) type RunSnapshots = BTreeMap<String, RunSnapshot>;

impl RunSnapshot {
    /// Reads the output of `show`.
    pub(super) fn new(shown: &Value) -> Result<RunSnapshot> {
        let list = |name: &str| shown[name].as_array().with_context(|| format!("`show` has no {name}"));
        let (messages, calls) = (list("messages")?, list("tool_calls")?);
        let number = |value: &Value| value.as_i64().context("a position is not a number");
        Ok(RunSnapshot {
            status: shown["run"]["status"].clone(),
            final_text: shown["run"]["final_text"].clone(),
            messages: messages.iter().map(|it| format!("{} {}", it["origin"], it["wire"])).collect(),
            calls: calls.iter().map(|it| format!("{} {} {}", it["id"], it["status"], it["result"])).collect(),
            places: calls
                .iter()
                .map(|it| Ok((number(&it["message"])?, it["id"].to_string())))
                .collect::<Result<_>>()?,
            numbers: messages.iter().map(|it| number(&it["seq"])).collect::<Result<_>>()?,
            open: calls.iter().filter(|it| it["result"].is_null()).count(),
        })
    }

    /// Checks that the run is completed, that its messages are numbered without gaps, and that each call has one position and
    /// one result.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(self.status == "completed", "its status is {}", self.status);
        ensure!(
            self.numbers.iter().copied().eq((1..).take(self.numbers.len())),
            "numbers: {:?}",
            self.numbers
        );
        let places: BTreeSet<_> = self.places.iter().collect();
        ensure!(places.len() == self.places.len(), "two calls have the same position: {:?}", self.places);
        ensure!(self.open == 0, "{} calls have no result", self.open);
        check_result_order(&self.messages)
    }

    /// Compares with an undisturbed run. Returns the number of calls that may have run.
    pub(super) fn compare(&self, undisturbed: &RunSnapshot) -> Result<usize> {
        ensure!(self.final_text == undisturbed.final_text, "its final text is {}", self.final_text);
        ensure!(self.places == undisturbed.places, "its calls are at {:?}", self.places);
        compare_entries(&self.messages, &undisturbed.messages)?;
        compare_entries(&self.calls, &undisturbed.calls)
    }
}

/// Compares all runs with undisturbed ones. Returns the number of calls that may have run.
pub(super) fn compare(now: &RunSnapshots, undisturbed: &RunSnapshots) -> Result<usize> {
    ensure!(now.keys().eq(undisturbed.keys()), "the runs are {:?}", now.keys());
    let mut may_have_run = 0;
    for (id, snapshot) in now {
        snapshot.check().with_context(|| format!("run {id}"))?;
        may_have_run += snapshot.compare(&undisturbed[id]).with_context(|| format!("run {id}"))?;
    }
    Ok(may_have_run)
}

/// Returns the number of repeated requests, at most `most`. A stored reply is not requested again.
pub(super) fn repeated_requests(requests: usize, undisturbed: usize, most: usize) -> Result<usize> {
    let again = requests.checked_sub(undisturbed);
    again
        .filter(|again| *again <= most)
        .with_context(|| format!("{requests} requests, expected {undisturbed} and at most {most} repeated"))
}

/// Checks that entries are equal, apart from unknown results. Returns the number of these.
fn compare_entries(got: &[String], expected: &[String]) -> Result<usize> {
    ensure!(got.len() == expected.len(), "{} entries, not {}: {got:#?}", got.len(), expected.len());
    let mut may_have_run = 0;
    for (got, expected) in got.iter().zip(expected) {
        if got == expected {
            continue;
        }
        let may = got.contains(MAY_HAVE_RUN) && UNSAFE.iter().any(|call| got.contains(call));
        ensure!(may, "this is\n{got}\nexpected\n{expected}");
        may_have_run += 1;
    }
    Ok(may_have_run)
}

/// Checks that each message with calls is followed by their results in order, and that no other message has results.
fn check_result_order(messages: &[String]) -> Result<()> {
    let ids = |message: &str, key: &str| -> Vec<String> {
        let key = format!("\\\"{key}\\\":\\\"");
        message.split(&key).skip(1).filter_map(|rest| rest.split("\\\"").next()).map(str::to_owned).collect()
    };
    let mut called: Vec<String> = Vec::new();
    for message in messages {
        let results = ids(message, "tool_use_id");
        ensure!(results == called, "calls {called:?} have results {results:?}");
        called = ids(message, "id").into_iter().filter(|id| id.starts_with("toolu_")).collect();
    }
    ensure!(called.is_empty(), "the last message calls {called:?}");
    Ok(())
}

/// Checks that calls with a stored result are not repeated, and that unsafe calls happen at most once.
pub(super) fn check_effects(points: &[String], stamps: &str) -> Result<()> {
    for (at, line) in points.iter().enumerate() {
        let Some(call) = line.strip_prefix("recorded ") else { continue };
        let again = points[at..].iter().any(|later| *later == format!("effect {call}"));
        ensure!(!again, "{call} was repeated after its result was stored");
    }
    for call in UNSAFE {
        let times = points.iter().filter(|line| **line == format!("effect {call}")).count();
        ensure!(times <= 1, "{call} happened {times} times");
    }
    let stamped = stamps.lines().count();
    ensure!(stamped <= STAMPS, "{stamped} stamps");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(calls: &[(&str, &str)]) -> Value {
        let call = |(id, result): &(&str, &str)| json!({ "id": id, "message": 2, "status": "done", "result": result });
        let uses: Vec<Value> = calls.iter().map(|(id, _)| json!({ "type": "tool_use", "id": id })).collect();
        let results: Vec<Value> =
            calls.iter().map(|(id, text)| json!({ "tool_use_id": id, "content": text })).collect();
        let message = |(at, content): (usize, Value)| json!({ "seq": at + 1, "origin": "reply", "wire": json!({ "content": content }).to_string() });
        let messages = [json!("hello"), json!(uses), json!(results)];
        json!({
            "run": { "status": "completed", "final_text": "All done." },
            "messages": messages.into_iter().enumerate().map(message).collect::<Vec<_>>(),
            "tool_calls": calls.iter().map(call).collect::<Vec<_>>(),
        })
    }

    fn snapshot(calls: &[(&str, &str)]) -> RunSnapshot {
        RunSnapshot::new(&shown(calls)).expect("a run")
    }

    #[test]
    fn only_unsafe_calls_may_have_run() {
        let undisturbed = snapshot(&[("toolu_a", "alpha"), ("toolu_d", "stamped")]);
        undisturbed.check().expect("well formed");
        assert_eq!(undisturbed.compare(&undisturbed).expect("same"), 0);
        let may = snapshot(&[("toolu_a", "alpha"), ("toolu_d", "It may have run.")]);
        assert_eq!(may.compare(&undisturbed).expect("equal apart from it"), 1);
        let other = snapshot(&[("toolu_a", "It may have run."), ("toolu_b", "x")]);
        assert!(other.compare(&undisturbed).is_err());
    }

    #[test]
    fn a_gap_a_duplicate_and_a_missing_result_are_found() {
        let broken = |change: &dyn Fn(&mut Value)| {
            let mut shown = shown(&[("toolu_a", "alpha"), ("toolu_d", "stamped")]);
            change(&mut shown);
            RunSnapshot::new(&shown).expect("a run").check().is_err()
        };
        assert!(!broken(&|_| ()));
        assert!(broken(&|shown| shown["messages"][2]["seq"] = json!(4)));
        assert!(broken(&|shown| shown["messages"][1]["seq"] = json!(1)));
        assert!(broken(&|shown| shown["tool_calls"][1]["id"] = json!("toolu_a")));
        assert!(broken(&|shown| shown["tool_calls"][1]["result"] = Value::Null));
        assert!(broken(&|shown| shown["messages"][2]["wire"] = json!("{}")));
        assert!(broken(&|shown| shown["run"]["status"] = json!("paused")));
    }

    #[test]
    fn stored_calls_are_not_repeated() {
        let check = |points: &str, stamps: &str| {
            check_effects(&points.lines().map(str::to_owned).collect::<Vec<_>>(), stamps)
        };
        check("effect toolu_a\neffect toolu_a\nrecorded toolu_a\neffect toolu_d", "stamped\n").expect("fine");
        assert!(check("effect toolu_a\nrecorded toolu_a\neffect toolu_a", "").is_err());
        assert!(check("effect toolu_d\neffect toolu_d", "").is_err());
        assert!(check("", "1\n2\n3\n").is_err());
    }

    #[test]
    fn each_kill_may_repeat_one_request() {
        assert_eq!(repeated_requests(6, 6, 2).expect("none"), 0);
        assert_eq!(repeated_requests(8, 6, 2).expect("two"), 2);
        assert!(repeated_requests(9, 6, 2).is_err() && repeated_requests(5, 6, 2).is_err());
    }

    #[test]
    fn a_tree_is_complete_only_with_all_its_runs() {
        let tree = |ids: &[&str]| -> RunSnapshots {
            ids.iter().map(|id| ((*id).to_owned(), snapshot(&[("toolu_a", "alpha")]))).collect()
        };
        assert_eq!(compare(&tree(&["m", "m-2-0"]), &tree(&["m", "m-2-0"])).expect("the same"), 0);
        assert!(compare(&tree(&["m"]), &tree(&["m", "m-2-0"])).is_err());
        assert!(compare(&tree(&["m", "m-2-1"]), &tree(&["m", "m-2-0"])).is_err());
        let mut other = tree(&["m", "m-2-0"]);
        other.insert("m-2-0".to_owned(), snapshot(&[("toolu_a", "beta")]));
        assert!(compare(&other, &tree(&["m", "m-2-0"])).is_err());
    }
}
