//! The report of a redaction: rules, places and counts, but never the secrets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactionEntry {
    /// The rule, such as `header`, `name:token`, `shape:anthropic` or `value`.
    pub rule: String,
    /// The place where a learned value was learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The place of the matches, as the caller names it.
    pub place: String,
    /// The number of matches.
    pub count: u64,
    /// True if the text had been written before the match was found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// All lines of one recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RedactionReport {
    /// The lines, ordered by place and rule.
    pub findings: Vec<RedactionEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EntryKey {
    place: String,
    rule: String,
    source: Option<String>,
    late: bool,
}

/// Counts matches.
#[derive(Debug, Default)]
pub(super) struct Counts {
    lines: BTreeMap<EntryKey, u64>,
}

impl Counts {
    pub(super) fn add(&mut self, rule: &str, source: Option<&str>, place: &str, late: bool) {
        let line = EntryKey {
            place: place.to_owned(),
            rule: rule.to_owned(),
            source: source.map(str::to_owned),
            late,
        };
        *self.lines.entry(line).or_default() += 1;
    }

    pub(super) fn report(&self) -> RedactionReport {
        let finding = |(line, &count): (&EntryKey, &u64)| {
            let EntryKey { place, rule, source, late } = line.clone();
            RedactionEntry { rule, source, place, count, late }
        };
        RedactionReport { findings: self.lines.iter().map(finding).collect() }
    }
}
