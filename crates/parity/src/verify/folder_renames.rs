//! Folders of one recording under the names of another: two runs of a harness may have different slots.

use recording::source::Source;

use super::compared::RecordingFacts;

/// Folders to replace, each with its new name, the longest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderRenames(Vec<(String, String)>);

impl FolderRenames {
    /// Returns the folders of `from` that have another path in `to`.
    pub(super) fn between(from: &Source, to: &Source) -> Self {
        let folders = |source: &Source| {
            let manifest = source.recording().and_then(|recording| recording.manifest());
            manifest.map(|manifest| RecordingFacts::of(manifest).folders).unwrap_or_default()
        };
        Self::of(&folders(from), &folders(to))
    }

    fn of(from: &[(&'static str, String)], to: &[(&'static str, String)]) -> Self {
        let pairs = from.iter().filter_map(|(name, old)| {
            let (_, new) = to.iter().find(|(other, _)| other == name)?;
            (old != new).then(|| (old.clone(), new.clone()))
        });
        // Some harnesses name a folder after a path, with dashes for everything else.
        let dashed = |path: &str| path.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let mut all: Vec<(String, String)> =
            pairs.flat_map(|(old, new)| [(dashed(&old), dashed(&new)), (old, new)]).collect();
        all.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
        Self(all)
    }

    /// Returns the text with its folders renamed, if there are any.
    pub(super) fn apply(&self, text: &str) -> Option<String> {
        let mut renamed: Option<String> = None;
        for (old, new) in &self.0 {
            let now = renamed.as_deref().unwrap_or(text);
            if now.contains(old.as_str()) {
                renamed = Some(now.replace(old.as_str(), new));
            }
        }
        renamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_get_the_names_of_the_other_recording() {
        let slot = |n: &str| {
            [("cwd", format!("/tmp/offshoot/{n}/work")), ("home", format!("/tmp/offshoot/{n}/home"))]
        };
        let renames = FolderRenames::of(&slot("01"), &slot("00"));
        let text = "in /tmp/offshoot/01/work, see /tmp/offshoot/01/home/.x/-tmp-offshoot-01-work/a";
        let renamed = "in /tmp/offshoot/00/work, see /tmp/offshoot/00/home/.x/-tmp-offshoot-00-work/a";
        assert_eq!(renames.apply(text).as_deref(), Some(renamed));
        assert_eq!(renames.apply("in /tmp/offshoot/02/work"), None);
        assert_eq!(FolderRenames::of(&slot("00"), &slot("00")).apply(text), None);
    }
}
