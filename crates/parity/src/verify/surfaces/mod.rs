//! The surfaces: which units belong to each, and the levels, names and summaries of their differences.

mod calls;
mod jobs;
mod prompt;
mod results;
mod routing;
mod settings;
mod tools;

use recording::lanes::Turn;

use super::align::PairedRecordings;
use super::changes::Changes;
use super::finding::{Findings, TurnPlace};
use super::job_names::JobNames;
use super::project::{Unit, UnitKind};
use crate::surface::{Surface, surface_table};
use crate::verdict::Level;

/// Everything that the comparison knows about a surface.
pub(super) struct SurfaceDefinition {
    /// Returns whether a unit of this kind belongs to the surface. The flag says whether the unit is about a job.
    pub(super) has_unit: fn(UnitKind, bool) -> bool,
    /// Returns the level that still holds if a value inside of two aligned units differs.
    pub(super) value_level: fn(&ValueChange<'_>) -> Level,
    /// Returns the level that still holds if a unit of this kind has no counterpart.
    pub(super) unpaired_level: fn(UnitKind) -> Level,
    /// Returns the name of a unit with this kind and key in messages, such as "the tool `Read`".
    pub(super) unit_name: fn(UnitKind, &str) -> String,
    /// Returns the changes in a few words each, for the summary of the verdict.
    pub(super) summary: fn(&Changes) -> Vec<String>,
    /// True if its texts are prose, in which dates, durations and token counts are masked.
    pub(super) has_prose: bool,
    /// True if its values contain the version of the harness, which is masked.
    pub(super) has_versions: bool,
    /// Compares facts about a pair of lanes that no unit contains.
    pub(super) compare_lane: Option<LaneComparison>,
    /// Compares facts about a pair of turns that no unit contains.
    pub(super) compare_turn: Option<TurnComparison>,
}

type LaneComparison = fn(&PairedRecordings<'_>, usize, &mut Findings);
type TurnComparison = fn(&PairedRecordings<'_>, TurnPlace, [&Turn; 2], &mut Findings);

/// A value that differs, without its place in the unit's request.
pub(super) struct ValueChange<'v> {
    pub(super) kind: UnitKind,
    /// Pointer of the value inside of the unit.
    pub(super) inside: &'v str,
    /// JSON of the golden's and the candidate's value.
    pub(super) values: [Option<&'v str>; 2],
}

macro_rules! define_surfaces {
    ($($(#[$doc:meta])* $variant:ident = $module:ident,)*) => {
        impl Surface {
            /// Returns the definition in the file of the surface.
            pub(in crate::verify) fn definition(self) -> &'static SurfaceDefinition {
                match self {
                    $(Self::$variant => &$module::DEFINITION,)*
                }
            }
        }
    };
}

surface_table!(define_surfaces);

/// Returns the surface of a unit.
pub(super) fn surface_of(unit: &Unit, jobs: &JobNames) -> Surface {
    let is_about_job = jobs.concern(unit);
    let has_unit = |surface: &Surface| (surface.definition().has_unit)(unit.kind, is_about_job);
    Surface::ALL.into_iter().find(has_unit).expect("each kind of unit has a surface")
}

/// Compares facts about a pair of lanes on all surfaces.
pub(super) fn compare_lane(recordings: &PairedRecordings<'_>, pair: usize, findings: &mut Findings) {
    // The last surface is the tree, which comes before the facts of its lanes.
    for compare in Surface::ALL.into_iter().rev().filter_map(|surface| surface.definition().compare_lane) {
        compare(recordings, pair, findings);
    }
}

/// Compares facts about a pair of turns on all surfaces.
pub(super) fn compare_turn(
    recordings: &PairedRecordings<'_>,
    place: TurnPlace,
    turns: [&Turn; 2],
    findings: &mut Findings,
) {
    for compare in Surface::ALL.into_iter().filter_map(|surface| surface.definition().compare_turn) {
        compare(recordings, place, turns, findings);
    }
}
