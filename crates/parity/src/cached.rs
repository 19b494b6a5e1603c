//! The provider's prompt cache for a recording: its requests with lanes and times, explained.

use std::collections::HashMap;

use cache::{ByteDiff, CachePrompt, CacheReport, LintFinding, ObservedRequest, RecordingContext};
use recording::lanes::{LaneKind, LaneResponse, Lanes, TurnMark};
use recording::source::{
    OrderedExchanges, Source, SourceObserver, SourceRequest, SourceResponse, TimelineEntry, TimelineEvent,
};
use session::{RequestId, Usage};
use wire::json::Document;

/// The explained requests of a recording.
#[derive(Debug)]
pub struct RecordingCache {
    /// The explanation of each request.
    pub explained: CacheReport,
    /// The first changed bytes of each miss, by request.
    pub changed_bytes: HashMap<RequestId, ByteDiff>,
    /// Its lanes, exchanges and problems.
    pub ordered: OrderedExchanges,
}

/// Explains which cache hits the provider should have had.
pub fn analyze_cache(source: &Source) -> RecordingCache {
    let mut collector = CacheCollector::new(&source.timeline());
    let ordered = source.order_observed(&mut collector);
    let explained = cache::explain(collector.asks(&ordered.lanes));
    let changed_bytes = changed_bytes(&explained, read_bodies(source));
    RecordingCache { explained, changed_bytes, ordered }
}

/// Finds volatile text before the last marker of each lane.
pub fn find_volatile_text(
    explained: &CacheReport,
    around: &RecordingContext,
    body: impl Fn(&RequestId) -> Option<Vec<u8>>,
) -> Vec<LintFinding> {
    let of = |opening: &cache::LaneOpening| {
        body(&opening.id).map(|body| cache::find_volatile(opening, &body, around)).unwrap_or_default()
    };
    explained.openings.iter().flat_map(of).collect()
}

/// Returns the day and the folders of a recording.
pub fn recording_context(source: &Source) -> RecordingContext {
    let manifest = source.recording().and_then(recording::Recording::manifest);
    let command = manifest.and_then(|manifest| manifest.command.as_ref());
    let folders = command.into_iter().flat_map(|command| [Some(&command.cwd), command.home.as_ref()]);
    RecordingContext {
        day: manifest.map(|manifest| manifest.started_at.chars().take(10).collect()),
        // A folder as short as `/` or `/tmp` belongs to other programs, too.
        folders: folders.flatten().filter(|folder| folder.len() > 5).cloned().collect(),
    }
}

/// Returns the first changed bytes of each miss. It reads both bodies again and keeps only the change.
pub fn changed_bytes(
    explained: &CacheReport,
    body: impl Fn(&RequestId) -> Option<Vec<u8>>,
) -> HashMap<RequestId, ByteDiff> {
    let misses = explained.requests.iter().filter_map(|request| {
        Some((&request.id, request.miss.as_ref().filter(|miss| miss.tokens > 0)?, request.after.as_ref()?))
    });
    let look = |(id, miss, after): (&RequestId, &cache::CacheMiss, &RequestId)| {
        Some((id.clone(), cache::byte_diff(miss, &body(id)?, &body(after)?)?))
    };
    // A miss without changed bytes needs no bodies.
    misses.filter(|(_, miss, _)| miss.spans != [None, None]).filter_map(look).collect()
}

/// Returns a function that reads the body of a request.
pub fn read_bodies(source: &Source) -> impl Fn(&RequestId) -> Option<Vec<u8>> {
    let numbers: HashMap<RequestId, usize> = (0..source.len()).map(|n| (source.id(n), n)).collect();
    move |id| source.request(*numbers.get(id)?).ok()?.body.bytes
}

/// Collects requests while their recording is put in order, so that each is read and decoded once.
#[derive(Debug, Default)]
pub(crate) struct CacheCollector {
    prompts: HashMap<RequestId, CachePrompt>,
    /// Times of request and first response byte, by the number of the exchange.
    times: HashMap<usize, (u64, Option<u64>)>,
    found: Vec<(usize, RequestId)>,
    answers: HashMap<usize, (Usage, Option<u64>)>,
}

