//! Runs every command block of the README and of `docs/`, and compares the output. CONTRIBUTING.md explains the notation.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

#[path = "docs/ci.rs"]
mod ci;
mod common;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/typed.rs"]
mod typed;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::TestEnv;

/// Mark of a command block that is not run, after its language.
const NO_RUN: &str = "no-run:";
/// Wildcard: any text within a line; alone on a line, any number of lines.
const ANYTHING: &str = "…";

/// One test for each document, named like it.
macro_rules! documents {
    ($($name:ident: $path:literal,)*) => {
        const ALL: &[&str] = &[$($path),*];
        $(#[test] fn $name() { run_document($path); })*
    };
}

documents! {
    agents: "docs/guide/agents.md",
    cache: "docs/guide/cache.md",
    cache_reference: "docs/reference/cache.md",
    capture: "docs/guide/capture.md",
    ci: "docs/guide/ci.md",
    comparison: "docs/reference/comparison.md",
    dependencies: "docs/reference/dependencies.md",
    events: "docs/reference/events.md",
    export: "docs/guide/export.md",
    forks: "docs/guide/forks.md",
    forks_reference: "docs/reference/forks.md",
    getting_started: "docs/guide/getting-started.md",
    goldens: "docs/guide/goldens.md",
    hooks: "docs/guide/hooks.md",
    hooks_reference: "docs/reference/hooks.md",
    import: "docs/guide/import.md",
    index: "docs/README.md",
    isolation: "docs/reference/isolation.md",
    journal: "docs/reference/journal.md",
    json: "docs/reference/json.md",
    lanes: "docs/reference/lanes.md",
    models: "docs/guide/models.md",
    performance: "docs/reference/performance.md",
    permissions: "docs/guide/permissions.md",
    permissions_reference: "docs/reference/permissions.md",
    readme: "README.md",
    record: "docs/guide/record.md",
    recording: "docs/reference/recording.md",
    replay: "docs/guide/replay.md",
    replay_reference: "docs/reference/replay.md",
    report: "docs/guide/report.md",
    run: "docs/guide/run.md",
    sandbox: "docs/reference/sandbox.md",
    scenarios: "docs/reference/scenarios.md",
    script: "docs/reference/script.md",
    security: "docs/reference/security.md",
    session: "docs/reference/session.md",
    soak: "docs/reference/soak.md",
    subagents: "docs/guide/subagents.md",
    tool_servers: "docs/guide/tool-servers.md",
    tools: "docs/reference/tools.md",
    verify: "docs/guide/verify.md",
    verify_reference: "docs/reference/verify.md",
}

#[test]
fn every_document_has_its_test() {
    let mut found = Vec::new();
    let mut folders = vec![project().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // Design records have no command blocks.
                if !path.ends_with("docs/design") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(project()).unwrap();
                found.push(name.to_str().unwrap().to_owned());
            }
        }
    }
    found.push("README.md".to_owned());
    found.sort();
    let mut tested = ALL.to_vec();
    tested.sort_unstable();
    assert_eq!(found, tested);
}

#[test]
fn an_ellipsis_matches_changing_text() {
    for (shown, said, fits) in [
        ("a", "a", true),
        ("a", "b", false),
        ("…", "", true),
        ("run … in …", "run 1 in 2 s", true),
        ("run … in …", "walk 1 in 2 s", false),
        ("a…", "abc", true),
        ("a\n…\nz", "a\nb\nc\nz", true),
        ("a\n…\nz", "a\nz", true),
        ("a\n…\nz", "a\nb", false),
        ("a", "a\nb", false),
        ("", "", true),
        ("", "a", false),
    ] {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(matches(&lines(shown), &lines(said)), fits, "{shown:?} and {said:?}");
    }
}

