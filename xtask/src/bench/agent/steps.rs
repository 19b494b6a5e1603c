//! Durable steps per second of the journal, compared with the same rows and commits in plain SQLite.
//!
//! A step is one turn of an agent: the request with the last results, the reply with a call, the start of the call, and its
//! result. Each of the four is on the disk before the next begins.

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

use super::sample::StepSpeeds;

/// Numbers of concurrent runs, and of the steps of each run.
const RUNS: [(usize, u32); 3] = [(1, 400), (8, 200), (64, 100)];
/// Bytes of each message, call and result.
const PAYLOAD: usize = 1024;
/// Displayed text of a reply.
const TEXT: &str = "I look at the next of them.";
/// Number of commits of a step.
pub(super) const COMMITS: u32 = 4;
/// Rows that a step writes or changes, by commit; `true` for those with a payload.
const ROWS: [&[bool]; COMMITS as usize] = [
    &[true, false],            // the results as a message, and the request
    &[true, true, true, true], // the attempt, the reply in the request's row, its message, its call
    &[false],                  // the start of the call
    &[true],                   // its result
];

/// Returns the number of rows of a step.
pub(super) fn rows() -> usize {
    ROWS.iter().map(|rows| rows.len()).sum()
}

/// Measures the methods in turn, in an order that rotates from round to round.
pub(super) fn measure(folder: &Path, rounds: u16) -> Result<Vec<StepSpeeds>> {
    let methods: [WriteMethod; 3] = [journal, group_commit, bulk];
    let mut speeds: Vec<StepSpeeds> = RUNS.iter().map(|(runs, _)| StepSpeeds::new(*runs)).collect();
    for round in 0..usize::from(rounds) {
        for (speed, (runs, steps)) in speeds.iter_mut().zip(RUNS) {
            let mut seen = [0.0; 3];
            for turn in 0..methods.len() {
                let at = (turn + round) % methods.len();
                let place = tempfile::tempdir_in(folder)?;
                let seconds = methods[at](&place.path().join("store.db"), runs, steps)?;
                seen[at] = runs as f64 * f64::from(steps) / seconds;
            }
            let [offshoot, group, bulk] = seen;
            eprintln!(
                "round {}, runs: {runs}: {offshoot:.0} steps/s, group commit {group:.0}, bulk {bulk:.0}",
                round + 1
            );
            speed.offshoot.push(offshoot);
            speed.group.push(group);
            speed.bulk.push(bulk);
        }
    }
    Ok(speeds)
}

/// Writes the steps of runs into a new database. Returns the time in seconds.
type WriteMethod = fn(&Path, usize, u32) -> Result<f64>;

/// Creates a runtime with as many threads as `offshoot run`.
fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?)
}

/// Group commit with plain SQLite: each run submits the rows of one commit and waits, as with the journal.
fn group_commit(path: &Path, runs: usize, steps: u32) -> Result<f64> {
    let writer = Arc::new(store::bench::PlainGroups::open(path)?);
    runtime()?.block_on(async {
        let begin = Instant::now();
        let tasks: Vec<_> = (0..runs)
            .map(|_| {
                let (writer, payload) = (writer.clone(), payload().into_bytes());
                tokio::spawn(async move {
                    let bytes = |has_payload: &bool| if *has_payload { payload.clone() } else { Vec::new() };
                    for rows in (0..steps).flat_map(|_| ROWS) {
                        writer.commit(rows.iter().map(bytes).collect()).await?;
                    }
                    Ok::<(), store::StoreError>(())
                })
            })
            .collect();
        for task in tasks {
            task.await.context("a run panicked")??;
        }
        Ok(begin.elapsed().as_secs_f64())
    })
}

