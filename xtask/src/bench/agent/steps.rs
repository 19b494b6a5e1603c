//! Durable steps a second: the journal through its own doors, and over SQLite alone the same rows in the same commits.
//!
//! A step is what one turn of an agent writes: the question with the last results, the reply with a call, the start
//! of the call, its result. Each of the four is on the disk before the next begins.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use session::{Block, CallId, Role, RunId, ThreadId, ToolResult, Usage};
use store::{
    CallKey, CallStatus, Digest, Filter, FinishedCall, Head, Lease, Millis, NewAttempt, NewMessage,
    NewModelCall, NewReply, NewRun, NewThread, NewToolCall, Options, Origin, Policy, Purpose, RunKind,
    RunThread, Seq, Store,
};

use super::table::Speed;

/// How many runs go on at once, and how many steps each of them takes.
const RUNS: [(usize, u32); 3] = [(1, 400), (8, 200), (64, 100)];
/// Bytes of everything that is said.
const PAYLOAD: usize = 1024;
/// What is shown of a reply, beside its bytes.
const TEXT: &str = "I look at the next of them.";
/// The commits that a step waits for.
pub(super) const COMMITS: u32 = 4;
/// The rows that a step writes or changes, by commit; `true` for those that hold something that was said.
const ROWS: [&[bool]; COMMITS as usize] = [
    &[true, false],            // the results as a message, and the question
    &[true, true, true, true], // the attempt, the reply in the question's row, its message, the call it asks for
    &[false],                  // the call is at work
    &[true],                   // its result
];

/// The rows of a step.
pub(super) fn rows() -> usize {
    ROWS.iter().map(|rows| rows.len()).sum()
}

/// Measures each in turn, in an order that rotates from round to round.
pub(super) fn measure(folder: &Path, rounds: u16) -> Result<Vec<Speed>> {
    let ways: [Way; 3] = [journal, group_commit, bulk];
    let mut speeds: Vec<Speed> = RUNS.iter().map(|(runs, _)| Speed::new(*runs)).collect();
    for round in 0..usize::from(rounds) {
        for (speed, (runs, steps)) in speeds.iter_mut().zip(RUNS) {
            let mut seen = [0.0; 3];
            for turn in 0..ways.len() {
                let at = (turn + round) % ways.len();
                let place = tempfile::tempdir_in(folder)?;
                let seconds = ways[at](&place.path().join("store.db"), runs, steps)?;
                seen[at] = runs as f64 * f64::from(steps) / seconds;
            }
            let [ours, group, bulk] = seen;
            eprintln!(
                "round {}, runs: {runs}: {ours:.0} steps/s, group commit {group:.0}, bulk {bulk:.0}",
                round + 1
            );
            speed.ours.push(ours);
            speed.group.push(group);
            speed.bulk.push(bulk);
        }
    }
    Ok(speeds)
}

/// Writes the steps of so many runs into a new database; returns seconds.
type Way = fn(&Path, usize, u32) -> Result<f64>;

/// As many threads as `offshoot run` has.
fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?)
}

/// Group commit over SQLite alone: each run hands over the rows of one commit and waits, as it does with the journal.
fn group_commit(path: &Path, runs: usize, steps: u32) -> Result<f64> {
    let writer = Arc::new(store::bench::PlainGroups::open(path)?);
    runtime()?.block_on(async {
        let begin = Instant::now();
        let walks: Vec<_> = (0..runs)
            .map(|_| {
                let (writer, payload) = (writer.clone(), payload().into_bytes());
                tokio::spawn(async move {
                    let bytes = |said: &bool| if *said { payload.clone() } else { Vec::new() };
                    for rows in (0..steps).flat_map(|_| ROWS) {
                        writer.commit(rows.iter().map(bytes).collect()).await?;
                    }
                    Ok::<(), store::StoreError>(())
                })
            })
            .collect();
        for walk in walks {
            walk.await.context("a run panicked")??;
        }
        Ok(begin.elapsed().as_secs_f64())
    })
}

