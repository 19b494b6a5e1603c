//! One line for each sub-agent at work, below whatever else is on the terminal.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent::{EventKind, PriorUsage, RunEvent};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use session::{RunId, Usage};
use store::{RunKind, RunStatus};

/// How many have a line; of the others it is said how many there are.
const LINES: usize = 10;
/// How often the time goes on.
const BEAT: Duration = Duration::from_millis(250);
/// How much of a tool's name and of an agent's.
const NAME: usize = 24;
/// What stands on a line beside its name and what is said: the spaces, the sign that turns, and the time.
const BESIDE: usize = 10;

/// The lines. Clones are the same board; without a terminal there are none, and only what ends is said.
#[derive(Clone)]
pub(super) struct Board(Arc<Mutex<Rows>>);

struct Rows {
    lines: MultiProgress,
    by_run: HashMap<RunId, Row>,
    /// How many have a line.
    shown: usize,
    /// Said of those that have none.
    more: Option<ProgressBar>,
    live: bool,
}

/// One sub-agent.
struct Row {
    agent: String,
    /// How long it had worked before it was taken up again.
    before: Duration,
    since: Instant,
    tool: String,
    /// How many calls are under way.
    open: usize,
    usage: Usage,
    cost_microusd: Option<i64>,
    line: Option<ProgressBar>,
}

impl Board {
    pub(super) fn new() -> Self {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let live = std::io::stderr().is_terminal();
        let rows = Rows { lines, by_run: HashMap::new(), shown: 0, more: None, live };
        Self(Arc::new(Mutex::new(rows)))
    }

    /// Takes the lines away for as long as something else needs the place below the cursor.
    pub(super) fn hide(&self) {
        let rows = self.rows();
        if rows.live && !rows.by_run.is_empty() {
            let _ = rows.lines.clear(); // a terminal that is gone shows nothing
            rows.lines.set_draw_target(ProgressDrawTarget::hidden());
        }
    }

