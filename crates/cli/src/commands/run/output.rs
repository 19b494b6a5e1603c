//! Output of a run: text on a terminal, JSON lines, or the final message in a pipe.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard};

use agent::provider::BlockKind;
use agent::{EventKind, EventSink, RunEvent};
use report::{MarkdownStream, Tone, fit, plain};
use store::{CallStatus, RunStatus};

use super::board::Board;
use super::call_words::call_words;
use crate::events::EventLog;
use crate::terminal::{is_stdout_styled, width};

/// Maximum length of a tool's input or result on a line.
const MAX_VALUE: usize = 88;

/// First error while writing to standard output. A closed pipe (`head`) is no error.
#[derive(Clone, Default)]
pub(super) struct OutputError(Arc<Mutex<Option<std::io::Error>>>);

impl OutputError {
    fn note(&self, written: std::io::Result<()>) {
        let Err(error) = written else { return };
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            locked(&self.0).get_or_insert(error);
        }
    }

    /// Takes the error.
    pub(super) fn take(&self) -> Option<std::io::Error> {
        locked(&self.0).take()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("lock is not poisoned")
}

/// Prints one JSON object per line. Each line is stored in a file before it is printed.
pub(super) struct JsonOutput {
    error: OutputError,
    log: Mutex<LogState>,
    /// Prints the events of all agents, and partial replies.
    is_all: bool,
}

/// State of the event file.
enum LogState {
    /// The first event names the tree, and so the file.
    Unopened,
    Open(EventLog),
    /// The file failed after this number. The error was printed.
    Lost(u64),
}

impl JsonOutput {
    pub(super) fn new(is_all: bool, error: OutputError) -> Self {
        Self { error, log: Mutex::new(LogState::Unopened), is_all }
    }
}

impl LogState {
    /// Returns the number of the next line.
    fn next(&mut self, event: &RunEvent) -> u64 {
        if let LogState::Unopened = self {
            *self = EventLog::open(&event.run)
                .map_or_else(|error| LogState::failed_after(0, &error), LogState::Open);
        }
        match self {
            LogState::Unopened => 1,
            LogState::Open(log) => log.next(),
            LogState::Lost(last) => {
                *last += 1;
                *last
            }
        }
    }

    fn append(&mut self, line: &str, seq: u64) {
        if let LogState::Open(log) = self
            && let Err(error) = log.append(line)
        {
            *self = LogState::failed_after(seq, &error);
        }
    }

    /// The run continues, because a reader of the pipe still gets all lines.
    fn failed_after(last: u64, error: &std::io::Error) -> Self {
        warning!("cannot store further events: {error}");
        LogState::Lost(last)
    }
}

/// Reduces an event to what `--events main` prints: everything of the main agent, and the states of the others without
/// their text.
fn main_event(event: &RunEvent) -> Option<RunEvent> {
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
        (EventKind::Finished { status, error, denied_calls, usage, cost_microusd, .. }, false) => {
            EventKind::Finished {
                status: *status,
                final_text: None,
                partial_text: None,
                error: error.clone(),
                denied_calls: *denied_calls,
                usage: *usage,
                cost_microusd: *cost_microusd,
            }
        }
        (_, false) => return None,
    };
    Some(RunEvent { kind, ..event.clone() })
}

fn transcript_lost(error: &str) -> String {
    format!("warning: cannot store the transcript of the fork: {}", plain(error))
}

impl EventSink for JsonOutput {
    fn emit(&self, event: &RunEvent) {
        if let EventKind::TranscriptLost { error } = &event.kind {
            status!("{}", transcript_lost(error));
        }
        let event = if self.is_all { Some(event.clone()) } else { main_event(event) };
        let Some(event) = event else { return };
        // Both locks are held from numbering to printing, so that file and output have the same order.
        let mut log = locked(&self.log);
        let mut out = std::io::stdout().lock();
        let seq = log.next(&event);
        let line = report::harmless_json(&event.json(seq));
        log.append(&line, seq);
        self.error.note(writeln!(out, "{line}").and_then(|()| out.flush()));
    }
}

/// Delays the event of a pause while a second Ctrl-C can still end the run, so that each run has one end.
pub(super) struct DeferredPause {
    sink: Box<dyn EventSink>,
    deferred: Mutex<Vec<RunEvent>>,
}

impl DeferredPause {
    pub(super) fn before(sink: impl EventSink + 'static) -> Self {
        Self { sink: Box::new(sink), deferred: Mutex::default() }
    }

    /// Emits the delayed events.
    pub(super) fn release(&self) {
        let deferred = std::mem::take(&mut *locked(&self.deferred));
        deferred.iter().for_each(|event| self.sink.emit(event));
    }
}

