//! Finds waits that can never end, because turns wait for each other.
//!
//! Only turns without a `when` count, because only these are certain to be used. A script that is refused here could not
//! have been played.

use std::collections::HashSet;

use super::format::{ScriptFile, Wait};
use super::mistake::ScriptMistake;

/// A turn: index of the lane, and index in the lane.
type Node = (usize, usize);

pub(super) fn check(file: &ScriptFile) -> Result<(), ScriptMistake> {
    let mut done = HashSet::new();
    for lane in 0..file.lanes.value.len() {
        for turn in 0..file.lanes.value[lane].turns.value.len() {
            CycleSearch { file, done: &mut done, path: Vec::new() }.visit((lane, turn))?;
        }
    }
    Ok(())
}

/// A depth-first search along waits.
struct CycleSearch<'f, 'd> {
    file: &'f ScriptFile,
    /// Turns that are known to be reached.
    done: &'d mut HashSet<Node>,
    /// Turns that wait for the current one, outermost first.
    path: Vec<Node>,
}

impl CycleSearch<'_, '_> {
    fn visit(&mut self, node: Node) -> Result<(), ScriptMistake> {
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
                return Err(ScriptMistake::at(wait, format!("{this} waits for {other}, which waits for it")));
            }
            self.visit(awaited)?;
        }
        self.path.pop();
        self.done.insert(node);
        Ok(())
    }

    /// Returns the last turn that is certain to be used before the wait can end.
    fn awaited(&self, wait: &Wait) -> Option<Node> {
        if wait.turn.is_none() && wait.finished.is_none() {
            return None; // agents are only to start
        }
        let lanes = &self.file.lanes.value;
        let lane = lanes.iter().position(|lane| lane.lane.value == wait.lane)?;
        let turns = &lanes[lane].turns.value;
        let end = wait.turn.map_or(turns.len(), |turn| turn.get() as usize).min(turns.len());
        let last = turns[..end].iter().rposition(|turn| turn.value.when.is_none())?;
        Some((lane, last))
    }

    fn name(&self, (lane, turn): Node) -> String {
        format!("turn {} of lane `{}`", turn + 1, self.file.lanes.value[lane].lane.value)
    }
}