/// Bulk writes with plain SQLite: each commit has the rows of all runs, and no run waits.
fn bulk(path: &Path, runs: usize, steps: u32) -> Result<f64> {
    let payload = payload();
    let bytes = |has_payload: &bool| if *has_payload { payload.as_bytes() } else { &[] };
    let group = |rows: &&[bool]| rows.iter().map(bytes).collect::<Vec<_>>().repeat(runs);
    let groups: Vec<Vec<&[u8]>> = ROWS.iter().map(group).collect();
    let raw = store::bench::PlainSqlite::open(path)?;
    let begin = Instant::now();
    raw.write(steps, &groups)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// The journal, with the functions that the kernel uses.
fn journal(path: &Path, runs: usize, steps: u32) -> Result<f64> {
    let store = Store::open(path, Options::default())?;
    let seconds = runtime()?.block_on(async {
        let writers: Vec<StepWriter> = (0..runs).map(|n| StepWriter::new(&store, n)).collect();
        for writer in &writers {
            writer.start().await?;
        }
        let begin = Instant::now();
        let tasks: Vec<_> = writers
            .into_iter()
            .map(|writer| tokio::spawn(async move { writer.write(steps).await }))
            .collect();
        for task in tasks {
            task.await.context("a run panicked")??;
        }
        Ok::<f64, anyhow::Error>(begin.elapsed().as_secs_f64())
    })?;
    let kept: u64 = store.runs(&Filter::default())?.iter().map(|run| run.own.usage.output).sum();
    ensure!(kept == runs as u64 * u64::from(steps), "{kept} steps are stored");
    Ok(seconds)
}

/// A run that writes steps.
struct StepWriter {
    store: Store,
    run: RunId,
    head: Head,
    digest: Digest,
    payload: String,
}

impl StepWriter {
    fn new(store: &Store, n: usize) -> StepWriter {
        let payload = payload();
        StepWriter {
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

    async fn write(&self, steps: u32) -> Result<()> {
        for step in 1..=steps {
            let call = self.store.begin_model_call(self.request(step)).await?;
            let seq = self.store.finish_model_call(call, self.attempt(), self.reply(step)).await?;
            let message = seq.context("a reply is a message")?;
            let key = CallKey { run: self.run.clone(), message, position: 0 };
            self.store.start_calls(&self.run, std::slice::from_ref(&key), NOW).await?;
            self.store.finish_call(self.result(key, step)).await?;
        }
        Ok(())
    }

    fn message(&self, role: Role, origin: Origin) -> NewMessage {
        let text = (origin == Origin::Reply).then(|| TEXT.to_owned());
        NewMessage { role, origin, bytes: self.payload.clone().into_bytes(), text, at: NOW }
    }

    fn request(&self, step: u32) -> NewModelCall {
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

    fn reply(&self, step: u32) -> NewReply {
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

    fn result(&self, key: CallKey, step: u32) -> FinishedCall {
        let blocks = vec![Block::Text { text: self.payload.clone() }];
        let call = CallId::new(format!("toolu_{step}"));
        let result = ToolResult { call, blocks, is_error: false, server: false };
        FinishedCall {
            key,
            status: CallStatus::Done,
            result,
            preview: None,
            seen: Vec::new(),
            folders: Vec::new(),
            at: NOW,
        }
    }
}

/// An arbitrary time.
const NOW: Millis = Millis(1_770_000_000_000);

/// Returns an arbitrary payload.
fn payload() -> String {
    "the cutting stands in wet sand; ".repeat(PAYLOAD / 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_methods_write() {
        assert_eq!((payload().len(), rows()), (PAYLOAD, 8));
        let place = tempfile::tempdir().expect("a folder");
        assert!(journal(&place.path().join("store.db"), 3, 2).expect("written") > 0.0);
        assert!(group_commit(&place.path().join("group.db"), 3, 2).expect("written") > 0.0);
        assert!(bulk(&place.path().join("raw.db"), 3, 2).expect("written") > 0.0);
        // 3 runs, 2 steps, 6 rows with a payload in each
        let size = std::fs::metadata(place.path().join("raw.db")).expect("a database").len();
        assert!(size >= 36 * PAYLOAD as u64, "{size} bytes");
    }
}
