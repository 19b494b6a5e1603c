//! Copies foreign files into a recording without their secrets.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use redact::{RedactionWindow, Redactor};

use crate::recorder::FinishedRecording;

/// Maximum size of a file that is searched in one piece.
const WHOLE: u64 = 8 << 20;
/// Maximum number of times that all files are copied again because one of them taught the redactor a secret.
const MOST_PASSES: usize = 4;

/// File to copy into a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileImport {
    /// Name in the recording, with folders.
    pub name: String,
    /// Path of the original.
    pub path: PathBuf,
}

impl FinishedRecording {
    /// Copies files into the recording in `dir` without their secrets. A secret that one file reveals is also
    /// removed from the other files and from everything recorded before.
    pub fn import_files(&mut self, dir: &Path, files: &[FileImport]) -> io::Result<()> {
        for _ in 0..MOST_PASSES {
            let known = self.redactor.generation();
            for file in files {
                copy(&mut self.redactor, dir, file)?;
            }
            if self.redactor.generation() == known {
                break;
            }
            self.learned_late = true;
        }
        Ok(())
    }

    /// Writes our own text into the recording in `dir` without its secrets.
    pub fn write_text(&mut self, dir: &Path, name: &str, text: &[u8]) -> io::Result<()> {
        let known = self.redactor.generation();
        let text = self.redactor.redact_text(name, text).bytes.into_owned();
        self.learned_late |= self.redactor.generation() != known;
        fs::write(dir.join(name), text)
    }
}

fn copy(redactor: &mut Redactor, dir: &Path, file: &FileImport) -> io::Result<()> {
    let name =
        String::from_utf8_lossy(&redactor.redact_text("file name", file.name.as_bytes()).bytes).into_owned();
    let path = dir.join(&name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let from = File::open(&file.path)?;
    if from.metadata()?.len() <= WHOLE {
        let mut bytes = Vec::new();
        BufReader::new(from).read_to_end(&mut bytes)?;
        return fs::write(path, redactor.redact_text(&name, &bytes).bytes);
    }
    let mut from = BufReader::with_capacity(1 << 20, from);
    let mut to = BufWriter::new(File::create(path)?);
    let mut window = RedactionWindow::new(&name, None);
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            to.write_all(&window.finish(redactor))?;
            return to.flush();
        }
        to.write_all(&window.push(redactor, &piece[..read]))?;
    }
}

#[cfg(test)]
mod tests {
    use redact::FingerprintKey;

    use super::*;

    #[test]
    fn secrets_of_the_last_file_are_removed_from_the_first() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let from = |name: &str, text: &str| {
            let path = place.path().join(name);
            fs::write(&path, text).expect("written");
            FileImport { name: format!("workspace/sub/{name}"), path }
        };
        let files =
            [from("a.txt", "it is qW8zr4Tn1pLx, they say\n"), from("b.env", "DB_PASSWORD=qW8zr4Tn1pLx\n")];
        let dir = place.path().join("rec");
        let mut finished = FinishedRecording {
            redactor: Redactor::new(FingerprintKey::from_bytes([7; 32])),
            counts: crate::Counts::default(),
            losses: Vec::new(),
            unsearched: Vec::new(),
            learned_late: false,
        };
        finished.import_files(&dir, &files).expect("copied");
        for name in ["a.txt", "b.env"] {
            let text = fs::read_to_string(dir.join("workspace/sub").join(name)).expect("there");
            assert!(!text.contains("qW8zr4Tn1pLx"), "{name}: {text}");
        }
        assert!(finished.learned_late, "so that what was recorded before is searched again");
    }
}
