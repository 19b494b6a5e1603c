//! Copies foreign files into a recording without their secrets.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use redact::{RedactionWindow, Redactor, SearchGap};

use crate::loss::Loss;
use crate::recorder::FinishedRecording;

/// Maximum size of a text that is searched in one piece.
const WHOLE: u64 = 8 << 20;
/// Maximum size of binary data that is searched in one piece, with what is packed inside of it.
const WHOLE_BINARY: u64 = 32 << 20;
/// Maximum number of times that all files are read because one of them revealed another secret.
const MOST_PASSES: usize = 4;
/// Size of the pieces in which longer files are read.
const PIECE: usize = 1 << 20;

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
    /// removed from the other files and from everything recorded before. Binary data with a secret is not copied.
    pub fn import_files(&mut self, dir: &Path, files: &[FileImport]) -> io::Result<()> {
        // All files are searched before the first one is written, because the last one may reveal a secret of the
        // first one.
        for _ in 0..MOST_PASSES {
            let known = self.redactor.generation();
            for file in files {
                ImportedFile::open(&mut self.redactor, file)?.search(&mut self.redactor, &mut |_| Ok(()))?;
            }
            if self.redactor.generation() == known {
                break;
            }
            self.learned_late = true;
        }
        for file in files {
            self.copy(dir, file)?;
        }
        Ok(())
    }

    /// Learns the secrets of a text that is written later.
    pub fn learn_text(&mut self, name: &str, text: &[u8]) {
        let known = self.redactor.generation();
        self.redactor.redact_text(name, text);
        self.learned_late |= self.redactor.generation() != known;
    }

    /// Writes our own text into the recording in `dir` without its secrets.
    pub fn write_text(&mut self, dir: &Path, name: &str, text: &[u8]) -> io::Result<()> {
        let known = self.redactor.generation();
        let text = self.redactor.redact_text(name, text).bytes.into_owned();
        self.learned_late |= self.redactor.generation() != known;
        fs::write(dir.join(name), text)
    }

    fn copy(&mut self, dir: &Path, file: &FileImport) -> io::Result<()> {
        let from = ImportedFile::open(&mut self.redactor, file)?;
        let (name, bytes) = (from.name.clone(), from.bytes);
        let path = dir.join(&name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut to = None;
        let searched = from.search(&mut self.redactor, &mut |bytes| {
            let to = match &mut to {
                Some(to) => to,
                empty => empty.insert(BufWriter::new(File::create(&path)?)),
            };
            to.write_all(bytes)
        })?;
        if let Some(mut to) = to {
            to.flush()?;
        }
        if searched.is_refused {
            let reason = "it is binary data with a secret inside".to_owned();
            self.losses.push(Loss { request_id: None, what: format!("`{name}`"), bytes, reason });
        }
        self.unsearched.extend(searched.unsearched.map(|why| format!("`{name}`: {why}")));
        Ok(())
    }
}

/// File that is read for a recording.
struct ImportedFile {
    /// Name in the recording, without secrets.
    name: String,
    bytes: u64,
    reader: BufReader<File>,
}

/// Result of the search in a file.
#[derive(Default)]
struct FileSearch {
    /// True if the file must not be kept. Nothing of it was written.
    is_refused: bool,
    /// Parts that could not be searched.
    unsearched: Option<SearchGap>,
}

impl ImportedFile {
    fn open(redactor: &mut Redactor, file: &FileImport) -> io::Result<Self> {
        let name = redactor.redact_text("file name", file.name.as_bytes()).bytes;
        let from = File::open(&file.path)?;
        Ok(Self {
            name: String::from_utf8_lossy(&name).into_owned(),
            bytes: from.metadata()?.len(),
            reader: BufReader::with_capacity(PIECE, from),
        })
    }

    /// Searches the file, and gives its redacted bytes to `write`.
    fn search(
        mut self,
        redactor: &mut Redactor,
        write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<FileSearch> {
        let is_binary = redact::is_binary(self.reader.fill_buf()?);
        let is_whole = self.bytes <= if is_binary { WHOLE_BINARY } else { WHOLE };
        if !is_whole {
            return self.search_pieces(redactor, is_binary, write);
        }
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes)?;
        let redacted = redactor.redact_text(&self.name, &bytes);
        let is_refused = !redacted.is_clean() && redact::is_binary(&bytes);
        if !is_refused {
            write(&redacted.bytes)?;
        }
        Ok(FileSearch { is_refused, unsearched: redacted.unsearched })
    }

    fn search_pieces(
        mut self,
        redactor: &mut Redactor,
        is_binary: bool,
        write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<FileSearch> {
        let mut window = RedactionWindow::new(&self.name, None);
        let mut piece = vec![0; PIECE];
        loop {
            let read = self.reader.read(&mut piece)?;
            if read == 0 {
                break;
            }
            write(&window.push(redactor, &piece[..read]))?;
        }
        write(&window.finish(redactor))?;
        let most = WHOLE_BINARY >> 20;
        let too_long = is_binary.then(|| SearchGap::Parts(format!("binary data of more than {most} MiB")));
        Ok(FileSearch { is_refused: false, unsearched: too_long.or(window.unsearched()) })
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
