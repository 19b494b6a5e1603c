//! The room's tests: the whole loop in this process, on a real journal, with a model that says what a story tells it.
//!
//! A story is a text. `> words` prompts the agent, `>>` resumes it, and each `<` below is the model's next
//! answer: texts, `(thoughts)` and calls as `name{json}`, with ` + ` between them and settings behind a ` | `; or a
//! failure, as `! 529`; or `...`, which never comes. What comes back is the transcript, from the journal. Behind every
//! story stand the [laws](laws) that hold for all of them.

mod asking;
mod budgets;
mod calling;
mod compacting;
mod failing;
mod family;
mod folders;
mod full;
mod holding;
mod http;
mod knowing;
mod laws;
mod model;
mod processes;
mod refusing;
mod rejecting;
mod requests;
mod resuming;
mod sharing;
mod steps;
mod stopping;
mod storm;
mod tools;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use expect_test::Expect;
use session::{Block, RunId};
use store::{Options, RunStatus, Seq, Store, StoredMessage};
use tempfile::TempDir;
use wire::dialect::{Dialect, join_request};

use crate::provider::{Backoff, RetryBudget};
use crate::*;

use model::Fake;
use tools::State;

const DIALECTS: [Dialect; 3] = [Dialect::AnthropicMessages, Dialect::OpenAiChat, Dialect::OpenAiResponses];

/// A journal and a workspace of their own, and everything else that a run needs.
struct Room {
    folder: Arc<TempDir>,
    store: Store,
    model: Arc<Fake>,
    state: Arc<State>,
    backoff: Arc<Backoff>,
    run: Mutex<Option<RunId>>,
    stop_handle: Mutex<StopHandle>,
    limits: RunLimits,
    rules: Arc<PermissionRules>,
    /// Those of the agent's own description.
    own_rules: Vec<(RuleList, String)>,
    asker: Arc<dyn Approver>,
}

/// Plays a story in every dialect. They tell it alike.
async fn check(story: &str, expected: Expect) {
    check_all(&DIALECTS.map(Room::speaking), story, expected).await;
}

/// Plays a story in rooms that were prepared for it, one for each dialect. They tell it alike.
async fn check_all(rooms: &[Room; 3], story: &str, expected: Expect) {
    let [one, two, three] = rooms;
    let told = one.play(story).await;
    assert_eq!(told, two.play(story).await, "Anthropic's and Chat Completions");
    assert_eq!(told, three.play(story).await, "Anthropic's and Responses");
    expected.assert_eq(&told);
}

/// Plays a story in a room that was prepared for it.
async fn check_in(room: &Room, story: &str, expected: Expect) {
    expected.assert_eq(&room.play(story).await);
}

impl Room {
    fn new() -> Self {
        Self::speaking(Dialect::AnthropicMessages)
    }

    fn speaking(dialect: Dialect) -> Self {
        let folder = tempfile::tempdir_in(memory()).expect("a folder for a test");
        std::fs::create_dir(folder.path().join("w")).expect("a workspace");
        let store = open(&folder);
        Self::at(Arc::new(folder), store, dialect)
    }

    /// The same journal and workspace, and everything else new.
    fn again(&self) -> Self {
        let again = Self::at(self.folder.clone(), self.store.clone(), self.model.dialect);
        Self { limits: self.limits.clone(), ..again }
    }

    fn at(folder: Arc<TempDir>, store: Store, dialect: Dialect) -> Self {
        Self {
            model: Arc::new(Fake::new(dialect)),
            state: Arc::new(State::new(store.clone())),
            backoff: Arc::new(Backoff { budget: Arc::new(RetryBudget::new(1000)), ..Backoff::default() }),
            run: Mutex::default(),
            stop_handle: Mutex::default(),
            limits: RunLimits {
                max_steps: 20,
                max_budget_microusd: None,
                max_budget_tokens: None,
                compact_at: 1_000_000,
                max_tokens: 1000,
            },
            rules: Arc::default(),
            own_rules: Vec::new(),
            asker: Arc::new(NoApprover),
            folder,
            store,
        }
    }

