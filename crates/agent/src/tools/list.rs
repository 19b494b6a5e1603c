//! `list`: lists a folder.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{CancelFlag, Refusal, run};
use crate::workspace::{EntryKind, OpenFolder, display_path};
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput, Workspace, WorkspaceError};

/// Maximum number of entries in an answer.
const MAX_SHOWN: usize = 1_000;
/// Maximum number of entries that are counted.
const MAX_COUNTED: usize = 100_000;

/// The tool `list`.
pub(super) struct ListTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: Option<String>,
}

impl Tool for ListTool {
    fn name(&self) -> &'static str {
        "list"
    }

    fn description(&self) -> &'static str {
        "Lists one folder: its folders with a `/`, its files with their bytes, its symlinks with their targets. \
         Ignored and hidden files too."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""path":{"type":"string","description":"The folder, relative to the workspace; the default is the workspace."}"#,
            r#"},"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run(self, input, context, list)
    }
}

fn list(args: &Args, workspace: &Workspace, _: &CancelFlag) -> Result<ToolOutput, Refusal> {
    let path = Path::new(args.path.as_deref().unwrap_or("."));
    let folder = match workspace.open_folder(path) {
        // Only if the path itself is a file, not a part of it: then `read` helps.
        Err(WorkspaceError::NotFolder(shown)) if workspace.open_file(path).is_ok() => {
            return Err(Refusal(format!("`{shown}` is a file; use `read` to see it")));
        }
        folder => folder?,
    };
    let entries = folder.entries(MAX_COUNTED).map_err(|errno| workspace.explain(errno, "list", path))?;
    if entries.list.is_empty() {
        return Ok(ToolOutput::text(format!("`{}` is empty", display_path(path))));
    }
    let mut lines: Vec<String> = entries
        .list
        .iter()
        .take(MAX_SHOWN)
        .map(|entry| line(&folder, Path::new(&entry.name), entry.kind))
        .collect();
    let rest = entries.list.len() - lines.len();
    if rest > 0 {
        let or_more = if entries.is_truncated { " or even more" } else { "" };
        lines.push(format!("[{rest} more{or_more}; use `glob` to choose]"));
    }
    Ok(ToolOutput::text(lines.join("\n")))
}

/// Formats an entry. If it was removed meanwhile, only its name.
fn line(folder: &OpenFolder, path: &Path, kind: EntryKind) -> String {
    let (name, path) = (display_path(path), path.as_os_str());
    match kind {
        EntryKind::Folder => format!("{name}/"),
        EntryKind::File => {
            folder.file_size(path).map(|size| format!("{name} ({size} bytes)")).unwrap_or(name)
        }
        EntryKind::Link => {
            folder.link_target(path).map(|to| format!("{name} -> {}", display_path(&to))).unwrap_or(name)
        }
        EntryKind::Other => format!("{name} (a pipe, socket or device)"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn a_folder_is_listed_by_name() {
        let fixture = TestWorkspace::new(&[
            ("b.txt", "12345"),
            ("B.txt", ""),
            (".hidden", "x"),
            ("a/inner.txt", "x"),
            ("a-b", "x"),
            ("empty/", ""),
            ("way out -> ../outside", ""),
            ("way in -> a", ""),
            ("two\nlines", "x"),
            (".b.txt.offshoot-draft", "half"),
        ]);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            fixture.root.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .expect("a pipe");
        let mut seen = fixture.ask("list", json!({})).await;
        for path in ["a", "way in", "./a/../a/", "empty", "way out", "b.txt", "none", "..", "b.txt/x"] {
            seen += &format!("--- {path}\n{}", fixture.ask("list", json!({ "path": path })).await);
        }
        expect![[r#"
            .hidden (1 bytes)
            B.txt (0 bytes)
            a/
            a-b (1 bytes)
            b.txt (5 bytes)
            empty/
            pipe (a pipe, socket or device)
            two\nlines (1 bytes)
            way in -> a
            way out -> ../outside
            --- a
            inner.txt (1 bytes)
            --- way in
            inner.txt (1 bytes)
            --- ./a/../a/
            inner.txt (1 bytes)
            --- empty
            `empty` is empty
            --- way out
            error: `way out` is outside the workspace `HOME/yard`
            --- b.txt
            error: `b.txt` is a file; use `read` to see it
            --- none
            error: `none` does not exist
            --- ..
            error: `..` is outside the workspace `HOME/yard`
            --- b.txt/x
            error: `b.txt/x` is not a folder, or a part of the path is a file
        "#]]
        .assert_eq(&seen);
    }

    #[tokio::test]
    async fn a_long_list_is_cut() {
        let names: Vec<String> = (0..1_234).map(|number| format!("f{number:04}")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let seen = TestWorkspace::new(&files).ask("list", json!({})).await;
        assert_eq!(seen.lines().count(), 1_001);
        expect!["[234 more; use `glob` to choose]"].assert_eq(seen.lines().last().expect("the last line"));
    }

    #[tokio::test]
    async fn a_workspace_that_was_deleted_is_gone() {
        let fixture = TestWorkspace::new(&[("a.txt", "x")]);
        std::fs::remove_dir_all(&fixture.root).expect("it was there");
        let mut seen = String::new();
        for (tool, input) in [
            ("read", json!({"path": "a.txt"})),
            ("write", json!({"path": "a.txt", "content": "x"})),
            ("write", json!({"path": "a/b/c.txt", "content": "x"})),
            ("list", json!({})),
            ("glob", json!({"pattern": "*"})),
            ("grep", json!({"pattern": "x"})),
        ] {
            seen += &fixture.ask(tool, input).await;
        }
        expect![[r#"
            error: the workspace `HOME/yard` was deleted
            error: the workspace `HOME/yard` was deleted
            error: the workspace `HOME/yard` was deleted
            error: the workspace `HOME/yard` was deleted
            error: the workspace `HOME/yard` was deleted
            error: the workspace `HOME/yard` was deleted
        "#]]
        .assert_eq(&seen);
    }
}
