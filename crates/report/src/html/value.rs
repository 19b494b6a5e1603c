//! Two values beside each other, or in one where they are long.

use std::fmt::Write as _;

use super::{excerpt, text};
use crate::diff::{Piece, pieces};

/// Longer values are compared word by word.
const SHORT: usize = 160;
/// So much of a value is compared and shown.
const MOST: usize = 40_000;
/// So much of what is the same is shown on either side of a change.
const AROUND: usize = 240;

/// The golden's value and the candidate's.
pub(super) fn both(golden: Option<&str>, candidate: Option<&str>) -> String {
    match (golden, candidate) {
        (Some(old), Some(new)) if old.len().max(new.len()) > SHORT => changes(old, new),
        _ => format!("<div class=\"sides\">{}{}</div>", side("golden", golden), side("candidate", candidate)),
    }
}

fn side(whose: &str, value: Option<&str>) -> String {
    let value = match value {
        Some("") => "<p class=\"faint\">empty</p>".to_owned(),
        Some(value) => format!("<pre>{}</pre>", excerpt(value, MOST)),
        None => "<p class=\"faint\">nothing</p>".to_owned(),
    };
    format!("<div><p class=\"label\">{whose}</p>{value}</div>")
}

fn changes(old: &str, new: &str) -> String {
    let cut = |value: &str| value[..value.floor_char_boundary(MOST)].to_owned();
    let (a, b) = (cut(old), cut(new));
    let pieces = pieces(&a, &b);
    let mut out = String::from("<p class=\"label\"><del>golden</del> <ins>candidate</ins></p><pre>");
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Same(same) => out.push_str(&shortened(same, at == 0, at + 1 == pieces.len())),
            Piece::Gone(gone) => write!(out, "<del>{}</del>", text(gone)).expect("a string takes everything"),
            Piece::New(new) => write!(out, "<ins>{}</ins>", text(new)).expect("a string takes everything"),
        }
    }
    let more = old.len().max(new.len()).saturating_sub(MOST);
    if more > 0 {
        write!(out, "<span class=\"more\"> … {} more bytes</span>", super::grouped(more))
            .expect("a string takes everything");
    }
    out + "</pre>"
}

/// What is the same, without its middle where it is long.
fn shortened(same: &str, is_first: bool, is_last: bool) -> String {
    if same.len() <= 3 * AROUND {
        return text(same);
    }
    let head = if is_first { 0 } else { same.floor_char_boundary(AROUND) };
    let tail = if is_last { same.len() } else { same.ceil_char_boundary(same.len() - AROUND) };
    let left_out = super::grouped(tail - head);
    format!(
        "{}<span class=\"more\"> … {left_out} bytes the same … </span>{}",
        text(&same[..head]),
        text(&same[tail..])
    )
}
