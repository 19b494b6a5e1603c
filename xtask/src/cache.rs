//! The cache folder for installed programs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Returns `$OFFSHOOT_CACHE_DIR`, else `$XDG_CACHE_HOME/offshoot`, else `~/.cache/offshoot`.
pub(crate) fn folder() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("OFFSHOOT_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("offshoot")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/offshoot")))
        .context("no cache folder: set `OFFSHOOT_CACHE_DIR`, `XDG_CACHE_HOME` or `HOME`")
}

/// Returns `folder/entry`. Calls `install` to fill the folder if the entry is missing.
///
/// The installation is done in a sibling folder and renamed when it is complete. So a folder with its entry is complete even
/// after an interruption, and two processes may install at the same time.
pub(crate) fn provide(
    folder: &Path,
    entry: &str,
    install: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let wanted = folder.join(entry);
    if wanted.exists() {
        return Ok(wanted);
    }
    let parent = folder.parent().context("a cached folder has a parent")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create `{}`", parent.display()))?;
    let partial = tempfile::Builder::new()
        .prefix(".partial-")
        .tempdir_in(parent)
        .with_context(|| format!("cannot write in `{}`", parent.display()))?;
    install(partial.path())?;
    ensure!(partial.path().join(entry).exists(), "the installation has no `{entry}`");
    if folder.exists() && !wanted.exists() {
        // Installations happen elsewhere, so this folder has an old layout or is damaged.
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    if let Err(error) = fs::rename(partial.path(), folder) {
        // Another process finished first. Its installation is equivalent.
        ensure!(wanted.exists(), "cannot move the installation to `{}`: {error}", folder.display());
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).expect("the parent exists").count()
    }

    #[test]
    fn an_installation_happens_once() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let folder = parent.path().join("tool/1.0");
        let install = |partial: &Path| Ok(fs::write(partial.join("entry"), "first")?);
        provide(&folder, "entry", install).expect("the first installation works");
        let again = provide(&folder, "entry", |_| panic!("installed twice")).expect("the second finds it");
        assert_eq!(fs::read_to_string(again).expect("the entry is a file"), "first");
    }

    #[test]
    fn an_installation_that_fails_or_lacks_its_entry_leaves_nothing() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let folder = parent.path().join("1.0");
        let no_entry = provide(&folder, "entry", |partial| Ok(fs::write(partial.join("other"), "")?));
        let failed = provide(&folder, "entry", |partial| {
            fs::write(partial.join("entry"), "")?;
            anyhow::bail!("interrupted")
        });
        assert!(no_entry.is_err() && failed.is_err());
        assert_eq!(entries(parent.path()), 0);
    }

    #[test]
    fn a_folder_without_its_entry_is_installed_again() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let folder = parent.path().join("1.0");
        fs::create_dir(&folder).expect("a new folder");
        fs::write(folder.join("half"), "").expect("a new file");
        provide(&folder, "entry", |partial| Ok(fs::write(partial.join("entry"), "")?))
            .expect("it is replaced");
        assert_eq!(entries(&folder), 1);
    }

    #[test]
    fn the_second_process_uses_the_installation_of_the_first() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let folder = parent.path().join("1.0");
        let entry = provide(&folder, "entry", |partial| {
            fs::create_dir(&folder)?;
            fs::write(folder.join("entry"), "theirs")?;
            Ok(fs::write(partial.join("entry"), "ours")?)
        })
        .expect("theirs is complete");
        assert_eq!(fs::read_to_string(entry).expect("the entry is a file"), "theirs");
        assert_eq!(entries(parent.path()), 1);
    }
}
