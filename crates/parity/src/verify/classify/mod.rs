//! Step 4, classify: decides for each finding the highest level that still holds, and describes it.
//!
//! - A difference of structure has the level of its row in [`Structure::level_and_words`].
//! - A value that differs has the level that the file of its surface gives it.
//! - A value that is equal under a mask, or that the models decided, keeps E3 and only fails E4.

mod suggestion;

use super::finding::{
    Difference, Finding, Subject, TurnPlace, UnpairedUnit, ValueAgreement, ValueDifference,
};
use super::rules::AppliedRules;
use super::surfaces::ValueChange;
use super::text::plain;
use crate::verdict::{Level, Race, Surface, UnitCounts, VerdictDifference};

use self::suggestion::{as_exclusion, suggested_rule};

#[cfg(doc)]
use super::structure::Structure;

/// Bytes of a value that are shown.
const MAX_SHOWN: usize = 2000;
/// Bytes that are shown before the first difference of a long value.
const CONTEXT: usize = 200;

/// A finding with its level.
#[derive(Clone, Debug)]
pub(super) struct Classified {
    pub(super) place: TurnPlace,
    pub(super) surface: Surface,
    pub(super) counts: UnitCounts,
    pub(super) is_ending: bool,
    pub(super) common_tool: Option<String>,
    pub(super) difference: Option<ClassifiedDifference>,
}

/// A difference with its level.
#[derive(Clone, Debug)]
pub(super) struct ClassifiedDifference {
    pub(super) difference: Difference,
    /// The highest level that still holds; `None` if E0 fails.
    pub(super) level: Option<Level>,
    /// True if only the bytes differ, under a mask or because the models said different things. Such a difference is
    /// listed only if E4 is required.
    pub(super) is_tolerated: bool,
    pub(super) excerpt: VerdictDifference,
}

/// The rules and the required level for the classification.
pub(super) struct Classifier<'r> {
    pub(super) rules: &'r AppliedRules,
    pub(super) required: Level,
    /// Names of the lane pairs.
    pub(super) lanes: Vec<String>,
}

impl Classifier<'_> {
    /// Decides the level of a finding. A rule for its place excludes it.
    pub(super) fn classify(&self, finding: Finding) -> Classified {
        let Finding {
            place,
            surface,
            pointer,
            counts,
            is_ending,
            is_excludable,
            difference,
            common_tool,
            suffix,
        } = finding;
        let mut classified = Classified { place, surface, counts, is_ending, common_tool, difference: None };
        if is_excludable && self.rules.exclude(surface, &pointer) {
            classified.counts = UnitCounts { excluded: 1, ..UnitCounts::default() };
            return classified;
        }
        classified.difference = difference.map(|difference| {
            let (level, words) = level_and_words(surface, &difference);
            let description = format!("{words}{suffix}");
            let excerpt = self.excerpt(place, surface, pointer, level, description, &difference);
            let is_tolerated = is_tolerated(&difference);
            ClassifiedDifference { difference, level, is_tolerated, excerpt }
        });
        classified
    }

    /// Returns whether the verdict lists a difference.
    pub(super) fn is_listed(&self, difference: &ClassifiedDifference) -> bool {
        !difference.is_tolerated || self.required == Level::E4
    }

    fn excerpt(
        &self,
        place: TurnPlace,
        surface: Surface,
        pointer: String,
        level: Option<Level>,
        description: String,
        difference: &Difference,
    ) -> VerdictDifference {
        let [golden, candidate] = values(difference).map(|value| value.map(plain));
        let rule = match difference {
            Difference::Value(_) => {
                suggested_rule(surface, &pointer, golden.as_deref(), candidate.as_deref())
            }
            _ => suggested_rule(surface, &pointer, None, None),
        };
        let rule = if self.required == Level::E4 { as_exclusion(&rule) } else { rule };
        let (golden, candidate) = shortened(golden, candidate);
        VerdictDifference {
            surface,
            level,
            lane: self.lanes[place.lane].clone(),
            turn: place.turn,
            pointer,
            description,
            golden,
            candidate,
            // No rule excuses another outcome.
            suggested_rule: level.map(|_| rule),
            race: race(difference).filter(|race| is_possible(*race, level)),
        }
    }
}

