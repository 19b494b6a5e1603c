//! Attacks from inside of the sandbox, through the whole program: each is refused, or stays without effect.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]
#![allow(clippy::print_stderr, reason = "what was not checked is said aloud")]

mod common;

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{CommandOutput, TestEnv};
use serde_json::{Value, json};

/// Text that must never be visible.
const SECRET: &str = "kestrel-in-the-attic";

/// Starts a program where the system has no namespaces left to give.
const NO_NAMESPACES: [&str; 5] =
    ["unshare", "-Ur", "sh", "-c", "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\""];

/// Starts a program where the system has nothing left to watch folders with.
const NO_WATCHES: [&str; 5] =
    ["unshare", "-Ur", "sh", "-c", "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$0\" \"$@\""];

/// Expected result of an attack.
enum Must {
    /// It fails, and its output holds this.
    Fail(&'static str),
    /// It may do as it likes; the world is looked at afterwards. Its output holds this.
    Say(&'static str),
}
use Must::{Fail, Say};

/// A workspace, surrounded by files that must not change.
struct World {
    env: TestEnv,
    tcp: TcpListener,
    unix: UnixListener,
    datagrams: UnixDatagram,
    unnamed: UnixListener,
    /// The name of that one, which no folder has.
    name: String,
    /// Tells our processes from others.
    mark: String,
    /// Each file with its mode and the time it was last changed in any way, from before.
    stamps: Vec<(&'static str, Stamp)>,
}

/// A mode, and the seconds and parts of them when the content and when anything was changed.
type Stamp = (u32, i64, i64, i64, i64);

/// Paths that no command may access.
const NOT_THEIRS: &[&str] = &[
    "outside",
    "outside/keep.txt",
    "home/.ssh",
    "home/.ssh/id_test",
    "home/.netrc",
    "data/token",
    "w/.git",
    "w/.git/config",
    "w/.git/hooks",
];

impl World {
    fn new() -> Self {
        let env = TestEnv::new();
        for folder in [
            "w/.git/hooks",
            "w/sub",
            "w/hookdir",
            "outside",
            "home/.ssh",
            "home/.config/offshoot",
            "data",
            "tmp",
        ] {
            std::fs::create_dir_all(env.path(folder)).unwrap();
        }
        env.write("w/a.txt", "alpha\n");
        std::os::unix::fs::symlink("hookdir", env.path("w/.husky")).unwrap();
        env.write("w/.git/config", "[core]\n");
        env.write("outside/keep.txt", SECRET);
        env.write("home/.ssh/id_test", SECRET);
        env.write("home/.netrc", SECRET);
        env.write("data/token", SECRET);
        // There may be several worlds in one process.
        static WORLDS: AtomicU32 = AtomicU32::new(10);
        let number = format!("{}{}", std::process::id(), WORLDS.fetch_add(1, Ordering::Relaxed));
        let name = format!("offshoot-test-{number}");
        let unnamed = SocketAddr::from_abstract_name(&name).unwrap();
        let world = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            unix: UnixListener::bind(env.path("w/server.sock")).unwrap(),
            datagrams: UnixDatagram::bind(env.path("w/log.sock")).unwrap(),
            unnamed: UnixListener::bind_addr(&unnamed).unwrap(),
            mark: format!("4242{number}"),
            name,
            stamps: NOT_THEIRS.iter().map(|path| (*path, stamp(&env, path))).collect(),
            env,
        };
        world.tcp.set_nonblocking(true).unwrap();
        world.unix.set_nonblocking(true).unwrap();
        world.datagrams.set_nonblocking(true).unwrap();
        world.unnamed.set_nonblocking(true).unwrap();
        world
    }

    /// A command with the places of this world in it.
    fn fill(&self, command: &str) -> String {
        let path = |name| self.env.path(name).canonicalize().unwrap().display().to_string();
        command
            .replace("OUT", &path("outside"))
            .replace("HOME_", &path("home"))
            .replace("DATA", &path("data"))
            .replace("WORK", &path("w"))
            .replace("PORT", &self.tcp.local_addr().unwrap().port().to_string())
            .replace("NAME", &self.name)
            .replace("MARK", &self.mark)
    }

    /// Lets a scripted model make these calls, one after the other, and returns the run as `show` has it.
    fn calls(&self, inputs: &[Value], wrap: &[&str]) -> Vec<(String, String)> {
        self.calls_and_words(inputs, wrap).0
    }

    /// Makes the calls, and returns the messages to the user, too.
    fn calls_and_words(&self, inputs: &[Value], wrap: &[&str]) -> (Vec<(String, String)>, String) {
        let calls: Vec<String> = inputs
            .iter()
            .enumerate()
            .map(|(n, input)| format!("          - call: {{ tool: bash, id: toolu_{n}, input: {input} }}\n"))
            .collect();
        let script = format!(
            "format: 1\nlanes:\n  - lane: main\n    match: {{ any: true }}\n    turns:\n      - reply:\n{}      - reply: [ {{ text: done }} ]\n",
            calls.concat()
        );
        self.env.write("script.yaml", &script);
        let said = CommandOutput::of(
            self.offshoot(&["run", "--script", "../script.yaml", "attack"], wrap).output().unwrap(),
        );
        assert_eq!(said.code, Some(0), "{said:?}");
        let run = said.stderr.lines().rev().find_map(|line| line.strip_prefix("run ")).unwrap().to_owned();
        let shown =
            CommandOutput::of(self.offshoot(&["show", &run, "--format", "json"], &[]).output().unwrap());
        let shown: Value =
            serde_json::from_str(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {shown:?}"));
        let calls = shown["tool_calls"].as_array().unwrap().iter();
        let results = calls.map(|call| {
            let text = call["result"].to_string();
            (call["status"].as_str().unwrap().to_owned(), text)
        });
        (results.collect(), said.stderr)
    }

    fn offshoot(&self, arguments: &[&str], wrap: &[&str]) -> Command {
        let plain = self.env.offshoot(arguments);
        let mut command = match wrap {
            [] => plain,
            [program, rest @ ..] => {
                let mut wrapped = Command::new(program);
                wrapped.args(rest).arg(plain.get_program()).args(plain.get_args()).env_clear();
                wrapped.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
                wrapped
            }
        };
        command
            .current_dir(self.env.path("w"))
            .env("ANTHROPIC_API_KEY", SECRET)
            .env("MY_PASSWORD", SECRET)
            .env("TMPDIR", self.env.path("tmp"));
        command
    }

    /// The world is as it was.
    fn assert_untouched(&self) {
        let names = |folder: &str| {
            let entries = std::fs::read_dir(self.env.path(folder)).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names("outside"), ["keep.txt"]);
        assert_eq!(self.env.read("outside/keep.txt"), SECRET);
        assert_eq!(names("home/.ssh"), ["id_test"]);
        assert_eq!(names("w/.git"), ["config", "hooks"]);
        assert_eq!(names("w/.git/hooks"), [] as [&str; 0]);
        assert_eq!(self.env.read("w/.git/config"), "[core]\n");
        for absent in [
            "w/.envrc",
            "w/.husky/pre-commit",
            "w/sub/.git",
            "w/.mcp.json",
            "w/.vscode",
            "w/sub/deep/.envrc",
            "w/sub/.mcp.json",
        ] {
            assert!(!self.env.path(absent).exists(), "{absent}");
        }
        assert!(self.tcp.accept().is_err(), "somebody called by TCP");
        assert!(self.unix.accept().is_err(), "somebody called by a socket's path");
        assert!(self.unnamed.accept().is_err(), "somebody called by a socket's name");
        assert!(self.datagrams.recv(&mut [0; 9]).is_err(), "somebody sent a datagram");
        assert_eq!(self.left_running(), [] as [String; 0]);
        let now: Vec<_> = self.stamps.iter().map(|(path, _)| (*path, stamp(&self.env, path))).collect();
        assert_eq!(now, self.stamps, "modes and times");
    }

    /// Processes of ours that still run.
    fn left_running(&self) -> Vec<String> {
        let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines.filter(|line| line.contains(&self.mark) && !line.contains("script.yaml")).collect()
    }
}

fn stamp(env: &TestEnv, path: &str) -> Stamp {
    let found = std::fs::symlink_metadata(env.path(path)).unwrap();
    (found.mode(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
}

/// Each with what it must come to.
fn attacks() -> Vec<(&'static str, Must)> {
    let mut attacks = vec![
        // It works at all.
        (
            "echo hello > new.txt && cat new.txt && echo x > $TMPDIR/x && ls /usr > /dev/null && echo fine",
            Say("hello\\nfine"),
        ),
        // Out of the workspace.
        ("echo x > OUT/new.txt", Fail("ead-only file system")),
        ("echo x >> OUT/keep.txt", Fail("ead-only file system")),
        ("truncate -s 0 OUT/keep.txt", Fail("ead-only file system")),
        ("perl -e 'truncate(\"OUT/keep.txt\", 0) or die \"$!\"'", Fail("ead-only file system")),
        ("rm -f OUT/keep.txt", Fail("ead-only file system")),
        ("mv a.txt OUT/a.txt", Fail("ead-only file system")),
        ("mkdir OUT/folder", Fail("ead-only file system")),
        ("ln OUT/keep.txt linked && echo x > linked", Fail("")),
        ("ln a.txt OUT/linked", Fail("")),
        ("ln -s OUT link && echo x > link/new.txt", Fail("ead-only file system")),
        ("cd .. && echo x > outside/new.txt", Fail("ead-only file system")),
        ("echo x > /proc/self/root/OUT/new.txt", Fail("ead-only file system")),
        ("echo x > /proc/self/cwd/../outside/new.txt", Fail("ead-only file system")),
        ("echo x > /proc/1/root/OUT/new.txt", Fail("ermission denied")),
        ("echo x > /tmp/offshoot-MARK", Fail("ead-only file system")),
        ("echo x > /etc/offshoot-MARK", Fail("ead-only file system")),
        ("echo x > /dev/shm/offshoot-MARK", Fail("ead-only file system")),
        ("mknod disk b 8 0 && cat disk", Fail("")),
        ("echo 1 > /proc/sys/kernel/panic", Fail("")),
        // Not what is in it, but what is said of it.
        ("chmod 777 OUT", Fail("ead-only file system")),
        ("chmod 777 HOME_/.ssh", Fail("ead-only file system")),
        ("chmod 4755 OUT/keep.txt", Fail("chmod")),
        ("chmod 600 /proc/self/root/OUT/keep.txt", Fail("ead-only file system")),
        ("ln -s OUT/keep.txt far && chmod 777 far", Fail("ead-only file system")),
        ("touch -d 2001-01-01 OUT/keep.txt", Fail("ead-only file system")),
        ("touch -d 2001-01-01 OUT", Fail("ead-only file system")),
        ("chown $(id -u):$(id -g) OUT/keep.txt", Fail("ead-only file system")),
        ("exec 3< OUT && chmod 777 /proc/self/fd/3", Fail("")),
        ("chmod 4755 a.txt", Fail("Operation not permitted")),
        ("chmod g+s sub", Fail("Operation not permitted")),
        ("chmod 700 a.txt && touch -d 2001-01-01 a.txt && chmod 644 a.txt && echo changed", Say("changed")),
        // Files of the user that commands may not read.
        ("cat HOME_/.ssh/id_test", Fail("Permission denied")),
        ("cat HOME_/.netrc", Fail("Permission denied")),
        ("cp OUT/keep.txt here.txt; cat here.txt", Fail("")),
        ("cat DATA/store.db DATA/token", Fail("Permission denied")),
        ("ls DATA", Fail("Permission denied")),
        ("cat /etc/shadow", Fail("Permission denied")),
        ("env; echo the end", Say("the end")),
        ("cat /proc/[0-9]*/environ | tr '\\0' '\\n'; echo the end", Say("the end")),
        ("cat /proc/$PPID/environ /proc/1/environ; cat /proc/$PPID/mem; echo the end", Say("the end")),
        ("ls /proc/$PPID/fd/ && cat /proc/$PPID/fd/*", Fail("")),
        // What is protected.
        ("echo x > .git/hooks/pre-commit", Fail("ead-only file system")),
        ("echo x >> .git/config", Fail("ead-only file system")),
        ("sed -i s/core/evil/ .git/config", Fail("ead-only file system")),
        ("rm -rf .git", Fail("")),
        ("mv .git .git2 && mkdir -p .git/hooks && echo x > .git/hooks/x", Fail("")),
        ("ln -s .git/hooks h && echo x > h/pre-commit", Fail("ead-only file system")),
        ("ln .git/config linked-config && echo x > linked-config", Fail("")),
        ("mv a.txt .git/config", Fail("")),
        ("chmod 777 .git/config", Fail("ead-only file system")),
        ("umount .git && echo x > .git/config", Fail("")),
        ("mount -o remount,rw .git && echo x > .git/config", Fail("")),
        ("unshare -Urm true", Fail("Operation not permitted")),
        ("rm .husky && mkdir .husky && echo x > .husky/pre-commit", Fail("`.husky.not-trusted`")),
        ("echo 'touch OUT/x' > .envrc", Fail("is a protected place that was created or changed")),
        ("mkdir -p sub/.git .vscode && echo x > sub/.git/config", Fail("sub/.git.not-trusted")),
        (
            "mkdir sub/deep && echo x > sub/deep/.envrc; echo x > sub/.mcp.json",
            Fail("sub/deep/.envrc.not-trusted"),
        ),
        // The network, and other programs.
        ("exec 3<>/dev/tcp/127.0.0.1/PORT", Fail("")),
        ("exec 3<>/dev/tcp/1.1.1.1/443", Fail("")),
        ("echo x > /dev/udp/1.1.1.1/53", Fail("")),
        (
            "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; connect(S, pack_sockaddr_un(\"WORK/server.sock\")) or die \"no: $!\"'",
            Fail("no: Operation not permitted"),
        ),
        (
            "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; connect(S, pack_sockaddr_un(\"\\0NAME\")) or die \"no: $!\"'",
            Fail("no: Operation not permitted"),
        ),
        (
            "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_DGRAM, 0) or die \"no: $!\"; send(S, \"x\", 0, pack_sockaddr_un(\"WORK/log.sock\"))'",
            Fail("no: Operation not permitted"),
        ),
        (
            "perl -e 'use Socket; socketpair(A, B, AF_UNIX, SOCK_DGRAM, 0) or die \"no: $!\"'",
            Fail("no: Operation not permitted"),
        ),
        (
            "perl -e 'use Socket; for (AF_INET, 10, 16, 17) { socket(S, $_, SOCK_DGRAM, 0) and print \"got $_\" } print \"none\"'",
            Say("\"none\""),
        ),
        (
            "perl -e 'use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; print \"a pair\"'",
            Say("a pair"),
        ),
        (
            "perl -e '$x = \"x\"; ioctl(STDIN, 0x5412, $x) or die \"no: $!\"'",
            Fail("no: Operation not permitted"),
        ),
        ("kill -9 -1; echo still here", Say("still here")),
        ("kill -9 $PPID; kill -9 1; echo still here", Say("still here")),
        // What does not end.
        ("setsid -f sleep MARK; setsid sleep MARK & disown; echo left", Say("left")),
        (
            "perl -e 'use POSIX; if (!fork) { setsid(); if (!fork) { exec \"sleep\", \"MARK\" } exit } wait; print \"twice\"'",
            Say("twice"),
        ),
        ("for n in $(seq 1500); do sleep MARK & done; wait", Fail("")),
        ("yes | head -c 3000000", Say("bytes are left out here")),
        ("echo [$MY_PASSWORD]", Say("[]")),
        // A library that is loaded before all others is held as they are.
        (
            "echo '#include <stdio.h>\n__attribute__((constructor)) static void e(void) \
             { puts(\"loaded\"); fflush(stdout); if (!fopen(\"OUT/new.txt\", \"w\")) perror(\"no\"); }' > evil.c && \
             cc -shared -fPIC -o evil.so evil.c && LD_PRELOAD=$PWD/evil.so cat a.txt",
            Say("loaded\\nno: Read-only file system\\nalpha"),
        ),
    ];
    if cfg!(target_arch = "x86_64") {
        attacks.extend([
            (
                "perl -e 'syscall(101, 16, getppid()) == 0 or die \"no: $!\"'",
                Fail("no: Operation not permitted"),
            ), // ptrace
            ("perl -e 'syscall(425, 8, 0) >= 0 or die \"no: $!\"'", Fail("no: Operation not permitted")), // io_uring_setup
            ("perl -e 'syscall(250, 0, 0) >= 0 or die \"no: $!\"'", Fail("no: Operation not permitted")), // keyctl
            ("perl -e 'syscall(321, 0, 0, 0) >= 0 or die \"no: $!\"'", Fail("no: Operation not permitted")), // bpf
            (
                "perl -e 'syscall(0x40000000 + 41, 2, 1, 0) >= 0 or die \"no: $!\"'",
                Fail("no: Operation not permitted"),
            ), // x32
            ("perl -e 'syscall(435, 0, 0) >= 0 or die \"no: $!\"'", Fail("no: Function not implemented")), // clone3
        ]);
    }
    attacks
}

fn check(world: &World, attacks: &[(&str, Must)], wrap: &[&str]) {
    let inputs: Vec<Value> =
        attacks.iter().map(|(command, _)| json!({"command": world.fill(command), "timeout_s": 20})).collect();
    let results = world.calls(&inputs, wrap);
    assert_eq!(results.len(), attacks.len());
    let mut wrong = Vec::new();
    for ((command, must), (status, text)) in attacks.iter().zip(&results) {
        let right = match must {
            Fail(with) => status == "failed" && text.contains(with),
            Say(what) => status == "done" && text.contains(what),
        };
        if !right || text.contains(SECRET) {
            wrong.push(format!("{command}\n    {status}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), attacks.len(), wrong.join("\n"));
    world.assert_untouched();
}

#[test]
fn every_attack_is_refused_or_stays_without_effect() {
    check(&World::new(), &attacks(), &[]);
}

/// On systems without namespaces, Landlock alone protects: nothing can be created beside protected files.
#[test]
fn without_namespaces_everything_is_held_that_was_there() {
    let attacks = [
        ("echo x > sub/new.txt && cat sub/new.txt a.txt", Say("alpha")),
        ("echo x >> a.txt && echo x > $TMPDIR/x && echo fine", Say("fine")),
        ("echo x > beside.txt", Fail("Permission denied")),
        ("echo x > OUT/new.txt", Fail("Permission denied")),
        ("echo x >> OUT/keep.txt", Fail("Permission denied")),
        ("truncate -s 0 OUT/keep.txt", Fail("Permission denied")),
        ("rm -f OUT/keep.txt", Fail("Permission denied")),
        ("mv a.txt OUT/a.txt", Fail("Permission denied")),
        ("mkdir OUT/folder", Fail("Permission denied")),
        ("ln OUT/keep.txt sub/linked && echo x > sub/linked", Fail("")),
        ("chmod 777 OUT", Fail("Operation not permitted")),
        ("chmod o+w HOME_/.ssh", Fail("Operation not permitted")),
        ("chmod 4755 OUT/keep.txt", Fail("Operation not permitted")),
        ("chmod g+s OUT", Fail("Operation not permitted")),
        ("chown $(id -u):$(id -g) OUT/keep.txt", Fail("Operation not permitted")),
        ("chown -h $(id -u):$(id -g) OUT/keep.txt", Fail("Operation not permitted")),
        ("chmod 700 a.txt && touch -d 2001-01-01 a.txt && chmod 644 a.txt && echo changed", Say("changed")),
        ("cat HOME_/.ssh/id_test", Fail("Permission denied")),
        ("cat DATA/token", Fail("Permission denied")),
        ("echo x > .git/hooks/pre-commit", Fail("Permission denied")),
        ("echo x >> .git/config", Fail("Permission denied")),
        ("mv .git sub/git", Fail("")),
        ("ln .git/config sub/linked && echo x > sub/linked", Fail("")),
        ("cat /proc/$PPID/environ; echo the end", Say("the end")),
        ("exec 3<>/dev/tcp/127.0.0.1/PORT", Fail("")),
        ("setsid -f sleep MARK; setsid sleep MARK & disown; echo left", Say("left")),
        (
            "perl -e 'use POSIX; if (!fork) { setsid(); if (!fork) { exec \"sleep\", \"MARK\" } exit } wait; print \"twice\"'",
            Say("twice"),
        ),
    ];
    check(&World::new(), &attacks, &NO_NAMESPACES);
    if cfg!(target_arch = "x86_64") {
        // Attributes, and with them access lists: setxattr, removexattr, and the newer ways to say the same.
        let attacks = [188, 189, 197, 198, 463, 466, 469].map(|call| {
            let name = if call > 400 { "-100, $o, 0" } else { "$o" };
            format!(
                "perl -e '$o = \"OUT\"; $n = \"user.x\"; $v = \"x\"; syscall({call}, {name}, $n, $v, 1, 0) >= 0 or die \"no: $!\"'"
            )
        });
        let attacks: Vec<_> =
            attacks.iter().map(|attack| (attack.as_str(), Fail("no: Operation not permitted"))).collect();
        check(&World::new(), &attacks, &NO_NAMESPACES);
    }
}

/// File modes without read permission do not hide a file. They have no effect on root.
#[test]
fn a_folder_that_is_closed_hides_nothing() {
    let attacks = [
        ("mkdir sub/a && echo x > sub/a/.envrc && chmod 111 sub/a", Fail("sub/a/.envrc.not-trusted")),
        ("mkdir sub/b && echo x > sub/b/.envrc && chmod 555 sub/b", Fail("sub/b/.envrc.not-trusted")),
        ("mkdir -p sub/c/d && echo x > sub/c/d/.envrc && chmod 0 sub/c", Fail("sub/c/d/.envrc.not-trusted")),
    ];
    check(&World::new(), &attacks, &["unshare", "-U", "--map-user=1000", "--map-group=1000"]);
}

/// Paths that are not protected by name, but lead to protected ones or are mistaken for them. Each attack has a workspace
/// of its own, because some change it. Afterwards git must run nothing.
#[test]
fn files_that_git_would_run_are_disarmed() {
    let bare = "mkdir -p objects refs/heads; echo ref: refs/heads/main > HEAD; \
                printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=\"touch OUT/owned; false\"\\n' > config";
    let in_sub = format!("cd sub; {bare}");
    let link = "mkdir tools; mv hookdir tools/hooks; ln -sfn tools/hooks .husky";
    let moved = "mv tools t2; mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit";
    let attacks: [(&str, &str, Must); 9] = [
        ("rm -r .git", bare, Fail("`HEAD.not-trusted`")),
        ("", &in_sub, Fail("`sub/HEAD.not-trusted`")),
        (link, moved, Fail("`.husky.not-trusted`")),
        ("", "mv hookdir h2; mkdir hookdir; echo evil > hookdir/pre-commit", Fail("ead-only file system")),
        ("", "echo evil > hookdir/pre-commit", Fail("ead-only file system")),
        ("rm .husky; ln -s notes.txt .envrc", "echo evil > notes.txt", Fail("`.envrc.not-trusted`")),
        (
            "mkdir -p a/b; mv .git a/b/g; ln -s a/b/g .git",
            "mv a c; mkdir -p a/b/g",
            Fail("`.git.not-trusted`"),
        ),
        ("mv .git own; echo gitdir: ./own > .git", "echo evil >> own/config", Fail("ead-only file system")),
        (
            "echo '[core] hooksPath = tools/hooks' > .git/config",
            "mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit",
            Fail("`tools/hooks.not-trusted`"),
        ),
    ];
    for (before, command, must) in attacks {
        let world = World::new();
        let prepared = Command::new("sh").args(["-ec", before]).current_dir(world.env.path("w")).status();
        assert!(prepared.unwrap().success(), "{before}");
        let results = world.calls(&[json!({"command": world.fill(command)})], &[]);
        let Fail(with) = must else { unreachable!("all of them fail") };
        assert!(results[0].0 == "failed" && results[0].1.contains(with), "{command}: {results:?}");
        for folder in ["w", "w/sub"] {
            let git = Command::new("git").arg("status").current_dir(world.env.path(folder)).output();
            if git.is_err() {
                eprintln!("NOT CHECKED: there is no `git` here, so none looked at what was left");
            }
        }
        assert!(!world.env.path("outside/owned").exists(), "{command}");
        assert_eq!(world.left_running(), [] as [String; 0]);
    }
}

/// A process that looks all the time, such as a prompt with `git status`, sees the file only for a moment.
#[test]
fn a_protected_place_is_gone_while_the_command_still_runs() {
    for (background, wrap) in [(false, &[][..]), (true, &[]), (true, &NO_WATCHES)] {
        let world = World::new();
        let make = "mkdir -p sub/.git new/deep; echo x > .envrc; echo x > new/deep/.mcp.json; rm .husky; \
                    ln -s a.txt .husky; cd new; mkdir objects refs; echo x > HEAD; cd ..; touch begun; sleep MARK";
        let calls = [
            json!({"command": world.fill(make), "background": background, "timeout_s": 5}),
            json!({"command": world.fill("sleep MARK"), "timeout_s": 5}),
        ];
        let script = |call: &Value| format!("          - call: {{ tool: bash, input: {call} }}\n");
        let script = format!(
            "format: 1\nlanes:\n  - lane: main\n    match: {{ any: true }}\n    turns:\n      - reply:\n{}",
            calls.iter().map(script).collect::<String>()
        );
        world.env.write("script.yaml", &script);
        let mut run = world.offshoot(&["run", "--script", "../script.yaml", "go"], wrap).spawn().unwrap();
        until(|| world.env.path("w/begun").exists());
        let armed = ["sub/.git", ".envrc", "new/deep/.mcp.json", ".husky", "new/HEAD"];
        let gone = |name: &&str| std::fs::symlink_metadata(world.env.path("w").join(name)).is_err();
        until(|| armed.iter().all(gone));
        assert!(!world.left_running().is_empty(), "the command still runs");
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(world.env.path("w/new/HEAD.not-trusted").exists());
        until(|| world.left_running().is_empty());
    }
}

/// A process that creates it again and again could succeed once, and is ended.
#[test]
fn a_command_that_insists_is_ended() {
    let world = World::new();
    let insist = "while :; do rm -rf .envrc; echo x > .envrc; : MARK; done";
    let results = world.calls(&[json!({"command": world.fill(insist), "timeout_s": 20})], &[]);
    assert!(results[0].1.contains("kept creating protected places and was ended"), "{results:?}");
    world.assert_untouched();
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let world = World::new();
    let command = world.fill("echo begun; setsid sleep MARK & sleep MARK");
    let results = world.calls(&[json!({"command": command, "timeout_s": 1})], &[]);
    let (status, text) = &results[0];
    assert_eq!(status, "failed");
    assert!(text.contains("took longer than 1 s and was ended") && text.contains("begun"), "{text}");
    world.assert_untouched();
}

/// Many that want all of the time there is do not keep anybody from ending them.
#[test]
fn a_crowd_is_ended_in_time() {
    for wrap in [&[][..], &NO_NAMESPACES] {
        let world = World::new();
        let crowd = world.fill("for n in $(seq 700); do (: MARK; while :; do :; done) & done; wait");
        let began = std::time::Instant::now();
        let results = world.calls(&[json!({"command": crowd, "timeout_s": 2})], wrap);
        assert!(results[0].1.contains("took longer than 2 s and was ended"), "{results:?}");
        assert!(began.elapsed().as_secs() < 8, "{:?}", began.elapsed());
        assert_eq!(world.left_running(), [] as [String; 0]);
    }
}

/// A process bomb is limited in number, if the system supports that per namespace (Linux 6.14). Do not run this as root
/// elsewhere.
#[test]
fn a_bomb_is_held_and_ended_in_time() {
    let world = World::new();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut release = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    if (release.next(), release.next()) < (Some(6), Some(14)) {
        eprintln!(
            "NOT CHECKED: before Linux 6.14 nothing holds the processes of root, so no bomb was set off"
        );
        return;
    }
    let most = world.calls(&[json!({"command": "cat /proc/sys/kernel/pid_max"})], &[]);
    assert!(most[0].1.contains("4000"), "{most:?}");
    let began = std::time::Instant::now();
    let bomb = world.fill("b() { : MARK; b | b & }; b; sleep 60");
    let results = world.calls(&[json!({"command": bomb, "timeout_s": 8})], &[]);
    assert!(results[0].1.contains("and was ended"), "{results:?}");
    assert!(began.elapsed().as_secs() < 14, "{:?}", began.elapsed());
    assert_eq!(world.left_running(), [] as [String; 0]);
    let ours = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    assert_ne!(ours, "4000\n", "the system is as it was");
}

/// The user's HOME may be a link, and so may what is in it.
#[test]
fn a_home_that_is_a_link_is_hidden_where_it_is() {
    let world = World::new();
    let (home, work) = (world.env.path("link"), world.env.path("home"));
    std::os::unix::fs::symlink("home", &home).unwrap();
    world.env.write(
        "script.yaml",
        "format: 1\nlanes:\n  - lane: main\n    match: { any: true }\n    turns:\n      - reply: [ { call: { tool: bash, input: { command: 'cat .ssh/id_test .netrc; chmod 777 .ssh .netrc; ls' } } } ]\n      - reply: [ { text: done } ]\n",
    );
    let mut run = world.offshoot(&["run", "--script", "../script.yaml", "--json", "look"], &[]);
    let said = CommandOutput::of(run.current_dir(work).env("HOME", home).output().unwrap());
    assert!(said.stdout.contains("Permission denied") && !said.stdout.contains(SECRET), "{said:?}");
    assert!(said.stdout.contains("chmod: changing permissions of '.ssh': Read-only"), "{said:?}");
    world.assert_untouched();
}

#[test]
fn without_namespaces_it_is_ended_too() {
    let world = World::new();
    let command = world
        .fill("setsid sleep MARK & perl -e 'fork; fork; exec \"setsid\", \"sleep\", \"MARK\"' & sleep MARK");
    let results = world.calls(&[json!({"command": command, "timeout_s": 1})], &NO_NAMESPACES);
    assert!(results[0].1.contains("took longer than 1 s and was ended"), "{results:?}");
    world.assert_untouched();
}

#[test]
fn background_commands_end_with_the_run() {
    let world = World::new();
    let wait = "for n in $(seq 100); do cat $TMPDIR/p*.log | grep -q ready && break; sleep 0.1; done; cat $TMPDIR/p*.log";
    let results = world.calls(
        &[
            json!({"command": world.fill("echo ready; touch made.txt; exec sleep MARK"), "background": true}),
            json!({"command": wait}),
        ],
        &[],
    );
    assert!(results[0].1.contains("runs in the background"), "{results:?}");
    assert!(results[1].1.contains("ready"), "{results:?}");
    assert!(world.env.path("w/made.txt").exists());
    world.assert_untouched();
}

/// Both watchers are notified, whichever sees it first, and no call is blamed for the work of another.
#[test]
fn protected_files_made_by_background_commands_are_reported() {
    let world = World::new();
    let make = "mkdir -p sub/.git; echo x > .envrc; exec sleep MARK";
    let wait = "until [ -e .envrc.not-trusted ] && [ -e sub/.git.not-trusted ]; do sleep 0.1; done";
    let (results, told) = world.calls_and_words(
        &[json!({"command": world.fill(make), "background": true}), json!({"command": wait})],
        &[],
    );
    let said: String = results.iter().map(|(_, text)| text.as_str()).collect();
    for made in ["`.envrc` is a protected place", "`sub/.git` is a protected place"] {
        assert!(said.contains(made), "{results:?}");
        let by_itself = |text: &str| text.contains(&format!("in the background: {made}"));
        assert!(by_itself(&said) || said.contains("a background command may have created it"), "{said}");
        assert!(told.contains(made) || told.contains("✗ bash failed"), "{told}");
    }
    world.assert_untouched();
}

/// A hard link is the file itself: what is protected is held under its other names, too.
#[test]
fn another_name_of_a_protected_file_cannot_be_written() {
    for wrap in [&[][..], &NO_NAMESPACES] {
        let world = World::new();
        std::fs::hard_link(world.env.path("w/.git/config"), world.env.path("w/sub/twin")).unwrap();
        let attacks = [
            "echo evil >> sub/twin",
            "chmod 666 sub/twin && echo evil > sub/twin",
            "mv sub/twin t && echo evil >> t",
            "ln sub/twin t && echo evil >> t",
            "mv sub s && echo evil >> s/twin",
            "truncate -s 0 sub/twin",
        ];
        let results = world.calls(&attacks.map(|command| json!({ "command": command })), wrap);
        for ((status, text), attack) in results.iter().zip(attacks) {
            assert_eq!(status, "failed", "{attack}: {text}");
        }
        assert_eq!(world.env.read("w/.git/config"), "[core]\n");
    }
}

/// The file for its output lies where commands can write; a link there leads us nowhere.
#[test]
fn a_log_is_not_written_through_a_link() {
    let world = World::new();
    let links = "perl -e 'symlink(\"OUT/keep.txt\", \"$ENV{TMPDIR}/p$_.log\") for 1..4096'";
    let background = json!({"command": "echo owned", "background": true});
    // Among processes of its own the next number is a small one, and every small one has its link.
    let wrap = ["unshare", "-Urpf", "--mount-proc", "--kill-child"];
    let results = world.calls(&[json!({"command": world.fill(links)}), background], &wrap);
    assert_eq!((&*results[0].0, &*results[1].0), ("done", "failed"), "{results:?}");
    world.assert_untouched();
}

/// A run that is killed takes everything with it, also what it had in the background.
#[test]
fn nothing_outlives_a_run_that_is_killed() {
    let world = World::new();
    let script = format!(
        "format: 1\nlanes:\n  - lane: main\n    match: {{ any: true }}\n    turns:\n      - reply:\n          - call: {{ tool: bash, input: {} }}\n          - call: {{ tool: bash, input: {} }}\n",
        json!({"command": world.fill("exec sleep MARK"), "background": true}),
        json!({"command": world.fill("touch begun; setsid sleep MARK & sleep MARK")}),
    );
    world.env.write("script.yaml", &script);
    let mut run = world.offshoot(&["run", "--script", "../script.yaml", "go"], &[]).spawn().unwrap();
    until(|| world.env.path("w/begun").exists() && world.left_running().len() >= 3);
    run.kill().unwrap();
    run.wait().unwrap();
    until(|| world.left_running().is_empty());
    world.assert_untouched();
}

#[test]
fn a_cancelled_command_is_gone() {
    let world = World::new();
    let script = format!(
        "format: 1\nlanes:\n  - lane: main\n    match: {{ any: true }}\n    turns:\n      - reply:\n          - call: {{ tool: bash, input: {} }}\n",
        json!({"command": world.fill("echo x > .envrc; touch begun; setsid sleep MARK & sleep MARK")}),
    );
    world.env.write("script.yaml", &script);
    let run = world.offshoot(&["run", "--script", "../script.yaml", "go"], &[]).spawn().unwrap();
    until(|| world.env.path("w/begun").exists());
    let ps = CommandOutput::of(world.offshoot(&["ps", "--format", "json"], &[]).output().unwrap());
    let ps: Value = serde_json::from_str(&ps.stdout).unwrap();
    let id = ps["runs"][0]["run"].as_str().unwrap().to_owned();
    assert_eq!(CommandOutput::of(world.offshoot(&["cancel", &id], &[]).output().unwrap()).code, Some(0));
    let ended = CommandOutput::of(run.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    world.assert_untouched(); // the run has waited for all of it to be gone
    let shown = CommandOutput::of(world.offshoot(&["show", &id, "--format", "json"], &[]).output().unwrap());
    assert!(shown.stdout.contains("may_have_run"), "{}", shown.stdout);
}

/// On a system without Landlock nothing is run, unless the user says so.
#[test]
#[cfg(target_arch = "x86_64")]
fn without_landlock_nothing_is_run() {
    // A filter for system calls 444 to 446, which are Landlock's: they do not exist.
    let none = "$f = pack('SCCL' x 5, 0x20,0,0,0, 0x35,0,2,444, 0x25,1,0,446, 6,0,0,0x50026, 6,0,0,0x7fff0000); \
                syscall(157, 38, 1, 0, 0, 0); syscall(157, 22, 2, pack('S x6 P', 5, $f)) == 0 or die $!; exec @ARGV";
    let wrap = ["perl", "-e", none];
    let world = World::new();
    let command = json!({"command": "touch made.txt"});
    let results = world.calls(std::slice::from_ref(&command), &wrap);
    let (status, text) = &results[0];
    assert_eq!(status, "failed");
    assert!(text.contains("this system has no Landlock") && text.contains("offshoot.toml"), "{text}");
    assert!(!world.env.path("w/made.txt").exists());
    world.env.write("home/.config/offshoot/offshoot.toml", "sandbox = \"off\"\n");
    assert_eq!(world.calls(&[command], &wrap)[0].0, "done");
    assert!(world.env.path("w/made.txt").exists());
}

/// Only the user can disable the sandbox. Commands still end with their call.
#[test]
fn the_user_may_open_the_box() {
    let world = World::new();
    world.env.write("home/.config/offshoot/offshoot.toml", "sandbox = \"off\"\n");
    let command = world.fill("cat OUT/keep.txt | wc -c; setsid -f sleep MARK");
    let results = world.calls(&[json!({"command": command})], &[]);
    assert!(results[0].1.contains(&SECRET.len().to_string()), "{results:?}");
    assert_eq!(world.left_running(), [] as [String; 0]);
    world.env.write("home/.config/offshoot/offshoot.toml", "");
    world.env.write("w/offshoot.toml", "sandbox = \"off\"\n");
    let said =
        CommandOutput::of(world.offshoot(&["run", "--script", "../script.yaml", "x"], &[]).output().unwrap());
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("your own"), "{said:?}");
}

/// Polls until a condition holds. The change happens in another process, which sends no notification.
fn until(what: impl Fn() -> bool) {
    let end = std::time::Instant::now() + common::PATIENCE;
    while !what() {
        assert!(std::time::Instant::now() < end, "it never came to that");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
