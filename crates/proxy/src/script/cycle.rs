//! Waits that can never end, because each waits for another.
//!
//! Only turns without a `when` count, as those are said for sure: a script that is refused here
//! could not have been played.

use std::collections::HashSet;

use super::check::Mistake;
use super::format::{File, Wait};

/// A turn: its lane's and its own index.
type Node = (usize, usize);

pub(super) fn check(file: &File) -> Result<(), Mistake> {
    let mut done = HashSet::new();
    for lane in 0..file.lanes.value.len() {
        for turn in 0..file.lanes.value[lane].turns.value.len() {
            Search { file, done: &mut done, path: Vec::new() }.visit((lane, turn))?;
        }
    }
    Ok(())
}

struct Search<'f, 'd> {
    file: &'f File,
    /// Turns that are known to be said at last.
    done: &'d mut HashSet<Node>,
    /// Turns that wait for the one that is looked at, outermost first.
    path: Vec<Node>,
}

impl Search<'_, '_> {
    fn visit(&mut self, node: Node) -> Result<(), Mistake> {
        if self.done.contains(&node) {
            return Ok(());
        }
        self.path.push(node);
        let turn = &self.file.lanes.value[node.0].turns.value[node.1].value;
        if let Some(before) = node.1.checked_sub(1) {
            self.visit((node.0, before))?;
        }
        for wait in turn.wait_for.iter().filter(|_| turn.when.is_none()) {
            let Some(awaited) = self.awaited(&wait.value) else { continue };
            if self.path.contains(&awaited) {
                let (this, other) = (self.name(node), self.name(awaited));
                return Err(Mistake::at(wait, format!("{this} waits for {other}, which waits for it")));
            }
            self.visit(awaited)?;
        }
        self.path.pop();
        self.done.insert(node);
        Ok(())
    }

    /// The last turn that must have been said for sure before the wait can end.
    fn awaited(&self, wait: &Wait) -> Option<Node> {
        let lanes = &self.file.lanes.value;
        let lane = lanes.iter().position(|lane| lane.lane.value == wait.lane)?;
        let turns = &lanes[lane].turns.value;
        let upto = wait.turn.map_or(turns.len(), |turn| turn.get() as usize).min(turns.len());
        let last = turns[..upto].iter().rposition(|turn| turn.value.when.is_none())?;
        Some((lane, last))
    }

    fn name(&self, (lane, turn): Node) -> String {
        format!("turn {} of lane `{}`", turn + 1, self.file.lanes.value[lane].lane.value)
    }
}
