//! Keeps the lines of `run --json`, for a reader that lost its pipe.
//!
//! Each run tree has one file in the data folder. A line is written there before it is printed, so a reader that has seen
//! a number finds all later lines. The file is not a journal: nothing waits for the disk, and no run resumes from it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use serde_json::Value;
use session::RunId;

use crate::paths;

/// Number of bytes that are read from the end to find the last number. A longer last line is read whole.
const TAIL: u64 = 64 << 10;

/// The event file of one run tree, open for writing.
pub(crate) struct EventLog {
    file: File,
    next: u64,
}

impl EventLog {
    /// Opens or creates the file of a tree. Numbers continue after the last complete line.
    pub(crate) fn open(root: &RunId) -> io::Result<Self> {
        let path = path(root)?;
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let (whole, last) = last_line(&mut file)?;
        // An incomplete line was never printed.
        file.set_len(whole)?;
        let seq = serde_json::from_slice::<Value>(&last).ok().and_then(|line| line["seq"].as_u64());
        Ok(Self { file, next: seq.unwrap_or_default() + 1 })
    }

    /// Returns the number of the next line.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Appends a line.
    pub(crate) fn append(&mut self, line: &str) -> io::Result<()> {
        self.next += 1;
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

/// Reads the complete lines of a tree after a number, either all or those of one run and its descendants. Returns `None`
/// if no lines were ever kept.
pub(crate) fn read(root: &RunId, of: &RunId, after: u64) -> io::Result<Option<String>> {
    let text = match fs::read_to_string(path(root)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let wanted = |line: &&str| {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return false };
        let run = line["run"].as_str().unwrap_or_default();
        let is_below =
            run.strip_prefix(of.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        (root == of || is_below) && line["seq"].as_u64().is_some_and(|seq| seq > after)
    };
    Ok(Some(whole.split_inclusive('\n').filter(wanted).collect()))
}

fn path(root: &RunId) -> io::Result<PathBuf> {
    // An id may come from the environment.
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if root.as_str().is_empty() || !root.as_str().chars().all(is_allowed) {
        return Err(io::Error::other(format!("`{root}` is not a valid file name")));
    }
    let data = paths::data_dir().map_err(io::Error::other)?;
    Ok(data.join("events").join(format!("{root}.jsonl")))
}

/// Returns the length of the file up to its last complete line, and that line.
fn last_line(file: &mut File) -> io::Result<(u64, Vec<u8>)> {
    let length = file.metadata()?.len();
    let mut tail = Vec::new();
    for length_read in [TAIL.min(length), length] {
        tail.clear();
        file.seek(SeekFrom::Start(length - length_read))?;
        io::Read::by_ref(file).take(length_read).read_to_end(&mut tail)?;
        let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else { continue };
        let begins = tail[..end].iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        if let Some(begins) = begins.or((length_read == length).then_some(0)) {
            return Ok((length - length_read + end as u64 + 1, tail[begins..end].to_vec()));
        }
    }
    Ok((0, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        file
    }

    #[test]
    fn an_incomplete_line_is_ignored() {
        let last = |text: &str| {
            let (whole, line) = last_line(&mut file(text)).expect("read");
            (whole, String::from_utf8(line).expect("text"))
        };
        assert_eq!(last(""), (0, String::new()));
        assert_eq!(last("{\"seq\":1"), (0, String::new()));
        assert_eq!(last("one\n"), (4, "one".to_owned()));
        assert_eq!(last("one\ntwo\n"), (8, "two".to_owned()));
        assert_eq!(last("one\ntwo\nthr"), (8, "two".to_owned()));
        let long = "x".repeat(200_000);
        assert_eq!(last(&format!("one\n{long}\nthr")), (4 + 200_001, long.clone()));
        assert_eq!(last(&format!("one\n{long}")), (4, "one".to_owned()));
    }
}
