//! Decides whether the command of a hook may use a file of the workspace, which an agent may have written.
//!
//! The command is read as words, not run. What its shell would only learn at run time counts as such a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::{NoExpand, Regex};

use crate::workspace::normalize;

/// Variables with the workspace: ours, and that of Claude Code.
pub(super) const VARIABLES: [&str; 2] = ["OFFSHOOT_WORKSPACE", "CLAUDE_PROJECT_DIR"];

/// Words of commands that take names of files from elsewhere: the input of the hook has the workspace as `cwd`.
const INDIRECT: [&str; 4] = ["cwd", "eval", "parallel", "xargs"];

/// Words before a folder that relative names after it start from.
const FOLDER_SWITCHES: &[&str] = &["cd", "pushd", "-C", "--chdir", "--directory"];

/// Characters that end a word, besides white space.
const SEPARATORS: &str = ";|&()<>=,:`{}";

/// Maximum number of folders that relative names are looked up in. With more, a command counts as dynamic.
const MAX_STARTS: usize = 32;

/// Returns whether a command may use a file of the workspace. Files beside the settings, in `folder`, are the user's own, also if
/// their folder is in the workspace.
pub(super) fn names_workspace_file(command: &str, folder: &Path, workspace: &Path) -> bool {
    let command = with_home(command);
    let Some(names) = names(&command, folder).filter(|_| !is_dynamic(&command)) else { return true };
    // A path with characters that end words is in no single word.
    let workspace_text = workspace.to_string_lossy();
    let is_split = workspace_text.contains(ends_word) && unquoted(&command).contains(&*workspace_text);
    is_split || names.iter().any(|path| is_foreign(path, folder, workspace))
}

/// Returns whether a path is in a folder, by its words or by what its links lead to.
pub(super) fn is_inside(path: &Path, folder: &Path) -> bool {
    normalize(path).starts_with(normalize(folder)) || real(path).starts_with(real(folder))
}

fn is_foreign(path: &Path, folder: &Path, workspace: &Path) -> bool {
    let is_beside_settings =
        real(path).starts_with(real(folder)) && !real(workspace).starts_with(real(folder));
    is_inside(path, workspace) && !is_beside_settings
}

/// Returns a path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| normalize(path))
}

/// Replaces the variable with the user's folder, and removes `$?`, which is a number.
fn with_home(command: &str) -> String {
    static HOME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\$\{HOME\}|\$HOME\b").expect("it is tested"));
    HOME.replace_all(command, NoExpand(&home())).replace("$?", "")
}

fn home() -> String {
    std::env::var("HOME").unwrap_or_default()
}

/// Returns whether a command has parts that its shell replaces, or gets names of files from elsewhere.
fn is_dynamic(command: &str) -> bool {
    VARIABLES.iter().chain(&INDIRECT).any(|name| command.contains(name))
        || command.contains(['$', '`', '*', '?'])
        || has_alternatives(command, '[', ']', |_| true)
        || has_alternatives(command, '{', '}', |inner| inner.contains(',') || inner.contains(".."))
        || words(command).any(|word| word.starts_with('~') && word != "~" && !word.starts_with("~/"))
}

/// Returns whether a word has brackets around a text without quotes that is one of several.
fn has_alternatives(command: &str, open: char, close: char, is_several: impl Fn(&str) -> bool) -> bool {
    command.split(char::is_whitespace).any(|word| {
        word.match_indices(open).any(|(at, _)| {
            let inner = word[at + 1..].split_once(close).map(|(inner, _)| inner);
            inner.is_some_and(|inner| !inner.is_empty() && !inner.contains(['"', '\'']) && is_several(inner))
        })
    })
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || SEPARATORS.contains(c)
}

fn unquoted(text: &str) -> String {
    text.replace(['"', '\'', '\\'], "")
}

/// Returns the words of a command without quotes.
fn words(command: &str) -> impl Iterator<Item = String> {
    command.split(ends_word).map(unquoted).filter(|word| !word.is_empty())
}

/// Returns each word as a path: in the folder of the settings, and in each folder that the command may change to. Returns `None`
/// if there are too many.
fn names(command: &str, folder: &Path) -> Option<Vec<PathBuf>> {
    let home = PathBuf::from(home());
    let mut starts = BTreeSet::from([folder.to_owned()]);
    let mut names = Vec::new();
    let mut is_switch = false;
    for word in words(command) {
        let path = word.strip_prefix('~').map(|rest| home.join(rest.trim_start_matches('/')));
        let path = path.unwrap_or_else(|| PathBuf::from(&word));
        let value = word.get(2..).filter(|_| word.starts_with('-')); // of an option like `-C/folder`
        let places: Vec<PathBuf> = starts.iter().map(|start| start.join(&path)).collect();
        names.extend(starts.iter().filter_map(|start| Some(start.join(value?))));
        if is_switch {
            starts.extend(places.iter().cloned());
        }
        names.extend(places);
        is_switch = FOLDER_SWITCHES.contains(&word.as_str());
        if is_switch {
            starts.insert(home.clone()); // of `cd` without a folder
        }
        if starts.len() > MAX_STARTS {
            return None;
        }
    }
    Some(names)
}
