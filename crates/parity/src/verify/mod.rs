//! Whether two recordings agree, surface by surface.
//!
//! Start at [`verify`], which reads two folders, or at [`compare`], which judges and reads nothing by itself.
//! A request is taken apart into units (`gather`, `unit`), lanes, turns and units of both sides are laid side by side (`pair`,
//! `layout`, `align`) and compared value by value (`lane`, `meet`, `judge`), under masks (`mask`), rules (`rules`) and one pairing of ids (`ids`).

mod align;
mod cached;
mod carried;
mod changes;
mod compare;
mod day;
mod found;
mod gather;
mod ids;
mod jobs;
mod judge;
mod lane;
mod layout;
mod levels;
mod looks;
mod mask;
mod meet;
mod named;
mod pair;
mod parts;
mod racy;
mod routing;
mod rules;
mod seal;
mod side;
mod summary;
mod tally;
mod unit;

use std::collections::HashMap;

use cache::Explained;
use recording::State;
use recording::lanes::Heard;
use recording::source::{Answered, Asked, Ordered, Source, Watch};
use session::{Block, RequestId};
use wire::dialect::Dialect;
use wire::json::Document;

pub use cached::{GoldenCache, golden_cache};
pub use compare::compare;
pub use rules::{ParityRules, ParityRulesError, RULES_FILE, RULES_FORMAT};
pub use side::{ComparedRecording, RecordingFacts, RequestSource};

use self::day::Day;
use self::gather::Gathered;
use crate::cached::CacheCollector;
use crate::verdict::{Level, Verdict, VerdictOutcome};

/// Reads two recordings and judges whether they agree. Problems of either are in the verdict's notes.
pub fn verify(golden: &Source, candidate: &Source, rules: &ParityRules, required: Level) -> Verdict {
    let (mut mine, mut theirs) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| Read::of(candidate));
        (Read::of(golden), theirs.join().expect("ordering a recording does not panic"))
    });
    let explained = [&mut mine, &mut theirs].map(|read| std::mem::take(&mut read.explained));
    let gathered = [&mut mine, &mut theirs].map(|read| std::mem::take(&mut read.gathered));
    let mut verdict = compare::compare_gathered(&mine.side(), &theirs.side(), gathered, rules, required);
    let mut doubts = Vec::new();
    for (whose, read) in [("golden", &mine), ("candidate", &theirs)] {
        let state = read.source.recording().map(|recording| recording.state());
        if let Some(State::Unsealed { because }) = state {
            doubts.push(format!("the {whose} is not sealed: {because}"));
            verdict.notes.extend(doubts.last().cloned());
        }
        let unused = read.source.unused().iter();
        doubts
            .extend(unused.map(|dump| {
                format!("a dump of the {whose} was not compared: `{}`: {}", dump.what, dump.why)
            }));
        let problems = &read.ordered.problems;
        verdict
            .notes
            .extend(problems.iter().map(|problem| format!("{whose}, {}: {}", problem.what, problem.why)));
    }
    cached::tell(&mut verdict, &explained[0], &explained[1]);
    seal::tell(&mut verdict, [(golden, &mine.ordered), (candidate, &theirs.ordered)]);
    // Whatever was not looked at may differ.
    if let (Some(doubt), VerdictOutcome::Match) = (doubts.into_iter().next(), &verdict.outcome) {
        verdict.outcome = VerdictOutcome::Inconclusive(doubt);
    }
    verdict
}

/// A recording whose lanes are known.
struct Read<'s> {
    source: &'s Source,
    ordered: Ordered,
    gathered: Gathered,
    explained: Explained,
    numbers: Numbers<'s>,
}

struct Numbers<'s> {
    source: &'s Source,
    by_id: HashMap<RequestId, usize>,
}

impl<'s> Read<'s> {
    fn of(source: &'s Source) -> Self {
        let by_id = (0..source.len()).map(|n| (source.id(n), n)).collect();
        let mut watching =
            Watching { gathered: Gathered::default(), asks: CacheCollector::new(&source.timeline()) };
        let ordered = source.order_watched(&mut watching);
        let Watching { gathered, asks } = watching;
        let explained = cache::explain(asks.asks(&ordered.lanes));
        Self { source, ordered, gathered, explained, numbers: Numbers { source, by_id } }
    }

    /// The day of the first request.
    fn day(&self) -> Option<Day> {
        let first = (!self.source.is_empty()).then(|| self.source.asked(0).ok()).flatten();
        first.and_then(|first| Day::of_timestamp(&first.timestamp?))
    }

    fn side(&self) -> ComparedRecording<'_> {
        let recording = self.source.recording();
        let facts =
            recording.and_then(|recording| recording.manifest()).map(RecordingFacts::of).unwrap_or_default();
        let renamed = recording.map(|recording| recording.named_anew()).unwrap_or_default();
        ComparedRecording {
            folder: self.source.dir().display().to_string(),
            facts: RecordingFacts { renamed, day: self.day(), ..facts },
            ordered: &self.ordered,
            requests: &self.numbers,
        }
    }
}

/// What is gathered of a recording while it is put in order.
struct Watching {
    gathered: Gathered,
    asks: CacheCollector,
}

impl Watch for Watching {
    fn decoded(&mut self, asked: &Asked, document: &Document<'_>, prompt: &wire::dialect::Prompt) {
        self.gathered.decoded(asked, document, prompt);
        self.asks.decoded(asked, document, prompt);
    }

    fn asked(&mut self, n: usize, asked: &Asked, prompt: Option<&wire::dialect::Prompt>) {
        self.gathered.asked(n, asked, prompt);
        self.asks.asked(n, asked, prompt);
    }

    fn answered(&mut self, n: usize, answered: &Answered, heard: &Heard) {
        self.gathered.answered(n, answered, heard);
        self.asks.answered(n, answered, heard);
    }
}

impl RequestSource for Numbers<'_> {
    fn request(&self, id: &RequestId) -> Option<Asked> {
        self.source.asked(*self.by_id.get(id)?).ok()
    }

    fn reply_blocks(&self, id: &RequestId) -> Vec<Block> {
        let Some(n) = self.by_id.get(id).copied() else { return Vec::new() };
        let dialect = self.request(id).and_then(|asked| {
            let body = asked.body.bytes.unwrap_or_default();
            Dialect::detect(&asked.url, &body)
        });
        let answered = self.source.answered(n).ok().flatten();
        let reply = answered.and_then(|answered| answered.heard(dialect).reply);
        reply.map(|reply| reply.blocks).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