impl CacheCollector {
    pub(crate) fn new(timeline: &[TimelineEntry]) -> Self {
        let mut times: HashMap<usize, (u64, Option<u64>)> = HashMap::new();
        for moment in timeline {
            match moment.event {
                TimelineEvent::RequestArrived(n) => {
                    times.insert(n, (moment.us, None));
                }
                TimelineEvent::ResponseRead { exchange: n, .. } | TimelineEvent::ResponseEnded(n) => {
                    if let Some((_, begun)) = times.get_mut(&n) {
                        begun.get_or_insert(moment.us);
                    }
                }
            }
        }
        Self { times, ..Self::default() }
    }

    /// Returns the collected requests with their lanes.
    pub(crate) fn asks(mut self, lanes: &Lanes) -> Vec<ObservedRequest> {
        let mut places = HashMap::new();
        for lane in &lanes.lanes {
            let fork_of = lane.parent.as_ref().filter(|_| lane.kind == LaneKind::Fork);
            for turn in &lane.turns {
                let is_compacted = turn.marks.contains(&TurnMark::Compaction);
                places.extend(
                    turn.attempts.iter().map(|id| (id, (&lane.id, fork_of, turn.turn, is_compacted))),
                );
            }
        }
        let mut asks = Vec::new();
        for (n, id) in std::mem::take(&mut self.found) {
            let (Some(prompt), Some((lane, fork_of, turn, is_compacted))) =
                (self.prompts.remove(&id), places.get(&id))
            else {
                continue;
            };
            let (at_us, begun) = self.times.get(&n).copied().unwrap_or_default();
            let answer = self.answers.get(&n);
            let first = answer.and_then(|(_, first)| Some(at_us + (*first)?));
            asks.push(ObservedRequest {
                lane: (*lane).clone(),
                fork_of: fork_of.cloned(),
                turn: *turn,
                at_us,
                // A response without a time is taken to be immediate.
                begun_us: answer.map(|_| first.or(begun).unwrap_or(at_us)),
                is_compacted: *is_compacted,
                prompt,
                reported: answer.map(|(usage, _)| *usage).filter(|usage| usage.input_total() > 0),
                id,
            });
        }
        asks
    }
}

impl SourceObserver for CacheCollector {
    fn decoded_request(
        &mut self,
        asked: &SourceRequest,
        document: &Document<'_>,
        prompt: &wire::dialect::Prompt,
    ) {
        self.prompts.insert(asked.id.clone(), CachePrompt::of(document, prompt));
    }

    fn request(&mut self, n: usize, asked: &SourceRequest, prompt: Option<&wire::dialect::Prompt>) {
        if prompt.is_some() {
            self.found.push((n, asked.id.clone()));
        }
    }

    fn response(&mut self, n: usize, answered: &SourceResponse, heard: &LaneResponse) {
        if let Some(reply) = &heard.reply {
            self.answers.insert(n, (reply.usage, answered.first_byte_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_every_miss_are_shown() {
        let body = |n: u64| {
            let said = format!("It is minute {n}. {}", "Keep it wet. ".repeat(600));
            let system =
                format!(r#"{{"type":"text","text":"{said}","cache_control":{{"type":"ephemeral"}}}}"#);
            format!(
                r#"{{"model":"claude-opus-5","system":[{system}],"messages":[{{"role":"user","content":"hi"}}]}}"#
            )
        };
        let ask = |n: u64| ObservedRequest {
            id: RequestId::nth(n),
            lane: "main".to_owned(),
            fork_of: None,
            turn: n as u32,
            at_us: n,
            begun_us: Some(n),
            is_compacted: false,
            prompt: CachePrompt::read("http://x/v1/messages", body(n).as_bytes()).expect("it asks a model"),
            reported: None,
        };
        let explained = cache::explain((1..=100).map(ask).collect());
        let bodies: HashMap<RequestId, Vec<u8>> =
            (1..=100).map(|n| (RequestId::nth(n), body(n).into_bytes())).collect();
        let changed_bytes = changed_bytes(&explained, |id| bodies.get(id).cloned());
        assert_eq!(changed_bytes.len(), 99);
        assert!(changed_bytes[&RequestId::nth(100)].current.contains("minute 100"));
    }
}
