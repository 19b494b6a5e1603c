//! A tree of runs to be killed: what every agent says next follows from what it was told first and how often it has
//! spoken, so that a provider who remembers nothing can answer all of them, however often they are taken up again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use session::{Block, Reply, RunId, Usage};
use store::{Filter, ModelCallStatus, Options, RunStatus, Store, StoreError};

use super::verdict::Wholes;
use crate::provider::{self, Pace, Provider};

/// What its root is called, so that its script can name its jobs.
pub(super) const ROOT: &str = "1m7gsoakroot0000";
pub(super) const PROMPT: &str = "Look around.";
/// How many of its agents may wait for an answer at the same time: main or C, and both jobs.
pub(super) const AT_ONCE: usize = 3;

/// One job whose end wakes main, one that it fetches, one agent that it waits for, and effects in all of them. A line is
/// texts and calls as `id=name{json}`, with ` + ` between them; one behind `@gate ` is said when it may pass.
const LINES: &[(&str, &[&str])] = &[
    (
        PROMPT,
        &[
            "Two jobs. + \
             toolu_a=spawn_sub_agent{\"prompt\":\"Work on A.\",\"run_in_background\":true} + \
             toolu_b=spawn_sub_agent{\"prompt\":\"Work on B.\",\"run_in_background\":true}",
            "One that I wait for. + toolu_c=spawn_sub_agent{\"prompt\":\"Work on C.\"}",
            "toolu_m1=write{\"path\":\"m.txt\",\"content\":\"main\"} + toolu_m2=stamp{\"path\":\"stamps.txt\"}",
            "toolu_m3=job_output{\"job_id\":\"1m7gsoakroot0000-2-1\",\"block\":true}",
            "I wait for A.",
            "All done.",
        ],
    ),
    ("Work on A.", &["toolu_a1=write{\"path\":\"a-out.txt\",\"content\":\"A\"}", "@waits:5 A is done."]),
    (
        "Work on B.",
        &[
            "toolu_b1=write{\"path\":\"b-out.txt\",\"content\":\"B\"} + toolu_b2=read{\"path\":\"a.txt\"}",
            "@spoke:4 B is done.",
        ],
    ),
    (
        "Work on C.",
        &[
            "toolu_c1=write{\"path\":\"c-out.txt\",\"content\":\"C\"} + toolu_c2=stamp{\"path\":\"stamps.txt\"}",
            "C is done.",
        ],
    ),
];

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// Between two events of an answer.
const GAP: Duration = Duration::from_millis(1);

/// Who asked, and how often it had spoken.
type Asked = (String, usize);

/// The provider of a tree.
pub(super) struct Lines {
    provider: Provider,
    journal: PathBuf,
    asked: Arc<Mutex<BTreeMap<Asked, usize>>>,
}

impl Lines {
    pub(super) fn start(journal: PathBuf) -> Result<Lines> {
        let asked = Arc::<Mutex<BTreeMap<Asked, usize>>>::default();
        let (seen, gates) = (Arc::clone(&asked), journal.clone());
        let provider = Provider::start(Pace::Events(GAP), move |body| {
            let (asked, line) = line_for(body);
            *seen.lock().unwrap_or_else(PoisonError::into_inner).entry(asked.clone()).or_default() += 1;
            said(&asked, when_it_may(line, &gates))
        })?;
        Ok(Lines { provider, journal, asked })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.provider.address
    }

    /// How often each line was asked for.
    pub(super) fn asked(&self) -> BTreeMap<Asked, usize> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The questions whose answers are in the journal.
    pub(super) fn answered(&self) -> Result<BTreeSet<Asked>> {
        let mut answered = BTreeSet::new();
        if !self.journal.exists() {
            return Ok(answered);
        }
        let store = Store::open(&self.journal, Options::default())?;
        for run in store.runs(&Filter::default())? {
            let reads = store.run(&run.id);
            let prompt = reads.messages()?.iter().find_map(|message| message.text.clone());
            let prompt = prompt.context("a run was told nothing")?;
            for call in reads.model_calls()?.iter().filter(|call| call.status == ModelCallStatus::Answered) {
                answered.insert((prompt.clone(), call.step as usize - 1));
            }
        }
        Ok(answered)
    }

