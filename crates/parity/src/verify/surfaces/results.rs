//! Surface `results`: results of tools, except those about jobs.

use super::{SurfaceDefinition, ValueChange};
use crate::surface::Surface;
use crate::verdict::Level;
use crate::verify::changes::{Changes, counted};
use crate::verify::project::UnitKind;
use crate::verify::structure::ChangeKind;

pub(super) const DEFINITION: SurfaceDefinition = SurfaceDefinition {
    has_unit: |kind, is_about_job| kind == UnitKind::Result && !is_about_job,
    value_level,
    unpaired_level: |_| Level::E0,
    unit_name: |_, _| "a result".to_owned(),
    summary,
    has_prose: true,
    has_versions: true,
    compare_lane: None,
    compare_turn: None,
};

/// Another content has the same structure. Another type, error flag or call has not.
pub(super) fn value_level(change: &ValueChange<'_>) -> Level {
    let is_content = ["/content", "/output"].iter().any(|name| change.inside.starts_with(name));
    match change.values {
        [Some(_), Some(_)] if is_content && !change.inside.ends_with("/type") => Level::E2,
        _ => Level::E1,
    }
}

fn summary(changes: &Changes) -> Vec<String> {
    let count = |change: ChangeKind| changes.count(Surface::Results, UnitKind::Result, change);
    let lines = [
        counted(count(ChangeKind::Gone), "result gone", "results gone"),
        counted(count(ChangeKind::New), "result new", "results new"),
        counted(count(ChangeKind::Changed), "result of another type", "results of another type"),
        counted(count(ChangeKind::Reworded), "result with other content", "results with other content"),
    ];
    changes.others(Surface::Results).chain(lines.into_iter().flatten()).collect()
}
