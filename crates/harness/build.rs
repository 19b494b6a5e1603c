//! Embeds the repository's scenarios in the binary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    // Asked for when it runs: a build folder that checkouts share may hold the script of another.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&here).join("../../scenarios");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut list = String::from("&[\n");
    for path in files {
        let name = path.strip_prefix(&root).expect("it was found below the root");
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(list, "    ({:?}, include_bytes!({:?})),", name.display().to_string(), path)
            .expect("a string takes everything");
    }
    list.push_str("]\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("scenarios.rs");
    std::fs::write(out, list).expect("cargo's own folder can be written");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder of the repository can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
