//! `read`: shows a file.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use session::{Block, ImageSource};

use super::write::MAX_FILE;
use super::{CancelFlag, Refusal, cut, run};
use crate::picture;
use crate::workspace::display_path;
use crate::{BoxFuture, Digest, Policy, Tool, ToolContext, ToolOutput, Workspace, WorkspaceError};

/// Largest picture. Providers accept five megabytes of base64.
const MAX_IMAGE: usize = 3_750_000;
/// Default number of lines.
const DEFAULT_LINES: usize = 2_000;
/// Maximum number of characters of a line.
const MAX_LINE_CHARS: usize = 2_000;
/// Maximum number of bytes in an answer.
const MAX_SHOWN: usize = 256 << 10;

/// The tool `read`.
pub(super) struct ReadTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

impl Tool for ReadTool {
    fn name(&self) -> &'static str {
        "read"
    }

    fn description(&self) -> &'static str {
        "Shows a text file with its lines numbered, or a png, jpeg, gif or webp picture. Long files come in parts: \
         the last line of the answer says how to continue."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""path":{"type":"string","description":"The file, relative to the workspace."},"#,
            r#""offset":{"type":"integer","minimum":1,"description":"First line to show; the default is 1."},"#,
            r#""limit":{"type":"integer","minimum":1,"description":"Maximum number of lines; the default is 2000."}"#,
            r#"},"required":["path"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run(self, input, context, read)
    }
}

fn read(args: &Args, workspace: &Workspace, _: &CancelFlag) -> Result<ToolOutput, Refusal> {
    let path = Path::new(&args.path);
    let name = display_path(path);
    let found = match workspace.read_file(path, MAX_FILE) {
        Ok(found) => found,
        Err(WorkspaceError::IsFolder(_)) => {
            return Err(Refusal(format!("`{name}` is a folder; use `list` to see what is in it")));
        }
        Err(error @ WorkspaceError::TooLarge { .. }) => {
            if args.offset.is_none() && args.limit.is_none() {
                return Err(Refusal(format!(
                    "{error}; use `grep` to find the part you need, and `offset` and `limit` to read it"
                )));
            }
            return read_part(args, &name, workspace.open_file(path)?);
        }
        Err(error) => return Err(error.into()),
    };
    // Known also if only a part is shown: an edit must quote the text exactly.
    let digest = Digest::of(&found.bytes);
    show(args, &name, &found.bytes).map(|output| output.seeing(found.place, digest))
}

fn show(args: &Args, name: &str, bytes: &[u8]) -> Result<ToolOutput, Refusal> {
    if let Some(media_type) = picture::media_type(bytes) {
        return show_picture(name, media_type, bytes);
    }
    let text = utf8_text(name, bytes)?;
    if text.is_empty() {
        return Ok(ToolOutput::text(format!("`{name}` is empty")));
    }
    show_numbered(name, text, args.offset.unwrap_or(1), args.limit.unwrap_or(DEFAULT_LINES))
}

fn show_picture(name: &str, media_type: &str, bytes: &[u8]) -> Result<ToolOutput, Refusal> {
    if bytes.len() > MAX_IMAGE {
        let size = bytes.len();
        return Err(Refusal(format!(
            "`{name}` is a picture of {size} bytes; at most {MAX_IMAGE} can be shown"
        )));
    }
    if let Some(flaw) = picture::flaw(bytes) {
        return Err(Refusal(format!("`{name}` is a picture that cannot be shown: {flaw}")));
    }
    let source = ImageSource::Base64 { media_type: media_type.to_owned(), data: STANDARD.encode(bytes) };
    Ok(ToolOutput { blocks: vec![Block::Image(source)], ..ToolOutput::text("") })
}

/// Returns the text, or refuses other encodings. Replacement characters would get into the next edit.
pub(super) fn utf8_text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, Refusal> {
    let size = bytes.len();
    let at = match std::str::from_utf8(bytes) {
        Ok(text) => match text.find('\0') {
            None => return Ok(text),
            Some(at) => at,
        },
        Err(error) => error.valid_up_to(),
    };
    Err(Refusal(format!("`{name}` is not UTF-8 text: byte {at} of {size} is {:#04x}", bytes[at])))
}

