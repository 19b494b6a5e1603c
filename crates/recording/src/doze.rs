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
pub(crate) enum Rest {
    #[default]
    Working,
    Dozing,
    Asleep,
}

/// Queue that a thread waits for.
pub(crate) trait Awaited {
    /// Returns whether the thread has a reason to continue.
    fn has_work(&self) -> bool;
    /// Returns the state of the thread.
    fn rest(&mut self) -> &mut Rest;
}

/// Wakes one thread.
#[derive(Debug, Default)]
pub(crate) struct Bell(Condvar);

impl Bell {
    /// Announces a new item.
    pub(crate) fn ring(&self, rest: &mut Rest, urgent: bool) {
        if *rest == Rest::Asleep || (*rest == Rest::Dozing && urgent) {
            *rest = Rest::Working;
            self.0.notify_one();
        }
    }

    /// Waits until there is work.
    pub(crate) fn wait<'q, Q: Awaited>(&self, mut queue: MutexGuard<'q, Q>) -> MutexGuard<'q, Q> {
        if queue.has_work() {
            return queue;
        }
        *queue.rest() = Rest::Dozing;
        let dozed = self.0.wait_timeout_while(queue, DOZE, |queue| *queue.rest() == Rest::Dozing);
        queue = dozed.expect("no thread panics while it holds the queue").0;
        while !queue.has_work() {
            *queue.rest() = Rest::Asleep;
            queue = self.0.wait(queue).expect("no thread panics while it holds the queue");
        }
        *queue.rest() = Rest::Working;
        queue
    }
}
