//! Which recorded turn a live request stands at.

use std::collections::{BTreeSet, HashMap, HashSet};

use recording::lanes::{LaneKind, Outline};
use wire::dialect::Dialect;

use super::tape::RecordedTraffic;
use super::trail::{Served, Trail};

/// A prompt or a question aside that shares less than this, in thousands, is another one.
const ALIKE: usize = 400;
/// What was there before comes again only with nearly the same words.
const VERY_ALIKE: usize = 800;

/// Who stands where.
#[derive(Debug, Default)]
pub(super) struct Finder {
    spots: HashMap<usize, Stand>,
    /// What was said with other names in it, and what it stands for.
    aliases: HashMap<u64, u64>,
    /// Whose conversation is whose.
    served: Served,
}

/// A turn that was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Stand {
    /// How many recorded attempts were played.
    played: usize,
    /// How many times it was asked for.
    asked: u32,
    history: u64,
    /// The newest answer was a failure, or did not arrive.
    failed: bool,
}

/// A live request's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) spot: usize,
    /// The how manieth request for it, from 1.
    pub(super) attempt: u32,
    /// What is played.
    pub(super) take: usize,
    /// All that was recorded had been played.
    pub(super) again: bool,
    /// An agent begins, and with words that are nothing like the recorded ones.
    pub(super) is_other: bool,
}

/// There is no place for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nowhere {
    pub(super) why: String,
    /// What comes nearest.
    pub(super) nearest: Option<usize>,
}

impl Finder {
    /// Finds the place of a request and takes it. With `or_nearest`, there is always one.
    pub(super) fn find(
        &mut self,
        tape: &RecordedTraffic,
        outline: &Outline,
        trail: &Trail,
        dialect: Dialect,
        or_nearest: bool,
    ) -> Result<Found, Nowhere> {
        let spot = match self.place(tape, outline, trail, dialect) {
            Ok(spot) => spot,
            Err(Nowhere { nearest: Some(nearest), .. }) if or_nearest => nearest,
            Err(nowhere) => return Err(nowhere),
        };
        let stand = self.spots.entry(spot).or_default();
        let takes = &tape.spots[spot].takes;
        let again = stand.played >= takes.len();
        // What is asked once more gets the answer that was good.
        let good = || takes.iter().rev().copied().find(|take| tape.takes[*take].whole);
        let take = match takes.get(stand.played) {
            Some(take) => *take,
            None => good().unwrap_or(takes[takes.len() - 1]),
        };
        stand.asked += 1;
        stand.history = outline.history;
        stand.failed = false;
        let attempt = stand.asked;
        self.served.note(trail, &tape.spots[spot].lane, tape.takes[take].reply_id.as_deref());
        let is_other = outline.is_first && !is_like(&tape.first_of(spot).outline, outline);
        Ok(Found { spot, attempt, take, again, is_other })
    }

    /// The recorded answer is on its way.
    pub(super) fn played(&mut self, found: &Found) {
        if !found.again {
            self.spots.entry(found.spot).or_default().played += 1;
        }
    }

    /// The answer was a failure, or its reader left.
    pub(super) fn failed(&mut self, spot: usize) {
        self.spots.entry(spot).or_default().failed = true;
    }

    /// What was said live stands for what was recorded.
    pub(super) fn alias(&mut self, live: u64, recorded: u64) {
        if live != recorded {
            self.aliases.insert(live, recorded);
        }
    }

    /// The spine of a live request, as it was recorded.
    fn spine(&self, outline: &Outline) -> u64 {
        self.aliases.get(&outline.spine).copied().unwrap_or(outline.spine)
    }

    /// Turns that nobody asked for.
    pub(super) fn unasked(&self, tape: &RecordedTraffic) -> Vec<usize> {
        (0..tape.spots.len()).filter(|spot| !self.spots.contains_key(spot)).collect()
    }

