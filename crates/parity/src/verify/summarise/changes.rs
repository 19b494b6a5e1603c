//! Collects the changes by name.

use std::collections::BTreeSet;

use recording::lanes::LaneKind;
use wire::json::Document;

use crate::verdict::{Level, Surface};
use crate::verify::changes::Changes;
use crate::verify::classify::{Classified, ClassifiedDifference};
use crate::verify::finding::{Difference, Subject, UnpairedUnit, ValueAgreement, ValueDifference};
use crate::verify::project::UnitKind;
use crate::verify::structure::{ChangeKind, Structure};
use crate::verify::text::{SIDES, short};

/// Collects the changes of all findings.
pub(super) fn collect(findings: &[Classified]) -> Changes {
    let mut changes = Changes::default();
    for finding in findings {
        changes.common_tools.extend(finding.common_tool.clone());
        if let Some(difference) = &finding.difference {
            add(&mut changes, finding.surface, difference);
        }
    }
    changes
}

fn add(changes: &mut Changes, surface: Surface, classified: &ClassifiedDifference) {
    match &classified.difference {
        Difference::Value(value) if value.agreement == ValueAgreement::Different => {
            add_value(changes, surface, value, classified.level);
        }
        Difference::Value(_) => {}
        Difference::Unpaired(unit) => add_unpaired(changes, surface, unit),
        Difference::Structure { structure, golden, candidate, .. } => {
            let [golden, candidate] = [golden, candidate].map(|value| value.clone().unwrap_or_default());
            add_structure(changes, surface, structure, golden, candidate);
        }
    }
}

fn add_value(changes: &mut Changes, surface: Surface, value: &ValueDifference, level: Option<Level>) {
    match (&value.subject, level) {
        (Subject::Units { kind: UnitKind::Call, keys: [from, to] }, Some(Level::E0)) => {
            changes.renamed.insert((from.clone(), to.clone()));
        }
        (Subject::Units { kind: UnitKind::Model, .. }, _) => {
            let [from, to] = value.values.each_ref().map(|value| short(value.as_deref().unwrap_or_default()));
            changes.add_other(surface, format!("model {from} is now {to}"));
        }
        (Subject::Units { kind, keys }, Some(Level::E2)) if *kind != UnitKind::Identity => {
            changes.add(surface, *kind, ChangeKind::Reworded, &keys[0]);
        }
        (Subject::Units { kind, keys }, _) => changes.add(surface, *kind, ChangeKind::Changed, &keys[0]),
        (Subject::Id { .. }, _) => changes.add_other(surface, "an id has two counterparts"),
        (Subject::MessageMembers | Subject::Frame, _) => {}
    }
}

fn add_unpaired(changes: &mut Changes, surface: Surface, unit: &UnpairedUnit) {
    let change = if unit.side == 0 { ChangeKind::Gone } else { ChangeKind::New };
    changes.add(surface, unit.kind, change, &unit.key);
    if unit.kind == UnitKind::Tool {
        let owner = match unit.lane_kind {
            LaneKind::Main => "main",
            LaneKind::Sub => "sub-agents",
            LaneKind::Fork => "forks",
            LaneKind::Side => "side calls",
        };
        changes.tool_owners.entry((change, unit.key.clone())).or_default().insert(owner);
        changes.schemas[unit.side].insert(unit.key.clone(), arguments(&unit.json));
    }
}

fn add_structure(
    changes: &mut Changes,
    surface: Surface,
    structure: &Structure,
    golden: String,
    candidate: String,
) {
    match structure {
        Structure::Marker(change) => *changes.markers.entry(*change).or_default() += 1,
        Structure::Lane { side } => {
            changes.add_other(surface, format!("lanes that only the {} has", SIDES[*side]));
        }
        Structure::SideCall { side } => {
            changes.add_other(surface, format!("calls that only the {} has", SIDES[*side]));
        }
        Structure::Parent | Structure::SpawnCall | Structure::AgentType | Structure::TurnCount => {
            let (_, words) = structure.level_and_words();
            changes.add_other(surface, format!("{words}: {golden} / {candidate}"));
        }
        Structure::JobEvents { .. } | Structure::JobEventOrder { .. } => {
            changes.job_events.insert((golden, candidate));
        }
        Structure::JobEventTurn { event, .. } => {
            changes.add_other(surface, format!("the {event} is at another turn"));
        }
        _ => {}
    }
}

/// Returns the names of the arguments that a tool takes.
fn arguments(json: &str) -> BTreeSet<String> {
    let Ok(tool) = Document::parse(json.as_bytes()) else { return BTreeSet::new() };
    let places = ["/input_schema/properties", "/function/parameters/properties", "/parameters/properties"];
    let properties = places.iter().find_map(|place| tool.root().pointer(place));
    let members = properties.into_iter().flat_map(|object| object.members());
    members.map(|member| member.name().into_owned()).collect()
}
