//! Which files to read.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Imported, Leaving, Piece, claude, opencode};
use crate::error::HarnessError;
use crate::sandbox::below;

/// Reads the session that these files or folders hold.
///
/// A transcript brings its sub-agents' transcripts along; of a recording's folder, only `exports/` is read. What a
/// folder holds besides is passed over; a file that is named must be what it should be.
pub fn import(source: Leaving, paths: &[impl AsRef<Path>]) -> Result<Imported, HarnessError> {
    let mut files: Vec<Piece> = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let found = match path.is_dir() {
            true => folder(source, path)?,
            false => named(source, path)?,
        };
        for piece in found {
            if !files.iter().any(|known| known.name == piece.name) {
                files.push(piece);
            }
        }
    }
    Ok(source.read(&files))
}

fn folder(source: Leaving, path: &Path) -> Result<Vec<Piece>, HarnessError> {
    let exports = path.join("exports");
    let path = if exports.is_dir() { &exports } else { path };
    let mut found = Vec::new();
    let mut is_there = false;
    for file in below(path).map_err(HarnessError::io("read", path))? {
        let kind = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        let wanted = match source {
            Leaving::OpencodeExport => kind == "json",
            Leaving::ClaudeTranscript => kind == "jsonl" || is_meta(&file),
        };
        if !wanted || !file.is_file() {
            continue;
        }
        let piece = piece(&file)?;
        if is_such(source, &piece) {
            is_there = true;
        } else if !is_meta(&file) {
            continue;
        }
        found.push(piece);
    }
    if is_there { Ok(found) } else { Err(nothing(source, path)) }
}

fn named(source: Leaving, path: &Path) -> Result<Vec<Piece>, HarnessError> {
    let piece = piece(path)?;
    if source == Leaving::OpencodeExport
        && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&piece.bytes)
    {
        let what = format!("`{}` is not JSON: {error}", path.display());
        return Err(HarnessError::you(what, "make it anew: `opencode export SESSION > session.json`"));
    }
    if !is_such(source, &piece) {
        let what = format!("`{}` is not {}", path.display(), source.called());
        return Err(HarnessError::you(what, hint(source)));
    }
    let mut found = vec![piece];
    if source == Leaving::ClaudeTranscript {
        found.extend(agents_of(path, &found[0])?);
    }
    Ok(found)
}

/// The transcripts of a session's sub-agents: in a folder named after it, or beside it.
fn agents_of(path: &Path, main: &Piece) -> Result<Vec<Piece>, HarnessError> {
    let session = claude::session_of(&main.bytes);
    let mut found = Vec::new();
    let own = path.with_extension("");
    let beside = path.parent().filter(|beside| !beside.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_agent = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("agent-") && (name.ends_with(".jsonl") || is_meta(file)) && file != path
    };
    let list = |folder: &Path| -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
        let mut files = entries.collect::<io::Result<Vec<_>>>()?;
        files.sort();
        Ok(files)
    };
    let siblings = list(beside).map_err(HarnessError::io("read", beside))?;
    let inside = match own.is_dir() {
        true => below(&own).map_err(HarnessError::io("read", &own))?,
        false => Vec::new(),
    };
    for file in siblings.iter().chain(&inside).filter(|file| is_agent(file)) {
        let piece = piece(file)?;
        if is_meta(file) || claude::session_of(&piece.bytes) == session {
            found.push(piece);
        }
    }
    Ok(found)
}

fn is_such(source: Leaving, piece: &Piece) -> bool {
    match source {
        Leaving::OpencodeExport => opencode::is_export(&piece.bytes),
        Leaving::ClaudeTranscript => claude::session_of(&piece.bytes).is_some(),
    }
}

fn is_meta(file: &Path) -> bool {
    file.to_string_lossy().ends_with(claude::META)
}

fn piece(path: &Path) -> Result<Piece, HarnessError> {
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => HarnessError::you(
            format!("there is no `{}`", path.display()),
            "give a file or a folder that exists",
        ),
        _ => HarnessError::io("read", path)(error),
    })?;
    Ok(Piece { name: path.display().to_string(), bytes })
}

fn nothing(source: Leaving, path: &Path) -> HarnessError {
    HarnessError::you(format!("there is not {} in `{}`", source.called(), path.display()), hint(source))
}

fn hint(source: Leaving) -> &'static str {
    match source {
        Leaving::OpencodeExport => "make one: `opencode export SESSION > session.json`",
        Leaving::ClaudeTranscript => {
            "they are below `~/.claude/projects`, one folder for each folder worked in"
        }
    }
}
