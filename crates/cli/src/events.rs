//! The lines of `run --json` as they were printed, kept for a reader that lost its pipe.
//!
//! One file for each tree of runs, below the data folder. A line is in it before it is printed, so whoever has seen a
//! number finds what comes behind it. It is no journal: nothing waits for the disk, and nobody reads it to go on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use serde_json::Value;
use session::RunId;

use crate::paths;

/// How much of a file's end is looked at to find its last number; one line may be longer, and is then read whole.
const TAIL: u64 = 64 << 10;

/// The file of one tree, while its lines are written.
pub(crate) struct Log {
    file: File,
    next: u64,
}

impl Log {
    /// Opens the file of a tree, or makes it; the numbers go on behind the last line that is whole.
    pub(crate) fn open(root: &RunId) -> io::Result<Self> {
        let path = path(root)?;
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let (whole, last) = last_line(&mut file)?;
        // What was being written when its process was killed was never printed.
        file.set_len(whole)?;
        let seq = serde_json::from_slice::<Value>(&last).ok().and_then(|line| line["seq"].as_u64());
        Ok(Self { file, next: seq.unwrap_or_default() + 1 })
    }

    /// The number of the next line.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn append(&mut self, line: &str) -> io::Result<()> {
        self.next += 1;
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

/// The whole lines of a tree behind a number, as they were printed: all of them, or those of one run and of those below
/// it. Nothing where none were ever kept.
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
    let harmless = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if root.as_str().is_empty() || !root.as_str().chars().all(harmless) {
        return Err(io::Error::other(format!("`{root}` is no name for a file")));
    }
    let data = paths::data_dir().map_err(io::Error::other)?;
    Ok(data.join("events").join(format!("{root}.jsonl")))
}

/// How long the file is up to its last whole line, and that line.
fn last_line(file: &mut File) -> io::Result<(u64, Vec<u8>)> {
    let length = file.metadata()?.len();
    let mut tail = Vec::new();
    for looked_at in [TAIL.min(length), length] {
        tail.clear();
        file.seek(SeekFrom::Start(length - looked_at))?;
        io::Read::by_ref(file).take(looked_at).read_to_end(&mut tail)?;
        let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else { continue };
        let begins = tail[..end].iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        if let Some(begins) = begins.or((looked_at == length).then_some(0)) {
            return Ok((length - looked_at + end as u64 + 1, tail[begins..end].to_vec()));
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
    fn a_line_that_broke_off_does_not_count() {
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
