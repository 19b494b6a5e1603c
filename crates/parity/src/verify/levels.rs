//! How far two values agree that are not equal: the table of the levels, one arm a cell.

use super::unit::Kind;
use crate::verdict::{Level, Surface};

/// The level that is left where a unit has no counterpart.
pub(super) const UNPAIRED: Option<Level> = Some(Level::E0);

/// The level that is left where a value differs inside two units that meet.
pub(super) fn of_value(
    kind: Kind,
    surface: Surface,
    inside: &str,
    golden: Option<&str>,
    candidate: Option<&str>,
) -> Level {
    match kind {
        Kind::Model => Level::E0,
        Kind::Setting | Kind::Header | Kind::Line => Level::E1,
        Kind::Identity => Level::E2,
        Kind::Tool if is_words(inside) => Level::E2,
        Kind::Tool => Level::E1,
        Kind::Call if is_name(inside) => Level::E0,
        Kind::Call => Level::E1,
        // Its words are what it says; whatever else it has is its kind.
        Kind::Result if golden.is_some() && candidate.is_some() && is_said(inside) => Level::E2,
        Kind::Result => Level::E1,
        Kind::System | Kind::Said | Kind::Reply if surface == Surface::Jobs => Level::E2,
        Kind::System | Kind::Said if inside == "/type" => Level::E1,
        Kind::System | Kind::Said | Kind::Reply => match (golden, candidate) {
            (Some(golden), Some(candidate)) if same_length_class(golden.len(), candidate.len()) => Level::E2,
            _ => Level::E1,
        },
    }
}

/// One is at most half as long again as the other, or both are short.
fn same_length_class(a: usize, b: usize) -> bool {
    let (short, long) = (a.min(b), a.max(b));
    long <= short + short / 2 + 16
}

/// The words that describe a tool or one of its arguments.
fn is_words(inside: &str) -> bool {
    inside.ends_with("/description") && !inside.ends_with("/properties/description")
}

fn is_name(inside: &str) -> bool {
    matches!(inside, "/name" | "/function/name" | "/type")
}

fn is_said(inside: &str) -> bool {
    let words = ["/content", "/output"].iter().any(|name| inside.starts_with(name));
    words && !inside.ends_with("/type")
}
