//! Effects of changes on the provider's prompt cache. They do not decide the verdict.

use std::collections::HashMap;

use cache::CacheReport;
use recording::lanes::LaneKind;
use recording::source::Source;

use super::ParityRules;
use super::folder_renames::FolderRenames;
use super::load::LoadedRecording;
use crate::verdict::{CacheChange, Level, Verdict, VerdictOutcome};

/// The cache of a golden, for a lint of one candidate.
#[derive(Debug)]
pub struct GoldenCache {
    /// The golden's requests, explained under the names of the candidate's lanes.
    pub explained: CacheReport,
    /// Lanes that the candidate lacks, under the golden's names and without side calls.
    pub missing_lanes: Vec<String>,
}

/// Explains a golden, with its lanes aligned to a candidate's as in [`verify`](super::verify).
pub fn golden_cache(golden: &Source, candidate: &Source) -> GoldenCache {
    let renames = FolderRenames::between(golden, candidate);
    let mut mine = LoadedRecording::load(golden, renames);
    let mut theirs = LoadedRecording::load(candidate, FolderRenames::default());
    let verdict = LoadedRecording::compare(&mut mine, &mut theirs, &ParityRules::default(), Level::E0);
    let side_lanes = mine.ordered.lanes.lanes.iter().filter(|lane| lane.kind == LaneKind::Side);
    let side_lanes: Vec<&str> = side_lanes.map(|lane| lane.id.as_str()).collect();
    let alone = verdict.lanes.iter().filter(|lane| lane.candidate.is_none());
    let missing_lanes =
        alone.filter_map(|lane| lane.golden.clone().filter(|it| !side_lanes.contains(&it.as_str())));
    GoldenCache {
        missing_lanes: missing_lanes.collect(),
        explained: with_candidate_names(&mine.explained, &verdict),
    }
}

/// Adds cache misses of the candidate that the golden does not have.
pub(super) fn add_cache_changes(verdict: &mut Verdict, golden: &CacheReport, candidate: &CacheReport) {
    let golden = &with_candidate_names(golden, verdict);
    for broken in cache::new_breaks(golden, candidate) {
        verdict.summary.push(format!("cache, {}: this {broken}", broken.lane));
        verdict.cache.push(CacheChange {
            lane: broken.lane,
            block: broken.block,
            pointer: broken.pointer,
            reason: Some(broken.reason.name().to_owned()),
            turns: broken.turns,
            tokens: broken.tokens_a_turn,
            usd: broken.usd,
        });
    }
    if verdict.outcome == VerdictOutcome::Match {
        return; // masked changes are no news
    }
    for changed in cache::changed_prompts(golden, candidate) {
        // A change of every turn includes the first one.
        if verdict.cache.iter().any(|known| (&known.lane, known.block) == (&changed.lane, changed.block)) {
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

/// Renames the golden's lanes to their counterparts, because lanes are numbered by their start.
fn with_candidate_names(golden: &CacheReport, verdict: &Verdict) -> CacheReport {
    let pairs =
        verdict.lanes.iter().filter_map(|lane| Some((lane.golden.as_deref()?, lane.candidate.as_deref()?)));
    renamed(golden, &pairs.collect())
}

fn renamed(golden: &CacheReport, names: &HashMap<&str, &str>) -> CacheReport {
    let mut named = golden.clone();
    named.requests.retain_mut(|request| rename(&mut request.lane, names));
    named.openings.retain_mut(|opening| rename(&mut opening.lane, names));
    named.unread.retain_mut(|unread| rename(&mut unread.lane, names));
    named
}

/// Renames a lane. Returns whether it has a counterpart.
fn rename(lane: &mut String, names: &HashMap<&str, &str>) -> bool {
    match names.get(lane.as_str()) {
        Some(name) => {
            *lane = (*name).to_owned();
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use cache::{CachePrompt, ObservedRequest};
    use session::RequestId;
    use wire::dialect::Dialect;

    use super::*;

    fn explained(lanes: [(&str, &str); 2]) -> CacheReport {
        let ask = |(lane, system): (&str, &str)| {
            let system = system.repeat(3_000);
            let body = format!(
                r#"{{"model":"claude-sonnet-4-5","system":[{{"type":"text","text":"{system}","cache_control":{{"type":"ephemeral"}}}}],"messages":[{{"role":"user","content":"go"}}]}}"#
            );
            ObservedRequest {
                id: RequestId::new(format!("of-{lane}")),
                lane: lane.to_owned(),
                fork_of: None,
                turn: 1,
                at_us: 0,
                begun_us: Some(1),
                is_compacted: false,
                prompt: CachePrompt::decode(Dialect::AnthropicMessages, body.as_bytes()).expect("a prompt"),
                reported: None,
            }
        };
        cache::explain(lanes.map(ask).to_vec())
    }

    #[test]
    fn brothers_that_changed_places_have_changed_nothing_else() {
        let golden = explained([("sub-1", "one "), ("sub-2", "two ")]);
        let candidate = explained([("sub-1", "two "), ("sub-2", "one ")]);
        assert_eq!(cache::changed_prompts(&golden, &candidate).len(), 2, "by their names they are others");
        let names = HashMap::from([("sub-1", "sub-2"), ("sub-2", "sub-1")]);
        assert_eq!(cache::changed_prompts(&renamed(&golden, &names), &candidate), []);
        let unread = |lane: &str| {
            let (lane, pointer) = (lane.to_owned(), "/system/0/cache_control".to_owned());
            vec![cache::UnreadMarker { lane, pointer, turns: 2, reason: None }]
        };
        let dead = CacheReport { unread: unread("sub-1"), ..golden.clone() };
        assert_eq!(renamed(&dead, &names).unread, unread("sub-2"));
        let alone = HashMap::from([("sub-1", "sub-1")]);
        assert_eq!(cache::changed_prompts(&renamed(&golden, &alone), &candidate).len(), 1);
    }
}
