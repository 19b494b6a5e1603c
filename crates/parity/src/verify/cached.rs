//! What a change does to the provider's prompt cache: told beside the verdict, and no part of it.

use cache::Explained;

use crate::verdict::{CacheChange, Outcome, Verdict};

/// Adds what the candidate's requests cost the cache that the golden's do not.
pub(super) fn tell(verdict: &mut Verdict, golden: &Explained, candidate: &Explained) {
    for broken in cache::broken(golden, candidate) {
        verdict.summary.push(format!("cache, {}: this {broken}", broken.lane));
        verdict.cache.push(CacheChange {
            lane: broken.lane,
            block: broken.block,
            pointer: broken.pointer,
            reason: Some(broken.reason.word()),
            turns: broken.turns,
            tokens: broken.tokens_a_turn,
            usd: broken.usd,
        });
    }
    if verdict.outcome == Outcome::Match {
        return; // what is masked is no news
    }
    for changed in cache::changed(golden, candidate) {
        // Where every turn is another prompt, that the first one is says nothing more.
        if verdict.cache.iter().any(|told| (&told.lane, told.block) == (&changed.lane, changed.block)) {
            continue;
        }
        verdict.summary.push(format!("cache, {}: {changed}", changed.lane));
        verdict.cache.push(CacheChange {
            lane: changed.lane,
            block: changed.block,
            pointer: changed.pointer,
            reason: None,
            turns: 1,
            tokens: changed.tokens,
            usd: None,
        });
    }
}
