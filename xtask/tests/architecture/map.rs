//! The map: the tables of `ARCHITECTURE.md` and `docs/reference/dependencies.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::workspace;

/// Names of crates or of dependencies.
pub(crate) type Names = BTreeSet<String>;

/// The parts of these pages that the tests compare.
pub(crate) struct Map {
    /// Each crate in the table of crates, with the crates that it may depend on.
    pub(crate) crates: BTreeMap<String, Names>,
    /// The crates of the line that begins with "Pure:".
    pub(crate) pure: Names,
    /// Each third-party dependency in the table of dependencies, with the crates that use it.
    pub(crate) dependencies: BTreeMap<String, Names>,
}

impl Map {
    /// Reads the map of this project.
    pub(crate) fn read() -> Map {
        let read = |page: &str| {
            fs::read_to_string(workspace::root().join(page))
                .unwrap_or_else(|error| panic!("`{page}`: {error}"))
        };
        Map::parse(&["ARCHITECTURE.md", "docs/reference/dependencies.md"].map(read).join("\n"))
    }

    /// Parses the two tables and the line `Pure:`. All other text is ignored.
    pub(crate) fn parse(text: &str) -> Map {
        let pure = text.lines().filter(|line| line.starts_with("Pure:")).flat_map(quoted).collect();
        Map { crates: table(text, "| crate |", 2), pure, dependencies: table(text, "| dependency |", 1) }
    }
}

/// Returns the rows of the table whose head begins with `head`: the name in the first cell, and the names in `column`.
fn table(text: &str, head: &str, column: usize) -> BTreeMap<String, Names> {
    let rows = text.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .filter_map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
            Some((quoted(cells[0]).next()?, quoted(cells.get(column)?).collect()))
        })
        .collect()
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}
