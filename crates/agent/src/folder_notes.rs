//! Instructions and skills of folders. A run gets them with the result of the call that first reads or writes a file there, once,
//! and again after a summary.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{FolderNote, FolderText, SeenFile};

use crate::context;
use crate::conversation::Conversation;
use crate::definition::Skill;
use crate::error::RunError;
use crate::fence::fenced;
use crate::run::Run;
use crate::workspace::Workspace;

/// Maximum length of all instructions of folders that a run gets, and maximum number of folders.
const MAX_BYTES: usize = 64 << 10;
const MAX_FOLDERS: usize = 100;

/// Returns the instructions of the folders of these files that the run has not got yet, outer folders first. The instructions of
/// the workspace itself are in the context.
pub(crate) fn of_files(
    run: &Run,
    workspace: &Workspace,
    files: &[SeenFile],
) -> Result<Vec<FolderText>, RunError> {
    let mut folders: Vec<PathBuf> = files.iter().flat_map(|file| folders_of(workspace, &file.path)).collect();
    folders.sort();
    folders.dedup();
    if folders.is_empty() {
        return Ok(Vec::new());
    }
    let known = run.kernel.store.run(run.id()).folder_notes()?;
    folders.retain(|folder| known.iter().all(|note| note.folder != *folder));
    let mut used: usize = known.iter().map(|note| note.text.len()).sum();
    let mut new = Vec::new();
    for folder in folders.into_iter().take(MAX_FOLDERS.saturating_sub(known.len())) {
        let Some(text) = text_of(run, workspace, &folder, MAX_BYTES.saturating_sub(used)) else { continue };
        used += text.len();
        new.push(FolderText { folder, text });
    }
    Ok(new)
}

/// Returns the folders above a file within the workspace, outer ones first, without the workspace itself.
fn folders_of(workspace: &Workspace, file: &Path) -> Vec<PathBuf> {
    let inside = file.strip_prefix(workspace.path()).unwrap_or(file);
    let mut folders: Vec<PathBuf> = inside.ancestors().skip(1).map(Path::to_owned).collect();
    folders.retain(|folder| !folder.as_os_str().is_empty() && folder.is_relative());
    folders.reverse();
    folders
}

fn text_of(run: &Run, workspace: &Workspace, folder: &Path, most: usize) -> Option<String> {
    let own = run.kernel.folder_skills.as_ref().map(|skills| skills.in_folder(folder)).unwrap_or_default();
    let skills: Vec<Skill> = own
        .into_iter()
        .filter(|skill| run.kernel.skills.iter().all(|known| known.name != skill.name))
        .collect();
    let parts = [context::instructions(workspace, Some(folder)), context::skills(&skills)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return None;
    }
    let name = context::folder_name(folder);
    let text = parts.join("\n\n");
    let text = match text.len() <= most {
        true => text,
        false => "It has instructions for agents that are too long to show here; use `read`.".to_owned(),
    };
    Some(format!("<context>\nAbout the folder `{}`:\n{text}\n</context>", fenced(&name)))
}

/// Returns the instructions that came with the results of the last reply's calls.
pub(crate) fn texts(run: &Run, conversation: &Conversation) -> Result<Vec<String>, RunError> {
    let Some(reply) = conversation.last_reply().filter(|_| !conversation.calls().is_empty()) else {
        return Ok(Vec::new());
    };
    let notes = run.kernel.store.run(run.id()).folder_notes()?;
    let own = notes.into_iter().filter(|note| note.call.run == *run.id() && note.call.message == reply);
    Ok(own.map(|note| note.text).collect())
}

/// Returns all instructions that came with calls before a message, to repeat them after a summary.
pub(crate) fn before(run: &Run, first_kept: Option<store::Seq>) -> Result<Vec<String>, RunError> {
    let notes = run.kernel.store.run(run.id()).folder_notes()?;
    let is_gone = |note: &FolderNote| first_kept.is_none_or(|first| note.call.message < first);
    Ok(notes.into_iter().filter(is_gone).map(|note| note.text).collect())
}

/// Returns the skills of a run: those of the workspace and the user, and those of the folders that it has got.
pub(crate) fn skills(run: &Run) -> Result<Arc<[Skill]>, RunError> {
    let all = &run.kernel.skills;
    let Some(found) = &run.kernel.folder_skills else { return Ok(Arc::clone(all)) };
    let notes = run.kernel.store.run(run.id()).folder_notes()?;
    if notes.is_empty() {
        return Ok(Arc::clone(all));
    }
    let mut skills = all.to_vec();
    for skill in notes.iter().flat_map(|note| found.in_folder(&note.folder)) {
        if skills.iter().all(|known| known.name != skill.name) {
            skills.push(skill);
        }
    }
    Ok(skills.into())
}
