//! Forks of one turn: the first goes ahead, and the others when its answer has begun, since nothing can be read from a
//! prompt cache before.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use session::RunId;
use store::Seq;
use tokio::sync::watch;

/// The turns that forks were started from in this process, by the run and its reply.
#[derive(Debug, Default)]
pub struct FanOut(Mutex<HashMap<(RunId, Seq), watch::Sender<First>>>);

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
    Follows(watch::Receiver<First>),
}

/// A fork that others wait for.
pub(crate) struct Lead(watch::Sender<First>);

impl Lead {
    /// Its answer has begun.
    pub(crate) fn begun(&self) {
        self.0.send_replace(First::Begun);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.0.send_if_modified(|first| {
            let is_gone = *first == First::Asks;
            if is_gone {
                *first = First::Gone;
            }
            is_gone
        });
    }
}

impl FanOut {
    /// The place of a fork of that turn.
    pub(crate) fn place(&self, turn: (RunId, Seq)) -> Place {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = turns.entry(turn).or_insert_with(|| watch::Sender::new(First::Gone));
        if *first.borrow() != First::Gone {
            return Place::Follows(first.subscribe());
        }
        first.send_replace(First::Asks);
        Place::Leads(Lead(first.clone()))
    }
}
