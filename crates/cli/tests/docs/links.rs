//! Every link from one of our documents to another leads somewhere.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::{ALL, project};

/// Documents with links whose blocks are not run.
const OTHERS: &[&str] = &["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "GLOSSARY.md"];

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    let records = fs::read_dir(project().join("docs/design")).unwrap();
    let records = records.map(|record| format!("docs/design/{}", record.unwrap().file_name().display()));
    for path in ALL.iter().chain(OTHERS).map(|path| (*path).to_owned()).chain(records) {
        let path = path.as_str();
        let text = fs::read_to_string(project().join(path)).unwrap();
        for link in links(&text) {
            if let Some(why) = is_broken(Path::new(path), &link) {
                broken.push(format!("{path}: `{link}` {why}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_index_leads_to_every_document() {
    let listed = links(&fs::read_to_string(project().join("docs/README.md")).unwrap());
    for name in ALL.iter().filter_map(|path| path.strip_prefix("docs/")).filter(|name| *name != "README.md") {
        assert!(listed.iter().any(|link| link == name), "docs/README.md does not list {name}");
    }
}

#[test]
fn the_index_of_design_records_is_complete() {
    let listed = links(&fs::read_to_string(project().join("docs/design/README.md")).unwrap());
    for record in fs::read_dir(project().join("docs/design")).unwrap() {
        let name = record.unwrap().file_name().display().to_string();
        assert!(name == "README.md" || listed.contains(&name), "docs/design/README.md does not list {name}");
    }
}

#[test]
fn links_and_headings_are_found_as_readers_see_them() {
    let text = "# What `run` says\n[a](b.md#c) ![d](e.png)\n```text\n# no\n[f](g.md)\n```\n## Twice\n## Twice\n`[h](i)`\n";
    assert_eq!(links(text), ["b.md#c", "e.png"]);
    let wanted = ["what-run-says", "twice", "twice-1"].map(str::to_owned);
    assert_eq!(anchors(text), HashSet::from(wanted));
}

fn is_broken(from: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = match file {
        "" => project().join(from),
        file => project().join(from).parent().expect("a document is in a folder").join(file),
    };
    if !target.exists() {
        return Some("leads to no file".to_owned());
    }
    let anchor = anchor?;
    let there = anchors(&fs::read_to_string(target).unwrap());
    (!there.contains(anchor)).then(|| "leads to no heading".to_owned())
}

/// The lines that are neither in a block nor the fence of one.
fn prose(text: &str) -> Vec<&str> {
    let mut in_block = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.trim_start().starts_with("```") {
            true => in_block = !in_block,
            false if in_block => {}
            false => lines.push(line),
        }
    }
    lines
}

fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(text) {
        // Every second piece between backticks is code.
        let said: String = line.split('`').step_by(2).collect();
        links.extend(
            said.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link.to_owned()),
        );
    }
    links
}

/// Returns the address of a heading: lower case, dashes for spaces, no other marks.
fn anchors(text: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    for heading in prose(text).into_iter().filter(|line| line.starts_with('#')) {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let free = (1..).map(|n| format!("{anchor}-{n}")).find(|name| !anchors.contains(name));
        match anchors.contains(&anchor) {
            true => anchors.extend(free),
            false => drop(anchors.insert(anchor)),
        }
    }
    anchors
}
