//! Selects the files to import.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{ImportSource, ImportedSession, SourceFile, claude, opencode};
use crate::error::HarnessError;
use crate::sandbox::below;

/// Imports the session in these files or folders.
///
/// A transcript includes the transcripts of its sub-agents. Of a recording's folder, only `exports/` is read.
/// Other files in a folder are skipped; a named file must have the right format.
pub fn import(source: ImportSource, paths: &[impl AsRef<Path>]) -> Result<ImportedSession, HarnessError> {
    let mut files: Vec<SourceFile> = Vec::new();
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

fn folder(source: ImportSource, path: &Path) -> Result<Vec<SourceFile>, HarnessError> {
    let exports = path.join("exports");
    let path = if exports.is_dir() { &exports } else { path };
    let mut found = Vec::new();
    let mut is_there = false;
    for file in below(path).map_err(HarnessError::io("read", path))? {
        let kind = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        let wanted = match source {
            ImportSource::OpencodeExport => kind == "json",
            ImportSource::ClaudeTranscript => kind == "jsonl" || is_meta(&file),
        };
        if !wanted || !file.is_file() {
            continue;
        }
        let piece = piece(&file)?;
        if has_format(source, &piece) {
            is_there = true;
        } else if !is_meta(&file) {
            continue;
        }
        found.push(piece);
    }
    if is_there { Ok(found) } else { Err(nothing(source, path)) }
}

fn named(source: ImportSource, path: &Path) -> Result<Vec<SourceFile>, HarnessError> {
    let piece = piece(path)?;
    if source == ImportSource::OpencodeExport
        && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&piece.bytes)
    {
        let what = format!("`{}` is not JSON: {error}", path.display());
        return Err(HarnessError::usage(what, "create it again: `opencode export SESSION > session.json`"));
    }
    if !has_format(source, &piece) {
        let what = format!("`{}` is not {}", path.display(), source.description());
        return Err(HarnessError::usage(what, hint(source)));
    }
    let mut found = vec![piece];
    if source == ImportSource::ClaudeTranscript {
        found.extend(agents_of(path, &found[0])?);
    }
    Ok(found)
}

/// Finds the transcripts of a session's sub-agents, in a folder with its name or beside it.
fn agents_of(path: &Path, main: &SourceFile) -> Result<Vec<SourceFile>, HarnessError> {
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

fn has_format(source: ImportSource, piece: &SourceFile) -> bool {
    match source {
        ImportSource::OpencodeExport => opencode::is_export(&piece.bytes),
        ImportSource::ClaudeTranscript => claude::session_of(&piece.bytes).is_some(),
    }
}

fn is_meta(file: &Path) -> bool {
    file.to_string_lossy().ends_with(claude::META)
}

fn piece(path: &Path) -> Result<SourceFile, HarnessError> {
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => HarnessError::usage(
            format!("there is no `{}`", path.display()),
            "name an existing file or folder",
        ),
        _ => HarnessError::io("read", path)(error),
    })?;
    Ok(SourceFile { name: path.display().to_string(), bytes })
}

fn nothing(source: ImportSource, path: &Path) -> HarnessError {
    HarnessError::usage(
        format!("`{}` does not contain {}", path.display(), source.description()),
        hint(source),
    )
}

fn hint(source: ImportSource) -> &'static str {
    match source {
        ImportSource::OpencodeExport => "create one: `opencode export SESSION > session.json`",
        ImportSource::ClaudeTranscript => {
            "they are below `~/.claude/projects`, one folder for each folder worked in"
        }
    }
}
