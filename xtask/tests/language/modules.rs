//! Rule for imports: sibling modules form no cycle, at any depth of a crate.
//!
//! A path is followed to the module that defines its item, through re-exports. An edge goes from the sibling that contains
//! the path to the sibling that contains the item. Imports between a module and its parent are no edge.

use std::collections::{BTreeMap, BTreeSet};

use crate::SourceFile;

/// Path of a module from the root of its crate.
type ModulePath = Vec<String>;
/// Imports between siblings.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Names each group of sibling modules that import each other.
pub(crate) fn cycles(files: &[SourceFile]) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeMap<ModulePath, String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        let parts = file.path.strip_prefix("crates/").unwrap_or(&file.path).split_once("/src/");
        let Some((name, path)) = parts else { continue };
        let code = without_comments_and_tests(&file.text);
        crates.entry(name).or_default().entry(module_path(path)).or_default().push_str(&code);
    }
    crates.into_iter().flat_map(|(name, modules)| crate_cycles(name, modules)).collect()
}

/// Returns the module of a file: `a/mod.rs` and `a.rs` are `a`, and the root has an empty path.
fn module_path(file: &str) -> ModulePath {
    let mut path: ModulePath = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        path.pop();
    }
    path
}

fn crate_cycles(name: &str, code: BTreeMap<ModulePath, String>) -> Vec<String> {
    let modules = Modules::new(code);
    let siblings = modules.imports_between_siblings();
    let in_parent = |(parent, imports): (ModulePath, Imports)| {
        let place = [&[format!("crate `{name}`")], parent.as_slice()].concat().join("::");
        groups(&imports).into_iter().map(move |group| format!("{place}: {group} import each other"))
    };
    siblings.into_iter().flat_map(in_parent).collect()
}

/// The modules of a crate.
struct Modules {
    /// The paths that each module names, from the root of the crate.
    paths: BTreeMap<ModulePath, Vec<ModulePath>>,
    /// The items that a module re-exports: module and name, with the path that they come from.
    exports: BTreeMap<(ModulePath, String), ModulePath>,
}

impl Modules {
    fn new(code: BTreeMap<ModulePath, String>) -> Self {
        let known: BTreeSet<ModulePath> = code.keys().cloned().collect();
        let (mut paths, mut exports) = (BTreeMap::new(), BTreeMap::new());
        for (module, text) in code {
            let imported: Vec<ModulePath> = use_statements(&text)
                .flat_map(expanded)
                .filter_map(|path| from_root(&module, &path, &known))
                .collect();
            for path in imported.iter().filter(|path| path.len() > module.len() && path.starts_with(&module))
            {
                let name = path.last().expect("a path has segments").clone();
                exports.insert((module.clone(), name), path.clone());
            }
            let named =
                qualified_paths(&text).into_iter().filter_map(|path| from_root(&module, &path, &known));
            let all = named.chain(imported).collect();
            paths.insert(module, all);
        }
        Self { paths, exports }
    }

    /// Returns the imports between the children of each module.
    fn imports_between_siblings(&self) -> BTreeMap<ModulePath, Imports> {
        let mut siblings: BTreeMap<ModulePath, Imports> = BTreeMap::new();
        for (module, paths) in &self.paths {
            for target in paths.iter().map(|path| self.owner(path.clone())) {
                let shared = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                    let imports = siblings.entry(module[..shared].to_vec()).or_default();
                    imports.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        siblings
    }

    /// Returns the module that defines the item at a path.
    fn owner(&self, mut path: ModulePath) -> ModulePath {
        // Bounded, because a re-export may lead to itself.
        for _ in 0..8 {
            let depth =
                (0..=path.len()).rev().find(|depth| self.paths.contains_key(&path[..*depth])).unwrap_or(0);
            let Some(name) = path.get(depth) else { return path };
            match self.exports.get(&(path[..depth].to_vec(), name.clone())) {
                Some(source) if source[..] != path[..=depth] => path = [source, &path[depth + 1..]].concat(),
                _ => return path[..depth].to_vec(),
            }
        }
        path
    }
}

/// Returns the code without its comments and without its test module at the end.
fn without_comments_and_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Returns the paths of all `use` statements, with their groups.
fn use_statements(code: &str) -> impl Iterator<Item = &str> {
    code.split("use ").skip(1).filter_map(|rest| rest.split(';').next())
}

/// Returns the paths outside of imports that begin with `crate`, `super` or `self`.
fn qualified_paths(code: &str) -> Vec<ModulePath> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    code.split(|c| !is_part(c))
        .map(segments)
        .filter(|path| path.len() > 1 && ["crate", "super", "self"].contains(&path[0].as_str()))
        .collect()
}

/// Returns the paths of an import, one for each name in its groups.
fn expanded(import: &str) -> Vec<ModulePath> {
    let import = import.trim();
    let Some((prefix, group)) = import.split_once('{') else {
        return vec![segments(import.split(" as ").next().unwrap_or_default())];
    };
    let group = group.rsplit_once('}').map_or(group, |(inside, _)| inside);
    let names = split_group(group).into_iter().flat_map(expanded);
    names.map(|path| [segments(prefix), path].concat()).collect()
}

/// Splits a group at its outer commas.
fn split_group(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[start..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

fn segments(path: &str) -> ModulePath {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Returns a path from the root of the crate; `None` for paths of other crates.
fn from_root(module: &ModulePath, path: &ModulePath, known: &BTreeSet<ModulePath>) -> Option<ModulePath> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let base = &module[..module.len().saturating_sub(ups)];
            Some([base, &path[ups..]].concat())
        }
        _ => {
            let inside = [module.as_slice(), std::slice::from_ref(first)].concat();
            known.contains(&inside).then(|| [inside.as_slice(), rest].concat())
        }
    }
}

/// Returns the groups of modules in which each reaches each other.
fn groups(imports: &Imports) -> BTreeSet<String> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reachable(module, imports))).collect();
    let mut groups = BTreeSet::new();
    for (module, reached) in &reach {
        let is_back = |other: &&str| reach.get(other).is_some_and(|back| back.contains(module));
        let group: Vec<&str> = reached.iter().copied().filter(is_back).collect();
        if group.len() > 1 {
            groups.insert(group.join(", "));
        }
    }
    groups
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
