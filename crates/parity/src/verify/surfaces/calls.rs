//! Surface `calls`: tool calls as the harness carries them back.

use recording::lanes::Turn;

use super::{SurfaceDefinition, ValueChange};
use crate::surface::Surface;
use crate::verdict::Level;
use crate::verify::align::PairedRecordings;
use crate::verify::changes::{Changes, listed};
use crate::verify::finding::{Finding, Findings, TurnPlace};
use crate::verify::project::UnitKind;
use crate::verify::structure::ChangeKind;

pub(super) const DEFINITION: SurfaceDefinition = SurfaceDefinition {
    has_unit: |kind, _| kind == UnitKind::Call,
    value_level,
    unpaired_level: |_| Level::E0,
    unit_name: |_, key| format!("a call of `{key}`"),
    summary,
    has_prose: false,
    has_versions: false,
    compare_lane: None,
    compare_turn: Some(count_reply),
};

/// Counts the reply of a turn as echoed: the model gave it, and the next request carries its calls back.
fn count_reply(_: &PairedRecordings<'_>, place: TurnPlace, turns: [&Turn; 2], findings: &mut Findings) {
    let mut finding = Finding::new(place, Surface::Calls, "");
    finding.counts.echoed += u64::from(turns[0].whole);
    findings.push(finding);
}

fn value_level(change: &ValueChange<'_>) -> Level {
    match change.inside {
        "/name" | "/function/name" | "/type" => Level::E0,
        _ => Level::E1,
    }
}

fn summary(changes: &Changes) -> Vec<String> {
    let of = |change: ChangeKind| changes.of(Surface::Calls, UnitKind::Call, change);
    let renamed = changes.renamed.iter().map(|(from, to)| format!("{to} is called instead of {from}"));
    let rest = [
        listed("no longer called:", &of(ChangeKind::Gone)),
        listed("now called:", &of(ChangeKind::New)),
        listed("other arguments:", &of(ChangeKind::Changed)),
    ];
    changes.others(Surface::Calls).chain(renamed).chain(rest.into_iter().flatten()).collect()
}