    /// Brings them back.
    pub(super) fn show(&self) {
        let rows = self.rows();
        if rows.live {
            rows.lines.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// A line above them.
    pub(super) fn say(&self, text: &str) {
        self.rows().lines.suspend(|| eprintln!("{text}"));
    }

    /// What a sub-agent does. What is to be said of its end, where it has ended.
    pub(super) fn see(&self, event: &RunEvent) -> Option<String> {
        let mut rows = self.rows();
        let name =
            |kind: &RunKind, agent: &str| report::plain(if *kind == RunKind::Fork { "fork" } else { agent });
        match &event.kind {
            EventKind::Queued { kind, agent } => {
                rows.begin(&event.run, name(kind, agent), "waits for a place", None);
                return None;
            }
            EventKind::Started { kind, agent, prior, .. } => {
                rows.begin(&event.run, name(kind, agent), "", *prior);
                return None;
            }
            _ => {}
        }
        if let EventKind::Finished { status, error, .. } = &event.kind {
            return rows.end(&event.run, *status, error.as_deref());
        }
        let row = rows.by_run.get_mut(&event.run)?;
        match &event.kind {
            EventKind::CallStarted { name, .. } => {
                row.open += 1;
                row.tool = report::plain(name);
            }
            // It is at work until the last of them is done.
            EventKind::CallFinished { name, .. } => {
                row.open = row.open.saturating_sub(1);
                if row.open == 0 {
                    // Not the one that began last: a call that is refused never begins.
                    row.tool = format!("thinks, after {}", report::plain(name));
                }
            }
            EventKind::Retrying { .. } => row.tool = "asks again".to_owned(),
            EventKind::Waiting { .. } => row.tool = "waits for its jobs".to_owned(),
            EventKind::Woken { .. } => row.tool.clear(),
            EventKind::Message { usage, cost_microusd, .. } => {
                (row.open, row.tool) = (0, String::new());
                row.add(usage, *cost_microusd);
            }
            _ => return None,
        }
        row.draw();
        None
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    /// It waits for a place, or works; `prior` is what it had come to before it was taken up again.
    fn begin(&mut self, run: &RunId, agent: String, doing: &str, prior: Option<PriorUsage>) {
        let known = self.by_run.remove(run).and_then(|row| row.line);
        let line = known.or_else(|| self.line(run, &agent));
        let prior = prior.unwrap_or(PriorUsage { cost_microusd: Some(0), ..PriorUsage::default() });
        let before = Duration::from_millis(prior.ms);
        if let Some(line) = &line {
            line.set_elapsed(before);
        }
        let (since, tool) = (Instant::now(), doing.to_owned());
        let PriorUsage { usage, cost_microusd, .. } = prior;
        let row = Row { agent, before, since, tool, open: 0, usage, cost_microusd, line };
        row.draw();
        self.by_run.insert(run.clone(), row);
        self.count();
    }

    /// A line for it, where there is one left.
    fn line(&mut self, run: &RunId, agent: &str) -> Option<ProgressBar> {
        if !self.live || self.shown >= LINES {
            return None;
        }
        self.shown += 1;
        let style = ProgressStyle::with_template("  {spinner} {prefix} {elapsed:>4} {wide_msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        let line = ProgressBar::new_spinner().with_style(style);
        // Whoever has none stands below all that have one.
        let line = match &self.more {
            Some(more) => self.lines.insert_before(more, line),
            None => self.lines.add(line),
        };
        line.set_prefix(format!("{} {run}", report::fit(agent, NAME)));
        line.enable_steady_tick(BEAT);
        Some(line)
    }

    /// Who has waited longest for a line gets the one that is free.
    fn promote(&mut self) {
        let waits = self.by_run.iter().filter(|(_, row)| row.line.is_none());
        let Some((run, agent)) =
            waits.min_by_key(|(_, row)| row.since).map(|(run, row)| (run.clone(), row.agent.clone()))
        else {
            return;
        };
        let Some(line) = self.line(&run, &agent) else { return };
        if let Some(row) = self.by_run.get_mut(&run) {
            line.set_elapsed(row.before + row.since.elapsed());
            row.line = Some(line);
            row.draw();
        }
    }

    fn end(&mut self, run: &RunId, status: RunStatus, error: Option<&str>) -> Option<String> {
        let row = self.by_run.remove(run)?;
        if let Some(line) = &row.line {
            self.shown -= 1;
            line.finish_and_clear();
            self.lines.remove(line);
            self.promote();
        }
        self.count();
        let sign = match status {
            RunStatus::Completed => "✓",
            // It goes on, or has answered all the same.
            RunStatus::Paused | RunStatus::StepCap => "·",
            _ => "✗",
        };
        let took = (row.before + row.since.elapsed()).as_micros();
        let took = report::duration(u64::try_from(took).unwrap_or(u64::MAX));
        let why = error.map(|error| format!(": {}", report::plain(error))).unwrap_or_default();
        let said = |words: &str, used: &Usage| {
            format!("{sign} {} {run} {words}in {took}{}{why}", row.agent, row.used(used))
        };
        let words = format!("{} ", status.words());
        // The sign says it too, where the line is too short for both; then what was cached goes, and why it ended last.
        let short = if status == RunStatus::Completed { "" } else { words.as_str() };
        let plainly = Usage { input: row.usage.input_total(), output: row.usage.output, ..Usage::default() };
        let width = if self.live { crate::terminal::stderr_width() } else { usize::MAX };
        let mut tried = [(words.as_str(), &row.usage), (short, &row.usage)]
            .map(|(words, used)| said(words, used))
            .into_iter();
        let fits = tried.find(|line| line.chars().count() <= width);
        Some(fits.unwrap_or_else(|| report::fit(&said(short, &plainly), width)))
    }

    /// Says how many have no line.
    fn count(&mut self) {
        let without = self.by_run.len() - self.shown;
        match (without, &self.more) {
            (0, Some(more)) => {
                more.finish_and_clear();
                self.lines.remove(more);
                self.more = None;
            }
            (0, None) => {}
            (without, _) if self.live => {
                let more = self.more.get_or_insert_with(|| {
                    let style = ProgressStyle::with_template("    {msg}");
                    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
                    self.lines.add(ProgressBar::new_spinner().with_style(style))
                });
                more.set_message(format!("and {without} more"));
            }
            _ => {}
        }
    }
}

impl Row {
    fn add(&mut self, usage: &Usage, cost_microusd: Option<i64>) {
        self.usage += *usage;
        self.cost_microusd = self.cost_microusd.zip(cost_microusd).map(|(all, more)| all + more);
    }

    fn used(&self, usage: &Usage) -> String {
        let cost = match self.cost_microusd {
            Some(cost) if cost > 0 => format!(", ${:.4}", cost as f64 / 1e6),
            _ => String::new(),
        };
        format!(", {}{cost}", report::tokens(usage))
    }

    fn draw(&self) {
        let Some(line) = &self.line else { return };
        let beside = BESIDE + line.prefix().chars().count();
        line.set_message(self.told(crate::terminal::stderr_width().saturating_sub(beside)));
    }

    /// What is said behind its name, as much of it as there is room for.
    fn told(&self, room: usize) -> String {
        let doing = match self.tool.as_str() {
            "" => "thinks",
            tool => tool,
        };
        report::fit(&format!("{}{}", report::fit(doing, NAME), self.used(&self.usage)), room)
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

    fn started(run: &str) -> RunEvent {
        let what = EventKind::Started {
            kind: store::RunKind::Sub,
            agent: "scan\u{1b}ner".to_owned(),
            model: "m".to_owned(),
            call: None,
            is_job: true,
            prior: None,
        };
        event(run, what)
    }

    #[test]
    fn who_waits_for_a_place_has_a_line_and_keeps_it() {
        let board = Board::new();
        {
            let mut rows = board.rows();
            rows.live = true;
            rows.lines.set_draw_target(ProgressDrawTarget::hidden());
        }
        let what = EventKind::Queued { kind: store::RunKind::Sub, agent: "scanner".to_owned() };
        board.see(&event("m-1-0", what));
        let message = || {
            let rows = board.rows();
            let line = rows.by_run[&RunId::new("m-1-0")].line.as_ref().map(ProgressBar::message);
            (rows.shown, rows.by_run.len(), line.unwrap_or_default())
        };
        assert_eq!(message(), (1, 1, "waits for a place, 0 in, 0 out".to_owned()));
        board.see(&started("m-1-0"));
        assert_eq!(message(), (1, 1, "thinks, 0 in, 0 out".to_owned()));
    }

    #[test]
    fn who_is_taken_up_again_is_said_with_all_that_it_used() {
        let board = Board::new();
        let RunEvent { kind: EventKind::Started { kind, agent, model, call, is_job, .. }, .. } =
            started("m-1-0")
        else {
            panic!("started");
        };
        let usage = Usage { input: 1000, output: 10, ..Usage::default() };
        let prior = Some(PriorUsage { usage, cost_microusd: Some(1000), ms: 3_600_000 });
        board.see(&event("m-1-0", EventKind::Started { kind, agent, model, call, is_job, prior }));
        let (text, calls) = (None, Vec::new());
        board.see(&event(
            "m-1-0",
            EventKind::Message { seq: 4, step: 2, text, calls, usage, cost_microusd: Some(500) },
        ));
        let (status, final_text, error) = (RunStatus::Completed, None, None);
        let what = EventKind::Finished { status, final_text, error, usage, cost_microusd: None };
        let said = board.see(&event("m-1-0", what)).expect("it has ended");
        assert!(said.contains(" in 3600.") && said.ends_with(" s, 2.0k in, 20 out, $0.0015"), "{said}");
    }

    #[test]
    fn an_end_fits_its_line() {
        let board = Board::new();
        board.rows().live = true;
        board.rows().lines.set_draw_target(ProgressDrawTarget::hidden());
        board.see(&started("1m7gqwz9bn74vve5-4-0"));
        let usage = Usage { input: 1200, cache_read: 950, output: 30, ..Usage::default() };
        let (text, calls) = (None, Vec::new());
        let what = EventKind::Message { seq: 2, step: 1, text, calls, usage, cost_microusd: Some(1500) };
        board.see(&event("1m7gqwz9bn74vve5-4-0", what));
        let what = EventKind::Finished {
            status: RunStatus::Completed,
            final_text: None,
            error: Some("word ".repeat(40)),
            usage,
            cost_microusd: None,
        };
        let said = board.see(&event("1m7gqwz9bn74vve5-4-0", what)).expect("it has ended");
        assert!(said.chars().count() <= crate::terminal::stderr_width(), "{said}");
        assert!(said.contains("2.1k in, 30 out") && !said.contains("cached"), "{said}");
    }

    #[test]
    fn who_ends_is_said_with_what_it_used() {
        let board = Board::new();
        assert_eq!(board.see(&started("m-1-0")), None);
        let usage = Usage { input: 1200, output: 30, ..Usage::default() };
        for seq in 1..3 {
            let (text, calls) = (None, Vec::new());
            let what = EventKind::Message { seq, step: 1, text, calls, usage, cost_microusd: Some(1500) };
            assert_eq!(board.see(&event("m-1-0", what)), None);
        }
        let what = EventKind::Finished {
            status: RunStatus::Failed,
            final_text: Some("never shown".to_owned()),
            error: Some("no answer".to_owned()),
            usage,
            cost_microusd: None,
        };
        let said = board.see(&event("m-1-0", what)).expect("it has ended");
        let (before, after) = said.split_once(" in ").expect("a time");
        assert_eq!(before, "✗ scan\\u{1b}ner m-1-0 failed");
        assert!(after.ends_with(", 2.4k in, 60 out, $0.0030: no answer"), "{after}");
    }

    #[test]
    fn a_line_says_what_goes_on_and_goes_to_the_next_when_it_is_free() {
        let board = Board::new();
        {
            let mut rows = board.rows();
            rows.live = true;
            rows.lines.set_draw_target(ProgressDrawTarget::hidden());
        }
        for n in 0..=LINES {
            board.see(&started(&format!("m-1-{n}")));
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
            (done("b", "read"), "thinks, after read"),
            (EventKind::Woken { seq: 3, jobs: Vec::new() }, "thinks"),
            (done("c", "bash"), "thinks, after bash"), // it was refused, and never began
            (EventKind::Waiting { jobs: 1 }, "waits for its jobs"),
            (EventKind::Woken { seq: 4, jobs: Vec::new() }, "thinks"),
        ] {
            board.see(&event("m-1-0", what));
            assert_eq!(says("m-1-0").as_deref(), Some(doing));
        }
        let last = format!("m-1-{LINES}");
        assert_eq!(says(&last), None, "there is no line left");
        let (status, usage) = (RunStatus::Completed, Usage::default());
        board.see(&event(
            "m-1-0",
            EventKind::Finished { status, final_text: None, error: None, usage, cost_microusd: None },
        ));
        assert_eq!(says(&last).as_deref(), Some("thinks"));
    }

    #[test]
    fn what_does_not_fit_a_line_is_cut_with_a_sign() {
        let board = Board::new();
        board.see(&started("m-1-0"));
        let rows = board.rows();
        let row = &rows.by_run[&RunId::new("m-1-0")];
        assert_eq!(row.told(80), "thinks, 0 in, 0 out");
        assert_eq!(row.told(16), "thinks, 0 in, 0…");
    }

    #[test]
    fn a_thousand_at_once_take_ten_lines() {
        let board = Board::new();
        {
            let mut rows = board.rows();
            rows.live = true;
            rows.lines.set_draw_target(ProgressDrawTarget::hidden());
        }
        for n in 0..1000 {
            board.see(&started(&format!("m-1-{n}")));
        }
        let rows = board.rows();
        assert_eq!((rows.shown, rows.by_run.len()), (LINES, 1000));
        assert_eq!(rows.more.as_ref().map(ProgressBar::message).as_deref(), Some("and 990 more"));
    }
}