/// Returns the highest level that still holds with a difference, and the difference in words.
fn level_and_words(surface: Surface, difference: &Difference) -> (Option<Level>, String) {
    match difference {
        Difference::Structure { structure, .. } => structure.level_and_words(),
        Difference::Unpaired(unit) => {
            let definition = surface.definition();
            let name = (definition.unit_name)(unit.kind, &unit.key);
            let words = if unit.side == 0 { "is missing" } else { "is new" };
            (Some((definition.unpaired_level)(unit.kind)), format!("{name} {words}"))
        }
        Difference::Value(value) => {
            let level = match value.agreement {
                ValueAgreement::Different => value_level(surface, value),
                _ => Level::E3,
            };
            (Some(level), value_words(surface, value))
        }
    }
}

fn value_level(surface: Surface, difference: &ValueDifference) -> Level {
    match &difference.subject {
        Subject::Units { kind, .. } => {
            let [golden, candidate] = &difference.values;
            let values = [golden.as_deref(), candidate.as_deref()];
            (surface.definition().value_level)(&ValueChange {
                kind: *kind,
                inside: &difference.inside,
                values,
            })
        }
        Subject::MessageMembers | Subject::Frame => Level::E1,
        Subject::Id { .. } => Level::E2,
    }
}

fn value_words(surface: Surface, difference: &ValueDifference) -> String {
    let (kind, key) = match &difference.subject {
        Subject::Units { kind, keys } => (*kind, keys[0].as_str()),
        Subject::MessageMembers => return "other members of the message differ".to_owned(),
        Subject::Frame => return "the body differs outside of the units".to_owned(),
        Subject::Id { conflict } => return format!("an id has two counterparts: {conflict}"),
    };
    let name = (surface.definition().unit_name)(kind, key);
    match (difference.agreement, &difference.values) {
        (ValueAgreement::Echoed, _) => {
            "the carried-back reply differs because the models' replies do".to_owned()
        }
        (ValueAgreement::SameValue, _) => "the same value in other bytes".to_owned(),
        (_, [Some(_), None]) => format!("{name} lacks a value"),
        (_, [None, Some(_)]) => format!("{name} has a new value"),
        (ValueAgreement::Masked, _) => format!("{name} differs under a mask"),
        (ValueAgreement::Different, _) => format!("{name} differs"),
    }
}

fn is_tolerated(difference: &Difference) -> bool {
    let Difference::Value(value) = difference else { return false };
    matches!(value.agreement, ValueAgreement::Masked | ValueAgreement::Echoed)
}

fn values(difference: &Difference) -> [Option<&str>; 2] {
    match difference {
        Difference::Value(ValueDifference { values: [golden, candidate], .. })
        | Difference::Structure { golden, candidate, .. } => [golden.as_deref(), candidate.as_deref()],
        Difference::Unpaired(UnpairedUnit { side, json, .. }) => {
            super::finding::on_side(*side, json.as_str())
        }
    }
}

fn race(difference: &Difference) -> Option<Race> {
    match difference {
        Difference::Value(ValueDifference { race, .. })
        | Difference::Unpaired(UnpairedUnit { race, .. })
        | Difference::Structure { race, .. } => *race,
    }
}

/// Returns whether a race can cause a difference of this level. Some races change words only.
fn is_possible(race: Race, level: Option<Level>) -> bool {
    match race {
        Race::Start | Race::Progress => level == Some(Level::E2),
        Race::Announced | Race::Late => true,
    }
}

/// Returns both values, long ones around their first difference.
fn shortened(golden: Option<String>, candidate: Option<String>) -> (Option<String>, Option<String>) {
    let longest = golden.iter().chain(&candidate).map(String::len).max().unwrap_or_default();
    if longest <= MAX_SHOWN {
        return (golden, candidate);
    }
    let shared = match (&golden, &candidate) {
        (Some(golden), Some(candidate)) => {
            golden.bytes().zip(candidate.bytes()).take_while(|(g, c)| g == c).count()
        }
        _ => 0,
    };
    let around = |text: String| {
        let from = text.floor_char_boundary(shared.saturating_sub(CONTEXT));
        let to = text.floor_char_boundary((from + MAX_SHOWN).min(text.len()));
        let dots = |is_cut: bool| if is_cut { "…" } else { "" };
        format!("{}{}{}", dots(from > 0), &text[from..to], dots(to < text.len()))
    };
    (golden.map(around), candidate.map(around))
}
