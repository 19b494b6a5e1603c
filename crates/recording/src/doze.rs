//! How a thread waits for what others hand it without being woken for every single thing.
//!
//! To wake a thread costs both sides more than most of what it is woken for. So one that has just worked dozes before it
//! sleeps: what can wait a moment waits for it to look again, and only the rest wakes it.

use std::sync::{Condvar, MutexGuard};
use std::time::Duration;

/// How soon a thread that dozes looks again.
const DOZE: Duration = Duration::from_millis(5);

/// What the thread behind a queue does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    #[default]
    Working,
    Dozing,
    Asleep,
}

/// What a thread waits at.
pub(crate) trait Awaited {
    /// Whether there is a reason to come back.
    fn has_work(&self) -> bool;
    /// What the thread does.
    fn rest(&mut self) -> &mut Rest;
}

/// Wakes one thread.
#[derive(Debug, Default)]
pub(crate) struct Bell(Condvar);

impl Bell {
    /// Something was handed over.
    pub(crate) fn ring(&self, rest: &mut Rest, urgent: bool) {
        if *rest == Rest::Asleep || (*rest == Rest::Dozing && urgent) {
            *rest = Rest::Working;
            self.0.notify_one();
        }
    }

    /// Comes back when there is work.
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
