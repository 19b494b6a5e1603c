//! Forks of one turn: the first goes ahead, and the others when its answer has begun, since nothing can be read from a
//! prompt cache before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session::RunId;
use store::Seq;
use tokio::sync::watch;

/// The turns that forks are started from in this process at the moment.
#[derive(Debug, Default)]
pub struct CacheWarmup(Arc<Turns>);

/// By the run and its reply.
#[derive(Debug, Default)]
struct Turns(Mutex<HashMap<(RunId, Seq), Turn>>);

#[derive(Debug)]
struct Turn {
    first: watch::Sender<First>,
    /// How many lead or follow here; without any, nobody needs to know of the turn.
    seats: usize,
}

/// How the first fork of a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// It waits for its answer.
    Asks,
    /// Its answer has begun.
    Begun,
    /// It is gone without one.
    Gone,
}

/// Whether a fork goes first.
pub(crate) enum Place {
    /// It does. The others go when it says so; one of them leads where it is gone before.
    Leads(Lead),
    /// Another one does.
    Follows(Follow),
}

/// A fork that others wait for.
pub(crate) struct Lead {
    first: watch::Sender<First>,
    _seat: AgentRole,
}

/// A fork that waits for another one.
pub(crate) struct Follow {
    first: watch::Receiver<First>,
    _seat: AgentRole,
}

/// As long as it lives, its turn is known.
struct AgentRole {
    turns: Arc<Turns>,
    turn: (RunId, Seq),
}

impl Lead {
    /// Its answer has begun.
    pub(crate) fn begun(&self) {
        self.first.send_replace(First::Begun);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.first.send_if_modified(|first| {
            let is_gone = *first == First::Asks;
            if is_gone {
                *first = First::Gone;
            }
            is_gone
        });
    }
}

impl Follow {
    /// Waits until the first one has its answer, or is gone.
    pub(crate) async fn wait(&mut self) -> First {
        self.first.wait_for(|first| *first != First::Asks).await.map_or(First::Gone, |first| *first)
    }
}

impl Drop for AgentRole {
    fn drop(&mut self) {
        let mut turns = self.turns.lock();
        if let Some(turn) = turns.get_mut(&self.turn) {
            turn.seats -= 1;
            if turn.seats == 0 {
                turns.remove(&self.turn);
            }
        }
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, HashMap<(RunId, Seq), Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheWarmup {
    /// The place of a fork of that turn.
    pub(crate) fn place(&self, turn: (RunId, Seq)) -> Place {
        let mut turns = self.0.lock();
        let known = turns
            .entry(turn.clone())
            .or_insert_with(|| Turn { first: watch::Sender::new(First::Gone), seats: 0 });
        known.seats += 1;
        let seat = AgentRole { turns: Arc::clone(&self.0), turn };
        if *known.first.borrow() != First::Gone {
            return Place::Follows(Follow { first: known.first.subscribe(), _seat: seat });
        }
        known.first.send_replace(First::Asks);
        Place::Leads(Lead { first: known.first.clone(), _seat: seat })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn() -> (RunId, Seq) {
        (RunId::new("m"), Seq(2))
    }

    /// `leads` or `follows`, with how many turns are known meanwhile.
    fn placed(cache_warmup: &CacheWarmup) -> (Place, &'static str, usize) {
        let place = cache_warmup.place(turn());
        let word = if matches!(place, Place::Leads(_)) { "leads" } else { "follows" };
        (place, word, cache_warmup.0.lock().len())
    }

    #[test]
    fn a_turn_is_forgotten_when_the_last_one_leaves_it() {
        let cache_warmup = CacheWarmup::default();
        let (one, word, known) = placed(&cache_warmup);
        assert_eq!((word, known), ("leads", 1));
        let (two, word, known) = placed(&cache_warmup);
        assert_eq!((word, known), ("follows", 1));
        if let Place::Leads(lead) = &one {
            lead.begun();
        }
        drop(two);
        assert_eq!(placed(&cache_warmup).1, "follows", "its answer comes, and the turn is known");
        drop(one);
        assert!(cache_warmup.0.lock().is_empty());
        assert_eq!(placed(&cache_warmup).1, "leads");
        assert!(cache_warmup.0.lock().is_empty());
    }

    #[tokio::test]
    async fn who_follows_keeps_the_turn_when_the_first_one_is_gone() {
        let cache_warmup = CacheWarmup::default();
        let (one, ..) = placed(&cache_warmup);
        let (Place::Follows(mut two), ..) = placed(&cache_warmup) else { panic!("somebody leads") };
        drop(one);
        assert_eq!(two.wait().await, First::Gone);
        let (next, word, known) = placed(&cache_warmup);
        assert_eq!((word, known), ("leads", 1));
        drop((two, next));
        assert!(cache_warmup.0.lock().is_empty());
    }
}
