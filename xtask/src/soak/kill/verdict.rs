//! Whether a run that was killed is the run it would have been.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The calls that must not happen twice, and therefore may have run.
const UNSAFE: [&str; 4] = ["toolu_d", "toolu_h", "toolu_m2", "toolu_c2"];
/// Each scene has so many of them.
const STAMPS: usize = 2;
/// What is said of them then.
const MAY_HAVE_RUN: &str = "It may have run";

/// Where a process was when it was killed, as far as it had told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moment {
    Starting,
    Asking,
    Listening,
    Calling,
    Waiting,
    Ending,
}

impl Moment {
    /// The moment after an event of this type.
    pub(super) fn after(event: Option<&str>) -> Moment {
        match event {
            None => Moment::Starting,
            Some("provisional") => Moment::Listening,
            Some("message" | "tool_started") => Moment::Calling,
            Some("waiting") => Moment::Waiting,
            Some("run_finished") => Moment::Ending,
            Some(_) => Moment::Asking,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Moment::Starting => "before it said anything",
            Moment::Asking => "while a model was to be asked, or had not said anything yet",
            Moment::Listening => "in the middle of a reply, or while it was written down",
            Moment::Calling => "while tools were to be called, or were at work",
            Moment::Waiting => "while it waited for its jobs",
            Moment::Ending => "after an end, before anything else was said",
        }
    }
}

/// All that must be the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Whole {
    status: Value,
    final_text: Value,
    /// Origin and bytes of each.
    pub(super) messages: Vec<String>,
    /// Id, status and result of each.
    calls: Vec<String>,
    /// Message and id of each call.
    places: Vec<(i64, String)>,
    /// The messages' numbers.
    numbers: Vec<i64>,
    /// Calls without a result.
    open: usize,
}

/// All runs of a scene, by their ids.
pub(super) type Wholes = BTreeMap<String, Whole>;

