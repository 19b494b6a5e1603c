//! What is being done and for how long, on a terminal; nothing in a pipe.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often the seconds are counted up.
const BEAT: Duration = Duration::from_millis(250);
/// Only what takes longer than this is shown.
const PATIENCE: Duration = Duration::from_millis(400);

pub(crate) struct Progress {
    doing: Option<Arc<Mutex<Doing>>>,
}

struct Doing {
    what: String,
    since: Instant,
    shown: bool,
    over: bool,
}

impl Progress {
    pub(crate) fn start() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { doing: None };
        }
        let doing = Doing { what: String::new(), since: Instant::now(), shown: false, over: false };
        let doing = Arc::new(Mutex::new(doing));
        let shared = doing.clone();
        std::thread::spawn(move || {
            while !shared.lock().expect("nobody panics with it").tick() {
                std::thread::sleep(BEAT);
            }
        });
        Self { doing: Some(doing) }
    }

    /// Says what is being done from now on.
    pub(crate) fn say(&self, what: &str) {
        if let Some(doing) = &self.doing {
            let mut doing = doing.lock().expect("nobody panics with it");
            doing.clear();
            doing.what = what.to_owned();
            doing.since = Instant::now();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(doing) = &self.doing {
            let mut doing = doing.lock().expect("nobody panics with it");
            doing.clear();
            doing.over = true;
        }
    }
}

impl Doing {
    /// Draws the line; `true` when it was the last time.
    fn tick(&mut self) -> bool {
        if !self.over && !self.what.is_empty() && self.since.elapsed() > PATIENCE {
            eprint!("\r\x1b[K{} … {} s", self.what, self.since.elapsed().as_secs());
            let _ = std::io::stderr().flush(); // a terminal that is gone shows nothing
            self.shown = true;
        }
        self.over
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprint!("\r\x1b[K");
            let _ = std::io::stderr().flush(); // as above
        }
    }
}
