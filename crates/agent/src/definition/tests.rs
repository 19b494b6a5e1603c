//! Files in the shapes that Claude Code's and OpenCode's users write them, in our own words.

use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::*;

/// Some of ours; there may be more by now.
const TOOLS: [&str; 9] = ["read", "write", "edit", "list", "glob", "grep", "bash", "manage_tasks", "skill"];
/// Pattern for the tools of a server that is not connected yet.
const SERVER: &str = "tickets_*";

/// A project and a user's folder with files in them.
struct Folders {
    _folder: TempDir,
    project: PathBuf,
    user: PathBuf,
    trust: Trust,
}

impl Folders {
    /// Each path is the project's, or the user's where it begins with `user:`.
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path");
        let (project, user) = (root.join("project"), root.join("user"));
        for (path, text) in files {
            let file = match path.strip_prefix("user:") {
                Some(path) => user.join(path),
                None => project.join(path),
            };
            std::fs::create_dir_all(file.parent().expect("below")).expect("a folder");
            std::fs::write(file, text).expect("a file");
        }
        Self { _folder: folder, project, user, trust: Trust::default() }
    }

    /// The user has accepted all that is there.
    fn accepted(mut self) -> Self {
        for file in self.load().files {
            if file.is_project && file.path.is_file() {
                self.trust.accept(&file.path, &std::fs::read(&file.path).expect("read"));
            }
        }
        self
    }

    fn load(&self) -> Definitions {
        let tools: Vec<String> = TOOLS.iter().chain([&SERVER]).map(|tool| (*tool).to_owned()).collect();
        Definitions::load(DefinitionFolders { project: &self.project, user: &self.user }, &self.trust, &tools)
    }

    fn told(&self) -> String {
        let all = self.load();
        let short = |path: &Path| {
            let path = path.strip_prefix(self.project.parent().expect("above")).expect("below");
            path.display().to_string()
        };
        let mut told = String::new();
        for file in &all.files {
            let state = match &file.state {
                DefinitionState::Invalid(broken) => format!("broken, {broken}"),
                DefinitionState::Hidden { by } => format!("hidden by {}", short(by)),
                other => format!("{other:?}"),
            };
            let name = file.name.as_deref().unwrap_or("-");
            told += &format!("{} {name} {}: {state}\n", file.kind.word(), short(&file.path));
            for UnusedKey { key, line, why, .. } in &file.unused {
                told += &format!("    {line} {key}: {why}\n");
            }
        }
        for agent in &all.agents {
            let tools = agent.tools.among(TOOLS.iter().copied());
            told += &format!(
                "= {}: {:?}, model {:?}, steps {:?}, tools {}\n",
                agent.name,
                agent.prompt.lines().next().unwrap_or_default(),
                agent.model,
                agent.max_steps,
                tools.map_or("all".to_owned(), |tools| tools.join(" ")),
            );
        }
        told
    }
}

fn check(files: &[(&str, &str)], expected: Expect) {
    expected.assert_eq(&Folders::new(files).accepted().told());
}

