//! Calls of one message that start others, in the order of the message: where there may be only so many, the first get in.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// One call's turn. It is over when that is said, or when the call has ended without a word.
pub(crate) struct Turn {
    at: usize,
    all: Arc<Turns>,
}

struct Turns {
    over: Mutex<Over>,
    /// Told when all before it are over.
    comes: Vec<Notify>,
}

struct Over {
    /// Whose turn it is.
    now: usize,
    each: Vec<bool>,
}

/// So many turns, one after the other.
pub(crate) fn turns(count: usize) -> impl Iterator<Item = Turn> {
    let comes: Vec<Notify> = (0..count).map(|_| Notify::new()).collect();
    if let Some(first) = comes.first() {
        first.notify_one();
    }
    let over = Mutex::new(Over { now: 0, each: vec![false; count] });
    let all = Arc::new(Turns { over, comes });
    (0..count).map(move |at| Turn { at, all: Arc::clone(&all) })
}

impl Turn {
    /// Waits until all before it are over.
    pub(crate) async fn comes(&self) {
        self.all.comes[self.at].notified().await;
    }

    /// The next one may go.
    pub(crate) fn is_over(&self) {
        let mut over = self.all.over.lock().unwrap_or_else(PoisonError::into_inner);
        over.each[self.at] = true;
        while over.each.get(over.now) == Some(&true) {
            over.now += 1;
            if let Some(next) = self.all.comes.get(over.now) {
                next.notify_one();
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.is_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_comes_when_all_before_it_are_over() {
        let order: Arc<Mutex<Vec<usize>>> = Arc::default();
        let mut all = tokio::task::JoinSet::new();
        // The last ones are at the door first, and one goes without a word before its turn has come.
        for turn in turns(20).collect::<Vec<_>>().into_iter().rev() {
            let order = Arc::clone(&order);
            all.spawn(async move {
                if turn.at == 7 {
                    return;
                }
                turn.comes().await;
                tokio::task::yield_now().await;
                order.lock().expect("sound").push(turn.at);
                turn.is_over();
                std::future::pending::<()>().await; // it still works
            });
        }
        while order.lock().expect("sound").len() < 19 {
            tokio::task::yield_now().await;
        }
        let wanted: Vec<usize> = (0..20).filter(|at| *at != 7).collect();
        assert_eq!(*order.lock().expect("sound"), wanted);
    }
}
