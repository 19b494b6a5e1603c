//! Number of exchanges whose end is on the disk, and the tasks that wait for it.

use std::sync::Mutex;

use tokio::sync::oneshot;

/// Counts stored exchanges in the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct StoredCount(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    kept: u64,
    /// Tasks by the count that wakes them.
    waiting: Vec<(u64, oneshot::Sender<()>)>,
}

impl StoredCount {
    /// Counts `more` exchanges as stored or lost.
    pub(crate) fn add(&self, more: u64) {
        if more == 0 {
            return;
        }
        let mut count = self.0.lock().expect("lock is not poisoned");
        count.kept += more;
        let kept = count.kept;
        let due: Vec<_> = count.waiting.extract_if(.., |(turn, _)| *turn <= kept).collect();
        drop(count);
        for (_, turn) in due {
            let _ = turn.send(()); // the receiver is gone after a timeout
        }
    }

    /// Returns a receiver that resolves at `kept` exchanges; `None` if the count is reached already.
    pub(crate) fn turn(&self, kept: u64) -> Option<oneshot::Receiver<()>> {
        let mut count = self.0.lock().expect("lock is not poisoned");
        (count.kept < kept).then(|| {
            let (turn, comes) = oneshot::channel();
            count.waiting.push((kept, turn));
            comes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_satisfied_waiters_are_woken() {
        let kept = StoredCount::default();
        let mut turns = [3, 1, 2].map(|turn| kept.turn(turn).expect("not kept yet"));
        let mut came = || turns.each_mut().map(|turn| turn.try_recv().is_ok());
        assert_eq!(came(), [false, false, false]);
        kept.add(1);
        assert_eq!(came(), [false, true, false]);
        kept.add(2);
        assert_eq!(came(), [true, false, true]);
        assert!(kept.turn(3).is_none() && kept.turn(4).is_some());
    }
}