impl Whole {
    /// What `show` says of a run.
    pub(super) fn of(shown: &Value) -> Result<Whole> {
        let list = |name: &str| shown[name].as_array().with_context(|| format!("`show` has no {name}"));
        let (messages, calls) = (list("messages")?, list("tool_calls")?);
        let number = |value: &Value| value.as_i64().context("a place is no number");
        Ok(Whole {
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

    /// It has come to its end, its messages are numbered without a gap, and each call has one place and one result.
    pub(super) fn is_well_formed(&self) -> Result<()> {
        ensure!(self.status == "completed", "it is {}", self.status);
        ensure!(
            self.numbers.iter().copied().eq((1..).take(self.numbers.len())),
            "numbers: {:?}",
            self.numbers
        );
        let places: BTreeSet<_> = self.places.iter().collect();
        ensure!(places.len() == self.places.len(), "two calls have one place: {:?}", self.places);
        ensure!(self.open == 0, "{} calls have no result", self.open);
        results_follow(&self.messages)
    }

    /// Compares with the run that nobody disturbed, and counts the calls that may have run.
    pub(super) fn compare(&self, undisturbed: &Whole) -> Result<usize> {
        ensure!(self.final_text == undisturbed.final_text, "its last words are {}", self.final_text);
        ensure!(self.places == undisturbed.places, "its calls are at {:?}", self.places);
        same(&self.messages, &undisturbed.messages)?;
        same(&self.calls, &undisturbed.calls)
    }
}

/// Compares all runs with those that nobody disturbed, and counts the calls that may have run.
pub(super) fn compare(now: &Wholes, undisturbed: &Wholes) -> Result<usize> {
    ensure!(now.keys().eq(undisturbed.keys()), "there are the runs {:?}", now.keys());
    let mut may_have_run = 0;
    for (id, whole) in now {
        whole.is_well_formed().with_context(|| format!("run {id}"))?;
        may_have_run += whole.compare(&undisturbed[id]).with_context(|| format!("run {id}"))?;
    }
    Ok(may_have_run)
}

/// How many questions were asked again: so many at most. What is written down is not asked again.
pub(super) fn asked_again(requests: usize, undisturbed: usize, most: usize) -> Result<usize> {
    let again = requests.checked_sub(undisturbed);
    again
        .filter(|again| *again <= most)
        .with_context(|| format!("{requests} requests, not {undisturbed}, and at most {most} again"))
}

/// Equal, but for what says that it may have run; how many do.
fn same(got: &[String], expected: &[String]) -> Result<usize> {
    ensure!(got.len() == expected.len(), "{} entries, not {}: {got:#?}", got.len(), expected.len());
    let mut may_have_run = 0;
    for (got, expected) in got.iter().zip(expected) {
        if got == expected {
            continue;
        }
        let may = got.contains(MAY_HAVE_RUN) && UNSAFE.iter().any(|call| got.contains(call));
        ensure!(may, "this is\n{got}\nand was\n{expected}");
        may_have_run += 1;
    }
    Ok(may_have_run)
}

/// The message after one with calls has a result for each of them, in their order, and nothing else has any.
fn results_follow(messages: &[String]) -> Result<()> {
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

/// A call whose result is written down is never made again, and the ones that must not happen twice do not.
pub(super) fn nothing_twice(points: &[String], stamps: &str) -> Result<()> {
    for (at, line) in points.iter().enumerate() {
        let Some(call) = line.strip_prefix("recorded ") else { continue };
        let again = points[at..].iter().any(|later| *later == format!("effect {call}"));
        ensure!(!again, "{call} was made again after its result was written down");
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

    fn whole(calls: &[(&str, &str)]) -> Whole {
        Whole::of(&shown(calls)).expect("it is a run")
    }

    #[test]
    fn only_what_must_not_happen_twice_may_have_run() {
        let undisturbed = whole(&[("toolu_a", "alpha"), ("toolu_d", "stamped")]);
        undisturbed.is_well_formed().expect("well formed");
        assert_eq!(undisturbed.compare(&undisturbed).expect("same"), 0);
        let may = whole(&[("toolu_a", "alpha"), ("toolu_d", "It may have run.")]);
        assert_eq!(may.compare(&undisturbed).expect("the same but for it"), 1);
        let other = whole(&[("toolu_a", "It may have run."), ("toolu_b", "x")]);
        assert!(other.compare(&undisturbed).is_err());
    }

    #[test]
    fn a_gap_a_double_and_a_missing_result_are_found() {
        let broken = |change: &dyn Fn(&mut Value)| {
            let mut shown = shown(&[("toolu_a", "alpha"), ("toolu_d", "stamped")]);
            change(&mut shown);
            Whole::of(&shown).expect("it is a run").is_well_formed().is_err()
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
    fn what_is_written_down_is_not_done_again() {
        let check = |points: &str, stamps: &str| {
            nothing_twice(&points.lines().map(str::to_owned).collect::<Vec<_>>(), stamps)
        };
        check("effect toolu_a\neffect toolu_a\nrecorded toolu_a\neffect toolu_d", "stamped\n").expect("fine");
        assert!(check("effect toolu_a\nrecorded toolu_a\neffect toolu_a", "").is_err());
        assert!(check("effect toolu_d\neffect toolu_d", "").is_err());
        assert!(check("", "1\n2\n3\n").is_err());
    }

    #[test]
    fn each_kill_may_cost_one_question() {
        assert_eq!(asked_again(6, 6, 2).expect("none"), 0);
        assert_eq!(asked_again(8, 6, 2).expect("two"), 2);
        assert!(asked_again(9, 6, 2).is_err() && asked_again(5, 6, 2).is_err());
    }

    #[test]
    fn a_tree_is_whole_only_with_all_its_runs() {
        let tree = |ids: &[&str]| -> Wholes {
            ids.iter().map(|id| ((*id).to_owned(), whole(&[("toolu_a", "alpha")]))).collect()
        };
        assert_eq!(compare(&tree(&["m", "m-2-0"]), &tree(&["m", "m-2-0"])).expect("the same"), 0);
        assert!(compare(&tree(&["m"]), &tree(&["m", "m-2-0"])).is_err());
        assert!(compare(&tree(&["m", "m-2-1"]), &tree(&["m", "m-2-0"])).is_err());
        let mut other = tree(&["m", "m-2-0"]);
        other.insert("m-2-0".to_owned(), whole(&[("toolu_a", "beta")]));
        assert!(compare(&other, &tree(&["m", "m-2-0"])).is_err());
    }
}
