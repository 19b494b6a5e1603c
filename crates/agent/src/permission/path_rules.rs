//! Permission rules as rules for paths of a workspace.

use std::path::Path;

use super::Rules;
use crate::workspace::PathRules;

impl PathRules for Rules {
    fn denial_reason(&self, place: &Path, writing: bool) -> Option<String> {
        self.why_closed(place, writing)
    }

    fn denies_any(&self) -> bool {
        self.close_some()
    }

    fn is_excluded_from_walks(&self, place: &Path) -> bool {
        self.keeps_from_walks(place)
    }
}
