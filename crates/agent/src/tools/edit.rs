//! `edit`: replaces text in a file.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::write::{MAX_FILE, check_known};
use super::{CancelFlag, Refusal, read, run_in};
use crate::workspace::display_path;
use crate::{BoxFuture, Digest, Policy, Tool, ToolContext, ToolOutput};

/// Maximum number of bytes to hash in the search for an earlier execution of the same edit.
const MAX_SEARCH: usize = 256 << 20;

/// The tool `edit`.
pub(super) struct EditTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    old: String,
    new: String,
    all: Option<bool>,
}

impl Tool for EditTool {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> &'static str {
        "Replaces text in a file that you have read. `old` must be in the file exactly as given, without line numbers, and \
         only once: include enough of the surrounding text, or set `all`."
    }

    fn schema(&self) -> &'static str {
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""path":{"type":"string","description":"The file, relative to the workspace."},"#,
            r#""old":{"type":"string","description":"The text to replace, exactly."},"#,
            r#""new":{"type":"string","description":"The new text."},"#,
            r#""all":{"type":"boolean","description":"Replaces every occurrence of `old`."}"#,
            r#"},"required":["path","old","new"],"additionalProperties":false}"#
        )
    }

    fn policy(&self) -> Policy {
        Policy::Idempotent
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run_in(self, input, context, edit)
    }
}

fn edit(args: &Args, context: &ToolContext, _: &CancelFlag) -> Result<ToolOutput, Refusal> {
    let path = Path::new(&args.path);
    let name = display_path(path);
    if args.old.is_empty() {
        return Err(Refusal("`old` is empty; use `write` for a whole file".to_owned()));
    }
    if args.old == args.new {
        return Err(Refusal("`old` and `new` are the same".to_owned()));
    }
    let mut count = 0;
    let edited = context.workspace.update(path, MAX_FILE, |place, before| {
        let before = before.ok_or_else(|| Refusal(format!("`{name}` does not exist")))?;
        let text = read::utf8_text(&name, before)?;
        if let Some(made) = context.seen.get(place).and_then(|seen| previously_replaced(args, text, *seen)) {
            count = made;
            return Ok(before.to_vec());
        }
        check_known(context, path, place, before)?;
        count = check_count(args, &name, text)?;
        Ok::<_, Refusal>(text.replace(&args.old, &args.new).into_bytes())
    })?;
    let times = if count == 1 { "1 place".to_owned() } else { format!("{count} places") };
    let output = ToolOutput::text(format!("edited `{name}` in {times}"));
    Ok(output.seeing(edited.place, Digest::of(&edited.bytes)))
}

/// Counts the places to replace. Refuses none, and several unless all are wanted.
fn check_count(args: &Args, name: &str, text: &str) -> Result<usize, Refusal> {
    match count(args, text) {
        0 => Err(Refusal(format!("`old` is not in `{name}`; read the file again and quote it exactly"))),
        count if count > 1 && args.all != Some(true) => Err(Refusal(format!(
            "`old` is in `{name}` {count} times; include more of the surrounding text, or set `all`"
        ))),
        count => Ok(count),
    }
}

/// Counts occurrences of the text. Overlapping ones count separately unless all are replaced.
fn count(args: &Args, text: &str) -> usize {
    match args.all {
        Some(true) => text.matches(&args.old).count(),
        _ => positions_of(text, &args.old).count(),
    }
}

/// Returns the number of replaced places if this edit was made already: undoing it gives the text that the
/// agent knows.
///
/// This happens if a process was killed between an edit and its result, and the call is repeated.
fn previously_replaced(args: &Args, text: &str, seen: Digest) -> Option<usize> {
    if Digest::of(text.as_bytes()) == seen {
        return None;
    }
    let was =
        |undone: &str| Digest::of(undone.as_bytes()) == seen && undone.replace(&args.old, &args.new) == text;
    let everywhere = (!args.new.is_empty()).then(|| text.replace(&args.new, &args.old));
    if everywhere.is_some_and(|undone| was(&undone)) {
        return Some(text.matches(&args.new).count());
    }
    // `new` may have occurred elsewhere before, or may be empty. Then any place may be the edited one.
    let tries = MAX_SEARCH / (text.len() + args.old.len());
    let mut single = positions_of(text, &args.new)
        .take(tries)
        .map(|at| [&text[..at], &args.old, &text[at + args.new.len()..]].concat());
    single.any(|undone| count(args, &undone) == 1 && was(&undone)).then_some(1)
}

