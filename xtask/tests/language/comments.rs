//! Rules for comments: plain openings, no private idiom.

use crate::SourceFile;

/// Words that turn a doc comment into a riddle when it opens with them.
const OPENINGS: [&str; 12] = [
    "What", "Who", "Whom", "Whose", "How", "Where", "Why", "Whatever", "Whoever", "When", "Which", "Whether",
];

/// Words and phrases of the project's former private idiom.
const IDIOMS: [&str; 14] = [
    "stands",
    "stood",
    "told",
    "nobody",
    "nobody's",
    "whoever",
    "somebody",
    "somebody's",
    "anew",
    "goes on",
    "in its stead",
    "in whose stead",
    "behind it",
    "manieth",
];

/// Files whose subject is the words themselves.
const EXEMPT: [&str; 1] = ["xtask/tests/language/"];

/// Names each doc comment that opens with a question word.
pub(crate) fn openings(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        let mut in_comment = false;
        for (number, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let (Some(doc), false) = (doc, in_comment) {
                let first = doc.trim_start().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                if OPENINGS.contains(&first) && !EXEMPT.iter().any(|exempt| file.path.starts_with(exempt)) {
                    problems.push(format!("{}:{}: doc comment opens with `{first}`", file.path, number + 1));
                }
            }
            in_comment = doc.is_some();
        }
    }
    problems
}

/// Names each idiom in the comments of code and in the text of pages.
pub(crate) fn idioms(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| !EXEMPT.iter().any(|exempt| file.path.starts_with(exempt))) {
        let mut in_block = false;
        for (number, line) in file.text.lines().enumerate() {
            if file.path.ends_with(".md") && line.trim_start().starts_with("```") {
                in_block = !in_block;
            }
            let text = if in_block { None } else { prose(&file.path, line) };
            for idiom in
                text.into_iter().flat_map(|text| IDIOMS.into_iter().filter(move |i| has_words(text, i)))
            {
                problems.push(format!("{}:{}: `{idiom}`", file.path, number + 1));
            }
        }
    }
    problems
}

/// Returns the part of a line that is written for people.
fn prose<'a>(path: &str, line: &'a str) -> Option<&'a str> {
    if path.ends_with(".md") {
        return Some(line);
    }
    let marker = if path.ends_with(".yaml") { "#" } else { "//" };
    let start = if line.trim_start().starts_with(marker) {
        line.find(marker)
    } else {
        line.find(&format!(" {marker} "))
    };
    start.map(|start| &line[start..])
}

/// Returns whether `text` contains `phrase` as whole words, in any case.
fn has_words(text: &str, phrase: &str) -> bool {
    let text = text.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}
