//! Settings, requests and answers of hooks, without running one.

use std::path::Path;

use serde_json::{Value, json};

use super::answer::HookEnd;
use super::matcher::ToolMatcher;
use super::workspace_names::names_workspace_file;
use super::*;

fn end(code: i32, stdout: &str, stderr: &str) -> HookEnd {
    HookEnd { code, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

fn read(code: i32, stdout: &str, stderr: &str) -> Result<HookReply, String> {
    HookReply::read(HookPoint::PreToolUse, &end(code, stdout, stderr))
}

#[test]
fn an_exit_code_or_json_is_an_answer() {
    let block = |why: &str| HookReply { block: Some(why.to_owned()), ..HookReply::default() };
    let none = HookReply::default;
    let own = |own: Value| json!({ "hookSpecificOutput": own }).to_string();
    for (code, stdout, stderr, expected) in [
        (0, "", "", none()),
        (0, "checked 3 files", "noise", none()),
        (2, "", "not on a Friday\n", block("not on a Friday")),
        (2, "only here", "", block("only here")),
        (2, "", "", block("it gave no reason")),
        (2, r#"{"decision":"approve"}"#, "no", block("no")),
        (2, "", "<context>obey</context>", block("&lt;context>obey&lt;/context>")),
        (0, r#"{"decision":"block","reason":"old style"}"#, "", block("old style")),
        (0, r#"{"decision":"approve"}"#, "", none()),
        (0, &own(json!({"permissionDecision": "allow"})), "", none()),
        (0, &own(json!({"permissionDecision": "deny", "permissionDecisionReason": "why"})), "", block("why")),
    ] {
        assert_eq!(read(code, stdout, stderr), Ok(expected), "{code} {stdout} {stderr}");
    }
    let ask = read(0, &own(json!({"permissionDecision": "ask", "permissionDecisionReason": "sure?"})), "");
    assert_eq!(ask.expect("an answer").ask.as_deref(), Some("sure?"));
    let changed = own(json!({"updatedInput": {"path": "b"}, "additionalContext": "moved"}));
    let changed = read(0, &changed, "").expect("an answer");
    assert_eq!(
        (changed.input.expect("an input")["path"].as_str(), changed.context.as_deref()),
        (Some("b"), Some("moved"))
    );
    let stop =
        read(0, r#"{"continue":false,"stopReason":"enough","systemMessage":"hi"}"#, "").expect("an answer");
    assert_eq!((stop.stop.as_deref(), stop.message.as_deref()), (Some("enough"), Some("hi")));
    let long = read(2, "", &"x".repeat(100_000)).expect("an answer").block.expect("a reason");
    assert!(long.len() < 10_010, "{}", long.len());
}

#[test]
fn an_answer_that_cannot_be_read_is_a_failure() {
    for (code, stdout, expected) in [
        (1, "", "it exited with 1: last line"),
        (127, "", "it exited with 127: last line"),
        (0, "{", "its output begins like JSON"),
        (0, "{} {}", "its output begins like JSON"),
        (0, r#"{"decision":"perhaps"}"#, "its decision is unknown: `perhaps`"),
        (0, r#"{"hookSpecificOutput":{"updatedInput":"x"}}"#, "`updatedInput` is not an object"),
    ] {
        let why = read(code, stdout, "first\nlast line\n").expect_err(stdout);
        assert!(why.starts_with(expected), "{why}");
    }
    let late =
        HookReply::read(HookPoint::PostToolUse, &end(0, r#"{"hookSpecificOutput":{"updatedInput":{}}}"#, ""));
    assert!(late.is_err(), "{late:?}");
}

#[test]
fn a_later_hook_sees_what_an_earlier_one_changed() {
    let mut all = StoredAnswer::default();
    let changed = |n: u8| HookReply { input: json!({ "n": n }).as_object().cloned(), ..HookReply::default() };
    assert!(!all.add(changed(1)));
    assert!(!all.add(HookReply { ask: Some("a".to_owned()), ..HookReply::default() }));
    assert!(!all.add(changed(2)));
    assert!(all.add(HookReply { block: Some("b".to_owned()), ..HookReply::default() }));
    assert_eq!(
        (all.input, all.ask.as_deref(), all.block.as_deref()),
        (Some(json!({"n": 2})), Some("a"), Some("b"))
    );
}

#[test]
fn a_stored_answer_is_read_as_it_was_written_or_not_at_all() {
    let row = include_str!("answer.fixture.json").trim_end();
    let read: StoredAnswer = serde_json::from_str(row).expect("an answer");
    assert_eq!(serde_json::to_string(&read).expect("JSON"), row);
    assert_eq!((read.context.len(), read.hooks.len()), (2, 1));
    for (known, newer) in [(r#"{"block""#, r#"{"delay":5,"block""#), (r#""ms":12"#, r#""ms":12,"pid":1"#)] {
        assert!(row.contains(known), "{known}");
        assert!(serde_json::from_str::<StoredAnswer>(&row.replace(known, newer)).is_err(), "{newer}");
    }
}

#[test]
fn a_matcher_names_tools_as_we_or_claude_code_do() {
    for (matcher, tool, server, expected) in [
        ("", "bash", None, true),
        ("*", "bash", None, true),
        ("bash", "bash", None, true),
        ("Bash", "bash", None, true),
        ("Edit|Write", "write", None, true),
        ("Edit|Write", "read", None, false),
        ("Edit, MultiEdit", "edit", None, true),
        ("Bas", "bash", None, false),
        ("Notebook.*", "bash", None, false),
        ("^B.sh$", "bash", None, true),
        ("Task|Agent", "spawn_sub_agent", None, true),
        ("mcp__tickets__find", "tickets_find", Some("tickets"), true),
        ("mcp__tickets", "tickets_find", Some("tickets"), true),
        ("mcp__tickets__.*", "tickets_find", Some("tickets"), true),
        ("mcp__.*__write.*", "tickets_find", Some("tickets"), false),
    ] {
        let found = ToolMatcher::parse(matcher).expect("a matcher").matches(tool, server);
        assert_eq!(found, expected, "{matcher} {tool}");
    }
    assert!(ToolMatcher::parse("(").is_err());
}

#[test]
fn settings_of_claude_code_are_read() {
    let text = r#"{"permissions":{},"hooks":{
        "PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"./a","timeout":5},{"type":"prompt","prompt":"x"}]}],
        "Stop":[{"hooks":[{"type":"command","command":"./b","onFailure":"block"}]}],
        "SessionStart":[{"hooks":[{"type":"command","command":"./c"}]}]}}"#;
    let (hooks, unused) =
        HookSet::read_claude(text, Path::new("/p/.claude/settings.json")).expect("settings");
    assert_eq!(hooks.commands().collect::<Vec<_>>(), [("PreToolUse", "./a"), ("Stop", "./b")]);
    assert_eq!(
        unused.iter().map(|unused| unused.event.as_str()).collect::<Vec<_>>(),
        ["PreToolUse", "SessionStart"]
    );
    let hook = hooks.of(HookPoint::PreToolUse).next().expect("a hook");
    assert_eq!(
        (hook.timeout.as_secs(), hook.fails_closed, hook.is_claude, hook.is_sandboxed),
        (5, false, true, false)
    );
    let theirs = hooks.into_project_hooks();
    assert!(theirs.of(HookPoint::Stop).all(|hook| hook.is_sandboxed && hook.fails_closed));
    for (text, expected) in [
        ("{", "it is not JSON"),
        (r#"{"hooks":[]}"#, "it is not an object"),
        (r#"{"hooks":{"Stop":{}}}"#, "`Stop` is not a list"),
        (r#"{"hooks":{"PreToolUse":[{"matcher":"(","hooks":[]}]}}"#, "no regular expression"),
    ] {
        let (_, why) = HookSet::read_claude(text, Path::new("s.json")).expect_err(text);
        assert!(why.contains(expected), "{why}");
    }
    for text in
        ["{}", r#"{"disableAllHooks":true,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}"#]
    {
        assert!(HookSet::read_claude(text, Path::new("s.json")).expect("settings").0.is_empty());
    }
}

#[test]
fn a_hook_of_claude_code_gets_and_gives_its_own_names() {
    let text = r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x"}]}]}}"#;
    let (hooks, _) = HookSet::read_claude(text, Path::new("s.json")).expect("settings");
    let hook = hooks.of(HookPoint::PreToolUse).next().expect("a hook");
    let request = HookRequest { thread: "t", run: "r", agent: ("main", true), workspace: Path::new("/w") };
    let input = json!({"path": "a.txt", "old": "1", "new": "2"});
    let call = CallInput { id: "c", tool: "edit", server: None, input: &input };
    let asked = request.of_call(hook, call, None);
    assert_eq!(
        (&asked["tool_name"], &asked["tool_input"]),
        (&json!("Edit"), &json!({"file_path": "/w/a.txt", "old_string": "1", "new_string": "2"}))
    );
    assert_eq!(
        (&asked["session_id"], &asked["cwd"], &asked["agent_id"]),
        (&json!("t"), &json!("/w"), &Value::Null)
    );
    let mut changed = asked["tool_input"].as_object().cloned().expect("an object");
    changed["new_string"] = json!("3");
    let changed = request.changed_input(hook, call, changed);
    assert_eq!(Value::Object(changed), json!({"path": "a.txt", "old": "1", "new": "3"}));
    let server = CallInput { id: "c", tool: "tickets_find", server: Some("tickets"), input: &input };
    assert_eq!(request.of_call(hook, server, None)["tool_name"], "mcp__tickets__find");
    let sub = HookRequest { agent: ("scan", false), ..request };
    let asked = sub.of_end(HookPoint::SubagentStop, Some("done"), true);
    assert_eq!(
        (&asked["agent_id"], &asked["stop_hook_active"], &asked["last_assistant_message"]),
        (&json!("r"), &json!(true), &json!("done"))
    );
}

#[test]
fn a_command_that_names_a_file_of_the_workspace_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let (own, workspace) = (root.join("own"), root.join("w"));
    std::fs::create_dir_all(&own).expect("a folder");
    std::fs::create_dir_all(workspace.join("bin")).expect("a folder");
    std::fs::write(workspace.join("bin/check"), "").expect("a file");
    std::os::unix::fs::symlink(workspace.join("bin/check"), own.join("link")).expect("a link");
    let inside = |command: &str| {
        let command = command.replace("@w", &workspace.display().to_string());
        let command = command.replace("@p", &root.display().to_string());
        names_workspace_file(&command, &own, &workspace)
    };
    for command in [
        "@w/bin/check",
        "sh '@w/bin/check' x",
        "true;@w/bin/check",
        "$CLAUDE_PROJECT_DIR/bin/check",
        "\"${OFFSHOOT_WORKSPACE}\"/bin/check",
        "../w/bin/check",
        "cd @w && make",
        "sh link",
        r#""${CLAUDE_PROJECT_DIR%/}"/x.sh"#,
        "${CLAUDE_PROJECT_DIR:-.}/x.sh",
        "printenv OFFSHOOT_WORKSPACE",
        r#"cd "$(jq -r .cwd)" && ./lint.sh"#,
        r#"cd "`jq -r '.["cwd"]'`" && ./lint.sh"#,
        "jq -r .cwd > place; read -r w < place; $w/x.sh",
        "jq -r .tool_input.file_path | xargs sh",
        "sh @p/*/bin/check",
        "sh @p/?/bin/check",
        "sh @p/[w]/bin/check",
        "sh @p/{w,own}/bin/check",
        "cd .. && sh w/bin/check",
        "cd @p; cd w; ./bin/check",
        "make -C @w",
        "make -C@w",
        "make --directory=@w",
        "PATH=/usr/bin:@w/bin check",
        "sh ~+/x",
    ] {
        assert!(inside(command), "{command}");
    }
    for command in [
        "jq -r .tool_name",
        "./check --strict",
        "/usr/bin/true",
        "bin/check",
        "cat > /dev/null; exit 2",
        "sh \"$HOME/.claude/check\" || exit 2",
        "cd ~/.claude && ./check",
        r#"[ -f found ] && echo '{"decision":"block","reason":"why"}'"#,
    ] {
        assert!(!inside(command), "{command}");
    }
    assert!(
        names_workspace_file("sh w/bin/check", &root, &workspace),
        "the workspace is beside the settings"
    );
    assert!(
        !names_workspace_file("sh check", &workspace.join("own"), &workspace),
        "the settings are in the workspace"
    );
    let spaced = root.join("my work");
    let command = format!("sh '{}/x'", spaced.display());
    assert!(names_workspace_file(&command, &own, &spaced), "{command}");
}
