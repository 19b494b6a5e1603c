//! Similarity of requests. It decides where the tree of agents does not: for agents with an unknown parent, and for
//! side calls.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use recording::lanes::LaneKind;

use crate::verify::project::{ProjectedRecording, RequestUnits, Unit, UnitKind};
use crate::verify::text::hashed;

/// Number of words of a side call that are compared.
const MAX_WORDS: usize = 2048;
/// Requests with fewer words are not recognised by their words.
const MIN_WORDS: usize = 3;

/// A request, as its lane and its index there.
pub(super) type RequestIndex = (usize, usize);

/// Compares requests of the golden with requests of the candidate.
pub(super) trait RequestSimilarity {
    /// Returns the number of units and words that two requests share.
    fn similarity(&self, golden: RequestIndex, candidate: RequestIndex) -> u32;

    /// Returns the digest of the body of a request of either side.
    fn body(&self, side: usize, request: RequestIndex) -> u64;

    /// Returns whether two requests share most of their words.
    fn have_same_words(&self, golden: RequestIndex, candidate: RequestIndex) -> bool;
}

/// Computes similarity from units, and keeps what it has computed.
pub(super) struct UnitSimilarity<'l, 'c> {
    sides: &'l [ProjectedRecording<'c>; 2],
    known: RefCell<HashMap<(usize, usize, usize), Rc<RequestFeatures>>>,
}

/// Features of a request that are compared.
#[derive(Default)]
struct RequestFeatures {
    body: u64,
    units: HashSet<u64>,
    /// Words of a side call, which has few units. Words with digits are left out: most are ids, dates and folders.
    words: HashSet<u64>,
}

impl<'l, 'c> UnitSimilarity<'l, 'c> {
    pub(super) fn new(sides: &'l [ProjectedRecording<'c>; 2]) -> Self {
        Self { sides, known: RefCell::default() }
    }

    fn features(&self, side: usize, (lane, turn): RequestIndex) -> Rc<RequestFeatures> {
        if let Some(known) = self.known.borrow().get(&(side, lane, turn)) {
            return Rc::clone(known);
        }
        let of = self.sides[side].lane(lane);
        let id = of.turns.get(turn).and_then(|turn| turn.attempts.last());
        let request = id.and_then(|id| self.sides[side].units(id));
        let features = request.map(|request| RequestFeatures::of(&request, of.kind)).unwrap_or_default();
        let features = Rc::new(features);
        self.known.borrow_mut().insert((side, lane, turn), Rc::clone(&features));
        features
    }

    fn both(&self, golden: RequestIndex, candidate: RequestIndex) -> [Rc<RequestFeatures>; 2] {
        [self.features(0, golden), self.features(1, candidate)]
    }
}

impl RequestFeatures {
    fn of(request: &RequestUnits, kind: LaneKind) -> Self {
        let units = request.ordered.iter().map(|unit| unit.hash).collect();
        // The body of an unknown dialect is one setting.
        let is_body = |unit: &Unit| unit.kind == UnitKind::Setting && unit.pointer.is_empty();
        let whole = request.named.iter().filter(|unit| is_body(unit));
        let texts = request.ordered.iter().chain(whole).filter(|_| kind == LaneKind::Side);
        let words = texts.flat_map(|unit| unit.json.split(|c: char| !c.is_alphanumeric()));
        let words = words.filter(|word| !word.is_empty() && !word.contains(|c: char| c.is_ascii_digit()));
        Self { body: request.body_digest, units, words: words.take(MAX_WORDS).map(hashed).collect() }
    }
}

fn shared(mine: &HashSet<u64>, theirs: &HashSet<u64>) -> usize {
    mine.iter().filter(|one| theirs.contains(one)).count()
}

impl RequestSimilarity for UnitSimilarity<'_, '_> {
    fn similarity(&self, golden: RequestIndex, candidate: RequestIndex) -> u32 {
        let [mine, theirs] = self.both(golden, candidate);
        (shared(&mine.units, &theirs.units) + shared(&mine.words, &theirs.words)) as u32
    }

    fn body(&self, side: usize, request: RequestIndex) -> u64 {
        self.features(side, request).body
    }

    fn have_same_words(&self, golden: RequestIndex, candidate: RequestIndex) -> bool {
        let [mine, theirs] = self.both(golden, candidate);
        let fewer = mine.words.len().min(theirs.words.len());
        fewer >= MIN_WORDS && 3 * shared(&mine.words, &theirs.words) >= 2 * fewer
    }
}
