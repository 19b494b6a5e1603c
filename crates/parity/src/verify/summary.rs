//! What changed, in a few lines that fit on one screen: the first thing to read.

use std::collections::{BTreeMap, BTreeSet};

use super::changes::{Changes, How};
use super::side::RecordingFacts;
use super::unit::Kind;
use crate::verdict::{Level, Surface, Verdict};

/// Longest line, but for a sign that there is more.
const WIDTH: usize = 76;
/// Most lines; with the answer and the two names above them it is one screen.
const LINES: usize = 19;
/// Lines of a surface that there is always room for.
const ROWS: usize = 3;

/// A few lines for each surface that changed.
pub(super) fn of(verdict: &Verdict, changes: &Changes, facts: [&RecordingFacts; 2]) -> Vec<String> {
    let differs = |surface: Surface| {
        let mut of = verdict.differences.iter().filter(|difference| difference.surface == surface);
        of.any(|difference| difference.level < Some(Level::E3))
    };
    let mut head = Vec::new();
    if facts[0].version != facts[1].version || facts[0].harness != facts[1].harness {
        let name = |facts: &RecordingFacts| {
            let harness = facts.harness.as_deref().unwrap_or("a harness");
            format!("{harness} {}", facts.version.as_deref().unwrap_or("of some version"))
        };
        head.push(format!("{} against {}", name(facts[0]), name(facts[1])));
    }
    if let (Some(golden), Some(candidate)) = (&facts[0].scenario, &facts[1].scenario)
        && golden != candidate
    {
        head.push(format!("two scenarios: {golden} against {candidate}"));
    }
    let mut surfaces = Vec::new();
    for surface in Surface::ALL.into_iter().filter(|surface| differs(*surface)) {
        let told = match surface {
            Surface::Prompt => prompt(changes),
            Surface::Tools => tools(changes),
            Surface::Settings => settings(changes),
            Surface::Calls => calls(changes),
            Surface::Results => results(changes),
            Surface::Jobs => jobs(changes),
            Surface::Routing => routing(changes),
        };
        let own: Vec<String> = changes.told(surface).map(|(what, count)| times(what, count)).collect();
        // Markers come first: what they cost is seen by nobody else.
        let first = usize::from(surface == Surface::Settings && !changes.markers.is_empty());
        let mut told: Vec<String> = [&told[..first], &own, &told[first..]].concat();
        if told.is_empty() {
            // What has no words of its own speaks by its differences.
            let of =
                verdict.differences.iter().filter(|it| it.surface == surface && it.level < Some(Level::E3));
            told.extend(of.map(|difference| difference.description.clone()));
            told.dedup();
        }
        surfaces.push(wrapped(surface.name(), &told));
    }
    let mut lines = [head.clone(), fitted(surfaces, LINES - head.len())].concat();
    if lines.len() > LINES {
        let more = lines.len() - LINES + 1;
        lines.truncate(LINES - 1);
        lines.push(format!("… and {more} lines more; the differences below have them all"));
    }
    lines
}

fn times(what: &str, count: usize) -> String {
    if count == 1 { what.to_owned() } else { format!("{what} ({count} times)") }
}

/// `head` and what is told behind it, wrapped.
fn wrapped(head: &str, told: &[String]) -> Vec<String> {
    let mut lines = vec![format!("{head}:")];
    for word in told.join("; ").split(' ') {
        let last = lines.last_mut().expect("there is one from the start");
        match last.chars().count() + 1 + word.chars().count() > WIDTH {
            true => lines.push(format!("    {word}")),
            false => {
                last.push(' ');
                last.push_str(word);
            }
        }
    }
    lines
}

/// The lines of all surfaces; where there is no room for all, the longest are cut, but not below [`ROWS`].
fn fitted(mut surfaces: Vec<Vec<String>>, room: usize) -> Vec<String> {
    let mut most = surfaces.iter().map(Vec::len).max().unwrap_or_default();
    let needed = |most: usize| surfaces.iter().map(|lines| lines.len().min(most)).sum::<usize>();
    while most > ROWS && needed(most) > room {
        most -= 1;
    }
    for lines in surfaces.iter_mut().filter(|lines| lines.len() > most) {
        lines.truncate(most);
        lines[most - 1].push_str(" …");
    }
    surfaces.concat()
}

/// `WORD a, b and 3 more`.
fn listed(word: &str, names: &[(&str, usize)]) -> Option<String> {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(|(name, _)| *name).collect();
    match names.len() {
        0 => None,
        n if n > SHOWN => Some(format!("{word} {} and {} more", shown.join(", "), n - SHOWN)),
        _ => Some(format!("{word} {}", shown.join(", "))),
    }
}