    fn place(
        &self,
        tape: &RecordedTraffic,
        outline: &Outline,
        trail: &Trail,
        dialect: Dialect,
    ) -> Result<usize, Nowhere> {
        let speaks = |spot: &usize| tape.first_of(*spot).dialect == Some(dialect);
        let listed = |index: &HashMap<u64, Vec<usize>>, key: u64| -> Vec<usize> {
            index.get(&key).into_iter().flatten().copied().filter(speaks).collect()
        };
        let mut candidates = listed(&tape.by_spine, self.spine(outline));
        if candidates.is_empty()
            && let Some(last) = outline.last
        {
            // A history that was cut short or told anew still ends with the same words.
            candidates = listed(&tape.by_last, last);
        }
        let is_kin = |spot: &usize| {
            let recorded = &tape.first_of(*spot).outline;
            recorded.has_tools == outline.has_tools && recorded.is_probe == outline.is_probe
        };
        let (kin, others): (Vec<usize>, Vec<usize>) = candidates.iter().copied().partition(is_kin);
        // Nobody else can be meant by the only main agent that is left; and what a probe asks matters to nobody.
        let is_meant = |kind| kind == LaneKind::Main && outline.has_tools;
        let bar = |kind| if is_meant(kind) || outline.is_probe { 0 } else { ALIKE };
        let mine = self.of_this_conversation(tape, &kin, trail);
        // A request that names the reply it follows carries too little to be told apart by what it says.
        let told = if mine.is_empty() { &kin } else { &mine };
        let found = self.retried(told, outline);
        let found = found.or_else(|| self.told_the_same(tape, told, outline));
        // Two agents may have been given the same ids and words: each stays with what it began with.
        let found = found.or_else(|| self.among(tape, &mine, outline, bar));
        let found = found.or_else(|| self.among(tape, &kin, outline, bar));
        // Whether there are tools tells a question aside from an agent, unless the words say who it is.
        let found = found.or_else(|| self.retried(&others, outline));
        let found = found.or_else(|| self.among(tape, &others, outline, |_| VERY_ALIKE));
        found.ok_or_else(|| nowhere(tape, outline, dialect, &candidates))
    }

    /// Those of several turns that belong to the lane which answered the turn before; and those that a lane begins
    /// with, since a fork goes on with somebody's conversation.
    fn of_this_conversation(&self, tape: &RecordedTraffic, spots: &[usize], trail: &Trail) -> Vec<usize> {
        let of = |lanes: &BTreeSet<String>| spots.iter().any(|spot| lanes.contains(&tape.spots[*spot].lane));
        let Some(lanes) = self.served.lanes(trail).find(|lanes| of(lanes)) else { return Vec::new() };
        let is_mine = |spot: &usize| {
            let spot = &tape.spots[*spot];
            spot.turn == 1 || lanes.contains(&spot.lane)
        };
        spots.iter().copied().filter(is_mine).collect()
    }

    /// The turn that failed this very request.
    fn retried(&self, candidates: &[usize], outline: &Outline) -> Option<usize> {
        let is_it = |stand: &Stand| stand.failed && stand.history == outline.history;
        candidates.iter().copied().find(|spot| self.spots.get(spot).is_some_and(is_it))
    }

    /// The turn that nobody asked for yet and whose request had heard and said the very same from the start.
    fn told_the_same(
        &self,
        tape: &RecordedTraffic,
        candidates: &[usize],
        outline: &Outline,
    ) -> Option<usize> {
        let is_it = |spot: &usize| {
            !self.spots.contains_key(spot) && tape.first_of(*spot).outline.history == outline.history
        };
        let equal: Vec<usize> = candidates.iter().copied().filter(is_it).collect();
        by_looks(tape, &equal, outline)
    }

    /// The one of several turns that a request stands at.
    fn among(
        &self,
        tape: &RecordedTraffic,
        candidates: &[usize],
        outline: &Outline,
        bar: impl Fn(LaneKind) -> usize,
    ) -> Option<usize> {
        let stand = |spot: &usize| self.spots.get(spot);
        let same = |spot: &usize| stand(spot).is_some_and(|stand| stand.history == outline.history);
        let failed = |spot: &usize| stand(spot).is_some_and(|stand| stand.failed);
        let unasked: Vec<usize> = candidates.iter().copied().filter(|spot| stand(spot).is_none()).collect();
        let exact = || by_looks(tape, &said_exactly(tape, &unasked, outline), outline);
        let again = || candidates.iter().rev().copied().find(same);
        let retried = || candidates.iter().rev().copied().find(failed);
        let bar_again = |_| if outline.is_probe { 0 } else { VERY_ALIKE };
        let alike = || nearest(tape, candidates, outline, bar_again);
        // What was asked before is meant again, rather than something else that nobody has asked for.
        let new = || nearest(tape, &unasked, outline, bar);
        exact().or_else(again).or_else(new).or_else(retried).or_else(alike)
    }
}

/// Those of several turns whose request said the very same.
fn said_exactly(tape: &RecordedTraffic, spots: &[usize], outline: &Outline) -> Vec<usize> {
    spots.iter().copied().filter(|spot| tape.first_of(*spot).outline.texts == outline.texts).collect()
}

