//! What requests look like, where nothing else tells which of them meet: agents that nobody started, and side calls.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use recording::lanes::LaneKind;

use super::compare::{Comparison, hashed};
use super::pair::Alike;
use super::unit::{Kind, Projected};

/// So many words of a side call are looked at.
const WORDS: usize = 2048;
/// Fewer words than this tell nothing.
const TELLING: usize = 3;

/// The looks of both sides' requests, as far as they were asked for.
pub(super) struct Looks<'l, 'c> {
    comparison: &'l Comparison<'c>,
    known: RefCell<HashMap<(usize, usize, usize), Rc<Look>>>,
}

/// What a request looks like.
#[derive(Default)]
struct Look {
    /// Digest of its body.
    body: u64,
    /// Its units.
    units: HashSet<u64>,
    /// The words of a side call, which has little else. Words with digits are none: most are ids, dates and folders.
    words: HashSet<u64>,
}

impl<'l, 'c> Looks<'l, 'c> {
    pub(super) fn of(comparison: &'l Comparison<'c>) -> Self {
        Self { comparison, known: RefCell::default() }
    }

    fn look(&self, side: usize, lane: usize, turn: usize) -> Rc<Look> {
        if let Some(known) = self.known.borrow().get(&(side, lane, turn)) {
            return Rc::clone(known);
        }
        let of = &self.comparison.sides[side].ordered.lanes.lanes[lane];
        let id = of.turns.get(turn).and_then(|turn| turn.attempts.last());
        let request = id.and_then(|id| self.comparison.load(side, id));
        let look = Rc::new(request.map(|request| Look::of(&request, of.kind)).unwrap_or_default());
        self.known.borrow_mut().insert((side, lane, turn), Rc::clone(&look));
        look
    }

    fn both(&self, golden: (usize, usize), candidate: (usize, usize)) -> [Rc<Look>; 2] {
        [self.look(0, golden.0, golden.1), self.look(1, candidate.0, candidate.1)]
    }
}

impl Look {
    fn of(request: &Projected, kind: LaneKind) -> Self {
        let units = request.parts.iter().map(|unit| unit.hash).collect();
        // What no dialect reads is one value.
        let whole = request.named.iter().filter(|unit| unit.kind == Kind::Setting && unit.pointer.is_empty());
        let told = request.parts.iter().chain(whole).filter(|_| kind == LaneKind::Side);
        let texts: Vec<_> = told.map(|unit| request.raw(unit)).collect();
        let words = texts.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
        let words = words.filter(|word| !word.is_empty() && !word.contains(|c: char| c.is_ascii_digit()));
        Self { body: request.body, units, words: words.take(WORDS).map(hashed).collect() }
    }
}

fn shared(mine: &HashSet<u64>, theirs: &HashSet<u64>) -> usize {
    mine.iter().filter(|one| theirs.contains(one)).count()
}

impl Alike for Looks<'_, '_> {
    fn likeness(&self, golden: (usize, usize), candidate: (usize, usize)) -> u32 {
        let [mine, theirs] = self.both(golden, candidate);
        (shared(&mine.units, &theirs.units) + shared(&mine.words, &theirs.words)) as u32
    }

    fn body(&self, side: usize, (lane, turn): (usize, usize)) -> u64 {
        self.look(side, lane, turn).body
    }

    fn say_the_same(&self, golden: (usize, usize), candidate: (usize, usize)) -> bool {
        let [mine, theirs] = self.both(golden, candidate);
        let fewer = mine.words.len().min(theirs.words.len());
        fewer >= TELLING && 3 * shared(&mine.words, &theirs.words) >= 2 * fewer
    }
}