fn counted(count: usize, one: &str, more: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {more}")),
    }
}

fn prompt(changes: &Changes) -> Vec<String> {
    let differ = [How::Differs, How::Reworded];
    let both = |kind: Kind| differ.iter().map(|how| changes.count(Surface::Prompt, kind, *how)).sum();
    let told = [
        counted(both(Kind::System), "block of instructions reworded", "blocks of instructions reworded"),
        counted(changes.count(Surface::Prompt, Kind::System, How::New), "such block new", "such blocks new"),
        counted(
            changes.count(Surface::Prompt, Kind::System, How::Gone),
            "such block gone",
            "such blocks gone",
        ),
        counted(both(Kind::Said), "text reworded", "texts reworded"),
        counted(changes.count(Surface::Prompt, Kind::Said, How::New), "text new", "texts new"),
        counted(changes.count(Surface::Prompt, Kind::Said, How::Gone), "text gone", "texts gone"),
        counted(both(Kind::Reply), "reply carried back otherwise", "replies carried back otherwise"),
        counted(
            changes.count(Surface::Prompt, Kind::Reply, How::Gone),
            "reply not carried back",
            "replies not carried back",
        ),
        counted(
            changes.count(Surface::Prompt, Kind::Reply, How::New),
            "text in the model's name new",
            "texts in the model's name new",
        ),
    ];
    told.into_iter().flatten().collect()
}

fn tools(changes: &Changes) -> Vec<String> {
    let renamed = renamed_tools(changes);
    let elsewhere = |name: &str| changes.schemas.iter().all(|schemas| schemas.contains_key(name));
    let is_renamed = |name: &str| renamed.iter().any(|(from, to)| from == name || to == name);
    let plain = |how: How| -> Vec<(&str, usize)> {
        changes
            .of(Surface::Tools, Kind::Tool, how)
            .into_iter()
            .filter(|(name, _)| !is_renamed(name) && !elsewhere(name))
            .collect()
    };
    let differs: Vec<_> = changes.of(Surface::Tools, Kind::Tool, How::Differs);
    let reworded: Vec<_> = changes
        .of(Surface::Tools, Kind::Tool, How::Reworded)
        .into_iter()
        .filter(|(name, _)| !differs.iter().any(|(other, _)| other == name))
        .collect();
    let mut told: Vec<String> = renamed.iter().map(|(from, to)| format!("{from} is now {to}")).collect();
    for (how, word) in [(How::Gone, "gone"), (How::New, "new")] {
        // What both have in some lanes is not gone, but from others.
        let (partly, wholly): (Vec<_>, Vec<_>) =
            plain(how).into_iter().partition(|(name, _)| changes.met.contains(*name));
        told.extend(listed(&format!("{word}:"), &wholly));
        let mut by_agents: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
        for (name, count) in partly {
            let agents: Vec<&str> =
                changes.whose.get(&(how, name.to_owned())).into_iter().flatten().copied().collect();
            by_agents.entry(agents.join(", ")).or_default().push((name, count));
        }
        told.extend(by_agents.iter().filter_map(|(who, names)| listed(&format!("{word} in {who}:"), names)));
    }
    told.extend(listed("other schemas:", &differs));
    told.extend(listed("reworded:", &reworded));
    told
}

/// Tools that are gone and take most of what a new one takes.
fn renamed_tools(changes: &Changes) -> Vec<(String, String)> {
    let [gone, new] = &changes.schemas;
    let mut renamed: Vec<(String, String)> = Vec::new();
    for (from, mine) in gone.iter().filter(|(name, _)| !new.contains_key(*name)) {
        let alike = |theirs: &BTreeSet<String>| {
            let shared = mine.intersection(theirs).count();
            let all = mine.union(theirs).count();
            (shared >= 2 && shared * 2 >= all).then_some(shared)
        };
        let free = new
            .iter()
            .filter(|(to, _)| !gone.contains_key(*to) && !renamed.iter().any(|(_, taken)| taken == *to));
        // The same word in another case is surely the same tool.
        let is_same = |to: &str| to.eq_ignore_ascii_case(from);
        let same = new.keys().find(|to| is_same(to) && !gone.contains_key(*to)).map(|to| (usize::MAX, to));
        let free =
            free.filter(|(to, _)| !gone.keys().any(|other| other != from && other.eq_ignore_ascii_case(to)));
        let best = same.or_else(|| free.filter_map(|(to, theirs)| Some((alike(theirs)?, to))).max());
        renamed.extend(best.map(|(_, to)| (from.clone(), to.clone())));
    }
    renamed
}