/// The one with the same tools and instructions and the most of the words, numbers included; the first of those that are
/// alike, so that twins come in the order they were recorded in.
fn by_looks(tape: &RecordedTraffic, spots: &[usize], outline: &Outline) -> Option<usize> {
    if let [spot] = spots {
        return Some(*spot);
    }
    let said = words(&outline.texts);
    let looks = |spot: &usize| {
        let recorded = &tape.first_of(*spot).outline;
        let shared = likeness(&words(&recorded.texts), &said);
        (recorded.tools == outline.tools, recorded.system == outline.system, shared)
    };
    spots.iter().rev().copied().max_by_key(looks)
}

/// The one of several turns whose request is most like this one; `None` where none is like it at all.
fn nearest(
    tape: &RecordedTraffic,
    spots: &[usize],
    outline: &Outline,
    bar: impl Fn(LaneKind) -> usize,
) -> Option<usize> {
    let of = |spot: &usize| &tape.first_of(*spot).outline;
    let equal = said_exactly(tape, spots, outline);
    if !equal.is_empty() {
        return by_looks(tape, &equal, outline);
    }
    if !outline.is_first && spots.len() == 1 {
        return spots.first().copied();
    }
    let blank = blanked(&outline.texts);
    let equal: Vec<usize> = spots.iter().filter(|spot| blanked(&of(spot).texts) == blank).copied().collect();
    if !equal.is_empty() {
        return by_looks(tape, &equal, outline);
    }
    let equal: Vec<usize> = spots.iter().filter(|spot| is_handed(of(spot), outline)).copied().collect();
    if !equal.is_empty() {
        return by_looks(tape, &equal, outline);
    }
    let shared = |spot: &usize| likeness(&blanked(&of(spot).texts), &blank);
    let passes = |spot: &usize| !outline.is_first || shared(spot) >= bar(tape.first_of(*spot).kind);
    spots.iter().rev().copied().filter(passes).max_by_key(shared)
}

/// Whether the recorded words were handed over, maybe with others around them that a version adds.
fn is_handed(recorded: &Outline, live: &Outline) -> bool {
    recorded.texts.iter().any(|text| is_words(text) && live.texts.contains(text))
}

/// Whether two requests say much the same.
fn is_like(recorded: &Outline, live: &Outline) -> bool {
    is_handed(recorded, live) || likeness(&blanked(&recorded.texts), &blanked(&live.texts)) >= ALIKE
}

/// Whether a text is what somebody says, and not a reminder in tags that every agent gets.
fn is_words(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && !text.starts_with('<')
}

fn words(texts: &[String]) -> Vec<&str> {
    texts.iter().flat_map(|text| text.split_whitespace()).collect()
}

/// The words without a digit in them.
fn blanked(texts: &[String]) -> Vec<&str> {
    let mut words = words(texts);
    words.retain(|word| !word.bytes().any(|byte| byte.is_ascii_digit()));
    words
}

/// How much of the words two texts share, in thousands.
fn likeness(a: &[&str], b: &[&str]) -> usize {
    let (a, b): (HashSet<&str>, HashSet<&str>) = (a.iter().copied().collect(), b.iter().copied().collect());
    let union = a.union(&b).count();
    (a.intersection(&b).count() * 1000).checked_div(union).unwrap_or(1000)
}

fn nowhere(tape: &RecordedTraffic, outline: &Outline, dialect: Dialect, candidates: &[usize]) -> Nowhere {
    let same_kind = |spot: &usize| {
        let take = tape.first_of(*spot);
        take.dialect == Some(dialect) && take.outline.has_tools == outline.has_tools
    };
    let all: Vec<usize> = (0..tape.spots.len()).collect();
    let mut near: Vec<usize> = candidates.to_vec();
    near.extend(all.iter().copied().filter(same_kind));
    near.extend(all);
    let firsts = |spot: &usize| tape.first_of(*spot).outline.is_first == outline.is_first;
    let blank = blanked(&outline.texts);
    let score = |spot: &usize| {
        let recorded = &tape.first_of(*spot).outline;
        let looks = (recorded.tools == outline.tools, recorded.system == outline.system);
        (same_kind(spot), firsts(spot), looks, likeness(&blanked(&recorded.texts), &blank))
    };
    let nearest = near.iter().rev().copied().max_by_key(score);
    let speaks = |spot: usize| tape.first_of(spot).dialect == Some(dialect);
    if !(0..tape.spots.len()).any(speaks) {
        return Nowhere { why: format!("nothing was recorded in the dialect {dialect}"), nearest: None };
    }
    let why = match (outline.is_first, outline.has_tools) {
        (true, true) => "no recorded agent begins like this request",
        (true, false) => "no recorded side call is like this request",
        (false, _) => "no recorded request has this history",
    };
    Nowhere { why: why.to_owned(), nearest }
}
