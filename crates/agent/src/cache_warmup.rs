//! The order of first requests of forks: of all forks of one turn, one goes first, and the others follow when its reply
//! starts, because nothing can be read from a prompt cache before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use session::RunId;
use store::Seq;
use tokio::sync::watch;

/// The turns that forks of this process start from at the moment.
#[derive(Debug, Default)]
pub struct CacheWarmup(Arc<Warmups>);

/// One warmup for each turn, by run and reply.
#[derive(Debug, Default)]
struct Warmups(Mutex<HashMap<(RunId, Seq), Warmup>>);

#[derive(Debug)]
struct Warmup {
    leader: watch::Sender<LeaderState>,
    /// Number of leaders and followers. Without any, the turn is forgotten.
    members: usize,
}

/// The state of the first fork of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaderState {
    /// It waits for its reply.
    Waiting,
    /// Its reply has started.
    Answered,
    /// It ended without a reply.
    Gone,
}

/// The role of a fork.
pub(crate) enum WarmupRole {
    /// It goes first. The others wait until its reply starts. If it ends before, one of them leads.
    Leader(Leader),
    /// It waits for the leader.
    Follower(Follower),
}

/// The handle of the fork that goes first.
pub(crate) struct Leader {
    state: watch::Sender<LeaderState>,
    _membership: Membership,
}

/// The handle of a fork that waits.
pub(crate) struct Follower {
    leader: watch::Receiver<LeaderState>,
    _membership: Membership,
}

/// Keeps a turn known while it lives.
struct Membership {
    warmups: Arc<Warmups>,
    turn: (RunId, Seq),
}

impl Leader {
    /// Reports that its reply has started.
    pub(crate) fn answered(&self) {
        self.state.send_replace(LeaderState::Answered);
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.state.send_if_modified(|state| {
            let is_gone = *state == LeaderState::Waiting;
            if is_gone {
                *state = LeaderState::Gone;
            }
            is_gone
        });
    }
}

impl Follower {
    /// Waits until the leader has its reply, or is gone.
    pub(crate) async fn wait(&mut self) -> LeaderState {
        let ended = self.leader.wait_for(|state| *state != LeaderState::Waiting).await;
        ended.map_or(LeaderState::Gone, |state| *state)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut warmups = self.warmups.lock();
        if let Some(warmup) = warmups.get_mut(&self.turn) {
            warmup.members -= 1;
            if warmup.members == 0 {
                warmups.remove(&self.turn);
            }
        }
    }
}

impl Warmups {
    fn lock(&self) -> MutexGuard<'_, HashMap<(RunId, Seq), Warmup>> {
        self.0.lock().expect("lock is not poisoned")
    }
}

impl CacheWarmup {
    /// Adds a fork of that turn and returns its role.
    pub(crate) fn join(&self, turn: (RunId, Seq)) -> WarmupRole {
        let mut warmups = self.0.lock();
        let warmup = warmups
            .entry(turn.clone())
            .or_insert_with(|| Warmup { leader: watch::Sender::new(LeaderState::Gone), members: 0 });
        warmup.members += 1;
        let membership = Membership { warmups: Arc::clone(&self.0), turn };
        if *warmup.leader.borrow() != LeaderState::Gone {
            return WarmupRole::Follower(Follower {
                leader: warmup.leader.subscribe(),
                _membership: membership,
            });
        }
        warmup.leader.send_replace(LeaderState::Waiting);
        WarmupRole::Leader(Leader { state: warmup.leader.clone(), _membership: membership })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn() -> (RunId, Seq) {
        (RunId::new("m"), Seq(2))
    }

    /// Joins the turn. Returns `leads` or `follows`, and the number of known turns.
    fn join(cache_warmup: &CacheWarmup) -> (WarmupRole, &'static str, usize) {
        let role = cache_warmup.join(turn());
        let word = if matches!(role, WarmupRole::Leader(_)) { "leads" } else { "follows" };
        (role, word, cache_warmup.0.lock().len())
    }

    #[test]
    fn a_turn_is_forgotten_when_its_last_fork_is_gone() {
        let cache_warmup = CacheWarmup::default();
        let (one, word, known) = join(&cache_warmup);
        assert_eq!((word, known), ("leads", 1));
        let (two, word, known) = join(&cache_warmup);
        assert_eq!((word, known), ("follows", 1));
        if let WarmupRole::Leader(leader) = &one {
            leader.answered();
        }
        drop(two);
        assert_eq!(join(&cache_warmup).1, "follows", "its reply has started, and the turn is known");
        drop(one);
        assert!(cache_warmup.0.lock().is_empty());
        assert_eq!(join(&cache_warmup).1, "leads");
        assert!(cache_warmup.0.lock().is_empty());
    }

    #[tokio::test]
    async fn a_follower_keeps_the_turn_when_the_leader_is_gone() {
        let cache_warmup = CacheWarmup::default();
        let (one, ..) = join(&cache_warmup);
        let (WarmupRole::Follower(mut two), ..) = join(&cache_warmup) else { panic!("it has a leader") };
        drop(one);
        assert_eq!(two.wait().await, LeaderState::Gone);
        let (next, word, known) = join(&cache_warmup);
        assert_eq!((word, known), ("leads", 1));
        drop((two, next));
        assert!(cache_warmup.0.lock().is_empty());
    }
}
