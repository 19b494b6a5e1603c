//! Queue of wire events that wait to be searched for secrets.

use std::sync::{Mutex, MutexGuard};

use crate::event::WireEvent;
use crate::wakeup::{ThreadState, WakeUp, WorkQueue};

/// Queue from many tasks to the one searching thread.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    waiting: Mutex<Waiting>,
    wakeup: WakeUp,
}

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    events: Vec<WireEvent>,
    /// Number of exchanges that have begun.
    begun: u64,
    /// Number of exchanges that have ended.
    ended: u64,
    closed: bool,
    rest: ThreadState,
}

impl WorkQueue for Waiting {
    fn has_work(&self) -> bool {
        self.closed || !self.events.is_empty()
    }

    fn rest(&mut self) -> &mut ThreadState {
        &mut self.rest
    }
}

impl EventQueue {
    /// Adds the event that `make` returns, under the lock. Returns the number of exchanges that have ended.
    pub(crate) fn put(&self, make: impl FnOnce() -> WireEvent) -> u64 {
        let mut waiting = self.waiting();
        waiting.put(make(), &self.wakeup);
        waiting.ended
    }

    /// Adds the first event of an exchange and returns the exchange's number.
    pub(crate) fn begin(&self, make: impl FnOnce(u64) -> WireEvent) -> u64 {
        let mut waiting = self.waiting();
        waiting.begun += 1;
        let n = waiting.begun;
        waiting.put(make(n), &self.wakeup);
        n
    }

    /// Waits for the next events; returns `None` after the queue was closed and emptied.
    pub(crate) fn take(&self) -> Option<Vec<WireEvent>> {
        let mut waiting = self.wakeup.wait(self.waiting());
        Some(std::mem::take(&mut waiting.events)).filter(|events| !events.is_empty())
    }

    /// Closes the queue for new events.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        self.wakeup.ring(&mut waiting.rest, true);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("lock is not poisoned")
    }
}

impl Waiting {
    /// Adds an event. A closed queue drops it.
    fn put(&mut self, event: WireEvent, wakeup: &WakeUp) {
        if self.closed {
            return;
        }
        self.ended += u64::from(matches!(event, WireEvent::End { .. }));
        let urgent = event.is_urgent(self.begun.saturating_sub(self.ended) <= 1);
        self.events.push(event);
        wakeup.ring(&mut self.rest, urgent);
    }
}
