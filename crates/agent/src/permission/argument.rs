//! What a server's tool is given, as rules see it.
//!
//! A server reads paths in its own way: it may take `..` away before it looks, and know addresses of files. A rule that
//! forbids has to fit in each of these ways, a rule that allows in ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::rule::{Given, Subject};
use crate::workspace::Workspace;

/// How deep arguments are looked into.
const DEEPEST: usize = 16;

/// All arguments, by name; those in others as well.
pub(super) fn all(fields: &Map<String, Value>, workspace: &Workspace) -> Subject {
    let mut found = BTreeMap::new();
    for (name, value) in fields {
        add(&mut found, &mut vec![name], value, workspace);
    }
    Subject::Arguments(found)
}

/// Adds a value under all names that it stands below; of a list each.
fn add<'v>(
    found: &mut BTreeMap<String, Vec<Given>>,
    names: &mut Vec<&'v str>,
    value: &'v Value,
    workspace: &Workspace,
) {
    let is_deep = names.len() > 1;
    let mut put = |given: Given| {
        for name in names.iter() {
            found.entry((*name).to_owned()).or_default().push(Given { is_deep, ..given.clone() });
        }
    };
    match value {
        Value::String(text) => put(path(text, workspace)),
        Value::Array(items) => items.iter().for_each(|item| add(found, names, item, workspace)),
        Value::Object(fields) => {
            let is_unsure = names.len() > DEEPEST;
            put(Given { is_unsure, ..plain(&value.to_string()) });
            for (name, value) in fields.iter().take(if is_unsure { 0 } else { usize::MAX }) {
                names.push(name);
                add(found, names, value, workspace);
                names.pop();
            }
        }
        other => put(plain(&other.to_string())),
    }
}

fn plain(text: &str) -> Given {
    Given { text: text.to_owned(), path: None, guesses: Vec::new(), is_unsure: false, is_deep: false }
}

/// A text that may be a path.
fn path(text: &str, workspace: &Workspace) -> Given {
    let resolved = workspace.resolve(Path::new(text)).ok().filter(|_| !text.contains("://"));
    let trimmed = text.trim();
    let address = url::Url::parse(trimmed).ok().filter(|url| url.scheme() == "file");
    let mut paths: Vec<PathBuf> = vec![trimmed.into()];
    if let Some(below) = trimmed.strip_prefix("~/") {
        paths.extend(std::env::var_os("HOME").map(|home| Path::new(&home).join(below)));
    }
    let mut is_unsure = false;
    if let Some(url) = &address {
        match url.to_file_path() {
            // `file:docs/a` has no root, whatever an address makes of it.
            Ok(path) => paths.extend([path.strip_prefix("/").unwrap_or(&path).to_owned(), path.clone()]),
            Err(()) => is_unsure = true,
        }
    }
    let goes_up = trimmed.split(['/', '\\']).any(|part| part == "..");
    // What these lead to depends on who looks.
    let is_magic = paths.iter().any(|path| path.starts_with("/proc") || path.starts_with("/dev/fd"));
    is_unsure |= is_magic || (goes_up && resolved.is_none());
    let guesses = paths.iter().flat_map(|path| workspace.possible_targets(path)).collect();
    Given { path: resolved, guesses, is_unsure, ..plain(text) }
}
