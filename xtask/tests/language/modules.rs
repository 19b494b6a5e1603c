//! Rule for imports: the top-level modules of a crate form no cycle.

use std::collections::{BTreeMap, BTreeSet};

use crate::SourceFile;

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Names each group of top-level modules that import each other.
pub(crate) fn cycles(files: &[SourceFile]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<(&str, &SourceFile)>> = BTreeMap::new();
    for file in files {
        let parts = file.path.strip_prefix("crates/").unwrap_or(&file.path).split_once("/src/");
        if let Some((name, path)) = parts {
            crates.entry(name).or_default().push((path, file));
        }
    }
    crates.into_iter().flat_map(|(name, files)| groups(name, &imports(&files))).collect()
}

/// Reads which top-level module imports which.
fn imports(files: &[(&str, &SourceFile)]) -> Imports {
    let code: Vec<(&str, String)> = files
        .iter()
        .filter(|(_, file)| !file.is_test())
        .map(|(path, file)| {
            (path.split(['/', '.']).next().unwrap_or_default(), without_comments_and_tests(&file.text))
        })
        .collect();
    let is_root = |module: &str| ["lib", "main"].contains(&module);
    let modules: BTreeSet<&str> =
        code.iter().map(|(module, _)| *module).filter(|module| !is_root(module)).collect();
    // A name that the root re-exports belongs to the module that it comes from.
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (_, text) in code.iter().filter(|(module, _)| is_root(module)) {
        for statement in text.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
            let mut names = words(statement);
            if let Some(module) = names.next().and_then(|name| modules.get(name)) {
                owners.extend(names.map(|name| (name, *module)));
            }
        }
    }
    let mut imports = Imports::new();
    for (module, text) in code.iter().filter(|(module, _)| !is_root(module)) {
        let mut named: Vec<&str> = Vec::new();
        for rest in text.split("crate::").skip(1) {
            match rest.strip_prefix('{') {
                Some(group) => named.extend(words(group.split(';').next().unwrap_or_default())),
                None => named.extend(words(rest).next()),
            }
        }
        let targets =
            named.into_iter().filter_map(|name| modules.get(name).or_else(|| owners.get(name)).copied());
        let targets = targets.filter(|target| target != module).map(str::to_owned);
        imports.entry((*module).to_owned()).or_default().extend(targets);
    }
    imports
}

/// Returns the code without its comments and without its test module at the end.
fn without_comments_and_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the groups of modules in which each reaches each other.
fn groups(name: &str, imports: &Imports) -> Vec<String> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reachable(module, imports))).collect();
    let mut groups = BTreeSet::new();
    for (module, reached) in &reach {
        let group: Vec<&str> = reached
            .iter()
            .copied()
            .filter(|other| reach.get(other).is_some_and(|back| back.contains(module)))
            .collect();
        if group.len() > 1 {
            groups.insert(format!("crate `{name}`: {} import each other", group.join(", ")));
        }
    }
    groups.into_iter().collect()
}

fn reachable<'a>(from: &'a str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for target in imports.get(module).into_iter().flatten() {
            if reached.insert(target.as_str()) {
                open.push(target);
            }
        }
    }
    reached
}
