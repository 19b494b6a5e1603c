//! What is being done and for how long, on a terminal; nothing in a pipe, and nothing of what is over at once.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the line is drawn anew.
const BEAT: Duration = Duration::from_millis(250);
/// Only what takes longer than this is shown.
const PATIENCE: Duration = Duration::from_millis(400);

/// A line at the bottom of the terminal, for as long as this lives.
pub(crate) struct Progress {
    doing: Option<Arc<Mutex<Doing>>>,
}

struct Doing {
    what: String,
    since: Instant,
    line: Option<ProgressBar>,
    over: bool,
}

impl Progress {
    /// Nothing is being done yet.
    pub(crate) fn start() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { doing: None };
        }
        let doing = Arc::new(Mutex::new(Doing::new(Instant::now())));
        let shared = doing.clone();
        std::thread::spawn(move || {
            while !locked(&shared).tick(Instant::now()) {
                std::thread::sleep(BEAT);
            }
        });
        Self { doing: Some(doing) }
    }

    /// This is being done.
    pub(crate) fn of(what: &str) -> Self {
        let progress = Self::start();
        progress.say(what);
        progress
    }

    /// Says what is being done from now on.
    pub(crate) fn say(&self, what: &str) {
        if let Some(doing) = &self.doing {
            locked(doing).begin(what, Instant::now());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(doing) = &self.doing {
            let mut doing = locked(doing);
            doing.clear();
            doing.over = true;
        }
    }
}

fn locked(doing: &Mutex<Doing>) -> MutexGuard<'_, Doing> {
    doing.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Doing {
    fn new(now: Instant) -> Self {
        Self { what: String::new(), since: now, line: None, over: false }
    }

    fn begin(&mut self, what: &str, now: Instant) {
        self.clear();
        *self = Self { what: report::plain(what), ..Self::new(now) };
    }

    /// Draws the line; `true` when it was the last time.
    fn tick(&mut self, now: Instant) -> bool {
        let Some(text) = self.text(now) else { return self.over };
        let line = self.line.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        let width =
            terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| width.0.into());
        line.set_message(report::fit(&text, width.max(8) - 3));
        line.tick();
        self.over
    }

    /// What is to be seen by now.
    fn text(&self, now: Instant) -> Option<String> {
        let took = now.saturating_duration_since(self.since);
        if self.over || self.what.is_empty() || took < PATIENCE {
            return None;
        }
        Some(format!("{} … {} s", self.what, took.as_secs()))
    }

    fn clear(&mut self) {
        if let Some(line) = self.line.take() {
            line.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_a_while_is_shown() {
        let begun = Instant::now();
        let after = |ms| begun + Duration::from_millis(ms);
        let mut doing = Doing::new(begun);
        assert_eq!(doing.text(after(5000)), None, "nothing was said yet");
        doing.begin("reading `re\u{1b}c`", begun);
        assert_eq!(doing.text(after(399)), None);
        assert_eq!(doing.text(after(1400)).as_deref(), Some("reading `re\\u{1b}c` … 1 s"));
        doing.begin("writing", after(2000));
        assert_eq!(doing.text(after(2100)), None, "another thing has its own time");
        doing.over = true;
        assert_eq!(doing.text(after(9000)), None);
    }
}