fn settings(changes: &Changes) -> Vec<String> {
    let mut told = Vec::new();
    let markers = |how: How| changes.markers.get(&how).copied().unwrap_or_default();
    told.extend(match (markers(How::Gone), markers(How::New)) {
        (0, 0) => counted(markers(How::Differs), "cache marker differs", "cache markers differ"),
        (gone, 0) => counted(gone, "cache marker gone", "cache markers gone"),
        (0, new) => counted(new, "cache marker new", "cache markers new"),
        (gone, new) => Some(format!("cache markers moved ({gone} gone, {new} new)")),
    });
    told.extend(listed("members gone:", &changes.of(Surface::Settings, Kind::Setting, How::Gone)));
    told.extend(listed("new:", &changes.of(Surface::Settings, Kind::Setting, How::New)));
    told.extend(listed("other values:", &changes.of(Surface::Settings, Kind::Setting, How::Differs)));
    told.extend(listed("headers gone:", &changes.of(Surface::Settings, Kind::Header, How::Gone)));
    told.extend(listed("headers new:", &changes.of(Surface::Settings, Kind::Header, How::New)));
    told.extend(listed("headers differ:", &changes.of(Surface::Settings, Kind::Header, How::Differs)));
    told
}

fn calls(changes: &Changes) -> Vec<String> {
    let mut told: Vec<String> =
        changes.renamed.iter().map(|(from, to)| format!("{from} is called as {to}")).collect();
    told.extend(listed("no longer called:", &changes.of(Surface::Calls, Kind::Call, How::Gone)));
    told.extend(listed("now called:", &changes.of(Surface::Calls, Kind::Call, How::New)));
    told.extend(listed("other arguments:", &changes.of(Surface::Calls, Kind::Call, How::Differs)));
    told
}

fn results(changes: &Changes) -> Vec<String> {
    let mut told = Vec::new();
    told.extend(counted(
        changes.count(Surface::Results, Kind::Result, How::Gone),
        "result gone",
        "results gone",
    ));
    told.extend(counted(
        changes.count(Surface::Results, Kind::Result, How::New),
        "result new",
        "results new",
    ));
    told.extend(counted(
        changes.count(Surface::Results, Kind::Result, How::Differs),
        "of another kind",
        "of another kind",
    ));
    told.extend(counted(
        changes.count(Surface::Results, Kind::Result, How::Reworded),
        "says something else",
        "say something else",
    ));
    told
}

fn jobs(changes: &Changes) -> Vec<String> {
    let mut told = Vec::new();
    for (golden, candidate) in &changes.stories {
        let kinds = |story: &str| story.split(", ").map(str::to_owned).collect::<BTreeSet<String>>();
        let (mine, theirs) = (kinds(golden), kinds(candidate));
        let words = |kinds: Vec<&String>, what: &str| {
            let kinds: Vec<&str> =
                kinds.into_iter().map(String::as_str).filter(|kind| !kind.is_empty()).collect();
            (!kinds.is_empty()).then(|| format!("{} {what}", kinds.join(", ")))
        };
        let of = [
            words(mine.difference(&theirs).collect(), "gone"),
            words(theirs.difference(&mine).collect(), "new"),
        ];
        let of: Vec<String> = of.into_iter().flatten().collect();
        let line = if of.is_empty() { "in another order".to_owned() } else { of.join(", ") };
        if !told.contains(&line) {
            told.push(line);
        }
    }
    let jobs = |kind: Kind, how: How| changes.count(Surface::Jobs, kind, how);
    told.extend(counted(jobs(Kind::Said, How::New), "announcement new", "announcements new"));
    told.extend(counted(jobs(Kind::Said, How::Gone), "announcement gone", "announcements gone"));
    told.extend(counted(jobs(Kind::Said, How::Reworded), "announcement reworded", "announcements reworded"));
    told.extend(counted(jobs(Kind::Result, How::Reworded), "answer reworded", "answers reworded"));
    told
}

fn routing(changes: &Changes) -> Vec<String> {
    let mut told = Vec::new();
    told.extend(listed("ids gone:", &changes.of(Surface::Routing, Kind::Identity, How::Gone)));
    told.extend(listed("ids new:", &changes.of(Surface::Routing, Kind::Identity, How::New)));
    told.extend(listed("ids differ:", &changes.of(Surface::Routing, Kind::Identity, How::Differs)));
    told.extend(listed("another", &changes.of(Surface::Routing, Kind::Line, How::Differs)));
    told
}
