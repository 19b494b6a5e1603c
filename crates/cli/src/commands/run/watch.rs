//! Who watches a run: a person at a terminal, a program that reads lines, or nobody.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use super::board::Board;
use crate::events::Log;
use agent::provider::BlockKind;
use agent::{EventKind, EventSink, RunEvent};
use store::{CallStatus, RunStatus};

/// How much of a tool's input and answer a line shows.
const SHOWN: usize = 72;

/// Why output did not reach who wanted it; a reader that has seen enough is no reason.
#[derive(Clone, Default)]
pub(super) struct LostOutput(Arc<Mutex<Option<std::io::Error>>>);

impl LostOutput {
    fn note(&self, written: std::io::Result<()>) {
        let Err(error) = written else { return };
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    pub(super) fn take(&self) -> Option<std::io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// One JSON object a line, kept in a file before it is printed.
pub(super) struct Lines {
    lost: LostOutput,
    written: Mutex<Written>,
    /// Those of all agents are told, and pieces of replies on their way.
    all: bool,
}

/// Where the lines are kept. Which tree it is, the first event says.
enum Written {
    Nothing,
    In(Log),
    /// Nowhere any more, after so many; why was said.
    Lost(u64),
}

impl Lines {
    pub(super) fn new(all: bool, lost: LostOutput) -> Self {
        Self { lost, written: Mutex::new(Written::Nothing), all }
    }
}

impl Written {
    /// The number of the next line.
    fn next(&mut self, event: &RunEvent) -> u64 {
        if let Written::Nothing = self {
            *self = Log::open(&event.run).map_or_else(|error| Written::lost(0, &error), Written::In);
        }
        match self {
            Written::Nothing => 1,
            Written::In(log) => log.next(),
            Written::Lost(last) => {
                *last += 1;
                *last
            }
        }
    }

    fn keep(&mut self, line: &str, seq: u64) {
        if let Written::In(log) = self
            && let Err(error) = log.append(line)
        {
            *self = Written::lost(seq, &error);
        }
    }

    /// The run goes on: whoever reads along has all of them.
    fn lost(last: u64, error: &std::io::Error) -> Self {
        eprintln!("warning: the events are not kept from here on: {error}");
        Written::Lost(last)
    }
}

/// What is told of a run without being asked for: all of the main one, and where the others stand, without their words.
fn for_everybody(event: &RunEvent) -> Option<RunEvent> {
    let kind = match (&event.kind, event.is_root) {
        (EventKind::Provisional { .. }, _) => return None,
        (_, true) => event.kind.clone(),
        (
            EventKind::Queued { .. }
            | EventKind::Started { .. }
            | EventKind::Waiting { .. }
            | EventKind::Woken { .. }
            | EventKind::TranscriptLost { .. }
            | EventKind::ForkEnded(_)
            | EventKind::Disarmed { .. },
            false,
        ) => event.kind.clone(),
        (EventKind::Finished { status, error, usage, cost_microusd, .. }, false) => EventKind::Finished {
            status: *status,
            final_text: None,
            error: error.clone(),
            usage: *usage,
            cost_microusd: *cost_microusd,
        },
        (_, false) => return None,
    };
    Some(RunEvent { kind, ..event.clone() })
}

/// What a person is told of a fork that could not be written down.
fn lost(error: &str) -> String {
    format!("warning: the fork went on in memory, and its transcript is not kept: {}", report::plain(error))
}

impl EventSink for Lines {
    fn emit(&self, event: &RunEvent) {
        if let EventKind::TranscriptLost { error } = &event.kind {
            eprintln!("{}", lost(error));
        }
        let event = if self.all { Some(event.clone()) } else { for_everybody(event) };
        let Some(event) = event else { return };
        // Numbered with the file and the output in hand, so that the numbers stand in their order in both.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stdout().lock();
        let seq = written.next(&event);
        let line = report::harmless_json(&event.json(seq));
        written.keep(&line, seq);
        self.lost.note(writeln!(out, "{line}").and_then(|()| out.flush()));
    }
}

/// Holds back that a run is paused for as long as it may still be ended instead: it has one end.
pub(super) struct Patient {
    others: Box<dyn EventSink>,
    held: Mutex<Vec<RunEvent>>,
}

impl Patient {
    pub(super) fn before(others: impl EventSink + 'static) -> Self {
        Self { others: Box::new(others), held: Mutex::default() }
    }

    /// What is paused stays so.
    pub(super) fn let_go(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        held.iter().for_each(|event| self.others.emit(event));
    }
}

impl EventSink for Patient {
    fn emit(&self, event: &RunEvent) {
        if let EventKind::Finished { status, .. } = &event.kind {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.retain(|other| other.run != event.run);
            if *status == RunStatus::Paused {
                return held.push(event.clone());
            }
            drop(held);
            if event.is_root {
                self.let_go(); // its end is the last
            }
        }
        self.others.emit(event);
    }
}

/// Words on the terminal as they come; elsewhere only what the run says in the end, for whoever reads it.
pub(super) struct Person {
    lost: LostOutput,
    live: bool,
    /// The sub-agents.
    board: Board,
    /// Whether the cursor stands behind something on its line.
    open_line: Mutex<bool>,
    /// The first letter of what may be a line end.
    held: Mutex<String>,
}

impl Person {
    pub(super) fn new(board: Board, lost: LostOutput) -> Self {
        Self {
            lost,
            live: std::io::stdout().is_terminal(),
            board,
            open_line: Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// A piece as a terminal shows it. One may end between the two letters of a line end.
    fn whole(&self, piece: &str) -> String {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = std::mem::take(&mut *held) + piece;
        let Some(shown) = whole.strip_suffix('\r') else { return report::readable(&whole) };
        "\r".clone_into(&mut held);
        report::readable(shown)
    }

    fn say(&self, text: &str) {
        // A terminal obeys what it is sent; whoever reads a pipe or a file gets what was said.
        let shown = if self.live { self.whole(text) } else { text.to_owned() };
        let mut open = self.open_line.lock().unwrap_or_else(PoisonError::into_inner);
        self.board.hide();
        let mut out = std::io::stdout().lock();
        self.lost.note(out.write_all(shown.as_bytes()).and_then(|()| out.flush()));
        *open = !shown.is_empty() && !shown.ends_with('\n');
        if !*open {
            self.board.show();
        }
    }

    /// A line beside the words.
    fn note(&self, text: &str) {
        let mut open = self.open_line.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *open) {
            self.lost.note(writeln!(std::io::stdout().lock()));
            self.board.show();
        }
        self.board.say(text);
    }
}

impl EventSink for Person {
    fn emit(&self, event: &RunEvent) {
        if let EventKind::TranscriptLost { error } = &event.kind {
            self.note(&lost(error));
            return;
        }
        if let EventKind::Disarmed { text } = &event.kind {
            self.note(&format!("✗ {}", report::plain(text)));
            return;
        }
        if !event.is_root {
            if let Some(ended) = self.board.see(event) {
                self.note(&ended);
            }
            return;
        }
        match &event.kind {
            EventKind::Provisional { part: BlockKind::Text, text } if self.live => self.say(text),
            EventKind::Message { .. } if self.live => {
                let open = *self.open_line.lock().unwrap_or_else(PoisonError::into_inner);
                if open {
                    self.say("\n");
                }
            }
            EventKind::CallStarted { name, input, .. } => {
                let (name, input) = (report::plain(name), report::fit(&report::plain(input), SHOWN));
                self.note(&report::fit(&format!("· {name} {input}"), crate::terminal::width()));
            }
            // Nothing was said of it before, since it was never begun.
            EventKind::CallFinished { name, input, reason: Some(why), .. } => {
                let (name, input) = (report::plain(name), report::fit(&report::plain(input), SHOWN));
                self.note(&format!("✗ {name} {input}\n  refused: {}", report::plain(why)));
            }
            EventKind::CallFinished { name, status, text, .. } if *status != CallStatus::Done => {
                let text = report::fit(&report::plain(text), SHOWN);
                let status = status.as_str().replace('_', " ");
                self.note(&format!("✗ {} {status}: {text}", report::plain(name)));
            }
            EventKind::Retrying { attempt, error, wait_ms } => {
                let wait = report::duration(wait_ms.saturating_mul(1000));
                self.note(&format!("attempt {attempt} failed: {}; again in {wait}", report::plain(error)));
            }
            // One that has ended in the meantime is told at once.
            EventKind::Waiting { jobs } if *jobs > 0 => {
                let jobs = if *jobs == 1 { "one job".to_owned() } else { format!("{jobs} jobs") };
                self.note(&format!("· waits for {jobs}"));
            }
            EventKind::ForkEnded(ended) => {
                let rate = ended
                    .hit_rate
                    .map(|rate| format!("{:.1} % of what was sent came from the cache", rate * 100.0));
                self.note(&format!(
                    "· the fork `{}` ended{}",
                    report::plain(&ended.label),
                    rate.map(|rate| format!("; {rate}")).unwrap_or_default()
                ));
            }
            EventKind::Compacted { .. } => {
                self.note("the conversation had become long and goes on with a summary")
            }
            // What was said before a run broke off is not its answer.
            EventKind::Finished {
                final_text: Some(text),
                status: RunStatus::Completed | RunStatus::StepCap,
                ..
            } if !self.live => {
                self.say(&format!("{text}\n"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{RunId, Usage};

    /// Writes down the ends that it sees.
    #[derive(Clone, Default)]
    struct Ends(Arc<Mutex<Vec<String>>>);

    impl EventSink for Ends {
        fn emit(&self, event: &RunEvent) {
            if let EventKind::Finished { status, .. } = &event.kind {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{} {status}", event.run));
            }
        }
    }

    /// What is seen of these ends before and after nobody thinks again; the main run is `m`.
    fn seen(ends: &[(&str, RunStatus)]) -> (Vec<String>, Vec<String>) {
        let told = Ends::default();
        let patient = Patient::before(told.clone());
        for (run, status) in ends {
            let (status, usage) = (*status, Usage::default());
            patient.emit(&RunEvent {
                run: RunId::new(*run),
                parent: None,
                chain: "".into(),
                parent_chain: None,
                depth: 0,
                is_root: *run == "m",
                kind: EventKind::Finished {
                    status,
                    final_text: None,
                    error: None,
                    usage,
                    cost_microusd: None,
                },
            });
        }
        let take = || std::mem::take(&mut *told.0.lock().unwrap_or_else(PoisonError::into_inner));
        let before = take();
        patient.let_go();
        (before, take())
    }

    #[test]
    fn a_run_has_one_end() {
        use RunStatus::{CancelledByParent, CancelledByUser, Completed, Paused};
        let (before, after) = seen(&[("s", Paused), ("m", Paused)]);
        assert_eq!((before.is_empty(), after), (true, vec!["s paused".to_owned(), "m paused".to_owned()]));
        let (before, after) =
            seen(&[("s", Paused), ("m", Paused), ("s", CancelledByParent), ("m", CancelledByUser)]);
        assert_eq!(
            (before, after.len()),
            (vec!["s cancelled_by_parent".into(), "m cancelled_by_user".into()], 0)
        );
        let (before, after) = seen(&[("s", Paused), ("m", Completed)]);
        assert_eq!(
            (before, after.len()),
            (vec!["s paused".into(), "m completed".into()], 0),
            "the last is main's"
        );
    }
}