    /// What was in the journal before was not asked for again.
    pub(super) fn never_again(
        &self,
        answered: &BTreeSet<Asked>,
        before: &BTreeMap<Asked, usize>,
    ) -> Result<()> {
        let after = self.asked();
        for asked in answered {
            ensure!(before.get(asked) == after.get(asked), "{asked:?} was asked again, and was written down");
        }
        Ok(())
    }
}

/// Main is told of the job that it does not fetch, once, and never of the one that it does.
pub(super) fn is_told_once(wholes: &Wholes) -> Result<()> {
    let main = wholes.get(ROOT).context("there is no main run")?;
    for (job, wanted) in [("2-0", 1), ("2-1", 0), ("4-0", 0)] {
        let told = main.messages.concat().matches(&format!("<job_ended job_id=\\\\\\\"{ROOT}-{job}")).count();
        ensure!(told == wanted, "main was told of {job} {told} times");
    }
    Ok(())
}

/// What is to be said next to a request.
fn line_for(body: &[u8]) -> (Asked, &'static str) {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
    let told = |who: &str| {
        let first = messages.first().and_then(|message| message["content"].as_array());
        first.into_iter().flatten().any(|block| block["text"] == who)
    };
    let (who, says) = LINES.iter().find(|(who, _)| told(who)).copied().unwrap_or(("nobody", &[]));
    ((who.to_owned(), turn), says.get(turn).copied().unwrap_or("There is no line for this."))
}

/// Waits at the gate of a line that has one.
fn when_it_may<'a>(line: &'a str, journal: &Path) -> &'a str {
    let Some((gate, line)) = line.strip_prefix('@').and_then(|line| line.split_once(' ')) else {
        return line;
    };
    let patience = Instant::now() + PATIENCE;
    while !may_pass(gate, journal).unwrap_or(false) && Instant::now() < patience {
        thread::sleep(LOOK);
    }
    line
}

/// `spoke:N`: main has spoken N times. `waits:N`: and waits.
///
/// The journal is opened anew for each look: while somebody has it open, nobody who comes back has to mend it.
fn may_pass(gate: &str, journal: &Path) -> Result<bool, StoreError> {
    let Some((what, spoken)) = gate.split_once(':') else { return Ok(false) };
    let store = Store::open(journal, Options::default())?;
    let root = store.run(&RunId::new(ROOT));
    let replies = root.model_calls()?;
    let replies = replies.iter().filter(|call| call.status == ModelCallStatus::Answered).count();
    let waits = root.row()?.status == RunStatus::Waiting;
    Ok(spoken.parse() == Ok(replies) && (what == "spoke" || waits))
}

fn said((who, turn): &Asked, line: &str) -> Reply {
    let blocks: Vec<Block> = line.split(" + ").map(block).collect();
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    provider::reply(format!("msg_{}_{turn}", who.replace(' ', "_")), blocks, usage)
}

fn block(part: &str) -> Block {
    let call = part.split_once('=').and_then(|(id, call)| Some((id, call.split_once('{')?.0, call)));
    match call {
        Some((id, name, call)) if id.starts_with("toolu_") => provider::call(id, name, &call[name.len()..]),
        _ => provider::text(part),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_follows_from_who_asks_and_how_often_it_has_spoken() {
        let request = |who: &str, turns: usize| {
            let mut messages = vec![json!({"role": "user", "content": [{"type": "text", "text": who}]})];
            messages.extend((0..turns).map(|_| json!({"role": "assistant", "content": []})));
            line_for(json!({ "messages": messages }).to_string().as_bytes())
        };
        assert_eq!(request("Work on C.", 1), (("Work on C.".to_owned(), 1), "C is done."));
        assert_eq!(request(PROMPT, 5), ((PROMPT.to_owned(), 5), "All done."));
        assert_eq!(request("Work on D.", 0).0.0, "nobody");
        let launch = said(&(PROMPT.to_owned(), 0), request(PROMPT, 0).1);
        assert_eq!(launch.calls().count(), 2);
        assert_eq!(launch.calls().next().expect("a call").name, "spawn_sub_agent");
    }
}
