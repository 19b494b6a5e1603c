//! Mistakes in scripts with their positions.

use std::fmt;

use serde_saphyr::{Location, Spanned};

/// A mistake and its position.
#[derive(Debug)]
pub(super) struct ScriptMistake {
    what: String,
    at: Location,
}

impl ScriptMistake {
    pub(super) fn at<T>(place: &Spanned<T>, what: impl Into<String>) -> Self {
        Self { what: what.into(), at: place.referenced }
    }
}

impl fmt::Display for ScriptMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at line {}, column {}", self.what, self.at.line(), self.at.column())
    }
}

pub(super) type CheckResult = Result<(), ScriptMistake>;
