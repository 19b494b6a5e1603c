//! Recordings that were changed since they were sealed. Such a verdict is never a match.
//!
//! Bodies are read from the dumps, so a changed body is an ordinary difference. The other members of a dump are compared
//! with the log here, and each change is a difference at its place.

use std::fs;

use recording::source::{OrderedExchanges, Source};
use serde::Deserialize;
use serde_json::Value;
use session::RequestId;
use wire::Header;

use super::rules::RULES_FILE;
use crate::verdict::{Level, Surface, Verdict, VerdictDifference, VerdictOutcome};

/// Files that are listed.
const MAX_LISTED: usize = 8;

/// The members of a dump besides its body.
#[derive(Default, Deserialize)]
struct DumpHead {
    #[serde(default)]
    method: Value,
    #[serde(rename = "targetUrl", default)]
    target_url: Value,
    #[serde(default)]
    headers: Value,
    #[serde(default)]
    status: Value,
}

/// Adds notes and differences for the changed files of both recordings.
pub(super) fn add_seal_differences(verdict: &mut Verdict, sides: [(&Source, &OrderedExchanges); 2]) {
    let damage = |source: &Source| source.recording().map(|recording| recording.damage());
    // This reads every file, so both sides are read at the same time.
    let damages = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| damage(sides[1].0));
        [damage(sides[0].0), theirs.join().expect("reading files does not panic")]
    });
    let mut because = None;
    for (side, ((source, ordered), damage)) in sides.into_iter().zip(damages).enumerate() {
        let whose = ["golden", "candidate"][side];
        let damage = match damage {
            None => continue,
            Some(Ok(damage)) => damage,
            Some(Err(error)) => {
                verdict.notes.push(format!("the {whose} cannot be compared with its seal: {error}"));
                continue;
            }
        };
        // The rules of a golden may lie in its folder.
        let (new, changed): (Vec<_>, Vec<_>) = damage
            .into_iter()
            .filter(|file| file != &format!("`{RULES_FILE}` is new"))
            .partition(|file| file.ends_with(" is new") && !is_recorded(source, file_name(file)));
        let before = verdict.notes.len();
        for file in changed.iter().chain(&new).take(MAX_LISTED) {
            verdict.notes.push(format!("the {whose} was changed since it was sealed: {file}"));
        }
        let more = (changed.len() + new.len()).saturating_sub(MAX_LISTED);
        if more > 0 {
            verdict.notes.push(format!("the {whose} was changed since it was sealed: {more} more files"));
        }
        // An additional file changes nothing that was recorded.
        if !changed.is_empty() {
            because = because.or_else(|| verdict.notes.get(before).cloned());
        }
        for file in &changed {
            for difference in head_differences(source, ordered, side, file_name(file)) {
                add(verdict, side, difference);
            }
        }
    }
    if let (Some(because), VerdictOutcome::Match) = (because, &verdict.outcome) {
        verdict.outcome = VerdictOutcome::Inconclusive(because);
    }
}

/// Returns the file that a message about damage names.
fn file_name(message: &str) -> &str {
    message.split('`').nth(1).unwrap_or_default()
}

/// Returns whether a file belongs to the recording: the dump of an exchange, or a body. If the seal does not know such a
/// file, the seal was changed.
fn is_recorded(source: &Source, file: &str) -> bool {
    let dump = file.rsplit('/').next().unwrap_or_default();
    let id = dump.strip_suffix("_request.json").or_else(|| dump.strip_suffix("_response.json"));
    let is_dump = id.is_some_and(|id| (0..source.len()).any(|n| source.id(n).as_str() == id));
    is_dump || file.starts_with("blobs/")
}

