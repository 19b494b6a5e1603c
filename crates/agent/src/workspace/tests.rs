//! Attacks on path resolution.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use expect_test::expect;
use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use serde_json::json;

use crate::testing::{SECRET, TestWorkspace};
use crate::{Workspace, WorkspaceError};

/// Creates a workspace with every kind of link.
fn fixture() -> TestWorkspace {
    let fixture = TestWorkspace::new(&[
        ("plain.txt", "plain"),
        ("a/b/deep.txt", "deep"),
        ("in -> a/b", ""),
        ("a/up -> ../plain.txt", ""),
        ("chain -> a/up", ""),
        ("out -> ../outside", ""),
        ("out.txt -> ../outside/secret.txt", ""),
        ("out and in -> ../yard/plain.txt", ""),
        ("a/b/out -> ../../../outside", ""),
        ("slash -> /", ""),
        ("etc -> /etc/hostname", ""),
        ("proc -> /proc/self/root", ""),
        ("fd -> /proc/self/cwd", ""),
        ("circle -> circle", ""),
        ("ping -> pong", ""),
        ("pong -> ping", ""),
        ("dangling -> none.txt", ""),
        ("dangling out -> ../outside/none.txt", ""),
        ("dangling deep -> new/er/none.txt", ""),
    ]);
    let link = |to: PathBuf, name| std::os::unix::fs::symlink(to, fixture.root.join(name)).expect("a link");
    link(fixture.root.join("a"), "absolute in");
    link(fixture.root.join("absolute in/b/deep.txt"), "absolute twice");
    link(fixture.root.join("a/../../outside/secret.txt"), "absolute dots");
    link(fixture.outside.clone(), "absolute out");
    link(fixture.outside.join("none.txt"), "dangling absolute out");
    rustix::fs::mknodat(CWD, fixture.root.join("pipe"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    let socket = std::os::unix::net::UnixListener::bind(fixture.root.join("socket")).expect("a socket");
    drop(socket);
    fixture
}

fn scrubbed(fixture: &TestWorkspace, text: &str) -> String {
    let home = fixture.root.parent().expect("it has one").canonicalize().expect("it is there");
    text.replace(&home.display().to_string(), "HOME")
}

#[test]
fn a_path_leads_to_a_file_inside_or_nowhere() {
    let fixture = fixture();
    let root = fixture.root.display().to_string();
    let long = "n".repeat(256);
    let longer = "d/".repeat(3_000);
    let mut seen = String::new();
    for path in [
        "plain.txt",
        "./a/../plain.txt",
        "a//b/./deep.txt",
        &format!("{root}/plain.txt"),
        &format!("{root}/./a/../plain.txt"),
        "in/deep.txt",
        "in/../b/deep.txt",
        "chain",
        "absolute in/b/deep.txt",
        "absolute in/up",
        "absolute twice",
        "..",
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "in/../../../outside/secret.txt",
        "out/secret.txt",
        "out.txt",
        "out and in",
        "in/out/secret.txt",
        "absolute in/b/out/secret.txt",
        "absolute out/secret.txt",
        "absolute dots",
        "slash/etc/hostname",
        "etc",
        "proc/etc/hostname",
        "fd",
        "/etc/hostname",
        "/proc/self/root/etc/hostname",
        "/",
        &format!("{root}/../outside/secret.txt"),
        &format!("{root}-not/plain.txt"),
        "circle",
        "ping",
        "dangling",
        "none/plain.txt",
        "plain.txt/",
        "plain.txt/x",
        "a",
        ".",
        &root,
        "pipe",
        "socket",
        "",
        "nul\0",
        "two\nlines",
        &long,
        &longer,
        "~/x",
    ] {
        let read = match fixture.context.workspace.read(Path::new(path), 100) {
            Ok(bytes) => String::from_utf8(bytes).expect("text"),
            Err(error) => format!("error: {error}"),
        };
        let path = path.replace(&root, "ROOT");
        let line = format!("{path:?}: {read}\n").replace(&long, "LONG").replace(&longer, "LONGER");
        seen += &scrubbed(&fixture, &line);
    }
    assert!(!seen.contains(SECRET));
    expect![[r#"
        "plain.txt": plain
        "./a/../plain.txt": plain
        "a//b/./deep.txt": deep
        "ROOT/plain.txt": plain
        "ROOT/./a/../plain.txt": plain
        "in/deep.txt": deep
        "in/../b/deep.txt": deep
        "chain": plain
        "absolute in/b/deep.txt": deep
        "absolute in/up": plain
        "absolute twice": deep
        "..": error: `..` is outside the workspace `HOME/yard`
        "../outside/secret.txt": error: `../outside/secret.txt` is outside the workspace `HOME/yard`
        "a/../../outside/secret.txt": error: `a/../../outside/secret.txt` is outside the workspace `HOME/yard`
        "in/../../../outside/secret.txt": error: `in/../../../outside/secret.txt` is outside the workspace `HOME/yard`
        "out/secret.txt": error: `out/secret.txt` is outside the workspace `HOME/yard`
        "out.txt": error: `out.txt` is outside the workspace `HOME/yard`
        "out and in": error: `out and in` is outside the workspace `HOME/yard`
        "in/out/secret.txt": error: `in/out/secret.txt` is outside the workspace `HOME/yard`
        "absolute in/b/out/secret.txt": error: `absolute in/b/out/secret.txt` is outside the workspace `HOME/yard`
        "absolute out/secret.txt": error: `absolute out/secret.txt` is outside the workspace `HOME/yard`
        "absolute dots": error: `absolute dots` is outside the workspace `HOME/yard`
        "slash/etc/hostname": error: `slash/etc/hostname` is outside the workspace `HOME/yard`
        "etc": error: `etc` is outside the workspace `HOME/yard`
        "proc/etc/hostname": error: `proc/etc/hostname` is outside the workspace `HOME/yard`
        "fd": error: `fd` is outside the workspace `HOME/yard`
        "/etc/hostname": error: `/etc/hostname` is outside the workspace `HOME/yard`
        "/proc/self/root/etc/hostname": error: `/proc/self/root/etc/hostname` is outside the workspace `HOME/yard`
        "/": error: `/` is outside the workspace `HOME/yard`
        "ROOT/../outside/secret.txt": error: `HOME/yard/../outside/secret.txt` is outside the workspace `HOME/yard`
        "ROOT-not/plain.txt": error: `HOME/yard-not/plain.txt` is outside the workspace `HOME/yard`
        "circle": error: `circle` contains a symlink loop, or a symlink that cannot be followed
        "ping": error: `ping` contains a symlink loop, or a symlink that cannot be followed
        "dangling": error: `dangling` does not exist
        "none/plain.txt": error: `none/plain.txt` does not exist
        "plain.txt/": error: `plain.txt/` is not a folder, or a part of the path is a file
        "plain.txt/x": error: `plain.txt/x` is not a folder, or a part of the path is a file
        "a": error: `a` is a folder
        ".": error: `.` is a folder
        "ROOT": error: `HOME/yard` is a folder
        "pipe": error: `pipe` is a pipe, socket or device, not a file
        "socket": error: `socket` is a pipe, socket or device, not a file
        "": error: the path `` is empty
        "nul\0": error: the path `nul\u{0}` contains a NUL byte
        "two\nlines": error: `two\nlines` does not exist
        "LONG": error: the path `LONG` is too long
        "LONGER": error: the path `LONGER` is too long
        "~/x": error: `~/x` does not exist
    "#]].assert_eq(&seen);
}

#[test]
fn a_write_lands_inside_or_nowhere() {
    let fixture = fixture();
    let before = TestWorkspace::tree(&fixture.outside);
    let mut seen = String::new();
    for path in [
        "in/new.txt",
        "chain",
        "dangling",
        "dangling deep",
        "absolute in/new.txt",
        "absolute in/x/y.txt",
        "absolute twice",
        "out.txt",
        "out/new.txt",
        "out/new/er.txt",
        "in/out/new.txt",
        "absolute out/new.txt",
        "absolute dots",
        "dangling out",
        "dangling absolute out",
        "dangling/below.txt",
        // Below the test's own folder, so that broken resolution harms nothing.
        &format!("slash{}/new.txt", fixture.outside.display()),
        &format!("proc{}/new.txt", fixture.outside.display()),
        "../new.txt",
        "new/../../new.txt",
        "circle",
        "circle/new.txt",
        "pipe",
        "socket",
        "a",
        "..",
        "nul\0",
        &"n".repeat(255),
        &"n".repeat(256),
    ] {
        let wrote = match fixture.context.workspace.write(Path::new(path), b"new") {
            Ok(()) => "written".to_owned(),
            Err(error) => format!("error: {error}"),
        };
        seen += &scrubbed(&fixture, &format!("{path:?}: {wrote}\n")).replace(&"n".repeat(255), "<255 n>");
    }
    assert_eq!(TestWorkspace::tree(&fixture.outside), before);
    assert!(!fixture.root.parent().expect("it has one").join("new.txt").exists());
    expect![[r#"
        "in/new.txt": written
        "chain": written
        "dangling": written
        "dangling deep": written
        "absolute in/new.txt": written
        "absolute in/x/y.txt": written
        "absolute twice": written
        "out.txt": error: `out.txt` is outside the workspace `HOME/yard`
        "out/new.txt": error: `out/new.txt` is outside the workspace `HOME/yard`
        "out/new/er.txt": error: `out/new/er.txt` is outside the workspace `HOME/yard`
        "in/out/new.txt": error: `in/out/new.txt` is outside the workspace `HOME/yard`
        "absolute out/new.txt": error: `absolute out/new.txt` is outside the workspace `HOME/yard`
        "absolute dots": error: `absolute dots` is outside the workspace `HOME/yard`
        "dangling out": error: `dangling out` is outside the workspace `HOME/yard`
        "dangling absolute out": error: `dangling absolute out` is outside the workspace `HOME/yard`
        "dangling/below.txt": error: `dangling/below.txt` is not a folder, or a part of the path is a file
        "slashHOME/outside/new.txt": error: `slashHOME/outside/new.txt` is outside the workspace `HOME/yard`
        "procHOME/outside/new.txt": error: `procHOME/outside/new.txt` is outside the workspace `HOME/yard`
        "../new.txt": error: `../new.txt` is outside the workspace `HOME/yard`
        "new/../../new.txt": error: `new/../../new.txt` is outside the workspace `HOME/yard`
        "circle": error: `circle` contains a symlink loop, or a symlink that cannot be followed
        "circle/new.txt": error: `circle/new.txt` contains a symlink loop, or a symlink that cannot be followed
        "pipe": error: `pipe` is a pipe, socket or device, not a file
        "socket": error: `socket` is a pipe, socket or device, not a file
        "a": error: `a` is a folder
        "..": error: `..` is a folder
        "nul\0": error: the path `nul\u{0}` contains a NUL byte
        "<255 n>": written
        "<255 n>n": error: the path `<255 n>n` is too long
    "#]].assert_eq(&seen);
    let read = |path| std::fs::read_to_string(fixture.root.join(path)).expect("it was written");
    for path in
        ["a/b/new.txt", "plain.txt", "none.txt", "new/er/none.txt", "a/new.txt", "a/x/y.txt", "a/b/deep.txt"]
    {
        assert_eq!(read(path), "new", "{path}");
    }
    assert!(fixture.root.join("chain").is_symlink(), "the link is still one");
}

#[test]
fn a_file_may_have_its_limit_and_no_more() {
    let fixture = TestWorkspace::new(&[("five.txt", "12345")]);
    let read = |limit| fixture.context.workspace.read(Path::new("five.txt"), limit);
    assert_eq!(read(5).expect("it fits"), b"12345");
    assert!(matches!(read(4), Err(WorkspaceError::TooLarge { limit: 4, .. })));
}

#[test]
fn a_workspace_is_a_folder_and_keeps_both_its_names() {
    let fixture = TestWorkspace::new(&[("plain.txt", "plain")]);
    let alias = fixture.outside.join("alias");
    std::os::unix::fs::symlink(&fixture.root, &alias).expect("a link");
    let workspace = Workspace::open(&alias).expect("it opens");
    assert_eq!(workspace.path(), fixture.root.canonicalize().expect("it is there"));
    for path in [alias.join("plain.txt"), workspace.path().join("plain.txt")] {
        assert_eq!(workspace.read(&path, 10).expect("it is inside"), b"plain");
    }
    assert!(Workspace::open(&fixture.root.join("plain.txt")).is_err());
    assert!(Workspace::open(&fixture.root.join("none")).is_err());
}

/// Compares all combinations of these path parts with the system's own resolution.
#[test]
fn no_path_that_anybody_can_think_of_leads_out() {
    const PARTS: [&str; 22] = [
        "a",
        "b",
        "..",
        "..",
        ".",
        "",
        "in",
        "out",
        "up",
        "chain",
        "absolute in",
        "absolute out",
        "absolute twice",
        "out and in",
        "slash",
        "proc",
        "circle",
        "dangling out",
        "plain.txt",
        "deep.txt",
        "secret.txt",
        "outside",
    ];
    let fixture = fixture();
    let root = fixture.root.canonicalize().expect("it is there");
    let before = TestWorkspace::tree(&fixture.outside);
    let mut random = fastrand::Rng::with_seed(5);
    let (mut inside, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let count = random.usize(1..7);
        let parts: Vec<&str> = (0..count).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
        let mut path = PathBuf::from(parts.join("/"));
        if random.u8(..4) == 0 {
            path = PathBuf::from(format!("{}/{}", fixture.root.display(), path.display()));
        }
        match fixture.context.workspace.read(&path, 1_000) {
            Ok(bytes) => {
                inside += 1;
                let place = fixture.root.join(&path).canonicalize().expect("it was read");
                assert!(place.starts_with(&root), "{path:?} led to {place:?}");
                assert_eq!(bytes, std::fs::read(place).expect("it was read"), "{path:?}");
            }
            Err(WorkspaceError::Outside { .. }) => refused += 1,
            Err(_) => {}
        }
    }
    assert!(inside > 100 && refused > 100, "{inside} inside, {refused} refused: the parts are badly chosen");
    for _ in 0..200 {
        let count = random.usize(1..5);
        let parts: Vec<&str> = (0..count).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
        let _ = fixture.context.workspace.write(Path::new(&parts.join("/")), b"new");
    }
    assert_eq!(TestWorkspace::tree(&fixture.outside), before);
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Swaps a folder and a link as fast as the system can, while tools use the path.
#[test]
fn nobody_can_swap_a_folder_for_a_link_at_the_right_moment() {
    let fixture = TestWorkspace::new(&[
        ("d/secret.txt", "harmless\n"),
        ("d/e/secret.txt", "harmless\n"),
        ("link -> ../outside", ""),
    ]);
    std::fs::create_dir(fixture.outside.join("e")).expect("a folder");
    std::fs::write(fixture.outside.join("e/secret.txt"), SECRET).expect("a file");
    let before = TestWorkspace::tree(&fixture.outside);
    let over = AtomicBool::new(false);
    let (d, link) = (fixture.root.join("d"), fixture.root.join("link"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    std::thread::scope(|scope| {
        // Stops the swaps also when the test fails.
        let _ends = Ends(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &d, CWD, &link, RenameFlags::EXCHANGE).expect("a swap");
            }
        });
        let (mut read, mut refused) = (0, 0);
        let mut round = 0;
        // Both outcomes must have occurred, or the race was not tested.
        while round < 4_000 || ((read == 0 || refused == 0) && round < 1_000_000) {
            round += 1;
            match fixture.context.workspace.read(Path::new("d/e/secret.txt"), 100) {
                Ok(bytes) => {
                    assert_eq!(bytes, b"harmless\n");
                    read += 1;
                }
                Err(WorkspaceError::Outside { .. }) => refused += 1,
                Err(WorkspaceError::Missing(_)) => {}
                Err(error) => panic!("{error}"),
            }
            if round % 20 == 0 {
                let _ = fixture.context.workspace.write(Path::new("d/e/new.txt"), b"new");
                let _ = fixture.context.workspace.write(Path::new(&format!("d/f{round}/new.txt")), b"new");
                // `call` searches the answer for the secret.
                runtime.block_on(fixture.call("grep", json!({"pattern": "."})));
                runtime.block_on(fixture.call("grep", json!({"pattern": ".", "path": "d/e"})));
                runtime.block_on(fixture.call("glob", json!({"pattern": "*", "path": "d"})));
                runtime.block_on(fixture.call("list", json!({"path": "d/e"})));
                runtime.block_on(fixture.call("read", json!({"path": "d/secret.txt"})));
            }
        }
        assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
    });
    assert_eq!(TestWorkspace::tree(&fixture.outside), before);
}

/// A killed process leaves a draft; a running one holds its lock.
#[test]
fn a_write_removes_leftovers_and_waits_for_an_active_write() {
    let fixture = TestWorkspace::new(&[
        ("x.txt", "old"),
        (".x.txt.offshoot-draft", "half"),
        (".y.txt.offshoot-draft -> ../outside/secret.txt", ""),
    ]);
    let before = TestWorkspace::tree(&fixture.outside);
    let workspace = &fixture.context.workspace;
    workspace.write(Path::new("x.txt"), b"new").expect("it clears the draft");
    workspace.write(Path::new("y.txt"), b"new").expect("it clears the link");
    assert_eq!(TestWorkspace::tree(&fixture.outside), before);
    let names: Vec<PathBuf> = TestWorkspace::tree(&fixture.root).into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, [fixture.root.join("x.txt"), fixture.root.join("y.txt")]);

    let busy = std::fs::File::create(fixture.root.join(".x.txt.offshoot-draft")).expect("a draft");
    busy.lock().expect("lock is not poisoned");
    assert!(matches!(workspace.write(Path::new("x.txt"), b"newer"), Err(WorkspaceError::Busy(_))));
    drop(busy);
    workspace.write(Path::new("x.txt"), b"newer").expect("nobody is at it");
}

#[test]
fn writers_of_one_file_take_turns() {
    let fixture = TestWorkspace::new(&[]);
    let text = |writer: u8| vec![b'a' + writer; 10_000];
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let workspace = &fixture.context.workspace;
            scope.spawn(move || {
                for _ in 0..10 {
                    workspace.write(Path::new("shared.txt"), &text(writer)).expect("its turn comes");
                    let read = workspace.read(Path::new("shared.txt"), 20_000).expect("it is always there");
                    assert!((0..4).any(|writer| read == text(writer)), "a file is never half of one");
                }
            });
        }
    });
    assert_eq!(TestWorkspace::tree(&fixture.root).len(), 1);
}

/// No path and no link leads to a write of a protected place.
#[test]
fn a_protected_place_cannot_be_written_by_any_way() {
    let fixture = TestWorkspace::new(&[
        (".git/config", "old"),
        (".git/hooks/", ""),
        ("sub/.git", "gitdir: ../.git/modules/sub"),
        ("plain/", ""),
        ("hooks -> .git/hooks", ""),
        ("config -> .git/config", ""),
        ("chain -> config", ""),
        ("plain/up -> ../.git", ""),
        ("dangling -> .envrc", ""),
        ("dangling folder -> .husky/pre-commit", ""),
        ("dangling deep -> new/.git/hooks/post-checkout", ""),
        (".GITIGNORE-not", "old"),
    ]);
    std::os::unix::fs::symlink(fixture.root.join(".git"), fixture.root.join("absolute")).expect("a link");
    std::fs::hard_link(fixture.root.join(".git/config"), fixture.root.join("hard")).expect("a link");
    let root = fixture.root.display().to_string();
    let mut seen = String::new();
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/new/deep/file",
        ".git",
        ".GIT/hooks/pre-commit",
        ".Git/config",
        "git~1/config",
        ".git./config",
        ".git /config",
        "plain/../.git/config",
        "./.git//hooks/../config",
        &format!("{root}/.git/config"),
        &format!("{root}/plain/../.git/config"),
        "sub/.git",
        "sub/.git/config",
        "plain/.git",
        "plain/.git/hooks/x",
        "new/folder/.git/config",
        "hooks/pre-commit",
        "config",
        "chain",
        "plain/up/config",
        "absolute/hooks/x",
        "dangling",
        "dangling folder",
        "dangling deep",
        ".offshoot/agents/a.md",
        ".claude/settings.json",
        ".opencode/plugin/x.js",
        ".mcp.json",
        "opencode.json",
        "OpenCode.jsonc",
        "offshoot.toml",
        ".envrc",
        "plain/.envrc",
        ".vscode/tasks.json",
        ".husky/pre-commit",
        "hard",
        ".gitignore",
        ".github/workflows/x.yml",
        "git/config",
        "mcp.json",
    ] {
        let wrote = match fixture.context.workspace.write(Path::new(path), b"new") {
            Ok(()) => "written".to_owned(),
            Err(error) => format!("error: {error}"),
        };
        seen += &scrubbed(&fixture, &format!("{path:?}: {wrote}\n"));
    }
    expect![[r#"
        ".git/config": error: `.git/config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        ".git/hooks/pre-commit": error: `.git/hooks/pre-commit` is protected: git runs hooks and programs that are configured there; ask the user to change it
        ".git/new/deep/file": error: `.git/new/deep/file` is protected: git runs hooks and programs that are configured there; ask the user to change it
        ".git": error: `.git` is protected: git runs hooks and programs that are configured there; ask the user to change it
        ".GIT/hooks/pre-commit": error: `.GIT/hooks/pre-commit` is protected: git runs hooks and programs that are configured there; ask the user to change it
        ".Git/config": error: `.Git/config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "git~1/config": error: `git~1/config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        ".git./config": error: `.git./config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        ".git /config": error: `.git /config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "plain/../.git/config": error: `plain/../.git/config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "./.git//hooks/../config": error: `./.git//hooks/../config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "HOME/yard/.git/config": error: `HOME/yard/.git/config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "HOME/yard/plain/../.git/config": error: `HOME/yard/plain/../.git/config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "sub/.git": error: `sub/.git` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "sub/.git/config": error: `sub/.git/config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "plain/.git": error: `plain/.git` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "plain/.git/hooks/x": error: `plain/.git/hooks/x` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "new/folder/.git/config": error: `new/folder/.git/config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "hooks/pre-commit": error: `hooks/pre-commit` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "config": error: `config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "chain": error: `chain` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "plain/up/config": error: `plain/up/config` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "absolute/hooks/x": error: `absolute/hooks/x` is protected: git runs hooks and programs that are configured there; ask the user to change it
        "dangling": error: `dangling` is protected: direnv runs it in every shell that enters the folder; ask the user to change it
        "dangling folder": error: `dangling folder` is protected: git runs the hooks in it; ask the user to change it
        "dangling deep": error: `dangling deep` is protected: git runs hooks and programs that are configured there; ask the user to change it
        ".offshoot/agents/a.md": error: `.offshoot/agents/a.md` is protected: offshoot reads agents, rules and servers from there; ask the user to change it
        ".claude/settings.json": error: `.claude/settings.json` is protected: Claude Code reads hooks and permissions from there; ask the user to change it
        ".opencode/plugin/x.js": error: `.opencode/plugin/x.js` is protected: OpenCode reads plugins and permissions from there; ask the user to change it
        ".mcp.json": error: `.mcp.json` is protected: it names programs that are started as tool servers; ask the user to change it
        "opencode.json": error: `opencode.json` is protected: it configures programs and permissions of OpenCode; ask the user to change it
        "OpenCode.jsonc": error: `OpenCode.jsonc` is protected: it configures programs and permissions of OpenCode; ask the user to change it
        "offshoot.toml": error: `offshoot.toml` is protected: it sets offshoot's permissions; ask the user to change it
        ".envrc": error: `.envrc` is protected: direnv runs it in every shell that enters the folder; ask the user to change it
        "plain/.envrc": error: `plain/.envrc` is protected: direnv runs it in every shell that enters the folder; ask the user to change it
        ".vscode/tasks.json": error: `.vscode/tasks.json` is protected: editors run tasks and programs that are configured there; ask the user to change it
        ".husky/pre-commit": error: `.husky/pre-commit` is protected: git runs the hooks in it; ask the user to change it
        "hard": written
        ".gitignore": written
        ".github/workflows/x.yml": written
        "git/config": written
        "mcp.json": written
    "#]].assert_eq(&seen);
    let read = |path| std::fs::read_to_string(fixture.root.join(path)).expect("it is there");
    assert_eq!((read(".git/config"), read("hard")), ("old".to_owned(), "new".to_owned()));
    assert_eq!(
        TestWorkspace::tree(&fixture.root.join(".git")),
        [(fixture.root.join(".git/config"), b"old".to_vec())]
    );
    for absent in
        ["new/.git", "new/folder/.git", "plain/.git", ".husky", ".offshoot", ".envrc", "git~1", ".GIT"]
    {
        assert!(!fixture.root.join(absent).exists(), "{absent}");
    }
}

/// Each case: existing files, the path to write, and whether it may be written.
#[test]
fn files_that_git_runs_cannot_be_written() {
    const BARE: [(&str, &str); 3] = [("HEAD", "ref: x"), ("objects/", ""), ("refs/heads/", "")];
    const BELOW: [(&str, &str); 3] = [("d/HEAD", "ref: x"), ("d/objects/", ""), ("d/refs/", "")];
    const HOOKS: (&str, &str) = (".git/config", "[core]\n\thooksPath = tools/hooks\n");
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, bool);
    let cases: &[Case] = &[
        // A repository without `.git` around it, and its last part.
        (&BARE[1..], "HEAD", false),
        (&BARE[1..], "objects/../HEAD", false),
        (&BARE[..2], "refs/heads/main", false),
        (&[BARE[0], BARE[2]], "objects/x", false),
        (&BELOW[1..], "d/HEAD", false),
        (&[BELOW[0]], "d/commondir", false),
        (&BARE[..1], "refs/heads/main", true),
        (&BARE[1..], "sub/HEAD", true),
        (&BELOW, "d/config", false),
        (&BELOW, "d/notes/a.txt", false),
        (&BELOW, "a.txt", true),
        (&BARE, "config", false),
        (&BARE, "hooks/pre-commit", false),
        (&BARE, "src/a.txt", true),
        // References from settings.
        (&[(".git", "gitdir: ./own")], "own/config", false),
        (&[HOOKS], "tools/hooks/pre-commit", false),
        (&[HOOKS], "tools/other", true),
        (&[HOOKS, ("tools/hooks -> ../real", ""), ("real/", "")], "real/pre-commit", false),
        (&[(".git/config", "[include]\npath = ../own.cfg")], "own.cfg", false),
        (&[("sub/.git/config", "[core]\nhooksPath = ../h")], "h/pre-commit", false),
        (&[], ".githooks/pre-commit", false),
        // Links from a protected name, and their targets.
        (&[("tools/hooks/", ""), (".husky -> tools/hooks", "")], ".husky/pre-commit", false),
        (&[("tools/hooks/", ""), (".husky -> tools/hooks", "")], "tools/hooks/pre-commit", false),
        (&[("tools/hooks/", ""), (".husky -> tools/hooks", "")], "tools/hook", true),
        (&[("a/g/", ""), (".git -> a/g", ""), ("x -> .git", "")], "x/config", false),
        (&[(".envrc -> notes.txt", "")], "notes.txt", false),
        (&[(".envrc -> notes.txt", "")], ".envrc", false),
        (&[("sub/.envrc -> ../notes.txt", "")], "notes.txt", false),
        (&[(".envrc -> a", ""), ("a -> deep/notes.txt", "")], "deep/notes.txt", false),
        (&[(".vscode -> ../outside", "")], "notes.txt", true),
    ];
    let mut wrong = Vec::new();
    for (files, path, may) in cases {
        let fixture = TestWorkspace::new(files);
        let file = || std::fs::read(fixture.root.join(path)).ok();
        let before = file();
        let right = match fixture.context.workspace.write(Path::new(path), b"new") {
            Ok(()) => *may,
            Err(WorkspaceError::Protected { .. }) => !may && file() == before,
            Err(_) => false,
        };
        if !right {
            wrong.push(format!("{files:?}: {path}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn a_write_that_is_refused_leaves_no_folders() {
    let fixture = TestWorkspace::new(&[("src/a.rs", "")]);
    let mut rules = crate::PermissionRules::default();
    rules.add(crate::RuleList::Deny, "write(closed)").expect("a rule");
    rules.add(crate::RuleList::Deny, "write(src/**/gen)").expect("a rule");
    let workspace = Workspace::open(&fixture.root).expect("a workspace");
    let workspace = workspace.with_hidden(&[fixture.root.join("own")]).with_rules(std::sync::Arc::new(rules));
    for path in ["closed/a/b.txt", "src/x/gen/y/b.txt", "own/a/b.txt", "new/.git/hooks/x", "new/.envrc"] {
        workspace.write(Path::new(path), b"x").expect_err(path);
    }
    let mut left: Vec<_> =
        std::fs::read_dir(&fixture.root).expect("a folder").map(|e| e.expect("one").file_name()).collect();
    left.extend(
        std::fs::read_dir(fixture.root.join("src")).expect("a folder").map(|e| e.expect("one").file_name()),
    );
    assert_eq!(left, ["src", "a.rs"]);
}

/// A hard link is no way around a rule.
#[tokio::test]
async fn a_protected_path_is_protected_under_all_its_names() {
    let mut fixture =
        TestWorkspace::new(&[("secrets/key", "hidden"), ("open", "shown"), ("own/x", "hidden")]);
    for (from, to) in [("secrets/key", "twin"), ("open", "other"), ("own/x", "a")] {
        std::fs::hard_link(fixture.root.join(from), fixture.root.join(to)).expect("a link");
    }
    let mut rules = crate::PermissionRules::default();
    rules.add(crate::RuleList::Deny, "read(secrets)").expect("a rule");
    let workspace =
        Workspace::open(&fixture.root).expect("a workspace").with_hidden(&[fixture.root.join("own")]);
    fixture.context.workspace = std::sync::Arc::new(workspace.with_rules(std::sync::Arc::new(rules)));
    let mut seen = String::new();
    for path in ["twin", "a", "other"] {
        seen += &format!("{}\n", fixture.ask("read", json!({ "path": path })).await);
        seen +=
            &format!("{}\n", fixture.ask("grep", json!({ "path": path, "pattern": "hidden|shown" })).await);
    }
    seen += &fixture.ask("grep", json!({ "pattern": "hidden|shown" })).await;
    expect![[r#"
        error: `twin` is closed to tools: it is another name of a closed file: the rule `read(secrets)` denies it

        error: `twin` is closed to tools: it is another name of a closed file: the rule `read(secrets)` denies it

        error: `a` is closed to tools: it is another name of a closed file: offshoot keeps its journal or its settings there

        error: `a` is closed to tools: it is another name of a closed file: offshoot keeps its journal or its settings there

             1	shown

        other:1:shown

        open:1:shown
        other:1:shown
    "#]]
    .assert_eq(&seen);
}
