//! Notes of a verdict.

use recording::lanes::{Lanes, TurnMark};

use crate::verdict::{Level, Race, Verdict};
use crate::verify::classify::Classified;

/// Returns each note once.
pub(super) fn deduplicated(notes: Vec<String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for note in notes {
        if !once.contains(&note) {
            once.push(note);
        }
    }
    once
}

/// Returns a note about differences that are not listed because a mask covers them.
pub(super) fn bytes_only(findings: &[Classified], required: Level) -> Option<String> {
    let differences = findings.iter().filter_map(|it| it.difference.as_ref());
    match differences.filter(|difference| difference.is_tolerated).count() {
        0 => None,
        _ if required == Level::E4 => None,
        1 => Some("1 value differs under a mask only; `--level E4` lists them".to_owned()),
        n => Some(format!("{n} values differ under a mask only; `--level E4` lists them")),
    }
}

/// Returns notes about races in the golden.
pub(super) fn races(golden: &Lanes, verdict: &Verdict, is_own_replay: bool) -> Vec<String> {
    let mut notes = Vec::new();
    for lane in &golden.lanes {
        for turn in lane.turns.iter().filter(|turn| turn.marks.contains(&TurnMark::LateText)) {
            let because = Race::Late.explanation();
            notes.push(format!("the golden is racy at {}, turn {}: {because}", lane.id, turn.turn));
        }
    }
    let is_failing = |level: Option<Level>| level.is_none_or(|level| level < Level::E3);
    let failing: Vec<_> = verdict.differences.iter().filter(|it| is_failing(it.level)).collect();
    for difference in &failing {
        if let Some(race) = difference.race.filter(|race| *race != Race::Late) {
            notes.push(format!(
                "the golden is racy at {}, turn {} ({}), rule `{}`: {}",
                difference.lane,
                difference.turn,
                difference.pointer,
                race.name(),
                race.explanation()
            ));
        }
    }
    let unexplained = failing.iter().filter(|difference| difference.race.is_none()).count();
    if is_own_replay && unexplained > 0 {
        let differences = match unexplained {
            1 => "1 of the differences is not a known race".to_owned(),
            n => format!("{n} of the differences are not known races"),
        };
        notes.push(format!("the candidate is a replay of its golden in the recorded order; {differences}"));
    }
    notes
}