impl EventSink for DeferredPause {
    fn emit(&self, event: &RunEvent) {
        if let EventKind::Finished { status, .. } = &event.kind {
            let mut deferred = locked(&self.deferred);
            deferred.retain(|other| other.run != event.run);
            if *status == RunStatus::Paused {
                return deferred.push(event.clone());
            }
            drop(deferred);
            if event.is_root {
                self.release(); // the root ends last
            }
        }
        self.sink.emit(event);
    }
}

/// Prints text for people. A terminal gets partial replies and notes; a pipe gets only the final message, unchanged.
pub(super) struct TextOutput {
    error: OutputError,
    is_terminal: bool,
    /// Lines of the sub-agents.
    board: Board,
    reply: Mutex<ReplyState>,
}

/// State of a reply that is being printed.
#[derive(Default)]
struct ReplyState {
    /// Renders Markdown, if output is styled.
    markdown: Option<MarkdownStream>,
    /// A carriage return that may belong to a line end.
    held: String,
    /// The cursor is in the middle of a line.
    is_line_open: bool,
}

impl ReplyState {
    /// Returns the text to print for the next piece.
    fn push(&mut self, piece: &str) -> String {
        if let Some(markdown) = &mut self.markdown {
            return markdown.push(piece);
        }
        let text = std::mem::take(&mut self.held) + piece;
        match text.strip_suffix('\r') {
            Some(text) => {
                "\r".clone_into(&mut self.held);
                text.to_owned()
            }
            None => text,
        }
    }

    /// Returns the rest of a reply, with a line end if one is missing.
    fn finish(&mut self) -> String {
        let mut rest = self.markdown.as_mut().map(MarkdownStream::finish).unwrap_or_default();
        rest += &std::mem::take(&mut self.held);
        let is_open = if rest.is_empty() { self.is_line_open } else { !rest.ends_with('\n') };
        if is_open { rest + "\n" } else { rest }
    }
}

impl TextOutput {
    pub(super) fn new(board: Board, error: OutputError) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let markdown = (is_terminal && is_stdout_styled()).then(|| MarkdownStream::new(width()));
        let reply = Mutex::new(ReplyState { markdown, ..ReplyState::default() });
        Self { error, is_terminal, board, reply }
    }

    /// Prints text of a reply on the terminal, escaped. The lines of sub-agents are hidden while a line is open.
    fn print_reply(&self, reply: &mut ReplyState, text: &str) {
        if text.is_empty() {
            return;
        }
        self.board.hide();
        self.write(&report::terminal_text(text, is_stdout_styled()));
        reply.is_line_open = !text.ends_with('\n');
        if !reply.is_line_open {
            self.board.show();
        }
    }

    fn write(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        self.error.note(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }

    /// Prints a line between pieces of a reply.
    fn note(&self, text: &str) {
        let mut reply = locked(&self.reply);
        if reply.is_line_open {
            self.print_reply(&mut reply, "\n");
        }
        self.board.print_line(text);
    }

    fn root_event(&self, event: &EventKind) {
        match event {
            EventKind::Provisional { part: BlockKind::Text, text } if self.is_terminal => {
                let mut reply = locked(&self.reply);
                let shown = reply.push(text);
                self.print_reply(&mut reply, &shown);
            }
            EventKind::Message { .. } if self.is_terminal => {
                let mut reply = locked(&self.reply);
                let shown = reply.finish();
                self.print_reply(&mut reply, &shown);
            }
            // A pipe gets only an answer, not the last words of a run that failed.
            EventKind::Finished { final_text: Some(text), .. } if !self.is_terminal => {
                self.write(&format!("{text}\n"))
            }
            event => {
                if let Some(note) = root_note(event) {
                    self.note(&note);
                }
            }
        }
    }
}

