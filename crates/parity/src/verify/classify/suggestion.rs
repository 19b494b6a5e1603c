//! The rule for `parity.toml` that would cover a difference.

use crate::verdict::Surface;

/// Returns the rule that would cover a difference: a mask for two values, and an exclusion otherwise.
pub(super) fn suggested_rule(
    surface: Surface,
    pointer: &str,
    golden: Option<&str>,
    candidate: Option<&str>,
) -> String {
    let (table, pattern) = match (golden, candidate) {
        (Some(golden), Some(candidate)) => ("mask", pattern(golden, candidate)),
        // A missing value cannot be masked.
        _ => ("exclude", None),
    };
    let pattern = pattern.map_or(String::new(), |pattern| format!("pattern = {}\n", quoted(&pattern)));
    format!(
        "[[{table}]]\nsurface = \"{}\"\npointer = {}\n{pattern}reason = \"say why\"\n",
        surface.name(),
        quoted(pointer)
    )
}

/// Turns a mask into an exclusion, because masked values are not byte-equal.
pub(super) fn as_exclusion(rule: &str) -> String {
    let lines = rule.lines().filter(|line| !line.starts_with("pattern = "));
    let lines = lines.map(|line| if line == "[[mask]]" { "[[exclude]]" } else { line });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns a text as a TOML string on one line, without characters that move a cursor.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || ('\u{200b}'..='\u{206f}').contains(&c) => {
                out.push_str(&format!("\\u{:04X}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a pattern for the part in which two long texts differ, if it is short.
fn pattern(golden: &str, candidate: &str) -> Option<String> {
    const CONTEXT: usize = 24;
    if golden.len().max(candidate.len()) < 2 * CONTEXT {
        return None;
    }
    let head = golden.bytes().zip(candidate.bytes()).take_while(|(g, c)| g == c).count();
    let head = (0..=head).rev().find(|at| golden.is_char_boundary(*at) && candidate.is_char_boundary(*at))?;
    let (g_rest, c_rest) = (&golden[head..], &candidate[head..]);
    let tail = g_rest.bytes().rev().zip(c_rest.bytes().rev()).take_while(|(g, c)| g == c).count();
    let fits = |back: &usize| {
        g_rest.is_char_boundary(g_rest.len() - back) && c_rest.is_char_boundary(c_rest.len() - back)
    };
    let tail = (0..=tail).rev().find(fits)?;
    let from = golden.floor_char_boundary(head.saturating_sub(CONTEXT));
    let after = &g_rest[g_rest.len() - tail..];
    let to = after.floor_char_boundary(CONTEXT.min(after.len()));
    if g_rest.len() - tail > golden.len() / 2 {
        return None;
    }
    let (before, after) = (regex::escape(&golden[from..head]), regex::escape(&after[..to]));
    let (start, end) = (if from == 0 { "^" } else { "" }, if to == tail { "$" } else { "" });
    Some(format!("(?s){start}{before}.*?{after}{end}"))
}
