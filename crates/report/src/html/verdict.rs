//! A verdict as a page.

use std::fmt::Write as _;

use parity::{Difference, LaneVerdict, Level, Outcome, Surface, SurfaceVerdict, Verdict};

use super::{foot, grouped, head, line, text, value};

/// More differences than these are counted and not shown.
const MOST: usize = 1_000;
const LEVELS: [Level; 4] = [Level::E1, Level::E2, Level::E3, Level::E4];

/// One page with everything a verdict says; it needs nothing else and runs nothing.
pub fn verdict_page(verdict: &Verdict) -> String {
    let mut page = head("offshoot verify", false);
    page += &outcome(verdict);
    page += &list("What changed", &verdict.summary);
    page += &surfaces(verdict);
    page += &lanes(verdict);
    page += &differences(verdict);
    page += &masks(verdict);
    page += &rules(verdict);
    page += &ids(verdict);
    page += &list("Notes", &verdict.notes);
    page + &foot(false)
}

fn outcome(verdict: &Verdict) -> String {
    let level = verdict.level.map_or("not even E0".to_owned(), |level| level.to_string());
    let (class, word) = match &verdict.outcome {
        Outcome::Match => ("good", "match"),
        Outcome::Differs => ("bad", "differs"),
        Outcome::Inconclusive(_) => ("warn", "inconclusive"),
    };
    let because = match &verdict.outcome {
        Outcome::Inconclusive(reason) => format!("<p>{}</p>", line(reason)),
        Outcome::Match | Outcome::Differs => String::new(),
    };
    let side = |name: &str, path: &str, about: &str| {
        format!(
            "<dt>{name}</dt><dd><code>{}</code><br><span class=\"faint\">{}</span></dd>",
            line(path),
            line(about)
        )
    };
    format!(
        "<h1><span class=\"badge {class}\">{word}</span>{level} holds, {} was asked for</h1>{because}<dl class=\"two\">{}{}</dl>\n",
        verdict.wanted,
        side("golden", &verdict.golden, &verdict.about[0]),
        side("candidate", &verdict.candidate, &verdict.about[1]),
    )
}

fn list(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines.iter().map(|it| format!("<li>{}</li>", line(it))).collect();
    format!("<h2>{title}</h2><ul>{items}</ul>\n")
}

fn table(head: &[(&str, bool)], rows: &str) -> String {
    let cell = |(name, is_number): &(&str, bool)| match is_number {
        true => format!("<th class=\"n\">{name}</th>"),
        false => format!("<th>{name}</th>"),
    };
    let head: String = head.iter().map(cell).collect();
    format!("<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n")
}

fn surfaces(verdict: &Verdict) -> String {
    let row = |it: &SurfaceVerdict| {
        let c = it.counts;
        let levels: String = LEVELS.iter().map(|level| tick(it, *level, verdict.wanted)).collect();
        let counts = [c.compared, c.equal, c.masked, c.excluded, c.echoed, c.absent];
        let counts: String = counts.iter().map(|n| format!("<td class=\"n\">{n}</td>")).collect();
        format!("<tr><td>{}</td>{levels}{counts}</tr>", it.surface.name())
    };
    let rows: String = verdict.surfaces.iter().map(row).collect();
    let head = [
        ("surface", false),
        ("E1", false),
        ("E2", false),
        ("E3", false),
        ("E4", false),
        ("compared", true),
        ("equal", true),
        ("masked", true),
        ("excluded", true),
        ("echoed", true),
        ("absent", true),
    ];
    format!("<h2>Surfaces</h2>{}", table(&head, &rows))
}

/// Whether a level holds; one above the wanted one is nobody's fault.
fn tick(it: &SurfaceVerdict, level: Level, wanted: Level) -> String {
    let (class, sign) = match it.level {
        _ if it.counts.compared == 0 => ("is-none", "–"),
        Some(held) if held >= level => ("is-good", "✓"),
        _ if level > wanted => ("is-none", "✗"),
        _ => ("is-bad", "✗"),
    };
    format!("<td class=\"{class}\">{sign}</td>")
}

fn lanes(verdict: &Verdict) -> String {
    if verdict.lanes.is_empty() {
        return String::new();
    }
    let row = |lane: &LaneVerdict| {
        let name = |name: &Option<String>| name.as_deref().map_or("<i>nothing</i>".to_owned(), line);
        let cells: String = Surface::ALL
            .iter()
            .map(|surface| match lane.surfaces.iter().find(|it| it.surface == *surface) {
                Some(it) => level_cell(it, verdict.wanted),
                None => "<td class=\"is-none\">–</td>".to_owned(),
            })
            .collect();
        let names = match lane.golden == lane.candidate {
            true => name(&lane.golden),
            false => format!("{} ↔ {}", name(&lane.golden), name(&lane.candidate)),
        };
        format!("<tr><td>{names}</td>{cells}</tr>")
    };
    let rows: String = verdict.lanes.iter().map(row).collect();
    let head: Vec<(&str, bool)> = std::iter::once("lane")
        .chain(Surface::ALL.iter().map(|it| it.name()))
        .map(|it| (it, false))
        .collect();
    format!("<h2>Lanes</h2>{}", table(&head, &rows))
}

