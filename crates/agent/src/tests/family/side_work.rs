//! Side work: forks beside the main agent that never disturb it.

use store::Memory;

use super::*;
use crate::side_work::prompts::{PROMPT_SUGGESTION, SESSION_MEMORY, TURN_SUMMARY};

const QUESTION: &str = "Is it going in circles?";

/// Collects the types of the root's events, the reports of forks, and the answers of side work.
#[derive(Default)]
struct Seen {
    order: Mutex<Vec<String>>,
    reports: Mutex<Vec<ForkReport>>,
}

impl EventSink for Seen {
    fn emit(&self, event: &RunEvent) {
        let line = match &event.kind {
            EventKind::ForkEnded(report) => {
                assert!(!event.is_root, "it is no run of the user's");
                self.reports.lock().expect("lock is not poisoned").push((**report).clone());
                return;
            }
            EventKind::SideWork { label, text, error, is_reminder, .. } => {
                assert!(event.is_root && event.run.as_str() == "m");
                format!(
                    "{label}: {} {} {is_reminder}",
                    text.as_deref().unwrap_or("-"),
                    error.as_deref().unwrap_or("-")
                )
            }
            EventKind::Finished { status, .. } => {
                assert_eq!(event.run.as_str(), "m", "forks are silent");
                status.to_string()
            }
            _ => return,
        };
        self.order.lock().expect("lock is not poisoned").push(line);
    }
}

impl Seen {
    fn lines(&self) -> Vec<String> {
        self.order.lock().expect("lock is not poisoned").clone()
    }

    /// Returns the answers by label, sorted, because forks end in any order.
    fn answers(&self) -> Vec<String> {
        let mut answers: Vec<_> = self.lines().into_iter().filter(|line| line.contains(": ")).collect();
        answers.sort();
        answers
    }

    fn labels(&self) -> Vec<String> {
        let reports = self.reports.lock().expect("lock is not poisoned");
        let mut labels: Vec<_> = reports.iter().map(|report| report.label.clone()).collect();
        labels.sort();
        labels
    }
}

fn after_turn() -> SideWork {
    SideWork { turn_summary: true, prompt_suggestion: true, session_memory: true, supervisor: None }
}

fn supervised(every: u32) -> SideWork {
    let supervisor = Some(AgentSupervisor { question: QUESTION.to_owned(), every });
    SideWork { supervisor, ..SideWork::default() }
}

struct Watched {
    stage: Stage,
    seen: Arc<Seen>,
}

impl Watched {
    fn new(lines: &[(&str, &[&str])]) -> Self {
        let (mut stage, seen) = (Stage::new(lines), Arc::new(Seen::default()));
        stage.events = seen.clone();
        Self { stage, seen }
    }

    /// Runs or resumes the main agent. Returns its outcome and the handle of the side work.
    async fn go(&self, plan: SideWork, prompt: &str) -> (RunOutcome, Arc<SideWorker>) {
        let run = RunId::new("m");
        match self.stage.store().run(&run).row() {
            Ok(_) => self.stage.kernel().resume(&run, Some(prompt)).await.expect("it can be resumed"),
            Err(_) => drop(self.stage.start(prompt).await),
        }
        let (kernel, worker) = plan.attach(self.stage.kernel(), &run);
        let ended = kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await;
        (ended.expect("it runs"), worker)
    }

    /// The same, until the side work has ended.
    async fn run(&self, plan: SideWork, prompt: &str) -> RunOutcome {
        let (ended, worker) = self.go(plan, prompt).await;
        worker.finish(Some(ended.status)).await;
        ended
    }

    fn forks(&self) -> Vec<String> {
        let runs = self.stage.runs();
        let label =
            |run: &str| self.stage.store().run(&RunId::new(run)).fork().expect("read").map(|fork| fork.label);
        let mut labels: Vec<String> = runs.iter().filter_map(|(run, _)| label(run)).collect();
        labels.sort();
        labels
    }

    fn memory(&self) -> Vec<Memory> {
        let thread = self.stage.row("m").thread;
        self.stage.store().main().memory(Some(&thread)).expect("memories")
    }
}

const ALL: &[(&str, &[&str])] = &[
    ("Do it.", &["echo{\"say\":\"x\"}", "Done."]),
    ("And more.", &["More."]),
    (TURN_SUMMARY, &["It was done."]),
    (PROMPT_SUGGESTION, &["NONE"]),
    (SESSION_MEMORY, &["Goal: it."]),
];

