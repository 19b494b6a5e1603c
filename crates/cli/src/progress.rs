//! A line that shows the current step of long work on a terminal. Nothing is shown in a pipe.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const REDRAW_INTERVAL: Duration = Duration::from_millis(250);
/// Steps that are shorter are not shown.
const DELAY: Duration = Duration::from_millis(400);

/// A line at the bottom of the terminal. It disappears when this value is dropped.
pub(crate) struct Progress {
    shared: Option<Arc<Mutex<ProgressLine>>>,
}

struct ProgressLine {
    step: String,
    since: Instant,
    bar: Option<ProgressBar>,
    is_over: bool,
}

impl Progress {
    /// Starts without a step.
    pub(crate) fn start() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { shared: None };
        }
        let shared = Arc::new(Mutex::new(ProgressLine::new(Instant::now())));
        let drawn = shared.clone();
        std::thread::spawn(move || {
            while !locked(&drawn).draw(Instant::now()) {
                std::thread::sleep(REDRAW_INTERVAL);
            }
        });
        Self { shared: Some(shared) }
    }

    /// Starts with a step.
    pub(crate) fn step(text: &str) -> Self {
        let progress = Self::start();
        progress.set_step(text);
        progress
    }

    /// Replaces the step.
    pub(crate) fn set_step(&self, text: &str) {
        if let Some(shared) = &self.shared {
            locked(shared).begin(text, Instant::now());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            let mut line = locked(shared);
            line.clear();
            line.is_over = true;
        }
    }
}

fn locked(line: &Mutex<ProgressLine>) -> MutexGuard<'_, ProgressLine> {
    line.lock().expect("lock is not poisoned")
}

impl ProgressLine {
    fn new(now: Instant) -> Self {
        Self { step: String::new(), since: now, bar: None, is_over: false }
    }

    fn begin(&mut self, step: &str, now: Instant) {
        self.clear();
        *self = Self { step: report::plain(step), ..Self::new(now) };
    }

    /// Draws the line. Returns `true` if the work is over.
    fn draw(&mut self, now: Instant) -> bool {
        let Some(text) = self.text(now) else { return self.is_over };
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        bar.set_message(report::fit(&text, crate::terminal::stderr_width().max(8) - 3));
        bar.tick();
        self.is_over
    }

    /// Returns the text to show at this time.
    fn text(&self, now: Instant) -> Option<String> {
        let elapsed = now.saturating_duration_since(self.since);
        if self.is_over || self.step.is_empty() || elapsed < DELAY {
            return None;
        }
        Some(format!("{} … {} s", self.step, elapsed.as_secs()))
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_steps_are_shown() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut line = ProgressLine::new(start);
        assert_eq!(line.text(after(5000)), None, "there is no step yet");
        line.begin("reading `re\u{1b}c`", start);
        assert_eq!(line.text(after(399)), None);
        assert_eq!(line.text(after(1400)).as_deref(), Some("reading `re\\u{1b}c` … 1 s"));
        line.begin("writing", after(2000));
        assert_eq!(line.text(after(2100)), None, "each step has its own time");
        line.is_over = true;
        assert_eq!(line.text(after(9000)), None);
    }
}
