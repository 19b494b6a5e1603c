//! Output of `offshoot show` for a recording.

use std::fmt::Write as _;

use recording::lanes::{Lane, Turn};
use recording::source::OrderedExchanges;
use recording::{Recording, SealState};
use serde_json::{Value, json};

use crate::style::Tone;
use crate::text::{counted, plain};
use crate::tree::tree;

/// Information about a folder in addition to its exchanges.
#[derive(Debug, Default)]
pub struct FolderInfo<'a> {
    /// The recording, if the folder is one of ours.
    pub recording: Option<&'a Recording>,
    /// The files that have changed since the recording was sealed.
    pub damage: &'a [String],
    /// The format of the transcripts, if the folder is an imported session.
    pub imported_from: Option<&'a str>,
}

/// Renders the lanes as a tree, with the state and problems of the folder.
pub fn show_text(ordered: &OrderedExchanges, about: &FolderInfo<'_>, width: usize) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes everything");
    let counts = format!(
        "{}, {}",
        counted(ordered.exchanges.len() as u64, "exchange"),
        counted(ordered.lanes.lanes.len() as u64, "lane")
    );
    match about.recording.map(Recording::state) {
        Some(SealState::Sealed) => line(format!("{}, {counts}", Tone::Good.paint("sealed"))),
        Some(SealState::Unsealed { because }) => {
            line(format!("{}, {counts}: {}", Tone::Warning.paint("unsealed"), plain(because)));
        }
        None => match about.imported_from {
            Some(format) => line(format!("imported from `{}`, {counts}", plain(format))),
            None => line(format!("a folder of dumps, {counts}")),
        },
    }
    line(tree(ordered, width).trim_end().to_owned());
    for problem in &ordered.problems {
        line(format!("{}: {}", plain(&problem.what), plain(&problem.why)));
    }
    if let Some(recording) = about.recording {
        if recording.torn_bytes() > 0 {
            line(format!("the last {} bytes of the log are not a whole record", recording.torn_bytes()));
        }
        for loss in recording.manifest().map_or(&[][..], |manifest| &manifest.lost) {
            line(format!("not kept: {}", plain(&loss.to_string())));
        }
        for part in recording.manifest().map_or(&[][..], |manifest| &manifest.unsearched) {
            line(format!("not searched for secrets: {}", plain(part)));
        }
        for file in recording.manifest().map_or(&[][..], |manifest| &manifest.suspicious) {
            line(format!("random, of no known kind: `{}`", plain(file)));
        }
    }
    for file in about.damage {
        line(format!("{}: {}", Tone::Bad.paint("damaged"), plain(file)));
    }
    text
}

/// Renders the same as JSON.
pub fn show_json(ordered: &OrderedExchanges, about: &FolderInfo<'_>) -> Value {
    let because = match about.recording.map(Recording::state) {
        Some(SealState::Sealed) => None,
        Some(SealState::Unsealed { because }) => Some(because.as_str()),
        None if about.imported_from.is_some() => Some("it is an imported session"),
        None => Some("it is a folder of dumps"),
    };
    let exchanges = ordered.exchanges.iter().map(|exchange| {
        json!({
            "request_id": exchange.id, "method": exchange.method, "url": exchange.url, "model": exchange.model,
            "status": exchange.status, "ending": exchange.ending, "error": exchange.error,
            "started_us": exchange.started_us, "took_us": exchange.took_us,
        })
    });
    let manifest = about.recording.and_then(Recording::manifest);
    json!({
        "format": 1,
        "sealed": because.is_none(),
        "unsealed_because": because,
        "lanes": ordered.lanes.lanes.iter().map(lane).collect::<Vec<_>>(),
        "jobs": ordered.lanes.jobs(),
        "exchanges": exchanges.collect::<Vec<_>>(),
        "problems": ordered.problems,
        "torn_bytes": about.recording.map_or(0, Recording::torn_bytes),
        "lost": manifest.map(|manifest| &manifest.lost),
        "unsearched": manifest.map(|manifest| &manifest.unsearched),
        "suspicious": manifest.map(|manifest| &manifest.suspicious),
        "damaged": about.damage,
    })
}

fn lane(lane: &Lane) -> Value {
    json!({
        "id": lane.id, "kind": lane.kind, "parent": lane.parent, "spawned_by": lane.spawned_by,
        "agent_type": lane.agent_type, "session": lane.session, "agent": lane.agent,
        "exchanges": lane.requests().collect::<Vec<_>>(),
        "turns": lane.turns.iter().map(turn).collect::<Vec<_>>(),
    })
}

fn turn(turn: &Turn) -> Value {
    let calls = turn.calls.iter().map(|call| json!({"id": call.id, "name": call.name}));
    json!({
        "turn": turn.turn, "seq": turn.seq, "requests": turn.attempts, "asked": turn.asked,
        "calls": calls.collect::<Vec<_>>(),
        "results": turn.results.iter().map(|result| &result.call).collect::<Vec<_>>(),
        "stop": turn.stop, "usage": turn.usage, "marks": turn.marks,
    })
}
