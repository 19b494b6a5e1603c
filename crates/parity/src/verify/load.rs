//! Reading a recording once, for all steps of the comparison.

use std::collections::HashMap;

use cache::CacheReport;
use recording::lanes::LaneResponse;
use recording::source::{OrderedExchanges, Source, SourceObserver, SourceRequest, SourceResponse};
use session::{Block, RequestId};
use wire::dialect::{Dialect, Prompt};
use wire::json::Document;

use super::compared::{ComparedRecording, RecordingFacts, RequestSource};
use super::day::Day;
use super::folder_renames::FolderRenames;
use super::project::UnitCollector;
use super::rules::ParityRules;
use crate::cached::CacheCollector;
use crate::verdict::{Level, Verdict};

/// A recording with its lanes, units and prompt cache.
pub(super) struct LoadedRecording<'s> {
    pub(super) source: &'s Source,
    pub(super) ordered: OrderedExchanges,
    pub(super) explained: CacheReport,
    units: UnitCollector,
    requests: SourceRequests<'s>,
}

/// The requests of a recording by their ids.
struct SourceRequests<'s> {
    source: &'s Source,
    numbers: HashMap<RequestId, usize>,
}

impl<'s> LoadedRecording<'s> {
    /// Reads a recording. `renames` make its folders those of another recording, for the prompt cache only.
    pub(super) fn load(source: &'s Source, renames: FolderRenames) -> Self {
        let numbers = (0..source.len()).map(|n| (source.id(n), n)).collect();
        let mut collectors = Collectors {
            units: UnitCollector::default(),
            cache: CacheCollector::new(&source.timeline()),
            renames,
        };
        let ordered = source.order_observed(&mut collectors);
        let Collectors { units, cache, .. } = collectors;
        let explained = cache::explain(cache.asks(&ordered.lanes));
        Self { source, ordered, explained, units, requests: SourceRequests { source, numbers } }
    }

    /// Loads two recordings at the same time. The candidate's cache is explained under the golden's folders.
    pub(super) fn load_both(golden: &'s Source, candidate: &'s Source) -> (Self, Self) {
        std::thread::scope(|scope| {
            let renames = FolderRenames::between(candidate, golden);
            let candidate = scope.spawn(|| Self::load(candidate, renames));
            (
                Self::load(golden, FolderRenames::default()),
                candidate.join().expect("ordering a recording does not panic"),
            )
        })
    }

    /// Compares two recordings. Their collected units are used up.
    pub(super) fn compare(
        golden: &mut Self,
        candidate: &mut Self,
        rules: &ParityRules,
        required: Level,
    ) -> Verdict {
        let units = [&mut *golden, &mut *candidate].map(|it| std::mem::take(&mut it.units));
        super::compare_collected(&golden.compared(), &candidate.compared(), units, rules, required)
    }

    fn compared(&self) -> ComparedRecording<'_> {
        let recording = self.source.recording();
        let facts =
            recording.and_then(|recording| recording.manifest()).map(RecordingFacts::of).unwrap_or_default();
        let renamed = recording.map(|recording| recording.replayed_names()).unwrap_or_default();
        ComparedRecording {
            folder: self.source.dir().display().to_string(),
            facts: RecordingFacts { renamed, day: self.first_day(), ..facts },
            ordered: &self.ordered,
            requests: &self.requests,
        }
    }

    fn first_day(&self) -> Option<Day> {
        let first = (!self.source.is_empty()).then(|| self.source.request(0).ok()).flatten();
        first.and_then(|first| Day::of_timestamp(&first.timestamp?))
    }
}

/// Collects units and prompts in one pass over a recording.
struct Collectors {
    units: UnitCollector,
    cache: CacheCollector,
    renames: FolderRenames,
}

impl SourceObserver for Collectors {
    fn decoded_request(&mut self, asked: &SourceRequest, document: &Document<'_>, prompt: &Prompt) {
        self.units.decoded_request(asked, document, prompt);
        let Some(renamed) = self.renames.apply(document.text()) else {
            return self.cache.decoded_request(asked, document, prompt);
        };
        if let Ok(document) = Document::parse(renamed.as_bytes())
            && let Ok(prompt) = prompt.dialect.decode_document(&document)
        {
            self.cache.decoded_request(asked, &document, &prompt);
        }
    }

    fn request(&mut self, n: usize, asked: &SourceRequest, prompt: Option<&Prompt>) {
        self.units.request(n, asked, prompt);
        self.cache.request(n, asked, prompt);
    }

    fn response(&mut self, n: usize, answered: &SourceResponse, heard: &LaneResponse) {
        self.units.response(n, answered, heard);
        self.cache.response(n, answered, heard);
    }
}

impl RequestSource for SourceRequests<'_> {
    fn request(&self, id: &RequestId) -> Option<SourceRequest> {
        self.source.request(*self.numbers.get(id)?).ok()
    }

    fn reply_blocks(&self, id: &RequestId) -> Vec<Block> {
        let Some(n) = self.numbers.get(id).copied() else { return Vec::new() };
        let dialect = self.request(id).and_then(|asked| {
            let body = asked.body.bytes.unwrap_or_default();
            Dialect::detect(&asked.url, &body)
        });
        let answered = self.source.response(n).ok().flatten();
        let reply = answered.and_then(|answered| answered.decode(dialect).reply);
        reply.map(|reply| reply.blocks).unwrap_or_default()
    }
}