/// SQLite alone with nobody who waits: each commit holds the rows of all runs.
fn bulk(path: &Path, runs: usize, steps: u32) -> Result<f64> {
    let payload = payload();
    let bytes = |said: &bool| if *said { payload.as_bytes() } else { &[] };
    let group = |rows: &&[bool]| rows.iter().map(bytes).collect::<Vec<_>>().repeat(runs);
    let groups: Vec<Vec<&[u8]>> = ROWS.iter().map(group).collect();
    let raw = store::bench::PlainSqlite::open(path)?;
    let begin = Instant::now();
    raw.write(steps, &groups)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// The journal, through the doors that the kernel uses.
fn journal(path: &Path, runs: usize, steps: u32) -> Result<f64> {
    let store = Store::open(path, Options::default())?;
    let seconds = runtime()?.block_on(async {
        let walkers: Vec<Walker> = (0..runs).map(|n| Walker::new(&store, n)).collect();
        for walker in &walkers {
            walker.start().await?;
        }
        let begin = Instant::now();
        let walks: Vec<_> =
            walkers.into_iter().map(|walker| tokio::spawn(async move { walker.walk(steps).await })).collect();
        for walk in walks {
            walk.await.context("a run panicked")??;
        }
        Ok::<f64, anyhow::Error>(begin.elapsed().as_secs_f64())
    })?;
    let kept: u64 = store.runs(&Filter::default())?.iter().map(|run| run.own.usage.output).sum();
    ensure!(kept == runs as u64 * u64::from(steps), "{kept} steps were kept");
    Ok(seconds)
}

/// A run that takes step after step.
struct Walker {
    store: Store,
    run: RunId,
    head: Head,
    digest: Digest,
    payload: String,
}

impl Walker {
    fn new(store: &Store, n: usize) -> Walker {
        let payload = payload();
        Walker {
            store: store.clone(),
            run: RunId::new(format!("06fyqz3k8m4t{n:04}")),
            head: Head::new(payload.as_bytes()),
            digest: Digest::of(payload.as_bytes()),
            payload,
        }
    }

    async fn start(&self) -> Result<()> {
        let thread = ThreadId::new(self.run.as_str());
        let run = NewRun {
            id: self.run.clone(),
            thread: RunThread::New(NewThread { id: thread, title: String::new(), workspace: String::new() }),
            kind: RunKind::Main,
            parent: None,
            task: None,
            spawned_by: None,
            background: false,
            agent: "main".to_owned(),
            model: "claude-sonnet-5-5".to_owned(),
            provider: "anthropic".to_owned(),
            settings: b"{}".to_vec(),
            chain: self.run.to_string(),
            fork: None,
            depth: 0,
            messages: vec![self.message(Role::User, Origin::Prompt)],
            at: NOW,
        };
        Ok(self.store.start_run(run, Lease { pid: std::process::id(), start: 1 }).await.map(drop)?)
    }

    async fn walk(&self, steps: u32) -> Result<()> {
        for step in 1..=steps {
            let asked = self.store.begin_model_call(self.question(step)).await?;
            let seq = self.store.finish_model_call(asked, self.attempt(), self.answer(step)).await?;
            let message = seq.context("a reply is a message")?;
            let key = CallKey { run: self.run.clone(), message, position: 0 };
            self.store.start_calls(&self.run, std::slice::from_ref(&key), NOW).await?;
            self.store.finish_call(self.finished(key, step)).await?;
        }
        Ok(())
    }

    fn message(&self, role: Role, origin: Origin) -> NewMessage {
        let text = (origin == Origin::Reply).then(|| TEXT.to_owned());
        NewMessage { role, origin, bytes: self.payload.clone().into_bytes(), text, at: NOW }
    }

    fn question(&self, step: u32) -> NewModelCall {
        NewModelCall {
            run: self.run.clone(),
            step,
            purpose: Purpose::Turn,
            head: self.head.clone(),
            from: Seq::FIRST,
            to: None,
            marks: "2".to_owned(),
            request_sha256: self.digest,
            request_len: 10_000,
            model: "claude-sonnet-5-5".to_owned(),
            provider: "anthropic".to_owned(),
            reserved_microusd: 500,
            reserved_tokens: 0,
            within: Vec::new(),
            delivers: Vec::new(),
            results: Some(self.message(Role::User, Origin::Results)),
            at: NOW,
        }
    }

    fn attempt(&self) -> NewAttempt {
        NewAttempt {
            status: Some(200),
            ending: "complete".to_owned(),
            error: None,
            retry_after_ms: None,
            response: self.payload.clone().into_bytes(),
            started_at: NOW,
            first_byte_at: Some(NOW),
            ended_at: NOW,
        }
    }

    fn answer(&self, step: u32) -> NewReply {
        NewReply {
            reply: self.payload.clone().into_bytes(),
            usage: Usage { input: 10, output: 1, ..Usage::default() },
            cost_microusd: Some(100),
            message: Some(self.message(Role::Assistant, Origin::Reply)),
            calls: vec![NewToolCall {
                call: CallId::new(format!("toolu_{step}")),
                name: "read".to_owned(),
                input: self.payload.clone().into_bytes(),
                policy: Policy::Pure,
            }],
        }
    }

    fn finished(&self, key: CallKey, step: u32) -> FinishedCall {
        let blocks = vec![Block::Text { text: self.payload.clone() }];
        let call = CallId::new(format!("toolu_{step}"));
        let result = ToolResult { call, blocks, is_error: false, server: false };
        FinishedCall { key, status: CallStatus::Done, result, preview: None, seen: Vec::new(), at: NOW }
    }
}

/// Some moment.
const NOW: Millis = Millis(1_770_000_000_000);

/// Something that was said.
fn payload() -> String {
    "the cutting stands in wet sand; ".repeat(PAYLOAD / 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_write_what_they_are_asked_to() {
        assert_eq!((payload().len(), rows()), (PAYLOAD, 8));
        let place = tempfile::tempdir().expect("a folder");
        assert!(journal(&place.path().join("store.db"), 3, 2).expect("walked") > 0.0);
        assert!(group_commit(&place.path().join("group.db"), 3, 2).expect("written") > 0.0);
        assert!(bulk(&place.path().join("raw.db"), 3, 2).expect("written") > 0.0);
        // 3 runs, 2 steps, 6 rows with words in each
        let size = std::fs::metadata(place.path().join("raw.db")).expect("a database").len();
        assert!(size >= 36 * PAYLOAD as u64, "{size} bytes");
    }
}