#[test]
fn unrun_blocks_have_a_reason() {
    let refused = |text: &str| Document::read(text).unwrap_err();
    assert!(refused("```\noffshoot ps\n```\n").contains("line 1: a block needs a language"));
    assert!(refused("```console no-run\n$ offshoot ps\n```\n").contains("line 1: `no-run` needs a reason"));
    assert!(refused("```text\noffshoot ps\n```\n").contains("line 2: a command"));
    assert!(refused("```console\noffshoot ps\n```\n").contains("line 2: output before any command"));
    assert!(refused("```console\n$ offshoot ps\n").contains("line 1: the block never ends"));
    let steps = Document::read(
        "<!-- setup\ntouch a\n-->\n```yaml file=b/c.yaml\nx: 1\n```\n```console\n$ ls a \\\n  b # exit code 2\n…\n```\n",
    );
    let [Step::Setup(setup), Step::File(file, text), Step::Command(command)] = &steps.unwrap().steps[..]
    else {
        panic!("three steps")
    };
    assert_eq!((setup.as_str(), file.as_str(), text.as_str()), ("touch a", "b/c.yaml", "x: 1\n"));
    let told = (command.line, command.text.as_str(), command.code, command.output.as_slice());
    assert_eq!(told, (8, "ls a \\\n  b # exit code 2", 2, &["…".to_owned()][..]));
}

/// One instruction of a document.
#[derive(Debug)]
struct Document {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// Commands of a comment, which readers do not see.
    Setup(String),
    /// A block that is the text of a file.
    File(String, String),
    /// A command and what it prints.
    Command(Shown),
}

#[derive(Debug)]
struct Shown {
    line: usize,
    text: String,
    code: i32,
    output: Vec<String>,
}

impl Document {
    fn read(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            if line == "<!-- setup" {
                let commands: Vec<&str> =
                    lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "-->").collect();
                steps.push(Step::Setup(commands.join("\n")));
            } else if let Some(info) = line.trim_start().strip_prefix("```") {
                let indent = line.len() - line.trim_start().len();
                let mut block = Vec::new();
                let mut ended = false;
                for (n, line) in lines.by_ref() {
                    if line.trim() == "```" {
                        ended = true;
                        break;
                    }
                    block.push((n + 1, line.get(indent..).unwrap_or_default()));
                }
                if !ended {
                    return Err(format!("line {}: the block never ends", at + 1));
                }
                read_block(at + 1, info, &block, &mut steps)?;
            }
        }
        Ok(Self { steps })
    }
}

fn read_block(at: usize, info: &str, block: &[(usize, &str)], steps: &mut Vec<Step>) -> Result<(), String> {
    let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
    let is_command = |line: &str| ["offshoot ", "$ ", "cargo ", "npm "].iter().any(|it| line.starts_with(it));
    match (language, rest) {
        ("", _) => {
            Err(format!("line {at}: a block needs a language: `console` for commands, `text` for the rest"))
        }
        ("console", rest) if rest.starts_with(NO_RUN) && rest.len() > NO_RUN.len() + 3 => Ok(()),
        ("console", rest) if rest.starts_with("no-run") => {
            Err(format!("line {at}: `no-run` needs a reason, as in `console no-run: it needs a key`"))
        }
        ("console", _) => read_commands(block, steps),
        ("text" | "sh" | "bash", _) => match block.iter().find(|(_, line)| is_command(line)) {
            Some((at, _)) => {
                Err(format!("line {at}: a command in a block that is not run; make it `console`"))
            }
            None => Ok(()),
        },
        (_, rest) => {
            if let Some(file) = rest.strip_prefix("file=") {
                let text: String = block.iter().map(|(_, line)| format!("{line}\n")).collect();
                steps.push(Step::File(file.to_owned(), text));
            }
            Ok(())
        }
    }
}

fn read_commands(block: &[(usize, &str)], steps: &mut Vec<Step>) -> Result<(), String> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut goes_on = false;
    for (at, line) in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(text), _) if !goes_on => {
                commands.push(Shown { line: *at, text: text.to_owned(), code: 0, output: Vec::new() });
            }
            (_, Some(command)) if goes_on => {
                write!(command.text, "\n{line}").unwrap();
            }
            (_, Some(command)) => command.output.push((*line).to_owned()),
            (_, None) => return Err(format!("line {at}: output before any command; begin it with `$ `")),
        }
        goes_on = line.ends_with('\\') && commands.last().is_some_and(|it| it.output.is_empty());
    }
    for mut command in commands {
        if let Some((_, code)) = command.text.rsplit_once("# exit code ") {
            command.code =
                code.trim().parse().map_err(|_| format!("line {}: which exit code?", command.line))?;
        }
        steps.push(Step::Command(command));
    }
    Ok(())
}

