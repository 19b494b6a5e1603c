//! What was redacted: by which rule, where, how often. Never what.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactionEntry {
    /// The rule, as in `header`, `name:token`, `shape:anthropic` or `value`.
    pub rule: String,
    /// For a learned value: where it was learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it stood, in the words of whoever asked.
    pub place: String,
    /// How often.
    pub count: u64,
    /// It had been written before it was found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// All findings of one recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RedactionReport {
    /// In order of place, then of rule.
    pub findings: Vec<RedactionEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    place: String,
    rule: String,
    source: Option<String>,
    late: bool,
}

/// Counts findings.
#[derive(Debug, Default)]
pub(super) struct Counts {
    lines: BTreeMap<Line, u64>,
}

impl Counts {
    pub(super) fn add(&mut self, rule: &str, source: Option<&str>, place: &str, late: bool) {
        let line =
            Line { place: place.to_owned(), rule: rule.to_owned(), source: source.map(str::to_owned), late };
        *self.lines.entry(line).or_default() += 1;
    }

    pub(super) fn report(&self) -> RedactionReport {
        let finding = |(line, &count): (&Line, &u64)| {
            let Line { place, rule, source, late } = line.clone();
            RedactionEntry { rule, source, place, count, late }
        };
        RedactionReport { findings: self.lines.iter().map(finding).collect() }
    }
}
