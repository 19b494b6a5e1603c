//! Bounded reads from recording folders, which are not trusted: complete files inside the folder, up to a
//! maximum size.
//!
//! Every read of a recording uses this module. It refuses links that leave the folder, and entries that are
//! neither file nor folder: a read from a pipe would never end. It checks a file's length before it reads the
//! bytes.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use crate::error::OpenError;
use crate::file_names;

/// Maximum size of a manifest, a scenario, or another small file.
pub(crate) const LONGEST_TEXT: u64 = 64 << 20;
/// Maximum size of a dump. Other tools store entire bodies there, and JSON may need six bytes for one.
pub(crate) const LONGEST_DUMP: u64 = 256 << 20;
/// Maximum size of a body.
pub(crate) const LONGEST_BODY: u64 = 1 << 30;
/// Maximum size of any file, because all of them are read to compare digests.
const LONGEST_FILE: u64 = 4 << 30;

/// Reads a file; returns `None` if it does not exist.
pub(crate) fn read(root: &Path, name: &str, longest: u64) -> Result<Option<Vec<u8>>, OpenError> {
    let Some((file, path)) = open(root, name, longest)? else { return Ok(None) };
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    match file.take(longest + 1).read_to_end(&mut bytes) {
        Err(source) => Err(OpenError::Io { path, source }),
        Ok(read) if read as u64 > longest => Err(too_long(longest, path)),
        Ok(_) => Ok(Some(bytes)),
    }
}

/// Opens a file; returns `None` if it does not exist.
pub(crate) fn open(root: &Path, name: &str, longest: u64) -> Result<Option<(File, PathBuf)>, OpenError> {
    let Some((path, length)) = file(root, name)? else { return Ok(None) };
    if length > longest {
        return Err(too_long(longest, path));
    }
    match File::open(&path) {
        Ok(file) => Ok(Some((file, path))),
        Err(source) => Err(OpenError::Io { path, source }),
    }
}

/// Returns the path and length of a file, or `None` if it does not exist.
pub(crate) fn file(root: &Path, name: &str) -> Result<Option<(PathBuf, u64)>, OpenError> {
    let path = root.join(name);
    if !is_below(name) {
        return Err(OpenError::Outside { path });
    }
    let found = match fs::metadata(&path) {
        Ok(found) => found,
        // A link to a missing file exists.
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {
            return Ok(None);
        }
        Err(source) => return Err(OpenError::Io { path, source }),
    };
    check_is_inside(root, &path)?;
    match found.is_file() {
        true => Ok(Some((path, found.len()))),
        false => Err(OpenError::NotAFile { path }),
    }
}

/// Returns whether a folder exists, and refuses one outside the recording.
pub(crate) fn has_folder(root: &Path, name: &str) -> Result<bool, OpenError> {
    let path = root.join(name);
    if !path.is_dir() {
        return Ok(false);
    }
    check_is_inside(root, &path).map(|()| true)
}

/// Refuses a folder with a link that leads out, with an entry that is neither file nor folder, or with a file
/// that is too long.
pub(crate) fn check_entries(root: &Path, name: &str) -> Result<(), OpenError> {
    let mut waiting = vec![root.join(name)];
    while let Some(path) = waiting.pop() {
        let failed = |source| OpenError::Io { path: path.clone(), source };
        let (kind, length) = match fs::symlink_metadata(&path) {
            Ok(found) => (found.file_type(), found.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(failed(source)),
        };
        if kind.is_dir() {
            for entry in fs::read_dir(&path).map_err(failed)? {
                waiting.push(entry.map_err(failed)?.path());
            }
        } else if kind.is_symlink() {
            check_is_inside(root, &path)?;
        } else if !kind.is_file() {
            return Err(OpenError::NotAFile { path });
        } else if length > longest(root, &path) {
            return Err(too_long(longest(root, &path), path));
        }
    }
    Ok(())
}

/// Returns whether an exchange id is safe as a part of a file name.
pub(crate) fn is_id(id: &str) -> bool {
    let harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=128).contains(&id.len()) && !id.starts_with('.') && id.chars().all(harmless)
}

/// Returns whether a blob's name is a SHA-256 digest.
pub(crate) fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads a blob; returns `None` if it does not exist.
pub(crate) fn blob(root: &Path, sha256: &str) -> Result<Option<Vec<u8>>, OpenError> {
    match is_digest(sha256) {
        true => read(root, &file_names::blob(sha256), LONGEST_BODY),
        false => Err(OpenError::Outside { path: root.join(file_names::BLOBS).join(sha256) }),
    }
}

/// Returns the maximum length of a file by its path.
fn longest(root: &Path, path: &Path) -> u64 {
    match path.strip_prefix(root) {
        Ok(name) if name.starts_with(file_names::EXPORTS) => LONGEST_DUMP,
        Ok(name) if name == Path::new(file_names::SCENARIO) => LONGEST_TEXT,
        _ => LONGEST_FILE,
    }
}

fn is_below(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

fn check_is_inside(root: &Path, path: &Path) -> Result<(), OpenError> {
    let outside = || OpenError::Outside { path: path.to_owned() };
    // A link to a missing file counts as one that leads out.
    let real = path.canonicalize().map_err(|_| outside())?;
    let root = root.canonicalize().map_err(|source| OpenError::Io { path: root.to_owned(), source })?;
    if real.starts_with(root) { Ok(()) } else { Err(outside()) }
}

fn too_long(longest: u64, path: PathBuf) -> OpenError {
    OpenError::TooLong { path, longest }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_outside_the_folder_are_not_read() {
        let place = tempfile::tempdir().expect("a folder");
        let root = place.path().join("in");
        fs::create_dir(&root).expect("made");
        fs::write(place.path().join("secret"), "s").expect("written");
        fs::write(root.join("own"), "own").expect("written");
        symlink("../secret", root.join("out")).expect("linked");
        symlink("own", root.join("alias")).expect("linked");
        symlink("nowhere", root.join("dangling")).expect("linked");
        let said = |name: &str| match read(&root, name, 3) {
            Ok(Some(bytes)) => String::from_utf8(bytes).expect("text"),
            Ok(None) => "nothing".to_owned(),
            Err(error) => {
                error.to_string().replace(&format!("{}", place.path().display()), "").replace('`', "")
            }
        };
        for (name, expected) in [
            ("own", "own"),
            ("alias", "own"),
            ("gone", "nothing"),
            ("out", "/in/out leads out of the recording's folder"),
            ("../secret", "/in/../secret leads out of the recording's folder"),
            ("dangling", "cannot read /in/dangling"),
            (".", "/in/. leads out of the recording's folder"),
        ] {
            assert_eq!(said(name), expected, "{name}");
        }
        assert!(check_entries(&root, "").is_err());
        fs::remove_file(root.join("out")).expect("it was there");
        fs::remove_file(root.join("dangling")).expect("it was there");
        assert!(check_entries(&root, "").is_ok());
        fs::write(root.join("own"), "four").expect("written");
        assert_eq!(said("own"), "/in/own is longer than 3 bytes");
    }

    #[test]
    fn names_that_could_lead_elsewhere_are_none() {
        assert!(is_id("r000001") && is_id("req-8_b.2"));
        for id in ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b", "a\u{1b}[2J", &"x".repeat(129)] {
            assert!(!is_id(id), "{id:?}");
        }
        assert!(is_digest(&"0a".repeat(32)));
        assert!(!is_digest(&"0A".repeat(32)) && !is_digest("../../etc/passwd"));
    }
}