fn level_cell(it: &SurfaceVerdict, wanted: Level) -> String {
    match it.level {
        _ if it.counts.compared == 0 => "<td class=\"is-none\">–</td>".to_owned(),
        Some(level) if level >= wanted => format!("<td class=\"is-good\">{level}</td>"),
        Some(level) => format!("<td class=\"is-bad\">{level}</td>"),
        None => "<td class=\"is-bad\">✗</td>".to_owned(),
    }
}

fn differences(verdict: &Verdict) -> String {
    let all = &verdict.differences;
    if all.is_empty() {
        return String::new();
    }
    let mut out = format!("<h2>Differences <span class=\"faint\">{}</span></h2>\n", grouped(all.len()));
    let shown = &all[..all.len().min(MOST)];
    for group in shown.chunk_by(|one, next| (&one.lane, one.turn) == (&next.lane, next.turn)) {
        write!(out, "<section><h3>{}, turn {}</h3>", line(&group[0].lane), group[0].turn)
            .expect("a string takes everything");
        group.iter().for_each(|it| out += &difference(it, verdict.wanted));
        out += "</section>\n";
    }
    if all.len() > MOST {
        write!(
            out,
            "<p class=\"more\">{} more: <code>--format json</code> has them all.</p>",
            grouped(all.len() - MOST)
        )
        .expect("a string takes everything");
    }
    out
}

fn difference(it: &Difference, wanted: Level) -> String {
    let counts = it.holds.is_none_or(|holds| holds < wanted);
    let holds = it.holds.map_or("nothing holds".to_owned(), |level| format!("{level} holds"));
    let racy = it.racy.map_or(String::new(), |race| format!(", racy: {}", race.name()));
    let mask = it.mask.as_deref().map_or_else(String::new, |mask| {
        format!(
            "<details><summary class=\"faint\">the rule that would cover it</summary><pre>{}</pre></details>",
            text(mask)
        )
    });
    format!(
        "<details{}><summary><span class=\"chip\">{}</span> {} <code>{}</code> <span class=\"faint\">{holds}{racy}</span></summary>{}{mask}</details>\n",
        if counts { " open" } else { "" },
        it.surface.name(),
        line(&it.what),
        line(&it.pointer),
        value::both(it.golden.as_deref(), it.candidate.as_deref()),
    )
}

fn masks(verdict: &Verdict) -> String {
    if verdict.masks.is_empty() {
        return String::new();
    }
    let row = |mask: &parity::MaskUse| {
        format!(
            "<tr><td>{}</td><td class=\"long\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            line(&mask.name),
            line(&mask.covers),
            mask.hits,
            mask.differed
        )
    };
    let rows: String = verdict.masks.iter().map(row).collect();
    format!(
        "<h2>Masks</h2>{}",
        table(&[("mask", false), ("covers", false), ("hits", true), ("differed", true)], &rows)
    )
}

fn rules(verdict: &Verdict) -> String {
    if verdict.rules.is_empty() {
        return String::new();
    }
    let row = |rule: &parity::RuleUse| {
        let stale = if rule.stale { " <span class=\"badge bad\">stale</span>" } else { "" };
        format!(
            "<tr><td>{}{stale}</td><td><code>{}</code></td><td class=\"long\">{}</td><td class=\"n\">{}</td></tr>",
            rule.surface.name(),
            line(&rule.pointer),
            line(&rule.reason),
            rule.hits
        )
    };
    let rows: String = verdict.rules.iter().map(row).collect();
    format!(
        "<h2>Rules of parity.toml</h2>{}",
        table(&[("surface", false), ("pointer", false), ("reason", false), ("hits", true)], &rows)
    )
}

fn ids(verdict: &Verdict) -> String {
    if verdict.ids.is_empty() {
        return String::new();
    }
    let row = |(golden, candidate): &(String, String)| {
        format!("<tr><td><code>{}</code></td><td><code>{}</code></td></tr>", line(golden), line(candidate))
    };
    let rows: String = verdict.ids.iter().take(MOST).map(row).collect();
    format!(
        "<h2>Ids</h2><details><summary>pairs that stand for each other: {}</summary>{}</details>\n",
        grouped(verdict.ids.len()),
        table(&[("golden", false), ("candidate", false)], &rows)
    )
}
