//! Status lines of active sub-agents, below the other output of a terminal.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use agent::{EventKind, PriorUsage, RunEvent};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::Tone;
use session::{RunId, Usage};
use store::{RunKind, RunStatus, TaskStatus};

use super::call_words::call_words;
use super::task_lines::TaskLines;

/// Maximum number of lines. The other sub-agents are counted.
const MAX_LINES: usize = 10;
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum length of the name of a tool or an agent.
const MAX_NAME: usize = 24;
/// Minimum length of the words that say what a sub-agent was asked.
const MIN_SUBJECT: usize = 12;
/// Columns of the spaces, the spinner and the time on a line.
const FIXED_COLUMNS: usize = 10;

/// The status lines. Clones share them. Without a terminal only ends are reported.
#[derive(Clone)]
pub(super) struct Board(Arc<Mutex<Rows>>);

struct Rows {
    lines: MultiProgress,
    by_run: HashMap<RunId, SubAgentRow>,
    /// Number of sub-agents with a line.
    shown: usize,
    /// Line that counts the others.
    more: Option<ProgressBar>,
    is_terminal: bool,
    tasks: TaskLines,
}

/// Status of one sub-agent.
struct SubAgentRow {
    agent: String,
    /// The beginning of its assignment.
    subject: String,
    /// Number of its calls that were denied.
    denied: u64,
    /// Work time before it was resumed.
    prior: Duration,
    since: Instant,
    /// The tool or the step that it is busy with; empty while the model answers.
    activity: String,
    /// Number of open tool calls.
    open_calls: usize,
    usage: Usage,
    cost_microusd: Option<i64>,
    line: Option<ProgressBar>,
}

impl Board {
    pub(super) fn new() -> Self {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let is_terminal = std::io::stderr().is_terminal();
        let (by_run, tasks) = (HashMap::new(), TaskLines::default());
        let rows = Rows { lines, by_run, shown: 0, more: None, is_terminal, tasks };
        Self(Arc::new(Mutex::new(rows)))
    }

    /// Hides the lines while other output uses the place below the cursor.
    pub(super) fn hide(&self) {
        let rows = self.rows();
        if rows.is_terminal && !(rows.by_run.is_empty() && rows.tasks.is_empty()) {
            let _ = rows.lines.clear(); // the terminal may be gone
            rows.lines.set_draw_target(ProgressDrawTarget::hidden());
        }
    }

