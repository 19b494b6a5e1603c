//! The order in which the calls of one message start runs: where the number of runs is limited, the first calls get in.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// The place of one call in that order. Dropping it releases it.
pub(crate) struct StartSlot {
    index: usize,
    order: Arc<StartOrder>,
}

struct StartOrder {
    released: Mutex<Released>,
    /// Notified when all slots before it are released.
    ready: Vec<Notify>,
}

struct Released {
    /// The first slot that is not released.
    next: usize,
    each: Vec<bool>,
}

/// Creates that many slots, in order.
pub(crate) fn start_slots(count: usize) -> impl Iterator<Item = StartSlot> {
    let ready: Vec<Notify> = (0..count).map(|_| Notify::new()).collect();
    if let Some(first) = ready.first() {
        first.notify_one();
    }
    let released = Mutex::new(Released { next: 0, each: vec![false; count] });
    let order = Arc::new(StartOrder { released, ready });
    (0..count).map(move |index| StartSlot { index, order: Arc::clone(&order) })
}

impl StartSlot {
    /// Waits until all slots before it are released.
    pub(crate) async fn wait(&self) {
        self.order.ready[self.index].notified().await;
    }

    /// Lets the next call start its run.
    pub(crate) fn release(&self) {
        let mut released = self.order.released.lock().expect("lock is not poisoned");
        released.each[self.index] = true;
        while released.each.get(released.next) == Some(&true) {
            released.next += 1;
            if let Some(next) = self.order.ready.get(released.next) {
                next.notify_one();
            }
        }
    }
}

impl Drop for StartSlot {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_slot_is_ready_when_all_before_it_are_released() {
        let order: Arc<Mutex<Vec<usize>>> = Arc::default();
        let mut tasks = tokio::task::JoinSet::new();
        // The last ones wait first, and one is dropped before it is ready.
        for slot in start_slots(20).collect::<Vec<_>>().into_iter().rev() {
            let order = Arc::clone(&order);
            tasks.spawn(async move {
                if slot.index == 7 {
                    return;
                }
                slot.wait().await;
                tokio::task::yield_now().await;
                order.lock().expect("lock is not poisoned").push(slot.index);
                slot.release();
                std::future::pending::<()>().await; // the call still works
            });
        }
        while order.lock().expect("lock is not poisoned").len() < 19 {
            tokio::task::yield_now().await;
        }
        let wanted: Vec<usize> = (0..20).filter(|index| *index != 7).collect();
        assert_eq!(*order.lock().expect("lock is not poisoned"), wanted);
    }
}
