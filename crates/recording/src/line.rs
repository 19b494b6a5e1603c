//! The line in which what happens on the wire waits to be searched.

use std::sync::{Mutex, MutexGuard};

use crate::assembly::Event;
use crate::doze::{Awaited, Bell, Rest};

/// From many hands to the one thread that searches.
#[derive(Debug, Default)]
pub(crate) struct Line {
    waiting: Mutex<Waiting>,
    bell: Bell,
}

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    events: Vec<Event>,
    /// How many exchanges have begun.
    begun: u64,
    /// How many exchanges have ended.
    ended: u64,
    closed: bool,
    rest: Rest,
}

impl Awaited for Waiting {
    fn has_work(&self) -> bool {
        self.closed || !self.events.is_empty()
    }

    fn rest(&mut self) -> &mut Rest {
        &mut self.rest
    }
}

impl Line {
    /// Puts in what `make` makes, while nobody else can put in anything; how many exchanges have ended with it.
    pub(crate) fn put(&self, make: impl FnOnce() -> Event) -> u64 {
        let mut waiting = self.waiting();
        waiting.put(make(), &self.bell);
        waiting.ended
    }

    /// Like [`Line::put`], for an exchange that begins; its number.
    pub(crate) fn begin(&self, make: impl FnOnce(u64) -> Event) -> u64 {
        let mut waiting = self.waiting();
        waiting.begun += 1;
        let n = waiting.begun;
        waiting.put(make(n), &self.bell);
        n
    }

    /// Waits for what comes next; `None` when nothing more will.
    pub(crate) fn take(&self) -> Option<Vec<Event>> {
        let mut waiting = self.bell.wait(self.waiting());
        Some(std::mem::take(&mut waiting.events)).filter(|events| !events.is_empty())
    }

    /// From now on nothing more is taken in.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        self.bell.ring(&mut waiting.rest, true);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nobody panics while holding the line")
    }
}

impl Waiting {
    /// After the end nobody listens, and nothing more is recorded.
    fn put(&mut self, event: Event, bell: &Bell) {
        if self.closed {
            return;
        }
        self.ended += u64::from(matches!(event, Event::Ended { .. }));
        let urgent = event.is_urgent(self.begun.saturating_sub(self.ended) <= 1);
        self.events.push(event);
        bell.ring(&mut self.rest, urgent);
    }
}
