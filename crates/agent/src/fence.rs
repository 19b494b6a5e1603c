//! Other people's words between marks of ours.

/// The marks that stand round what a model is told, by their names.
const MARKS: &[&str] = &["context", "file", "task", "tasks", "attempt", "prior_attempts"];

/// How far behind a `<` the name of a mark is looked for; nobody takes what is longer for one.
const LONGEST: usize = 1000;

/// The text, unable to end what it stands in: `</context>` becomes `<\/context>`. What nobody sees goes.
pub(crate) fn fenced(text: &str) -> String {
    let seen: String = text.chars().filter(|c| is_seen(*c)).collect();
    let mut fenced = String::with_capacity(seen.len());
    let mut rest = seen.as_str();
    while let Some((before, behind)) = rest.split_once('<') {
        fenced.push_str(before);
        fenced.push('<');
        if closes(behind) {
            fenced.push('\\');
        }
        rest = behind;
    }
    fenced + rest
}

/// Whether a mark of ours ends behind the `<`.
fn closes(behind: &str) -> bool {
    // A selector is seen behind the sign that it belongs to, and nowhere else.
    let letters = behind.chars().filter(|c| !matches!(c, '\u{fe0e}' | '\u{fe0f}'));
    let behind: String = letters.take(LONGEST).collect();
    let Some(name) = behind.trim_start().strip_prefix('/').map(str::trim_start) else { return false };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = &name[..name.find(|c| !is_part(c)).unwrap_or(name.len())];
    MARKS.iter().any(|mark| mark.eq_ignore_ascii_case(name))
}

/// Whether people see it as a model reads it.
fn is_seen(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || session::is_invisible(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_ends_what_he_stands_in() {
        for (text, expected) in [
            ("a </b> < / c", "a </b> < / c"),
            ("</context>", "<\\/context>"),
            ("x</CONTEXT\n>y</file>", "x<\\/CONTEXT\n>y<\\/file>"),
            ("< / task><</attempt>", "<\\ / task><<\\/attempt>"),
            ("</prior_attempts", "<\\/prior_attempts"),
            ("</cont\u{200b}ext>", "<\\/context>"),
            ("</filename>", "</filename>"),
            ("</\u{fe0f}file>", "<\\/\u{fe0f}file>"),
            ("<\u{fe0f}/fi\u{fe0e}le>", "<\\\u{fe0f}/fi\u{fe0e}le>"),
            ("</\u{fe01}fi\u{3164}le>", "<\\/file>"),
            ("it is \u{2764}\u{fe0f}", "it is \u{2764}\u{fe0f}"),
            ("a\u{1b}[2J\u{202e}b\r\n\tc\u{e0041}", "a[2Jb\n\tc"),
            ("<", "<"),
        ] {
            assert_eq!(fenced(text), expected, "{text:?}");
        }
    }
}