    fn kernel(&self) -> Kernel {
        Kernel {
            cache_warmup: Arc::default(),
            store: self.store.clone(),
            model: self.model.clone(),
            backoff: self.backoff.clone(),
            tools: Arc::new(tools::toolbox(&self.state)),
            skills: Arc::default(),
            folder_skills: None,
            agents: Arc::default(),
            tiers: Arc::default(),
            thinking_summaries: true,
            tree_limits: TreeLimits::default(),
            workspace: Arc::new(Workspace::open(&self.folder.path().join("w")).expect("a workspace")),
            shell: ShellConfig::default(),
            clock: clock(),
            recent_before: None,
            rules: self.rules.clone(),
            hooks: Arc::default(),
            asker: self.asker.clone(),
            events: Arc::new(Nobody),
        }
    }

    fn start_of(&self, prompt: &str) -> StartRequest {
        let model = match self.model.dialect() {
            Dialect::AnthropicMessages => "claude-sonnet-5",
            _ => "gpt-5-4",
        };
        StartRequest {
            id: None,
            prompt: prompt.to_owned(),
            agent: "main".to_owned(),
            instructions: None,
            tools: None,
            rules: self.own_rules.clone(),
            ask: Vec::new(),
            provider: "test".to_owned(),
            model: model.to_owned(),
            limits: self.limits.clone(),
        }
    }

    /// The run of the story.
    fn run(&self) -> RunId {
        self.run.lock().expect("lock is not poisoned").clone().expect("a story begins with a prompt")
    }

    /// The stop handle of the next loop.
    fn stop_handle(&self) -> StopHandle {
        self.stop_handle.lock().expect("lock is not poisoned").clone()
    }

    fn status(&self) -> RunStatus {
        self.store.run(&self.run()).row().expect("a row").status
    }

    /// Plays a story, or continues one. Returns the new part of the transcript.
    async fn play(&self, story: &str) -> String {
        let mut told = String::new();
        let mut lines = story.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        while let Some(line) = lines.next() {
            while let Some(answer) = lines.next_if(|line| line.starts_with('<')) {
                self.model.shall_say(answer[1..].trim());
            }
            let known = self.run.lock().expect("lock is not poisoned").clone();
            let from = known.map_or(Seq(0), |run| self.last_seq(&run));
            let ended = self.go(line).await;
            *self.stop_handle.lock().expect("lock is not poisoned") = StopHandle::new();
            told += &self.told_since(from);
            told += &ended;
        }
        laws::hold(self);
        told
    }

    /// One loop, from `> words` or `>>`.
    async fn go(&self, line: &str) -> String {
        let (said, settings) = line.split_once(" | ").unwrap_or((line, ""));
        let number = |name: &str| {
            let setting = settings.split(' ').find_map(|setting| setting.strip_prefix(name));
            setting.map(|number| number.parse::<u32>().expect("a number"))
        };
        let budget = number("budget=").map(i64::from);
        let more = ResumeOverrides {
            max_steps: number("steps="),
            max_budget_microusd: budget,
            ..ResumeOverrides::default()
        };
        let kernel = self.kernel();
        let known = self.run.lock().expect("lock is not poisoned").clone();
        let ready = match (known, said.strip_prefix(">>"), said.strip_prefix('>')) {
            (Some(run), Some(_), _) => kernel.resume(&run, None).await,
            (Some(run), None, Some(prompt)) => kernel.resume(&run, Some(prompt.trim())).await,
            (None, None, Some(prompt)) => kernel.start(self.start_of(prompt.trim())).await.map(|run| {
                *self.run.lock().expect("lock is not poisoned") = Some(run);
            }),
            _ => panic!("a story says something first: {line}"),
        };
        if let Err(error) = ready {
            return format!("! {}\n", error.to_string().replace(self.run().as_str(), "RUN"));
        }
        let ends = Arc::new(Ends::default());
        let kernel = Kernel { events: ends.clone(), ..kernel };
        let ended = kernel.run(&self.run(), &more, &self.stop_handle()).await;
        if !matches!(ended, Err(RunError::AlreadyRunning(_) | RunError::UnknownPrice(_))) {
            assert_eq!(
                ends.0.load(Ordering::Relaxed),
                1,
                "every loop says once that it has ended: {ended:?}"
            );
        }
        match ended {
            Ok(RunOutcome { status, final_text, partial_text, error, .. }) => {
                let final_text = final_text.or(partial_text);
                let error = error.map(|error| format!(" ({error})")).unwrap_or_default();
                format!("= {status}: {}{error}\n", final_text.as_deref().map_or("nothing", short))
            }
            Err(error) => format!("! {}\n", error.to_string().replace(self.run().as_str(), "RUN")),
        }
    }