fn show_numbered(name: &str, text: &str, offset: usize, limit: usize) -> Result<ToolOutput, Refusal> {
    let lines: Vec<&str> = text.strip_suffix('\n').unwrap_or(text).split('\n').collect();
    let total = lines.len();
    if offset > total {
        return Err(Refusal(format!("`{name}` has {total} lines; no line {offset}")));
    }
    let mut shown = String::new();
    let mut last = offset - 1;
    for line in lines[offset - 1..].iter().take(limit) {
        let line = format!("{:>6}\t{}\n", last + 1, cut(line, 0, MAX_LINE_CHARS));
        if !shown.is_empty() && shown.len() + line.len() > MAX_SHOWN {
            break;
        }
        shown += &line;
        last += 1;
    }
    if last < total {
        shown += &format!("[lines {offset} to {last} of {total}; continue with offset {}]", last + 1);
    }
    Ok(ToolOutput::text(shown.strip_suffix('\n').unwrap_or(&shown)))
}

/// Reads some lines of a file that is too large for memory.
fn read_part(args: &Args, name: &str, file: std::fs::File) -> Result<ToolOutput, Refusal> {
    use std::io::{BufRead as _, Read as _};
    let unreadable = |error: std::io::Error| Refusal(format!("cannot read `{name}`: {error}"));
    let (offset, limit) = (args.offset.unwrap_or(1), args.limit.unwrap_or(DEFAULT_LINES));
    let mut lines = std::io::BufReader::with_capacity(1 << 20, file);
    for passed in 0..offset - 1 {
        if lines.skip_until(b'\n').map_err(unreadable)? == 0 {
            return Err(Refusal(format!("`{name}` has {passed} lines; no line {offset}")));
        }
    }
    let mut shown = String::new();
    let mut last = offset - 1;
    while last < offset - 1 + limit && shown.len() < MAX_SHOWN {
        let mut line = Vec::new();
        lines.by_ref().take(MAX_SHOWN as u64).read_until(b'\n', &mut line).map_err(unreadable)?;
        if line.is_empty() {
            break;
        }
        if !line.ends_with(b"\n") {
            lines.skip_until(b'\n').map_err(unreadable)?;
            // The limit may have cut a character in two.
            let whole = std::str::from_utf8(&line).map_or_else(|error| error.valid_up_to(), str::len);
            line.truncate(if line.len() - whole < 4 { whole } else { line.len() });
        }
        let line = utf8_text(name, &line)?;
        shown += &format!("{:>6}\t{}\n", last + 1, cut(line.trim_end_matches('\n'), 0, MAX_LINE_CHARS));
        last += 1;
    }
    if last < offset {
        return Err(Refusal(format!("`{name}` has {} lines; no line {offset}", offset - 1)));
    }
    shown += &format!("[lines {offset} to {last}; continue with offset {}]", last + 1);
    Ok(ToolOutput::text(shown))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::picture::tests;
    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn lines_are_numbered_and_parts_say_how_to_go_on() {
        let fixture = TestWorkspace::new(&[
            ("ten.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"),
            ("no end.txt", "one\n\nthree"),
            ("windows.txt", "one\r\ntwo\r\n"),
            ("empty.txt", ""),
            ("newline.txt", "\n"),
            ("long.txt", &format!("{}\nshort\n", "ä".repeat(2_001))),
            ("folder/", ""),
        ]);
        let mut seen = fixture
            .table(
                "read",
                [
                    json!({"path": "ten.txt"}),
                    json!({"path": "ten.txt", "offset": 9}),
                    json!({"path": "ten.txt", "offset": 3, "limit": 2}),
                    json!({"path": "ten.txt", "offset": 10, "limit": 1}),
                    json!({"path": "ten.txt", "offset": 11}),
                    json!({"path": "no end.txt"}),
                    json!({"path": "windows.txt"}),
                    json!({"path": "empty.txt"}),
                    json!({"path": "newline.txt"}),
                    json!({"path": "folder"}),
                    json!({"path": "none.txt"}),
                    json!({"path": "ten.txt/"}),
                ],
            )
            .await;
        seen +=
            &fixture.ask("read", json!({"path": "long.txt"})).await.replace(&"ä".repeat(2_000), "<2000 ä>");
        // Made visible, since editors may change it.
        let seen = seen.replace('\r', "<CR>");
        expect![[r#"
            --- {"path":"ten.txt"}
                 1	1
                 2	2
                 3	3
                 4	4
                 5	5
                 6	6
                 7	7
                 8	8
                 9	9
                10	10
            --- {"path":"ten.txt","offset":9}
                 9	9
                10	10
            --- {"path":"ten.txt","offset":3,"limit":2}
                 3	3
                 4	4
            [lines 3 to 4 of 10; continue with offset 5]
            --- {"path":"ten.txt","offset":10,"limit":1}
                10	10
            --- {"path":"ten.txt","offset":11}
            error: `ten.txt` has 10 lines; no line 11
            --- {"path":"no end.txt"}
                 1	one
                 2	
                 3	three
            --- {"path":"windows.txt"}
                 1	one<CR>
                 2	two<CR>
            --- {"path":"empty.txt"}
            `empty.txt` is empty
            --- {"path":"newline.txt"}
                 1	
            --- {"path":"folder"}
            error: `folder` is a folder; use `list` to see what is in it
            --- {"path":"none.txt"}
            error: `none.txt` does not exist
            --- {"path":"ten.txt/"}
            error: `ten.txt/` is not a folder, or a part of the path is a file
                 1	<2000 ä>… [cut: the line has 2001 characters]
                 2	short
        "#]]
        .assert_eq(&seen);
    }

    #[tokio::test]
    async fn the_shown_text_is_limited() {
        let fixture = TestWorkspace::new(&[
            ("many.txt", &"x\n".repeat(2_345)),
            ("wide.txt", &format!("{}\n", "y".repeat(1_999)).repeat(300)),
        ]);
        let huge = std::fs::File::create(fixture.root.join("huge.txt")).expect("a file");
        huge.set_len((32 << 20) + 1).expect("a hole");
        let mut seen = String::new();
        for path in ["many.txt", "wide.txt", "huge.txt"] {
            let text = fixture.ask("read", json!({ "path": path })).await;
            assert!(text.len() < 300_000);
            seen += &format!("{}\n", text.lines().last().expect("a line"));
        }
        expect![[r#"
            [lines 1 to 2000 of 2345; continue with offset 2001]
            [lines 1 to 130 of 300; continue with offset 131]
            error: `huge.txt` is larger than 33554432 bytes; use `grep` to find the part you need, and `offset` and `limit` to read it
        "#]]
        .assert_eq(&seen);
    }

    #[tokio::test]
    async fn binary_files_are_not_shown_as_text() {
        let fixture = TestWorkspace::new(&[("nul.bin", "ab\0cd")]);
        for (name, bytes) in [
            ("latin.txt", &b"caf\xe9\n"[..]),
            ("half.txt", b"ok \xc3"),
            ("p.txt", tests::PNG),
            ("j", tests::JPEG),
            ("g", tests::GIF),
            ("w", tests::WEBP),
            ("half.png", &tests::PNG[..30]),
        ] {
            std::fs::write(fixture.root.join(name), bytes).expect("a file");
        }
        let mut large = b"GIF87a".to_vec();
        large.resize(3_750_001, 0);
        std::fs::write(fixture.root.join("large.gif"), large).expect("a file");
        let mut seen = String::new();
        for path in ["nul.bin", "latin.txt", "half.txt", "p.txt", "j", "g", "w", "half.png", "large.gif"] {
            seen += &fixture.ask("read", json!({ "path": path })).await;
        }
        expect![[r#"
            error: `nul.bin` is not UTF-8 text: byte 2 of 5 is 0x00
            error: `latin.txt` is not UTF-8 text: byte 3 of 5 is 0xe9
            error: `half.txt` is not UTF-8 text: byte 3 of 4 is 0xc3
            Image(Base64 { media_type: "image/png", data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==" })
            Image(Base64 { media_type: "image/jpeg", data: "/9j/4AAEYWL/wAALCAAFAAQBAREA/9oAAnj/2Q==" })
            Image(Base64 { media_type: "image/gif", data: "R0lGODlhAgADAAAAACwAAAAAAgADAAACAoRRADs=" })
            Image(Base64 { media_type: "image/webp", data: "UklGRhYAAABXRUJQVlA4TAkAAAAvBkABAGFiY2QA" })
            error: `half.png` is a picture that cannot be shown: it is damaged
            error: `large.gif` is a picture of 3750001 bytes; at most 3750000 can be shown
        "#]]
        .assert_eq(&seen);
    }
}