/// Returns the note for an event of the main agent.
fn root_note(event: &EventKind) -> Option<String> {
    let short = |text: &str| fit(&plain(text), MAX_VALUE);
    let failed = || Tone::Bad.paint("✗");
    Some(match event {
        EventKind::CallStarted { name, input, .. } => {
            fit(&format!("{} {}", Tone::Faint.paint("·"), fit(&call_words(name, input), MAX_VALUE)), width())
        }
        // A refused call has no start event.
        EventKind::CallFinished { name, input, reason: Some(why), .. } => {
            let words = fit(&call_words(name, input), MAX_VALUE);
            format!("{} {words}\n  refused: {}", failed(), plain(why))
        }
        EventKind::CallFinished { name, status, text, .. } if *status != CallStatus::Done => {
            let status = status.as_str().replace('_', " ");
            format!("{} {} {status}: {}", failed(), plain(name), short(text))
        }
        EventKind::Retrying { attempt, error, wait_ms } => {
            let wait = report::duration(wait_ms.saturating_mul(1000));
            let what = Tone::Warning.paint(&format!("attempt {attempt} failed"));
            format!("{what}: {}; retrying in {wait}", plain(error))
        }
        EventKind::SideWork { label, error: Some(error), .. } => {
            format!("{} {} failed: {}", failed(), label.replace('_', " "), short(error))
        }
        EventKind::SideWork { label, text: Some(text), is_reminder, .. } => {
            let reminded = if *is_reminder { " (the agent is reminded)" } else { "" };
            format!("{} {}{reminded}: {}", Tone::Faint.paint("·"), label.replace('_', " "), plain(text))
        }
        EventKind::SettingsDropped { model, settings, error } => {
            let what = Tone::Warning.paint(&format!(
                "the provider rejects {} for `{}`",
                settings.join(" and "),
                plain(model)
            ));
            format!("{what}: {}; continuing without", short(error))
        }
        // With 0 jobs, the wait is over already.
        EventKind::Waiting { jobs } if *jobs > 0 => {
            format!("· waiting for {}", report::counted(*jobs as u64, "job"))
        }
        EventKind::ForkEnded(fork) => {
            let rate = fork.hit_rate.map(|rate| format!("; {:.1} % of its input was cached", rate * 100.0));
            let differs = match fork.differs.as_slice() {
                [] => String::new(),
                parts => {
                    format!("; its agent has other {}, so it shares less of the cache", parts.join(" and "))
                }
            };
            format!("· fork `{}` ended{}{differs}", plain(&fork.label), rate.unwrap_or_default())
        }
        EventKind::Compacted { .. } => "the conversation was replaced by a summary".to_owned(),
        _ => return None,
    })
}

impl EventSink for TextOutput {
    fn emit(&self, event: &RunEvent) {
        match &event.kind {
            EventKind::TranscriptLost { error } => self.note(&transcript_lost(error)),
            EventKind::Hook { command, outcome: "failed", text, .. } => {
                let why = plain(text.as_deref().unwrap_or_default());
                self.note(&format!("{} hook `{}` failed: {why}", Tone::Bad.paint("✗"), plain(command)));
            }
            EventKind::Hook { command, outcome: "changed", tool: Some(tool), .. } => {
                self.note(&format!("hook `{}` changed the input of {}", plain(command), plain(tool)));
            }
            EventKind::Hook { command, text: Some(text), .. } => {
                self.note(&format!("hook `{}`: {}", plain(command), plain(text)));
            }
            EventKind::Hook { .. } => {}
            EventKind::TasksChanged { tasks } => self.board.show_tasks(tasks),
            EventKind::Disarmed { text } => self.note(&format!("{} {}", Tone::Bad.paint("✗"), plain(text))),
            kind if event.is_root => self.root_event(kind),
            _ => {
                if let Some(end) = self.board.update(event) {
                    self.note(&end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{RunId, Usage};

    /// Collects the ends of runs.
    #[derive(Clone, Default)]
    struct EndCollector(Arc<Mutex<Vec<String>>>);

    impl EventSink for EndCollector {
        fn emit(&self, event: &RunEvent) {
            if let EventKind::Finished { status, .. } = &event.kind {
                locked(&self.0).push(format!("{} {status}", event.run));
            }
        }
    }

    /// Returns the ends that are emitted before and after the release. The main run is `m`.
    fn emitted(ends: &[(&str, RunStatus)]) -> (Vec<String>, Vec<String>) {
        let collector = EndCollector::default();
        let deferred = DeferredPause::before(collector.clone());
        for (run, status) in ends {
            let (status, usage) = (*status, Usage::default());
            deferred.emit(&RunEvent {
                run: RunId::new(*run),
                parent: None,
                chain: "".into(),
                parent_chain: None,
                depth: 0,
                is_root: *run == "m",
                kind: EventKind::Finished {
                    status,
                    final_text: None,
                    partial_text: None,
                    error: None,
                    denied_calls: 0,
                    usage,
                    cost_microusd: None,
                },
            });
        }
        let take = || std::mem::take(&mut *locked(&collector.0));
        let before = take();
        deferred.release();
        (before, take())
    }

    #[test]
    fn a_run_has_one_end() {
        use RunStatus::{CancelledByUser, Completed, Paused};
        let (before, after) = emitted(&[("s", Paused), ("m", Paused)]);
        assert_eq!((before.is_empty(), after), (true, vec!["s paused".to_owned(), "m paused".to_owned()]));
        let (before, after) =
            emitted(&[("s", Paused), ("m", Paused), ("s", CancelledByUser), ("m", CancelledByUser)]);
        assert_eq!(
            (before, after.len()),
            (vec!["s cancelled_by_user".into(), "m cancelled_by_user".into()], 0)
        );
        let (before, after) = emitted(&[("s", Paused), ("m", Completed)]);
        assert_eq!(
            (before, after.len()),
            (vec!["s paused".into(), "m completed".into()], 0),
            "the main run ends last"
        );
    }
}
