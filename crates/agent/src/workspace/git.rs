//! Files that the settings of a git repository refer to. Git runs or trusts them, wherever they are.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Maximum size of a settings file. Real ones are far smaller.
const MAX_SETTINGS: u64 = 1 << 20;
/// Maximum depth of includes, the same as git's.
const MAX_INCLUDES: usize = 10;

/// Lists the paths that git uses because of a `.git`, or because of a folder that is a repository itself.
pub(super) fn referenced_paths(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut repository = place.to_owned();
    let around = place.parent().unwrap_or(place);
    if let Some(to) = read_text(place).as_deref().and_then(|text| text.strip_prefix("gitdir:")) {
        repository = around.join(to.trim());
        found.push(repository.clone());
    }
    let mut common = repository.clone();
    if let Some(to) = read_text(&repository.join("commondir")) {
        common = repository.join(to.trim());
        found.push(common.clone());
    }
    // Git runs hooks in the work tree, or in the repository if it has none.
    let mut bases = vec![around.to_owned(), repository.clone()];
    let mut hooks = Vec::new();
    for settings in [common.join("config"), repository.join("config.worktree")] {
        read_settings(&settings, 0, &mut |section, key, value| match (section, key) {
            ("core", "hookspath") => hooks.push(value.to_owned()),
            ("core", "worktree") => bases.push(repository.join(value)),
            ("include" | "includeif", "path") => found.push(value.to_owned()),
            _ => {}
        });
    }
    found.extend(hooks.iter().flat_map(|hooks| bases.iter().map(move |base| base.join(hooks))));
    found
}

/// Reads a settings file and the files that it includes.
fn read_settings(settings: &Path, depth: usize, take: &mut impl FnMut(&str, &str, &Path)) {
    let Some(text) = read_text(settings).filter(|_| depth < MAX_INCLUDES) else { return };
    for (section, key, value) in parse_settings(&text) {
        let mut value = expand_home(&value);
        let includes = key == "path" && section.starts_with("include");
        if includes {
            value = settings.parent().unwrap_or(settings).join(value);
        }
        take(&section, &key, &value);
        if includes {
            read_settings(&value, depth + 1, take);
        }
    }
}

fn expand_home(value: &str) -> PathBuf {
    match (value.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(below),
        _ => PathBuf::from(value),
    }
}

/// Parses settings into section, key and value. Section and key are in lower case.
fn parse_settings(text: &str) -> Vec<(String, String, String)> {
    let (mut found, mut section) = (Vec::new(), String::new());
    for line in text.replace("\\\r\n", "").replace("\\\n", "").lines() {
        let mut line = line.trim();
        if let Some(head) = line.strip_prefix('[') {
            // A quoted part may contain a bracket.
            let quoted = head.find('"').and_then(|from| Some(from + 1 + head[from + 1..].rfind('"')? + 1));
            let bracket = head.find(']').filter(|at| head.find('"').is_none_or(|quote| *at < quote));
            let from = if bracket.is_some() { 0 } else { quoted.unwrap_or(0) };
            let Some(end) = head[from..].find(']').map(|at| at + from) else { continue };
            let name = head[..end].split(['"', ' ', '\t']).next().unwrap_or_default();
            section = name.to_lowercase();
            line = head[end + 1..].trim();
        }
        if let Some((key, value)) = line.split_once('=') {
            found.push((section.clone(), key.trim().to_lowercase(), unquote(value.trim())));
        }
    }
    found
}

/// Removes quotes and a trailing comment from a value.
fn unquote(value: &str) -> String {
    let (mut plain, mut quoted) = (String::new(), false);
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => break,
            '\\' => plain.extend(letters.next()),
            letter => plain.push(letter),
        }
    }
    plain.trim_end().to_owned()
}

/// Reads a file as text. A pipe must not block us, so only regular files are read.
fn read_text(path: &Path) -> Option<String> {
    let mut how = File::options();
    let file = how.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).ok()?;
    let mut bytes = Vec::new();
    file.metadata().ok().filter(|found| found.is_file())?;
    file.take(MAX_SETTINGS).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_reads_them() {
        for (text, value) in [
            ("[core]\n\thooksPath = tools/hooks\n", "tools/hooks"),
            ("[CORE]\nHOOKSPATH=tools/hooks # ours", "tools/hooks"),
            ("[core] hooksPath = \"tools/my hooks\" ; ours", "tools/my hooks"),
            ("[core]\nhooksPath = tools/\\\nhooks", "tools/hooks"),
            ("[remote \"a]b\"]\nurl = x\n[core]\nhooksPath = \"a\\\"b#c\"", "a\"b#c"),
        ] {
            let found = parse_settings(text);
            let hooks = found.iter().find(|(section, key, _)| section == "core" && key == "hookspath");
            assert_eq!(hooks.map(|(_, _, value)| value.as_str()), Some(value), "{text}");
        }
        assert_eq!(
            parse_settings("[other]\nhooksPath = x\n[core \"sub\"\nhooksPath"),
            [("other".to_owned(), "hookspath".to_owned(), "x".to_owned())]
        );
    }
}