#[test]
fn agents_of_claude_code_load() {
    check(
        &[
            (
                ".claude/agents/reviewer.md",
                "---\nname: diff-reviewer\ndescription: Use this agent after a change was made. Examples: <example>Context: a \
                 parser was changed.\\nuser: \"is it good?\"\\nassistant: \"I ask the reviewer\"</example>\ntools: Read, Grep, \
                 Glob, Bash(git diff:*), NotebookEdit, mcp__tickets__find, mcp__elsewhere__find\nmodel: inherit\ncolor: cyan\nmaxTurns: 12\n---\n\nYou \
                 read changes.\n\nSay what is wrong.\n",
            ),
            (
                ".claude/agents/deep/scout.md",
                "---\r\nname: scout\r\ndescription: >-\r\n  Looks for things\r\n  all over the place.\r\nmodel: haiku\r\ndisallowedTools: \
                 [Write, Edit, Bash]\r\npermissionMode: plan\r\nhooks:\r\n  PreToolUse: []\r\n---\r\nYou look for \
                 things.\r\n",
            ),
            (".claude/agents/notes.txt", "nothing"),
        ],
        expect![[r#"
            agent scout project/.claude/agents/deep/scout.md: Used
                8 permissionMode: an agent cannot allow itself anything
                9 hooks: definition files cannot start programs
            agent - project/.claude/agents/notes.txt: Ignored("its name does not end in `.md`")
            agent diff-reviewer project/.claude/agents/reviewer.md: Used
                4 tools: no tool `NotebookEdit`
                4 tools: no tool `elsewhere_find`
                6 color: agents have no colours
            = scout: "You look for things.", model Some("haiku"), steps None, tools read list glob grep manage_tasks skill
            = diff-reviewer: "You read changes.", model None, steps Some(12), tools read glob grep bash
        "#]],
    );
}

#[test]
fn agents_of_opencode_load() {
    check(
        &[
            (
                ".opencode/agent/docs.md",
                "---\ndescription: Writes documentation\nmode: subagent\nmodel: anthropic/claude-sonnet-5\ntemperature: 0.1\ntools:\n  \
                 bash: false\n  todowrite: false\n  tickets_*: false\n---\n\nYou write documentation.\n",
            ),
            (
                ".opencode/agents/team/plan.md",
                "---\ndescription: Plans\nsteps: 5\ntools:\n  \"*\": false\n  read: true\n  grep: true\npermission:\n  edit: deny\n  grep: \
                 ask\n  read: allow\n  bash:\n    \"git push*\": deny\n---\nYou plan.",
            ),
            (".opencode/agent/off.md", "---\ndescription: Not now\ndisable: true\n---\n"),
        ],
        expect![[r#"
            agent docs project/.opencode/agent/docs.md: Used
                3 mode: every agent can be the main one and a sub-agent
                5 temperature: models use the provider's default
            agent off project/.opencode/agent/off.md: Used
            agent team/plan project/.opencode/agents/team/plan.md: Used
                8 permission: `read`: an agent cannot allow itself anything
            = docs: "You write documentation.", model Some("anthropic/claude-sonnet-5"), steps None, tools read write edit list glob grep skill
            = off: "", model None, steps None, tools all
            = team/plan: "You plan.", model None, steps Some(5), tools read grep
        "#]],
    );
}

/// A rule about an unknown tool has no effect and is reported.
#[test]
fn rules_for_unknown_tools_are_named() {
    check(
        &[
            (
                ".opencode/agent/a.md",
                "---\ndescription: d\npermission:\n  external_directory: deny\n  doom_loop: ask\n  nosuchtool:\n    \"a\": deny\n    \"b\": deny\n  \
                 edit: deny\n  tickets_close: deny\n---\nx",
            ),
            (".opencode/agent/b.md", "---\ndescription: d\npermission:\n  shell: deny\n---\nx"),
            (".claude/skills/s/SKILL.md", "---\ndescription: d\nagent: nowhere\nmodel: opus\n---\nx"),
            (".claude/commands/c.md", "---\ndescription: d\nagent: a\nmodel: opus\n---\nx"),
        ],
        expect![[r#"
            agent a project/.opencode/agent/a.md: Used
                3 permission: `external_directory`: file tools never leave the workspace
                3 permission: no tool `doom_loop`
                3 permission: no tool `nosuchtool`
            agent b project/.opencode/agent/b.md: Used
            skill s project/.claude/skills/s/SKILL.md: Used
                3 agent: without `context: fork`, a skill is followed by the agent that reads it
                4 model: a skill is followed with the model of the agent that reads it
            command c project/.claude/commands/c.md: Used
            = a: "x", model None, steps None, tools read list glob grep bash manage_tasks skill
            = b: "x", model None, steps None, tools read write edit list glob grep manage_tasks skill
        "#]],
    );
}

#[test]
fn a_file_that_is_not_looked_at_is_named() {
    let text = "---\ndescription: d\npermissions:\n  deny: [Write]\n  defaultMode: plan\n---\nx";
    let folders = Folders::new(&[
        (".claude/agents/a.md", text),
        (".claude/agents/dots.md", "---\ndescription: d\n...\nmodel: opus\n---\nx"),
        ("elsewhere/SKILL.md", "x"),
        (".claude/skills/own/SKILL.md", "x"),
    ]);
    for link in [".claude/agents/team", ".claude/skills/linked"] {
        std::os::unix::fs::symlink(folders.project.join("elsewhere"), folders.project.join(link))
            .expect("a link");
    }
    expect![[r#"
        agent a project/.claude/agents/a.md: Used
            3 permissions: `defaultMode` is unknown; only `deny`, `ask` and `allow` are supported
        agent - project/.claude/agents/dots.md: broken, line 4: the front matter is not YAML: a line `...` ends it too early
        agent - project/.claude/agents/team: Ignored("links to folders are not followed")
        skill - project/.claude/skills/linked: Ignored("links to folders are not followed")
        skill own project/.claude/skills/own/SKILL.md: Used
        = a: "x", model None, steps None, tools read edit list glob grep bash manage_tasks skill
    "#]]
    .assert_eq(&folders.accepted().told());
}

#[test]
fn too_many_files_are_reported() {
    let names: Vec<String> = (0..1005).map(|n| format!("user:agents/a{n}.md")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), "---\ndescription: d\n---\nx")).collect();
    let all = Folders::new(&files).load();
    assert_eq!((all.agents.len(), all.files.len()), (1000, 1001));
    let last = all.files.last().expect("one");
    assert!(
        last.path.ends_with("user/agents") && matches!(last.state, DefinitionState::Ignored(_)),
        "{last:?}"
    );
}

/// To OpenCode `*` is any letters, a `/` among them.
#[test]
fn a_star_of_opencode_s_goes_through_folders() {
    let front = |pattern: &str| {
        format!(
            "---\ndescription: d\npermission:\n  read:\n    \"*\": allow\n    \"{pattern}\": deny\n---\nx"
        )
    };
    for (pattern, closed, open) in [
        ("*.env", &["a.env", ".env", "cfg/deep/prod.env"][..], &["a.envx", "env", "cfg/env.d/x"][..]),
        ("*.env.*", &["a.env.b", "x/a.env.b", "a.env.d/e/f"], &["a.env", "a.envb"]),
        (".env*", &[".env", ".env.local", ".envs/a/b"], &["a/.env"]),
        ("a*b", &["ab", "axb", "a/x/b", "ax/y/zb", "a/b/c"], &["a", "xab"]),
        ("src/*", &["src/a", "src/a/b"], &["srcs/a", "src"]),
        ("*/x", &["a/x", "a/b/x"], &["x"]),
        ("**/x", &["x", "a/x", "a/b/x"], &["ax"]),
        ("[a].{b,c}", &["[a].{b,c}"], &["a.b"]),
    ] {
        let folders = Folders::new(&[("user:agents/a.md", &front(pattern))]);
        let mut rules = crate::PermissionRules::default();
        for (list, rule) in folders.load().agents[0].permissions() {
            rules.add(list, &rule).expect("a rule");
        }
        let is_closed = |place: &&&str| rules.file_denial(Path::new(place), false).is_some();
        assert_eq!(
            closed.iter().filter(|place| !is_closed(place)).collect::<Vec<_>>(),
            [&""; 0],
            "{pattern}"
        );
        assert_eq!(open.iter().filter(is_closed).collect::<Vec<_>>(), [&""; 0], "{pattern}");
    }
}

#[test]
fn broken_files_are_named_with_line_and_reason() {
    let long = format!("---\nname: {}\ndescription: d\n---\nx", "n".repeat(65));
    let table = [
        ("no-front", "You are an agent."),
        ("no-end", "---\nname: a\ndescription: d\n\nYou go on for ever."),
        ("no-description", "---\nname: a\n---\nx"),
        ("empty-description", "---\nname: a\ndescription: \"\"\n---\nx"),
        ("no-prompt", "---\ndescription: d\n---\n\n"),
        ("not-yaml", "---\nname: a\ndescription: \"d\ntools: [a\n---\nx"),
        ("a-list", "---\n- name\n- description\n---\nx"),
        ("twice", "---\nname: a\nname: b\ndescription: d\n---\nx"),
        ("tab", "---\nname: a\ndescription: d\ntools:\n\t- Read\n---\nx"),
        ("name-is-a-path", "---\nname: ../../a\ndescription: d\n---\nx"),
        ("name-is-a-list", "---\ndescription: d\nname: [a]\n---\nx"),
        ("long-name", &long),
        ("tools-number", "---\ndescription: d\n\ntools: 7\n---\nx"),
        ("tools-inside", "---\ndescription: d\ntools: [Read, {a: b}]\n---\nx"),
        ("tools-map", "---\ndescription: d\ntools:\n  read: maybe\n---\nx"),
        ("steps", "---\ndescription: d\nmaxTurns: 0\n---\nx"),
        ("steps-word", "---\ndescription: d\nmaxSteps: many\n---\nx"),
        ("disable", "---\ndescription: d\ndisable: perhaps\n---\nx"),
        ("permission", "---\ndescription: d\npermission:\n  edit: never\n---\nx"),
        ("model", "---\ndescription: d\nmodel: [opus]\n---\nx"),
        ("empty", ""),
    ];
    let mut told = String::new();
    for (name, text) in table {
        let folders = Folders::new(&[(&format!("user:agents/{name}.md"), text)]);
        let all = folders.load();
        let [DefinitionFile { state: DefinitionState::Invalid(broken), .. }] = &all.files[..] else {
            panic!("{name} is not broken: {:?}", all.files);
        };
        assert!(!all.is_sound() && all.agents.is_empty());
        told += &format!("{name}: {broken}\n");
    }
    expect![[r#"
        no-front: line 1: no front matter: the first line must be `---`
        no-end: line 1: the front matter is not closed: a line `---` is missing
        no-description: line 1: `description` is missing
        empty-description: line 1: `description` is missing
        no-prompt: line 1: no text after the front matter: the agent would have no instructions
        not-yaml: line 4: the front matter is not YAML: invalid indentation in multiline quoted scalar
        a-list: line 2: the front matter is not YAML: expected mapping start
        twice: line 3: the front matter is not YAML: duplicate mapping key: name
        tab: line 5: the front matter is not YAML: tabs disallowed within this context (block indentation)
        name-is-a-path: line 2: `name` must start with a letter or digit and contain only those and `-`, `_`, `.`, `/`, `:`; at most 64 bytes
        name-is-a-list: line 3: `name` must be a text, but is: ["a"]
        long-name: line 2: `name` must start with a letter or digit and contain only those and `-`, `_`, `.`, `/`, `:`; at most 64 bytes
        tools-number: line 4: `tools` must be a list, names separated by commas, or a map of true and false, but is: 7
        tools-inside: line 3: `tools` must be a list, names separated by commas, or a map of true and false, but is: {"a":"b"}
        tools-map: line 3: `tools` must be a list, names separated by commas, or a map of true and false, but is: "maybe"
        steps: line 3: `maxTurns` must be a whole number above 0, but is: 0
        steps-word: line 3: `maxSteps` must be a whole number above 0, but is: "many"
        disable: line 3: `disable` must be true or false
        permission: line 3: `permission` must be `allow`, `ask` or `deny` for a tool or for patterns of a tool, but is: "never"
        model: line 3: `model` must be a text, but is: ["opus"]
        empty: line 1: no front matter: the first line must be `---`
    "#]].assert_eq(&told);
}

#[test]
fn invalid_files_are_reported() {
    let folders = Folders::new(&[("user:agents/a.md", "x")]);
    std::fs::write(folders.user.join("agents/a.md"), b"---\nname: a\n\xff\n---\nx").expect("written");
    std::fs::write(folders.user.join("agents/big.md"), vec![b'x'; 300 << 10]).expect("written");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folders.user.join("agents/pipe.md"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("a pipe");
    std::os::unix::fs::symlink("nowhere", folders.user.join("agents/link.md")).expect("a link");
    expect![[r#"
        agent - user/agents/a.md: broken, line 3: the file is not UTF-8
        agent - user/agents/big.md: broken, line 1: the file is larger than 262144 bytes
        agent - user/agents/link.md: broken, line 1: cannot read the file: No such file or directory (os error 2)
        agent - user/agents/pipe.md: broken, line 1: it is not a file
    "#]]
    .assert_eq(&folders.told());
}

#[test]
fn the_first_definition_of_a_name_wins_and_the_other_is_reported() {
    let text = |says: &str| format!("---\nname: twin\ndescription: d\n---\n{says}");
    check(
        &[
            (".offshoot/agents/a.md", &text("ours")),
            (".claude/agents/b.md", &text("theirs")),
            (".opencode/agent/twin.md", &text("others")),
            ("user:agents/twin.md", &text("mine")),
        ],
        expect![[r#"
            agent twin project/.offshoot/agents/a.md: Used
            agent twin project/.claude/agents/b.md: hidden by project/.offshoot/agents/a.md
            agent twin project/.opencode/agent/twin.md: hidden by project/.offshoot/agents/a.md
            agent twin user/agents/twin.md: hidden by project/.offshoot/agents/a.md
            = twin: "ours", model None, steps None, tools all
        "#]],
    );
}

#[test]
fn a_projects_file_counts_only_as_it_was_accepted() {
    let text = "---\ndescription: d\n---\nproject";
    let own = text.replace("project", "mine");
    let files = [(".claude/agents/twin.md", text), ("user:agents/twin.md", &own)];
    let mut folders = Folders::new(&files);
    let prompt = |folders: &Folders| folders.load().agents[0].prompt.clone();
    assert_eq!(prompt(&folders), "mine", "what is not accepted hides nothing");
    let file = folders.project.join(".claude/agents/twin.md");
    assert!(folders.trust.accept(&file, text.as_bytes()));
    assert_eq!(prompt(&folders), "project");
    std::fs::write(&file, format!("{text}!")).expect("changed");
    assert_eq!(prompt(&folders), "mine", "one letter more is another file");
    assert_eq!(folders.load().files[0].state, DefinitionState::NotAccepted);
    // The same bytes elsewhere are not accepted with them.
    let other = folders.project.join(".claude/agents/other.md");
    std::fs::write(&other, text).expect("another");
    assert_eq!(folders.load().files[0].state, DefinitionState::NotAccepted);
}

#[test]
fn accepted_files_are_readable_by_the_user_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data/trust.json");
    let mut trust = Trust::read(&path).expect("nothing yet");
    trust.accept(Path::new("/a"), b"a");
    trust.write(&path).expect("written");
    let again = Trust::read(&path).expect("read");
    assert!(again.accepts(Path::new("/a"), b"a") && !again.accepts(Path::new("/a"), b"b"));
    assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    std::fs::write(&path, "{}").expect("damaged");
    assert!(matches!(Trust::read(&path), Err(TrustError::Format { .. })), "never as if nothing was said");
}

#[test]
fn skills_and_commands_load_and_are_filled_in() {
    let folders = Folders::new(&[
        (
            ".claude/skills/release/SKILL.md",
            "---\nname: release\ndescription: How a release is made\nallowed-tools: Read, Bash\n---\nTag it, then say so.",
        ),
        (".claude/skills/release/notes.md", "not a skill"),
        (".claude/skills/empty/readme.txt", ""),
        (".claude/skills/loose.md", "x"),
        (
            ".claude/commands/git/fix.md",
            "---\ndescription: Mends an issue\nargument-hint: [number] [how]\nallowed-tools: Read, Edit\nmodel: \
             haiku\n---\nMend issue $1 like $2; all: $ARGUMENTS. It costs $100 or $x.",
        ),
        (".opencode/command/test.md", "---\nagent: build\nsubtask: true\n---\nRun the tests."),
        (".offshoot/commands/plain.md", "No front matter at all."),
    ])
    .accepted();
    let mut told = folders.told();
    let all = folders.load();
    for (skills, name, arguments) in [
        (&all.commands, "git:fix", "7 'as before, \"but\" better' 9"),
        (&all.commands, "git:fix", ""),
        (&all.commands, "git:fix", "$1 $ARGUMENTS"),
        (&all.commands, "test", "the parser"),
        (&all.commands, "plain", ""),
        (&all.skills, "release", "1.0"),
    ] {
        let skill = skills.iter().find(|skill| skill.name == name).expect("it is used");
        let project = folders.project.display().to_string();
        let filled = skill.filled_in(arguments).replace(&project, "PROJECT");
        told +=
            &format!("/{name} {arguments}\n    {}\n", filled.replace("\n\n", "\n").replace('\n', "\n    "));
    }
    expect![[r#"
        skill - project/.claude/skills/empty: Ignored("it contains no `SKILL.md`")
        skill - project/.claude/skills/loose.md: Ignored("a skill is a folder that contains a `SKILL.md`")
        skill release project/.claude/skills/release/SKILL.md: Used
        command plain project/.offshoot/commands/plain.md: Used
        command git:fix project/.claude/commands/git/fix.md: Used
        command test project/.opencode/command/test.md: Used
            3 subtask: a command runs in the current conversation
        /git:fix 7 'as before, "but" better' 9
            Mend issue 7 like as before, "but" better; all: 7 'as before, "but" better' 9. It costs $100 or $x.
        /git:fix 
            Mend issue  like ; all: . It costs $100 or $x.
        /git:fix $1 $ARGUMENTS
            Mend issue $1 like $ARGUMENTS; all: $1 $ARGUMENTS. It costs $100 or $x.
        /test the parser
            Run the tests.
            Arguments: the parser
        /plain 
            No front matter at all.
        /release 1.0
            Tag it, then say so.
            Arguments: 1.0
            Its files are in `PROJECT/.claude/skills/release`.
    "#]].assert_eq(&told);
}

#[test]
fn the_agent_that_is_meant_is_found() {
    let agent = |name: &str, is_disabled| Agent { name: name.to_owned(), is_disabled, ..Agent::default() };
    let told = |agents: &[Agent], name| match choose(agents, name) {
        Ok((agent, warning)) => format!("{} {}", agent.name, warning.unwrap_or_default()),
        Err(ChooseError::NoSuch { name, known }) => format!("no {name} among {}", known.join(" ")),
        Err(error) => error.to_string(),
    };
    let some = [agent("off", true), agent("scout", false)];
    let switched_off = [agent(GENERAL, true), agent("scout", false)];
    let mut seen = String::new();
    for (agents, name) in [
        (&some[..], None),
        (&some, Some("scout")),
        (&some, Some("off")),
        (&some, Some("nobody")),
        (&some, Some(GENERAL)),
        (&switched_off, None),
        (&switched_off, Some(GENERAL)),
        (&switched_off[..1], None),
        (&[], None),
    ] {
        seen += &format!("{:?}: {}\n", name, told(agents, name));
    }
    expect![[r#"
        None: general-purpose 
        Some("scout"): scout 
        Some("off"): no off among scout general-purpose
        Some("nobody"): no nobody among scout general-purpose
        Some("general-purpose"): general-purpose 
        None: scout `general-purpose` is switched off; using `scout` instead
        Some("general-purpose"): no general-purpose among scout
        None: no agent available: `general-purpose` is switched off, and no other is defined
        None: general-purpose 
    "#]]
    .assert_eq(&seen);
}

/// Permission settings of a file, with the tools and rules that result.
#[test]
fn rules_on_arguments_narrow_and_never_widen() {
    let table = [
        "permission: {read: {\"./secrets/**\": deny}}",
        "permissions: {deny: [\"Read(./secrets/**)\", \"Bash(git push:*)\"], allow: [Write]}",
        "permission: {edit: deny}",
        "permission: {edit: {\"docs/**\": ask}}",
        "permission: {bash: {\"*\": deny, \"git diff*\": allow, \"git push*\": ask}}",
        "permission: {bash: {\"*\": ask, \"git diff*\": allow}}",
        "permission: {read: {\"/etc/**\": deny}}",
        "permission: {read: {\"/etc/**\": allow}}",
        "tools: Read, Bash(git diff:*), Bash(git log:*)",
        "tools: [Bash, \"Bash(git diff:*)\"]",
        "tools: [\"Read(src/**)\", Grep]",
        "tools: [\"Read(/etc/passwd)\", Grep]",
        "disallowedTools: Bash(rm:*), Write",
        "disallowedTools: [\"Read(../x)\"]",
    ];
    let mut told = String::new();
    for said in table {
        let text = format!("---\ndescription: d\n{said}\n---\nx");
        let all = Folders::new(&[("user:agents/a.md", &text)]).load();
        let [Agent { tools, rules, .. }] = &all.agents[..] else { panic!("{said}: {:?}", all.files) };
        let mut rules: Vec<_> = rules.iter().filter_map(ToolRule::permission).collect();
        rules.extend(tools.only());
        let tools = tools.among(TOOLS.iter().copied()).map_or("all".to_owned(), |tools| tools.join(" "));
        told += &format!("{said}\n    tools: {tools}\n");
        for (list, rule) in rules {
            told += &format!("    {list:?} {}\n", rule.replace('\n', " or "));
        }
        for UnusedKey { why, .. } in &all.files[0].unused {
            told += &format!("    not used: {why}\n");
        }
    }
    expect![[r#"
        permission: {read: {"./secrets/**": deny}}
            tools: all
            Deny read(./secrets/**)
        permissions: {deny: ["Read(./secrets/**)", "Bash(git push:*)"], allow: [Write]}
            tools: all
            Deny read(./secrets/**)
            Deny bash(git push:*)
            not used: `write`: an agent cannot allow itself anything
        permission: {edit: deny}
            tools: read list glob grep bash manage_tasks skill
        permission: {edit: {"docs/**": ask}}
            tools: all
            Ask edit(docs/**)
            Ask write(docs/**)
        permission: {bash: {"*": deny, "git diff*": allow, "git push*": ask}}
            tools: all
            Only bash(git diff*) or bash(git push*)
            Allow bash(git diff*)
            Ask bash(git push*)
        permission: {bash: {"*": ask, "git diff*": allow}}
            tools: all
            Ask bash
            Allow bash(git diff*)
        permission: {read: {"/etc/**": deny}}
            tools: write edit list glob grep bash manage_tasks skill
            not used: `read(/etc/**)` cannot be enforced, so the agent does not get the tool
        permission: {read: {"/etc/**": allow}}
            tools: all
            not used: `read(/etc/**)` is not supported
        tools: Read, Bash(git diff:*), Bash(git log:*)
            tools: read bash
            Only Bash(git diff:*) or Bash(git log:*)
        tools: [Bash, "Bash(git diff:*)"]
            tools: bash
        tools: ["Read(src/**)", Grep]
            tools: read grep
            Only Read(src/**)
        tools: ["Read(/etc/passwd)", Grep]
            tools: grep
            not used: `Read(/etc/passwd)`: paths are those of the workspace, without `/` before them and `..`: the tool is left out
        disallowedTools: Bash(rm:*), Write
            tools: read edit list glob grep bash manage_tasks skill
            Deny bash(rm:*)
        disallowedTools: ["Read(../x)"]
            tools: write edit list glob grep bash manage_tasks skill
            not used: `Read(../x)`: paths are those of the workspace, without `/` before them and `..`: the tool is left out
    "#]]
    .assert_eq(&told);
}
