//! Who watches a run: a person at a terminal, a program that reads lines, or nobody.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use agent::provider::BlockKind;
use agent::{Event, Watch, What};
use store::CallStatus;

/// How much of a tool's input and answer a line shows.
const SHOWN: usize = 100;

/// One JSON object a line.
pub(super) struct Lines {
    seq: AtomicU64,
    /// Pieces of replies on their way are told too.
    provisional: bool,
}

impl Lines {
    pub(super) fn new(provisional: bool) -> Self {
        Self { seq: AtomicU64::new(1), provisional }
    }
}

impl Watch for Lines {
    fn see(&self, event: &Event) {
        if matches!(event.what, What::Provisional { .. }) && !self.provisional {
            return;
        }
        let mut out = std::io::stdout().lock();
        // A reader that has seen enough is no failure of the run.
        let _ = writeln!(out, "{}", event.json(self.seq.fetch_add(1, Ordering::Relaxed)));
        let _ = out.flush();
    }
}

/// Words on the terminal as they come; elsewhere only what the run says in the end, for whoever reads it.
pub(super) struct Person {
    live: bool,
    /// Whether the cursor stands behind something on its line.
    open_line: Mutex<bool>,
}

impl Person {
    pub(super) fn new() -> Self {
        Self { live: std::io::stdout().is_terminal(), open_line: Mutex::new(false) }
    }

    fn say(&self, text: &str) {
        let shown: String = text.split('\n').map(report::visible).collect::<Vec<_>>().join("\n");
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(shown.as_bytes());
        let _ = out.flush();
        *self.open_line.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            !shown.is_empty() && !shown.ends_with('\n');
    }

    /// A line beside the words.
    fn note(&self, text: &str) {
        let mut open = self.open_line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if std::mem::take(&mut *open) {
            println!();
        }
        eprintln!("{text}");
    }
}

impl Watch for Person {
    fn see(&self, event: &Event) {
        match &event.what {
            What::Provisional { part: BlockKind::Text, text } if self.live => self.say(text),
            What::Message { .. } if self.live => {
                let open = *self.open_line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if open {
                    self.say("\n");
                }
            }
            What::CallStarted { name, input, .. } => {
                self.note(&format!(
                    "· {} {}",
                    report::plain(name),
                    report::fit(&report::plain(input), SHOWN)
                ));
            }
            What::CallFinished { name, status, text, .. } if *status != CallStatus::Done => {
                let text = report::fit(&report::plain(text), SHOWN);
                self.note(&format!("✗ {} {status}: {text}", report::plain(name)));
            }
            What::Retrying { attempt, error, wait_ms } => {
                let wait = report::duration(wait_ms.saturating_mul(1000));
                self.note(&format!("attempt {attempt} failed: {}; again in {wait}", report::plain(error)));
            }
            What::Compacted { .. } => {
                self.note("the conversation had become long and goes on with a summary")
            }
            What::Finished { final_text: Some(text), .. } if !self.live => self.say(&format!("{text}\n")),
            _ => {}
        }
    }
}
