//! Recordings that depend on a race: no order of answers brings them back for certain.

use recording::Manifest;
use recording::lanes::{Lanes, Mark};

use crate::verdict::{Level, Outcome, Verdict};

/// What a reader should know of races in the golden.
pub(super) fn notes(
    golden: (&Lanes, Option<&Manifest>),
    candidate: Option<&Manifest>,
    verdict: &Verdict,
) -> Vec<String> {
    let mut notes = Vec::new();
    for lane in &golden.0.lanes {
        for turn in lane.turns.iter().filter(|turn| turn.marks.contains(&Mark::LateText)) {
            notes.push(format!(
                "the golden is racy at {}, turn {}: a text stands before a reply that was given without it",
                lane.id, turn.turn
            ));
        }
    }
    if let Some(first) = unreproduced(golden.1, candidate, verdict) {
        notes.push(format!(
            "the candidate is a replay of its golden in the recorded order and still differs: the golden is racy at {first}"
        ));
    }
    notes
}

/// Where a golden's own replay does not reproduce it.
fn unreproduced(
    golden: Option<&Manifest>,
    candidate: Option<&Manifest>,
    verdict: &Verdict,
) -> Option<String> {
    let replay = candidate?.replay.as_ref()?;
    let same = golden?.harness.as_ref().map(|it| (&it.version, &it.host))
        == candidate?.harness.as_ref().map(|it| (&it.version, &it.host));
    let is_own =
        same && replay.order == "recorded" && replay.faults.is_empty() && replay.of == verdict.golden;
    if !is_own || verdict.outcome != Outcome::Differs {
        return None;
    }
    let worse = |level: Option<Level>| level.is_none_or(|level| level < Level::E3);
    let first = verdict.differences.iter().find(|difference| worse(difference.holds))?;
    Some(format!("{}, turn {} ({})", first.lane, first.turn, first.pointer))
}

#[cfg(test)]
mod tests {
    use recording::{Harness, Replay};

    use super::*;
    use crate::verdict::{Difference, Surface, VERDICT_FORMAT};

    fn verdict(holds: Level) -> Verdict {
        Verdict {
            format: VERDICT_FORMAT,
            golden: "rec".into(),
            candidate: "again".into(),
            about: [String::new(), String::new()],
            wanted: Level::E3,
            level: Some(holds),
            outcome: Outcome::Differs,
            summary: Vec::new(),
            surfaces: Vec::new(),
            lanes: Vec::new(),
            differences: vec![Difference {
                surface: Surface::Prompt,
                holds: Some(holds),
                lane: "main".into(),
                turn: 3,
                pointer: "/messages/4".into(),
                what: "a text differs".into(),
                golden: None,
                candidate: None,
                mask: None,
            }],
            masks: Vec::new(),
            rules: Vec::new(),
            ids: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn only_the_recordings_own_replay_in_its_order_calls_it_racy() {
        let harness = |version: &str| Some(Harness { version: Some(version.into()), ..Harness::default() });
        let golden = Manifest { harness: harness("2"), ..Manifest::default() };
        let replay = |of: &str, order: &str, version: &str| Manifest {
            harness: harness(version),
            replay: Some(Replay { of: of.into(), order: order.into(), ..Replay::default() }),
            ..Manifest::default()
        };
        let said = |candidate: &Manifest, holds| {
            notes((&Lanes::default(), Some(&golden)), Some(candidate), &verdict(holds)).concat()
        };
        let own = said(&replay("rec", "recorded", "2"), Level::E1);
        assert!(own.ends_with("the golden is racy at main, turn 3 (/messages/4)"), "{own}");
        for other in
            [replay("rec", "free", "2"), replay("rec", "recorded", "3"), replay("else", "recorded", "2")]
        {
            assert_eq!(said(&other, Level::E1), "");
        }
        assert_eq!(said(&replay("rec", "recorded", "2"), Level::E3), "", "masks are no race");
    }
}