    fn last_seq(&self, run: &RunId) -> Seq {
        let messages = self.store.run(run).messages().expect("messages");
        messages.last().map_or(Seq(0), |message| message.seq)
    }

    fn told_since(&self, from: Seq) -> String {
        let messages = self.store.run(&self.run()).messages().expect("messages");
        messages.iter().filter(|message| message.seq > from).map(|m| told(self.model.dialect(), m)).collect()
    }

    /// The whole transcript.
    fn transcript(&self) -> String {
        self.told_since(Seq(0))
    }

    /// The endings of all attempts of each request.
    fn attempts(&self) -> Vec<String> {
        let reads = self.store.run(&self.run());
        let calls = reads.model_calls().expect("model calls");
        let attempts = calls.iter().map(|call| {
            let attempts = reads.attempts(call.id).expect("attempts");
            let endings: Vec<String> = attempts.into_iter().map(|attempt| attempt.ending).collect();
            format!("{}: {}", call.status, endings.join(" "))
        });
        attempts.collect()
    }

    /// The calls, as the journal has them.
    fn calls(&self) -> Vec<String> {
        let calls = self.store.run(&self.run()).tool_calls().expect("calls");
        calls.iter().map(|call| format!("{} {}: {}", call.call, call.name, call.status)).collect()
    }
}

/// A folder in memory where there is one: these tests are about what is written, not about how fast a disk is.
fn memory() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}

fn open(folder: &TempDir) -> Store {
    Store::open(folder.path().join("store.db"), Options::default()).expect("a journal")
}

fn clock() -> RunClock {
    RunClock::fixed("2026-01-01T12:00:00+00:00[UTC]".parse().expect("a time"))
}

/// Counts the loops that say that they have ended.
#[derive(Default)]
struct Ends(AtomicU32);

impl EventSink for Ends {
    fn emit(&self, event: &RunEvent) {
        if matches!(event.kind, EventKind::Finished { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ignores all events.
struct Nobody;

impl EventSink for Nobody {
    fn emit(&self, _: &RunEvent) {}
}

/// One message on a line.
fn told(dialect: Dialect, message: &StoredMessage) -> String {
    let blocks = blocks(dialect, &String::from_utf8_lossy(&message.bytes));
    let said: Vec<String> = blocks.iter().filter_map(said).collect();
    format!("{}: {}\n", message.origin, said.join(" + "))
}

/// Decodes a message.
fn blocks(dialect: Dialect, message: &str) -> Vec<Block> {
    let messages = if dialect == Dialect::OpenAiResponses { "input" } else { "messages" };
    let body = join_request(format!(r#"{{"model":"m","{messages}":["#).as_bytes(), [message]);
    let prompt = dialect.decode_request(&body).expect("a request");
    prompt.messages.iter().flat_map(|message| message.message().blocks).collect()
}

fn said(block: &Block) -> Option<String> {
    Some(match block {
        // In Chat Completions the prompt follows in the same text.
        Block::Text { text } if text.starts_with("<context>") => {
            let (_, behind) = text.split_once("\n</context>\n\n")?;
            short(behind).to_owned()
        }
        Block::Text { text } => short(text).to_owned(),
        // Not every dialect has a place for it.
        Block::Thinking { .. } => return None,
        Block::ToolCall(call) => format!("{}={}{}", call.id, call.name, call.input),
        Block::ToolResult(result) => {
            let words: Vec<String> = result.blocks.iter().filter_map(said).collect();
            format!("{} gives {}", result.call, words.join(" "))
        }
        other => format!("{other:?}"),
    })
}

/// Our own sentences by name.
fn short(text: &str) -> &str {
    match text {
        prompts::LAST_STEP => "GRACE",
        prompts::CONTINUE => "GO_ON",
        prompts::MAY_HAVE_RUN => "MAY_HAVE_RUN",
        prompts::NO_RESULT => "NO_RESULT",
        text if text.starts_with("<summary>") => {
            let text = text.rsplit_once("\n\n").map_or(text, |(_, text)| text);
            text.trim_end_matches("\n</summary>")
        }
        text => text,
    }
}
