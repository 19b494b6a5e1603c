//! Key of the fingerprints. It is in the user's data folder, never in a recording.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use redact::FingerprintKey;
use thiserror::Error;

/// Error with the redaction key.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The file or its folder cannot be read or created.
    #[error("cannot use the redaction key `{}`", path.display())]
    Io {
        /// Key file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The file does not contain a key.
    #[error("the redaction key `{}` is not 64 hex digits", path.display())]
    Malformed {
        /// Key file.
        path: PathBuf,
    },
}

/// Reads the key from `data_dir`. Creates the key and the folder on first use, readable by the user only.
pub fn load_or_create_key(data_dir: &Path) -> Result<FingerprintKey, KeyError> {
    let path = data_dir.join("redaction.key");
    let text =
        read_or_create(data_dir, &path).map_err(|source| KeyError::Io { path: path.clone(), source })?;
    let bytes = from_hex(text.trim()).ok_or(KeyError::Malformed { path })?;
    Ok(FingerprintKey::from_bytes(bytes))
}

fn read_or_create(data_dir: &Path, path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
    let mut random = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    // Two processes may do this at once: the first to link its file wins.
    let mine = data_dir.join(format!("redaction.key.{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&mine)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&mine, path);
    fs::remove_file(&mine)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::read_to_string(path),
    }
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_is_the_users_alone() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let dir = home.path().join("data/offshoot");
        load_or_create_key(&dir).expect("made");
        let path = dir.join("redaction.key");
        let first = fs::read_to_string(&path).expect("written");
        load_or_create_key(&dir).expect("read");
        assert_eq!(fs::read_to_string(&path).expect("still there"), first);
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&dir)), (0o600, 0o700));
        fs::write(&path, "short").expect("writable");
        assert!(matches!(load_or_create_key(&dir), Err(KeyError::Malformed { .. })));
    }
}
