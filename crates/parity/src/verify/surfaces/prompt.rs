//! Surface `prompt`: instructions, texts, pictures, and the model's content as it is carried back.

use super::{SurfaceDefinition, ValueChange};
use crate::surface::Surface;
use crate::verdict::Level;
use crate::verify::changes::{Changes, counted};
use crate::verify::project::UnitKind;
use crate::verify::structure::ChangeKind;

pub(super) const DEFINITION: SurfaceDefinition = SurfaceDefinition {
    has_unit: |kind, is_about_job| {
        matches!(kind, UnitKind::System | UnitKind::Reply | UnitKind::Text) && !is_about_job
    },
    value_level,
    unpaired_level: |_| Level::E0,
    unit_name: |kind, key| match kind {
        UnitKind::System => "a block of the system prompt".to_owned(),
        UnitKind::Reply => format!("a carried-back {key} block"),
        _ => "a text".to_owned(),
    },
    summary,
    has_prose: true,
    has_versions: true,
    compare_lane: None,
    compare_turn: None,
};

/// Texts of similar length have the same structure. The length is that of the JSON, in bytes and with escapes.
fn value_level(change: &ValueChange<'_>) -> Level {
    if change.kind != UnitKind::Reply && change.inside == "/type" {
        return Level::E1;
    }
    match change.values {
        [Some(golden), Some(candidate)] if are_similar(golden.len(), candidate.len()) => Level::E2,
        _ => Level::E1,
    }
}

/// Returns whether one length is at most half as long again as the other, or both are short.
fn are_similar(a: usize, b: usize) -> bool {
    let (short, long) = (a.min(b), a.max(b));
    long <= short + short / 2 + 16
}

fn summary(changes: &Changes) -> Vec<String> {
    let count = |kind: UnitKind, change: ChangeKind| changes.count(Surface::Prompt, kind, change);
    let changed = |kind: UnitKind| count(kind, ChangeKind::Changed) + count(kind, ChangeKind::Reworded);
    use ChangeKind::{Gone, New};
    use UnitKind::{Reply, System, Text};
    let lines = [
        counted(
            changed(System),
            "block of the system prompt reworded",
            "blocks of the system prompt reworded",
        ),
        counted(count(System, New), "block of the system prompt new", "blocks of the system prompt new"),
        counted(count(System, Gone), "block of the system prompt gone", "blocks of the system prompt gone"),
        counted(changed(Text), "text reworded", "texts reworded"),
        counted(count(Text, New), "text new", "texts new"),
        counted(count(Text, Gone), "text gone", "texts gone"),
        counted(changed(Reply), "carried-back reply changed", "carried-back replies changed"),
        counted(count(Reply, Gone), "reply not carried back", "replies not carried back"),
        counted(count(Reply, New), "carried-back reply new", "carried-back replies new"),
    ];
    changes.others(Surface::Prompt).chain(lines.into_iter().flatten()).collect()
}