/// Lists the positions of a text, including overlapping ones. An empty text occurs everywhere.
fn positions_of<'a>(text: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.filter(move |at| text[*at..].starts_with(wanted))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn text_is_replaced_where_it_is_known_and_meant() {
        let fixture = TestWorkspace::new(&[
            ("a.txt", "one two\ntwo three\n"),
            ("unread.txt", "one"),
            ("link -> a.txt", ""),
            ("folder/", ""),
            ("ends.txt", "}\n}\n}\n"),
        ]);
        fixture.ask("read", json!({"path": "ends.txt"})).await;
        std::fs::write(fixture.root.join("raw.bin"), b"a\xffb").expect("a file");
        let edit = |path: &str, old: &str, new: &str| json!({"path": path, "old": old, "new": new});
        let mut seen = fixture.ask("edit", edit("a.txt", "one", "1")).await;
        seen += &fixture.ask("read", json!({"path": "a.txt", "limit": 1})).await;
        seen += &fixture
            .table(
                "edit",
                [
                    edit("a.txt", "one", "1"),
                    edit("a.txt", "one", "2"),
                    edit("link", "three", "3"),
                    edit("a.txt", "two", "2"),
                    json!({"path": "a.txt", "old": "two", "new": "zwei", "all": true}),
                    edit("ends.txt", "}\n}\n", "}\n"),
                    json!({"path": "ends.txt", "old": "}\n}\n", "new": "}\n", "all": true}),
                    edit("a.txt", "", "x"),
                    edit("a.txt", "3", "3"),
                    edit("unread.txt", "one", "1"),
                    edit("none.txt", "one", "1"),
                    edit("raw.bin", "a", "b"),
                    edit("folder", "a", "b"),
                    edit("../outside/secret.txt", "a", "b"),
                ],
            )
            .await;
        std::fs::write(fixture.root.join("a.txt"), "somebody was here").expect("written");
        seen += &fixture.ask("edit", edit("a.txt", "somebody", "nobody")).await;
        seen += &fixture.ask("write", json!({"path": "a.txt", "content": "nobody"})).await;
        expect![[r#"
            error: you have not read `a.txt`; `read` it first
                 1	one two
            [lines 1 to 1 of 2; continue with offset 2]
            --- {"path":"a.txt","old":"one","new":"1"}
            edited `a.txt` in 1 place
            --- {"path":"a.txt","old":"one","new":"2"}
            error: `old` is not in `a.txt`; read the file again and quote it exactly
            --- {"path":"link","old":"three","new":"3"}
            edited `link` in 1 place
            --- {"path":"a.txt","old":"two","new":"2"}
            error: `old` is in `a.txt` 2 times; include more of the surrounding text, or set `all`
            --- {"path":"a.txt","old":"two","new":"zwei","all":true}
            edited `a.txt` in 2 places
            --- {"path":"ends.txt","old":"}\n}\n","new":"}\n"}
            error: `old` is in `ends.txt` 2 times; include more of the surrounding text, or set `all`
            --- {"path":"ends.txt","old":"}\n}\n","new":"}\n","all":true}
            edited `ends.txt` in 1 place
            --- {"path":"a.txt","old":"","new":"x"}
            error: `old` is empty; use `write` for a whole file
            --- {"path":"a.txt","old":"3","new":"3"}
            error: `old` and `new` are the same
            --- {"path":"unread.txt","old":"one","new":"1"}
            error: you have not read `unread.txt`; `read` it first
            --- {"path":"none.txt","old":"one","new":"1"}
            error: `none.txt` does not exist
            --- {"path":"raw.bin","old":"a","new":"b"}
            error: `raw.bin` is not UTF-8 text: byte 1 of 3 is 0xff
            --- {"path":"folder","old":"a","new":"b"}
            error: `folder` is a folder
            --- {"path":"../outside/secret.txt","old":"a","new":"b"}
            error: `../outside/secret.txt` is outside the workspace `HOME/yard`
            error: `a.txt` has changed since you saw it; `read` it again
            error: `a.txt` has changed since you saw it; `read` it again
        "#]]
        .assert_eq(&seen);
    }

    /// A process was killed between the edit and its result: the file is new, and the known digest is old.
    #[tokio::test]
    async fn a_repeated_edit_returns_the_same_result_and_changes_nothing() {
        for (before, input) in [
            ("one two", json!({"path": "a.txt", "old": "one", "new": "1"})),
            ("one two two", json!({"path": "a.txt", "old": "two", "new": "2", "all": true})),
            ("1 one 1", json!({"path": "a.txt", "old": "one", "new": "1"})),
            ("one two", json!({"path": "a.txt", "old": "one ", "new": ""})),
            ("x, ä, y", json!({"path": "a.txt", "old": ", ä", "new": ""})),
            ("aXb", json!({"path": "a.txt", "old": "X", "new": "XX"})),
            ("a\nb\n", json!({"path": "a.txt", "old": "a\n", "new": "b\n"})),
        ] {
            let fixture = TestWorkspace::new(&[("a.txt", before)]);
            fixture.ask("read", json!({"path": "a.txt"})).await;
            let context = fixture.context();
            let first = fixture.call("edit", input.clone()).await;
            assert!(!first.is_error, "{input}");
            let after = std::fs::read(fixture.root.join("a.txt")).expect("a file");
            *fixture.seen.lock().expect("lock is not poisoned") = (*context.seen).clone();
            assert_eq!(fixture.call("edit", input.clone()).await, first, "{input}");
            assert_eq!(std::fs::read(fixture.root.join("a.txt")).expect("a file"), after, "{input}");
            // Once the new content is known, it is another edit.
            let third = fixture.call("edit", input.clone()).await;
            assert!(third.is_error || input["new"] == "XX", "{input}: {third:?}");
        }
    }
}
