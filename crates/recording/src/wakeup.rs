//! Wakes a queue's thread without a wake-up per item.
//!
//! Waking a thread costs both sides more than most items. So a thread that has just worked dozes before it
//! sleeps: items that are not urgent wait until it looks again, and only urgent ones wake it.

use std::sync::{Condvar, MutexGuard};
use std::time::Duration;

/// Interval after which a dozing thread looks at its queue again.
const DOZE: Duration = Duration::from_millis(5);

/// State of the thread that empties a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ThreadState {
    #[default]
    Working,
    Dozing,
    Asleep,
}

/// Queue that a thread waits for.
pub(crate) trait WorkQueue {
    /// Returns whether the thread has a reason to continue.
    fn has_work(&self) -> bool;
    /// Returns the state of the thread.
    fn rest(&mut self) -> &mut ThreadState;
}

/// Wakes one thread.
#[derive(Debug, Default)]
pub(crate) struct WakeUp(Condvar);

impl WakeUp {
    /// Announces a new item.
    pub(crate) fn ring(&self, rest: &mut ThreadState, urgent: bool) {
        if *rest == ThreadState::Asleep || (*rest == ThreadState::Dozing && urgent) {
            *rest = ThreadState::Working;
            self.0.notify_one();
        }
    }

    /// Waits until there is work.
    pub(crate) fn wait<'q, Q: WorkQueue>(&self, mut queue: MutexGuard<'q, Q>) -> MutexGuard<'q, Q> {
        if queue.has_work() {
            return queue;
        }
        *queue.rest() = ThreadState::Dozing;
        let dozed = self.0.wait_timeout_while(queue, DOZE, |queue| *queue.rest() == ThreadState::Dozing);
        queue = dozed.expect("lock is not poisoned").0;
        while !queue.has_work() {
            *queue.rest() = ThreadState::Asleep;
            queue = self.0.wait(queue).expect("lock is not poisoned");
        }
        *queue.rest() = ThreadState::Working;
        queue
    }
}
