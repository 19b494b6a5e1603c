//! Arguments of a server's tool, as rules see them.
//!
//! A server may resolve paths differently: it may remove `..` by text, or understand file URLs. A rule that denies is
//! matched against each of these readings. A rule that allows must match our own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::rule::{Argument, Subject};
use crate::workspace::Workspace;

/// Maximum nesting of arguments that are examined.
const DEEPEST: usize = 16;

/// Returns all arguments by name, including nested ones.
pub(super) fn subject(fields: &Map<String, Value>, workspace: &Workspace) -> Subject {
    let mut found = BTreeMap::new();
    for (name, value) in fields {
        add(&mut found, &mut vec![name], value, workspace);
    }
    Subject::Arguments(found)
}

/// Adds a value under all names above it; of a list, each element.
fn add<'v>(
    found: &mut BTreeMap<String, Vec<Argument>>,
    names: &mut Vec<&'v str>,
    value: &'v Value,
    workspace: &Workspace,
) {
    let is_nested = names.len() > 1;
    let mut put = |given: Argument| {
        for name in names.iter() {
            found.entry((*name).to_owned()).or_default().push(Argument { is_nested, ..given.clone() });
        }
    };
    match value {
        Value::String(text) => put(path(text, workspace)),
        Value::Array(items) => items.iter().for_each(|item| add(found, names, item, workspace)),
        Value::Object(fields) => {
            let is_unknown = names.len() > DEEPEST;
            put(Argument { is_unknown, ..plain(&value.to_string()) });
            for (name, value) in fields.iter().take(if is_unknown { 0 } else { usize::MAX }) {
                names.push(name);
                add(found, names, value, workspace);
                names.pop();
            }
        }
        other => put(plain(&other.to_string())),
    }
}

fn plain(text: &str) -> Argument {
    Argument { text: text.to_owned(), path: None, guesses: Vec::new(), is_unknown: false, is_nested: false }
}

/// Returns a text with the paths that it may mean.
fn path(text: &str, workspace: &Workspace) -> Argument {
    let resolved = workspace.resolve(Path::new(text)).ok().filter(|_| !text.contains("://"));
    let trimmed = text.trim();
    let address = url::Url::parse(trimmed).ok().filter(|url| url.scheme() == "file");
    let mut paths: Vec<PathBuf> = vec![trimmed.into()];
    if let Some(below) = trimmed.strip_prefix("~/") {
        paths.extend(std::env::var_os("HOME").map(|home| Path::new(&home).join(below)));
    }
    let mut is_unknown = false;
    if let Some(url) = &address {
        match url.to_file_path() {
            // `file:docs/a` is relative, although a URL makes it absolute.
            Ok(path) => paths.extend([path.strip_prefix("/").unwrap_or(&path).to_owned(), path.clone()]),
            Err(()) => is_unknown = true,
        }
    }
    let goes_up = trimmed.split(['/', '\\']).any(|part| part == "..");
    // The target of these depends on the process that opens them.
    let is_magic = paths.iter().any(|path| path.starts_with("/proc") || path.starts_with("/dev/fd"));
    is_unknown |= is_magic || (goes_up && resolved.is_none());
    let guesses = paths.iter().flat_map(|path| workspace.possible_targets(path)).collect();
    Argument { path: resolved, guesses, is_unknown, ..plain(text) }
}
