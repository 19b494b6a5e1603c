//! `glob`: finds files by name.

use std::ops::ControlFlow;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::path_glob::PathGlob;
use super::walk::walk;
use super::{CancelFlag, Refusal, run};
use crate::workspace::display_path;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput, Workspace};

/// Maximum number of paths in an answer.
const MAX_SHOWN: usize = 1_000;

/// The tool `glob`.
pub(super) struct GlobTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    pattern: String,
    path: Option<String>,
}

impl Tool for GlobTool {
    fn name(&self) -> &'static str {
        "glob"
    }

    fn description(&self) -> &'static str {
        "Finds files by name, sorted by path. `*.rs` finds them at any depth, `src/*.rs` only there, `src/**/*.rs` \
         below. What `.gitignore` names is left out."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""pattern":{"type":"string","description":"A glob with `*`, `**`, `?`, `[…]` and `{a,b}`."},"#,
            r#""path":{"type":"string","description":"The folder to look in; the default is the workspace."}"#,
            r#"},"required":["pattern"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run(self, input, context, glob)
    }
}

fn glob(args: &Args, workspace: &Workspace, stop: &CancelFlag) -> Result<ToolOutput, Refusal> {
    let pattern = PathGlob::new("pattern", &args.pattern)?;
    let start = Path::new(args.path.as_deref().unwrap_or("."));
    let mut lines = Vec::new();
    let mut rest = 0;
    let omissions = walk(workspace, start, stop, &mut |found| {
        if pattern.matches(found.below) {
            if lines.len() < MAX_SHOWN { lines.push(display_path(found.path)) } else { rest += 1 }
        }
        ControlFlow::Continue(())
    })?;
    if lines.is_empty() {
        lines.push(format!("no file matches `{}`", args.pattern));
    }
    if rest > 0 {
        lines.push(format!("[{rest} more; narrow the pattern to see them]"));
    }
    lines.extend(omissions.notes());
    Ok(ToolOutput::text(lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn files_are_found_by_name() {
        let fixture = TestWorkspace::new(&[
            ("main.rs", ""),
            ("src/lib.rs", ""),
            ("src/deep/er/mod.rs", ""),
            ("src/deep/readme.md", ""),
            ("src-gen/x.rs", ""),
            (".hidden/y.rs", ""),
            ("way out -> ../outside", ""),
            ("out.rs -> ../outside/secret.txt", ""),
            ("way in -> src", ""),
        ]);
        let mut seen = fixture
            .table(
                "glob",
                [
                    json!({"pattern": "*.rs"}),
                    json!({"pattern": "./*.rs"}),
                    json!({"pattern": "**/*.rs"}),
                    json!({"pattern": "src/**/*.{rs,md}"}),
                    json!({"pattern": "*.rs", "path": "src"}),
                    json!({"pattern": "deep/*", "path": "./src/"}),
                    json!({"pattern": "*.rs", "path": "way in"}),
                    json!({"pattern": "*.txt"}),
                    json!({"pattern": "*", "path": "way out"}),
                    json!({"pattern": "*", "path": "main.rs"}),
                    json!({"pattern": "*", "path": "none"}),
                    json!({"pattern": "/etc/*"}),
                    json!({"pattern": "../*"}),
                    json!({"pattern": "[z-a]"}),
                    json!({"pattern": ""}),
                ],
            )
            .await;
        let absolute = json!({"pattern": "*.md", "path": fixture.root.join("src")});
        seen += &format!("--- absolute\n{}", fixture.ask("glob", absolute).await);
        expect![[r#"
            --- {"pattern":"*.rs"}
            .hidden/y.rs
            main.rs
            out.rs
            src/deep/er/mod.rs
            src/lib.rs
            src-gen/x.rs
            --- {"pattern":"./*.rs"}
            main.rs
            out.rs
            --- {"pattern":"**/*.rs"}
            .hidden/y.rs
            main.rs
            out.rs
            src/deep/er/mod.rs
            src/lib.rs
            src-gen/x.rs
            --- {"pattern":"src/**/*.{rs,md}"}
            src/deep/er/mod.rs
            src/deep/readme.md
            src/lib.rs
            --- {"pattern":"*.rs","path":"src"}
            src/deep/er/mod.rs
            src/lib.rs
            --- {"pattern":"deep/*","path":"./src/"}
            src/deep/readme.md
            --- {"pattern":"*.rs","path":"way in"}
            way in/deep/er/mod.rs
            way in/lib.rs
            --- {"pattern":"*.txt"}
            no file matches `*.txt`
            --- {"pattern":"*","path":"way out"}
            error: `way out` is outside the workspace `HOME/yard`
            --- {"pattern":"*","path":"main.rs"}
            error: `main.rs` is not a folder, or a part of the path is a file
            --- {"pattern":"*","path":"none"}
            error: `none` does not exist
            --- {"pattern":"/etc/*"}
            error: `pattern` is matched below `path`, so it cannot start with `/` or contain `..`: /etc/*
            --- {"pattern":"../*"}
            error: `pattern` is matched below `path`, so it cannot start with `/` or contain `..`: ../*
            --- {"pattern":"[z-a]"}
            error: `pattern` is not a glob: error parsing glob '[z-a]': invalid range; 'z' > 'a'
            --- {"pattern":""}
            error: `pattern` is empty; `*` means every file
            --- absolute
            src/deep/readme.md
        "#]]
        .assert_eq(&seen);
    }

    #[tokio::test]
    async fn ignored_files_are_left_out() {
        let fixture = TestWorkspace::new(&[
            (".gitignore", "\u{feff}/target\n*.log\n!keep.log\n[\nbuild/\n"),
            (".git/config", ""),
            ("sub/.git", "a worktree"),
            ("target/out.txt", ""),
            ("src/target/in.txt", ""),
            ("a.log", ""),
            ("keep.log", ""),
            ("build/x", ""),
            ("src/build", "a file, not a folder"),
            ("src/.gitignore", "!wanted.log\nlocal.txt\n"),
            ("src/wanted.log", ""),
            ("src/other.log", ""),
            ("src/local.txt", ""),
            ("local.txt", ""),
            ("linked/.gitignore -> ../src/.gitignore", ""),
            ("linked/local.txt", ""),
        ]);
        let seen = fixture
            .table(
                "glob",
                [
                    json!({"pattern": "*"}),
                    json!({"pattern": "*", "path": "src"}),
                    json!({"pattern": "*", "path": "target"}),
                ],
            )
            .await;
        expect![[r#"
            --- {"pattern":"*"}
            .gitignore
            keep.log
            linked/.gitignore
            linked/local.txt
            local.txt
            src/.gitignore
            src/build
            src/target/in.txt
            src/wanted.log
            --- {"pattern":"*","path":"src"}
            src/.gitignore
            src/build
            src/target/in.txt
            src/wanted.log
            --- {"pattern":"*","path":"target"}
            target/out.txt
        "#]]
        .assert_eq(&seen);
    }

    #[tokio::test]
    async fn a_limited_walk_reports_its_limit() {
        let deep = format!("{}bottom.txt", "d/".repeat(66));
        let names: Vec<String> = (0..1_100).map(|number| format!("many/f{number:04}")).collect();
        let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        files.push((&deep, ""));
        let fixture = TestWorkspace::new(&files);
        let text = fixture.ask("glob", json!({"pattern": "*"})).await;
        let seen: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
        expect![[r#"
            [100 more; narrow the pattern to see them]
            [1 folders lie deeper than 64 levels; not entered]"#]]
        .assert_eq(&seen.join("\n"));
    }
}
