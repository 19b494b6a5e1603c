//! Rules for type names.

use std::collections::BTreeMap;

use crate::SourceFile;

/// Names that may be public in several crates.
const SHARED: [&str; 2] = ["Args", "Error"];

/// Names each type that is public in more than one place.
pub(crate) fn repeated(files: &[SourceFile]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        for name in file.text.lines().filter_map(public_type) {
            places.entry(name).or_default().push(&file.path);
        }
    }
    let repeated = places.into_iter().filter(|(name, places)| places.len() > 1 && !SHARED.contains(name));
    repeated.map(|(name, places)| format!("`{name}` is public in {}", places.join(" and "))).collect()
}

/// Returns the name of the public type that a line defines.
fn public_type(line: &str) -> Option<&str> {
    let definition = line.trim_start().strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "union ", "type "]
        .iter()
        .find_map(|kind| definition.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let is_associated = line.starts_with(' ') && definition.starts_with("type ");
    // A macro defines types without a literal name.
    (end > 0 && !is_associated).then_some(&rest[..end])
}
