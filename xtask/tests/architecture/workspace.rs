//! The workspace: its crates, their dependencies, and their sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::map::Names;

/// The crates of the workspace by name.
pub(crate) struct Workspace {
    pub(crate) crates: BTreeMap<String, Crate>,
}

/// One crate.
pub(crate) struct Crate {
    /// All dependencies in its `Cargo.toml`, also those for tests and build scripts.
    pub(crate) dependencies: Names,
    /// All its Rust files.
    pub(crate) sources: Vec<Source>,
}

/// One Rust file.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Workspace {
    /// Reads this workspace with cargo.
    pub(crate) fn read() -> Workspace {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(root())
            .output()
            .expect("cargo starts");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
        let packages = metadata["packages"].as_array().expect("the metadata lists packages");
        Workspace { crates: packages.iter().map(|package| (name(package), Crate::read(package))).collect() }
    }

    /// Creates a workspace from name, dependencies and source text of each crate.
    pub(crate) fn new<const N: usize>(crates: [(&str, &[&str], &str); N]) -> Workspace {
        let crates = crates.map(|(name, dependencies, text)| {
            let source = Source { path: format!("{name}.rs").into(), text: text.to_owned() };
            let dependencies = dependencies.iter().map(|dependency| (*dependency).to_owned()).collect();
            (name.to_owned(), Crate { dependencies, sources: vec![source] })
        });
        Workspace { crates: crates.into() }
    }

    pub(crate) fn crate_mut(&mut self, name: &str) -> &mut Crate {
        self.crates.get_mut(name).expect("the crate is in the workspace")
    }
}

impl Crate {
    fn read(package: &Value) -> Crate {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a package has a manifest"));
        let dependencies = package["dependencies"].as_array().expect("a package lists its dependencies");
        let mut sources = Vec::new();
        collect_sources(manifest.parent().expect("a manifest is in a folder"), &mut sources);
        Crate { dependencies: dependencies.iter().map(name).collect(), sources }
    }

    /// Adds a dependency, and a line to the source.
    pub(crate) fn depend_on(&mut self, dependency: &str, line: &str) {
        self.dependencies.insert(dependency.to_owned());
        self.sources[0].text.push_str(line);
    }
}

/// Returns the folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}

fn name(value: &Value) -> String {
    value["name"].as_str().expect("packages and dependencies have names").to_owned()
}

fn collect_sources(folder: &Path, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            collect_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            let path = path.strip_prefix(root()).expect("sources are in the workspace").to_owned();
            sources.push(Source { path, text });
        }
    }
}
