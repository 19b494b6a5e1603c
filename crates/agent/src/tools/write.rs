//! `write`: writes a whole file.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{CancelFlag, Refusal, run_in};
use crate::workspace::display_path;
use crate::{BoxFuture, Digest, Policy, Tool, ToolContext, ToolOutput};

/// Maximum size of one write.
const MAX_BYTES: usize = 16 << 20;
/// Largest file that can be read, and so replaced or edited.
pub(super) const MAX_FILE: u64 = 32 << 20;

/// The tool `write`.
pub(super) struct WriteTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    content: String,
}

impl Tool for WriteTool {
    fn name(&self) -> &'static str {
        "write"
    }

    fn description(&self) -> &'static str {
        "Writes a whole file, with the folders it needs. An existing file must have been `read` first, and its old content \
         is lost; use `edit` to change a part."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""path":{"type":"string","description":"The file, relative to the workspace."},"#,
            r#""content":{"type":"string","description":"The whole content of the file."}"#,
            r#"},"required":["path","content"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run_in(self, input, context, write)
    }
}

fn write(args: &Args, context: &ToolContext, _: &CancelFlag) -> Result<ToolOutput, Refusal> {
    let (path, bytes) = (Path::new(&args.path), args.content.as_bytes());
    if bytes.len() > MAX_BYTES {
        return Err(Refusal(format!(
            "`content` has {} bytes; `write` takes at most {MAX_BYTES}",
            bytes.len()
        )));
    }
    let written = context.workspace.update(path, MAX_FILE, |place, before| match before {
        // As after a crash between the write and its result: the same call is repeated.
        Some(before) if before == bytes => Ok(bytes.to_vec()),
        Some(before) => check_known(context, path, place, before).map(|()| bytes.to_vec()),
        None => Ok::<_, Refusal>(bytes.to_vec()),
    })?;
    // Does not say whether the file existed before, so that a repeated call has the same answer.
    let output = ToolOutput::text(format!("wrote `{}`, {} bytes", display_path(path), bytes.len()));
    Ok(output.seeing(written.place, Digest::of(bytes)))
}

/// Refuses to replace a file unless the agent knows its current content.
pub(super) fn check_known(
    context: &ToolContext,
    path: &Path,
    place: &Path,
    bytes: &[u8],
) -> Result<(), Refusal> {
    let path = display_path(path);
    match context.seen.get(place) {
        None => Err(Refusal(format!("you have not read `{path}`; `read` it first"))),
        Some(seen) if *seen != Digest::of(bytes) => {
            Err(Refusal(format!("`{path}` has changed since you saw it; `read` it again")))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use expect_test::expect;
    use serde_json::json;

    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn files_are_made_and_replaced() {
        let fixture =
            TestWorkspace::new(&[("old.sh", "old"), ("folder/", ""), ("inner -> deep/er/new.txt", "")]);
        let script = fixture.root.join("old.sh");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o4750)).expect("its mode");
        let mut seen = String::new();
        for (path, content) in [
            ("new.txt", "eins\n"),
            ("new.txt", ""),
            ("a/b/c.txt", "zwei\n"),
            ("old.sh", "#!/bin/sh\n"),
            ("read", "old.sh"),
            ("old.sh", "#!/bin/sh\n"),
            ("inner", "through a link"),
            ("folder", "x"),
            ("folder/", "x"),
            ("missing/", "x"),
            ("new.txt/below", "x"),
            ("none/../x", "x"),
            ("../x", "x"),
            ("/etc/x", "x"),
            ("", "x"),
        ] {
            seen += &format!("{path}: ");
            seen += &match path {
                "read" => fixture.ask("read", json!({"path": content})).await,
                _ => fixture.ask("write", json!({"path": path, "content": content})).await,
            };
        }
        let absolute = fixture.root.join("absolute.txt");
        seen += &fixture.ask("write", json!({"path": absolute, "content": "x"})).await;
        for (path, bytes) in TestWorkspace::tree(&fixture.root) {
            let path = path.strip_prefix(&fixture.root).expect("below").to_owned();
            seen += &format!("{}: {:?}\n", path.display(), String::from_utf8_lossy(&bytes));
        }
        expect![[r##"
            new.txt: wrote `new.txt`, 5 bytes
            new.txt: wrote `new.txt`, 0 bytes
            a/b/c.txt: wrote `a/b/c.txt`, 5 bytes
            old.sh: error: you have not read `old.sh`; `read` it first
            read:      1	old
            old.sh: wrote `old.sh`, 10 bytes
            inner: wrote `inner`, 14 bytes
            folder: error: `folder` is a folder
            folder/: error: the path `folder/` ends like a folder path, but a file path is needed
            missing/: error: the path `missing/` ends like a folder path, but a file path is needed
            new.txt/below: error: `new.txt/below` is not a folder, or a part of the path is a file
            none/../x: error: `none/../x` does not exist
            ../x: error: `../x` is outside the workspace `HOME/yard`
            /etc/x: error: `/etc/x` is outside the workspace `HOME/yard`
            : error: the path `` is empty
            wrote `HOME/yard/absolute.txt`, 1 bytes
            a/b/c.txt: "zwei\n"
            absolute.txt: "x"
            deep/er/new.txt: "through a link"
            inner: "through a link"
            new.txt: ""
            old.sh: "#!/bin/sh\n"
        "##]]
        .assert_eq(&seen);
        let mode = script.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o750, "kept, but for the bit that vouched for the old content");
    }
}
