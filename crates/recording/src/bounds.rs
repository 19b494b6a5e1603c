//! What may be read of a folder that anybody may have written: whole files inside it, none of them longer than
//! such a file can be.
//!
//! Every read of a recording goes through here. A link that leaves the folder is refused, so is whatever is neither
//! a file nor a folder (a pipe would be waited for without end), and a length is looked at before the bytes are.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use crate::folder;
use crate::open::OpenError;

/// The longest manifest, scenario or other file of ours that is not a body.
pub(crate) const LONGEST_TEXT: u64 = 64 << 20;
/// The longest dump: other tools put whole bodies there, and JSON may spell a byte in six.
pub(crate) const LONGEST_DUMP: u64 = 256 << 20;
/// The longest body.
pub(crate) const LONGEST_BODY: u64 = 1 << 30;
/// The longest file of any kind: all of them are read to compare digests.
const LONGEST_FILE: u64 = 4 << 30;

/// A file's bytes; `None` where there is no such file.
pub(crate) fn read(root: &Path, name: &str, longest: u64) -> Result<Option<Vec<u8>>, OpenError> {
    let Some((file, path)) = open(root, name, longest)? else { return Ok(None) };
    let mut bytes = Vec::new();
    // It may grow while it is read.
    match file.take(longest + 1).read_to_end(&mut bytes) {
        Err(source) => Err(OpenError::Io { path, source }),
        Ok(read) if read as u64 > longest => Err(too_long(longest, path)),
        Ok(_) => Ok(Some(bytes)),
    }
}

/// A file, open; `None` where there is no such file.
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

/// Where a file is and how long it is; `None` where there is no such file.
pub(crate) fn file(root: &Path, name: &str) -> Result<Option<(PathBuf, u64)>, OpenError> {
    let path = root.join(name);
    if !is_below(name) {
        return Err(OpenError::Outside { path });
    }
    let found = match fs::metadata(&path) {
        Ok(found) => found,
        // A link to nowhere is there.
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {
            return Ok(None);
        }
        Err(source) => return Err(OpenError::Io { path, source }),
    };
    stays(root, &path)?;
    match found.is_file() {
        true => Ok(Some((path, found.len()))),
        false => Err(OpenError::NotAFile { path }),
    }
}

/// Whether a folder is there, and not elsewhere.
pub(crate) fn has_folder(root: &Path, name: &str) -> Result<bool, OpenError> {
    let path = root.join(name);
    if !path.is_dir() {
        return Ok(false);
    }
    stays(root, &path).map(|()| true)
}

/// Refuses a folder in which a link leads out, in which there is something that is neither file nor folder, or a file
/// that nobody can have written.
pub(crate) fn look_through(root: &Path, name: &str) -> Result<(), OpenError> {
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
            stays(root, &path)?;
        } else if !kind.is_file() {
            return Err(OpenError::NotAFile { path });
        } else if length > longest(root, &path) {
            return Err(too_long(longest(root, &path), path));
        }
    }
    Ok(())
}

/// A name of a dump that cannot lead anywhere else.
pub(crate) fn is_id(id: &str) -> bool {
    let harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=128).contains(&id.len()) && !id.starts_with('.') && id.chars().all(harmless)
}

/// The name of a blob: the digest of its bytes.
pub(crate) fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A blob's bytes; `None` where there is none of that name.
pub(crate) fn blob(root: &Path, sha256: &str) -> Result<Option<Vec<u8>>, OpenError> {
    match is_digest(sha256) {
        true => read(root, &folder::blob(sha256), LONGEST_BODY),
        false => Err(OpenError::Outside { path: root.join(folder::BLOBS).join(sha256) }),
    }
}

/// The longest that a file may be, by its place.
fn longest(root: &Path, path: &Path) -> u64 {
    match path.strip_prefix(root) {
        Ok(name) if name.starts_with(folder::EXPORTS) => LONGEST_DUMP,
        Ok(name) if name == Path::new(folder::SCENARIO) => LONGEST_TEXT,
        _ => LONGEST_FILE,
    }
}

fn is_below(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

fn stays(root: &Path, path: &Path) -> Result<(), OpenError> {
    let outside = || OpenError::Outside { path: path.to_owned() };
    // A link to nowhere leads out, as far as anybody can say.
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
    fn only_what_is_inside_is_read() {
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
        assert!(look_through(&root, "").is_err());
        fs::remove_file(root.join("out")).expect("it was there");
        fs::remove_file(root.join("dangling")).expect("it was there");
        assert!(look_through(&root, "").is_ok());
        fs::write(root.join("own"), "four").expect("written");
        assert_eq!(said("own"), "/in/own is longer than such a file can be (3 bytes)");
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