/// Compares the head of a dump with the log.
fn head_differences(
    source: &Source,
    ordered: &OrderedExchanges,
    side: usize,
    file: &str,
) -> Vec<VerdictDifference> {
    let dump = file.rsplit('/').next().unwrap_or_default();
    let request = dump.strip_suffix("_request.json");
    let Some(id) = request.or_else(|| dump.strip_suffix("_response.json")) else { return Vec::new() };
    let id = RequestId::new(id);
    let number = (0..source.len()).find(|n| source.id(*n) == id);
    let read = fs::read(source.dir().join(file)).ok();
    let head = read.and_then(|bytes| serde_json::from_slice::<DumpHead>(&bytes).ok());
    let (Some(n), Some(head)) = (number, head) else { return Vec::new() };
    let place = ordered.lanes.lanes.iter().find_map(|lane| {
        let turn = lane.turns.iter().find(|turn| turn.attempts.contains(&id))?;
        Some((lane.id.clone(), turn.turn))
    });
    let (lane, turn) = place.unwrap_or_else(|| ("main".to_owned(), 0));
    let mut found = Vec::new();
    let mut differ = |surface: Surface, pointer: &str, log: Option<String>, dump: Option<String>| {
        if log == dump {
            return;
        }
        let (golden, candidate) = if side == 0 { (dump, log) } else { (log, dump) };
        found.push(VerdictDifference {
            surface,
            level: Some(Level::E1),
            lane: lane.clone(),
            turn,
            pointer: pointer.to_owned(),
            description: format!("`{file}` was changed after it was sealed"),
            golden,
            candidate,
            suggested_rule: None,
            race: None,
        });
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut of_headers = |prefix: &str, log: &[Header], dump: &Value| {
        let dump: Vec<Header> = serde_json::from_value(dump.clone()).unwrap_or_default();
        let mut names: Vec<String> =
            log.iter().chain(&dump).map(|header| header.name().to_ascii_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let values = |headers: &[Header]| {
                let of = headers.iter().filter(|header| header.name().eq_ignore_ascii_case(&name));
                let values: Vec<String> =
                    of.map(|header| header.value().unwrap_or("secret").into()).collect();
                (!values.is_empty()).then(|| values.join(", "))
            };
            differ(Surface::Settings, &format!("{prefix}{name}"), values(log), values(&dump));
        }
    };
    if request.is_some() {
        let Ok(asked) = source.request(n) else { return found };
        of_headers("header:", &asked.headers, &head.headers);
        differ(Surface::Routing, "method", Some(asked.method), text(&head.method));
        let url = text(&head.target_url).unwrap_or_default();
        let (mine, theirs) = (address_parts(&asked.url), address_parts(&url));
        for (at, pointer) in ["url:host", "url:path", "url:query"].into_iter().enumerate() {
            let surface = if at == 2 { Surface::Settings } else { Surface::Routing };
            differ(surface, pointer, Some(mine[at].to_owned()), Some(theirs[at].to_owned()));
        }
    } else if let Ok(Some(answered)) = source.response(n) {
        of_headers("answer:header:", &answered.headers, &head.headers);
        let status = answered.status.map(|status| status.to_string());
        let dumped = (!head.status.is_null()).then(|| head.status.to_string());
        differ(Surface::Routing, "answer:status", status, dumped);
    }
    found
}

/// Returns host, path and query of an address.
fn address_parts(url: &str) -> [&str; 3] {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    [host, path, query]
}

/// Adds a difference, and lowers the levels of its surface and lane.
fn add(verdict: &mut Verdict, side: usize, difference: VerdictDifference) {
    let of_lane = verdict.lanes.iter_mut().find(|lane| {
        let name = if side == 0 { &lane.golden } else { &lane.candidate };
        name.as_ref() == Some(&difference.lane)
    });
    let of_lane = of_lane.map(|lane| lane.surfaces.iter_mut()).into_iter().flatten();
    for surface in verdict.surfaces.iter_mut().chain(of_lane) {
        if surface.surface == difference.surface {
            surface.level = surface.level.min(difference.level);
        }
    }
    verdict.level = verdict.level.min(difference.level);
    if verdict.outcome == VerdictOutcome::Match && verdict.level < Some(verdict.required) {
        verdict.outcome = VerdictOutcome::Differs;
    }
    verdict.differences.push(difference);
}
