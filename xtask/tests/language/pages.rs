//! Rules for pages: guides are short, and so are their sentences.

use crate::SourceFile;

const MOST_LINES: usize = 150;
const MOST_WORDS: usize = 20;

/// Names each guide that is too long or whose sentences are.
pub(crate) fn long(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("docs/guide/")) {
        let lines = file.text.lines().count();
        if lines > MOST_LINES {
            problems.push(format!("{}: {lines} lines", file.path));
        }
        let lengths = sentence_lengths(&file.text);
        let words = lengths.iter().sum::<usize>().checked_div(lengths.len()).unwrap_or_default();
        if words >= MOST_WORDS {
            problems.push(format!("{}: {words} words per sentence on average", file.path));
        }
    }
    problems
}

/// Counts the words of each sentence of the running text: no blocks, headings, or tables.
fn sentence_lengths(text: &str) -> Vec<usize> {
    let mut prose = String::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            prose.push_str(". ");
        } else if line.trim().is_empty() || line.starts_with('#') || line.starts_with('|') {
            prose.push_str(". ");
        } else if !in_block {
            prose.push_str(line);
            prose.push(' ');
        }
    }
    let ends = |c: &char| ".!?:".contains(*c);
    let mut lengths = Vec::new();
    let mut words = 0;
    for word in prose.split_whitespace() {
        words += usize::from(word.chars().any(char::is_alphanumeric));
        if word.chars().next_back().as_ref().is_some_and(ends) && words > 0 {
            lengths.push(words);
            words = 0;
        }
    }
    lengths
}
