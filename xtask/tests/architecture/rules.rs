//! The rules, one function each: from the map and the workspace to a list of problems.

use std::collections::BTreeMap;

use crate::map::{Map, Names};
use crate::workspace::{Source, Workspace};

/// Dependencies that a pure crate must not have.
const IMPURE_DEPENDENCIES: [&str; 10] = [
    "hyper",
    "hyper-util",
    "libc",
    "reqwest",
    "rusqlite",
    "rustls",
    "tempfile",
    "tokio",
    "tokio-rustls",
    "tracing-subscriber",
];

/// Items that a pure crate must not use: modules of `std`, and types under any path.
const IMPURE_MODULES: [&str; 5] = ["env", "fs", "net", "process", "thread"];
const IMPURE_TYPES: [&str; 2] = ["Instant", "SystemTime"];

pub(crate) fn crates_are_on_the_map(map: &Map, workspace: &Workspace) -> Vec<String> {
    let is_crate = |name: &&String| workspace.crates.contains_key(*name);
    let missing = workspace.crates.keys().filter(|name| !map.crates.contains_key(*name));
    let missing = missing.map(|name| format!("crate `{name}` has no row in the table of crates"));
    let unknown_rows = map.crates.keys().filter(|name| !is_crate(name));
    let unknown_rows =
        unknown_rows.map(|name| format!("the table of crates has `{name}`, which is not a crate"));
    let dangling = map.crates.iter().flat_map(|(name, allowed)| {
        let unknown = allowed.iter().filter(|other| !is_crate(other));
        unknown.map(move |other| format!("the row of `{name}` allows `{other}`, which is not a crate"))
    });
    missing.chain(unknown_rows).chain(dangling).collect()
}

/// Checks the dependencies between crates, also those for tests: a test that needs another dependency belongs to another crate.
pub(crate) fn arrows_are_allowed(map: &Map, workspace: &Workspace) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, krate) in &workspace.crates {
        let arrows = krate.dependencies.iter().filter(|other| workspace.crates.contains_key(*other));
        for other in arrows {
            if !map.crates.get(name).is_some_and(|allowed| allowed.contains(other)) {
                problems.push(format!("`{name}` depends on `{other}`, which its row does not allow"));
            }
        }
    }
    problems
}

pub(crate) fn pure_crates_are_pure(map: &Map, workspace: &Workspace) -> Vec<String> {
    if map.pure.is_empty() {
        return vec!["the map lists no pure crate".to_owned()];
    }
    let mut problems = Vec::new();
    for name in &map.pure {
        let Some(krate) = workspace.crates.get(name) else {
            problems.push(format!("the map lists the pure crate `{name}`, which is not a crate"));
            continue;
        };
        let impure = krate.dependencies.iter().filter(|name| IMPURE_DEPENDENCIES.contains(&name.as_str()));
        problems.extend(impure.map(|dependency| format!("pure `{name}` depends on `{dependency}`")));
        for source in krate.sources.iter().filter(|source| !is_for_tests(source)) {
            let used = impure_uses(&source.text).into_iter();
            problems.extend(
                used.map(|what| format!("pure `{name}` uses `{what}` in `{}`", source.path.display())),
            );
        }
    }
    problems
}

pub(crate) fn dependencies_have_reasons(map: &Map, workspace: &Workspace) -> Vec<String> {
    let mut users: BTreeMap<&String, Names> = BTreeMap::new();
    for (name, krate) in &workspace.crates {
        for dependency in krate.dependencies.iter().filter(|other| !workspace.crates.contains_key(*other)) {
            users.entry(dependency).or_default().insert(name.clone());
        }
    }
    let none = Names::new();
    let all: Names = users.keys().copied().chain(map.dependencies.keys()).cloned().collect();
    all.iter()
        .filter_map(|dependency| {
            let used = users.get(dependency).unwrap_or(&none);
            let listed = map.dependencies.get(dependency).unwrap_or(&none);
            (used != listed).then(|| {
                let used = format_names(used);
                let listed = format_names(listed);
                format!("`{dependency}` is used by {used}, but the table of dependencies lists {listed}")
            })
        })
        .collect()
}

pub(crate) fn dependencies_are_used(_: &Map, workspace: &Workspace) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, krate) in &workspace.crates {
        for dependency in &krate.dependencies {
            let identifier = dependency.replace('-', "_");
            if !krate.sources.iter().any(|source| words(&code(&source.text)).any(|word| word == identifier)) {
                problems.push(format!("`{name}` declares `{dependency}`, but no source uses it"));
            }
        }
    }
    problems
}

fn format_names(names: &Names) -> String {
    if names.is_empty() {
        return "no crate".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns whether a file has only tests, by its path.
fn is_for_tests(source: &Source) -> bool {
    source.path.iter().any(|part| part == "tests" || part == "tests.rs" || part == "benches")
}

/// Returns the impure items that a source uses outside its test modules.
fn impure_uses(text: &str) -> Vec<&'static str> {
    let code = code(&without_tests(text));
    // `use std::{io, fs::File};` names modules without their path, so such lists are searched, too.
    let lists = code.split("use std::{").skip(1).map(|rest| rest.split(';').next().unwrap_or_default());
    let listed: Vec<&str> = lists.flat_map(words).collect();
    let module = |name: &&str| listed.contains(name) || code.contains(&format!("std::{name}"));
    let mentioned = |name: &&str| words(&code).any(|word| word == *name);
    IMPURE_MODULES.into_iter().filter(module).chain(IMPURE_TYPES.into_iter().filter(mentioned)).collect()
}

/// Removes the items under `#[cfg(test)]`. rustfmt indents the end of an item like its first line.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let ends = |line: &&str| {
            let rest = line.strip_prefix(indent).filter(|rest| !rest.starts_with(' '));
            rest.is_some_and(|rest| rest.ends_with([';', '}']))
        };
        lines.find(ends);
    }
    kept
}

/// Removes comments.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
}
