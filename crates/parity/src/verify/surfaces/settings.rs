//! Surface `settings`: model, other members of the body, headers, cache markers.

use super::{SurfaceDefinition, ValueChange};
use crate::surface::Surface;
use crate::verdict::Level;
use crate::verify::changes::{Changes, counted, listed};
use crate::verify::project::UnitKind;
use crate::verify::structure::ChangeKind;

pub(super) const DEFINITION: SurfaceDefinition = SurfaceDefinition {
    has_unit: |kind, _| matches!(kind, UnitKind::Model | UnitKind::Setting | UnitKind::Header),
    value_level,
    unpaired_level: |kind| if kind == UnitKind::Model { Level::E0 } else { Level::E1 },
    unit_name: |kind, key| match kind {
        UnitKind::Model => "the model".to_owned(),
        UnitKind::Header => format!("the header `{key}`"),
        _ => format!("the setting `{key}`"),
    },
    summary,
    has_prose: false,
    has_versions: true,
    compare_lane: None,
    compare_turn: None,
};

fn value_level(change: &ValueChange<'_>) -> Level {
    if change.kind == UnitKind::Model { Level::E0 } else { Level::E1 }
}

fn summary(changes: &Changes) -> Vec<String> {
    let of = |kind: UnitKind, change: ChangeKind| changes.of(Surface::Settings, kind, change);
    use ChangeKind::{Changed, Gone, New};
    use UnitKind::{Header, Setting};
    let lines = [
        listed("settings gone:", &of(Setting, Gone)),
        listed("settings new:", &of(Setting, New)),
        listed("settings changed:", &of(Setting, Changed)),
        listed("headers gone:", &of(Header, Gone)),
        listed("headers new:", &of(Header, New)),
        listed("headers changed:", &of(Header, Changed)),
    ];
    // Changed markers cost money and are easily overlooked.
    let others = changes.others(Surface::Settings);
    markers(changes).into_iter().chain(others).chain(lines.into_iter().flatten()).collect()
}

fn markers(changes: &Changes) -> Option<String> {
    let markers = |change: ChangeKind| changes.markers.get(&change).copied().unwrap_or_default();
    match (markers(ChangeKind::Gone), markers(ChangeKind::New)) {
        (0, 0) => counted(markers(ChangeKind::Changed), "cache marker differs", "cache markers differ"),
        (gone, 0) => counted(gone, "cache marker gone", "cache markers gone"),
        (0, new) => counted(new, "cache marker new", "cache markers new"),
        (gone, new) => Some(format!("cache markers moved ({gone} gone, {new} new)")),
    }
}