/// Returns `true` if lines match the printed output.
fn matches(shown: &[String], said: &[String]) -> bool {
    match shown.split_first() {
        None => said.is_empty(),
        Some((first, rest)) if first.trim() == ANYTHING => {
            (0..=said.len()).any(|n| matches(rest, &said[n..]))
        }
        Some((first, rest)) => {
            said.split_first().is_some_and(|(line, more)| fits(first, line) && matches(rest, more))
        }
    }
}

fn fits(shown: &str, said: &str) -> bool {
    match shown.split_once(ANYTHING) {
        None => shown.trim_end() == said.trim_end(),
        Some((before, after)) => said.strip_prefix(before).is_some_and(|rest| {
            let ends = (0..=rest.len()).filter(|at| rest.is_char_boundary(*at));
            ends.into_iter().any(|at| fits(after, &rest[at..]))
        }),
    }
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs everything a document asks for, in a folder of its own, and tells all that is not as it says.
fn run_document(path: &str) {
    let text = fs::read_to_string(project().join(path)).unwrap();
    let document = Document::read(&text).unwrap_or_else(|error| panic!("{path}, {error}"));
    let place = Place::new();
    let mut wrong = String::new();
    for step in &document.steps {
        match step {
            Step::Setup(commands) => {
                let (code, said) = place.bash(commands);
                assert_eq!(code, 0, "{path}: its setup fails: {said}");
            }
            Step::File(file, text) => {
                let file = place.work.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            Step::Command(command) => {
                let (code, said) = place.bash(&command.text);
                let lines: Vec<String> = said.lines().map(str::to_owned).collect();
                if code != command.code || !matches(&command.output, &lines) {
                    writeln!(
                        wrong,
                        "{path}, line {}: $ {}\n--- says (exit code {}):\n{}\n--- does (exit code {code}):\n{said}",
                        command.line,
                        command.text,
                        command.code,
                        command.output.join("\n")
                    )
                    .unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A folder with our examples and scenarios, and one shell for all commands.
struct Place {
    env: TestEnv,
    work: PathBuf,
}

impl Place {
    fn new() -> Self {
        let env = TestEnv::new();
        let work = env.path("work");
        for folder in ["work", "home", "bin"] {
            fs::create_dir(env.path(folder)).unwrap();
        }
        for folder in ["examples", "scenarios"] {
            copy(&project().join(folder), &work.join(folder));
        }
        // In the project `cargo run --release -- ARGUMENTS` is the program; here it is the one that is tested.
        let cargo = "#!/bin/sh\nif [ \"$1 $2 $3\" = 'run --release --' ]; then shift 3; exec offshoot \"$@\"; fi\n\
                     echo \"this stands in for cargo, and runs nothing but offshoot\" >&2\nexit 101\n";
        fs::write(env.path("bin/cargo"), cargo).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(env.path("bin/cargo"), executable).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_offshoot"), env.path("bin/offshoot")).unwrap();
        fs::write(env.path("cwd"), work.display().to_string()).unwrap();
        fs::write(env.path("variables"), "").unwrap();
        Self { env, work }
    }

    /// Runs a command with the width of 80 columns, but without a terminal.
    fn bash(&self, commands: &str) -> (i32, String) {
        let state = self.env.path("");
        let script = format!(
            "set -a; . {0}/variables; set +a; cd \"$(cat {0}/cwd)\"\nset -a\n{{ {commands}\n}} 2>&1\ncode=$?\n\
             pwd > {0}/cwd; export -p | grep -v ' -x _=' > {0}/variables; exit $code",
            state.display()
        );
        let path = format!("{}:{}", self.env.path("bin").display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .args(["-c", &script])
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.env.path("home"))
            .env("OFFSHOOT_CACHE_DIR", common::cache_dir())
            .env("OFFSHOOT_SLOTS_DIR", self.env.path("slots"))
            .env("COLUMNS", "80")
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap_or(-1), said)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}
