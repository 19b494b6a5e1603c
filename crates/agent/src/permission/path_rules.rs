//! Permission rules as rules for paths of a workspace.

use std::path::Path;

use super::PermissionRules;
use crate::workspace::PathRules;

impl PathRules for PermissionRules {
    fn denial_reason(&self, place: &Path, writing: bool) -> Option<String> {
        self.file_denial(place, writing)
    }

    fn denies_any(&self) -> bool {
        self.may_deny_reads()
    }

    fn is_excluded_from_walks(&self, place: &Path) -> bool {
        self.is_skipped_in_walks(place)
    }
}
