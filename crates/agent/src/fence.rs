//! Escapes text that is quoted between our tags.

/// Tags around quoted text.
const TAGS: &[&str] = &["context", "file", "task", "tasks", "attempt", "prior_attempts"];

/// Distance after a `<` at which a tag name is looked for.
const LONGEST: usize = 1000;

/// Returns the text so that it cannot close the tag around it: `</context>` becomes `<\/context>`. Invisible characters are
/// removed.
pub(crate) fn fenced(text: &str) -> String {
    let visible: String = text.chars().filter(|c| is_visible(*c)).collect();
    let mut fenced = String::with_capacity(visible.len());
    let mut rest = visible.as_str();
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

/// Returns whether one of our tags is closed after the `<`.
fn closes(behind: &str) -> bool {
    // Variation selectors are invisible within a tag.
    let letters = behind.chars().filter(|c| !matches!(c, '\u{fe0e}' | '\u{fe0f}'));
    let behind: String = letters.take(LONGEST).collect();
    let Some(name) = behind.trim_start().strip_prefix('/').map(str::trim_start) else { return false };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = &name[..name.find(|c| !is_part(c)).unwrap_or(name.len())];
    TAGS.iter().any(|tag| tag.eq_ignore_ascii_case(name))
}

/// Returns whether a character is visible.
fn is_visible(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || session::is_invisible(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_cannot_close_its_tag() {
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
