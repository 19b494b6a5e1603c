//! Lists the scenarios of the repository, so that the binary carries them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
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
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
