//! Tools that show how they are called.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use store::{Filter, Millis, Store};
use tokio::sync::{Barrier, Notify};

use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput, Toolbox};

/// The state that all tools of a room share.
pub(super) struct State {
    pub(super) store: Store,
    /// Counts an effect that must not happen twice.
    pub(super) count: AtomicU32,
    /// Starts and ends of calls, in order.
    log: Mutex<Vec<String>>,
    meet: Barrier,
    /// Notified when a tool has started that never ends.
    pub(super) entered: Notify,
    hook: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl State {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            count: AtomicU32::new(0),
            log: Mutex::default(),
            meet: Barrier::new(2),
            entered: Notify::new(),
            hook: Mutex::default(),
        }
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.log.lock().expect("lock is not poisoned").clone()
    }

    /// Done in the middle of `slow`.
    pub(super) fn when_slow(&self, hook: impl Fn() + Send + 'static) {
        *self.hook.lock().expect("lock is not poisoned") = Some(Box::new(hook));
    }

    fn note(&self, what: &str, input: &Value) {
        self.log.lock().expect("lock is not poisoned").push(format!("{what} {}", input["n"]));
    }
}

type Work = fn(Arc<State>, Value) -> BoxFuture<'static, ToolOutput>;

struct TestTool {
    name: &'static str,
    policy: Policy,
    work: Work,
    state: Arc<State>,
}

impl Tool for TestTool {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static str {
        "A tool for tests."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object"}"#
    }

    fn policy(&self) -> Policy {
        self.policy
    }

    fn call<'a>(&'a self, input: &'a Value, _: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        (self.work)(self.state.clone(), input.clone())
    }
}

pub(super) fn toolbox(state: &Arc<State>) -> Toolbox {
    Toolbox::new(all(state))
}

pub(super) fn all(state: &Arc<State>) -> Vec<Box<dyn Tool>> {
    let tools: &[(&'static str, Policy, Work)] = &[
        ("echo", Policy::Pure, |_, input| {
            Box::pin(async move { ToolOutput::text(input["say"].as_str().unwrap_or_default()) })
        }),
        ("fail", Policy::Pure, |_, _| Box::pin(async { ToolOutput::error("it cannot be done") })),
        ("doubt", Policy::Unsafe, |_, _| Box::pin(async { ToolOutput::uncertain("nobody knows") })),
        // Comes back when two of them are there.
        ("meet", Policy::Pure, |state, _| {
            Box::pin(async move {
                state.meet.wait().await;
                ToolOutput::text("met")
            })
        }),
        ("peek", Policy::Pure, |state, input| Box::pin(watched(state, "peek", input))),
        ("put", Policy::Idempotent, |state, input| Box::pin(watched(state, "put", input))),
        ("count", Policy::Unsafe, |state, _| {
            Box::pin(async move {
                ToolOutput::text((state.count.fetch_add(1, Ordering::Relaxed) + 1).to_string())
            })
        }),
        ("slow", Policy::Pure, |state, _| {
            Box::pin(async move {
                if let Some(hook) = &*state.hook.lock().expect("lock is not poisoned") {
                    hook();
                }
                tokio::task::yield_now().await;
                ToolOutput::text("slowly done")
            })
        }),
        // Has begun, and never ends: what a killed process leaves.
        ("hang", Policy::Pure, |state, _| Box::pin(for_ever(state))),
        ("hang_put", Policy::Idempotent, |state, _| Box::pin(for_ever(state))),
        ("hang_count", Policy::Unsafe, |state, _| Box::pin(for_ever(state))),
        ("panic", Policy::Pure, |_, _| Box::pin(async { panic!("as it shall") })),
        ("huge", Policy::Pure, |_, input| {
            let length = input["bytes"].as_u64().unwrap_or_default() as usize;
            Box::pin(async move { ToolOutput::text(format!("begin{}end", "é".repeat(length / 2))) })
        }),
        // The user ends the run from elsewhere while this works.
        ("told_to_end", Policy::Pure, |state, _| {
            Box::pin(async move {
                let live = state.store.runs(&Filter { live: true, ..Filter::default() }).expect("runs");
                let other =
                    Store::open(state.store.path(), store::Options::default()).expect("another handle");
                other
                    .request_cancel(&live[0].id, store::RunStatus::CancelledByUser, Millis(0))
                    .await
                    .expect("asked");
                ToolOutput::text("you were told")
            })
        }),
    ];
    let tool = |(name, policy, work): &(&'static str, Policy, Work)| -> Box<dyn Tool> {
        Box::new(TestTool { name, policy: *policy, work: *work, state: state.clone() })
    };
    tools.iter().map(tool).collect()
}

/// Notes when it begins and ends, with time between for others to begin.
async fn watched(state: Arc<State>, what: &'static str, input: Value) -> ToolOutput {
    state.note(&format!("{what} begins"), &input);
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    state.note(&format!("{what} ends"), &input);
    ToolOutput::text(format!("{what} {}", input["n"]))
}

async fn for_ever(state: Arc<State>) -> ToolOutput {
    state.count.fetch_add(1, Ordering::Relaxed);
    state.entered.notify_one();
    std::future::pending().await
}
