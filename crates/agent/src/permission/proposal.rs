//! The rules that allow one call from now on, as a question offers them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::line::Word;
use super::rule::{Rule, Subject};
use super::{FILES, WALKS, allows, subject};
use crate::workspace::Workspace;

/// Characters with a meaning in the pattern of a rule.
const SPECIAL: &[char] = &['*', '?', '[', ']', '{', '}', '\\', '!'];

/// Returns rules that allow exactly such a call: its commands, its path, its host, or a tool without patterns. Returns
/// none if no rule could allow it, for example for a command line that is not known word by word.
pub(crate) fn proposed_rules(tool: &str, input: &Value, workspace: &Workspace) -> Vec<String> {
    let subject = subject(tool, input, workspace);
    if lacks_subject(tool, input, &subject) {
        return Vec::new();
    }
    let rules = match &subject {
        Subject::Command(line) => line.commands.iter().map(|words| command_rule(words)).collect(),
        Subject::Path(path) if FILES.contains(&tool) => {
            let path: PathBuf = path.components().collect(); // without a slash at its end
            Some(vec![named(tool, path.to_str())])
        }
        Subject::Host(host) => Some(vec![named(tool, Some(host))]),
        Subject::Name(name) => Some(vec![named(tool, Some(name))]),
        Subject::Nothing | Subject::Arguments(_) => Some(vec![Some(tool.to_owned())]),
        Subject::Path(_) => None,
    };
    let mut rules: Vec<String> =
        rules.and_then(|rules| rules.into_iter().collect::<Option<_>>()).unwrap_or_default();
    rules.dedup();
    let read: Option<Vec<Rule>> = rules.iter().map(|rule| Rule::parse(rule).ok()).collect();
    if read.is_some_and(|read| allows(&read, tool, &subject)) { rules } else { Vec::new() }
}

/// Returns whether a call of a tool whose rules have patterns does not say what it is about.
fn lacks_subject(tool: &str, input: &Value, subject: &Subject) -> bool {
    match subject {
        Subject::Nothing => matches!(tool, "bash" | "web_fetch" | "skill"),
        Subject::Path(_) => input.get("path").map_or(!WALKS.contains(&tool), |path| !path.is_string()),
        _ => false,
    }
}

/// Returns the rule for one command with exactly these words.
fn command_rule(words: &[Word]) -> Option<Option<String>> {
    let words: Option<Vec<&str>> = words
        .iter()
        .map(|word| word.plain().filter(|word| !word.contains(char::is_whitespace) && is_literal(word)))
        .collect();
    Some(words.map(|words| format!("bash({})", words.join(" "))))
}

/// Returns the rule for one thing.
fn named(tool: &str, name: Option<&str>) -> Option<String> {
    let name = name.filter(|name| is_literal(name) && name.trim() == *name && !name.contains('\n'))?;
    Some(format!("{tool}({name})"))
}

/// Returns whether a text means only itself in a pattern.
fn is_literal(text: &str) -> bool {
    !text.is_empty() && !text.contains(SPECIAL) && !text.ends_with(':')
}

/// Returns a part of the user's settings that adds rules for one workspace. Returns `None` for a path that is not UTF-8.
pub fn workspace_settings(workspace: &Path, rules: &[String]) -> Option<String> {
    let quoted = |text: &str| serde_json::to_string(text).expect("strings are always JSON");
    let rules: Vec<String> = rules.iter().map(|rule| quoted(rule)).collect();
    let path = quoted(workspace.to_str()?);
    Some(format!("[[workspace]]\npath = {path}\nallow = [{}]\n", rules.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_is_proposed_only_if_it_allows_the_call_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::open(folder.path()).expect("a workspace");
        for (tool, input, expected) in [
            ("bash", json!({"command": "cargo test -p wire"}), &["bash(cargo test -p wire)"][..]),
            ("bash", json!({"command": "cargo fmt && git status"}), &["bash(cargo fmt)", "bash(git status)"]),
            ("bash", json!({"command": "echo $(rm x)"}), &[]),
            ("bash", json!({"command": "rm *"}), &[]),
            ("bash", json!({"command": "rm '*'"}), &[]),
            ("bash", json!({"command": "git commit -m 'two words'"}), &[]),
            ("bash", json!({"command": "ls > out"}), &[]),
            ("bash", json!({}), &[]),
            ("bash", json!({"command": 7}), &[]),
            ("bash", json!(null), &[]),
            ("web_fetch", json!({"url": "no address"}), &[]),
            ("web_fetch", json!({"url": "file:///x"}), &[]),
            ("skill", json!({}), &[]),
            ("write", json!({"content": ""}), &[]),
            ("edit", json!({"path": 7}), &[]),
            ("read", json!({}), &[]),
            ("grep", json!({"path": ["a"], "pattern": "x"}), &[]),
            ("write", json!({"path": "src/a.rs", "content": ""}), &["write(src/a.rs)"]),
            ("write", json!({"path": "src/{a,b}.rs", "content": ""}), &[]),
            ("web_fetch", json!({"url": "https://Docs.rs/x"}), &["web_fetch(docs.rs)"]),
            ("skill", json!({"name": "deploy"}), &["skill(deploy)"]),
            ("tickets_find", json!({"id": 7}), &["tickets_find"]),
        ] {
            assert_eq!(proposed_rules(tool, &input, &workspace), expected, "{tool} {input}");
        }
    }

    #[test]
    fn the_settings_are_read_back() {
        let path = Path::new("/home/me/a \"b\"\\c");
        let text = workspace_settings(path, &["bash(git status)".to_owned()]).expect("UTF-8");
        let mut defaults = crate::RunDefaults::default();
        defaults.merge_user_file(&text, Path::new("o.toml")).expect("valid");
        let input = json!({"command": "git status"});
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::open(folder.path()).expect("a workspace");
        for (place, is_allowed) in [(path, true), (Path::new("/home/me"), false)] {
            let mut rules = defaults.rules_in(place);
            rules.add(crate::RuleList::Ask, "bash").expect("a rule");
            let decision = rules.judge("bash", &input, &workspace);
            assert_eq!(decision == crate::Decision::Allow, is_allowed, "{place:?}");
        }
        for text in ["[[workspace]]\npath = \"/x\"\nallow = [\"bash(\"]", "[[workspace]]\nallow = [\"bash\"]"]
        {
            crate::RunDefaults::default().merge_user_file(text, Path::new("o.toml")).expect_err(text);
        }
        for accepted in [false, true] {
            let mut defaults = crate::RunDefaults::default();
            let merged = match accepted {
                true => defaults.merge_accepted_project_file(&text, Path::new("o.toml")),
                false => defaults.merge_project_file(&text, Path::new("o.toml")),
            };
            merged.expect_err("a project allows nothing for good");
        }
    }
}
