//! Finds scenarios.

use std::path::{Component, Path, PathBuf};

use super::Scenario;
use super::files::{Files, FixtureFile};
use crate::error::HarnessError;

/// The files of the shipped scenarios, by their names below `scenarios/`.
static SHIPPED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// Finds a scenario: a folder by its path, one in `./scenarios`, one of the user's in `config_dir`, or a
/// shipped one.
pub fn find(name: &str, config_dir: Option<&Path>) -> Result<Scenario, HarnessError> {
    let folders = [
        Some(PathBuf::from(name)),
        Some(Path::new("scenarios").join(name)),
        config_dir.map(|config| config.join("scenarios").join(name)),
    ];
    let found = folders.into_iter().flatten().find(|folder| folder.join("scenario.yaml").exists());
    match found {
        Some(folder) => from_folder(&folder),
        None => from_shipped(name, config_dir),
    }
}

/// Returns the names of the shipped scenarios.
pub fn shipped() -> Vec<&'static str> {
    SHIPPED.iter().filter_map(|(path, _)| path.strip_suffix("/scenario.yaml")).collect()
}

fn from_folder(folder: &Path) -> Result<Scenario, HarnessError> {
    let name = folder.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let name = name.unwrap_or_else(|| "scenario".to_owned());
    let read = |folder: &Path| Files::read(folder).map_err(HarnessError::io("read", folder));
    let base = |base: &str| {
        let place = folder.join(base);
        Files::read(&place).map_err(|source| HarnessError::Fixture { dir: place, source })
    };
    Scenario::read(&name, folder, read(folder)?, base)
}

fn from_shipped(name: &str, config_dir: Option<&Path>) -> Result<Scenario, HarnessError> {
    if !shipped().contains(&name) {
        if Path::new(name).is_dir() {
            return Err(HarnessError::usage(
                format!("the folder `{name}` is not a scenario: it has no `scenario.yaml`"),
                "`offshoot init` creates one; docs/reference/scenarios.md describes the format",
            ));
        }
        let users = config_dir
            .map_or_else(String::new, |config| format!(", `{}`", config.join("scenarios").display()));
        return Err(HarnessError::usage(
            format!("no scenario `{name}`: not a folder, not in `./scenarios`{users}, not shipped"),
            format!("shipped scenarios: {}", shipped().join(", ")),
        ));
    }
    let place = Path::new("scenarios").join(name);
    Scenario::read(name, &place, shipped_files(name), |base| {
        let folder = clean(&Path::new(name).join(base));
        Ok(shipped_files(&folder.display().to_string()))
    })
}

fn shipped_files(folder: &str) -> Files {
    let all = SHIPPED.iter().map(|(name, bytes)| {
        ((*name).to_owned(), FixtureFile { bytes: bytes.to_vec(), executable: name.ends_with(".sh") })
    });
    all.collect::<Files>().below(folder)
}

/// Resolves `..` in a path without reading the disk.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_scenario_is_one() {
        for name in shipped() {
            let scenario = from_shipped(name, None).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!scenario.workspace("command", None).is_empty(), "{name} has a workspace");
            assert!(!scenario.intent().is_empty(), "{name} says what it is for");
        }
        assert!(shipped().len() >= 7, "{:?}", shipped());
    }

    #[test]
    fn a_folder_that_is_no_scenario_is_called_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = find(folder.path().to_str().expect("UTF-8"), None).expect_err("it is empty");
        assert!(error.to_string().contains("it has no `scenario.yaml`"), "{error}");
    }

    #[test]
    fn an_unknown_scenario_lists_the_known_ones() {
        let error = find("no-such-thing", None).expect_err("nowhere");
        assert!(error.hint().expect("a hint").contains("async-subagents"), "{error}");
    }
}
