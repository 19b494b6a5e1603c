//! A tree of runs to be killed. The next reply of each agent depends only on its prompt and on the number of its replies, so
//! that a provider without state can answer all of them, however often they are resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use session::{Block, Reply, RunId, Usage};
use store::{Filter, ModelCallStatus, Options, RunStatus, Store, StoreError};

use super::verdict::RunSnapshots;
use crate::provider::{self, Provider, ReplyPace};

/// Run id of the root, so that its script can name its jobs.
pub(super) const ROOT: &str = "1m7gsoakroot0000";
pub(super) const PROMPT: &str = "Look around.";
/// Maximum number of agents with a request in flight: main or C, and both jobs.
pub(super) const AT_ONCE: usize = 3;

/// Replies of each agent, by its prompt: a job whose end wakes main, a job that main fetches, an agent that main waits for, and
/// effects in all of them. A reply consists of texts and of calls as `id=name{json}`, divided by ` + `. A reply after `@gate `
/// is sent when the gate opens.
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
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Time between two events of a reply.
const GAP: Duration = Duration::from_millis(1);

/// Prompt of an agent, and number of its replies so far.
type QuestionKey = (String, usize);

/// The provider of a tree.
pub(super) struct TreeProvider {
    provider: Provider,
    journal: PathBuf,
    requests: Arc<Mutex<BTreeMap<QuestionKey, usize>>>,
}

impl TreeProvider {
    pub(super) fn start(journal: PathBuf) -> Result<TreeProvider> {
        let requests = Arc::<Mutex<BTreeMap<QuestionKey, usize>>>::default();
        let (seen, gates) = (Arc::clone(&requests), journal.clone());
        let provider = Provider::start(ReplyPace::Events(GAP), move |body| {
            let (question, line) = line_for(body);
            *seen.lock().expect("lock is not poisoned").entry(question.clone()).or_default() += 1;
            reply_to(&question, wait_for_gate(line, &gates))
        })?;
        Ok(TreeProvider { provider, journal, requests })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.provider.address
    }

    /// Returns the number of requests for each reply.
    pub(super) fn requests(&self) -> BTreeMap<QuestionKey, usize> {
        self.requests.lock().expect("lock is not poisoned").clone()
    }

    /// Returns the requests whose replies are in the journal.
    pub(super) fn answered(&self) -> Result<BTreeSet<QuestionKey>> {
        let mut answered = BTreeSet::new();
        if !self.journal.exists() {
            return Ok(answered);
        }
        let store = Store::open(&self.journal, Options::default())?;
        for run in store.runs(&Filter::default())? {
            let reads = store.run(&run.id);
            let prompt = reads.messages()?.iter().find_map(|message| message.text.clone());
            let prompt = prompt.context("a run has no prompt")?;
            for call in reads.model_calls()?.iter().filter(|call| call.status == ModelCallStatus::Answered) {
                answered.insert((prompt.clone(), call.step as usize - 1));
            }
        }
        Ok(answered)
    }

    /// Checks that replies in the journal were not requested again.
    pub(super) fn check_not_repeated(
        &self,
        answered: &BTreeSet<QuestionKey>,
        before: &BTreeMap<QuestionKey, usize>,
    ) -> Result<()> {
        let after = self.requests();
        for question in answered {
            ensure!(
                before.get(question) == after.get(question),
                "{question:?} was requested again after its reply was stored"
            );
        }
        Ok(())
    }
}

/// Checks that main gets one notice of the job that it does not fetch, and none of the others.
pub(super) fn check_notices(snapshots: &RunSnapshots) -> Result<()> {
    let main = snapshots.get(ROOT).context("there is no main run")?;
    for (job, wanted) in [("2-0", 1), ("2-1", 0), ("4-0", 0)] {
        let notices =
            main.messages.concat().matches(&format!("<job_ended job_id=\\\\\\\"{ROOT}-{job}")).count();
        ensure!(notices == wanted, "main got {notices} notices of {job}");
    }
    Ok(())
}

/// Returns the next reply to a request.
fn line_for(body: &[u8]) -> (QuestionKey, &'static str) {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
    let has_prompt = |who: &str| {
        let first = messages.first().and_then(|message| message["content"].as_array());
        first.into_iter().flatten().any(|block| block["text"] == who)
    };
    let (who, replies) = LINES.iter().find(|(who, _)| has_prompt(who)).copied().unwrap_or(("unknown", &[]));
    ((who.to_owned(), turn), replies.get(turn).copied().unwrap_or("There is no reply for this."))
}

/// Waits until the gate of a reply opens.
fn wait_for_gate<'a>(line: &'a str, journal: &Path) -> &'a str {
    let Some((gate, line)) = line.strip_prefix('@').and_then(|line| line.split_once(' ')) else {
        return line;
    };
    let patience = Instant::now() + PATIENCE;
    while !is_open(gate, journal).unwrap_or(false) && Instant::now() < patience {
        thread::sleep(CHECK_INTERVAL);
    }
    line
}

/// Returns whether a gate is open. `spoke:N`: main has N replies. `waits:N`: main has N replies and waits.
///
/// The journal is opened for each check only: while it is open, a resumed process would not have to recover it.
fn is_open(gate: &str, journal: &Path) -> Result<bool, StoreError> {
    let Some((what, spoken)) = gate.split_once(':') else { return Ok(false) };
    let store = Store::open(journal, Options::default())?;
    let root = store.run(&RunId::new(ROOT));
    let replies = root.model_calls()?;
    let replies = replies.iter().filter(|call| call.status == ModelCallStatus::Answered).count();
    let waits = root.row()?.status == RunStatus::Waiting;
    Ok(spoken.parse() == Ok(replies) && (what == "spoke" || waits))
}

fn reply_to((who, turn): &QuestionKey, line: &str) -> Reply {
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
    fn a_reply_depends_on_the_prompt_and_the_number_of_replies() {
        let request = |who: &str, turns: usize| {
            let mut messages = vec![json!({"role": "user", "content": [{"type": "text", "text": who}]})];
            messages.extend((0..turns).map(|_| json!({"role": "assistant", "content": []})));
            line_for(json!({ "messages": messages }).to_string().as_bytes())
        };
        assert_eq!(request("Work on C.", 1), (("Work on C.".to_owned(), 1), "C is done."));
        assert_eq!(request(PROMPT, 5), ((PROMPT.to_owned(), 5), "All done."));
        assert_eq!(request("Work on D.", 0).0.0, "unknown");
        let launch = reply_to(&(PROMPT.to_owned(), 0), request(PROMPT, 0).1);
        assert_eq!(launch.calls().count(), 2);
        assert_eq!(launch.calls().next().expect("a call").name, "spawn_sub_agent");
    }
}
