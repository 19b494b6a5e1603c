//! Checks the language and the module structure of the project: plain doc comments, no private idiom,
//! unique public type names, no import cycles, short guide pages.
//!
//! Each rule is a pure function from files to a list of problems. A rule is run on the project and on small
//! texts that break it.

mod comments;
mod modules;
mod pages;
mod types;

use std::fs;
use std::path::{Path, PathBuf};

/// A file of the project: its path from the root, and its text.
struct SourceFile {
    path: String,
    text: String,
}

impl SourceFile {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns whether the file holds tests only.
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("tests.rs") || self.path.ends_with("testing.rs")
    }
}

/// Returns the project's root folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the root").to_owned()
}

/// Reads all files of the project with one of these extensions.
fn project_files(extensions: &[&str]) -> Vec<SourceFile> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("folders of the project are readable") {
            let path = entry.expect("entries are readable").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "fixtures" {
                    folders.push(path);
                }
            } else if extensions.iter().any(|extension| name.ends_with(&format!(".{extension}"))) {
                let text = fs::read_to_string(&path).expect("source files are UTF-8");
                let relative = path.strip_prefix(root()).expect("below the root").to_string_lossy();
                files.push(SourceFile::new(&relative, &text));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 10, "too few files found: the walk is broken");
    files
}

#[track_caller]
fn assert_clean(problems: &[String]) {
    let shown: Vec<&str> = problems.iter().take(40).map(String::as_str).collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), shown.join("\n"));
}

#[test]
fn doc_comments_open_with_a_verb_or_a_noun() {
    assert_clean(&comments::openings(&project_files(&["rs"])));
}

#[test]
fn comments_and_pages_have_no_private_idiom() {
    assert_clean(&comments::idioms(&project_files(&["rs", "js", "mjs", "md", "yaml"])));
}

#[test]
fn public_type_names_are_unique() {
    assert_clean(&types::repeated(&project_files(&["rs"])));
}

#[test]
fn modules_have_no_import_cycles() {
    assert_clean(&modules::cycles(&project_files(&["rs"])));
}

#[test]
fn guide_pages_are_short_and_so_are_their_sentences() {
    assert_clean(&pages::long(&project_files(&["md"])));
}

#[test]
fn each_rule_names_what_breaks_it() {
    let file = |text: &str| vec![SourceFile::new("crates/a/src/b.rs", text)];
    assert_eq!(
        comments::openings(&file("/// Returns it.\nfn a() {}\n\n/// Who is told.\nfn b() {}\n")),
        ["crates/a/src/b.rs:4: doc comment opens with `Who`"]
    );
    assert_eq!(
        comments::idioms(&file("// Nobody knows.\nlet a = \"nobody\"; // it stands here\n")),
        ["crates/a/src/b.rs:1: `nobody`", "crates/a/src/b.rs:2: `stands`"]
    );
    let two = [
        SourceFile::new("crates/a/src/b.rs", "pub struct Told;\nstruct Own;"),
        SourceFile::new("crates/c/src/d.rs", "pub enum Told {}\nstruct Own;"),
    ];
    assert_eq!(types::repeated(&two), ["`Told` is public in crates/a/src/b.rs and crates/c/src/d.rs"]);
    let cyclic = [
        SourceFile::new("crates/a/src/lib.rs", "mod b;\nmod c;\nmod d;\npub use c::Thing;"),
        SourceFile::new("crates/a/src/b.rs", "use crate::Thing;\nuse crate::d;"),
        SourceFile::new("crates/a/src/c/mod.rs", "// crate::d\n"),
        SourceFile::new("crates/a/src/c/e.rs", "use crate::{b::B, d};\n"),
        SourceFile::new("crates/a/src/d.rs", "#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n"),
    ];
    assert_eq!(modules::cycles(&cyclic), ["crate `a`: b, c import each other"]);
    let deep = [
        SourceFile::new("crates/a/src/lib.rs", "mod b;"),
        SourceFile::new(
            "crates/a/src/b/mod.rs",
            "mod c;\nmod d;\nmod e;\npub use e::{Fork, Thing as Other};",
        ),
        SourceFile::new("crates/a/src/b/c.rs", "use super::{d::{D, More}, Local};"),
        SourceFile::new("crates/a/src/b/d.rs", "fn f() -> crate::b::Fork { todo!() }"),
        SourceFile::new("crates/a/src/b/e/mod.rs", "mod inner;"),
        SourceFile::new("crates/a/src/b/e/inner.rs", "use super::super::c;"),
    ];
    assert_eq!(modules::cycles(&deep), ["crate `a`::b: c, d, e import each other"]);
    let page = |text: String| vec![SourceFile::new("docs/guide/a.md", &text)];
    assert_eq!(pages::long(&page("a\n".repeat(151))), ["docs/guide/a.md: 151 lines"]);
    assert_eq!(
        pages::long(&page(format!("# Title\n\n{}.\n", "word ".repeat(30)))),
        ["docs/guide/a.md: 30 words per sentence on average"]
    );
}
