//! Trees of runs: sub-agents that are waited for, that work in the background, that are stopped and taken up again.

mod bounds;
mod fork_agents;
mod forking;
mod jobs;
mod many;
mod messaging;
mod play;
mod restarts;
mod shapes;
mod side_work;
mod spawning;
mod stopping;
mod unkept;

use std::sync::{Arc, Mutex};

use serde_json::Value;
use session::RunId;
use store::{Filter, RunStatus, Store};

use super::{Nobody, Room, laws, tools};
use crate::definition::Agent;
use crate::*;

use play::Play;

/// A journal, a workspace, and a model that knows everybody's lines.
struct Stage {
    room: Room,
    play: Arc<Play>,
    tree_limits: TreeLimits,
    agents: Vec<Agent>,
    rules: PermissionRules,
    asker: Arc<dyn Approver>,
    events: Arc<dyn EventSink>,
    stop_handle: Mutex<StopHandle>,
}

impl Stage {
    /// The replies of each agent, by its prompt.
    fn new(lines: &[(&str, &[&str])]) -> Self {
        Self {
            room: Room::new(),
            play: Arc::new(Play::new(lines)),
            tree_limits: TreeLimits::default(),
            agents: Vec::new(),
            rules: PermissionRules::default(),
            asker: Arc::new(NoApprover),
            events: Arc::new(Nobody),
            stop_handle: Mutex::default(),
        }
    }

    fn kernel(&self) -> Kernel {
        let own = crate::tools::builtin().into_iter().chain(tools::all(&self.room.state));
        Kernel {
            model: self.play.clone(),
            tools: Arc::new(Toolbox::new(own.collect())),
            agents: self.agents.clone().into(),
            tiers: Arc::new([("haiku".to_owned(), "claude-haiku-4-5".to_owned())].into()),
            tree_limits: self.tree_limits.clone(),
            rules: Arc::new(self.rules.clone()),
            asker: self.asker.clone(),
            events: self.events.clone(),
            ..self.room.kernel()
        }
    }

    fn store(&self) -> &Store {
        &self.room.store
    }

    async fn start(&self, prompt: &str) -> RunId {
        let start = StartRequest { id: Some(RunId::new("m")), ..self.room.start_of(prompt) };
        self.kernel().start(start).await.expect("started")
    }

    /// Plays it from the beginning.
    async fn run(&self, prompt: &str) -> RunOutcome {
        let run = self.start(prompt).await;
        self.go(&run).await
    }

    /// Continues the run.
    async fn resume(&self, prompt: Option<&str>) -> RunOutcome {
        let run = RunId::new("m");
        self.kernel().resume(&run, prompt).await.expect("it can be taken up");
        self.go(&run).await
    }

    async fn go(&self, run: &RunId) -> RunOutcome {
        *self.stop_handle.lock().expect("lock is not poisoned") = StopHandle::new();
        self.kernel().run(run, &ResumeOverrides::default(), &self.stop_handle()).await.expect("it runs")
    }

    fn stop_handle(&self) -> StopHandle {
        self.stop_handle.lock().expect("lock is not poisoned").clone()
    }

    fn row(&self, run: &str) -> store::Run {
        self.store().run(&RunId::new(run)).row().expect("a row")
    }

    fn status(&self, run: &str) -> RunStatus {
        self.row(run).status
    }

    /// The results of a run's calls, in order.
    fn results(&self, run: &str) -> Vec<String> {
        let calls = self.store().run(&RunId::new(run)).tool_calls().expect("calls");
        let words =
            |call: &store::StoredToolCall| call.result.as_ref().map(preview::text_of).unwrap_or_default();
        calls.iter().map(words).collect()
    }

    /// The same as JSON.
    fn result(&self, run: &str, n: usize) -> Value {
        let text = &self.results(run)[n];
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// All runs, with where they stand, by id.
    fn runs(&self) -> Vec<(String, RunStatus)> {
        let runs = self.store().runs(&Filter::default()).expect("runs");
        let mut runs: Vec<_> = runs.into_iter().map(|run| (run.id.to_string(), run.status)).collect();
        runs.sort_by(|a, b| a.0.cmp(&b.0));
        runs
    }

    /// The requests that a run sent.
    fn sent(&self, run: &str) -> Vec<Value> {
        let run = RunId::new(run);
        let calls = self.store().run(&run).model_calls().expect("calls");
        let sent = calls.iter().map(|call| rebuild_request(self.store(), &run, call).expect("a request"));
        sent.map(|body| serde_json::from_slice(&body).expect("JSON")).collect()
    }

    /// The same, byte for byte as they were sent, as another process finds them.
    fn bodies(&self, run: &str) -> Vec<Vec<u8>> {
        let (store, run) = (super::open(&self.room.folder), RunId::new(run));
        let calls = store.run(&run).model_calls().expect("calls");
        calls.iter().map(|call| rebuild_request(&store, &run, call).expect("a request")).collect()
    }

    /// Asserts that every request starts with the one before, and a fork's with its parent's reply.
    fn shares(&self) {
        let store = super::open(&self.room.folder);
        for (run, _) in self.runs() {
            let bodies = self.bodies(&run);
            for pair in bodies.windows(2) {
                laws::begins_with(&pair[1], &pair[0]);
            }
            let Some(fork) = store.run(&RunId::new(run.as_str())).fork().expect("read") else { continue };
            let Some(first) = bodies.first() else { continue };
            let of = store.run(&fork.of);
            let call = of.model_calls().expect("calls").into_iter().rev().find(|call| call.to < fork.to);
            let sent = rebuild_request(&store, &fork.of, &call.expect("a turn")).expect("a request");
            laws::begins_with(first, &sent);
            let reply = of.messages().expect("messages").into_iter().find(|message| message.seq == fork.to);
            let reply = String::from_utf8(reply.expect("the reply").bytes).expect("text");
            let plain = String::from_utf8_lossy(&sent).replace(laws::MARKER, "");
            let opening = plain.strip_suffix("]}").expect("messages come last");
            let first = String::from_utf8_lossy(first).replace(laws::MARKER, "");
            assert!(
                first.starts_with(&format!("{opening},{reply},")),
                "{run}: the reply stands as it was stored"
            );
        }
    }

    /// The messages to a run, as they are sent.
    fn said_to(&self, run: &str) -> String {
        let messages = self.store().run(&RunId::new(run)).messages().expect("messages");
        messages.iter().map(|message| String::from_utf8_lossy(&message.bytes).into_owned() + "\n").collect()
    }

    /// Counts the reports of a job's end in a run.
    fn told_of(&self, run: &str, job: &str) -> usize {
        self.said_to(run).matches(&format!(r#"<job_ended job_id=\"{job}\""#)).count()
    }
}
