//! A verdict with every kind of value, including hostile texts.

use parity::{
    LaneVerdict, Level, MaskUse, RuleUse, Surface, SurfaceVerdict, Tolerances, UnitCounts, VERDICT_FORMAT,
    Verdict, VerdictDifference, VerdictOutcome,
};

/// Markup, the end of a script, an escape sequence, a change of the writing direction, and characters that XML cannot
/// hold.
pub(crate) const HOSTILE: &str = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\u{1b}[2J\u{202e}\"'&]]>\u{0}\u{ffff}";

fn surface(surface: Surface, level: Option<Level>, compared: u64, equal: u64) -> SurfaceVerdict {
    SurfaceVerdict { surface, level, counts: UnitCounts { compared, equal, ..UnitCounts::default() } }
}

fn difference(surface: Surface, lane: &str, turn: u32, values: [Option<&str>; 2]) -> VerdictDifference {
    VerdictDifference {
        surface,
        level: Some(Level::E1),
        lane: lane.to_owned(),
        turn,
        pointer: "/system/1/text".to_owned(),
        description: "a text differs".to_owned(),
        golden: values[0].map(str::to_owned),
        candidate: values[1].map(str::to_owned),
        suggested_rule: Some(
            "[[mask]]\nsurface = \"prompt\"\npointer = \"/system/1/text\"\nreason = \"\"\n".to_owned(),
        ),
        race: None,
    }
}

/// Returns a verdict with two lanes, three differences and one stale rule.
pub(crate) fn verdict() -> Verdict {
    let long = |word: &str| {
        let line = "You are a careful agent that reads before it writes. ";
        format!("{}Today is {word}. {}", line.repeat(40), line.repeat(30))
    };
    let main: Vec<SurfaceVerdict> = vec![
        surface(Surface::Prompt, Some(Level::E2), 12, 9),
        surface(Surface::Tools, Some(Level::E4), 18, 18),
        surface(Surface::Settings, Some(Level::E3), 40, 38),
        surface(Surface::Calls, Some(Level::E4), 6, 6),
        surface(Surface::Results, None, 6, 2),
        surface(Surface::Jobs, None, 0, 0),
        surface(Surface::Routing, Some(Level::E4), 2, 2),
    ];
    let sub =
        vec![surface(Surface::Prompt, Some(Level::E4), 4, 4), surface(Surface::Tools, Some(Level::E3), 7, 6)];
    Verdict {
        format: VERDICT_FORMAT,
        golden: "goldens/a-harness/2.0.0/two-agents/runs/1".to_owned(),
        candidate: "goldens/a-harness/2.1.0/two-agents/runs/2".to_owned(),
        descriptions: ["a-harness 2.0.0, two-agents".to_owned(), "a-harness 2.1.0, two-agents".to_owned()],
        required: Level::E3,
        level: Some(Level::E1),
        outcome: VerdictOutcome::Differs,
        summary: vec![
            "the version went from 2.0.0 to 2.1.0".to_owned(),
            "tool `Look` has one more parameter".to_owned(),
        ],
        surfaces: main.clone(),
        lanes: vec![
            LaneVerdict {
                golden: Some("main".to_owned()),
                candidate: Some("main".to_owned()),
                turns: vec![(Some(1), Some(1))],
                surfaces: main,
            },
            LaneVerdict {
                golden: Some("sub-1".to_owned()),
                candidate: Some("sub-2".to_owned()),
                turns: vec![(Some(1), Some(1))],
                surfaces: sub,
            },
        ],
        differences: vec![
            VerdictDifference {
                level: Some(Level::E2),
                ..difference(Surface::Prompt, "main", 1, [Some(&long("Monday")), Some(&long("Sunday"))])
            },
            VerdictDifference {
                description: HOSTILE.to_owned(),
                level: None,
                ..difference(Surface::Results, "main", 2, [Some(HOSTILE), None])
            },
            VerdictDifference {
                level: Some(Level::E3),
                ..difference(Surface::Tools, "sub-1", 1, [Some("1"), Some("1.0")])
            },
        ],
        tolerances: Tolerances {
            masks: vec![MaskUse {
                name: "date".to_owned(),
                covers: "days and times in prompts".to_owned(),
                hits: 14,
                differed: 2,
            }],
            rules: vec![RuleUse {
                surface: Surface::Jobs,
                pointer: "/messages/3".to_owned(),
                reason: "waits are random".to_owned(),
                hits: 0,
                stale: true,
            }],
            ids: vec![("toolu_a".to_owned(), "toolu_b".to_owned())],
        },
        notes: vec!["two siblings were compared as a set".to_owned()],
        cache: Vec::new(),
    }
}
