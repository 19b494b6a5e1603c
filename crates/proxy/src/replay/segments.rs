//! Pairs names by the words beside them.
//!
//! Two runs may give the same names to other things, as numbers that are given in the order of arrival. A diff would put
//! equal names opposite each other. So a line with names is first paired with the line that says the same about them.

use super::tokens::{is_id, tokens};

/// Returns the pairs of names in lines, or in lines and those after them, that occur once in each text and are equal
/// apart from names and numbers.
pub(super) fn pairs_by_words<'n>(old: &str, new: &str, wanted: &[&'n str]) -> Vec<(&'n str, String)> {
    let mut pairs: Vec<(&'n str, String)> = Vec::new();
    let (old, new) = (NamedLines::new(old, wanted), NamedLines::new(new, wanted));
    for has_more in [false, true] {
        for has_numbers in [true, false] {
            let (olds, news) = (old.forms(has_more, has_numbers), new.forms(has_more, has_numbers));
            for (at, form) in olds.iter().enumerate() {
                let Some(other) = only(&news, form).filter(|_| only(&olds, form) == Some(at)) else {
                    continue;
                };
                for (name, live) in old.lines[at].names.iter().zip(&new.lines[other].names) {
                    let Some(name) = wanted.iter().find(|wanted| *wanted == name) else { continue };
                    let is_free = pairs.iter().all(|(known, taken)| known != name && taken != live);
                    if is_free {
                        pairs.push((*name, (*live).to_owned()));
                    }
                }
            }
        }
    }
    pairs
}

/// Returns the text with a mark in place of each name, if it has any.
pub(super) fn words_beside_names(text: &str, wanted: &[&str]) -> Option<String> {
    let line = NamedLine::new(text, wanted);
    (!line.names.is_empty()).then(|| without_numbers(&line.words))
}

fn only(forms: &[String], form: &String) -> Option<usize> {
    let mut found = (0..forms.len()).filter(|at| forms[*at] == *form);
    found.next().filter(|_| found.next().is_none())
}

/// The lines of a text that contain names.
struct NamedLines<'t> {
    lines: Vec<NamedLine<'t>>,
    /// The words of the lines between a line with names and the next one.
    between: Vec<String>,
}

struct NamedLine<'t> {
    /// The line with a mark in place of each name.
    words: String,
    names: Vec<&'t str>,
}

/// Replaces a name.
const MARK: &str = "\u{1}";

impl<'t> NamedLines<'t> {
    fn new(text: &'t str, wanted: &[&str]) -> Self {
        let mut named = Self { lines: Vec::new(), between: Vec::new() };
        // An object of JSON is a line, too.
        for line in text.split(['\n', '{', '}']) {
            let line = NamedLine::new(line, wanted);
            if !line.names.is_empty() {
                named.lines.push(line);
                named.between.push(String::new());
            } else if let Some(between) = named.between.last_mut() {
                between.push_str(line.words.trim());
                between.push('\n');
            }
        }
        named
    }

    /// Returns the words of each line, with those of the following lines and without numbers if wanted.
    fn forms(&self, has_more: bool, has_numbers: bool) -> Vec<String> {
        let lines = self.lines.iter().zip(&self.between).map(|(line, between)| match has_more {
            true => format!("{}\n{between}", line.words),
            false => line.words.clone(),
        });
        lines.map(|words| if has_numbers { words } else { without_numbers(&words) }).collect()
    }
}

impl<'t> NamedLine<'t> {
    fn new(line: &'t str, wanted: &[&str]) -> Self {
        let is_name = |token: &str| {
            wanted.contains(&token) || (is_id(token) && wanted.iter().any(|name| name.len() == token.len()))
        };
        let (mut words, mut names) = (String::new(), Vec::new());
        for token in tokens(line) {
            match is_name(token) {
                true => {
                    words.push_str(MARK);
                    names.push(token);
                }
                false => words.push_str(token),
            }
        }
        Self { words, names }
    }
}

fn without_numbers(words: &str) -> String {
    words.chars().filter(|c| !c.is_ascii_digit() && !matches!(c, '.' | ',' | ':')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paired(old: &str, new: &str) -> String {
        let mut pairs = pairs_by_words(old, new, &["20261116_2", "20261116_3"]);
        pairs.sort();
        pairs.iter().map(|(old, new)| format!("{}={}", &old[9..], &new[9..])).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_are_paired_by_what_is_said_about_them() {
        let swapped = "2=3 3=2";
        for (old, new) in [
            (
                "- 20261116_2 scan (3.5s)\n- 20261116_3 grep (4s)",
                "- 20261116_2 grep (12.25s)\n- 20261116_3 scan (1s)",
            ),
            (
                r#"[{"id":"20261116_2","what":"scan"},{"id":"20261116_3","what":"grep"}]"#,
                r#"[{"id":"20261116_2","what":"grep"},{"id":"20261116_3","what":"scan"}]"#,
            ),
            (
                "<id>20261116_2</id>\n<what>scan</what>\n<id>20261116_3</id>\n<what>grep</what>",
                "<id>20261116_2</id>\n<what>grep</what>\n<id>20261116_3</id>\n<what>scan</what>",
            ),
            ("scan is 20261116_2\ngrep is 20261116_3", "grep is 20261116_2\nscan is 20261116_3"),
        ] {
            assert_eq!(paired(old, new), swapped, "{old}");
            assert_eq!(paired(old, old), "2=2 3=3", "{old}");
        }
        // Words that do not tell them apart say nothing.
        assert_eq!(paired("20261116_2\n20261116_3", "20261116_2\n20261116_3"), "");
    }
}