    /// Shows the lines again.
    pub(super) fn show(&self) {
        let rows = self.rows();
        if rows.is_terminal {
            rows.lines.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Prints a line above them.
    pub(super) fn print_line(&self, text: &str) {
        self.rows().lines.suspend(|| status!("{text}"));
    }

    /// Shows the list of tasks on a terminal.
    pub(super) fn show_tasks(&self, tasks: &[(String, TaskStatus, String)]) {
        let mut rows = self.rows();
        if rows.is_terminal {
            let Rows { lines, tasks: list, .. } = &mut *rows;
            list.update(lines, tasks, crate::terminal::stderr_width());
        }
    }

    /// Updates the line of a sub-agent. Returns the text to print if it has ended.
    pub(super) fn update(&self, event: &RunEvent) -> Option<String> {
        let mut rows = self.rows();
        let name =
            |kind: &RunKind, agent: &str| report::plain(if *kind == RunKind::Fork { "fork" } else { agent });
        match &event.kind {
            EventKind::Queued { kind, agent, subject } => {
                rows.begin(event, name(kind, agent), subject.as_deref(), "queued", None);
                return None;
            }
            EventKind::Started { kind, agent, subject, prior, .. } => {
                rows.begin(event, name(kind, agent), subject.as_deref(), "", *prior);
                return None;
            }
            _ => {}
        }
        if let EventKind::Finished { status, error, denied_calls, .. } = &event.kind {
            if let Some(row) = rows.by_run.get_mut(&event.run) {
                row.denied = *denied_calls;
            }
            return rows.end(event, *status, error.as_deref());
        }
        let row = rows.by_run.get_mut(&event.run)?;
        match &event.kind {
            EventKind::CallStarted { name, input, .. } => {
                row.open_calls += 1;
                row.activity = call_words(name, input);
            }
            EventKind::CallFinished { name, .. } => {
                row.open_calls = row.open_calls.saturating_sub(1);
                if row.open_calls == 0 {
                    // The name comes from this event, because a refused call has no start event.
                    row.activity = format!("thinking, after {}", report::plain(name));
                }
            }
            EventKind::Retrying { .. } => row.activity = "retrying".to_owned(),
            EventKind::Waiting { .. } => row.activity = "waiting for its jobs".to_owned(),
            EventKind::Woken { .. } => row.activity.clear(),
            EventKind::Message { usage, cost_microusd, .. } => {
                (row.open_calls, row.activity) = (0, String::new());
                row.add(usage, *cost_microusd);
            }
            _ => return None,
        }
        row.draw();
        None
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().expect("lock is not poisoned")
    }
}

impl Rows {
    /// Adds a sub-agent that is queued or started. `prior` is its usage before it was resumed.
    fn begin(
        &mut self,
        event: &RunEvent,
        agent: String,
        subject: Option<&str>,
        activity: &str,
        prior: Option<PriorUsage>,
    ) {
        let run = &event.run;
        let subject = report::plain(subject.unwrap_or_default());
        let known = self.by_run.remove(run).and_then(|row| row.line);
        let line = known.or_else(|| self.create_line(&agent, &subject));
        let prior = prior.unwrap_or(PriorUsage { cost_microusd: Some(0), ..PriorUsage::default() });
        let elapsed = Duration::from_millis(prior.ms);
        if let Some(line) = &line {
            line.set_elapsed(elapsed);
        }
        let (since, activity) = (Instant::now(), activity.to_owned());
        let PriorUsage { usage, cost_microusd, .. } = prior;
        let row = SubAgentRow {
            agent,
            subject,
            denied: 0,
            prior: elapsed,
            since,
            activity,
            open_calls: 0,
            usage,
            cost_microusd,
            line,
        };
        row.draw();
        self.by_run.insert(run.clone(), row);
        self.count();
    }

    /// Creates a line, unless the maximum is reached.
    fn create_line(&mut self, agent: &str, subject: &str) -> Option<ProgressBar> {
        if !self.is_terminal || self.shown >= MAX_LINES {
            return None;
        }
        self.shown += 1;
        let style = ProgressStyle::with_template("  {spinner} {prefix} {elapsed:>4} {wide_msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        let line = ProgressBar::new_spinner().with_style(style);
        let line = match self.more.as_ref().or(self.tasks.first()) {
            Some(below) => self.lines.insert_before(below, line),
            None => self.lines.add(line),
        };
        let subject = report::fit(subject, crate::terminal::stderr_width() / 3);
        line.set_prefix(format!("{} “{subject}”", report::fit(agent, MAX_NAME)));
        line.enable_steady_tick(REDRAW_INTERVAL);
        Some(line)
    }

    /// Gives a free line to the oldest sub-agent without one.
    fn promote(&mut self) {
        let waiting = self.by_run.iter().filter(|(_, row)| row.line.is_none());
        let Some((run, agent)) =
            waiting.min_by_key(|(_, row)| row.since).map(|(run, row)| (run.clone(), row.agent.clone()))
        else {
            return;
        };
        let subject = self.by_run.get(&run).map(|row| row.subject.clone()).unwrap_or_default();
        let Some(line) = self.create_line(&agent, &subject) else { return };
        if let Some(row) = self.by_run.get_mut(&run) {
            line.set_elapsed(row.prior + row.since.elapsed());
            row.line = Some(line);
            row.draw();
        }
    }

    fn end(&mut self, event: &RunEvent, status: RunStatus, error: Option<&str>) -> Option<String> {
        let run = &event.run;
        let row = self.by_run.remove(run)?;
        if let Some(line) = &row.line {
            self.shown -= 1;
            line.finish_and_clear();
            self.lines.remove(line);
            self.promote();
        }
        self.count();
        let width = if self.is_terminal { crate::terminal::stderr_width() } else { usize::MAX };
        Some(row.end_text(run, event.depth, status, error, width))
    }

    /// Updates the count of sub-agents without a line.
    fn count(&mut self) {
        let without = self.by_run.len() - self.shown;
        match (without, &self.more) {
            (0, Some(more)) => {
                more.finish_and_clear();
                self.lines.remove(more);
                self.more = None;
            }
            (0, None) => {}
            (without, _) if self.is_terminal => {
                let more = self.more.get_or_insert_with(|| {
                    let style = ProgressStyle::with_template("    {msg}");
                    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
                    let line = ProgressBar::new_spinner().with_style(style);
                    match self.tasks.first() {
                        Some(below) => self.lines.insert_before(below, line),
                        None => self.lines.add(line),
                    }
                });
                more.set_message(format!("and {without} more"));
            }
            _ => {}
        }
    }
}

impl SubAgentRow {
    fn add(&mut self, usage: &Usage, cost_microusd: Option<i64>) {
        self.usage += *usage;
        self.cost_microusd = self.cost_microusd.zip(cost_microusd).map(|(all, more)| all + more);
    }

    fn usage_text(&self, usage: &Usage) -> String {
        let cost = match self.cost_microusd {
            Some(cost) if cost > 0 => format!(", ${:.4}", cost as f64 / 1e6),
            _ => String::new(),
        };
        format!(", {}{cost}", report::tokens(usage))
    }

    /// Describes its end on one line. On a narrow terminal the words, then the cached part, then the subject and the error
    /// are cut. The sign repeats the words.
    fn end_text(
        &self,
        run: &RunId,
        depth: u32,
        status: RunStatus,
        error: Option<&str>,
        width: usize,
    ) -> String {
        let sign = match status {
            RunStatus::Completed => Tone::Good.paint("✓"),
            // It can be resumed, or has an answer.
            RunStatus::Paused | RunStatus::StepCap => "·".to_owned(),
            _ => Tone::Bad.paint("✗"),
        };
        let took = (self.prior + self.since.elapsed()).as_micros();
        let took = report::duration(u64::try_from(took).unwrap_or(u64::MAX));
        let why = error.map(|error| format!(": {}", report::plain(error))).unwrap_or_default();
        let denied = match self.denied {
            0 => String::new(),
            calls => format!(", {} denied", report::counted(calls, "call")),
        };
        let format_end = |id: &str, subject: &str, words: &str, used: &Usage| {
            let subject = if subject.is_empty() { String::new() } else { format!("“{subject}” ") };
            format!(
                "{sign} {} {id} {subject}{words}in {took}{}{denied}{why}",
                self.agent,
                self.usage_text(used)
            )
        };
        let words = format!("{} ", status.words());
        let short = if status == RunStatus::Completed { "" } else { words.as_str() };
        let (id, tail) = (run.to_string(), own_part(run, depth));
        let uncached =
            Usage { input: self.usage.input_total(), output: self.usage.output, ..Usage::default() };
        let lines = [
            format_end(&id, &self.subject, &words, &self.usage),
            format_end(&tail, &self.subject, &words, &self.usage),
            format_end(&tail, &self.subject, short, &self.usage),
            format_end(&tail, &self.subject, short, &uncached),
        ];
        if let Some(fitting) = lines.into_iter().find(|line| report::columns(line) <= width) {
            return fitting;
        }
        let without = report::columns(&format_end(&tail, "", short, &uncached)) + 3;
        let subject = report::fit(&self.subject, width.saturating_sub(without).max(MIN_SUBJECT));
        report::fit(&format_end(&tail, &subject, short, &uncached), width)
    }

    fn draw(&self) {
        let Some(line) = &self.line else { return };
        let fixed = FIXED_COLUMNS + line.prefix().chars().count();
        line.set_message(self.text(crate::terminal::stderr_width().saturating_sub(fixed)));
    }

    /// Returns the activity and the usage, cut to a width.
    fn text(&self, width: usize) -> String {
        let activity = if self.activity.is_empty() { "thinking" } else { &self.activity };
        report::fit(&format!("{}{}", report::fit(activity, MAX_NAME), self.usage_text(&self.usage)), width)
    }
}

/// Returns the part of a run's id that its tree does not share: `…-4-0`.
fn own_part(run: &RunId, depth: u32) -> String {
    let id = run.as_str();
    let dashes = usize::try_from(depth).unwrap_or_default().saturating_mul(2);
    match id.rmatch_indices('-').nth(dashes.saturating_sub(1)) {
        Some((at, _)) if depth > 0 => format!("…{}", &id[at..]),
        _ => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(run: &str, kind: EventKind) -> RunEvent {
        let chain = run.into();
        RunEvent {
            run: RunId::new(run),
            parent: Some(RunId::new("m")),
            chain,
            parent_chain: None,
            depth: 1,
            is_root: false,
            kind,
        }
    }

    fn finished(status: RunStatus, error: Option<String>, usage: Usage) -> EventKind {
        let text = Some("never shown".to_owned());
        EventKind::Finished {
            status,
            final_text: text,
            partial_text: None,
            error,
            denied_calls: 0,
            usage,
            cost_microusd: None,
        }
    }

    fn started(run: &str) -> RunEvent {
        let what = EventKind::Started {
            kind: store::RunKind::Sub,
            agent: "scan\u{1b}ner".to_owned(),
            model: "m".to_owned(),
            call: None,
            is_job: true,
            subject: Some("Count the seeds of the garden".to_owned()),
            prior: None,
        };
        event(run, what)
    }

    #[test]
    fn a_queued_sub_agent_has_a_line_and_keeps_it() {
        let board = Board::new();
        {
            let mut rows = board.rows();
            rows.is_terminal = true;
            rows.lines.set_draw_target(ProgressDrawTarget::hidden());
        }
        let what =
            EventKind::Queued { kind: store::RunKind::Sub, agent: "scanner".to_owned(), subject: None };
        board.update(&event("m-1-0", what));
        let message = || {
            let rows = board.rows();
            let line = rows.by_run[&RunId::new("m-1-0")].line.as_ref().map(ProgressBar::message);
            (rows.shown, rows.by_run.len(), line.unwrap_or_default())
        };
        assert_eq!(message(), (1, 1, "queued, 0 in, 0 out".to_owned()));
        board.update(&started("m-1-0"));
        assert_eq!(message(), (1, 1, "thinking, 0 in, 0 out".to_owned()));
    }

    #[test]
    fn the_end_of_a_resumed_sub_agent_includes_its_prior_usage() {
        let board = Board::new();
        let RunEvent { kind: EventKind::Started { kind, agent, model, call, is_job, subject, .. }, .. } =
            started("m-1-0")
        else {
            panic!("started");
        };
        let usage = Usage { input: 1000, output: 10, ..Usage::default() };
        let prior = Some(PriorUsage { usage, cost_microusd: Some(1000), ms: 3_600_000 });
        board
            .update(&event("m-1-0", EventKind::Started { kind, agent, model, call, is_job, subject, prior }));
        let (text, calls) = (None, Vec::new());
        board.update(&event(
            "m-1-0",
            EventKind::Message { seq: 4, step: 2, text, calls, usage, cost_microusd: Some(500) },
        ));
        let status = RunStatus::Completed;
        let what = finished(status, None, usage);
        let said = board.update(&event("m-1-0", what)).expect("it has ended");
        assert!(said.contains(" in 3600.") && said.ends_with(" s, 2.0k in, 20 out, $0.0015"), "{said}");
    }

    #[test]
    fn an_end_fits_its_line() {
        let board = Board::new();
        board.rows().is_terminal = true;
        board.rows().lines.set_draw_target(ProgressDrawTarget::hidden());
        board.update(&started("1m7gqwz9bn74vve5-4-0"));
        let usage = Usage { input: 1200, cache_read: 950, output: 30, ..Usage::default() };
        let (text, calls) = (None, Vec::new());
        let what = EventKind::Message { seq: 2, step: 1, text, calls, usage, cost_microusd: Some(1500) };
        board.update(&event("1m7gqwz9bn74vve5-4-0", what));
        let what = finished(RunStatus::Completed, Some("word ".repeat(40)), usage);
        let said = board.update(&event("1m7gqwz9bn74vve5-4-0", what)).expect("it has ended");
        let said = report::terminal_text(&said, false);
        assert!(said.chars().count() <= crate::terminal::stderr_width(), "{said}");
        assert!(said.contains("2.1k in, 30 out") && !said.contains("cached"), "{said}");
        assert!(said.contains(" …-4-0 “Count the"), "{said}");
    }

    #[test]
    fn an_end_is_reported_with_its_usage() {
        let board = Board::new();
        assert_eq!(board.update(&started("m-1-0")), None);
        let usage = Usage { input: 1200, output: 30, ..Usage::default() };
        for seq in 1..3 {
            let (text, calls) = (None, Vec::new());
            let what = EventKind::Message { seq, step: 1, text, calls, usage, cost_microusd: Some(1500) };
            assert_eq!(board.update(&event("m-1-0", what)), None);
        }
        let what = finished(RunStatus::Failed, Some("no answer".to_owned()), usage);
        let said = board.update(&event("m-1-0", what)).expect("it has ended");
        let (before, after) = said.split_once(" in ").expect("a time");
        assert_eq!(
            report::terminal_text(before, false),
            "✗ scan\\u{1b}ner m-1-0 “Count the seeds of the garden” failed"
        );
        assert!(after.ends_with(", 2.4k in, 60 out, $0.0030: no answer"), "{after}");
    }

    #[test]
    fn a_line_shows_the_activity_and_is_reused() {
        let board = Board::new();
        {
            let mut rows = board.rows();
            rows.is_terminal = true;
            rows.lines.set_draw_target(ProgressDrawTarget::hidden());
        }
        for n in 0..=MAX_LINES {
            board.update(&started(&format!("m-1-{n}")));
        }
        let says = |run: &str| {
            let rows = board.rows();
            let line = rows.by_run[&RunId::new(run)].line.as_ref().map(ProgressBar::message);
            line.map(|line| line.split(", 0 in").next().unwrap_or_default().to_owned())
        };
        let call = |id: &str, name: &str| EventKind::CallStarted {
            call: session::CallId::new(id),
            name: name.to_owned(),
            input: "{}".to_owned(),
        };
        let done = |id: &str, name: &str| EventKind::CallFinished {
            call: session::CallId::new(id),
            name: name.to_owned(),
            input: String::new(),
            status: store::CallStatus::Done,
            text: String::new(),
            reason: None,
            ms: 1,
        };
        for (what, doing) in [
            (call("a", "grep"), "grep"),
            (call("b", "read"), "read"),
            (done("a", "grep"), "read"),
            (done("b", "read"), "thinking, after read"),
            (EventKind::Woken { seq: 3, jobs: Vec::new() }, "thinking"),
            (done("c", "bash"), "thinking, after bash"), // a refused call has no start event
            (EventKind::Waiting { jobs: 1 }, "waiting for its jobs"),
            (EventKind::Woken { seq: 4, jobs: Vec::new() }, "thinking"),
        ] {
            board.update(&event("m-1-0", what));
            assert_eq!(says("m-1-0").as_deref(), Some(doing));
        }
        let last = format!("m-1-{MAX_LINES}");
        assert_eq!(says(&last), None, "all lines are used");
        let (status, usage) = (RunStatus::Completed, Usage::default());
        board.update(&event("m-1-0", finished(status, None, usage)));
        assert_eq!(says(&last).as_deref(), Some("thinking"));
    }

    #[test]
    fn a_line_is_cut_to_the_terminal() {
        let board = Board::new();
        board.update(&started("m-1-0"));
        let rows = board.rows();
        let row = &rows.by_run[&RunId::new("m-1-0")];
        assert_eq!(row.text(80), "thinking, 0 in, 0 out");
        assert_eq!(row.text(16), "thinking, 0 in,…");
    }

    #[test]
    fn a_thousand_at_once_take_ten_lines() {
        let board = Board::new();
        {
            let mut rows = board.rows();
            rows.is_terminal = true;
            rows.lines.set_draw_target(ProgressDrawTarget::hidden());
        }
        for n in 0..1000 {
            board.update(&started(&format!("m-1-{n}")));
        }
        let rows = board.rows();
        assert_eq!((rows.shown, rows.by_run.len()), (MAX_LINES, 1000));
        assert_eq!(rows.more.as_ref().map(ProgressBar::message).as_deref(), Some("and 990 more"));
    }
}