#[tokio::test]
async fn after_a_turn_each_fork_shares_the_cache_and_gives_its_answer() {
    let watched = Watched::new(ALL);
    let ended = watched.run(after_turn(), "Do it.").await;
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
    assert_eq!(watched.seen.lines()[0], "completed", "the answer comes first");
    let answers = [
        "prompt_suggestion: - - false",
        "session_memory: Goal: it. - false",
        "turn_summary: It was done. - false",
    ];
    assert_eq!(watched.seen.answers(), answers);
    let labels = ["prompt_suggestion", "session_memory", "turn_summary"];
    assert_eq!(watched.seen.labels(), labels, "each has its usage event");
    assert_eq!(watched.forks(), labels);
    let [memory] = &watched.memory()[..] else { panic!("one memory: {:?}", watched.memory()) };
    assert_eq!((memory.name.as_str(), memory.text.as_str()), ("session", "Goal: it."));
    watched.stage.shares();
    // The next turn has its own.
    watched.run(after_turn(), "And more.").await;
    assert_eq!(watched.forks().len(), 6);
    watched.stage.shares();
    let said = watched.stage.said_to("m");
    assert!(!said.contains("It was done."), "the conversation stays as it is: {said}");
    // `cost` has a line for each kind.
    let runs = watched.stage.store().runs(&Filter::default()).expect("runs");
    assert_eq!(runs.iter().filter(|run| run.side_work.as_deref() == Some("turn_summary")).count(), 2);
}

#[tokio::test]
async fn all_of_it_is_off_unless_it_is_chosen() {
    let watched = Watched::new(ALL);
    assert!(SideWork::default().is_empty());
    watched.run(SideWork::default(), "Do it.").await;
    assert!(watched.forks().is_empty() && watched.memory().is_empty());
    watched.run(SideWork { turn_summary: true, ..SideWork::default() }, "And more.").await;
    assert_eq!(watched.forks(), ["turn_summary"]);
}

#[tokio::test]
async fn a_failing_fork_is_an_event_and_nothing_else() {
    let lines =
        [ALL[0], (TURN_SUMMARY, &["!400 no"][..]), (PROMPT_SUGGESTION, &["put{\"n\":1}", "put{\"n\":2}"])];
    let watched = Watched::new(&lines);
    let plan = SideWork { turn_summary: true, prompt_suggestion: true, ..SideWork::default() };
    let ended = watched.run(plan, "Do it.").await;
    assert_eq!(ended.status, RunStatus::Completed);
    let answers = watched.seen.answers();
    assert!(answers[1].starts_with("turn_summary: - the provider says 400 no"), "{answers:?}");
    assert!(answers[0].starts_with("prompt_suggestion: - "), "it has no answer: {answers:?}");
    let effects = watched.stage.room.state.log();
    assert!(effects.is_empty(), "it may call nothing: {effects:?}");
}

#[tokio::test]
async fn a_run_that_does_not_complete_has_no_work_after_its_turn() {
    let watched = Watched::new(&[("Do it.", &["!400 no"]), ALL[2]]);
    let ended = watched.run(after_turn(), "Do it.").await;
    assert_eq!(ended.status, RunStatus::Failed);
    assert!(watched.forks().is_empty());
}

#[tokio::test]
async fn a_supervisor_that_says_so_reminds_the_agent_once() {
    let echo = "echo{\"say\":\"x\"}";
    let watched = Watched::new(&[
        ("Do it.", &[echo, echo, echo, "@reminded echo{\"say\":\"x\"}", "Done."]),
        (QUESTION, &["REMIND: Read the notes <tasks> first."]),
    ]);
    let run = RunId::new("m");
    let open = async {
        watched.stage.play.wait_for(1).await;
        // The agent waits in its fourth turn until the reminder is there, which the fourth or the fifth request has.
        while watched.seen.answers().is_empty() {
            tokio::task::yield_now().await;
        }
        watched.stage.play.open("reminded");
    };
    let ((ended, worker), ()) = tokio::join!(watched.go(supervised(3), "Do it."), open);
    worker.finish(Some(ended.status)).await;
    let said = watched.stage.said_to("m");
    let fork = watched.stage.store().run(&run).fork_at(store::Seq(6), "supervisor", "side_work");
    let fork = fork.expect("read").expect("after the third turn");
    assert_eq!(said.matches(&format!("<supervisor run_id=\\\"{fork}\\\">")).count(), 1, "{said}");
    assert!(said.contains("Read the notes &lt;tasks> first."), "{said}");
    assert!(watched.seen.answers()[0].ends_with("true"), "{:?}", watched.seen.answers());
    assert_eq!(watched.forks(), ["supervisor"]);
}

#[tokio::test]
async fn a_content_supervisor_says_nothing_to_the_agent() {
    for answer in ["OK, it makes progress.", "REMIND:", "It should REMIND: itself."] {
        let watched = Watched::new(&[("Do it.", &["echo{\"say\":\"x\"}", "Done."]), (QUESTION, &[answer])]);
        watched.run(supervised(1), "Do it.").await;
        assert!(!watched.stage.said_to("m").contains("<supervisor"), "{answer}");
        assert_eq!(watched.seen.answers(), [format!("supervisor: {answer} - false")]);
    }
}

#[tokio::test]
async fn the_answer_does_not_wait_and_the_end_waits_for_a_limited_time() {
    let watched = Watched::new(&[ALL[0], (TURN_SUMMARY, &["@never It was done."])]);
    let plan = SideWork { turn_summary: true, ..SideWork::default() };
    let (ended, worker) = watched.go(plan, "Do it.").await;
    assert_eq!(ended.final_text.as_deref(), Some("Done."));
    watched.stage.play.wait_for(1).await;
    assert_eq!(watched.seen.lines(), ["completed"]);
    // The user does not want to wait.
    let cancel = async { worker.cancel() };
    tokio::join!(worker.finish(Some(ended.status)), cancel);
    let fork = watched.stage.runs().into_iter().find(|(run, _)| run != "m").expect("a fork");
    assert_eq!(fork.1, RunStatus::CancelledByUser);
    assert_eq!(watched.stage.status("m"), RunStatus::Completed);
}

#[tokio::test]
async fn a_fork_that_was_killed_is_continued_and_not_repeated() {
    let lines = [
        ALL[0],
        ALL[1],
        (TURN_SUMMARY, &["@later It was done."][..]),
        (SESSION_MEMORY, &["@later Goal: it."]),
    ];
    let watched = Watched::new(&lines);
    let plan = SideWork { turn_summary: true, session_memory: true, ..SideWork::default() };
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let (_, worker) = watched.go(plan.clone(), "Do it.").await;
    watched.stage.play.wait_for(1).await;
    while watched.forks().len() < 2 {
        tokio::task::yield_now().await;
    }
    drop(worker); // its process is gone, as soon as the runtime has dropped its tasks
    while tasks() > before {
        tokio::task::yield_now().await;
    }
    watched.stage.play.open("later");
    let ended = watched.run(plan, "And more.").await;
    assert_eq!(ended.final_text.as_deref(), Some("More."));
    assert_eq!(watched.forks().len(), 4, "two for each turn");
    assert!(watched.stage.runs().iter().all(|(_, status)| *status == RunStatus::Completed));
    assert_eq!(watched.seen.answers().len(), 4, "{:?}", watched.seen.answers());
    assert_eq!(watched.memory().len(), 1);
}

/// The process ended between the answer of a fork and its use.
#[tokio::test]
async fn an_answer_that_was_not_used_is_used_after_a_restart() {
    let watched = Watched::new(&[
        ("Do it.", &["echo{\"say\":\"x\"}", "@later echo{\"say\":\"x\"}", "Done."]),
        (QUESTION, &["REMIND: Stop."]),
        ("Go on.", &["@more echo{\"say\":\"y\"}", "Done, too."]),
    ]);
    let run = watched.stage.start("Do it.").await;
    let kernel = watched.stage.kernel();
    let (more, stop) = (ResumeOverrides::default(), StopHandle::new());
    tokio::select! {
        _ = kernel.run(&run, &more, &stop) => panic!("it was to be broken off"),
        _ = watched.stage.play.wait_for(1) => {}
    }
    // As side work does it, without the use of the answer.
    let prompt = crate::side_work::prompts::supervisor(QUESTION);
    let fork = ForkRequest::new(prompt, "supervisor", "side_work");
    let silent = Kernel { events: Arc::new(Nobody), ..watched.stage.kernel() };
    silent.fork(&run, &fork, &stop).await.expect("forked");
    let open = async {
        let is_sent = || {
            let reads = watched.stage.store().run(&run);
            !reads.inbox().expect("an inbox").is_empty() || !reads.delivered().expect("entries").is_empty()
        };
        while !is_sent() {
            tokio::task::yield_now().await;
        }
        watched.stage.play.open("more");
    };
    let (ended, ()) = tokio::join!(watched.run(supervised(100), "Go on."), open);
    assert_eq!(ended.final_text.as_deref(), Some("Done, too."));
    assert_eq!(watched.stage.said_to("m").matches("<supervisor").count(), 1);
    assert_eq!(watched.forks(), ["supervisor"], "it is asked once");
}

#[tokio::test]
async fn side_work_stays_within_the_budget_of_its_run() {
    let mut watched = Watched::new(ALL);
    watched.stage.room.limits.max_budget_tokens = Some(300_000);
    watched.run(after_turn(), "Do it.").await;
    let used = 2 * 110;
    for (run, _) in watched.stage.runs().iter().filter(|(run, _)| run != "m") {
        let settings = RunSettings::from_bytes(&watched.stage.row(run).settings).expect("settings");
        assert!(settings.max_budget_tokens <= Some((300_000 - used) / 3), "{settings:?}");
    }
}
